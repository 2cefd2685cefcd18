#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# If a thread will return into moved instructions or into a stub, these stay, with everything
# they lead to, whatever is enabled or disabled meanwhile.
. tests/integration/lib.sh
need_attach
need jq

start "$TARGETS/fault"
pid=$target_pid
save_state "$pid"
ctl enable -p "$pid" fault:touch
same "the plan" "$("$PROBECTL" status --json -p "$pid" | jq -c .plan)" '{"behind":1}'
ask go
same "the thread is in its handler" "$answer" fault
ctl disable -p "$pid" fault:touch
same_state "$pid"
[ "$(ours)" -gt 0 ] || fail "what the thread returns to is gone"
ctl repair -p "$pid"
grep -q 'a thread may return to the code' "$SCRATCH/out" || fail "repair says: $(cat "$SCRATCH/out")"

# Repeatedly, at the same place.
for round in 1 2 3; do
	ctl enable -p "$pid" fault:touch
	same "hits before, round $round" "$("$PROBECTL" status --json -p "$pid" | jq .hits)" 0
	ctl disable -p "$pid" fault:touch
done
ctl trace -c -d 0.01 -p "$pid" fault:touch
ctl enable -p "$pid" fault:touch
ask on
same "once touched" "$answer" 1
ask again
same "it faults again" "$answer" fault
same "hits" "$("$PROBECTL" status --json -p "$pid" | jq .hits)" 1
ctl disable -p "$pid" fault:touch
ask on
same "twice touched" "$answer" 2
ctl repair -p "$pid"
same "what is mapped at the end" "$(ours)" 0
same_state "$pid"
tell q
end_target

plans=(behind pun)
[ "$(uname -m)" = x86_64 ] || plans=(behind nop)

# In a stub of the older session, of the newer one, or after both. With an argument the
# handler is gone while it waits.
in_stub()
{
	start "$TARGETS/caught" "$@"
	pid=$target_pid
	save_state "$pid"
	for plan in "${plans[@]}"; do
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
			same "$plan, round $round" "$answer" caught
			trace_stop caught
			ctl disable -p "$pid" caught:mix
			same_state "$pid"
			for again in 1 2 3; do
				ctl enable -p "$pid" caught:mix
				ctl disable -p "$pid" caught:mix
			done
			ask on
			[[ $answer == free*'wrong 0' ]] || fail "$plan, round $round, it goes on: $answer"
			ctl repair -p "$pid"
			same "$plan, round $round: what is mapped at the end" "$(ours)" 0
		done
	done
	same_state "$pid"
	tell q
	end_target
}
in_stub
in_stub gone
finish
