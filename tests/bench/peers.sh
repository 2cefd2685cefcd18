#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# One table: probectl beside the best other tool for the same work. The two are measured in turns,
# so that other load affects both alike, and the figures are medians of the turns. Rounds of hits are
# short, so that most of them end before another program gets the processor.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh
. tests/bench/cycles.sh
. tests/bench/loop.sh
. tests/bench/lttng.sh
. tests/bench/disk.sh

turns=5
[ "$quick" = 0 ] || turns=3
[ -x "$PROBECTL" ] || {
	missing "probectl" "$PROBECTL is not built"
	exit 0
}

# ---- Samples ---------------------------------------------------------------------------

# take NAME COMMAND…: keeps the number that it prints
take()
{
	local name=$1
	shift
	"$@" | tail -1 >>"$SCRATCH/of.$name"
}

# figure NAME [BASE]: the median of the samples, above that of another
figure()
{
	local value
	value=$(grep -v '^$' "$SCRATCH/of.$1" 2>/dev/null | median)
	if [ $# = 1 ]; then
		echo "$value"
	else
		above "$value" "$(figure "$2")"
	fi
}

# in_turns FUNCTION: calls it as often as there are turns
in_turns()
{
	for ((turn = 0; turn < turns; turn++)); do
		"$@"
	done
}

# ---- Hits ------------------------------------------------------------------------------

record_hits=5000 record_rounds=101
short_rounds=101

traced_ns()
{
	under "$1" 500000 "$short_rounds" 1 "$PROBECTL" trace --count -p PID "loop:$1"
}

# recorded_ns SITE ARGUMENTS: what was lost is noted, since a loss is cheaper than a record
recorded_ns()
{
	rm -rf "$SCRATCH/record"
	under "$1" "$record_hits" "$record_rounds" 1 "$PROBECTL" record -b 4M -o "$SCRATCH/record" -p PID "loop:$1$2"
	sed -n 's/^probectl: warning: \([0-9]*\) hits were lost.*/\1/p' "$SCRATCH/tracer.err" >>"$SCRATCH/lost"
	rm -rf "$SCRATCH/record"
}

# latency_ns THREADS, bpftrace_latency_ns THREADS
latency_ns()
{
	under pair 200000 "$short_rounds" "$1" "$PROBECTL" trace -t latency --match arg1 -p PID \
		loop:pair__begin loop:pair__end
}
bpftrace_latency_ns()
{
	under pair 500 "$short_rounds" "$1" bpftrace -p PID \
		-e "usdt:$loop:loop:pair__begin { @start[arg1] = nsecs; }
		usdt:$loop:loop:pair__end { @ = hist(nsecs - @start[arg1]); delete(@start[arg1]); }"
}

can_bpftrace=0
is_root && command -v bpftrace >/dev/null && can_bpftrace=1

# ---- Functions -------------------------------------------------------------------------

# function_ns ARGS…
function_ns()
{
	under function 500000 "$short_rounds" 1 "$PROBECTL" trace -p PID "$@"
}
bpftrace_function_ns()
{
	under function 2000 "$short_rounds" 1 bpftrace -p PID -e "$1"
}
functions_turn()
{
	take called alone -s function -n 500000 -r "$short_rounds" -t 1
	take entry function_ns --count fn:loop:loop_called
	take both function_ns --count fn:loop:loop_called fn:loop:loop_called:return
	take calls function_ns -t latency fn:loop:loop_called
	[ "$has_self" = 0 ] || take self function_ns -t self fn:loop:loop_called
	! command -v uftrace >/dev/null || take uftrace uftrace_ns
	if [ "$can_bpftrace" = 1 ]; then
		take uprobe bpftrace_function_ns "uprobe:$loop:loop_called { @ = count(); }"
		take uretprobe bpftrace_function_ns "uprobe:$loop:loop_called { @[tid] = nsecs; }
			uretprobe:$loop:loop_called { @t = hist(nsecs - @[tid]); }"
	fi
}
functions_rows()
{
	versus "a function's entry, counted: a uprobe, ns" less "$(figure entry called)" "$(figure uprobe called)"
	versus "entry and exit, counted: uftrace, ns" less "$(figure both called)" "$(figure uftrace bare)"
	versus "latency of a function: uftrace, ns" less "$(figure calls called)" "$(figure uftrace bare)"
	versus "latency of a function: a uprobe and a uretprobe, ns" less \
		"$(figure calls called)" "$(figure uretprobe called)"
	[ "$has_self" = 0 ] || versus "self time of a function: uftrace, ns" less \
		"$(figure self called)" "$(figure uftrace bare)"
}

has_self=0
! "$PROBECTL" trace -t help | grep -q '^  self ' || has_self=1

hits_turn()
{
	take bare alone -s bare -n 1000000 -r "$short_rounds" -t 1
	take count traced_ns nop
	take counter alone -s counter -n 500000 -r "$short_rounds" -t 1
	take record recorded_ns nop ""
	take recorder alone -s inline -n 100000 -r "$short_rounds" -t 1
	take constant recorded_ns string "(arg0,arg1,str(arg2))"
	loop_options="-w heap" take heap recorded_ns string "(arg0,arg1,str(arg2))"
	if [ "$has_lttng" = 1 ]; then
		take lttng lttng_ns nop 1 "$record_hits" "$record_rounds"
		take lttng_text lttng_ns string 1 "$record_hits" "$record_rounds"
	fi
	take bare2 alone -s bare -n 1000000 -r "$short_rounds" -t 2
	take latency latency_ns 1
	take latency2 latency_ns 2
	if [ "$can_bpftrace" = 1 ]; then
		take bpf_latency bpftrace_latency_ns 1
		take bpf_latency2 bpftrace_latency_ns 2
	fi
}

hits_rows()
{
	local lost
	versus "count: a counter compiled in, ns" limit "$(figure count bare)" "$(figure counter bare)"
	versus "record of 3 integers: a recorder compiled in, ns" limit \
		"$(figure record bare)" "$(figure recorder bare)"
	versus "record of 3 integers: LTTng-UST, ns" less "$(figure record bare)" "$(figure lttng bare)"
	versus "record with a string, a constant: LTTng-UST, ns" less \
		"$(figure constant bare)" "$(figure lttng_text bare)"
	versus "record with a string on the heap: LTTng-UST, ns" less \
		"$(figure heap bare)" "$(figure lttng_text bare)"
	versus "latency by a key, 1 thread: bpftrace, ns" less \
		"$(figure latency bare)" "$(figure bpf_latency bare)"
	versus "latency by a key, 2 threads: bpftrace, ns" less \
		"$(figure latency2 bare2)" "$(figure bpf_latency2 bare2)"
	lost=$(awk -v all="$((turns * 3 * record_hits * record_rounds))" \
		'{ n += $1 } END { printf "%.1f", 100 * n / all }' "$SCRATCH/lost")
	[ "$lost" = 0.0 ] || echo "  of probectl's records, $lost % found no room: these cost less"
}

# ---- On disk -----------------------------------------------------------------------------

# Raises the rate until both lose hits; the processor time of both is that at the highest rate that
# both have kept.
disk_rows()
{
	local million who line
	local -A best=() both=() now
	local alive="ours lttng"
	[ "$has_lttng" = 1 ] || alive=ours
	for million in "${millions[@]}"; do
		now=()
		for ((turn = 0; turn < 2; turn++)); do
			for who in $alive; do
				[ -z "${now[$who]-}" ] || continue
				if [ "$who" = ours ]; then
					line=$(probectl_run $((million * 1000000)))
				else
					line=$(lttng_run "vpid vtid procname" $((million * 1000000)))
				fi
				! kept "$line" "$million" || now[$who]=$line
			done
		done
		alive=${!now[*]}
		for who in $alive; do
			best[$who]=${now[$who]}
		done
		if [ -n "${now[ours]-}" ] && [ -n "${now[lttng]-}" ]; then
			both=([ours]=${now[ours]} [lttng]=${now[lttng]})
		fi
		[ -n "$alive" ] || break
	done
	versus "hits a second of one thread on disk: LTTng-UST, M" more \
		"$(of_run rate_of "${best[ours]-}")" "$(of_run rate_of "${best[lttng]-}")"
	versus "CPU of the tool for each of them: LTTng-UST, ns" less \
		"$(of_run cpu_of "${both[ours]-}")" "$(of_run cpu_of "${both[lttng]-}")"
	versus "bytes of each: LTTng-UST" less \
		"$(of_run bytes_of "${best[ours]-}")" "$(of_run bytes_of "${best[lttng]-}")"
}

# of_run FUNCTION LINE
of_run()
{
	if [ -n "$2" ]; then
		"$1" "$2"
	else
		echo -
	fi
}

# ---- The first hit -----------------------------------------------------------------------

first_ms()
{
	ms "$("$tools/stopwatch" -r 1 -f -t "$@" | cut -d' ' -f1)"
}
first_turn()
{
	take first first_ms gap:hit -- "$PROBECTL" trace -n 1 -p "$gap_pid" gap:hit
	[ "$can_bpftrace" = 0 ] || take bpf_first first_ms "hit " -- bpftrace -p "$gap_pid" \
		-e "usdt:$TARGETS/gap:gap:hit { printf(\"hit %d\\n\", arg0); exit(); }"
}
first_row()
{
	"$TARGETS/gap" >"$SCRATCH/gap.out" &
	gap_pid=$!
	on_exit "end_process $gap_pid"
	sleep 0.2
	in_turns first_turn
	end_process "$gap_pid"
	versus "first hit after the command's start: bpftrace, ms" less "$(figure first)" "$(figure bpf_first)"
}

# ---- Reading -------------------------------------------------------------------------------

read_turn()
{
	local wall cpu
	read -r wall cpu < <(timed "$PROBECTL" report "$SCRATCH/record")
	take report_wall echo "$wall"
	take report_cpu echo "$cpu"
	command -v babeltrace2 >/dev/null || return
	read -r wall cpu < <(timed babeltrace2 "$SCRATCH/record" -c sink.utils.dummy)
	take babeltrace_wall echo "$wall"
	take babeltrace_cpu echo "$cpu"
}

# millions_a_second NAME HITS: of a time in ms
millions_a_second()
{
	figure "$1" | awk -v hits="$2" '$1 > 0 { printf "%.1f\n", hits / $1 / 1000; done = 1 } END { if (!done) print "-" }'
}
read_rows()
{
	local hits=$((2000000 * seconds))
	probectl_run 2000000 >/dev/null
	in_turns read_turn
	versus "reading a record, hits of a second of CPU: babeltrace2, M" more \
		"$(millions_a_second report_cpu "$hits")" "$(millions_a_second babeltrace_cpu "$hits")"
	versus "reading a record, hits a second: babeltrace2, M" more \
		"$(millions_a_second report_wall "$hits")" "$(millions_a_second babeltrace_wall "$hits")"
	rm -rf "$SCRATCH/record"
}

# ---- Following -------------------------------------------------------------------------------

programs=100
follow_turn()
{
	local run="i=0; while [ \$i -lt $programs ]; do /bin/true; i=\$((i + 1)); done"
	take alone wall_ms sh -c "$run"
	take follow wall_ms "$PROBECTL" trace -q -c -o /dev/null nothing:here -- sh -c "$run"
	! command -v strace >/dev/null || take strace wall_ms strace -f -o /dev/null -e trace=execve sh -c "$run"
}
wall_ms()
{
	timed "$@" | cut -d' ' -f1
}

# each NAME: of the programs, above their own time. The least of the turns: these are long, so other
# load affects most of them.
each()
{
	awk -v least="$(least "$1")" -v alone="$(least alone)" -v n="$programs" \
		'BEGIN { if (least == "") print "-"; else printf "%.2f\n", (least - alone) / n }'
}
least()
{
	sort -g "$SCRATCH/of.$1" 2>/dev/null | head -1
}
follow_row()
{
	in_turns follow_turn
	in_turns follow_turn
	versus "each program followed: strace, ms" less "$(each follow)" "$(each strace)"
}

# ---- The table --------------------------------------------------------------------------------

heading "work: and the best other tool at it" "probectl" "other" "ratio" ""
has_lttng=0
if lttng_start && lttng_session 4M; then
	has_lttng=1
else
	missing "LTTng-UST" "$(tail -1 "$SCRATCH/why")"
fi
command -v uftrace >/dev/null || missing "uftrace" "it is not installed"
[ "$can_bpftrace" = 1 ] || missing "bpftrace" "it is not installed, or we are not root"
in_turns hits_turn
in_turns functions_turn
[ "$has_lttng" = 0 ] || lttng_destroy
hits_rows
functions_rows
disk_rows
lttng_stop
first_row
read_rows
follow_row
conclude
exit 0
