#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How long a program is stopped while probes are enabled and disabled, measured by the program
# itself: the largest step of its clock (tests/targets/loops/gap.c and Busy.java), minus the time in
# which it was runnable but had no CPU. The first row shows an undisturbed program over the same
# time.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh

rounds=15
[ "$quick" = 0 ] || rounds=5

# ---- One thread, one probe -------------------------------------------------------

gap_start()
{
	coproc GAP { exec "$TARGETS/gap"; }
	gap_pid=$GAP_PID
	on_exit "end_process $gap_pid"
	read -r -u "${GAP[0]}" _
}

# gap_under COMMAND…: microseconds of the largest step while it runs
gap_under()
{
	local answer
	kill -USR1 "$gap_pid"
	sleep 0.02
	"$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	kill -USR2 "$gap_pid"
	read -r -t 20 -u "${GAP[0]}" _ answer _ || answer=
	[ -n "$answer" ] && awk -v ns="$answer" 'BEGIN { printf "%.1f\n", ns / 1000 }'
}

# for_a_while COMMAND…: runs a tracer until its probe is on, and ends it
for_a_while()
{
	env --default-signal=INT "$@" &
	local tracer=$!
	"$python" tests/integration/state.py wait "$gap_pid" gap:hit 15
	# bpftrace forgets a signal that comes too early.
	while kill -INT "$tracer" 2>/dev/null; do
		sleep 0.3
	done
	wait "$tracer"
}

stop_us()
{
	# The tool's own figure, as `-v` prints it: "stopped for 12.3 us".
	sed -n 's/.*stop[a-z]* for \([0-9.]*\) *\(us\|µs\|ms\|ns\).*/\1 \2/p' "$SCRATCH/out" "$SCRATCH/err" | head -1 |
		awk '$2 == "ms" { $1 *= 1000 } $2 == "ns" { $1 /= 1000 } { print $1 }'
}

idle() { sleep 0.05; }
probectl_enable() { "$PROBECTL" enable -v -p "$gap_pid" gap:hit; }
probectl_disable() { "$PROBECTL" disable -v -p "$gap_pid" gap:hit; }
bare_attach() { "$BUILD/bench/attach" "$gap_pid"; }
bpftrace_attach() { for_a_while bpftrace -p "$gap_pid" -e "usdt:$TARGETS/gap:gap:hit { @ = count(); }"; }
gdb_attach() { gdb -q -nx -batch -iex 'set debuginfod enabled off' -ex 'break -probe-stap gap:hit' -p "$gap_pid"; }
perf_attach()
{
	local offset
	offset=$("$python" tests/integration/state.py sites "$TARGETS/gap" | awk '{ print $3 }')
	echo "p:probectl_pause/hit $TARGETS/gap:$offset" >>"$tracing/uprobe_events"
	for_a_while perf record -q -o "$SCRATCH/perf.data" -e probectl_pause:hit -p "$gap_pid"
	echo "-:probectl_pause/hit" >>"$tracing/uprobe_events"
}

# pauses NAME COMMAND [UNDO]: the median and the worst of the rounds
pauses()
{
	local i figure
	: >"$SCRATCH/gaps"
	: >"$SCRATCH/stops"
	for ((i = 0; i < rounds; i++)); do
		gap_under "$2" >>"$SCRATCH/gaps"
		stop_us >>"$SCRATCH/stops"
		[ -z "${3-}" ] || "$3" >/dev/null 2>&1
	done
	figure=$(median <"$SCRATCH/stops")
	row "$1" "$(median <"$SCRATCH/gaps")" "$(sort -g "$SCRATCH/gaps" | tail -1)" "$figure"
}

