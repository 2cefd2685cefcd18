#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# probectl top: its figures match what the program did; its keys do what the help says, in a
# terminal of any size; and however it ends, terminal and program are as before.
. tests/integration/lib.sh
need_attach
need tmux jq

# hits FILE PROBE: from the last table (the row without a key, which is the first); total FILE NAME:
# of pairs
hits()
{
	awk -v name="$2" '/^#/ { n = "" } $1 == name && n == "" { n = $3 } END { print n }' "$1"
}
total()
{
	hits "$1" "pairs:$2"
}

# ---- Lines ------------------------------------------------------------------------------

threads=4 requests=3000
start "$TARGETS/pairs" "$threads" "$requests"
save_state "$target_pid"
"$PROBECTL" top -p "$target_pid" -i 0.2 >"$SCRATCH/lines" 2>"$SCRATCH/err" &
top_pid=$!
on_exit "stop_process $top_pid"
wait_on "$target_pid" pairs:step__done
ask go
said=$answer
hear
sleep 0.5
kill -TERM "$top_pid"
wait "$top_pid"
same "the exit status" "$?" 0
[ ! -s "$SCRATCH/err" ] || fail "top complained: $(head -3 "$SCRATCH/err")"
same "steps" "$(total "$SCRATCH/lines" step__done)" "$(jq .steps <<<"$said")"
same "requests done" "$(total "$SCRATCH/lines" request__done)" "$(($(jq .done <<<"$said") + threads))"
same "requests failed" "$(total "$SCRATCH/lines" request__fail)" "$(jq .failed <<<"$said")"
same "requests begun" "$(total "$SCRATCH/lines" request__start)" "$((threads * requests + threads))"
grep -q '^ pairs:step__done .*[nu]s ' "$SCRATCH/lines" || fail "no latency: $(grep step__done "$SCRATCH/lines" | tail -1)"
# Every thread has begun a request that has no end.
same "in flight" "$(awk '/^#/ { n = "" } $1 == "pairs:request__done" { n = $NF } END { print n }' "$SCRATCH/lines")" "$threads"
# What threads spend in a second is at most what they have; a pair's average times their rate.
awk '
	function us(text) { return text + 0 == 0 ? 0 : text * (text ~ /ns$/ ? .001 : text ~ /us$/ ? 1 : text ~ /ms$/ ? 1e3 : 1e6) }
	/^#/ { n = 0; seconds = us($NF) / 1e6 }
	$1 == "pairs:step__done" { n = $3; average = us($6); spent = us($7) * seconds }
	END { exit !(n && average && spent > .9 * n * average && spent < 1.1 * n * average) }
' "$SCRATCH/lines" || fail "time per second: $(grep step__done "$SCRATCH/lines" | tail -1)"
grep -q ', all of ' "$SCRATCH/lines" || fail "no last table: $(grep '^#' "$SCRATCH/lines")"
same_state "$target_pid"

# A process that ends between its two sessions: its hits are shown, and the columns for how long
# its pairs took, as nobody knows whether it had any. Another one has none.
"$TARGETS/pairs" 1 0 < <(sleep 100) >/dev/null &
ending=$!
"$TARGETS/life" < <(sleep 100) >/dev/null &
other=$!
on_exit "stop_process $other $ending"
until [ "$(readlink "/proc/$other/exe")" -ef "$TARGETS/life" ] &&
	[ "$(readlink "/proc/$ending/exe")" -ef "$TARGETS/pairs" ]; do sleep 0.01; done
ENDING=$ending LD_PRELOAD=$TARGETS/libending.so "$PROBECTL" top -d 1 -p "$ending,$other" -i 0.2 >"$SCRATCH/lines" 2>"$SCRATCH/err"
wait "$ending"
same "ended in between: its status" "$?" 137
! tells_ends || grep -q "process $ending was killed" "$SCRATCH/err" || fail "ended in between: $(cat "$SCRATCH/err")"
grep -q ' PROBE .*HITS/s.* P50 .* OPEN' "$SCRATCH/lines" ||
	fail "ended in between: $(head -3 "$SCRATCH/lines")"
