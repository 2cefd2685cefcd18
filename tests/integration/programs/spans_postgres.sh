#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Slow queries with their text: spans of a PostgreSQL server under pgbench, over all of its forked
# backends, beside what -t latency counts of the same queries.
. tests/integration/lib.sh
need_attach
need jq
pg_start
pg_bench_init 1
save_state "$pg_pid"
clients=4 transactions=50 sleeps=5

queries=(-p "$pg_pid" --follow 'postgresql:query__start(str(arg0))' postgresql:query__done)
bench()
{
	"$pg_bin/pgbench" -n -c "$clients" -j 2 -t "$transactions" >"$SCRATCH/pgbench.out" 2>&1 ||
		fail "pgbench: $(tail -2 "$SCRATCH/pgbench.out")"
	for ((i = 0; i < sleeps; i++)); do
		"$pg_bin/psql" -XAtqc "select $i, pg_sleep(0.03)" >/dev/null
	done
}

trace_start all --json -b 4M -t span -t latency "${queries[@]}"
wait_tracing all
bench
trace_stop all
spans()
{
	jq -c "select(.begin.name?) | $1" "$SCRATCH/all.out"
}
count=$(spans .ts | wc -l)
same "spans and latency" "$count" "$(jq 'select(.tracer == "latency").count' "$SCRATCH/all.out")"
same "lost" "$(jq -s 'map(.lost? // 0) | add' "$SCRATCH/all.out")" 0
# Seven statements of each transaction, and those of pgbench itself.
[ "$count" -ge $((7 * clients * transactions + sleeps)) ] || fail "only $count queries"
same "queries without text" "$(spans 'select(.begin.args[0] | type != "string" or length == 0)' | wc -l)" 0
same "updates of accounts" "$(spans .begin.args[0] | grep -c '^"UPDATE pgbench_accounts SET abalance')" \
	$((clients * transactions))
same "another thread's begin" "$(spans 'select(.begin.tid != .tid)' | wc -l)" 0
[ "$(spans .pid | sort -u | wc -l)" -ge $((clients + sleeps)) ] || fail "not all backends are there"

# The queries that take longest in all, by their texts; and the same of one kind only.
trace_start keyed --json -t latency -k 'begin.str(arg0)' -s 40 "${queries[@]}"
keyed_pid=$tracer_pid
trace_start updates --json -t latency -k 'begin.str(arg0)' \
	-f 'starts_with(begin.str(arg0), "UPDATE pgbench_accounts") && duration > 0' "${queries[@]}"
wait_tracing keyed "$keyed_pid"
wait_tracing updates
bench
trace_stop updates
tracer_pid=$keyed_pid
trace_stop keyed
by_text()
{
	jq -s "map(select(.keys?) | select(.keys[0] | startswith(\"$2\")) | .count) | add" \
		"$SCRATCH/$1.out"
}
same "updates of accounts, by text" "$(by_text keyed "UPDATE pgbench_accounts SET abalance")" \
	$((clients * transactions))
for ((i = 0; i < sleeps; i++)); do
	same "sleep $i, by text" "$(by_text keyed "select $i, pg_sleep")" 1
done
same "only updates" "$(by_text updates UPDATE)" $((clients * transactions))
same "nothing else" "$(by_text updates "")" $((clients * transactions))

trace_start slow --json -t span --min 25ms --stack "${queries[@]}"
wait_tracing slow
bench
trace_stop slow
same "short ones" "$(jq -c 'select(.duration < 25000000)' "$SCRATCH/slow.out" | wc -l)" 0
for ((i = 0; i < sleeps; i++)); do
	same "sleep $i" "$(jq -r '.begin.args[0]' "$SCRATCH/slow.out" | grep -cxF "select $i, pg_sleep(0.03)")" 1
done

# What was traced is read back: by text, and as slices of their threads.
"$PROBECTL" report --json --pairs -k query - <"$SCRATCH/slow.out" >"$SCRATCH/report.json" || fail "no report of spans"
same "spans in the report" "$(jq 'select(.type == "pair").count' "$SCRATCH/report.json")" "$(wc -l <"$SCRATCH/slow.out")"
for ((i = 0; i < sleeps; i++)); do
	same "sleep $i in the report" "$(jq "select(.type == \"pair_key\" and .value == \"select $i, pg_sleep(0.03)\").count" \
		"$SCRATCH/report.json")" 1
done
same "the longest of the report" "$(jq -s 'map(select(.type == "longest").duration) | max' "$SCRATCH/report.json")" \
	"$(jq -s 'map(.duration) | max' "$SCRATCH/slow.out")"
"$PROBECTL" export -F trace-event -k query - <"$SCRATCH/slow.out" >"$SCRATCH/slow.trace" || fail "no export of spans"
same "slices" "$(jq '[.traceEvents[] | select(.ph == "X")] | length' "$SCRATCH/slow.trace")" "$(wc -l <"$SCRATCH/slow.out")"
same "a slice" "$(jq -c '.traceEvents[] | select(.ph == "X" and .name == "select 0, pg_sleep(0.03)") | .dur >= 30000' \
	"$SCRATCH/slow.trace")" true
same "where they ended" "$(jq -r 'select(.begin) | [.stack, (.frames | map(.symbol) | contains(["PostgresMain", "main"]))] |
	join(" ")' "$SCRATCH/slow.out" | sort -u)" "whole true"

# The same from a record, once its backends are gone. Most functions of a stripped server have no
# name: each address has the same one wherever it is, or none.
record_start stacks --stack -b 64M "${queries[@]}" postgresql:wal__insert
wait_tracing stacks "$recorder"
bench
record_stop stacks
"$PROBECTL" export -F json "$SCRATCH/stacks" >"$SCRATCH/stacks.json" || fail "export: $?"
[ "$(jq -c 'select(.name == "wal__insert")' "$SCRATCH/stacks.json" | wc -l)" -gt $((clients * transactions)) ] ||
	fail "only $(wc -l <"$SCRATCH/stacks.json") hits were recorded"
same "hits without a stack" "$(jq -c 'select(.frames | length == 0)' "$SCRATCH/stacks.json" | wc -l)" 0
same "addresses with two names" "$(jq -r '.frames[]? | .ip + " " + (.symbol | tostring)' "$SCRATCH/stacks.json" | sort -u |
	cut -d' ' -f1 | uniq -d)" ""
"$PROBECTL" report --pairs "$SCRATCH/stacks" >"$SCRATCH/report" || fail "report: $?"
same "the longest" "$(grep -c ', and ended in$' "$SCRATCH/report")" 20
same "where the longest ended" "$(sed -n '/, and ended in$/,/_start/p' "$SCRATCH/report" | grep -cx '	PostgresMain')" 20

# Queries that fail have no end; a connection may have many of them.
trace_start failing --json -t span "${queries[@]}"
wait_tracing failing
{
	yes 'select 1/0;' | head -n 300
	for ((i = 0; i < 20; i++)); do
		echo "select 'good', $i;"
	done
} | "$pg_bin/psql" -XAtq >/dev/null 2>&1
trace_stop failing
same "good queries after failing ones" \
	"$(jq -r '.begin.args[0] // empty' "$SCRATCH/failing.out" | grep -c "^select 'good', [0-9]*;$")" 20
same "failing queries" "$(jq -r '.begin.args[0] // empty' "$SCRATCH/failing.out" | grep -c 1/0)" 0
same "lost among failing ones" "$(jq -s 'map(.lost? // 0) | add' "$SCRATCH/failing.out")" 0
same_state "$pg_pid"
finish
