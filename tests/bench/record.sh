#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How many hits a second of one thread reach the disk without loss, with probectl and with LTTng
# with equally large buffers. The thread keeps a given rate and counts its hits. The tools
# report their losses; at 3 million, babeltrace2 counts the recorded hits.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh
. tests/bench/lttng.sh

loop=$TARGETS/loop
seconds=5
tries=3 # other programs may take the processors away
[ "$quick" = 0 ] || { seconds=2 tries=2; }
millions=(1 2 3 4 5 6 7 8 9 10 12 14 16)

# cpu_ticks PID: what a process has used, in hundredths of a second
cpu_ticks()
{
	sed 's/^.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

# Each run prints "HITS NS LOST TICKS BYTES": the hits that the thread counted, the time from one
# hit to the next, the hits that the tool lost, its processor time, and the size of the record.

# probectl_run RATE
probectl_run()
{
	local line pid tool before lost
	rm -rf "$SCRATCH/record"
	coproc LOOP { exec "$loop" -s nop -p "$1" -n $(($1 * seconds)) -b -a; }
	pid=$LOOP_PID
	read -r -u "${LOOP[0]}" line
	env --default-signal=INT "$PROBECTL" record -b 64M -o "$SCRATCH/record" -p "$pid" loop:nop \
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
	as_user lttng destroy bench >/dev/null
	echo "$line ${lost:-?} $before $(du -sb "$lttng_home/trace" | cut -f1)"
}

# count NAME FOLDER HITS: are they all in the record? Each stream of probectl's also names its threads.
count()
{
	local counted
	counted=$(babeltrace2 "$2" -c sink.utils.counter 2>/dev/null |
		sed -n 's/^ *\([0-9]*\) Event messages.*/\1/p' | tail -1)
	[ "$((counted - $3))" -ge 0 ] && [ "$((counted - $3))" -le 8 ] || printf '  %s: babeltrace2 counts %s events of %s\n' "$1" "$counted" "$3"
}

# highest NAME FOLDER COMMAND…: raises the rate until every try loses something
highest()
{
	local name=$1 folder=$2 million try line best=
	shift 2
	for million in "${millions[@]}"; do
		for ((try = 0; try < tries; try++)); do
			line=$("$@" $((million * 1000000)))
			# A rate that the thread did not reach does not count.
			awk -v million="$million" -v seconds="$seconds" 'NF == 5 && $3 == "0" &&
				$1 == 1e6 * million * seconds && $2 * million < 1030 { ok = 1 }
				END { exit !ok }' <<<"$line" && break
		done
		[ "$try" -lt "$tries" ] || break
		best=$line
		[ "$million" != 3 ] || count "$name" "$folder" $((million * seconds * 1000000))
	done
	if [ -z "$best" ]; then
		missing "$name" "$(head -c 200 "$SCRATCH/why" | head -1)"
		return
	fi
	# shellcheck disable=SC2086 # its words
	set -- $best
	row "$name" "$(awk -v ns="$2" 'BEGIN { printf "%.1f M", 1000 / ns }')" \
		"$(awk -v hits="$1" -v ticks="$4" 'BEGIN { printf "%.0f", ticks * 1e7 / hits }')" \
		"$(awk -v hits="$1" -v bytes="$5" 'BEGIN { printf "%.0f", bytes / hits }')"
}

heading "hits a second of one thread on disk, none lost" "hits/s" "ns of CPU" "bytes"
if [ ! -x "$PROBECTL" ]; then
	missing "probectl record" "$PROBECTL is not built"
elif ! command -v babeltrace2 >/dev/null; then
	missing "probectl record" "babeltrace2 is not installed"
else
	highest "probectl record: 3 integers, pid, tid, comm" "$SCRATCH/record" probectl_run
	if lttng_start; then
		highest "LTTng-UST (compiled in): 3 integers, pid, tid, comm" "$lttng_home/trace" \
			lttng_run "vpid vtid procname"
		highest "LTTng-UST (compiled in): 3 integers" "$lttng_home/trace" lttng_run ""
		lttng_stop
	else
		missing "LTTng-UST" "$(tail -1 "$SCRATCH/why")"
	fi
fi
