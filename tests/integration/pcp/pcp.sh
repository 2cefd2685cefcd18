#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Metrics for a real Performance Co-Pilot: pmcd shows what the program says it did, for every
# tracer; types, units, labels, keys; two exporters of one probe; what Prometheus gets from
# pmproxy; errors.
. tests/integration/lib.sh
. tests/integration/pcp/lib_pcp.sh
need_attach
need jq
need_pcp
pcp_setup
pmcd_start

threads=4 requests=1000
total=$((threads * requests))

# truth EXPR: evaluated on the program's report
truth()
{
	jq -r "$1" <<<"$said"
}

begin()
{
	start "$TARGETS/pairs" "$threads" "$requests"
	save_state "$target_pid"
}

# work: the program's report goes to $said
work()
{
	ask go
	said=$answer
	hear
}

end()
{
	trace_stop "$1"
	same_state "$target_pid"
	tell bye
	end_target
	same "files that $1 left" "$(find "$pcp_dir/tmp/mmv" -name '*probectl*' | wc -l)" 0
}

# ---- Errors --------------------------------------------------------------------------

# refused MESSAGE ARGS…: prints an error line that contains this
refused()
{
	local message=$1 status=0
	shift
	"$PROBECTL" "$@" >"$SCRATCH/refused" 2>&1 || status=$?
	[ "$status" != 0 ] || fail "probectl $*: done, in spite of all"
	same "lines of: $*" "$(wc -l <"$SCRATCH/refused")" 1
	grep -qFe "$message" "$SCRATCH/refused" || fail "probectl $*: $(cat "$SCRATCH/refused")"
}

begin
pairs=(-p "$target_pid" pairs:request__start)
PCP_CONF=$SCRATCH/none refused "$SCRATCH/none does not say where metrics go (PCP_TMP_DIR)" \
	trace -t pcp "${pairs[@]}"
sed "s,^PCP_TMP_DIR=.*,PCP_TMP_DIR=$SCRATCH/none," "$PCP_CONF" >"$SCRATCH/pcp.conf"
PCP_CONF=$SCRATCH/pcp.conf refused "cannot open $SCRATCH/none/mmv, where pmcd looks for metrics" \
	trace -t pcp "${pairs[@]}"
chmod 555 "$pcp_dir/tmp/mmv"
[ "$(id -u)" = 0 ] || refused "cannot write metrics into $pcp_dir/tmp/mmv" trace -t pcp "${pairs[@]}"
chmod 575 "$pcp_dir/tmp/mmv"
[ "$(id -u)" = 0 ] || refused "the members of group '$(id -gn)' and root may" trace -t pcp "${pairs[@]}"
chmod 755 "$pcp_dir/tmp/mmv"
refused "metrics need a tracer that gathers" trace -t pcp,json "${pairs[@]}"
refused "by itself (-t pcp,latency)" trace -t pcp --pairs auto "${pairs[@]}"
refused "use \`probectl trace\`" enable -t pcp "${pairs[@]}"
same_state "$target_pid"

# ---- Values --------------------------------------------------------------------------

trace_start values -t pcp -t pcp,point -t pcp,sum,1 -t pcp,observe,arg0 -t pcp,counter,arg0 \
	-t pcp,latency -t pcp,hist,arg0 --pairs auto -i 0.2 -p "$target_pid" \
	'pairs:request__*' 'pairs:step__*'
me=$target_pid/pairs
# Without any hit, a count is 0.
until_metric count.hits "$me:step__done" 0
work
until_metric count.hits "$me:step__done" "$(truth .steps)"
until_metric point.hits "$me:request__start" $((total + threads))
until_metric latency.hits "$me:request__start..request__done" "$(truth .done)"
until_metric latency.hits "$me:request__start..request__fail" "$(truth .failed)"
until_metric latency.hits "$me:step__start..step__done" "$(truth .steps)"
until_metric latency.in_flight "$me:request__start..request__done" $threads
until_metric latency.unmatched "$target_pid" $threads
until_metric sum.total "$me:step__done" "$(truth .steps)"
until_metric sum.hits "$me:step__done" "$(truth .steps)"
# Percentiles cover the last interval: while the program rests, there are none.
until_metric latency.p99 "$me:step__start..step__done" ''
until_metric hist.p99 "$me:step__start" nan
same "types" "$(pminfo -h local:// -d mmv.probectl.latency mmv.probectl.observe.value \
	mmv.probectl.counter.value mmv.probectl.count.hits |
	sed -n 's/^mmv.probectl.//p; s/.*Data Type: \(.*[^ ]\) *InDom.*/ \1/p; s/.*Semantics: \([^ ]*\) *Units: \(.*\)/ \1 \2/p' |
	paste -d, - - - | sort)" \
	"count.hits, 64-bit unsigned int, counter count
counter.value, double, counter none
latency.hits, 64-bit unsigned int, counter count
latency.in_flight, 64-bit unsigned int, instant count
latency.lost, 64-bit unsigned int, counter count
latency.max, 64-bit unsigned int, instant nanosec
latency.min, 64-bit unsigned int, instant nanosec
latency.p50, 64-bit unsigned int, instant nanosec
latency.p90, 64-bit unsigned int, instant nanosec
latency.p95, 64-bit unsigned int, instant nanosec
latency.p99, 64-bit unsigned int, instant nanosec
latency.p999, 64-bit unsigned int, instant nanosec
latency.total, 64-bit unsigned int, counter nanosec
latency.unmatched, 64-bit unsigned int, counter count
observe.value, double, instant none"
pminfo -h local:// -l mmv.probectl.latency.hits >"$SCRATCH/labels"
labels=$(sed -n 's/.*request__start..request__fail"\] labels //p' "$SCRATCH/labels")
same "labels" "$(jq -c '[.pid, .program, .provider, .probe, .begin, .host]' <<<"$labels")" \
	"[$target_pid,\"pairs\",\"pairs\",\"request__fail\",\"request__start\",\"$(uname -n)\"]"
