#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every tracer on a program that reports what it did: counts, sums, percentiles, times, keys,
# filters, nested pairs, pairs that end in another thread, with one thread and with sixteen;
# flight recorders; loaded tracers, including those that crash, block or lack an operation.
. tests/integration/lib.sh
need_attach
need jq

threads=16 requests=2000
total=$((threads * requests))

# truth EXPR: evaluated on the program's report
truth()
{
	jq -r "$1" <<<"$said"
}

# traced NAME OPTIONS…: the program with these options; its report goes to $said, the output to
# $SCRATCH/NAME.out
traced()
{
	local name=$1
	shift
	start "$TARGETS/pairs" "$threads" "$requests"
	save_state "$target_pid"
	trace_start "$name" "$@" -p "$target_pid"
	wait_tracing "$name"
	ask go
	said=$answer
	hear
	trace_stop "$name"
	same_state "$target_pid"
	tell bye
	end_target
}

# rows NAME FILTER: of its output
rows()
{
	jq -r "$2" "$SCRATCH/$1.out"
}

# within WHAT LOW VALUE HIGH: clock rates differ by some 10^-4
within()
{
	"$python" -c "import sys; low, value, high = map(float, sys.argv[1:])
sys.exit(not low * 0.999 <= value <= high * 1.001)" "$2" "$3" "$4" ||
		fail "$1: $3 is not between $2 and $4"
}

# ---- Numbers -----------------------------------------------------------------------

traced count --json -t count pairs:request__start pairs:step__done
same "count" "$(rows count 'select(.name == "request__start").hits')" "$((total + threads))"
same "count of steps" "$(rows count 'select(.name == "step__done").hits')" "$(truth .steps)"

# Orphans have size 0 and kind 0.
traced keys --json -t count -k arg1 -f 'arg2 != 0 || arg0 == 0' pairs:request__start
same "by kind" "$(rows keys '"\(.keys[0]) \(.count // .hits)"' | sort -n | cut -d' ' -f2 | paste -sd,)" \
	"$(truth '.kinds | map(tostring) | join(",")')"
traced strings --json -t sum,arg2 -k 'str(arg3)' -k 'arg1 < 3' pairs:request__start
same "texts" "$(rows strings '.keys[0]' | sort -u | paste -sd,)" \
	'delete,insert,orphan,select,update,vacuum "all"'
same "rows by text and number" "$(wc -l <"$SCRATCH/strings.out")" 11
same "sums by text" "$(jq -s 'map(.sum) | add' "$SCRATCH/strings.out")" "$(truth .sizes)"
same "counts by text" "$(jq -s 'map(.count) | add' "$SCRATCH/strings.out")" "$((total + threads))"

traced values --json -t sum,arg2 -t min,arg2 -t max,arg2 -t avg,arg2 -t hist,arg2 -t point \
	-f 'arg2 != 0 || arg0 == 0' pairs:request__start
"$python" - "$SCRATCH/values.out" "$total" <<'PYTHON' >"$SCRATCH/values.diff" || fail "$(cat "$SCRATCH/values.diff")"
import json, math, sys

rows = {row["tracer"]: row for row in map(json.loads, open(sys.argv[1]))}
total = int(sys.argv[2])
sizes = sorted(i * 7919 % 100003 for i in range(total))
wrong = []


def same(what, got, wanted):
    if got != wanted:
        wrong.append(f"{what}: got {got}, wanted {wanted}")


for tracer, row in rows.items():
    same(f"{tracer}: count", row["count"], total)
same("sum", rows["sum,arg2"]["sum"], sum(sizes))
same("min", rows["min,arg2"]["min"], sizes[0])
same("max", rows["max,arg2"]["max"], sizes[-1])
same("avg", rows["avg,arg2"]["avg"], sum(sizes) / total)
hist = rows["hist,arg2"]
same("hist", [hist["sum"], hist["min"], hist["max"]], [sum(sizes), sizes[0], sizes[-1]])
same("buckets", sum(count for _, _, count in hist["buckets"]), total)
for low, high, count in hist["buckets"]:
    same(f"bucket {low}", count, sum(low <= size <= high for size in sizes))
for name, percent in (("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99), ("p999", 99.9), ("p9999", 99.99)):
    exact = sizes[math.ceil(percent / 100 * total) - 1]
    if abs(hist[name] - exact) > 0.03 * exact:
        wrong.append(f"{name}: {hist[name]} is more than 3 % off {exact}")
print("; ".join(wrong[:5]))
sys.exit(bool(wrong))
PYTHON

# ---- Pairs ------------------------------------------------------------------------

traced latency --json -t latency --pairs auto 'pairs:request__*' 'pairs:step__*'
requests_of='select(.begin == "pairs:request__start"'
same "requests done" "$(rows latency "$requests_of and .name == \"request__done\").count")" "$(truth .done)"
same "requests failed" "$(rows latency "$requests_of and .name == \"request__fail\").count")" "$(truth .failed)"
same "ends without a begin" "$(rows latency "$requests_of and .name == \"request__done\").unmatched")" "$threads"
same "in flight" "$(rows latency "$requests_of and .name == \"request__done\").in_flight")" "$threads"
within "time of requests" "$(truth .inner)" "$(jq -s "map($requests_of).sum) | add" "$SCRATCH/latency.out")" \
	"$(truth .outer)"
