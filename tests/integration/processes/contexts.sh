#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Signal frames with any restorer, far up a stack, or on stacks that no thread is running on:
# stubs stay until nothing returns to them, and no jump is written to a place where something
# does.
# runs-as: user, and root in check-all
. tests/integration/lib.sh
need_attach
need jq

# goes_on: the interrupted thread continues, with correct results
goes_on()
{
	ask on
	same "$case: it goes on" "$answer" "free wrong 0"
}

# stubs PROGRAM ARGS...: a thread stays in a stub while the probe is disabled
stubs()
{
	local name=$1
	shift
	case="$name stub $*"
	start "$TARGETS/$name" stub "$@"
	pid=$target_pid
	save_state "$pid"
	for round in 1 ${TEST_ALL:+2}; do
		ctl enable -p "$pid" "$name":mix
		[ "$round" = 1 ] || ctl enable -p "$pid" "$name":mix
		ask go
		same "$case: in a stub" "$answer" caught
		ctl disable --force -p "$pid" "$name":mix
		same_state "$pid"
		[ "$(ours)" -gt 0 ] || fail "$case: what it returns to is gone"
		ctl repair -p "$pid"
		grep -q 'a thread may return to' "$SCRATCH/out" || fail "$case: repair says: $(cat "$SCRATCH/out")"
		# Again, at the same place.
		ctl enable -p "$pid" "$name":mix
		ctl disable -p "$pid" "$name":mix
		ctl trace -c -d 10ms -p "$pid" "$name":mix
		[ "$(ours)" -gt 0 ] || fail "$case: what it returns to is gone after a trace"
		goes_on
		ctl repair -p "$pid"
		same "$case: what is mapped at the end" "$(ours)" 0
		same_state "$pid"
	done
	tell q
	end_target
}

# between PROGRAM ARGS...: a thread stays where a jump would be written, if that is longer than one
# instruction
between()
{
	local name=$1
	shift
	has_short_nops || return
	case="$name between $*"
	start "$TARGETS/$name" between "$@"
	pid=$target_pid
	save_state "$pid"
	ask go
	same "$case: between instructions" "$answer" caught
	if "$PROBECTL" enable --plan behind -p "$pid" "$name":mix 2>"$SCRATCH/err"; then
		fail "$case: a jump was written where somebody comes back"
	fi
	grep -q 'a signal handler' "$SCRATCH/err" || fail "$case: it says: $(cat "$SCRATCH/err")"
	same_state "$pid"
	same "$case: what is mapped then" "$(ours)" 0
	goes_on
	ctl enable --plan behind -p "$pid" "$name":mix
	ctl disable -p "$pid" "$name":mix
	same "$case: what is mapped at the end" "$(ours)" 0
	same_state "$pid"
	tell q
	end_target
}

# unread FILE ARGS...: probectl, for which reading [stack] fails
unread()
{
	local file=$1 range
	shift
	range=$(awk '/\[stack\]/ {print $1}' "/proc/$pid/maps")
	UNREAD=$range LD_PRELOAD=$TARGETS/libunread.so "$PROBECTL" "$@" >"$file" 2>&1
}

# A search that ended with an error proves nothing.
case=unread
start "$TARGETS/contexts" stub near thread mov 0
pid=$target_pid
save_state "$pid"
if has_short_nops; then
	if unread "$SCRATCH/out" enable --plan behind -p "$pid" contexts:mix; then
		fail "a jump was written though a stack could not be read"
	fi
	grep -q 'a signal handler may return.*cannot be read' "$SCRATCH/out" ||
		fail "$case: enable says: $(cat "$SCRATCH/out")"
	same_state "$pid"
	same "$case: what is mapped then" "$(ours)" 0