end values

# Times. The interval is so long that the last one covers everything: it is shown when the
# program has ended, and stays.
begin
trace_start times -t pcp,transaction -i 600 -p "$target_pid" \
	pairs:request__start pairs:request__done pairs:request__fail
me=$target_pid/pairs:request__start..request
until_metric transaction.unmatched "$target_pid" 0
work
tell bye
end_target
until_metric transaction.hits "${me}__done" "$(truth .done)"
until_metric transaction.hits "${me}__fail" "$(truth .failed)"
times=0
for outcome in __done __fail; do
	# In ascending order.
	mapfile -t sorted < <(for name in min p50 p90 p95 p99 p999 max; do
		metric transaction.$name "$me$outcome"
	done)
	same "times of $outcome" "${sorted[*]}" "$(printf '%s\n' "${sorted[@]}" | sort -n | paste -sd' ')"
	hits=$(metric transaction.hits "$me$outcome")
	sum=$(metric transaction.total "$me$outcome")
	if [ "$sum" -lt $((sorted[0] * hits)) ] || [ "$sum" -gt $((sorted[6] * hits)) ]; then
		fail "the times of $hits $outcome add up to $sum: ${sorted[*]}"
	fi
	times=$((times + sum))
done
# Clock rates differ by some 10^-4.
if [ $((times * 1001)) -lt $(($(truth .inner) * 1000)) ] ||
	[ $((times * 999)) -gt $(($(truth .outer) * 1000)) ]; then
	fail "requests took $times ns, not from $(truth .inner) to $(truth .outer)"
fi
same "outcomes" "$(pminfo -h local:// -l mmv.probectl.transaction.hits |
	sed -n 's/.*"outcome":"\([a-z]*\)".*/\1/p' | sort | paste -sd,)" aborted,done
trace_stop times

# ---- Keys, and two exporters of one probe -----------------------------------------------

begin
options=(-i 0.2 -p "$target_pid" pairs:request__start)
me=$target_pid/pairs:request__start
trace_start all -t pcp "${options[@]}"
all_pid=$tracer_pid
until_metric count.hits "$me" 0
trace_start some -t pcp -f 'arg1 == 0' "${options[@]}"
some_pid=$tracer_pid
until_metric count.hits "$me#2" 0
trace_start keys -t pcp -k 'str(arg3)' "${options[@]}"
until_metric count.lost "$target_pid#3" 0
work
# Like the tags of pmtrace(1): each gets an instance at its first hit.
for key in select insert update delete 'vacuum "all"'; do
	until_metric count.hits "$me $key" $((total / 5))
done
until_metric count.hits "$me orphan" $threads
until_metric count.hits "$me" $((total + threads))
until_metric count.hits "$me#2" $(($(truth '.kinds[0]') + threads))
same "keys as labels" "$(pminfo -h local:// -l mmv.probectl.count.hits |
	sed -n 's/^ *inst .* labels //p' | jq -r '.key // "-"' | LC_ALL=C sort | paste -sd,)" \
	'-,-,delete,insert,orphan,select,update,vacuum "all"'

proxy_port=$(free_port)
$pcp_lib/bin/pmproxy -f -A -i 127.0.0.1 -p "$proxy_port" -s "$pcp_dir/run/pmproxy.socket" \
	-U "$(id -un)" -l "$pcp_dir/log/pmproxy.log" -x "$pcp_dir/log/pmproxy.fatal" >/dev/null 2>&1 &
proxy_pid=$!
on_exit "end_process $proxy_pid"
"$python" - "http://127.0.0.1:$proxy_port/metrics?names=mmv.probectl&hostspec=127.0.0.1:$pmcd_port" \
	>"$SCRATCH/metrics" <<'PYTHON' || fail "pmproxy does not answer: $(tail -n 5 "$pcp_dir/log/pmproxy.log")"
import sys, time, urllib.request
for attempt in range(200):
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())
        break
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ConnectionRefusedError):
            raise
        time.sleep(0.1)
else:
    sys.exit(1)
PYTHON
hits=$(grep '^mmv_probectl_count_hits{' "$SCRATCH/metrics")
same "for Prometheus" "$(grep -F "instname=\"$me\"" <<<"$hits" | sed 's/.*} //')" $((total + threads))
for label in "pid=\"$target_pid\"" 'program="pairs"' 'hostname="' 'provider="pairs"' \
	'probe="request__start"' 'key="update"'; do
	grep -qF "$label" <<<"$hits" || fail "no $label for Prometheus: $hits"
done
grep -q '^# TYPE mmv_probectl_count_hits counter$' "$SCRATCH/metrics" || fail "no type for Prometheus"

trace_stop keys
for tracer_pid in $some_pid $all_pid; do
	trace_stop all
done
same_state "$target_pid"
tell bye
end_target
finish
