#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# pmtrace(3) as metrics: one command for all kinds, and a real pmcd shows them under the names of
# the real agent, with its semantics and units, by tag, with fractions.
. tests/integration/lib.sh
. tests/integration/pcp/lib_pcp.sh
. tests/integration/metrics/lib_metrics.sh
need_attach
need_pcp
names=$pcp_lib/pmdas/trace/pmns
[ -e "$names" ] || names=/var/lib/pcp/pmdas/trace/pmns
[ -e "$names" ] || skip "pcp has no trace agent"
export LD_LIBRARY_PATH=$BUILD
pcp_setup
pmcd_start
export PCP_DERIVED_CONFIG=$PWD/docs/examples/pmtrace/trace.derived

# A shop whose clerk works whenever it is asked to.
cat >"$SCRATCH/shop.c" <<'C'
#include "probe/pmtrace.h"
#include "tests/targets/target.h"

static void work(void)
{
	for (int i = 0; i < 5; i++) {
		pmtracebegin("order, \"A\"");
		pmtracepoint("asked");
		usleep(2000);
		if (i == 4)
			pmtraceabort("order, \"A\"");
		else
			pmtraceend("order, \"A\"");
	}
	pmtraceobs("weight", -148.5);
	pmtracecounter("sold", 1e6 + 0.25);
}

int main(void)
{
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	while (target_read_line(line, sizeof(line))) {
		if (line[0] == 'q')
			return 0;
		if (line[0] == 'o')
			pmtraceobs("weight", atof(line + 1));
		else
			work();
		puts("done");
	}
	return 0;
}
C
cc -O2 -I. -Ilibprobe/include -D_GNU_SOURCE -o "$SCRATCH/shop" "$SCRATCH/shop.c" -L"$BUILD" \
	-lprobe_pmtrace || die "the program does not compile"

# value METRIC: its instances and values, "NAME=VALUE", on a line
value()
{
	pminfo -h local:// -f "$1" 2>&1 |
		sed -n 's/^ *inst \[[0-9]* or "\(.*\)"\] value \(.*\)/\1=\2/p' | sort | paste -sd';'
}

# until_value METRIC WANTED: waits until it is so
until_value()
{
	while [ "$(value "$1")" != "$2" ]; do
		pause
	done
}

start "$SCRATCH/shop"
save_state "$target_pid"
trace_start tags -t pcp,pmtrace -i 0.2 -p "$target_pid" 'pmtrace:*'
wait_on "$target_pid" pmtrace:counter
ask work
ask work
until_value trace.transact.count 'order, "A"=8'
until_value trace.point.count 'asked=10'
until_value trace.observe.count 'weight=2'
until_value trace.observe.value 'weight=-148.5'
until_value trace.counter.count 'sold=2'
until_value trace.counter.value 'sold=1000000.25'
# Averages and rates are those of an interval: the last one had none.
until_value trace.transact.rate 'order, "A"=0'
until_value trace.point.rate 'asked=0'
total=$(value trace.transact.total_time)
"$python" -c 'import sys; sys.exit(not 0.016 <= float(sys.argv[1]) < 60)' "${total#*=}" ||
	fail "8 transactions of 2 ms each took $total seconds"
until_value mmv.trace.transact.lost "$target_pid=0"
until_value mmv.trace.transact.unmatched "$target_pid=0"
same "labels" "$(pminfo -h local:// -l mmv.trace.transact.count | grep -o '"pid":[0-9]*' | sort -u)" \
	"\"pid\":$target_pid"

# Every name that the agent has, but for those that control it, and what it says of them.
{
	echo 'root { trace }'
	sed -n '/^trace/,$p' "$names" | sed 's/TRACE:/10:/'
} >"$SCRATCH/names"
mapfile -t metrics < <(awk '/^trace\./ {of = $1} /TRACE:/ && of != "trace.control" {print of "." $1}' "$names")
[ "${#metrics[@]}" = 14 ] || fail "the agent has ${#metrics[@]} metrics"
for metric in "${metrics[@]}"; do
	pminfo -h local:// -d "$metric" >"$SCRATCH/one" 2>&1 || fail "$metric: $(cat "$SCRATCH/one")"
	sed -n 's/.*Semantics: \([a-z]*\) *Units: \(.*\)/'"$metric"' \1 \2/p' "$SCRATCH/one"
