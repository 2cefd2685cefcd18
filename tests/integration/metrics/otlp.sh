#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Metrics and spans for a collector that checks them: all are there, once, also if it fails for a
# while; and nothing waits for one that fails forever.
. tests/integration/lib.sh
. tests/integration/metrics/lib_metrics.sh
need_attach
need jq

threads=2 requests=1000
total=$((threads * requests))

# work NAME: the program's report goes to $said
work()
{
	wait_tracing "$1"
	ask go
	said=$answer
	hear
}

traced=(--otlp URL -t metrics -t 'metrics,latency' -t 'metrics,hist,arg0' -t span --pairs auto -i 0.3)
# trace_to NAME URL
trace_to()
{
	local name=$1
	traced[1]=$2
	trace_start "$name" "${traced[@]}" -p "$target_pid" 'pairs:request__*'
}

# last FILTER: the last of the points for which it is true
last()
{
	jq -c "select($1)" "$collected/metrics" | tail -n 1
}

# ---- Errors ------------------------------------------------------------------------------

begin
for url in localhost:4318 http:// 'http://localhost/?a=b' ftp://localhost; do
	"$PROBECTL" trace --otlp "$url" -t metrics -p "$target_pid" pairs:request__start \
		>"$SCRATCH/refused" 2>&1 && fail "--otlp $url: done"
	grep -qF "'$url' is no place for OTLP" "$SCRATCH/refused" || fail "--otlp $url: $(cat "$SCRATCH/refused")"
	same "lines" "$(wc -l <"$SCRATCH/refused")" 1
done
"$PROBECTL" trace --otlp http://localhost:4318 -c -p "$target_pid" pairs:request__start \
	>"$SCRATCH/refused" 2>&1 && fail "--otlp -c: done"
grep -qF "sends the metrics of -t metrics and the spans of -t span" "$SCRATCH/refused" ||
	fail "--otlp -c: $(cat "$SCRATCH/refused")"

"$PROBECTL" trace --otlp http://localhost:4318 -t span --stack --pairs auto -p "$target_pid" 'pairs:request__*' \
	>"$SCRATCH/refused" 2>&1
same "--otlp --stack: status" "$?" 2
grep -qF "spans that are sent (--otlp) have no stacks" "$SCRATCH/refused" ||
	fail "--otlp --stack: $(cat "$SCRATCH/refused")"

# ---- A collector, good or busy -----------------------------------------------------------------

# check_collected NAME: what the program says it did
check_collected()
{
	local sum point
	[ ! -e "$collected/errors" ] || fail "invalid: $(head -3 "$collected/errors")"
	same "spans of $1" "$(wc -l <"$collected/spans")" $total
	same "failed ones" "$(grep -c '"code": 2' "$collected/spans")" "$(truth .failed)"
	same "ids of spans" "$(jq -r .spanId "$collected/spans" | sort -u | wc -l)" $total
	same "of different requests" "$(jq -r '.attributes["begin.arg0"]' "$collected/spans" | sort -u | wc -l)" $total
	same "names" "$(jq -r .name "$collected/spans" | sort -u | paste -sd' ')" \
		"pairs:request__start..request__done pairs:request__start..request__fail"
	same "the program" "$(jq -r '[."service.name", ."process.pid"] | join(" ")' "$collected/spans" | sort -u)" \
		"pairs $target_pid"
	point=$(last '.name == "probectl.latency" and .probe == "request__done"')
	same "the histogram" "$(jq -c '[.type, .unit, .count, .begin]' <<<"$point")" \
		"[\"histogram\",\"s\",$(truth .done),\"request__start\"]"
	same "counts" "$(last '.name == "probectl.count.hits" and .probe == "request__start"' | jq -c '[.type, .value]')" \
		"[\"sum\",$((total + threads))]"
	same "unmatched" "$(last '.name == "probectl.latency.unmatched"' | jq .value)" $threads
	same "left out" "$(last '.name == "probectl.rows.left_out"' | jq .value)" 0
	# Spans and histogram measure the same; clocks differ by some 10^-4.
	sum=$(jq -s 'map((.endTimeUnixNano | tonumber) - (.startTimeUnixNano | tonumber)) | add' "$collected/spans")
	awk -v sum="$sum" -v inner="$(truth .inner)" -v outer="$(truth .outer)" \
		'BEGIN {exit !(sum * 1.01 >= inner && sum * 0.99 <= outer)}' ||
		fail "spans took $sum ns, not from $(truth .inner) to $(truth .outer)"
	says "$1" "sent $total spans and [0-9]* points to "
}