heading "longest pause of one thread, one probe, us" median worst "own word"
gap_start
pauses "nobody touches it" idle
pauses "limit: attach and detach alone (ptrace)" bare_attach
if [ -x "$PROBECTL" ]; then
	# The first mapping of the region is the longest; the median hides it, worst shows it.
	pauses "probectl enable" probectl_enable probectl_disable
	probectl_enable >/dev/null 2>&1
	pauses "probectl disable" probectl_disable probectl_enable
	probectl_disable >/dev/null 2>&1
else
	missing "probectl enable" "$PROBECTL is not built"
fi
rounds=5
if is_root && command -v bpftrace >/dev/null; then
	pauses "bpftrace" bpftrace_attach
else
	missing "bpftrace" "it is not installed, or we are not root"
fi
if [ -n "$tracing" ] && command -v perf >/dev/null; then
	pauses "perf record" perf_attach
else
	missing "perf record" "$why_no_uprobes"
fi
if command -v gdb >/dev/null; then
	pauses "gdb, a breakpoint" gdb_attach
else
	missing "gdb" "it is not installed"
fi
kill -TERM "$gap_pid"
wait "$gap_pid" 2>/dev/null

# ---- A JVM, all probes -------------------------------------------------------------

heading "longest pause of a JVM, all sites of libjvm, us" median worst "own word"
command -v javac >/dev/null || {
	missing "a JVM" "javac is not installed"
	exit 0
}
javac -d "$SCRATCH" tests/targets/loops/Busy.java || exit 1
coproc JVM { exec java -XX:+UseSerialGC -cp "$SCRATCH" Busy gap; }
jvm_pid=$JVM_PID
on_exit "end_process $jvm_pid"
read -r -u "${JVM[0]}" _
sleep 2

jvm_under()
{
	local answer
	echo reset >&"${JVM[1]}"
	read -r -u "${JVM[0]}" _
	"$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	echo print >&"${JVM[1]}"
	read -r -u "${JVM[0]}" _ answer
	awk -v ns="$answer" 'BEGIN { printf "%.1f\n", ns / 1000 }'
}
jvm_pauses()
{
	local i
	: >"$SCRATCH/gaps"
	: >"$SCRATCH/stops"
	for ((i = 0; i < rounds; i++)); do
		jvm_under "$2" >>"$SCRATCH/gaps"
		stop_us >>"$SCRATCH/stops"
		[ -z "${3-}" ] || "$3" >/dev/null 2>&1
	done
	row "$1" "$(median <"$SCRATCH/gaps")" "$(sort -g "$SCRATCH/gaps" | tail -1)" "$(median <"$SCRATCH/stops")"
}
jvm_idle() { sleep 0.2; }
jvm_enable() { "$PROBECTL" enable -v --keep-going -p "$jvm_pid" 'hotspot*:*'; }
jvm_disable() { "$PROBECTL" disable -v --keep-going -p "$jvm_pid" 'hotspot*:*'; }
jvm_bpftrace()
{
	# One probe: all of them would take minutes.
	bpftrace -p "$jvm_pid" -e "usdt:$libjvm:hotspot:monitor__wait { @ = count(); } interval:ms:200 { exit(); }"
}
libjvm=$(awk '$6 ~ /libjvm/ { print $6; exit }' "/proc/$jvm_pid/maps")
rounds=7
[ "$quick" = 0 ] || rounds=3
jvm_pauses "nobody touches it" jvm_idle
if [ -x "$PROBECTL" ]; then
	jvm_pauses "probectl enable" jvm_enable jvm_disable
	jvm_enable >/dev/null 2>&1
	jvm_pauses "probectl disable" jvm_disable jvm_enable
	jvm_disable >/dev/null 2>&1
else
	missing "probectl enable" "$PROBECTL is not built"
fi
rounds=3
if is_root && command -v bpftrace >/dev/null; then
	jvm_pauses "bpftrace, one probe of them" jvm_bpftrace
else
	missing "bpftrace" "it is not installed, or we are not root"
fi
echo quit >&"${JVM[1]}"
wait "$jvm_pid" 2>/dev/null
exit 0
