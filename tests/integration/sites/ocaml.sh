#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The OCaml protocol: one byte at site + 1, and two counts in the semaphore. Handlers are switched
# by us and by OCaml's own tool (ocaml_probes.py), and the sites are traced meanwhile.
. tests/integration/lib.sh
[ "$(uname -m)" = x86_64 ] || skip "OCaml has its protocol on x86-64 alone"
need_attach
need jq readelf

start "$TARGETS/ocaml"
save_state "$target_pid"

# state WHAT HITS SEMAPHORES: the handlers' counts and the fourteen semaphores
state()
{
	ask print
	same "$1" "$answer" "hits $2 semaphores $3"
}

switch()
{
	"$PROBECTL" "$1" -p "$target_pid" "${@:2}" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "$*: status $?: $(cat "$SCRATCH/err")"
}

# theirs ACTION WANTED NAME…: OCaml's own tool
theirs()
{
	same "ocaml-probes $1 ${*:3}" \
		"$("$python" "$integration/sites/ocaml_probes.py" "$1" "$target_pid" "${@:3}" 2>&1)" "$2"
}

# refuse PATTERN COMMAND…: fails with that message, and changes nothing
refuse()
{
	"$PROBECTL" "${@:2}" >"$SCRATCH/out" 2>"$SCRATCH/err" && fail "${*:2} did not fail"
	grep -q "$1" "$SCRATCH/err" || fail "${*:2}: $(cat "$SCRATCH/err")"
}

off="0 0 0 0 0 0 0 0 0 0 0 0 0 0"
state "at first" "0 0 0 0 0 0" "$off"
ask hit
state "off" "0 0 0 0 0 0" "$off"

# The provider `ocaml` counts at +0, the others at +2.
switch enable ocaml:plain
state "plain is on" "0 0 0 0 0 0" "1 0 0 0 0 0 0 0 0 0 0 0 0 0"
ask hit
state "plain was hit" "10 0 0 0 0 0" "1 0 0 0 0 0 0 0 0 0 0 0 0 0"
switch enable ocaml.1:dotted ocaml_1:first ocaml_2:second
state "all are on" "10 0 0 0 0 0" "1 0 0 1 0 1 0 1 0 0 0 0 0 0"
ask hit
state "all were hit" "20 10 17 10 0 0" "1 0 0 1 0 1 0 1 0 0 0 0 0 0"

# A note without a site: it has only a semaphore.
switch enable ocaml_2:only
state "the semaphore alone" "20 10 17 10 0 0" "1 0 0 1 0 1 0 1 0 1 0 0 0 0"

# Enabled twice, disabled once: still enabled.
switch enable ocaml_1:first
state "first is on twice" "20 10 17 10 0 0" "1 0 0 1 0 2 0 1 0 1 0 0 0 0"
switch disable ocaml_1:first
ask hit
state "first is on once" "30 20 34 20 0 0" "1 0 0 1 0 1 0 1 0 1 0 0 0 0"

switch disable ocaml:plain ocaml.1:dotted ocaml_1:first ocaml_2:second ocaml_2:only
state "off again" "30 20 34 20 0 0" "$off"
ask hit
state "nothing is hit" "30 20 34 20 0 0" "$off"
same_state "$target_pid"
refuse "ocaml:plain is not enabled" disable -p "$target_pid" ocaml:plain
same_state "$target_pid"

# ---- Without a stop: what changes counters alone ----------------------------------

# how COMMAND…: "not stopped", or "stopped for" some time
how()
{
	"$PROBECTL" "$1" -v -p "$target_pid" "${@:2}" | sed 's/.*; //; s/ [0-9.]* us//'
}
same "the first user" "$(how enable ocaml_1:first)" "stopped for"
same "another user" "$(how enable ocaml_1:first)" "not stopped"
theirs enable "first=3/++" first
same "one user less" "$(how disable ocaml_1:first)" "not stopped"
same "code and counters" "$(how enable ocaml_1:first ocaml:plain)" "stopped for"
same "atomically" "$(how enable --atomic ocaml_1:first)" "stopped for"
same "two users less" "$(how disable --force ocaml_1:first)" "stopped for"
same "the last user" "$(how disable ocaml:plain)" "stopped for"
# Several controllers at once: none of their counts is lost.
switch enable ocaml_1:first
for ((i = 0; i < 4; i++)); do
	for ((k = 0; k < 10; k++)); do
		"$PROBECTL" enable -q -p "$target_pid" ocaml_1:first || echo failed
		"$PROBECTL" enable -q -p "$target_pid" ocaml_1:first || echo failed
		"$PROBECTL" disable -q -p "$target_pid" ocaml_1:first || echo failed
	done >"$SCRATCH/users.$i" 2>&1 &
	users[i]=$!
