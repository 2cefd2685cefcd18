# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Hits of one thread that are recorded on disk at a given rate, by probectl and by LTTng with
# equally large buffers. Sourced after tests/bench/lttng.sh.

# shellcheck disable=SC2154 # set by the libraries
loop=$TARGETS/loop
seconds=5
[ "$quick" = 0 ] || seconds=2
millions=(1 2 3 4 5 6 7 8 9 10 12 14 16 18 20 25)

# cpu_ticks PID: what a process has used, in hundredths of a second
cpu_ticks()
{
	sed 's/^.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

# Each run prints "HITS NS LOST TICKS BYTES": the hits that the thread counted, the time from one
# hit to the next, the hits that the tool lost, its processor time, and the size of the record.

# probectl_run RATE [OPTION…]
probectl_run()
{
	local line pid tool before lost rate=$1
	shift
	rm -rf "$SCRATCH/record"
	coproc LOOP { exec "$loop" -s nop -p "$rate" -n $((rate * seconds)) -b -a; }
	pid=$LOOP_PID
	read -r -u "${LOOP[0]}" line
	env --default-signal=INT "$PROBECTL" record "$@" -b 64M -o "$SCRATCH/record" -p "$pid" loop:nop \
		2>"$SCRATCH/why" </dev/null &
	tool=$!
	if ! "$python" tests/integration/state.py wait "$pid" loop:nop 15; then
		end_process "$tool"
		end_process "$pid"
		return
	fi
	before=$(cpu_ticks "$tool")
	echo >&"${LOOP[1]}"
	read -r -u "${LOOP[0]}" line
	read -r -u "${LOOP[0]}" _ # "ready": it lives until the end is written
	sleep 1.1
	before=$(($(cpu_ticks "$tool") - before))
	kill -INT "$tool"
	wait "$tool"
	echo >&"${LOOP[1]}"
	wait "$pid"
	lost=$(sed -n 's/^probectl: warning: \([0-9]*\) hits were lost.*/\1/p' "$SCRATCH/why")
	echo "$line ${lost:-0} $before $(du -sb "$SCRATCH/record" | cut -f1)"
}

# lttng_run CONTEXTS RATE
lttng_run()
{
	local line daemon before lost
	rm -rf "$lttng_home/trace"
	# shellcheck disable=SC2086 # words
	lttng_session 16M $1 || return
	daemon=$(pgrep -P "$(cat "$lttng_home/pid")" -f lttng-consumerd | head -1)
	before=$(cpu_ticks "$daemon")
	line=$(as_user "$lttng_loop" nop $(($2 * seconds)) 1 1 "$2") || return
	as_user lttng stop >/dev/null 2>"$SCRATCH/why"
	before=$(($(cpu_ticks "$daemon") - before))
	lost=$(as_user lttng list bench -c bench | sed -n 's/^ *Discarded events: \([0-9]*\).*/\1/p')
	lttng_destroy
	echo "$line ${lost:-?} $before $(du -sb "$lttng_home/trace" | cut -f1)"
}


# kept LINE MILLION: did that run keep its rate without loss? A rate that the thread did not reach
# does not count.
kept()
{
	awk -v million="$2" -v seconds="$seconds" 'NF == 5 && $3 == "0" &&
		$1 == 1e6 * million * seconds && $2 * million < 1030 { ok = 1 } END { exit !ok }' <<<"$1"
}

# The figures of a run: millions of hits a second; the nanoseconds of processor time and the bytes
# of each.
rate_of()
{
	awk '{ printf "%.1f\n", 1000 / $2 }' <<<"$1"
}
cpu_of()
{
	awk '{ printf "%.1f\n", $4 * 1e7 / $1 }' <<<"$1"
}
bytes_of()
{
	awk '{ printf "%.0f\n", $5 / $1 }' <<<"$1"
}
