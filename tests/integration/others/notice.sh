#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
# A site whose bytes were overwritten is noticed, reported, and repaired or left alone.
. tests/integration/lib.sh
need_attach
need jq

loop=$TARGETS/loop
[ -x "$loop" ] || skip "$loop is not built"

# begin SITE: starts a program that hits loop:SITE now and then; sets pid
begin()
{
	probe=loop:$1
	"$loop" -p 100 -s "$1" -n 100000000 >/dev/null &
	pid=$!
	on_exit "end_process $pid"
	until "$python" tests/integration/poke.py "$pid" changed "$loop" >/dev/null 2>&1; do
		kill -0 "$pid" || die "$1: the program has ended"
	done
	save_state "$pid"
}

# patched: the address of the probe's patch, the file's bytes there, and the current ones
patched()
{
	# shellcheck disable=SC2046
	set -- $("$python" tests/integration/poke.py "$pid" changed "$loop")
	[ $# = 3 ] || die "$probe: not one place is patched: $*"
	address=$1 original=$2 ours=$3
}

# poke BYTES: writes as another tool would, while no thread executes there
poke()
{
	kill -STOP "$pid"
	"$python" tests/integration/poke.py "$pid" poke "$address" "$1"
	kill -CONT "$pid"
}

# state: "STATE PATCHED/SITES INCONSISTENT" from status, and ENABLED from list
state()
{
	"$PROBECTL" status --json -p "$pid" "$probe" 2>"$SCRATCH/err" |
		jq -r '"\(.state) \(.patched)/\(.sites) \(.inconsistent)"'
	"$PROBECTL" list --json -p "$pid" "$probe" | jq -r '"\(.enabled) \(.inconsistent)"'
}

still_there()
{
	kill -0 "$pid" 2>/dev/null || die "$probe: the program has ended: $1"
}

# repaired STATUS: what repair reports
repaired()
{
	local status=0
	"$PROBECTL" repair --json -p "$pid" >"$SCRATCH/out" 2>"$SCRATCH/err" || status=$?
	same "$probe: repair's status" "$status" "$1"
	jq -r '"\(.patched) \(.inconsistent) \(.sites)"' "$SCRATCH/out"
}

# With a jump after the nop, inside it, and over it.
sites=(nop nop5 nop10 pun)
[ "$(uname -m)" = x86_64 ] || sites=(nop entered)

# Another tool restores the file's bytes: this is noticed, and the site patched again.
for site in "${sites[@]}"; do
	begin "$site"
	"$PROBECTL" enable -p "$pid" "$probe" >/dev/null || fail "$probe: enable"
	patched
	same "$probe: on" "$(state)" $'on 1/1 0\ntrue null'
	poke "$original"
	same "$probe: restored" "$(state)" $'inconsistent 0/1 1\nfalse true'
	grep -q "$probe at 0x[0-9a-f]* in $loop: it holds .*as before" "$SCRATCH/err" ||
		fail "$probe: status does not name the site: $(cat "$SCRATCH/err")"
	"$PROBECTL" status -p "$pid" 2>/dev/null | grep -q "$probe *inconsistent *1 *0/1" ||
		fail "$probe: status"
	same "$probe: repair" "$(repaired 0)" "1 0 0"
	same "$probe: on again" "$(state)" $'on 1/1 0\ntrue null'
	same "$probe: the second time" "$(repaired 0)" "0 0 0"
	still_there "repaired"
	"$PROBECTL" disable -p "$pid" "$probe" >/dev/null || fail "$probe: disable"
	same_state "$pid"

	# Another tool's breakpoint: not ours to repair. Removing it would write our byte back, so what
	# our jump leads to must stay.
	"$PROBECTL" enable -p "$pid" "$probe" >/dev/null || fail "$probe: enable"
	patched
	kill -STOP "$pid"
	"$python" tests/integration/poke.py "$pid" poke "$address" "$breakpoint"
	same "$probe: covered" "$(state)" $'inconsistent 0/1 1\nfalse true'
	same "$probe: repair of what is covered" "$(repaired 1)" "0 1 0"
	grep -q "$probe at .* a breakpoint covers our jump; it is left as it is" "$SCRATCH/err" ||
		fail "$probe: repair does not say why: $(cat "$SCRATCH/err")"
	"$PROBECTL" trace -c -d 0.1 -p "$pid" "$probe" >/dev/null 2>"$SCRATCH/err"
	same "$probe: trace of what is covered" "$?" 1
	grep -q "$probe.*something else has overwritten its patch" "$SCRATCH/err" ||
		fail "$probe: refused otherwise: $(cat "$SCRATCH/err")"
	"$PROBECTL" disable -p "$pid" "$probe" >/dev/null 2>"$SCRATCH/err"
	same "$probe: disable of what is covered" "$?" 1
	grep -q "$probe at .* left as it is" "$SCRATCH/err" ||
		fail "$probe: disable does not say it: $(cat "$SCRATCH/err")"
	same "$probe: nothing was written" \
		"$("$python" tests/integration/poke.py "$pid" peek "$address" $((${#ours} / 2)))" \
		"$breakpoint${ours:${#breakpoint}}"
	"$python" tests/integration/poke.py "$pid" poke "$address" "${ours:0:${#breakpoint}}"
	kill -CONT "$pid"
	"$python" -c 'import time; time.sleep(0.1)' # some hits, through what was left
	still_there "its jump came back"
	same "$probe: clear again" "$(repaired 0)" "0 0 1"
	same_state "$pid"
	end_process "$pid"
done

# ---- While a controller is there ----------------------------------------------

# await NAME TEXT: until it is on standard error
await()
{
	until grep -qs -- "$2" "$SCRATCH/$1.err"; do
		pause
	done
}

# ended NAME PID STATUS: a controller asked to end does so with this status
ended()
{
	local status=0
	kill -INT "$2" 2>/dev/null
	wait "$2" || status=$?
	same "$1: status" "$status" "$3"
}

# overwrite: another tool restores the site that NAME traces in PID, and it is repaired
overwrite()
{
	patched
	poke "$original"
	await "$1" "$probe at 0x[0-9a-f]* .*its hits are not counted, since .* at the latest"
	"$PROBECTL" repair -p "$pid" >/dev/null || fail "$1: repair"
	await "$1" "$probe at 0x[0-9a-f]* .*patched again at"
}

begin nop
trace_start counts -c --json -i 0.2 -p "$pid" "$probe"
wait_tracing counts
overwrite counts
ended counts "$tracer_pid" 1
same "counts: objects" "$(jq -c 'select(has("bytes")) | [.inconsistent, .name, (.pid | type), (.pc | .[:2]),
	(.good_ts <= .bad_ts), (.bad_ts <= .ts), .left]' "$SCRATCH/counts.out")" \
	'[true,"nop","number","0x",true,true,false]
