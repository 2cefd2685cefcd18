#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# pmtrace(3): the same object, linked with libpcp_trace and with libprobe_pmtrace, returns the
# same values, and the real agent and probectl count the same.
. tests/integration/lib.sh
need_attach
need jq
header=$(echo '#include <pcp/trace.h>' | cc -E -x c - >/dev/null 2>&1 && echo yes)
[ -n "$header" ] || skip "libpcp-trace2-dev is not installed"
export LD_LIBRARY_PATH=$BUILD

# both NAME SOURCE FLAGS…: $SCRATCH/NAME.pcp and $SCRATCH/NAME.ours, from one object
both()
{
	local name=$1 source=$2
	shift 2
	cc -O2 -g -D_GNU_SOURCE -DPCP_TRACE -c -o "$SCRATCH/$name.o" "$source" "$@" ||
		die "$source does not compile"
	cc -o "$SCRATCH/$name.pcp" "$SCRATCH/$name.o" -lpcp_trace -lpthread ||
		die "$name: not linked with libpcp_trace"
	cc -o "$SCRATCH/$name.ours" "$SCRATCH/$name.o" -L"$BUILD" -lprobe_pmtrace -lpthread ||
		die "$name: not linked with libprobe_pmtrace"
}

# ---- Return values -----------------------------------------------------------------------

both calls tests/targets/runtime/pmtrace.c
"$SCRATCH/calls.pcp" >"$SCRATCH/pcp.out" 2>/dev/null || fail "libpcp_trace: status $?"
"$SCRATCH/calls.ours" >"$SCRATCH/ours.out" 2>"$SCRATCH/ours.err" || fail "ours: status $?"
"$TARGETS/pmtrace" >"$SCRATCH/header.out" 2>/dev/null || fail "with our header: status $?"
[ "$(wc -l <"$SCRATCH/pcp.out")" -gt 80 ] || fail "few calls: $(wc -l <"$SCRATCH/pcp.out")"
diff "$SCRATCH/pcp.out" "$SCRATCH/ours.out" || fail "calls return something else"
diff "$SCRATCH/pcp.out" "$SCRATCH/header.out" || fail "calls return something else, with our header"
# Each flag that has no effect is told when it is set, and not again while it is.
cat >"$SCRATCH/wanted" <<'TEXT'
pmtracestate: PMTRACE_STATE_COMMS has no effect in libprobe_pmtrace: there is no agent to connect to
pmtracestate: PMTRACE_STATE_PDU has no effect in libprobe_pmtrace: nothing is sent to an agent
pmtracestate: PMTRACE_STATE_PDUBUF has no effect in libprobe_pmtrace: nothing is sent to an agent
TEXT
"$SCRATCH/calls.ours" $((16 | 2 | 4 | 8)) 2>&1 >/dev/null | head -3 | diff "$SCRATCH/wanted" - ||
	fail "other flags without effect"
"$SCRATCH/calls.ours" 32 2>&1 >/dev/null | head -1 >"$SCRATCH/said"
same "ASYNC" "$(cat "$SCRATCH/said")" \
	"pmtracestate: PMTRACE_STATE_ASYNC has no effect in libprobe_pmtrace: nothing is sent to an agent"
same "what is said of flags" "$(sed 's/ in libprobe.*//' "$SCRATCH/ours.err" | tr '\n' ';')" \
	"pmtracestate: PMTRACE_STATE_COMMS has no effect;pmtracestate: 0x80 has no effect: there are no such flags;"
same "what libprobe_pmtrace.so needs" \
	"$(readelf -d "$BUILD/libprobe_pmtrace.so" | grep -o 'Shared library: .*' |
		grep -v ld-linux-aarch64 | xargs)" \
	"Shared library: [libc.so.6]"

# Diagnostics: each call.
"$SCRATCH/calls.ours" 1 2>&1 >/dev/null | head -3 >"$SCRATCH/said"
same "what is said with PMTRACE_STATE_API" "$(sed -n 2p "$SCRATCH/said")" \
	'pmtracebegin("(null)") = -12000 (Invalid tag name - tag names cannot be NULL)'

# ---- What is counted ------------------------------------------------------------------------

# The calls, and a program with threads.
both orders docs/examples/pmtrace/orders.c
orders=50

# ours NAME ARGS…: the probes' hits, as "KIND TAG COUNT"
ours()
{
	local name=$1
	shift
	"$PROBECTL" trace --json -o "$SCRATCH/$name.trace" -t count -k 'str(arg0)' \
		pmtrace:end pmtrace:abort pmtrace:point pmtrace:obs pmtrace:counter -- \
		"$SCRATCH/$name.ours" "$@" >/dev/null 2>"$SCRATCH/$name.err" ||
		fail "$name: trace: $(head -3 "$SCRATCH/$name.err")"
	jq -r 'select(.hits) | "\(.name)\t\(.keys[0])\t\(.hits)"' "$SCRATCH/$name.trace" | sort
}

