#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# status shows what a dead controller left, repair removes just that.
. tests/integration/lib.sh
need_attach
need jq

# repaired: what repair reports
repaired()
{
	"$PROBECTL" repair --json -p "$target_pid" 2>"$SCRATCH/err" |
		jq -r '"\(.pid) \(.sessions) \(.sites) \(.semaphores) \(.waiting)"'
}

start "$TARGETS/semaphores"
pid=$target_pid
save_state "$pid"
same "nothing was ever done" "$("$PROBECTL" repair -p "$pid")" "process $pid: nothing to repair"

"$PROBECTL" enable -p "$pid" demo:other >/dev/null 2>"$SCRATCH/err" || fail "enable: $(cat "$SCRATCH/err")"
trace_start dead --json -p "$pid" 'demo:*'
wait_tracing dead
same "a living controller" "$(repaired)" "$pid 0 0 0 0"
ask print
same "semaphores under two controllers" "$answer" "1 1 1 2 0"
kill -KILL "$tracer_pid"
wait "$tracer_pid" 2>/dev/null
"$PROBECTL" status -p "$pid" >/dev/null 2>"$SCRATCH/err"
grep -q "has leftovers (1 session)" "$SCRATCH/err" || fail "status does not warn: $(cat "$SCRATCH/err")"
same "a dead controller" "$(repaired | cut -d' ' -f1,2,4,5)" "$pid 1 4 0"
ask print
same "semaphores of the one that is left" "$answer" "0 0 0 1 0"
same "the second time" "$(repaired)" "$pid 0 0 0 0"
"$PROBECTL" status -p "$pid" >/dev/null 2>"$SCRATCH/err"
[ ! -s "$SCRATCH/err" ] || fail "status warns still: $(cat "$SCRATCH/err")"
"$PROBECTL" disable -p "$pid" demo:other >/dev/null || fail "disable"
same_state "$pid"

# A semaphore that was not raised, as if the controller was killed just before.
"$PROBECTL" enable -p "$pid" demo:other >/dev/null
address=$("$python" tests/integration/state.py semaphores "$pid" | awk '/demo:other / && $NF == 1 {print $(NF - 1); exit}')
"$python" - "$pid" "$address" <<'PYTHON'
import sys
with open(f"/proc/{sys.argv[1]}/mem", "r+b", 0) as memory:
    memory.seek(int(sys.argv[2], 16))
    memory.write(b"\0\0")
PYTHON
same "a semaphore that is too low" "$(repaired)" "$pid 0 0 1 0"
ask print
same "it is raised" "$answer" "0 0 0 1 0"
"$PROBECTL" disable -p "$pid" demo:other >/dev/null
same_state "$pid"

"$PROBECTL" repair >/dev/null 2>&1
same "without a process" "$?" 2
"$PROBECTL" repair -p "$pid" demo:event >/dev/null 2>&1
same "with a probe" "$?" 2
tell quit
end_target
finish