collector_start good
# On a terminal, columns are named for what is printed, and spans are not.
if command -v script >/dev/null; then
	for tracers in 'span' 'span -t print'; do
		script -qec "'$PROBECTL' trace -q -d 0.3 --otlp '$collector' -t $tracers --pairs auto -p $target_pid \
			'pairs:request__*'" /dev/null >"$SCRATCH/tty" </dev/null || fail "on a terminal: $(cat "$SCRATCH/tty")"
		grep -c '^TIME ' "$SCRATCH/tty"
	done | paste -sd' ' >"$SCRATCH/columns"
	same "columns of -t span, and beside it -t print" "$(cat "$SCRATCH/columns")" "0 1"
fi
export OTEL_EXPORTER_OTLP_HEADERS='X-Key=a%20b,other=1'
trace_to good "$collector"
unset OTEL_EXPORTER_OTLP_HEADERS
work good
end good
check_collected good
same "headers" "$(sort -u "$collected/keys")" "a b"
grep -q warning "$SCRATCH/good.err" && fail "good: $(cat "$SCRATCH/good.err")"

# Three requests are turned away; each is sent again, and nothing twice.
begin
collector_start busy 3 503
trace_to busy "$collector/"
work busy
end busy
check_collected busy

# ---- Failures ----------------------------------------------------------------------------------

# Nothing listens there, or something that never answers; the trace ends all the same.
for how in dead silent; do
	begin
	port=$(free_port)
	if [ $how = silent ]; then
		"$python" -c 'import socket, sys, time
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(flush=True)
time.sleep(1000)' "$port" >"$SCRATCH/listening" &
		on_exit "end_process $!"
		until [ -s "$SCRATCH/listening" ]; do
			pause
		done
	fi
	trace_to $how "http://127.0.0.1:$port"
	work $how
	# It is told in time; of silence, only in the end.
	if [ $how = silent ]; then
		sleep 1
	else
		until grep -q "; what it does not take now is sent again while there is room" "$SCRATCH/$how.err"; do
			pause
		done
	fi
	before=$SECONDS
	end $how
	[ $((SECONDS - before)) -le 60 ] || fail "$how: the end took $((SECONDS - before)) s"
	says $how "sent 0 spans and 0 points"
	says $how "$total spans and [0-9]* points are lost: "
done

# It does not want what it gets: that is not sent again.
begin
collector_start strict 1000000 400
trace_to strict "$collector"
work strict
end strict
says strict "$total spans and [0-9]* points are lost: it answers with status 400"

# Or only a part of it.
begin
collector_start picky 1000000 200
trace_to picky "$collector"
work picky
end picky
lost=$(sed -n 's/.*: \([0-9]*\) spans and 0 points are lost: it rejects some of them$/\1/p' "$SCRATCH/picky.err")
sent=$(sed -n 's/^probectl: sent \([0-9]*\) spans and .*/\1/p' "$SCRATCH/picky.err")
{ [ $((lost % 5)) = 0 ] && [ "$lost" -ge 20 ] && [ $((lost + sent)) = $total ]; } ||
	fail "of $total spans, $sent were taken and $lost rejected: $(cat "$SCRATCH/picky.err")"
finish