same "nested steps" "$(rows latency 'select(.name == "step__done") | "\(.count) \(.unmatched) \(.in_flight)"')" \
	"$(truth .steps) 0 0"

traced transaction --json -t transaction pairs:request__start pairs:request__done pairs:request__fail
same "done" "$(rows transaction 'select(.outcome == "done").count')" "$(truth .done)"
same "aborted" "$(rows transaction 'select(.outcome == "aborted").count')" "$(truth .failed)"
within "time of transactions" "$(truth .inner)" "$(jq -s 'map(.sum) | add' "$SCRATCH/transaction.out")" \
	"$(truth .outer)"

traced job --json -t latency --match arg0:arg0 pairs:job__start pairs:job__done
same "jobs, from thread to thread" "$(rows job '"\(.count) \(.unmatched) \(.in_flight)"')" "$(truth .jobs) 0 0"
within "time of jobs" "$(truth .job_inner)" "$(rows job .sum)" "$(truth .job_outer)"

start "$TARGETS/recursive" 200
trace_start recursion --json -t latency --pairs listed -p "$target_pid" recursive:down recursive:up
wait_on "$target_pid" recursive:down
ask go
hits=${answer#hits }
hear
trace_stop recursion
same "recursion, 200 deep" "$(rows recursion '.count + .in_flight + .unmatched')" "$hits"
end_process "$target_pid"

# ---- Sampling and filters ----------------------------------------------------------

traced every --json -t count --every 100 pairs:request__start
hits=$(rows every .hits)
[ "$hits" -ge $((total / 100 - 64)) ] && [ "$hits" -le $((total / 100 + 64)) ] ||
	fail "one in 100 of $total hits were $hits"
traced text --json -t print -f 'str(arg3) == "vacuum \"all\"" && arg1 == 2' \
	'pairs:request__start(arg1,str(arg3))'
same "filtered hits" "$(rows text '.args | "\(.[0]) \(.[1])"' | sort -u)" '2 vacuum "all"'
same "how many" "$(wc -l <"$SCRATCH/text.out")" \
	"$("$python" -c "print(sum(i % 7 == 2 and i % 5 == 4 for i in range($total)))")"

# ---- Intervals ---------------------------------------------------------------------

traced interval --json -t max,arg2 -i 0.02 pairs:request__start
same "intervals add up" "$(jq -s 'map(select(.interval).count) | add' "$SCRATCH/interval.out")" \
	"$(jq -s 'map(select(.interval | not).count) | add' "$SCRATCH/interval.out")"
same "the largest of all" "$(jq -s 'map(select(.interval | not))[0].max' "$SCRATCH/interval.out")" \
	"$("$python" -c "print(max(i * 7919 % 100003 for i in range($total)))")"

# ---- Flight recorders --------------------------------------------------------------

start "$TARGETS/pairs" 2 20000
trace_start ring --json -t ring -b 128k -p "$target_pid" pairs:request__start
wait_on "$target_pid" pairs:request__start
ask go
[ ! -s "$SCRATCH/ring.out" ] || fail "a flight recorder printed before it was asked"
kill -USR1 "$tracer_pid"
until grep -q '"args"' "$SCRATCH/ring.out"; do
	pause
done
# A thread's last hit is the one without an end; and it outlives the process.
same "the last hit" "$(jq -s '.[-1].args[0] > 1e18' "$SCRATCH/ring.out")" true
printed=$(wc -l <"$SCRATCH/ring.out")
end_process "$target_pid"
wait "$tracer_pid"
# The process was killed, which the status shows.
same_end "the trace of a killed process" "$?" 1
same "after its death" "$(wc -l <"$SCRATCH/ring.out")" $((2 * printed))

# ---- Tracers of shared objects -----------------------------------------------------

own=$TARGETS/libtracer.so

# loaded STATUS OPTIONS PROBE…: the program loop under that tracer
loaded()
{
	local wanted=$1 options=$2 status
	shift 2
	timeout "$TEST_SECONDS" "$PROBECTL" trace -t "$own$options" "$@" -- "$TARGETS/loop" -s nop -n 1000 \
		>"$SCRATCH/own.out" 2>"$SCRATCH/own.err"
	status=$?
	same "status with '$options'" "$status" "$wanted"
	grep -q '^1000 ' "$SCRATCH/own.out" || [ "$wanted" = 1 ] || fail "'$options': the program did not end"
}

loaded 0 "" -f 'arg0 <= 3' loop:nop
same "what it was asked" "$(grep -v '^1000 ' "$SCRATCH/own.out" | paste -sd';')" \
	"created '';status 1;tag 0 loop:nop 3 997 1000;tag 0 loop:nop 2 998 1000;tag 0 loop:nop 1 999 1000;status 2;destroyed after 3 hits"
loaded 0 ,tag=observe,quiet -n 1000 loop:nop
grep -q "created 'quiet'" "$SCRATCH/own.out" || fail "our own options were handed over"
grep -q 'destroyed after 1000 hits' "$SCRATCH/own.out" || fail "hits are missing: $(tail -1 "$SCRATCH/own.out")"
loaded 0 ,remove=5 loop:nop
grep -q 'destroyed after 5 hits' "$SCRATCH/own.out" || fail "removed, and went on: $(tail -1 "$SCRATCH/own.out")"
loaded 0 ,discard loop:nop
grep -q 'destroyed after 0 hits' "$SCRATCH/own.out" || fail "discarded hits came"

# One that says no at the start: nothing is switched on, and it is said. Others go on.
loaded 1 ,off loop:nop
says own "libtracer.so wants no hits (it answered PROBE_TRACER_REMOVE): nothing is switched on for it"
! grep -q '^1000 ' "$SCRATCH/own.out" || fail "the program was started nevertheless"
loaded 1 ,off -t count loop:nop
says own "nothing is switched on for it"
grep -q 'loop:nop *1000' "$SCRATCH/own.out" || fail "the other tracer did not go on"

loaded 1 ,refuse loop:nop
says own "libtracer.so: it does not want to"
loaded 1 ,early loop:nop
says own "was ended by signal 6"
loaded 1 ,crash=10 loop:nop
says own "was ended by signal 11"
loaded 1 ,exit=10 loop:nop
says own "ended by itself, with status 3"
own=$TARGETS/libtracer_half.so loaded 1 "" loop:nop
says own "lacks the operation 'trace'"
own=$TARGETS/libtracer_old.so loaded 1 "" loop:nop
says own "build it again"
own=$TARGETS/libsemaphores.so loaded 1 "" loop:nop
says own "defines no 'probe_tracer'"
own=$SCRATCH/none.so loaded 1 "" loop:nop
says own "cannot load it"

# A process that keeps running: the tracer dies, the probes are disabled, and it is unharmed.
for harm in crash exit block; do
	start "$TARGETS/loop" -s nop -n 1000 -r 101 -z 20 -b -a
	save_state "$target_pid"
	trace_start harm -t "$own,$harm=2000,timeout=1" -p "$target_pid" loop:nop
	wait_on "$target_pid" loop:nop
	tell go
	wait "$tracer_pid"
	same "a tracer that does: $harm" "$?" 1
	hear
	same "the program after $harm" "${answer%% *}" 101000
	hear
	same_state "$target_pid"
	tell bye
	end_target
done

# Begins and ends; and the worked example.
traced example -t "$own,quiet" -t count --pairs auto 'pairs:step__*'
grep -q "destroyed after $((2 * $(truth .steps))) hits" "$SCRATCH/example.out" ||
	fail "steps: $(grep destroyed "$SCRATCH/example.out"), $(truth .steps) pairs"
cc -O2 -fPIC -shared -Ilibprobe/include -o "$SCRATCH/slowest.so" docs/examples/tracer/slowest.c ||
	fail "the worked example does not compile"
traced example -t "$SCRATCH/slowest.so,floor=0" --pairs auto 'pairs:request__*'
grep -q "^$total pairs" "$SCRATCH/example.out" || fail "the worked example: $(head -2 "$SCRATCH/example.out")"
same "its threads" "$(grep -c '^thread ' "$SCRATCH/example.out")" "$threads"

# Charts of a few probes, one table of many.
for probes in 'pairs:step*' 'pairs:*'; do
	printf '\n\n' | "$PROBECTL" trace -q -t hist,arg0 -o "$SCRATCH/charts" "$probes" -- \
		"$TARGETS/pairs" 4 20 >"$SCRATCH/stdout" || fail "hist of $probes"
	grep -c '|@*' "$SCRATCH/charts" >"$SCRATCH/bars"
	case $probes in
	*:\*) same "the table" "$(head -1 "$SCRATCH/charts" | xargs) $(cat "$SCRATCH/bars")" \
		"PROBE COUNT SUM MIN AVG P50 P90 P99 MAX 0" ;;
	*) [ "$(cat "$SCRATCH/bars")" -gt 2 ] || fail "no charts: $(cat "$SCRATCH/charts")" ;;
	esac
