#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# One run of pgbench, as Prometheus, Performance Co-Pilot and a collector of OpenTelemetry show it:
# the same numbers, and those that pgbench says itself.
. tests/integration/lib.sh
. tests/integration/pcp/lib_pcp.sh
. tests/integration/metrics/lib_metrics.sh
need_attach
need jq prometheus
need_pcp
pg_start
pg_bench_init
pcp_setup
pmcd_start
collector_start numbers

# Of the server and of the backends that it starts: one process for PCP and Prometheus.
trace_start numbers -t pcp -t pcp,latency -t metrics -t metrics,latency -t span --pairs auto \
	--listen :0 --otlp "$collector" -i 0.5 --follow -p "$pg_pid" \
	postgresql:query__start postgresql:query__done postgresql:transaction__commit
wait_tracing numbers
prometheus_start "$(url_of numbers)"
until_query 'up{job="probectl"}' 1

clients=4 each=100
before=$(date +%s%N)
pg_as_user env PGHOST="$PGHOST" PGUSER="$PGUSER" PGDATABASE="$PGDATABASE" \
	"$pg_bin/pgbench" -n -S -c $clients -t $each >"$SCRATCH/pgbench" 2>&1 ||
	fail "pgbench: $(tail -3 "$SCRATCH/pgbench")"
longest=$((clients * ($(date +%s%N) - before)))
transactions=$(sed -n 's,^number of transactions actually processed: \([0-9]*\)/.*,\1,p' "$SCRATCH/pgbench")
same "pgbench" "$transactions" $((clients * each))

# Beside the transactions, pgbench asks for the size of its tables: one query more, or a few.
me=$pg_pid/postgresql
queries=0
while :; do
	before=$queries
	queries=$(metric latency.hits "$me:query__start..query__done")
	[ "${queries:-0}" -lt "$transactions" ] || [ "$queries" != "$before" ] || break
	pause
done
[ "$queries" -ge "$transactions" ] && [ "$queries" -le $((transactions + 20)) ] ||
	fail "PCP has $queries queries of $transactions"
commits=$(metric count.hits "$me:transaction__commit")
started=$(metric count.hits "$me:query__start")
until_query 'probectl_latency_seconds_count{probe="query__done"}' "$queries"
until_query 'probectl_latency_seconds_bucket{probe="query__done",le="+Inf"}' "$queries"
until_query 'probectl_count_hits_total{probe="transaction__commit"}' "$commits"
until_query 'probectl_count_hits_total{probe="query__start"}' "$started"
# Times: Prometheus and OpenTelemetry have those of one session. Each other tracer has a session with
# stubs of its own, between which a thread may be preempted.
nanoseconds=$(metric latency.total "$me:query__start..query__done")
seconds=$(query 'probectl_latency_seconds_sum{probe="query__done"}')

kill -INT "$tracer_pid"
wait "$tracer_pid" || fail "trace: $(head -5 "$SCRATCH/numbers.err")"
[ ! -e "$collected/errors" ] || fail "invalid: $(head -3 "$collected/errors")"

# last NAME PROBE: the last point of it
last()
{
	jq -c "select(.name == \"$1\" and .probe == \"$2\")" "$collected/metrics" | tail -n 1
}
same "queries for OpenTelemetry" "$(last probectl.latency query__done | jq .count)" "$queries"
same "commits" "$(last probectl.count.hits transaction__commit | jq .value)" "$commits"
same "begun" "$(last probectl.count.hits query__start | jq .value)" "$started"
same "spans" "$(wc -l <"$collected/spans")" "$queries"
sum=$(last probectl.latency query__done | jq .sum)
spans=$(jq -s 'map((.endTimeUnixNano | tonumber) - (.startTimeUnixNano | tonumber)) | add / 1e9' "$collected/spans")
awk -v a="$nanoseconds" -v b="$seconds" -v c="$sum" -v d="$spans" -v longest="$longest" \
	'function possible(x) {return x < longest / 1e9 && x > longest / 1e12}
	BEGIN {exit !possible(a / 1e9) || !possible(b) || !possible(d) || b / c < 0.999 || b / c > 1.001}' ||
	fail "queries took $nanoseconds ns, $seconds s, $sum s; spans $spans s; all clients $longest ns"
echo "pgbench: $transactions transactions; $queries queries in $seconds s, $commits commits, $(wc -l <"$collected/spans") spans"
finish