kill "$other"

# Output to a closed pipe, and to a full disk.
"$PROBECTL" top -p "$target_pid" -i 0.05 'pairs:*' 2>"$SCRATCH/err" | head -1 >/dev/null
same "a closed pipe" "${PIPESTATUS[0]}" 0
[ ! -s "$SCRATCH/err" ] || fail "a closed pipe: $(cat "$SCRATCH/err")"
timeout "$TEST_SECONDS" "$PROBECTL" top -p "$target_pid" -i 0.05 'pairs:*' >/dev/full 2>"$SCRATCH/err"
same "a full disk" "$?" 1
grep -q 'cannot write the output' "$SCRATCH/err" || fail "a full disk: $(cat "$SCRATCH/err")"
same "two tables" "$("$PROBECTL" top -p "$target_pid" -i 0.2 -d 0.3 | grep -c '^#')" 2
same_state "$target_pid"
tell bye
end_target 0

# top ends with the last of the processes.
cp "$TARGETS/pairs" "$SCRATCH/pairs-$$"
start "$SCRATCH/pairs-$$" 1 10
"$PROBECTL" top --name "pairs-$$" -i 30 >"$SCRATCH/lines" 2>"$SCRATCH/err" &
top_pid=$!
on_exit "stop_process $top_pid"
wait_on "$target_pid" pairs:step__done
ask go
hear
tell bye
end_target 0
wait "$top_pid"
same "the status when the process has ended" "$?" 0
grep -q "process $target_pid has ended" "$SCRATCH/err" || fail "the end is not told: $(cat "$SCRATCH/err")"
same "what it did until then" "$(total "$SCRATCH/lines" request__start)" 11

# -f: only some hits.
for filter in '== 0' '!= 0'; do
	start "$SCRATCH/pairs-$$" 1 10
	"$PROBECTL" top -p "$target_pid" -f "pid $filter" -i 30 >"$SCRATCH/lines" 2>"$SCRATCH/err" &
	top_pid=$!
	on_exit "stop_process $top_pid"
	wait_on "$target_pid" pairs:step__done
	ask go
	hear
	tell bye
	end_target 0
	wait "$top_pid"
	[ "$filter" = '== 0' ] && none=$(total "$SCRATCH/lines" request__start)
done
same "hits with pid == 0, and pid != 0" "${none:-0} $(total "$SCRATCH/lines" request__start)" "0 11"
"$PROBECTL" top -p $$ -f 'pdi(' >"$SCRATCH/out" 2>"$SCRATCH/err"
same "a wrong filter" "$? $(grep -c "the filter 'pdi('" "$SCRATCH/err")" "2 1"

# -k: a row for each key beside the probe's own, also of processes that have ended.
start "$SCRATCH/pairs-$$" 2 50
"$PROBECTL" top -p "$target_pid" -k arg0 -i 30 --top 0 'pairs:step__*' >"$SCRATCH/lines" 2>"$SCRATCH/err" &
top_pid=$!
on_exit "stop_process $top_pid"
# There are two sessions: of probes, and of keys.
while [ "$("$PROBECTL" status --json -p "$target_pid" | jq -s 'map(.refcount) | min')" != 2 ]; do
	pause
done
ask go
said=$answer
hear
tell bye
end_target 0
wait "$top_pid"
same "the status with keys" "$?" 0
# The fields are name, key if there is one, rate, total.
same "all keys, and key by key" "$(awk '$1 == "pairs:step__start" {
		if (NF == 3) { all = $3 } else { n += $4; rows++ }
	} END { print all, n, (rows > 1) }' "$SCRATCH/lines")" \
	"$(jq -r '"\(.steps) \(.steps) 1"' <<<"$said")"
"$PROBECTL" top -p $$ -k 'pdi(' >"$SCRATCH/out" 2>"$SCRATCH/err"
same "a wrong key" "$?" 2

