#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Begins and ends of forked processes, which have the same thread pointers and the same addresses:
# none is taken for another's, by thread or by a value, in the target or in a record.
. tests/integration/lib.sh
need_attach
need jq

# between WHAT LOW VALUE HIGH: clocks run at rates that differ by some 10^-4
between()
{
	"$python" -c "import sys; low, value, high = map(float, sys.argv[1:])
sys.exit(not low * 0.999 <= value <= high * 1.001)" "$2" "$3" "$4" ||
		fail "$1: $3 is not between $2 and $4"
}

# measured NAME UNMATCHED IN_FLIGHT: the row of job__done in $SCRATCH/out against what the
# program said
measured()
{
	local said row
	said=$(grep '^{"jobs"' "$SCRATCH/stdout")
	row=$(jq -c 'select(.name == "job__done")' "$SCRATCH/out")
	same "$1: pairs, ends without a begin, in flight" \
		"$(jq -r '"\(.count) \(.unmatched) \(.in_flight)"' <<<"$row")" \
		"$(jq -r .jobs <<<"$said") $2 $3"
	between "$1: times" "$(jq .inner <<<"$said")" "$(jq .sum <<<"$row")" "$(jq .outer <<<"$said")"
	between "$1: the longest" "$(jq .inner_max <<<"$said")" "$(jq .max <<<"$row")" \
		"$(jq .outer_max <<<"$said")"
}

# spanned NAME UNMATCHED IN_FLIGHT: the spans in $SCRATCH/spans; each has the begin of its own
# process, with the same arguments
spanned()
{
	local jobs
	jobs=$(grep '^{"jobs"' "$SCRATCH/stdout.spans" | jq .jobs)
	same "$1: spans" "$(sed -n 's/^probectl: forked:job__done: //p' "$SCRATCH/err" | sed 's/spans\{0,1\}/spans/; s/ends\{0,1\} w/ends w/')" \
		"$jobs spans, 0 lost, $3 in flight, $2 ends without a begin"
	same "$1: lines of spans" "$(jq -c .begin.ts "$SCRATCH/spans" | wc -l)" "$jobs"
	same "$1: begins of others" \
		"$(jq -c 'select(.begin.pid != .pid or .begin.args != .args)' "$SCRATCH/spans")" ""
}

# forked UNMATCHED IN_FLIGHT WAY ARGS…: by thread, by a number, by a pointer
forked()
{
	local unmatched=$1 in_flight=$2 match
	shift 2
	for match in "" arg0 arg1; do
		"$PROBECTL" trace --json -o "$SCRATCH/out" -t latency ${match:+--match $match} \
			forked:job__start forked:job__done -- "$TARGETS/forked" "$@" \
			</dev/null >"$SCRATCH/stdout" 2>"$SCRATCH/err" ||
			fail "$* ${match:-by thread}: status $?: $(head -3 "$SCRATCH/err")"
		measured "$* ${match:-by thread}" "$unmatched" "$in_flight"
		"$PROBECTL" trace --json -o "$SCRATCH/spans" -t span ${match:+--match $match} \
			forked:job__start forked:job__done -- "$TARGETS/forked" "$@" \
			</dev/null >"$SCRATCH/stdout.spans" 2>"$SCRATCH/err" ||
			fail "$* ${match:-by thread}: status $?: $(head -3 "$SCRATCH/err")"
		spanned "$* ${match:-by thread}" "$unmatched" "$in_flight"
	done
}
forked 0 0 turns 3 10
forked 0 0 threads 5 4
forked 12 0 handed 3 4
forked 0 8 left 8 2
forked 0 0 nested 2 3
if in_all; then
	forked 0 0 turns 40 3
	forked 0 0 turns 1 5
	forked 0 0 raw 4 5
	forked 0 0 nested 6 3
	forked 5 0 handed 1 5
fi

# Processes that are gone give their places back: the table has 4,096.
"$PROBECTL" trace --json -o "$SCRATCH/out" -t latency forked:job__start forked:job__done -- \
	"$TARGETS/forked" slowly 5000 1 </dev/null >"$SCRATCH/stdout" 2>"$SCRATCH/err" ||
	fail "slowly: status $?: $(head -3 "$SCRATCH/err")"
measured "5000 that are gone" 0 5000
same "5000 that are gone: lost" "$(jq -s 'map(.lost // 0) | add' "$SCRATCH/out")" 0

# The names of processes that were gone before anybody looked.
start "$TARGETS/forked" turns 20 3
trace_start names --json --follow -p "$target_pid" 'forked:job__*'
wait_tracing names
kill -STOP "$tracer_pid"
ask go
kill -CONT "$tracer_pid"
trace_stop names
[ "$(jq .pid "$SCRATCH/names.out" | sort -u | wc -l)" -ge 20 ] || fail "no hits of children"
# Nobody knows what they were called: they may have changed the name that they had from their parent.
same "names of processes that are gone" "$(jq -c 'select(.pid != $pid).comm' --argjson pid "$target_pid" \
	"$SCRATCH/names.out" | sort -u)" null
end_process "$target_pid"
finish
