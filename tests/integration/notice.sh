#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
# A site whose bytes are not ours any more is noticed, told, and repaired or left.
. tests/integration/lib.sh
need_attach
need jq

loop=$TARGETS/loop
[ -x "$loop" ] || skip "$loop is not built"

# begin SITE: a program that hits loop:SITE now and then; sets pid
begin()
{
	probe=loop:$1
	"$loop" -p 100 -s "$1" -n 1000000 >/dev/null &
	pid=$!
	on_exit "end_process $pid"
	until "$python" tests/integration/poke.py "$pid" changed "$loop" >/dev/null 2>&1; do
		kill -0 "$pid" || die "$1: the program has ended"
	done
	save_state "$pid"
}

# patched: where the probe's patch begins, the file's bytes there, and what is there now
patched()
{
	# shellcheck disable=SC2046
	set -- $("$python" tests/integration/poke.py "$pid" changed "$loop")
	[ $# = 3 ] || die "$probe: not one place is patched: $*"
	address=$1 original=$2 ours=$3
}

# poke BYTES: as another tool would, while nothing of it is being executed
poke()
{
	kill -STOP "$pid"
	"$python" tests/integration/poke.py "$pid" poke "$address" "$1"
	kill -CONT "$pid"
}

# state: "STATE PATCHED/SITES INCONSISTENT" by status, and ENABLED by list
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

# repaired STATUS: what repair says it did
repaired()
{
	local status=0
	"$PROBECTL" repair --json -p "$pid" >"$SCRATCH/out" 2>"$SCRATCH/err" || status=$?
	same "$probe: repair's status" "$status" "$1"
	jq -r '"\(.patched) \(.inconsistent) \(.sites)"' "$SCRATCH/out"
}

# Somebody restores the file's bytes: it is seen, and patched again.
for site in nop nop5 nop10 pun; do
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

	# Somebody's breakpoint: not ours to repair. Whoever took it away would write our
	# byte back, so what it leads to has to stay.
	"$PROBECTL" enable -p "$pid" "$probe" >/dev/null || fail "$probe: enable"
	patched
	kill -STOP "$pid"
	"$python" tests/integration/poke.py "$pid" poke "$address" cc
	same "$probe: covered" "$(state)" $'inconsistent 0/1 1\nfalse true'
	same "$probe: repair of what is covered" "$(repaired 1)" "0 1 0"
	grep -q "$probe at .* breakpoint stands over our jump; it is left as it is" "$SCRATCH/err" ||
		fail "$probe: repair does not say why: $(cat "$SCRATCH/err")"
	"$PROBECTL" trace -c -d 0.1 -p "$pid" "$probe" >/dev/null 2>"$SCRATCH/err"
	same "$probe: trace of what is covered" "$?" 1
	grep -q "$probe.*overwritten by somebody else" "$SCRATCH/err" ||
		fail "$probe: refused otherwise: $(cat "$SCRATCH/err")"
	"$PROBECTL" disable -p "$pid" "$probe" >/dev/null 2>"$SCRATCH/err"
	same "$probe: disable of what is covered" "$?" 1
	grep -q "$probe at .* left as it is" "$SCRATCH/err" ||
		fail "$probe: disable does not say it: $(cat "$SCRATCH/err")"
	same "$probe: nothing was written" \
		"$("$python" tests/integration/poke.py "$pid" peek "$address" $((${#ours} / 2)))" \
		"cc${ours:2}"
	"$python" tests/integration/poke.py "$pid" poke "$address" "${ours:0:2}"
	kill -CONT "$pid"
	"$python" -c 'import time; time.sleep(0.1)' # some hits, through what was left
	still_there "its jump came back"
	same "$probe: clear again" "$(repaired 0)" "0 0 1"
	same_state "$pid"
	end_process "$pid"
done
finish
