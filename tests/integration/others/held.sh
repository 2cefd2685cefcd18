#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A debugger holds the process, so it cannot be stopped, and a failed command changes nothing.
# Counts, semaphores and sites stay as before; status, repair and a second try agree on that;
# and once the debugger is gone each command works.
. tests/integration/lib.sh
need jq
need_attach

start "$TARGETS/semaphores"
pid=$target_pid
save_state "$pid"

# hold, let_go: start and end the debugger
hold()
{
	coproc DEBUGGER { exec "$python" tests/integration/others/seize.py "$pid" 2>&1; }
	debugger_pid=$DEBUGGER_PID
	on_exit "end_process $debugger_pid"
	IFS= read -r -t "$TEST_SECONDS" -u "${DEBUGGER[0]}" answer
	[ "$answer" = seized ] || skip "the process cannot be traced: $answer"
}
let_go()
{
	local input=${DEBUGGER[1]}
	exec {input}>&-
	wait "$debugger_pid" 2>/dev/null
}

# expect STATUS TEXT ARGS…: what a command prints on both streams
expect()
{
	local status=$1 text=$2 got
	shift 2
	"$PROBECTL" "$@" -p "$pid" >"$SCRATCH/out" 2>&1
	got=$?
	same "$*: status" "$got" "$status"
	grep -q -- "$text" "$SCRATCH/out" || fail "$*: '$(cat "$SCRATCH/out")' does not say '$text'"
}
# are STATE…: what status prints for all of demo's probes, and nothing else
are()
{
	"$PROBECTL" status --json -a -p "$pid" >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "status: $?"
	same "what status says besides" "$(cat "$SCRATCH/err")" ""
	same "states $where" "$(jq -r '"\(.name)=\(.refcount),\(.state),\(.patched)"' "$SCRATCH/out" |
		sort -u | grep -v '=0,off,0$' | paste -sd' ')" "$*"
}

event='event=1,on,2 event=1,on,4'
twice='event=2,on,2 event=2,on,4'
"$PROBECTL" status --json -a -p "$pid" >"$SCRATCH/out"
mapfile -t names < <(jq -r 'select(.name != "event") | "\(.provider):\(.name)"' "$SCRATCH/out" | sort -u)
other=${names[0]}
other_on="${other#*:}=1,on,$(jq -rs --arg name "${other#*:}" 'map(select(.name == $name))[0].sites' \
	"$SCRATCH/out")"

# ---- The last reference ------------------------------------------------------------------
"$PROBECTL" enable -q -p "$pid" demo:event || fail "enable"
hold
where="while held"
for ((i = 0; i < 3; i++)); do
	expect 1 "is being traced by process $debugger_pid" disable demo:event
	are "$event"
done
expect 1 "is being traced by process $debugger_pid" disable --force demo:event
are "$event"
# Without a stop: repair finds nothing to do, and counts go up and down.
expect 0 'nothing to repair' repair
expect 0 '2 probes' enable demo:event
are "$twice"
expect 0 '2 probes' disable demo:event
are "$event"
# --atomic asks for one.
expect 1 'is being traced' enable --atomic demo:event
are "$event"
expect 0 '' enable demo:event
expect 1 'is being traced' disable --atomic demo:event
are "$twice"

# ---- All or nothing -------------------------------------------------------------------------
# One has one more reference than the other.
expect 1 'is being traced' enable demo:event "$other"
are "$twice"
let_go
expect 0 '' enable "$other"
where="with another"
# shellcheck disable=SC2086 # a list of words
both=$(printf '%s\n' $twice "$other_on" | sort -u | paste -sd' ')
are "$both"
hold
expect 1 'is being traced' disable demo:event "$other"
are "$both"
ask print
before=$answer
expect 1 'is being traced' disable --force demo:event "$other"
ask print
same "semaphores after a disable that failed" "$answer" "$before"
expect 0 'nothing to repair' repair
let_go

# ---- Afterwards --------------------------------------------------------------------------------
where="afterwards"
are "$both"
expect 0 'nothing to repair' repair
expect 0 '' disable demo:event "$other"
are "$event"
expect 0 '' disable demo:event
are
expect 1 'is not enabled' disable demo:event
same_state "$pid"
! grep memfd:probectl "/proc/$pid/maps" || fail "something is left"
end_target
finish