ours orders "$orders" >"$SCRATCH/orders.hits"
for desk in 1 2 3 4; do
	printf 'abort\torder, desk %d\t%d\nend\torder, desk %d\t%d\nobs\torder, desk %d\t%d\n' \
		"$desk" $((orders / 5)) "$desk" $((orders * 4 / 5)) "$desk" "$orders"
done >"$SCRATCH/wanted"
printf 'counter\torders ever\t1\nend\tday\t1\npoint\tasked\t%d\n' $((orders * 4)) >>"$SCRATCH/wanted"
diff <(sort "$SCRATCH/wanted") "$SCRATCH/orders.hits" || fail "other counts than the program's own"

# Transactions by tag, with their times, whatever else happens meanwhile. As in the example.
command=$(sed -n '/^ \* *probectl /{:more; /\\$/{N; b more}; s/\\\n \*//g; s/^ \* *//; p}' \
	docs/examples/pmtrace/orders.c)
[[ $command == 'probectl trace '*' -- ./orders 100' ]] || die "the example says: $command"
command=${command#probectl trace }
eval "\"\$PROBECTL\" trace --json -o \"\$SCRATCH/transactions\" ${command% ./orders*}" \
	"\"\$SCRATCH/orders.ours\" $orders" 2>"$SCRATCH/err" ||
	fail "transactions: $(cat "$SCRATCH/err")"
same "transactions" "$(jq -r 'select(.keys) | "\(.name) \(.keys[0]) \(.count)"' \
	"$SCRATCH/transactions" | sort | tr '\n' ';')" \
	"$(grep -E '^(end|abort)' "$SCRATCH/wanted" | tr '\t' ' ' | sort | tr '\n' ';')"
same "orders that took no time" "$(jq -s '[.[] | select(.keys and .min < 100000)] | length' \
	"$SCRATCH/transactions")" 0

# Values, with and without a fraction.
"$PROBECTL" trace --json -o "$SCRATCH/values" 'pmtrace:obs(str(arg0),arg1,arg2)' \
	'pmtrace:counter(str(arg0),arg1,arg2)' -- "$SCRATCH/orders.ours" 2 2>"$SCRATCH/err" ||
	fail "values: $(cat "$SCRATCH/err")"
same "values" "$(jq -c 'select(.args) | .args' "$SCRATCH/values" | sort -u | tr '\n' ' ')" \
	"$(printf '["order, desk %d",1.5,1] ["order, desk %d",2.5,2] ' 1 1 2 2 3 3 4 4)[\"orders ever\",1000008,1000008] "

# Fractions survive in every tracer that gathers.
cat >"$SCRATCH/values.c" <<'C'
#include <pcp/trace.h>

int main(void)
{
	static const double values[] = {-0.25, 1e-3, 1e12, 148.5};

	for (int i = 0; i < 4; i++) {
		pmtraceobs("bytes", values[i]);
		pmtracecounter("ever", 148.5 + i);
	}
	return 0;
}
C
both values "$SCRATCH/values.c"
# gathered TRACER PROBE FILTER: of the row of a tracer
gathered()
{
	"$PROBECTL" trace --json -o "$SCRATCH/gathered" -t "$1" -k 'str(arg0)' "$2" -- \
		"$SCRATCH/values.ours" 2>"$SCRATCH/err" || fail "$1: $(cat "$SCRATCH/err")"
	jq -c "select(.keys) | [.keys[0], $3]" "$SCRATCH/gathered"
}
same "observe" "$(gathered observe,arg1 pmtrace:obs .last)" '["bytes",148.5]'
same "counter" "$(gathered counter,arg1 pmtrace:counter .last)" '["ever",151.5]'
same "avg" "$(gathered avg,arg1 pmtrace:counter '.sum, .avg')" '["ever",600,150]'
same "avg" "$(gathered avg,arg1 pmtrace:obs '.sum, .avg')" '["bytes",1000000000148.251,250000000037.06274]'
same "hist" "$(gathered hist,arg1 pmtrace:obs '.min, .max, .p50, (.buckets | length)')" \
	'["bytes",-0.25,1000000000000,0.0009918212890625,4]'
same "min" "$(gathered min,arg1 pmtrace:counter .min)" '["ever",148.5]'
same "max" "$(gathered max,arg1 pmtrace:counter .max)" '["ever",151.5]'
"$PROBECTL" trace -o "$SCRATCH/text" -t observe,arg1 -t hist,arg1 -k 'str(arg0)' pmtrace:obs -- \
	"$SCRATCH/values.ours" 2>"$SCRATCH/err" || fail "text: $(cat "$SCRATCH/err")"
same "values as text" "$(grep -c ' 148.5 ' "$SCRATCH/text") $(grep -c ' 1000000000148.25 ' "$SCRATCH/text")" "1 1"
"$PROBECTL" trace -t observe,arg1+1 pmtrace:obs -- "$SCRATCH/values.ours" >/dev/null 2>"$SCRATCH/err" &&
	fail "a sum with a fraction"
grep -q 'a floating-point number can only be compared' \
	"$SCRATCH/err" || fail "says: $(cat "$SCRATCH/err")"

# ---- The real agent --------------------------------------------------------------------------

agent=/usr/lib/pcp/pmdas/trace/pmdatrace
if [ ! -x "$agent" ] || ! command -v dbpmda >/dev/null; then
	echo "note: pcp is not installed; nothing is compared with its agent"
	finish
fi

# A free port: the agent exits if its port is in use.
port=$(free_port)
export PCP_TRACE_PORT=$port PCP_TRACE_HOST=127.0.0.1
{
	echo 'root { trace }'
	sed -n '/^trace/,$p' "${agent%/*}/pmns" | sed 's/TRACE:/10:/'
} >"$SCRATCH/names"

# agent NAME WHOSE ARGS…: what the agent counts for a program, as "KIND TAG COUNT". dbpmda replaces
# pmcd: it starts the agent and queries it; instance numbers are those of the domain.
agent()
{
	local name=$1 whose=$2 kind metric
	shift 2
	rm -f "$SCRATCH/ask.$name"
	mkfifo "$SCRATCH/ask.$name"
	(cd "$SCRATCH" && exec dbpmda -n "$SCRATCH/names" <"$SCRATCH/ask.$name") \
		>"$SCRATCH/agent.$name" 2>&1 &
	exec {ask}>"$SCRATCH/ask.$name"
	echo "open pipe $agent -d 10 -l $SCRATCH/trace.log -I $port -M $(id -un)" >&"$ask"
	until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
		pause
	done
	"$SCRATCH/$name.$whose" "$@" >"$SCRATCH/with_agent" 2>"$SCRATCH/with_agent.err" ||
		fail "$name with an agent: status $?"
	for kind in 0:transact 1:point 2:observe 3:counter; do
		metric=${kind#*:}
		printf 'instance 10.%d\nfetch trace.%s.count\n' "${kind%:*}" "$metric"
	done >&"$ask"
	echo quit >&"$ask"
	exec {ask}>&-
	wait $!
	"$python" - "$SCRATCH/agent.$name" <<'PYTHON'
import re, sys
kinds = {"transact": "end", "point": "point", "observe": "obs", "counter": "counter"}
names = {}
for line in open(sys.argv[1], encoding="utf-8"):
    if line.startswith("pmInDom"):
        names = {}
    elif found := re.match(r"\[ *\d+\] inst: (\d+) name: \"(.*)\"$", line):
        names[found[1]] = found[2]
    elif found := re.search(r"\(trace\.(\w+)\.count\)", line):
        kind = kinds[found[1]]
    elif found := re.match(r" *inst \[(\d+) .*\] value (\d+)", line):
        print(f"{kind}\t{names[found[1]]}\t{found[2]}")
PYTHON
}

agent orders pcp "$orders" | sort >"$SCRATCH/orders.agent"
diff "$SCRATCH/orders.agent" <(grep -v ^abort "$SCRATCH/orders.hits") || fail "the agent has other counts"
# The calls above, including those of a forked child. The agent ignores the longest tag.
ours calls 0 | grep -v -e ^abort -e lllll >"$SCRATCH/calls.hits"
agent calls pcp 0 | sort >"$SCRATCH/calls.agent"
[ "$(wc -l <"$SCRATCH/calls.agent")" -gt 10 ] || fail "the agent counted little"
diff "$SCRATCH/calls.agent" "$SCRATCH/calls.hits" || fail "the agent has other counts of the calls"

# ---- Through the real library, if the user asks for it -------------------------------------------

PROBE_PMTRACE_AGENT=$(realpath "$(cc -print-file-name=libpcp_trace.so)")
export PROBE_PMTRACE_AGENT
cp "$SCRATCH/with_agent" "$SCRATCH/calls.real"
agent calls ours 0 | sort | diff "$SCRATCH/calls.agent" - || fail "the agent has other counts of ours"
diff "$SCRATCH/calls.real" "$SCRATCH/with_agent" || fail "calls with an agent return something else"
[ ! -s "$SCRATCH/with_agent.err" ] || fail "says: $(cat "$SCRATCH/with_agent.err")"
cat >"$SCRATCH/spoken.c" <<'C'
#include <pcp/trace.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int state = argc > 1 ? atoi(argv[1]) : 0;

	printf("%d", pmtracestate(state));
	printf(" %d", pmtracebegin("spoken"));
	printf(" %d", pmtraceend("spoken") < 0);
	printf(" %d", pmtraceobs("spoken", 1.5) < 0);
	printf(" %d", pmtracestate(32) < 0);
	printf(" %d\n", pmtracestate(0));
	return 0;
}
C
both spoken "$SCRATCH/spoken.c"
# spoken WHOSE STATE: what is said, without numbers, whose widths differ; and the agent's counts, which
# come later with the asynchronous protocol (32)
spoken()
{
	agent spoken "$1" "$2" >"$SCRATCH/spoken.counts" 2>"$SCRATCH/spoken.early"
	[ "$2" -lt 32 ] || : >"$SCRATCH/spoken.counts"
	sed -E 's/[0-9a-f]+/N/g' "$SCRATCH/with_agent.err" | tr -s ' ' | cat - "$SCRATCH/with_agent" \
		"$SCRATCH/spoken.counts"
}
for state in 32 47 1 2 4 8; do
	spoken pcp "$state" >"$SCRATCH/spoken.real"
	spoken ours "$state" | diff "$SCRATCH/spoken.real" - || fail "state $state says something else"
	[ "$state" = 32 ] || [ "$(wc -l <"$SCRATCH/with_agent.err")" -ge 3 ] ||
		fail "state $state says little"
done
grep -q 'obs	spoken	1' "$SCRATCH/spoken.counts" || fail "counts: $(cat "$SCRATCH/spoken.counts")"
# The probes are there all the same, and an agent that is not there is an error.
hits()
{
	PCP_TRACE_PORT=1 "$PROBECTL" trace --json 'pmtrace:*' -- "$SCRATCH/spoken.ours" 2>/dev/null |
		jq -r 'select(.args)? | .name' | paste -sd' '
}
same "hits with an agent that is not there" "$(hits)" "state state state"
agent spoken ours 0 >/dev/null
same "results with one" "$(cat "$SCRATCH/with_agent")" "0 0 0 0 1 0"
# A library that is none. A copy of ours would report each call a second time.
cp "$BUILD/libprobe_pmtrace.so" "$SCRATCH/copy.so"
wanted=$(PROBE_PMTRACE_AGENT=/nowhere hits)
same "hits with a copy" "$(PROBE_PMTRACE_AGENT=$SCRATCH/copy.so hits)" "$wanted"
for path in /nowhere "$BUILD/libprobe_pmtrace.so" "$SCRATCH/copy.so"; do
	PROBE_PMTRACE_AGENT=$path PCP_TRACE_PORT=1 "$SCRATCH/spoken.ours" >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "results without one" "$(cat "$SCRATCH/out")" "0 0 0 0 1 0"
	grep -qF "libprobe_pmtrace: nothing is sent to an agent: PROBE_PMTRACE_AGENT=$path: " "$SCRATCH/err" ||
		fail "$path: $(cat "$SCRATCH/err")"
done
unset PROBE_PMTRACE_AGENT

# ---- Variables that have no effect otherwise ------------------------------------------------------

unset PCP_TRACE_HOST PCP_TRACE_PORT
for names in PCP_TRACE_HOST PCP_TRACE_PORT PCP_TRACE_TIMEOUT PCP_TRACE_REQTIMEOUT PCP_TRACE_RECONNECT \
	"PCP_TRACE_HOST PCP_TRACE_RECONNECT"; do
	read -ra set <<<"$names"
	env "${set[@]/%/=1}" "$SCRATCH/spoken.ours" >/dev/null 2>"$SCRATCH/err"
	same "what is said of $names" "$(cat "$SCRATCH/err")" "libprobe_pmtrace: no effect of ${names/ /, }: nothing is \
sent to an agent (to send it, set PROBE_PMTRACE_AGENT to the path of Performance Co-Pilot's libpcp_trace.so.2)"
done
same "without them" "$("$SCRATCH/spoken.ours" 2>&1)" "0 0 0 0 1 0"
# It is honoured: pmtracestate() returns the flag.
same "PCP_TRACE_NOAGENT" "$(PCP_TRACE_NOAGENT=1 "$SCRATCH/spoken.ours" 2>&1)" "0 0 0 0 1 16"
finish