# ---- What happens later -------------------------------------------------------------------

# top_lines ARGS…: in the background, until the target has ended; returns once it has begun
top_lines()
{
	: >"$SCRATCH/lines"
	"$PROBECTL" top -i 0.1 -p "$target_pid" "$@" >"$SCRATCH/lines" 2>"$SCRATCH/err" &
	top_pid=$!
	on_exit "stop_process $top_pid"
	while [ ! -s "$SCRATCH/lines" ]; do
		pause
	done
}
# top_told [MESSAGE]…: it has ended with these messages, and the one about the target's end
top_told()
{
	wait "$top_pid"
	same "line ${BASH_LINENO[0]}: the status" "$?" 0
	same "line ${BASH_LINENO[0]}: what is told" \
		"$(sed "s/first [0-9]* ms/first N ms/; s/ $target_pid / PID /" "$SCRATCH/err")" \
		"$(printf 'probectl: %s\n' "$@" 'process PID has ended')"
}

# A library with its constructor; unloaded, and loaded again.
plugin=$TARGETS/libctor_plugin.so
start "$TARGETS/life"
top_lines --follow
for ((i = 0; i < 2; i++)); do
	ask "open $plugin"
	same "the library" "$answer" opened
	ask close
done
# The pages to which the library's sites jumped are gone: tables come with a look at its memory.
tables=$(grep -c '^#' "$SCRATCH/lines")
while (($(grep -c '^#' "$SCRATCH/lines") < tables + 3)); do
	kill -0 "$top_pid" 2>/dev/null || break
	pause
done
ask "hit 3"
tell quit
end_target 0
top_told
same "hits of its constructors" "$(hits "$SCRATCH/lines" ctor:construct)" 2
same "hits of the library" "$(hits "$SCRATCH/lines" ctor:plugin)" 2
same "hits of the program" "$(hits "$SCRATCH/lines" life:hit)" 3

# A probe that was removed is reported as such, and the status says that something is missing.
for signal in KILL SEGV; do
	start "$SCRATCH/pairs-$$" 1 10
	top_lines 'pairs:*' # when it prints, it has begun, unlike when a site is patched
	kill -$signal "$target_pid"
	wait "$target_pid" 2>/dev/null # its end is known for so long as nobody has waited for it
	wait "$top_pid"
	status=$?
	if grep -q "was killed" "$SCRATCH/err"; then
		same "SIG$signal: status" $status "$([ $signal = KILL ] && echo 1 || echo 0)"
		same "SIG$signal: said" "$(grep 'process' "$SCRATCH/err")" \
			"probectl: process $target_pid was killed by SIG$signal"
	else
		# Before Linux 6.15 this is no longer known.
		grep -q "process $target_pid has ended" "$SCRATCH/err" ||
			fail "SIG$signal: not told: $(cat "$SCRATCH/err")"
	fi
done

# A probe that does not exist yet is waited for; one that never appears is reported.
start "$TARGETS/life"
top_lines --follow ctor:plugin life:never
ask "open $plugin"
tell quit
end_target 0
wait "$top_pid"
same "the status with a probe that was waited for" "$?" 0
grep -q 'ctor:plugin matches no probe; waiting' "$SCRATCH/err" || fail "no wait: $(cat "$SCRATCH/err")"
grep -q 'life:never matched no probe' "$SCRATCH/err" || fail "not told: $(cat "$SCRATCH/err")"
same "hits of what was waited for" "$(hits "$SCRATCH/lines" ctor:plugin)" 1

# Children and grandchildren, and what they start; without --follow only the process.
for follow in "" --follow; do
	start "$TARGETS/fork" 3 500
	# shellcheck disable=SC2086 # none, or one
	top_lines $follow
	ask go
	same "the children" "$answer" "parent 1500 children 3500"
	hear
	tell go
	end_target 0
	top_told
	same "hits with '$follow'" "$(hits "$SCRATCH/lines" fork:hit)" "$([ "$follow" ] && echo 5000 || echo 1500)"
