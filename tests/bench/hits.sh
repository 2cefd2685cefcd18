#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The cost of a hit for the program, above the bare loop (tests/targets/loops/loop.c), with probectl
# and with other tools, on one and on two threads.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh
. tests/bench/cycles.sh
. tests/bench/loop.sh
. tests/bench/lttng.sh

# Records are written at full speed, but into buffers that are emptied between rounds, because a
# lost hit is cheaper than a recorded one.
record_hits=20000
record_rounds=25

# ---- probectl ----------------------------------------------------------------

count_ns()
{
	under "$1" 10000000 "$rounds" "$2" "$PROBECTL" trace --count -p PID "loop:$1"
}

record_ns()
{
	under "$1" "$record_hits" "$record_rounds" "$3" "$PROBECTL" trace --json -b 4M -o "$SCRATCH/hits" \
		-p PID "loop:$1$2"
	# The share of kept hits, so that the cost of a loss is not mistaken for that of a record.
	"$python" - "$SCRATCH/hits" >"$SCRATCH/note" <<'PYTHON'
import json, sys
kept = lost = 0
for line in open(sys.argv[1], encoding="utf-8"):
    item = json.loads(line)
    if "lost" in item:
        lost += item["lost"]
    elif "args" in item:
        kept += 1
print(f"{100 * kept / max(1, kept + lost):.0f}% kept")
PYTHON
	rm -f "$SCRATCH/hits"
}

declare -A place=([data]="a variable" [stack]="on the stack, main's (1), all (2)" [heap]="on the heap")
loop_heading
if [ -x "$PROBECTL" ]; then
	pair "probectl, count: nop, moved code" count_ns nop
	pair "probectl, count: nop, punned" count_ns pun
	pair "probectl, count: nop and nop10 (usdt.h)" count_ns nop10
	pair "probectl, count: nop5" count_ns nop5
	pair "probectl, record of 3 integers: nop, moved code" record_ns nop ""
	pair "probectl, record of 3 integers: nop, punned" record_ns pun ""
	pair "probectl, record of 3 integers: nop and nop10" record_ns nop10 ""
	pair "probectl, record with a string: a constant" record_ns string "(arg0,arg1,str(arg2))"
	for where in data stack heap; do
		loop_options="-w $where" pair "probectl, record with a string: ${place[$where]}" \
			record_ns string "(arg0,arg1,str(arg2))"
	done
else
	missing "probectl" "$PROBECTL is not built"
fi

# ---- Limits --------------------------------------------------------------------

limit_ns()
{
	alone -s "$1" -n 10000000 -r "$rounds" -t "$2"
}
pair "limit: the probe, switched off" limit_ns nop
pair "limit: a counter compiled in" limit_ns counter
pair "limit: a recorder compiled in (time, tid, 3 integers)" limit_ns inline

# ---- Kernel uprobes ---------------------------------------------------------------

slow_hits=200000
[ "$quick" = 0 ] || slow_hits=50000

bpftrace_ns()
{
	under "$1" "$slow_hits" 3 "$3" bpftrace -p PID -e "usdt:$loop:loop:$1 { $2 }"
}
if ! command -v bpftrace >/dev/null; then
	missing "bpftrace" "it is not installed"
elif ! is_root; then
	missing "bpftrace" "it needs root"
else
	pair "bpftrace, count()" bpftrace_ns nop "@ = count();"
	pair "bpftrace, hist()" bpftrace_ns nop "@ = hist(arg1);"
	pair "bpftrace, printf() of 3 integers" bpftrace_ns nop 'printf("%d %d %d\\n", arg0, arg1, arg2);'
fi

# uprobe_event SITE: makes the event probectl_bench:SITE with three arguments
uprobe_event()
{
	local offset registers
	offset=$("$python" tests/integration/state.py sites "$loop" | awk -v p="loop:$1" '$1 == p { print $3 }')
	case $1 in
	nop) registers="left=%cx:u64 done=%dx:u64 hits=%ax:u64" ;;
	*) registers="left=%cx:u64 done=%ax:u64 hits=%di:u64" ;;
	esac
	echo "p:probectl_bench/$1 $loop:$offset $registers" >>"$tracing/uprobe_events"
}
uprobe_remove()
{
	echo 0 >"$tracing/events/probectl_bench/enable"
	echo "-:probectl_bench/$1" >>"$tracing/uprobe_events"
} 2>/dev/null

tracefs_ns()
{
	uprobe_event "$1" || return
	echo 1 >"$tracing/events/probectl_bench/$1/enable"
	alone -s "$1" -n "$slow_hits" -r 3 -t "$2"
	uprobe_remove "$1"
	echo >"$tracing/trace"
}
perf_ns()
{
	uprobe_event nop || return
	(cd "$SCRATCH" && perf record -q -o perf.data -e probectl_bench:nop \
		"$loop" -s nop -n "$slow_hits" -r 3 -t "$1" 2>"$SCRATCH/why") | cut -d' ' -f2
	uprobe_remove nop
	rm -f "$SCRATCH/perf.data"
}
if [ -z "$tracing" ]; then
	missing "uprobe events (tracefs, perf)" "$why_no_uprobes"
else
	on_exit "uprobe_remove nop; uprobe_remove nop5"
	pair "tracefs uprobe event, 3 integers, nop" tracefs_ns nop
	pair "tracefs uprobe event, 3 integers, nop5" tracefs_ns nop5
	if command -v perf >/dev/null; then
		pair "perf record, 3 integers, nop" perf_ns
	else
		missing "perf record" "it is not installed"
	fi
fi

# ---- Tracers in the process ----------------------------------------------------------

recorded_ns()
{
	lttng_ns "$1" "$2" "$record_hits" "$record_rounds"
}
if ! lttng_start || ! lttng_session 4M; then
	missing "LTTng-UST" "$(tail -1 "$SCRATCH/why")"
else
	pair "LTTng-UST tracepoint (compiled in), 3 integers" recorded_ns nop
	pair "LTTng-UST tracepoint (compiled in), a string" recorded_ns string
	lttng_stop
fi

if command -v uftrace >/dev/null; then
	row "uftrace, a function's entry and exit" "$(above "$(uftrace_ns)" "$bare1")" -
else
	missing "uftrace" "it is not installed"
fi

# ---- gdb ------------------------------------------------------------------------------

# dprintf does not take a probe, so this is a breakpoint that prints and continues.
gdb_ns()
{
	cat >"$SCRATCH/gdb.script" <<'GDB'
break -probe-stap loop:nop
commands
silent
printf "%ld %ld %ld\n", $_probe_arg0, $_probe_arg1, $_probe_arg2
continue
end
run
GDB
	gdb -q -nx -batch -iex 'set debuginfod enabled off' -x "$SCRATCH/gdb.script" \
		--args "$loop" -s nop -n 300 -r 3 2>"$SCRATCH/why" | awk '$1 == 900 && NF == 2 { print $2 }'
}
if command -v gdb >/dev/null; then
	row "gdb, a breakpoint that prints 3 integers" "$(above "$(gdb_ns)" "$bare1")" -
else
	missing "gdb" "it is not installed"
fi
