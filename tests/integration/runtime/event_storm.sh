#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Names of user events that threads use first while libraries come and go, and for several
# controllers: the first use of each is seen, and so is each pass of the library's probe.
. tests/integration/lib.sh
need_attach
need jq

library=$TARGETS/libsemaphores.so

# seen NAME: how many names a trace has with one hit
seen()
{
	jq -s '[.[] | select((.name // "" | startswith("storm.")) and .hits == 1)] | length' \
		"$SCRATCH/$1.out"
}

# passes NAME: how many hits it has of the library's probe
passes()
{
	jq -s '[.[] | select(.name == "event") | .hits] | add' "$SCRATCH/$1.out"
}

# storm ROUND ARGS…: traces the program from its start and, once it is there, from outside
storm()
{
	local round=$1 pid loads
	shift
	mkfifo "$SCRATCH/go.$round"
	"$PROBECTL" trace --json -c -o "$SCRATCH/first$round.out" 'posix_trace:storm.*' demo:event \
		-- "$TARGETS/event_storm" "$@" <>"$SCRATCH/go.$round" >"$SCRATCH/said$round" \
		2>"$SCRATCH/first$round.err" &
	local first=$!
	on_exit "end_process $first"
	while :; do
		pid=$(sed -n 's/^ready //p' "$SCRATCH/said$round" 2>/dev/null)
		[ -z "$pid" ] || break
		pause
	done
	trace_start "second$round" --json -c --follow -p "$pid" 'posix_trace:storm.*' demo:event
	until grep -q tracing "$SCRATCH/second$round.err"; do
		pause
	done
	echo >"$SCRATCH/go.$round"
	wait "$first" || fail "the program failed: $(cat "$SCRATCH/first$round.err")"
	wait "$tracer_pid" || fail "the second trace failed: $(cat "$SCRATCH/second$round.err")"
	loads=$(sed -n 's/^loaded //p' "$SCRATCH/said$round" 2>/dev/null)
	same "names that the first sees ($*)" "$(seen "first$round")" $(($1 * $2))
	same "names that the second sees ($*)" "$(seen "second$round")" $(($1 * $2))
	if [ $# -gt 2 ]; then
		[ "$loads" -gt 2 ] || fail "it opened the library only $loads times"
		same "passes in the library that the first sees" "$(passes "first$round")" "$loads"
		same "passes in the library that the second sees" "$(passes "second$round")" "$loads"
	fi
	same "what is refused" "$(grep -h refused "$SCRATCH"/*"$round.err")" ""
}

storm 1 6 100
for ((round = 2; round < 5; round++)); do
	storm $round 6 100 "$library"
done
finish