done

# The process executes another program; without --follow, this is noticed later.
for follow in "" --follow; do
	start "$TARGETS/launch" wait "$TARGETS/world"
	# shellcheck disable=SC2086
	top_lines $follow
	ask go
	wait_on "$target_pid" world:hit
	ask "hit 5"
	tell quit
	end_target 0
	if [ "$follow" ]; then
		top_told
	else
		top_told 'process PID has become another program; hits of its first N ms are not counted'
	fi
	same "hits of what it was" "$(hits "$SCRATCH/lines" launch:go)" 1
	same "hits of what it is" "$(hits "$SCRATCH/lines" world:hit)" 5
done

# usage MESSAGE ARGS…
usage()
{
	local message=$1
	shift
	"$PROBECTL" top "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "top $*" "$?" 2
	grep -q -- "$message" "$SCRATCH/err" || fail "top $*: $(cat "$SCRATCH/err")"
}
usage 'no process given' 'pairs:*'
usage 'use rate' -p $$ --sort size
usage 'give -k EXPR, too' -p $$ --keys 10
usage 'at most 4 keys' -p $$ -k tid -k cpu -k pid -k arg0 -k arg1
usage 'at least 10 ms' -p $$ -i 1ms
usage 'not both' -p $$ -- true
usage 'no program given' --
usage 'exclude each other' --follow --no-follow -- true
"$PROBECTL" top -p $$ >"$SCRATCH/out" 2>"$SCRATCH/err"
same "a process without probes" "$?" 1
grep -q "no probe" "$SCRATCH/err" || fail "a process without probes: $(cat "$SCRATCH/err")"

# ---- A program of our own -----------------------------------------------------------------

# ran STATUS ARGS…: `top ARGS` ends with that status
ran()
{
	local status=$1
	shift
	"$PROBECTL" top -i 1000 "$@" >"$SCRATCH/lines" 2>"$SCRATCH/err" </dev/null
	same "top $*: the status" "$?" "$status"
}
ran 0 -- "$TARGETS/ctor" "$plugin" 3
same "the program's own output" "$(grep -v '^#' "$SCRATCH/lines" | grep '^done')" "done 4"
same "constructors, from the first on" "$(hits "$SCRATCH/lines" ctor:construct)" 5
same "a library of the program" "$(hits "$SCRATCH/lines" ctor:call)" 1
same "a library that it opens" "$(hits "$SCRATCH/lines" ctor:plugin)" 3
same "what is told of it" "$(cat "$SCRATCH/err")" ""
for way in exec fork vfork spawn; do
	ran 0 loop:nop -- "$TARGETS/launch" $way "$TARGETS/loop" -s nop -n 1000
	same "hits behind $way" "$(hits "$SCRATCH/lines" loop:nop)" 1000
done
ran 0 fork:hit -- "$TARGETS/fork" 3 500
same "hits of children" "$(hits "$SCRATCH/lines" fork:hit)" 5000
ran 0 -k tid fork:hit -- "$TARGETS/fork" 3 500
same "hits by thread, of processes that have ended" \
	"$(awk '$1 == "fork:hit" && NF == 4 { n += $4; rows++ } END { print n, (rows > 3) }' "$SCRATCH/lines")" "5000 1"
# An argument's name is a key, as in trace.
ran 0 -k 'sym(type)' libstdcxx:throw -- "$TARGETS/throw_frames" 30
if ! grep -q 'no probe' "$SCRATCH/err"; then
	same "hits by the name of an argument" "$(awk '/"typeinfo for/ { n += $NF } END { print n }' "$SCRATCH/lines") $(
		cat "$SCRATCH/err")" "20 "
fi
# More keys than there is room for: all hits are in rows, the last of which has those of other keys.
ran 0 --top 0 -k arg1 loop:nop -- "$TARGETS/loop" -s nop -n 20000
same "hits with too many keys" "$(hits "$SCRATCH/lines" loop:nop)" 20000
same "those of all rows" "$(awk '$1 == "loop:nop" && NF == 4 { n += $4; other += $2 == "(other)" } END { print n, other }' \
	"$SCRATCH/lines")" "20000 1"
