#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
# The system calls that a target makes for probectl do not disturb its own: descriptors keep their
# numbers, threads with descriptors of their own keep theirs, and a thread whose calls the program
# handles itself (PR_SET_SYSCALL_USER_DISPATCH) makes none. The last mappings are the target's.
. tests/integration/lib.sh
need_attach
need jq

# trace TIMES ARGS…: so many traces, which must work
trace()
{
	local times=$1 i
	shift
	for ((i = 0; i < times; i++)); do
		timeout "$TEST_SECONDS" "$PROBECTL" trace -q -d 5ms -p "$target_pid" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
			fail "trace $i $*: status $?: $(tail -1 "$SCRATCH/err")"
	done
}

# ---- Descriptors --------------------------------------------------------------------------------

start "$TARGETS/calls"
save_state "$target_pid"
tell "numbers 4000"
trace 30 -c calls:hit
hear
same "close(fd), open()" "$answer" "wrong 0"
ask tables
trace 15 -c calls:hit
trace 5 'calls:hit(arg0,str(arg1))'
ask check
same "descriptors of threads with their own" "$answer" "wrong 0"
same_state "$target_pid"
end_target

# ---- Mappings -----------------------------------------------------------------------------------

# The last ones that it may have are its own; with some more there is room for both.
if [ "$(cat /proc/sys/vm/max_map_count 2>/dev/null || echo 0)" -eq 65530 ]; then
	start "$TARGETS/calls"
	ask "mappings 100"
	save_state "$target_pid"
	"$PROBECTL" trace -q -c -d 5ms -p "$target_pid" calls:hit >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "few mappings left" "$?" 1
	grep -q "^probectl: process $target_pid has [0-9]* mappings and may have [0-9]* (sysctl vm.max_map_count): probectl leaves" \
		"$SCRATCH/err" || fail "few mappings left: $(cat "$SCRATCH/err")"
	same_state "$target_pid"
	end_target
	start "$TARGETS/calls"
	ask "mappings 400"
	save_state "$target_pid"
	trace 2 -c calls:hit
	same_state "$target_pid"
	end_target
fi

# ---- System calls that the program handles -------------------------------------------------------

start "$TARGETS/calls"
ask dispatch
[ "$answer" != "not supported" ] || finish
save_state "$target_pid"
trace 5 -c calls:hit
trace 3 -s8 calls:hit
trace 3 'calls:hit(arg0,str(arg1))'
grep -q '^probectl: warning: .*PR_SET_SYSCALL_USER_DISPATCH' "$SCRATCH/err" || fail "no warning: $(cat "$SCRATCH/err")"
grep -q 'calls:hit .* null$' "$SCRATCH/out" || fail "a string was read: $(head -2 "$SCRATCH/out")"
same_state "$target_pid"
end_target

start "$TARGETS/calls"
save_state "$target_pid"
echo on >"$SCRATCH/handled"
tell "dispatch $SCRATCH/handled"
until grep -q '^o!' "$SCRATCH/handled"; do
	pause
done
timeout "$TEST_SECONDS" "$PROBECTL" trace -q -c -d 5ms -p "$target_pid" calls:hit >"$SCRATCH/out" 2>"$SCRATCH/err"
same "no thread makes calls" "$?" 1
grep -q 'no thread of process .*PR_SET_SYSCALL_USER_DISPATCH' "$SCRATCH/err" || fail "said: $(cat "$SCRATCH/err")"
printf x | dd of="$SCRATCH/handled" conv=notrunc status=none
hear
same "the only thread" "$answer" "passed"
trace 2 -c calls:hit
same_state "$target_pid"
end_target
finish
