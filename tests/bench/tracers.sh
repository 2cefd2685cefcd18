#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The cost of a hit for the program, above the bare loop, if a tracer answers a question inside
# the program; and the cost of bpftrace for the same question.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh
. tests/bench/cycles.sh
. tests/bench/loop.sh

# tracer_ns SITE OPTIONS… THREADS: under `probectl trace` with these options
tracer_ns()
{
	local site=$1
	local -a options=("${@:2:$#-2}")
	local -a probes=("loop:$site")
	[ "$site" != pair ] || probes=(loop:pair__begin loop:pair__end)
	under "$site" 5000000 "$rounds" "${*: -1}" "$PROBECTL" trace "${options[@]}" -p PID "${probes[@]}"
}

loop_heading
if [ -x "$PROBECTL" ]; then
	pair "count" tracer_ns nop -t count
	pair "count, a filter that rejects: arg0 > 1000000000000" tracer_ns nop -t count -f 'arg0 > 1000000000000'
	pair "count, one in 100" tracer_ns nop -t count --every 100
	pair "count by key: arg1 & 7" tracer_ns nop -t count -k 'arg1 & 7'
	pair "count by key: a string of 30 bytes" tracer_ns string -t count -k 'str(arg2)'
	pair "sum" tracer_ns nop -t sum,arg1
	pair "avg" tracer_ns nop -t avg,arg1
	pair "hist" tracer_ns nop -t hist,arg1
	pair "hist by key: arg1 & 7" tracer_ns nop -t hist,arg1 -k 'arg1 & 7'
	pair "observe" tracer_ns nop -t observe,arg1
	pair "latency, begin and end together" tracer_ns pair -t latency
	pair "latency, matched by arg1" tracer_ns pair -t latency --match arg1
	pair "ring (flight recorder), 3 integers" tracer_ns nop -t ring
	pair "stack by frame pointers" tracer_ns nop -t stack,frames
	pair "ring, each hit's return addresses" tracer_ns nop -t ring --stack=frames
	pair "ring, each hit's stack, copied" tracer_ns nop -t ring --stack
	pair "spans that --min rejects" tracer_ns pair -t span --min 1s
	pair "the same with --stack" tracer_ns pair -t span --min 1s --stack
	cc -O2 -fPIC -shared -Ilibprobe/include -o "$tools/refuses.so" tests/bench/refuses.c || exit 1
	pair "a loaded tracer: enabled discards" tracer_ns nop -t "$tools/refuses.so,enabled"
	pair "... its filter refuses: arg0 > 1000000000000" tracer_ns nop -t "$tools/refuses.so,filter"
	pair "... -f refuses the same" tracer_ns nop -t "$tools/refuses.so,user" -f 'arg0 > 1000000000000'
	pair "two sessions on one probe: count and hist" tracer_ns nop -t count -t hist,arg1
else
	missing "probectl" "$PROBECTL is not built"
fi

slow_hits=200000
[ "$quick" = 0 ] || slow_hits=50000

# bpftrace_ns SITE PROGRAM THREADS
bpftrace_ns()
{
	under "$1" "$slow_hits" 3 "$3" bpftrace -p PID -e "$2"
}
if ! command -v bpftrace >/dev/null; then
	missing "bpftrace" "it is not installed"
elif ! is_root; then
	missing "bpftrace" "it needs root"
else
	pair "bpftrace: @ = count()" bpftrace_ns nop "usdt:$loop:loop:nop { @ = count(); }"
	pair "bpftrace: @[arg1 & 7] = count()" bpftrace_ns nop "usdt:$loop:loop:nop { @[arg1 & 7] = count(); }"
	pair "bpftrace: @ = hist(arg1)" bpftrace_ns nop "usdt:$loop:loop:nop { @ = hist(arg1); }"
	pair "bpftrace: /arg0 > 1000000000000/" bpftrace_ns nop \
		"usdt:$loop:loop:nop /arg0 > 1000000000000/ { @ = count(); }"
	pair "bpftrace: latency by a map of threads" bpftrace_ns pair \
		"usdt:$loop:loop:pair__begin { @start[tid] = nsecs; }
		usdt:$loop:loop:pair__end { @ = hist(nsecs - @start[tid]); delete(@start[tid]); }"
	pair "bpftrace: latency by a map of arg1" bpftrace_ns pair \
		"usdt:$loop:loop:pair__begin { @start[arg1] = nsecs; }
		usdt:$loop:loop:pair__end { @ = hist(nsecs - @start[arg1]); delete(@start[arg1]); }"
fi