ran 0 --top 0 -k arg1 --keys 30000 loop:nop -- "$TARGETS/loop" -s nop -n 20000
same "rows with room for all keys, and what is told" \
	"$(awk '$1 == "loop:nop" && NF == 4' "$SCRATCH/lines" | wc -l) $(cat "$SCRATCH/err")" "20000 "
ran 0 --no-follow fork:hit -- "$TARGETS/fork" 3 500
same "hits without those of children" "$(hits "$SCRATCH/lines" fork:hit)" 1500
ran 3 loop:nop -- sh -c 'exit 3'
grep -q 'loop:nop matched no probe' "$SCRATCH/err" || fail "not told: $(cat "$SCRATCH/err")"
ran 143 loop:nop -- sh -c 'kill -TERM $$'
ran 127 loop:nop -- /nonexistent
ran 126 loop:nop -- /etc/passwd
ran 1 --no-follow loop:nop -- "$TARGETS/ctor"
ran 5 -d 0.1 loop:nop -- sh -c 'sleep 0.5; exit 5'

# Programs that have ended leave their hits, but no descriptor.
cat >"$SCRATCH/many" <<'SH'
for i in 1 2 3 4 5 6 7 8 9 10; do "$@" && "$@" && "$@" >/dev/null || exit 1; done
echo "all done"
while [ ! -e "$OVER" ]; do sleep 0.1; done
SH
OVER=$SCRATCH/over "$PROBECTL" top -i 0.1 'ctor:*' -- sh "$SCRATCH/many" "$TARGETS/ctor" \
	>"$SCRATCH/lines" 2>"$SCRATCH/err" </dev/null &
top_pid=$!
on_exit "stop_process $top_pid"
until grep -q '^all done' "$SCRATCH/lines"; do
	pause
done
while :; do
	# The shell's and a sleep's, each for two sessions and the watch.
	open=$(find "/proc/$top_pid/fd" -lname '/proc/*/mem' 2>/dev/null | wc -l)
	[ "$open" -gt 6 ] || break
	pause
done
touch "$SCRATCH/over"
wait "$top_pid"
same "the status after many programs" "$?" 0
same "hits of many programs" "$(hits "$SCRATCH/lines" ctor:main)" 30

# top passes signals on.
"$PROBECTL" top -i 0.1 loop:nop -- sh -c 'trap "exit 9" TERM; echo ready; while :; do sleep 0.1; done' \
	>"$SCRATCH/lines" 2>"$SCRATCH/err" &
top_pid=$!
on_exit "stop_process $top_pid"
until grep -q '^ready' "$SCRATCH/lines"; do
	pause
done
kill -TERM "$top_pid"
wait "$top_pid"
same "the status of a program that was told to end" "$?" 9

# ---- A terminal ---------------------------------------------------------------------------

# A shell in a terminal of 100 columns; a socket's path is limited to 107 bytes. tmux runs
# commands with $SHELL, or else the user's shell, which may refuse to run anything.
tmux_dir=$(mktemp -d /tmp/probectl-tmux.XXXXXX)
on_exit "rm -rf '$tmux_dir'"
terminal()
{
	tmux -S "$tmux_dir/socket" "$@"
}
on_exit 'terminal kill-server 2>/dev/null'
env -u TMUX SHELL=/bin/sh tmux -S "$tmux_dir/socket" -f /dev/null new-session -d -x 100 -y 20 \
	"env LC_ALL=C.UTF-8 PS1='\$ ' bash --norc --noprofile" || die "tmux does not start"

