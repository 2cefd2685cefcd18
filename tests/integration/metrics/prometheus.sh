#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Metrics for a real Prometheus, which shows what the program says it did; and both formats, as
# Prometheus's own checkers see them.
. tests/integration/lib.sh
. tests/integration/metrics/lib_metrics.sh
need_attach
need jq promtool prometheus

threads=4 requests=1000
total=$((threads * requests))

begin
trace_start values --listen localhost:0 -t metrics -t metrics,point -t metrics,sum,1 \
	-t metrics,observe,arg0 -t metrics,counter,arg0 -t metrics,latency -t metrics,hist,arg0 \
	-t "metrics,hist,arg0 + 1" --pairs auto -i 0.2 -p "$target_pid" 'pairs:request__*' 'pairs:step__*'
wait_tracing values
url=$(url_of values)
prometheus_start "$url"
step="{probe=\"step__done\",pid=\"$target_pid\",program=\"pairs\"}"
until_query "probectl_count_hits_total$step" 0
until_query 'up{job="probectl"}' 1
ask go
said=$answer
hear
until_query "probectl_count_hits_total$step" "$(truth .steps)"
until_query 'probectl_point_hits_total{probe="request__start"}' $((total + threads))
until_query "probectl_sum_values{probe=\"step__done\",value=\"1\"}" "$(truth .steps)"
until_query 'probectl_latency_seconds_count{probe="request__done",begin="request__start"}' "$(truth .done)"
until_query 'probectl_latency_seconds_count{probe="request__fail"}' "$(truth .failed)"
until_query 'sum(probectl_latency_seconds_bucket{le="+Inf",probe=~"request.*"})' $total
until_query 'sum(probectl_latency_seconds_bucket{le="100.0",probe=~"request.*"})' $total
until_query 'probectl_latency_in_flight{probe="request__done"}' $threads
until_query 'probectl_latency_unmatched_total' $threads
until_query 'sum(probectl_latency_lost_total)' 0
until_query 'probectl_hist_value_count{probe="request__start",value="arg0"}' $((total + threads))
until_query 'probectl_hist_value_count{probe="request__start",value="arg0 + 1"}' $((total + threads))
until_query 'probectl_rows_left_out' 0
# Requests have numbers from 0 on: the bounds of these buckets are exact.
bucket='probectl_hist_value_bucket{probe="request__start",value="arg0 + 1",le='
until_query "$bucket\"2047.0\"} - ignoring(le) $bucket\"1023.0\"}" 1024
# The times: all between the sums inside of the probes and around them.
sum=$(query 'sum(probectl_latency_seconds_sum{probe=~"request.*"}) * 1e9')
awk -v sum="$sum" -v inner="$(truth .inner)" -v outer="$(truth .outer)" \
	'BEGIN {exit !(sum * 1.001 >= inner && sum * 0.999 <= outer)}' ||
	fail "requests took $sum ns, not from $(truth .inner) to $(truth .outer)"

# ---- The dashboard -------------------------------------------------------------------------

# Each of its queries has an answer here; rates, after two scrapes.
jq -r '.panels[].targets[].expr' docs/grafana/probectl.json |
	sed 's/\$__rate_interval/1m/g; s/\$\(program\|provider\)/.*/g' >"$SCRATCH/queries"
[ "$(wc -l <"$SCRATCH/queries")" -ge 10 ] || fail "the dashboard has no queries"
while read -r expr; do
	while [ -z "$(query "$expr" 2>&1)" ]; do
		pause
	done
	query "$expr" 2>&1 | grep -qE '^(NaN|[-+.0-9eInf]+)(,|$)' || fail "the dashboard: $expr: $(query "$expr" 2>&1)"
done <"$SCRATCH/queries"

# ---- The formats --------------------------------------------------------------------------

get "$url" >"$SCRATCH/text"
promtool check metrics <"$SCRATCH/text" >"$SCRATCH/promtool" 2>&1 ||
	fail "promtool: $(head -5 "$SCRATCH/promtool")"
same "what promtool says" "$(cat "$SCRATCH/promtool")" ""
same "the type" "$("$python" "$metrics_client" head "$url")" \
	"200 text/plain; version=0.0.4; charset=utf-8"
open=application/openmetrics-text
same "the other type" "$("$python" "$metrics_client" head "$url" $open)" \
	"200 application/openmetrics-text; version=1.0.0; charset=utf-8"
get "$url" $open >"$SCRATCH/openmetrics"
same "the end" "$(tail -n 1 "$SCRATCH/openmetrics")" "# EOF"
if "$python" -c 'import prometheus_client' 2>/dev/null; then
	"$python" "$metrics_client" openmetrics "$SCRATCH/openmetrics" >"$SCRATCH/families" 2>&1 ||
		fail "the strict parser: $(tail -n 1 "$SCRATCH/families")"
	for family in 'probectl_latency_seconds histogram seconds' 'probectl_count_hits counter -' \
		'probectl_tally_value counter -' 'probectl_observe_value gauge -'; do
		grep -q "^$family" "$SCRATCH/families" || fail "no $family: $(cat "$SCRATCH/families")"
	done
fi

# ---- Keys, and room for them -----------------------------------------------------------------

end values
begin
trace_start keys --listen 127.0.0.1:0 -t metrics --rows 4 -k 'str(arg3)' -i 0.2 \
	-p "$target_pid" pairs:request__start
wait_tracing keys
url=$(url_of keys)
ask go
hear
while :; do
	get "$url" >"$SCRATCH/text"
	grep -q '^probectl_rows_left_out [1-9]' "$SCRATCH/text" && break
	pause
done
# The process, and three rows of six.
same "rows" "$(grep -c '^probectl_count_hits_total' "$SCRATCH/text")" 3
same "left out" "$(sed -n 's/^probectl_rows_left_out //p' "$SCRATCH/text")" 3
promtool check metrics <"$SCRATCH/text" || fail "promtool: status $?"
end keys
says keys "there is room for as many rows as --rows says; 3 rows are left out"
finish
