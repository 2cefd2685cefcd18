#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
#
# A process with the kernel's own threads among its tasks: io_uring's workers and pollers. They
# never return to the program, so they can make no call for us, and a stop would end their work with
# an error.
. tests/integration/lib.sh
need_attach

mkfifo "$SCRATCH/fifo"
chmod 755 "$SCRATCH"

# bounded WHAT ARGS…: probectl must succeed, and must not hang
bounded()
{
	local what=$1
	shift
	timeout -s KILL "$TEST_SECONDS" "$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null ||
		fail "$what: status $?: $(cat "$SCRATCH/err")"
}

# whole_trace WHAT: the counts are right, and the operation in progress ends as if there were no
# trace
whole_trace()
{
	anew trace
	timeout -s KILL "$TEST_SECONDS" "$PROBECTL" trace --json -c -n 100 -p "$target_pid" workers:work \
		>"$SCRATCH/trace.out" 2>"$SCRATCH/trace.err" </dev/null &
	tracer_pid=$!
	wait_tracing trace
	ask "hit 100"
	same "$1: the program" "$answer" "passed 100"
	wait "$tracer_pid" || fail "$1: trace ended with status $?: $(cat "$SCRATCH/trace.err")"
	same "$1: hits" "$(hits_of "$SCRATCH/trace.out")" 100
	ask open
	same "$1: the operation" "$answer" opened
}

# workers MODE…: tests one program in all ways
workers()
{
	local i
	start "$TARGETS/workers" "$SCRATCH/fifo" "$@"
	[[ $answer != none* ]] || skip "no io_uring: $answer"
	[ "$answer" -gt 0 ] || skip "the workers are no tasks of the process: Linux is older than 5.12"
	save_state "$target_pid"
	for ((i = 0; i < 3; i++)); do
		whole_trace "trace $*"
	done
	bounded "enable" enable -p "$target_pid" workers:work
	bounded "disable" disable -p "$target_pid" workers:work
	ask open
	same "the operation after enable and disable" "$answer" opened

	# After a controller is killed, the borrowed thread goes on, and the next controller works.
	for ((i = 0; i < 10; i++)); do
		trace_start killed -c -p "$target_pid" workers:work
		sleep "0.0$((i * 7 % 10))$((i * 3 % 10))"
		end_process "$tracer_pid"
		bounded "repair after a kill" repair -p "$target_pid"
	done
	whole_trace "trace $* after kills"
	bounded "repair at the end" repair -p "$target_pid"
	same_state "$target_pid"
	end_target
}
workers
workers poll
finish