keys()
{
	terminal send-keys "$@"
}
screen()
{
	terminal capture-pane -p
}
# sees WHAT: waits until the screen shows it
sees()
{
	while :; do
		screen >"$SCRATCH/screen"
		! grep -q -- "$1" "$SCRATCH/screen" || return 0
		pause
	done
	cat "$SCRATCH/screen"
	return 1
}
# line WHAT: the first such line of the screen
line()
{
	screen | grep -m 1 -- "$1"
}
# top_start ARGS…: in the terminal, on the target
follow=
top_start()
{
	keys -l "clear; $* '$PROBECTL' top -i 0.2 $follow -p $target_pid; echo the status is \$?"
	keys Enter
	find_top "$target_pid"
}
# find_top WORD: of its command line; sets $top_pid
find_top()
{
	sees 'probectl top  ' || die "no screen"
	top_pid=$("$python" - "$1" <<'PYTHON'
import os, sys
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
    except OSError:
        continue
    if b"top" in words[:2] and sys.argv[1].encode() in words:
        print(pid)
PYTHON
	)
}
# top_ended STATUS: back in the shell, with the terminal as before
top_ended()
{
	sees "the status is $1"
	keys -l "stty -g >'$SCRATCH/stty.after'; echo it is \"written\""
	keys Enter
	sees 'it is written'
	cmp "$SCRATCH/stty.before" "$SCRATCH/stty.after" ||
		fail "line ${BASH_LINENO[0]}: the terminal is not as it was: $(diff "$SCRATCH/stty.before" "$SCRATCH/stty.after")"
}

keys -l "stty -g >'$SCRATCH/stty.before'; echo it is \"begun\""
keys Enter
sees 'it is begun'

# Counts, orders, filters, the cursor.
requests=60000
start "$TARGETS/pairs" "$threads" "$requests"
save_state "$target_pid"
top_start
sees 'probes enabled; the process was stopped for'
sees ' PROBE .*HITS/s\* .*TOTAL .*P50 .*OPEN'
keys '?'
sees 'press any key to go back'
keys x
sees ' PROBE .*HITS/s\*'
sees ' TIME/s '
keys s
sees ' TIME/s\*'
keys n
sees ' PROBE\*'
keys /
keys -l 'STEP'
sees '^filter: STEP_'
keys Enter
sees 'filter: STEP$'
same "the rows that pass" "$(screen | grep -c '^ pairs:')" 2
keys Down
sees 'in /.*/pairs$'
keys Escape
keys j
sees 'in /.*/pairs$'
keys k
keys Escape
keys Escape
sees '^ pairs:request__done'

# Disabled and enabled many times, while all threads work: nothing else is lost.
keys -l '/step__done'
keys Enter
sees 'filter: step__done'
keys Home
tell go
for ((i = 0; i < 8; i++)); do
	keys Space
	sees '^-pairs:step__done' || break
	same "sites of it that are patched" \
		"$("$PROBECTL" status -a --json -p "$target_pid" pairs:step__done | jq .patched)" 0
	keys Space
	sees '^ pairs:step__done' || break
done
same "sites of it that are patched again" \
	"$("$PROBECTL" status -a --json -p "$target_pid" pairs:step__done | jq '.patched > 0')" true
hear
said=$answer
hear
keys Escape
keys Escape
sees "^ pairs:request__start .* $((threads * requests + threads))"
sees "^ pairs:step__start .* $(jq .steps <<<"$said")"
[ "$(line '^ pairs:step__done' | awk '{ print $2 }')" -le "$(jq .steps <<<"$said")" ] ||
	fail "more steps than there were: $(line step__done)"
sees '^ pairs:job__done'

keys Escape
keys Escape
keys r
sees ' HITS/s\*'

# All visible probes.
keys O
sees ' off 7'
same "probes that are on" "$("$PROBECTL" status --json -p "$target_pid" | wc -l)" 0
same_state "$target_pid"
keys A
sees '^ pairs:job__done'
same "probes that are on again" "$("$PROBECTL" status --json -p "$target_pid" | wc -l)" 7

# Time: intervals, a pause.
keys +
sees 'every 0.5s'
keys -
keys -
sees 'every 0.1s'
keys p
sees 'paused'
keys p c
sees 'since the start'
keys c