[false,"nop","number","0x",true,true,false]'
same "counts: the row" "$(tail -1 "$SCRATCH/counts.out" | jq -c '[.name, .sites, .refused, .inconsistent, .hits > 0]')" \
	'["nop",1,0,1,true]'
grep '"args"' "$SCRATCH/counts.out" && fail "counts: hits"
same_state "$pid"

# Single hits; the reports between them are not events.
trace_start hits --json -p "$pid" "$probe"
wait_tracing hits
overwrite hits
ended hits "$tracer_pid" 1
grep -q "$probe: [1-9][0-9]* hits\?, 0 lost (overwritten)" "$SCRATCH/hits.err" || fail "hits: the summary: $(tail -2 "$SCRATCH/hits.err")"
"$PROBECTL" export --format csv -o "$SCRATCH/hits.csv" - <"$SCRATCH/hits.out" 2>"$SCRATCH/err" ||
	fail "export: $(cat "$SCRATCH/err")"
same_state "$pid"

for full in '' --full=loop; do
	# shellcheck disable=SC2086
	rm -rf "$SCRATCH/record"
	record_start record $full -p "$pid" "$probe"
	wait_tracing record "$recorder"
	overwrite record
	ended record "$recorder" 1
	same_state "$pid"
done

anew top
env --default-signal=INT "$PROBECTL" top -i 0.2 -p "$pid" "$probe" >"$SCRATCH/top.out" 2>"$SCRATCH/top.err" </dev/null &
top=$!
on_exit "end_process $top"
until grep -qs "$probe" "$SCRATCH/top.out"; do
	kill -0 "$top" || die "top has ended: $(cat "$SCRATCH/top.err")"
done
patched
poke "$original"
await top "$probe at 0x[0-9a-f]* does not count any more"
"$PROBECTL" repair -p "$pid" >/dev/null || fail "top: repair"
await top "$probe at 0x[0-9a-f]* counts again"
ended top "$top" 1
same_state "$pid"

# Probes that stay in the process.
"$PROBECTL" enable -q -t count -p "$pid" "$probe" || fail "enable -t"
"$PROBECTL" read --json -p "$pid" >"$SCRATCH/out" || fail "read"
patched
poke "$original"
"$PROBECTL" read --json -p "$pid" >"$SCRATCH/out" 2>"$SCRATCH/err"
same "read: status" "$?" 1
same "read: the row" "$(tail -1 "$SCRATCH/out" | jq -c '[.name, .inconsistent, (.hits | type)]')" '["nop",1,"number"]'
grep -q "$probe at .* its hits are not counted" "$SCRATCH/err" || fail "read: $(cat "$SCRATCH/err")"
"$PROBECTL" repair -p "$pid" >/dev/null || fail "read: repair"
"$PROBECTL" disable -q -p "$pid" "$probe" || fail "disable -t"
same_state "$pid"

# A breakpoint is there when the trace ends, and is removed afterwards.
trace_start left -c -p "$pid" "$probe"
wait_tracing left
patched
kill -STOP "$pid"
"$python" tests/integration/poke.py "$pid" poke "$address" "$breakpoint"
ended left "$tracer_pid" 1
grep -q "$probe at .* left as it is" "$SCRATCH/left.err" || fail "left: $(cat "$SCRATCH/left.err")"
"$python" tests/integration/poke.py "$pid" poke "$address" "${ours:0:${#breakpoint}}"
kill -CONT "$pid"
"$python" -c 'import time; time.sleep(0.1)'
still_there "its jump came back"
"$PROBECTL" repair -p "$pid" >/dev/null || fail "left: repair"
same_state "$pid"

# A second controller at the same site causes no report, even if it comes and goes.
trace_start one -c -p "$pid" "$probe"
wait_tracing one
for _ in 1 2 3; do
	"$PROBECTL" trace -q -c -d 0.4 -p "$pid" "$probe" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "the other: $(cat "$SCRATCH/err")"
	same "under two controllers" "$(state)" $'on 1/1 0\ntrue null'
done
trace_stop one
grep overwritten "$SCRATCH/one.out" && fail "one: another controller is taken for a stranger"
same_state "$pid"
finish