done
wait "${users[@]}"
same "users at once: errors" "$(cat "$SCRATCH"/users.*)" ""
theirs state "first=41/++" first
# While another tool has the process, nothing is written.
mkfifo "$SCRATCH/end"
"$python" tests/integration/others/seize.py "$target_pid" <"$SCRATCH/end" >"$SCRATCH/seize.out" &
holder=$!
exec {end}>"$SCRATCH/end"
until grep -q seized "$SCRATCH/seize.out"; do
	pause
done
refuse "is being traced by process $holder" enable -p "$target_pid" ocaml_1:first
exec {end}>&-
wait "$holder"
theirs state "first=41/++" first
switch disable --force ocaml_1:first
same_state "$target_pid"

# ---- --force sets the state, whatever the count -----------------------------------

for ((i = 0; i < 3; i++)); do
	switch enable ocaml_1:first
done
switch enable --force ocaml_1:first
theirs state "first=1/++" first
switch disable --force ocaml_1:first
theirs state "first=0/--" first
switch disable --force ocaml_1:first
switch enable --force ocaml_1:first
theirs state "first=1/++" first
switch disable ocaml_1:first
same_state "$target_pid"

# ---- Shared with OCaml's own tool ------------------------------------------------------

# status_of PROBE: refcount, patched sites and whether it is on
status_of()
{
	"$PROBECTL" status --json -a -p "$target_pid" |
		jq -r "select(.provider + \":\" + .name == \"$1\") | \"\(.refcount) \(.patched) \(.enabled)\""
}

theirs enable "first=1/++ plain=1/+" first plain
same "what they enabled" "$(status_of ocaml_1:first)" "1 2 true"
same "what they enabled of the first version" "$(status_of ocaml:plain)" "1 1 true"
same "the list" "$("$PROBECTL" list -p "$target_pid" --json ocaml_1:first |
	jq -r '"\(.enabled) \(.refcount) \(.plan)"' | sort -u)" "true 1 toggle"
switch enable ocaml_1:first
theirs state "first=2/++" first
theirs disable "first=1/++" first
same "what both enabled, and they disabled" "$(status_of ocaml_1:first)" "1 2 true"
theirs enable "first=2/++" first
switch disable ocaml_1:first ocaml:plain
theirs state "first=1/++ plain=0/-" first plain
switch disable ocaml_1:first
theirs state "first=0/--" first
switch enable ocaml_1:first
theirs disable "first=0/--" first
refuse "ocaml_1:first is not enabled" disable -p "$target_pid" ocaml_1:first
same_state "$target_pid"

# ---- Traced --------------------------------------------------------------------------------

traced='ocaml:plain ocaml.1:dotted ocaml_1:first ocaml_2:second'

# counted WHAT: the sum of a trace that has ended, by probe
counted()
{
	jq -r '"\(.name)=\(.hits)"' "$SCRATCH/trace.out" | sort | tr '\n' ' '
}

# Handlers are switched while a trace runs, by either tool; it counts all hits.
# shellcheck disable=SC2086
trace_start trace --json -t count -p "$target_pid" $traced
wait_tracing trace
# Traced, handlers are not called, and the program is not told that they are wanted.
ask hit
state "traced alone" "30 20 34 20 0 0" "0 0 1 0 1 0 1 0 0 0 0 0 0 0"
same "plans" "$("$PROBECTL" status --json -p "$target_pid" | jq -r '.plan | keys[]' | sort -u)" before
switch enable ocaml_1:first
theirs enable "plain=1/+" plain
ask hit
state "both" "40 20 51 20 0 0" "1 0 1 0 1 1 1 0 0 0 0 0 0 0"
same "status of both" "$(status_of ocaml_1:first)" "2 2 true"
theirs disable "first=0/--" first
switch disable ocaml:plain
ask hit
state "traced alone again" "40 20 51 20 0 0" "0 0 1 0 1 0 1 0 0 0 0 0 0 0"
trace_stop trace
same "counted" "$(counted)" "dotted=30 first=51 plain=30 second=30 "
same_state "$target_pid"

# A trace begins while handlers are on, and ends before they are off. What it says of arguments is
# what they are before the handler, which does not keep them.
switch enable ocaml_1:first
theirs enable "plain=1/+" plain
# shellcheck disable=SC2086
trace_start trace --json -p "$target_pid" $traced
wait_tracing trace
ask hit
trace_stop trace
state "handlers stay" "50 20 68 20 0 0" "1 0 0 0 0 1 0 0 0 0 0 0 0 0"
theirs state "first=1/++ plain=1/+" first plain
same "arguments" "$(jq -r 'select(.name == "plain") | .args | map(tostring) | join(" ")' \
	"$SCRATCH/trace.out" | tr '\n' ',')" \
	"0 10,2 10,4 10,6 10,8 10,10 10,12 10,14 10,16 10,18 10,"
