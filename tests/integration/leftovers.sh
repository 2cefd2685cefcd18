#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# If a thread will return into moved instructions or into a stub, these stay, with everything
# they lead to, whatever is enabled or disabled meanwhile.
. tests/integration/lib.sh
need_attach
need jq

# ours: mappings with our name
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
same "the plan" "$("$PROBECTL" status --json -p "$pid" | jq -c .plan)" '{"behind":1}'
ask go
same "the thread is in its handler" "$answer" fault
run disable -p "$pid" fault:touch
same_state "$pid"
[ "$(ours)" -gt 0 ] || fail "what the thread returns to is gone"
run repair -p "$pid"
grep -q 'a thread may return to the code' "$SCRATCH/out" || fail "repair says: $(cat "$SCRATCH/out")"

# Repeatedly, at the same place.
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

# In a stub of the older session, of the newer one, or after both.
start "$TARGETS/caught"
pid=$target_pid
save_state "$pid"
for plan in behind relocate pun; do
	for round in 1 2 3; do
		"$PROBECTL" enable --plan "$plan" -p "$pid" caught:mix >"$SCRATCH/out" 2>&1 || {
			[ "$plan" = pun ] || fail "enable: $(cat "$SCRATCH/out")"
			break # no pun is possible
		}
		trace_start caught -o /dev/null -p "$pid" caught:mix
		wait_refcount=0
		until [ "$wait_refcount" = 2 ]; do
			wait_refcount=$("$PROBECTL" status --json -p "$pid" | jq .refcount)
		done
		ask go
		same "round $round" "$answer" caught
		trace_stop caught
		run disable -p "$pid" caught:mix
		same_state "$pid"
		for again in 1 2 3; do
			run enable -p "$pid" caught:mix
			run disable -p "$pid" caught:mix
		done
		ask on
		[[ $answer == free*'wrong 0' ]] || fail "$plan, round $round, it goes on: $answer"
		run repair -p "$pid"
		same "$plan, round $round: what is mapped at the end" "$(ours)" 0
	done
done
same_state "$pid"
tell q
end_target
finish