fi
ctl enable --plan behind -p "$pid" contexts:mix
unread "$SCRATCH/out" disable -p "$pid" contexts:mix || fail "$case: $(cat "$SCRATCH/out")"
same_state "$pid"
[ "$(ours)" -gt 0 ] || fail "$case: stubs are given back without proof"
unread "$SCRATCH/out" repair -p "$pid"
grep -q 'a thread may return to' "$SCRATCH/out" || fail "$case: repair: $(cat "$SCRATCH/out")"
[ "$(ours)" -gt 0 ] || fail "$case: stubs are given back without proof by repair"
ctl repair -p "$pid"
same "$case: what is mapped at the end" "$(ours)" 0
same_state "$pid"
tell go
exec {target_in}>&-
end_process "$target_pid"

# If nothing can ever be proved, what stays is reported and bounded.
case=bound
start "$TARGETS/solo"
pid=$target_pid
save_state "$pid"
for ((i = 0; i < 1000; i++)); do
	unread "$SCRATCH/out" enable -p "$pid" solo:one || break
	unread "$SCRATCH/out" disable -p "$pid" solo:one || fail "$case: disable: $(cat "$SCRATCH/out")"
done
[ "$i" -ge 100 ] && [ "$i" -lt 1000 ] || fail "$case: refused after $i: $(cat "$SCRATCH/out")"
grep -q 'the memory of [0-9]* ended sessions .* cannot be freed yet, because a thread may return to it' \
	"$SCRATCH/out" || fail "$case: it says: $(cat "$SCRATCH/out")"
[ "$(ours)" -le $((i + 3)) ] || fail "$case: $(ours) mappings after $i sessions"
"$PROBECTL" status -p "$pid" >"$SCRATCH/out" 2>"$SCRATCH/err"
grep -q "leftovers ($i sessions)" "$SCRATCH/err" || fail "$case: status: $(cat "$SCRATCH/err")"
unread "$SCRATCH/out" trace -c -d 10ms -p "$pid" solo:one && fail "$case: traced"
ask x
same "$case: the answer" "$answer" alive
ctl repair -p "$pid"
same "$case: what is mapped at the end" "$(ours)" 0
for ((i = 0; i < 1000; i++)); do # large rings are fewer
	unread "$SCRATCH/out" trace -q -b 256M -d 1ms -o /dev/null -p "$pid" solo:one || break
done
[ "$i" -ge 1 ] && [ "$i" -lt 100 ] || fail "$case: refused after $i large ones: $(cat "$SCRATCH/out")"
ctl trace -c -d 10ms -p "$pid" solo:one
same "$case: what is mapped after a trace that could prove it" "$(ours)" 0
same_state "$pid"
end_target

stubs contexts near thread mov 0
between contexts near thread push 0
stubs contexts far mmap mov 200000
between contexts far static xor 3000000
stubs contexts switch malloc push 65536
stubs contexts switch memfd push 65536
between contexts switch dropped mov 262144
stubs contexts copy memfd mov 65537
stubs preempted raw 65536 1
stubs preempted setjmp 200000 3
between preempted setjmp 32768 2
in_all || finish

for restorer in mov push xor jump; do
	stubs contexts near thread $restorer 0
	between contexts near thread $restorer 0
done
stubs contexts far thread push 150000
stubs contexts far mmap mov 200000
stubs contexts far malloc xor 1500000
between contexts far thread push 150000
between contexts far mmap mov 200000
between contexts far static xor 3000000
for memory in array malloc mmap static shared; do
	stubs contexts switch $memory push 65536
	between contexts switch $memory mov 262144
done
for memory in dropped memfd tmpfs file; do
	stubs contexts switch $memory push 65536
	between contexts switch $memory mov 262144
done
stubs contexts switch dropped push 2000000
stubs contexts copy malloc mov 65537
stubs contexts copy mmap push 131075
stubs contexts copy memfd mov 65540
between contexts copy static mov 100007
between contexts copy malloc mov 65542
for keep in raw setjmp; do
	stubs preempted $keep 65536 1
	between preempted $keep 32768 2
done
stubs preempted raw 16384 7
stubs preempted setjmp 200000 3
between preempted raw 300000 5
finish