same "arguments of two sites" "$(jq -r 'select(.name == "first") | .args | map(tostring) | join(" ")' \
	"$SCRATCH/trace.out" | head -6 | tr '\n' ',')" "3 0,4 1,5 2,5 5,6 3,6 6,"
switch disable ocaml_1:first ocaml:plain
same_state "$target_pid"

# Two traces and a handler, which end in the order in which they began.
trace_start one --json -t count -p "$target_pid" ocaml_2:second
one=$tracer_pid
wait_tracing one
switch enable ocaml_2:second
trace_start trace --json -t count -p "$target_pid" ocaml_2:second
wait_tracing trace
ask hit
kill -INT "$one"
wait "$one" || fail "the first trace: status $?"
ask hit
switch disable ocaml_2:second
ask hit
trace_stop trace
same "the second trace" "$(counted)" "second=30 "
same "the first trace" "$(jq .hits "$SCRATCH/one.out")" 10
state "the handler" "50 20 68 40 0 0" "$off"
same_state "$target_pid"

# A controller that is killed leaves the handlers on; the next one takes the rest away.
switch enable ocaml_1:first
trace_start trace --json -t count -p "$target_pid" ocaml_1:first
wait_tracing trace
{ kill -KILL "$tracer_pid"; wait "$tracer_pid"; } 2>/dev/null
ask hit
"$PROBECTL" repair -p "$target_pid" >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "repair: $(cat "$SCRATCH/err")"
theirs state "first=1/++" first
switch disable ocaml_1:first
same_state "$target_pid"

# Recorded, too.
record_start record -p "$target_pid" ocaml_1:first
wait_on "$target_pid" ocaml_1:first
ask hit
record_stop record
same "recorded" "$("$PROBECTL" export --format json "$SCRATCH/record" | jq -r 'select(.name == "first") | .name' | wc -l)" 17
same_state "$target_pid"

# ---- Traced where no jump can be before the site -------------------------------------------

# A branch leads to the one, and the other is right behind it: the toggle becomes our call, whoever
# wants the handler.
trace_start trace --json -p "$target_pid" ocaml_1:loop ocaml_1:next
wait_tracing trace
same "plans of the loop" "$("$PROBECTL" status --json -p "$target_pid" | jq -r '.plan | keys[]' | sort -u)" call
ask loop
state "traced alone, in a loop" "50 20 85 40 0 0" "0 0 0 0 0 0 0 0 0 0 1 0 1 0"
switch enable ocaml_1:loop
same "their view of our call" "$("$python" "$integration/sites/ocaml_probes.py" enable "$target_pid" next | sed 's,/.*,,')" next=1
ask loop
state "both, in a loop" "50 20 85 40 3 3" "0 0 0 0 0 0 0 0 0 0 1 1 1 1"
same "status of both, in a loop" "$(status_of ocaml_1:loop)" "2 1 true"
switch disable ocaml_1:loop
switch disable ocaml_1:next
ask loop
state "traced alone again, in a loop" "50 20 85 40 3 3" "0 0 0 0 0 0 0 0 0 0 1 0 1 0"
switch enable ocaml_1:loop
trace_stop trace
theirs state "loop=1/+ next=0/-" loop next
ask loop
state "the handler stays" "50 20 85 40 6 3" "0 0 0 0 0 0 0 0 0 0 0 1 0 0"
same "hits of a loop" "$(jq -r .name "$SCRATCH/trace.out" | sort | uniq -c | awk '{ printf "%s=%s ", $2, $1 }')" \
	"loop=9 next=9 "
same "arguments in a loop" "$(jq -r 'select(.name == "loop") | .args[0]' "$SCRATCH/trace.out" | head -3 | tr '\n' ' ')" \
	"2 2 2 "

# told PROBE: waits until the trace says that hits are not counted
told()
{
	until grep -q "$1 at .* its hits are not counted" "$SCRATCH/trace.err"; do
		pause
	done
}

# trace_stop_incomplete: Ctrl-C; the exit status must be 1
trace_stop_incomplete()
{
	kill -INT "$tracer_pid"
	wait "$tracer_pid"
	same "the status of an incomplete trace" "$?" 1
}

# A trace begins while the handler is on. OCaml's tool switches it off, and our call with it, which
# is told, and repaired.
trace_start trace --json -t count -p "$target_pid" ocaml_1:loop
wait_tracing trace
ask loop
same "disabled by them" "$("$python" "$integration/sites/ocaml_probes.py" disable "$target_pid" loop)" "loop=0/-"
ask loop
told ocaml_1:loop
same "not traced" "$(status_of ocaml_1:loop)" "1 0 true"
"$PROBECTL" repair -p "$target_pid" >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "repair: $(cat "$SCRATCH/err")"
same "traced again" "$(status_of ocaml_1:loop)" "1 1 true"
ask loop
trace_stop_incomplete
state "only while it was on" "50 20 85 40 9 3" "$off"
same "counted, but for what was not traced" "$(jq 'select(.hits).hits' "$SCRATCH/trace.out")" 6
same_state "$target_pid"

