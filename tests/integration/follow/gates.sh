#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Who waits at a gate of a controller that is killed goes on at once: long before the two seconds
# after which a gate that nobody serves lets everyone go.
. tests/integration/lib.sh
need_attach

library=$TARGETS/liblate.so
[ -e "$library" ] || skip "$library is not built"

# waiting PID…: how many of them wait in futex(2)
waiting()
{
	cat "${@/%//syscall}" 2>/dev/null | grep -c '^202 '
}

# killed WHAT WAITERS PARENT: the target of this name waits at a gate of a stopped controller, with
# so many threads or children; milliseconds from the kill to the answer
killed()
{
	local began try pids
	kill -STOP "$tracer_pid"
	tell go
	for ((try = 0; try < 100; try++)); do
		mapfile -t pids < <({ echo "$target_pid" && pgrep -P "$target_pid"; } | sed 's,^,/proc/,')
		[ "$(waiting "${pids[@]}")" -ge "$2" ] && break
		sleep 0.01
	done
	[ "$try" -lt 100 ] || fail "$1: $(waiting "${pids[@]}") of $2 wait at the gate"
	began=${EPOCHREALTIME/./}
	kill -KILL "$tracer_pid"
	hear
	took=$(((${EPOCHREALTIME/./} - began) / 1000))
	same "$1: answer" "$answer" "done"
	[ "$took" -lt 1500 ] || fail "$1: held for $took ms after the controller was killed"
	wait "$tracer_pid" 2>/dev/null
	began=${EPOCHREALTIME/./}
	ask go
	took=$(((${EPOCHREALTIME/./} - began) / 1000))
	[ "$took" -lt 1800 ] || fail "$1: held for $took ms at a gate of a controller that is dead"
	ctl repair -p "$target_pid"
	end_target
}

for ((round = 0; round < 3; round++)); do
	start "$python" -c 'import _ctypes, sys
print("ready", flush=True)
for line in sys.stdin:
	_ctypes.dlclose(_ctypes.dlopen(sys.argv[1], 2))
	print("done", flush=True)' "$library"
	trace_start libraries -c --follow -p "$target_pid" 'late:*'
	wait_tracing libraries
	killed "a library, round $round" 1

	# More than there are turns: some wait in the same.
	start /bin/bash -c 'echo ready; while read -r line; do for ((i = 0; i < 18; i++)); do
		/bin/true & done; wait; echo done; done'
	trace_start programs -c --follow -p "$target_pid" 'loop:*'
	wait_tracing programs
	killed "programs, round $round" 18
done
finish