# Any size.
for size in 1x1 2x2 7x3 20x5 300x60 40x8; do
	terminal resize-window -x "${size%x*}" -y "${size#*x}"
	sleep 0.3
	[ -d "/proc/$top_pid" ] || die "it is gone at $size"
done
sees 'pairs:job__start'
screen | awk 'length > 40 { exit 1 }' || fail "lines are longer than the screen"
terminal resize-window -x 100 -y 20
sees 'OPEN'

# Stopped and continued, as by Ctrl-Z and fg, and by a signal that cannot be caught.
keys C-z
sees Stopped
keys -l "stty -g | cmp - '$SCRATCH/stty.before' && echo it is \"the same\""
keys Enter
sees 'it is the same'
check_alive "$target_pid"
keys -l 'clear; fg'
keys Enter
sees 'probectl top  pairs'
kill -STOP "$top_pid"
sees Stopped
keys -l 'clear; fg; echo the status is $?'
keys Enter
sees 'probectl top  pairs'
keys q
top_ended 0
same_state "$target_pid"

# Other ends: Ctrl-C, a signal, a crash. The titles are coloured, unless NO_COLOR is set.
colours()
{
	terminal capture-pane -pe | grep -c $'\033\[[0-9;]*3[0-7]m.*HITS/s'
}
top_start NO_COLOR=
sees ' PROBE .*HITS/s\*'
same "coloured lines" "$(colours)" 1
keys C-c
top_ended 0
top_start NO_COLOR=1
sees ' PROBE .*HITS/s\*'
same "coloured lines with NO_COLOR" "$(colours)" 0
keys C-c
top_ended 0
same_state "$target_pid"
top_start
kill -TERM "$top_pid"
top_ended 0
same_state "$target_pid"
top_start
kill -SEGV "$top_pid"
top_ended 139
"$PROBECTL" repair -p "$target_pid" >/dev/null || fail "repair: status $?"
same_state "$target_pid"

# Keys are not delayed until the next refresh.
keys -l "clear; '$PROBECTL' top -i 1000 -p $target_pid; echo the status is \$?"
keys Enter
sees '^ pairs:request__done'
keys /
keys -l nosuch
sees '(no probe matches the filter)'
keys Escape
sees '^ pairs:request__done'
keys q
top_ended 0

# Without UTF-8, truncated text ends in dots.
terminal resize-window -x 30 -y 8
top_start LC_ALL=C
sees '^ pairs:..*\.\..*'
! screen | grep -q '[^ -~]' || fail "not ASCII: $(screen | grep '[^ -~]')"
terminal resize-window -x 100 -y 20

# The process ends: the table stays, with a message.
tell bye
end_target 0
sees "process $target_pid has ended"
sees 'all of'
top_ended 0

# A disabled probe is also disabled in a library that is opened later: it is a new library each
# time.
start "$TARGETS/life"
save_state "$target_pid"
follow=--follow
top_start
follow=
ask "open $plugin"
sees '^ ctor:plugin .* 1$'
keys O
sees ' off 3'
ask close
ask "open $plugin"
while [ -n "$("$PROBECTL" status --json -p "$target_pid" 2>/dev/null)" ]; do
	pause
done
same "probes that are on in the library" "$("$PROBECTL" status --json -p "$target_pid" 2>/dev/null)" ""
keys A
sees '^ ctor:plugin'
same "sites in the library that are patched again" \
	"$("$PROBECTL" status --json -p "$target_pid" ctor:plugin | jq '.patched > 0')" true
tell quit
end_target 0
sees "process $target_pid has ended"
top_ended 0

