#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
# The hits of several processes are printed in the order of time: of each, some have come while the
# others were read; and after a pause, there are more than are put into order at once.
. tests/integration/lib.sh
need_attach
need jq

hits=60000 # three a round

# both WHAT: two busy processes at once; the tracer stands still meanwhile if WHAT is "paused"
both()
{
	local first first_in first_out
	start "$TARGETS/stacks" $((hits / 3))
	first=$target_pid first_in=$target_in first_out=$target_out
	save_state "$first"
	start "$TARGETS/stacks" $((hits / 3)) 2>"$SCRATCH/null" # that there are two
	trace_start "$1" --json -p "$first,$target_pid" stacks:call
	wait_tracing "$1"
	[ "$1" != paused ] || kill -STOP "$tracer_pid"
	echo go >&"$first_in"
	ask go
	IFS= read -r -t 60 -u "$first_out" answer || die "$1: the first said nothing"
	[ "$1" != paused ] || kill -CONT "$tracer_pid"
	trace_stop "$1"
	same_state "$first"
	end_process "$first"
	end_process "$target_pid"

	kept=$(grep -c '"ts"' "$SCRATCH/$1.out")
	same "$1: all are there" "$kept" $((2 * hits))
	same "$1: steps back in time" "$(jq -n 'reduce (inputs | .ts) as $ts ({last: 0, back: 0};
		{last: $ts, back: (if $ts < .last then .back + 1 else .back end)}) | .back' \
		"$SCRATCH/$1.out")" 0
}

both read
both paused
finish
