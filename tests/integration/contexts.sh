#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Signal frames with any restorer, far up a stack, or on stacks that no thread stands on:
# stubs stay until nobody comes back to them, and no jump is written where somebody does.
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
	"$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "$case: $*: $(cat "$SCRATCH/err")"
}

# goes_on: what was caught goes on, with right results
goes_on()
{
	ask on
	same "$case: it goes on" "$answer" "free wrong 0"
}

# stubs STAY MEMORY RESTORER BYTES: it stays in a stub, and the probe is off meanwhile
stubs()
{
	case="stub $*"
	start "$TARGETS/contexts" stub "$@"
	pid=$target_pid
	save_state "$pid"
	for round in 1 2; do
		run enable -p "$pid" contexts:mix
		[ "$round" = 1 ] || run enable -p "$pid" contexts:mix
		ask go
		same "$case: in a stub" "$answer" caught
		run disable --force -p "$pid" contexts:mix
		same_state "$pid"
		[ "$(ours)" -gt 0 ] || fail "$case: what it returns to is gone"
		run repair -p "$pid"
		grep -q 'a thread may return to' "$SCRATCH/out" || fail "$case: repair says: $(cat "$SCRATCH/out")"
		# Again, at the same place.
		run enable -p "$pid" contexts:mix
		run disable -p "$pid" contexts:mix
		run trace -c -d 10ms -p "$pid" contexts:mix
		[ "$(ours)" -gt 0 ] || fail "$case: what it returns to is gone after a trace"
		goes_on
		run repair -p "$pid"
		same "$case: what is mapped at the end" "$(ours)" 0
		same_state "$pid"
	done
	tell q
	end_target
}

# between STAY MEMORY RESTORER BYTES: it stays where a jump would be
between()
{
	case="between $*"
	start "$TARGETS/contexts" between "$@"
	pid=$target_pid
	save_state "$pid"
	ask go
	same "$case: between instructions" "$answer" caught
	if "$PROBECTL" enable --plan relocate -p "$pid" contexts:mix 2>"$SCRATCH/err"; then
		fail "$case: a jump was written where somebody comes back"
	fi
	grep -q 'a signal handler' "$SCRATCH/err" || fail "$case: it says: $(cat "$SCRATCH/err")"
	same_state "$pid"
	same "$case: what is mapped then" "$(ours)" 0
	goes_on
	run enable --plan relocate -p "$pid" contexts:mix
	run disable -p "$pid" contexts:mix
	same "$case: what is mapped at the end" "$(ours)" 0
	same_state "$pid"
	tell q
	end_target
}

# unread FILE ARGS...: probectl, for which the memory of [stack] has errors
unread()
{
	local file=$1 range
	shift
	range=$(awk '/\[stack\]/ {print $1}' "/proc/$pid/maps")
	UNREAD=$range LD_PRELOAD=$TARGETS/libunread.so "$PROBECTL" "$@" >"$file" 2>&1
}

# A search that an error ends is no proof.
case=unread
start "$TARGETS/contexts" stub near thread mov 0
pid=$target_pid
save_state "$pid"
if unread "$SCRATCH/out" enable --plan relocate -p "$pid" contexts:mix; then
	fail "a jump was written though a stack could not be read"
fi
grep -q 'a signal handler may return.*cannot be read' "$SCRATCH/out" ||
	fail "$case: enable says: $(cat "$SCRATCH/out")"
same_state "$pid"
same "$case: what is mapped then" "$(ours)" 0
run enable --plan relocate -p "$pid" contexts:mix
unread "$SCRATCH/out" disable -p "$pid" contexts:mix || fail "$case: $(cat "$SCRATCH/out")"
same_state "$pid"
[ "$(ours)" -gt 0 ] || fail "$case: stubs are given back without proof"
unread "$SCRATCH/out" repair -p "$pid"
grep -q 'a thread may return to' "$SCRATCH/out" || fail "$case: repair: $(cat "$SCRATCH/out")"
[ "$(ours)" -gt 0 ] || fail "$case: stubs are given back without proof by repair"
run repair -p "$pid"
same "$case: what is mapped at the end" "$(ours)" 0
same_state "$pid"
tell go
exec {target_in}>&-
end_process "$target_pid"

for restorer in mov push xor jump; do
	stubs near thread $restorer 0
	between near thread $restorer 0
done
stubs far thread push 150000
stubs far mmap mov 200000
stubs far malloc xor 1500000
between far thread push 150000
between far mmap mov 200000
between far static xor 3000000
for memory in array malloc mmap static shared; do
	stubs switch $memory push 65536
	between switch $memory mov 262144
done
finish