# Rows with keys (of the only thread): switched with their probe, whose row stays.
start "$TARGETS/life"
save_state "$target_pid"
follow='-k tid'
top_start
follow=
ask "hit 3"
sees "^ life:hit $target_pid .* 3$"
keys -l "/ $target_pid"
keys Enter Home Space
sees "^-life:hit $target_pid "
ask "hit 2"
keys Space
sees "^ life:hit $target_pid "
ask "hit 1"
sees "^ life:hit $target_pid .* 4$"
keys Escape Escape
sees '^ life:hit  .* 4$'
keys q
top_ended 0
same_state "$target_pid"
tell quit
end_target 0

# The output of our own program appears once the screen is gone, and the program gets no input.
cat >"$SCRATCH/speaker" <<'SH'
#!/bin/sh
echo hello
echo oops >&2
read -r line || echo no input
while [ ! -e "$1" ]; do sleep 0.1; done
echo later
exit 7
SH
chmod 755 "$SCRATCH/speaker"
# speaker_start FILE: runs until the file exists
speaker_start()
{
	rm -f "$1"
	keys -l "clear; '$PROBECTL' top -i 0.2 -- '$SCRATCH/speaker' '$1'; echo the status is \$?"
	keys Enter
	find_top "$1"
	sees ' PROBE .*HITS/s\*'
	! screen | grep -E 'hello|oops|no input' || fail "the program writes on the screen"
}
speaker_start "$SCRATCH/ended"
touch "$SCRATCH/ended"
top_ended 7
same "what it has written, and the table" \
	"$(screen | grep -oE '^(hello|oops|no input|later)$|, all of' | paste -sd' ')" "hello oops no input later , all of"
! screen | grep 'probes enabled' || fail "what was said on the screen is said again"

# Without top, it continues; top waits for it.
speaker_start "$SCRATCH/left"
keys q
sees 'all of'
same "what it had written before" "$(screen | grep -oE '^(hello|oops|no input|later)$' | paste -sd' ')" "hello oops no input"
touch "$SCRATCH/left"
top_ended 7
sees '^later$'

# Ctrl-C reaches both.
speaker_start "$SCRATCH/interrupted"
keys C-c
top_ended 130

# Killing top does not harm it.
speaker_start "$SCRATCH/killed"
read -r speaker _ <"/proc/$top_pid/task/$top_pid/children"
kill -KILL "$top_pid"
sees 'the status is 137'
check_alive "$speaker"
touch "$SCRATCH/killed"
while [ -d "/proc/$speaker" ]; do
	pause
done
keys -l "stty sane; clear; printf '\\033[?1049l\\033[?7h\\033[?25h'"
keys Enter

# A terminal that accepts no output does not keep top from ending, and still gets the end.
start "$TARGETS/pairs" 1 1
save_state "$target_pid"
env TERM=xterm "$python" - "$PROBECTL" "$target_pid" "$TEST_SECONDS" <<'PYTHON' >"$SCRATCH/out" || fail "a stalled terminal: $(cat "$SCRATCH/out")"
import fcntl, os, pty, select, signal, struct, sys, termios, time
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], ["probectl", "top", "-i", "0.02", "-p", sys.argv[2]])
select.select([fd], [], [])
deadline = time.monotonic() + int(sys.argv[3])
# A resize redraws everything; earlier output stays in place while there is room.
for rows in range(20, 220):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 200, 0, 0))
    time.sleep(0.005)
os.kill(pid, signal.SIGTERM)
while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
    if time.monotonic() > deadline:
        os.kill(pid, signal.SIGKILL)
        sys.exit("it does not end")
    time.sleep(0.05)
if os.waitstatus_to_exitcode(ended[1]):
    sys.exit(f"its status is {ended[1]}")
data = b""
while select.select([fd], [], [], 0.2)[0]:
    try:
        piece = os.read(fd, 65536)
    except OSError:
        break
    if not piece:
        break
    data += piece
if not data.endswith(b"\x1b[?1049l"):
    sys.exit(f"the last that it wrote is {data[-80:]}")
PYTHON
same_state "$target_pid"

# The terminal goes away.
top_start
terminal kill-server
while [ -d "/proc/$top_pid" ]; do
	pause
done
same_state "$target_pid"
end_process "$target_pid"
finish