done

# ---- Wrong usage -------------------------------------------------------------------

# usage MESSAGE ARGS…
usage()
{
	local message=$1 status
	shift
	"$PROBECTL" trace "$@" -p $$ >"$SCRATCH/own.out" 2>"$SCRATCH/own.err"
	status=$?
	same "status of $*" "$status" 2
	says own "$message"
}
usage "the nearest is 'latency'" -t latencie loop:nop
usage "needs a value" -t sum loop:nop
usage "pairs auto" -t latency loop:nop
usage "it needs a tracer that makes them" -i 1 loop:nop
usage "-b does not apply" -c -b 1M loop:nop
"$PROBECTL" trace -t help | grep -q '^  latency ' || fail "-t help lists nothing"
"$PROBECTL" trace -t help | grep -q 'PATH.so' || fail "-t help does not name tracers of one's own"

# Without anything to show, one line says so, and why, in place of titles.
start "$TARGETS/pairs" 1 10
trace_start nothing -t latency -k arg0 -t count -k arg0 -p "$target_pid" pairs:step__start pairs:job__done
wait_tracing nothing
# Both tracers have their hits from one stub at each site.
same "sessions at a site" "$("$PROBECTL" status --json -p "$target_pid" | jq -s -c 'map(.refcount)')" "[1,1]"
trace_stop nothing
same "tables without a row" "$(cat "$SCRATCH/nothing.out")" "# latency
no pair was timed: 0 in flight
# count
no hits"
trace_start nothing -t latency -k arg0 -p "$target_pid" pairs:step__start pairs:job__done
wait_tracing nothing
tell go
hear
steps=$(jq .steps <<<"$answer")
jobs=$(jq .jobs <<<"$answer")
hear
trace_stop nothing
same "begins and ends without each other" "$(cat "$SCRATCH/nothing.out")" \
	"no pair was timed: $steps in flight, $jobs ends without a begin"
tell bye
end_target
# An interval without a pair, too, when others have had some: the last request, and one that failed.
start "$TARGETS/pairs" 1 10
trace_start later -t latency -k arg0 -i 0.1 -p "$target_pid" pairs:request__start pairs:request__done
wait_tracing later
ask go
until grep -q '^no pair was timed: 2 in flight$' "$SCRATCH/later.out"; do
	pause
done
grep -q '^no pair was timed: 2 in flight$' "$SCRATCH/later.out" ||
	fail "an interval without a pair: $(tail -2 "$SCRATCH/later.out")"
trace_stop later
tell bye
end_target
finish