done >"$SCRATCH/ours.desc"
port=$(free_port)
{
	echo "open pipe $pcp_lib/pmdas/trace/pmdatrace -d 10 -l $SCRATCH/trace.log -I $port -M $(id -un)"
	for metric in "${metrics[@]}"; do
		echo "desc $metric"
	done
	echo quit
} | (cd "$SCRATCH" && dbpmda -n "$SCRATCH/names") >"$SCRATCH/agent.desc" 2>&1
paste -d' ' <(printf '%s\n' "${metrics[@]}") <(sed -n \
	's/.*Semantics: \([a-z]*\) *Units: \(.*\)/\1 \2/p' "$SCRATCH/agent.desc") >"$SCRATCH/agents.desc"
diff <(sed 's/ *$//' "$SCRATCH/agents.desc") <(sed 's/ *$//' "$SCRATCH/ours.desc") ||
	fail "metrics are described otherwise than by the agent"
trace_stop tags
same_state "$target_pid"

# Values, counts and new tags are there long before the interval ends; rates and averages are not.
trace_start live -t pcp,pmtrace -i 3600 -p "$target_pid" 'pmtrace:*'
wait_on "$target_pid" pmtrace:counter
for weight in 100 101.5 102 -103; do
	ask "o$weight"
	until_value mmv.trace.observe.value "weight=$weight"
done
until_value mmv.trace.observe.count 'weight=4'
ask work
until_value mmv.trace.transact.count 'order, "A"=4'
until_value mmv.trace.counter.value 'sold=1000000.25'
until_value mmv.trace.observe.value 'weight=-148.5'
ask work
until_value mmv.trace.point.count 'asked=10'
same "rate before the end of an interval" "$(value mmv.trace.point.rate)" 'asked=0'
same "average before the end of an interval" "$(value mmv.trace.transact.ave_time)" 'order, "A"=nan'
trace_stop live
same_state "$target_pid"
same "files that are left" "$(find "$pcp_dir/tmp/mmv" -name '*probectl*' | wc -l)" 0

# ---- For Prometheus --------------------------------------------------------------------------

trace_start scraped --listen :0 -t metrics,pmtrace -i 0.2 -p "$target_pid" 'pmtrace:*'
wait_tracing scraped
ask work
wanted='pmtrace_transaction_seconds_count order, \"A\" 4;pmtrace_point_hits_total asked 5;pmtrace_observe_hits_total weight 1;pmtrace_observe_value weight -148.5;pmtrace_tally_hits_total sold 1;pmtrace_tally_value_total sold 1000000.25'
while :; do
	get "$(url_of scraped)" >"$SCRATCH/scraped"
	scraped=$(sed -n 's/^\(pmtrace_[a-z_]*\){.*,key="\(.*\)"} /\1 \2 /p' "$SCRATCH/scraped" |
		grep -v '_\(bucket\|sum\|min_\|max_\)' | paste -sd';')
	[ "$scraped" != "$wanted" ] || break
	pause
done
trace_stop scraped
same "metrics of tags" "$scraped" "$wanted"
! command -v promtool >/dev/null || promtool check metrics <"$SCRATCH/scraped" || fail "promtool: status $?"

# ---- Tables, and what it refuses ------------------------------------------------------------

trace_start tables --json -t pmtrace -p "$target_pid" 'pmtrace:*'
wait_on "$target_pid" pmtrace:counter
ask work
trace_stop tables
same "tables" "$(jq -r 'select(.keys) | "\(.tracer) \(.name) \(.keys[0]) \(.count) \(.last)"' \
	"$SCRATCH/tables.out" | sort | paste -sd';')" \
	"counter,arg1 counter sold 1 1000000.25;observe,arg1 obs weight 1 -148.5;point point asked 5 null;transaction abort order, \"A\" 1 null;transaction end order, \"A\" 4 null"
same_state "$target_pid"

# refused WHAT ARGS…: one line
refused()
{
	local what=$1 status=0
	shift
	"$PROBECTL" "$@" >"$SCRATCH/out" 2>&1 || status=$?
	same "status of $*" "$status" 2
	same "what $* says" "$(cat "$SCRATCH/out")" "probectl: $what"
}
refused "tracer 'pmtrace' takes all probes of pmtrace: name 'pmtrace:*' and no other PROBE" \
	trace -t pmtrace -p "$target_pid" pmtrace:obs
refused "-k, --match and --pairs do not apply to tracer 'pmtrace', which has a row for each tag" \
	trace -t pmtrace -k arg0 -p "$target_pid" 'pmtrace:*'
refused "tracer 'pmtrace' stands for several, and each has a session of its own; use \`probectl trace\`" \
	enable -t pmtrace -p "$target_pid" 'pmtrace:*'
refused "tracer 'pmtrace' is a group of tracers and takes no value; only \`probectl trace -t pmtrace\` runs all of them" \
	trace -t pmtrace,arg0 -p "$target_pid" 'pmtrace:*'
tell quit
end_target 0
finish
