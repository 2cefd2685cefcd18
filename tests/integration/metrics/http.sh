#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The server of metrics: where it may listen, and clients that behave badly, while hits go on.
. tests/integration/lib.sh
. tests/integration/metrics/lib_metrics.sh
need_attach

# refused MESSAGE ARGS…: prints an error line that contains this, and nothing else
refused()
{
	local message=$1 status=0
	shift
	"$PROBECTL" "$@" >"$SCRATCH/refused" 2>&1 || status=$?
	[ "$status" != 0 ] || fail "probectl $*: done, in spite of all"
	same "lines of: $*" "$(wc -l <"$SCRATCH/refused")" 1
	grep -qFe "$message" "$SCRATCH/refused" || fail "probectl $*: $(cat "$SCRATCH/refused")"
}

start "$TARGETS/hits"
save_state "$target_pid"
probe=(-p "$target_pid" hits:work)
refused "--listen :9100 is that port of localhost" trace -t metrics "${probe[@]}"
refused "--listen is for -t metrics" trace --listen :0 -t count "${probe[@]}"
refused "--rows is for -t metrics" trace --rows 5 -t count "${probe[@]}"
refused "-t metrics,print: metrics need a tracer that gathers: -t metrics,latency" \
	trace --listen :0 -t metrics,print "${probe[@]}"
refused "the metrics of tracer 'sum' are exported while probectl runs" \
	enable -t metrics,sum,1 "${probe[@]}"
refused "are asked for twice"  trace --listen :0 -t metrics -t metrics,count "${probe[@]}"
for address in 9100 '' : localhost 127.0.0.1: 127.0.0.1:x 127.0.0.1:-1 127.0.0.1:65536 ::1:9100 \
	'[::1]' '[::1' '[]:1' '[' '[:1' example.org:80 300.1.1.1:80 '127.0.0.1:9100 ' \
	"$(printf '%0500d' 0):1"; do
	refused "is no address to listen at: use 127.0.0.1:9100" \
		trace --listen "$address" -t metrics "${probe[@]}"
done
# Libraries that are not there, or are none.
mkdir "$SCRATCH/none"
echo none | tee "$SCRATCH/none/libmicrohttpd.so.12" >"$SCRATCH/none/libcurl.so.4"
LD_LIBRARY_PATH=$SCRATCH/none refused "serving metrics needs libmicrohttpd (Debian: libmicrohttpd12)" \
	trace --listen :0 -t metrics "${probe[@]}"
LD_LIBRARY_PATH=$SCRATCH/none refused "OTLP needs libcurl (Debian: libcurl4)" \
	trace --otlp http://localhost -t metrics "${probe[@]}"
OTEL_EXPORTER_OTLP_HEADERS=secret refused "OTEL_EXPORTER_OTLP_HEADERS is NAME=VALUE" \
	trace --otlp http://localhost -t metrics "${probe[@]}"
# 192.0.2.0/24 is for documentation (RFC 5737).
refused "which is no address of this machine" trace --listen 192.0.2.1:0 -t metrics "${probe[@]}"
same_state "$target_pid"

# ---- Clients ------------------------------------------------------------------------------

trace_start served --listen :0 -t metrics -t print -i 0.2 "${probe[@]}"
wait_tracing served
url=$(url_of served)
case $url in
http://127.0.0.1:*/metrics) ;;
*) fail "without an address it listens at $url" ;;
esac
address=${url#http://} address=${address%/metrics}
refused "cannot listen at $address; take another port" \
	trace --listen "$address" -t metrics "${probe[@]}"
"$python" "$metrics_client" bad "$url" || fail "bad clients: status $?"

# Hits are printed while slow clients have all connections.
"$python" "$metrics_client" slow "$url" >"$SCRATCH/slow" 2>&1 &
slow_pid=$!
on_exit "end_process $slow_pid"
sleep 1
ask 100
until [ "$(wc -l <"$SCRATCH/served.out")" -ge 100 ]; do
	pause
done
same "hits beside slow clients" "$(wc -l <"$SCRATCH/served.out")" 100
wait "$slow_pid" || fail "slow clients: $(cat "$SCRATCH/slow")"
get "$url" >"$SCRATCH/text"
grep -q '^probectl_count_hits_total{.*probe="work"} 100$' "$SCRATCH/text" ||
	fail "hits: $(grep hits "$SCRATCH/text")"
# It costs nothing while nobody asks.
before=$(awk '{print $14 + $15}' "/proc/$tracer_pid/stat")
sleep 1
after=$(awk '{print $14 + $15}' "/proc/$tracer_pid/stat")
[ $((after - before)) -le 20 ] || fail "an idle server took $((after - before)) ticks in a second"
trace_stop served

# ---- A program that is started ---------------------------------------------------------------

# Its descriptors are its own.
trace_start started --listen :0 -t metrics -i 0.2 hits:work -- \
	sh -c 'ls -l /proc/self/fd >"$1"; while [ ! -e "$2" ]; do sleep 0.1; done; exec "$3"' sh \
	"$SCRATCH/descriptors" "$SCRATCH/asked" "$TARGETS/hits"
until [ -n "$(url_of started)" ]; do
	pause
done
get "$(url_of started)" >"$SCRATCH/text"
touch "$SCRATCH/asked"
grep -q '^probectl_rows_left_out 0$' "$SCRATCH/text" || fail "started: $(cat "$SCRATCH/text")"
wait "$tracer_pid" || fail "started: $(cat "$SCRATCH/started.err")"
grep -qE 'socket|eventpoll' "$SCRATCH/descriptors" && fail "it inherits $(cat "$SCRATCH/descriptors")"

# ---- Processes that come ---------------------------------------------------------------------

# Each has rows of its own, also beside the only one that was there at the start.
comer=$SCRATCH/comer
cp "$TARGETS/comer" "$comer"
"$comer" 10000 10000 >/dev/null </dev/null &
first=$!
on_exit "end_process $first"
trace_start come --listen :0 -t metrics -i 0.2 --follow --exe "$comer" comer:hit
wait_tracing come
"$comer" 10000 10000 >/dev/null </dev/null &
second=$!
on_exit "end_process $second"
while :; do
	get "$(url_of come)" >"$SCRATCH/text"
	! grep -q "^probectl_count_hits_total{.*pid=\"$second\"" "$SCRATCH/text" || break
	pause
done
same "processes" "$(sed -n 's/^probectl_count_hits_total{.*pid="\([0-9]*\)".*/\1/p' "$SCRATCH/text" | sort -n | paste -sd' ')" \
	"$(printf '%s\n' "$first" "$second" | sort -n | paste -sd' ')"
trace_stop come
end_process "$first"
end_process "$second"

# ---- IPv6, and every interface ---------------------------------------------------------------

if [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6; then
	trace_start six --listen '[::1]:0' -t metrics "${probe[@]}"
	wait_tracing six
	get "$(url_of six)" | grep -q '^probectl_count_hits_total{.*} 0$' || fail "no metrics by IPv6"
	trace_stop six
fi
trace_start all --listen '*:0' -t metrics "${probe[@]}"
wait_tracing all
url=$(url_of all)
get "http://127.0.0.2:${url##*:}" | grep -q '^probectl_count_hits_total' ||
	fail "no metrics at 127.0.0.2: $url"
trace_stop all
same_state "$target_pid"
tell bye
end_target
finish
