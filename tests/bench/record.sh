#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How many hits a second of one thread reach the disk without loss, with probectl and with LTTng
# with equally large buffers. The thread keeps a given rate and counts its hits. The tools
# report their losses; at 3 million, babeltrace2 counts the recorded hits.
#
# With --minute, probectl alone keeps 20 million a second for a minute, or the highest rate below
# that it can keep so long. Old parts are removed meanwhile: they are some 34 GB.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh
. tests/bench/lttng.sh
. tests/bench/disk.sh

tries=3 # other programs may take the processors away
[ "$quick" = 0 ] || tries=2

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
			kept "$line" "$million" && break
		done
		[ "$try" -lt "$tries" ] || break
		best=$line
		[ "$million" != 3 ] || count "$name" "$folder" $((million * seconds * 1000000))
	done
	if [ -z "$best" ]; then
		missing "$name" "$(head -c 200 "$SCRATCH/why" | head -1)"
		return
	fi
	row "$name" "$(rate_of "$best") M" "$(cpu_of "$best")" "$(bytes_of "$best")"
}

# remove_parts: all but the newest two, over and over
remove_parts()
{
	while sleep 0.5; do
		find "$SCRATCH/record" -mindepth 1 -maxdepth 1 -type d | sort | head -n -2 | xargs -r rm -rf
	done
}

# minute: from 20 million on down, the first rate that is kept; what is lost above that is shown
minute()
{
	local million line remover i
	seconds=60
	heading "hits a second of one thread on disk for a minute" "hits/s" "ns of CPU" "lost"
	for ((i = ${#millions[@]} - 1; i >= 0; i--)); do
		million=${millions[i]}
		[ "$million" -le 20 ] || continue
		remove_parts &
		remover=$!
		line=$(probectl_run $((million * 1000000)) --rotate 1g)
		end_process "$remover"
		rm -rf "$SCRATCH/record"
		if [ -z "$line" ]; then
			missing "$million million" "$(head -1 "$SCRATCH/why")"
			return
		fi
		row "probectl record: 3 integers, $million million asked for" "$(rate_of "$line") M" \
			"$(cpu_of "$line")" "$(cut -d' ' -f3 <<<"$line")"
		! kept "$line" "$million" || return
	done
}

if [ ! -x "$PROBECTL" ]; then
	missing "probectl record" "$PROBECTL is not built"
	exit 0
fi
if [ "${BENCH_MINUTE:-0}" = 1 ]; then
	minute
	exit 0
fi
heading "hits a second of one thread on disk, none lost" "hits/s" "ns of CPU" "bytes"
if ! command -v babeltrace2 >/dev/null; then
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
