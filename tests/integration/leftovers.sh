#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A thread that will return into moved instructions keeps them, whatever is switched meanwhile.
. tests/integration/lib.sh
need_attach
need jq

# ours: what is mapped by our name
ours()
{
	grep -c 'memfd:probectl' "/proc/$target_pid/maps"
}

# run ARGS...: probectl, which must succeed
run()
{
	"$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "$*: $(cat "$SCRATCH/err")"
}

start "$TARGETS/fault"
pid=$target_pid
save_state "$pid"
run enable -p "$pid" fault:touch
same "the plan" "$("$PROBECTL" status --json -p "$pid" | jq -c .plan)" '{"relocate":1}'
ask go
same "the thread is in its handler" "$answer" fault
run disable -p "$pid" fault:touch
same_state "$pid"
[ "$(ours)" -gt 0 ] || fail "what the thread returns to is gone"
run repair -p "$pid"
grep -q 'a thread is still in the code' "$SCRATCH/out" || fail "repair says: $(cat "$SCRATCH/out")"

# Again and again, at the same place.
for round in 1 2 3; do
	run enable -p "$pid" fault:touch
	same "hits before, round $round" "$("$PROBECTL" status --json -p "$pid" | jq .hits)" 0
	run disable -p "$pid" fault:touch
done
run trace -c -d 0.01 -p "$pid" fault:touch
run enable -p "$pid" fault:touch
ask on
same "once touched" "$answer" 1
ask again
same "it faults again" "$answer" fault
same "hits" "$("$PROBECTL" status --json -p "$pid" | jq .hits)" 1
run disable -p "$pid" fault:touch
ask on
same "twice touched" "$answer" 2
run repair -p "$pid"
same "what is mapped at the end" "$(ours)" 0
same_state "$pid"
tell q
end_target
finish
