#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Where a branch enters right behind the nop, the jump is before it: hits and arguments are right,
# passes that skip the probe are none, and nothing but the own bytes changes.
. tests/integration/lib.sh
need_short_nops
need jq
need_attach

program=$TARGETS/heads
[ -x "$program" ] || skip "$program is not built"

start "$program"
pid=$target_pid
save_state "$pid"
same "plans" "$("$PROBECTL" list -vv --json -p "$pid" 'heads:*' | jq -r '"\(.name) \(.plan)"' |
	grep -v spin | sort | paste -sd,)" \
	"branch before,entered refused,first refused,odd before"

# Only where no other plan is possible: nobody has asked for it.
ctl enable -p "$pid" heads:odd heads:branch
pass 7
same "hits" "$(enabled_of heads)" "branch 7 1/1
odd 4 1/1"
same "plan" "$("$PROBECTL" status --json -p "$pid" | jq -c .plan | sort -u)" '{"before":1}'

# Others have the same jump.
trace_start args --json -p "$pid" heads:odd heads:branch
wait_tracing args
pass 3
trace_stop args
same "arguments" "$(jq -r 'select(.args) | "\(.name) \(.args[0])"' "$SCRATCH/args.out" |
	paste -sd,)" "odd 12,branch 11,branch 12,odd 14,branch 13"
trace_start dead --count -p "$pid" heads:odd
wait_tracing dead
end_process "$tracer_pid"
ctl repair -p "$pid"
ctl disable -p "$pid" heads:odd heads:branch
same_state "$pid"
pass 3

# Why not.
for name in entered first; do
	"$PROBECTL" enable --plan before -p "$pid" "heads:$name" >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "heads:$name is refused: status" "$?" 1
done
grep -q 'too few instructions that fall through stand before the site' "$SCRATCH/err" ||
	fail "heads:first: $(cat "$SCRATCH/err")"
same_state "$pid"

# A thread stands where the jump is to be, or in the instructions that move.
ask spin
for ((i = 0; i < 40; i++)); do
	ctl enable -p "$pid" heads:spin
	ctl disable -p "$pid" heads:spin
done
ask spin
same "the thread" "$answer" "spun 0"
same_state "$pid"
end_target
finish