# The same ends if OCaml's tool has switched the call off.
trace_start trace --json -t count -p "$target_pid" ocaml_1:next
wait_tracing trace
theirs enable "next=1/+" next
theirs disable "next=0/-" next
told ocaml_1:next
trace_stop_incomplete
same_state "$target_pid"

# Both are switched by the commands alone.
switch enable ocaml_1:loop ocaml_1:next
ask loop
state "in a loop" "50 20 85 40 12 6" "0 0 0 0 0 0 0 0 0 0 0 1 0 1"
switch disable ocaml_1:loop ocaml_1:next
same_state "$target_pid"

# ---- Several changes in one command ----------------------------------------------------

switch enable ocaml_1:first
switch enable --pair ocaml.1:dotted,ocaml_2:second ocaml:plain --disable ocaml_1:first
state "mixed" "50 20 85 40 12 6" "1 0 0 1 0 0 0 1 0 0 0 0 0 0"
switch disable '/^ocaml.1:dotted$/' --pair ocaml:plain,ocaml_2:second --enable ocaml_1:first --enable-pair ocaml_1:loop,ocaml_1:next
state "mixed again" "50 20 85 40 12 6" "0 0 0 0 0 1 0 0 0 0 0 1 0 1"
refuse "ocaml_2:second is not enabled" enable -p "$target_pid" ocaml:plain --disable-pair ocaml_1:loop,ocaml_2:second
refuse "give two PROBEs" enable -p "$target_pid" --disable-pair ocaml_1:loop
refuse "START and END are the same" enable -p "$target_pid" --pair ocaml_1:loop,ocaml_1:loop
state "all or nothing" "50 20 85 40 12 6" "0 0 0 0 0 1 0 0 0 0 0 1 0 1"
switch disable ocaml_1:first ocaml_1:loop ocaml_1:next
same_state "$target_pid"

# Somebody's breakpoint is found when the handlers are to be switched off: what was enabled before
# is off again.
byte()
{
	"$python" - "$target_pid" "$@" <<'END'
import sys

pid, address, value = sys.argv[1], int(sys.argv[2], 0), bytes([int(sys.argv[3], 0)])
with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
    memory.seek(address)
    memory.write(value)
END
}
site=$("$PROBECTL" list -p "$target_pid" --json ocaml_1:first | jq -r .address | head -1)
# A handler that is called without a user: every reader says so.
byte $((site + 1)) 0xe8
same "status of a call without a user" "$("$PROBECTL" status --json -p "$target_pid" ocaml_1:first |
	jq -r '"\(.state) \(.patched)/\(.sites) \(.inconsistent) \(.hits)"')" "inconsistent 1/2 1 null"
same "list of a call without a user" "$("$PROBECTL" list --json -p "$target_pid" ocaml_1:first |
	jq -r '"\(.enabled) \(.inconsistent)"' | sort | paste -sd,)" "false null,false true"
same "Python's list of it" "$(LIBPROBE=$BUILD/libprobe.so PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=libprobe/python "$python" -c '
import sys, probectl
print(sorted(s.inconsistent for s in probectl.list(int(sys.argv[1])) if s.name == "first"))' "$target_pid" 2>&1)" \
	"[False, True]"
byte $((site + 1)) 0x3d
switch enable ocaml_1:first
byte $((site + 1)) 0xcc
refuse "sites of ocaml_1:first cannot be switched" enable -p "$target_pid" ocaml.1:dotted --disable ocaml_1:first
byte $((site + 1)) 0xe8
state "undone" "50 20 85 40 12 6" "0 0 0 0 0 1 0 0 0 0 0 0 0 0"
theirs state "dotted=0/-" dotted
switch disable ocaml_1:first
same_state "$target_pid"

# ---- --exe ---------------------------------------------------------------------------------

exe=$TARGETS/ocaml
for line in 'enable ocaml:plain' 'disable ocaml:plain' status list repair read \
	'trace -t count -d 0.1 ocaml:plain' "record -d 0.1 -o $SCRATCH/exe ocaml:plain" 'top -d 0.1'; do
	# shellcheck disable=SC2086
	set -- $line
	refuse "process $target_pid does not run /bin/true but $exe" "$@" -p "$target_pid" --exe /bin/true
	case $1 in
	read | top) continue ;; # there is no session; there is no terminal
	esac
	"$PROBECTL" "$@" -p "$target_pid" --exe "$exe" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "$line --exe: status $?: $(cat "$SCRATCH/err")"
done
refuse "not both" trace --exe "$exe" ocaml:plain -- "$exe"
same_state "$target_pid"

tell quit
end_target
finish
