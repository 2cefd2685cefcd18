#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
#
# Processes that have come, and ended, leave nothing in probectl but what they have added up to:
# neither descriptors nor memory; and no hit is missing from the sums.
. tests/integration/lib.sh
. tests/integration/metrics/lib_metrics.sh
need_attach
need jq

probes=(comer:hit)
rounds=4
each=40
hits=7
total=$((rounds * each * hits))

# what PID: its open descriptors, and its memory in KB, without the parts of files that it has used
what()
{
	echo "$(find "/proc/$1/fd" -type l | wc -l) $(awk '/^Rss(Anon|Shmem):/ { kb += $2 } END { print kb }' "/proc/$1/status")"
}

# If the machine is too busy, that is told: processes have not been seen, or not from the start.
late='or more processes have started while\|earlier hits are missing'

# grown FIRST LAST: does it have more descriptors, or more memory? At 110 KB for each process, memory
# would be 8,800 more; what free memory is split into may be some megabytes. What a sanitizer keeps
# is not ours.
grown()
{
	((${2% *} > ${1% *} + 2)) || { ((${2#* } > ${1#* } + 6600)) && ! grep -qa __asan_init "$PROBECTL"; }
}

# look NAME COMMAND…: probectl COMMAND follows a shell that starts many programs, one after the
# other; the second round is compared with the last. If probectl was behind for a while, its free
# memory may be left in pieces, so growth has to show three times.
look()
{
	local try times=0
	for ((try = 0; try < 20; try++)); do
		look_once "$@"
		echo "$1: descriptors and KB: $first -> $last"
		if grown "$first" "$last"; then
			((++times < 3)) || fail "$1: $first descriptors and KB became $last"
		elif ! grep -q "$late" "$SCRATCH/$1.err"; then
			break
		fi
		rm -rf "$SCRATCH/record"
	done
}
look_once()
{
	local name=$1 none before change round
	shift
	start sh -c 'echo ready; while read -r n; do while [ $n -gt 0 ]; do "$0" '$hits'; n=$((n - 1)); done; echo did; done' \
		"$TARGETS/comer"
	anew "$name"
	# Free memory goes back to the kernel, so that a moment of being behind does not show for ever.
	env --default-signal=INT MALLOC_MMAP_THRESHOLD_=16384 MALLOC_TRIM_THRESHOLD_=16384 \
		"$PROBECTL" "$@" -p "$target_pid" --follow "${probes[@]}" \
		>"$SCRATCH/$name.out" 2>"$SCRATCH/$name.err" </dev/null &
	tracer_pid=$!
	on_exit "end_process $tracer_pid"
	wait_tracing "$name"
	# Metrics are served from a little later on.
	[[ " $* " != *" --listen "* ]] || until grep -q '^probectl: exporting' "$SCRATCH/$name.err"; do
		pause
	done
	none=$(what $tracer_pid)
	for ((round = 1; round <= rounds; round++)); do
		ask $each
		# It may be behind: what it has of processes that are still to be dropped may be much.
		before="0 0"
		while :; do
			last=$(what $tracer_pid)
			change=$((${last#* } - ${before#* }))
			((${last% *} > ${none% *} + 2 || change < -64 || change > 64)) || break
			before=$last
			pause
		done
		[ $round != 2 ] || first=$last
	done
	url=$(url_of "$name")
	[ -z "$url" ] || until get "$url" >"$SCRATCH/$name.page" &&
		grep -q "^probectl_.*probe=\"hit\".* $total\$" "$SCRATCH/$name.page"; do
		pause
	done
	trace_stop "$name"
	end_target
}

look json trace --json
same "json: hits" "$(jq -r 'select(.name == "hit").args[0]' "$SCRATCH/json.out" | wc -l)" $total
says json "comer:hit: $total hits, 0 lost"
look count trace -c --json
same "count: hits" "$(jq -r 'select(.name == "hit").hits' "$SCRATCH/count.out")" $total
look hist trace -t hist,arg0 --json
same "hist: hits" "$(jq -r '.count // .hits' "$SCRATCH/hist.out" | head -1)" $total
look keys trace -c -k arg0 --json
same "keys: rows" "$(jq -r '.hits // .count' "$SCRATCH/keys.out" | grep -c "^$((rounds * each))$")" $hits
# Keys that are different in each process: all hits are there, most of them in the row (other).
look own trace -t hist,arg0 --json -k pid -k arg0 --keys 16
same "own: hits" "$(jq -s 'map(.count // .hits // 0) | add' "$SCRATCH/own.out")" $total
# Of metrics, one process has a series, to which its children add.
look metrics trace -t metrics -i 0.1 --listen :0
same "metrics: hits" "$(sed -n 's/^probectl_.*probe="hit".* \([0-9]*\)$/\1/p' "$SCRATCH/metrics.page")" $total
# Without a common parent, each process has series of its own; what finds no room is counted. Only root
# sees the first hits of processes that others start.
series()
{
	trace_start series -t metrics -i 0.1 --listen :0 --rows 20 --follow --exe "$SCRATCH/comer" comer:hit
	until grep -q '^probectl: exporting' "$SCRATCH/series.err"; do
		pause
	done
	for ((i = 0; i < 15; i++)); do
		"$SCRATCH/comer" $hits >/dev/null
	done
	url=$(url_of series)
	while :; do
		get "$url" >"$SCRATCH/series.page"
		! grep -q '^probectl_rows_left_out 5$' "$SCRATCH/series.page" || break
		! grep -q "$late" "$SCRATCH/series.err" || break
		pause
	done
	trace_stop series
	! grep -q "$late" "$SCRATCH/series.err"
}
if [ "$(id -u)" = 0 ]; then
	cp "$TARGETS/comer" "$SCRATCH/comer"
	for ((try = 0; try < 20; try++)); do
		! series || break
	done
	same "series" "$(grep -c "^probectl_count_hits_total{.*} $hits$" "$SCRATCH/series.page")" 10
	same "rows left out" "$(sed -n 's/^probectl_rows_left_out //p' "$SCRATCH/series.page")" 5
fi
look both trace -c --json -t json
says both "comer:hit: $total hits, 0 lost"
# Stacks stay, and belong to no process; programs that are loaded at different addresses have the same.
for how in stack stack,frames; do
	look "$how" trace -t "$how" --json
	same "$how: hits" "$(jq -s 'map(.count // 0) | add' "$SCRATCH/$how.out")" $total
	lines=$(wc -l <"$SCRATCH/$how.out")
	((lines <= hits)) || fail "$how: $lines different stacks"
done
# Intervals add up, though no session is left at the end of most of them.
look intervals trace -t stack,frames --json -i 0.1
same "intervals: hits" "$(jq -s 'map(select(.interval) | .count) | add' "$SCRATCH/intervals.out")" $total
same "intervals: hits in all" "$(jq -s 'map(select(.interval | not) | .count) | add' "$SCRATCH/intervals.out")" $total
# Flight recorders: the hits that they held are there, in the order of time.
look ring trace -t ring --json
same "ring: hits" "$(wc -l <"$SCRATCH/ring.out")" $total
jq -s -e 'map(.ts) | . == sort' "$SCRATCH/ring.out" >/dev/null || fail "ring: hits are in no order"
# The newest ones, if there are too many: 480,000 would take 120 MB.
few=$hits hits=$((120000 / each))
look rings trace -t ring
dropped=$(sed -n 's/.*the oldest \([0-9]*\) hits of processes that had ended were dropped.*/\1/p' "$SCRATCH/rings.err")
same "rings: hits and those that were dropped" "$(($(grep -c comer:hit "$SCRATCH/rings.out") + dropped))" \
	$((rounds * each * hits))
((dropped > 0 && dropped < rounds * each * hits - 30000)) || fail "rings: $dropped hits were dropped"
hits=$few
look loaded trace -t "$TARGETS/libtracer.so"
same "loaded: hits" "$(grep -c 'comer:hit' "$SCRATCH/loaded.out")" $total
# Each program allocates something, and frees it at its first hit.
probes=('comer:early(arg0,arg0)' 'comer:hit(arg1)')
look heap trace -t heap,total --json
same "heap: allocations" "$(jq -s 'map(.total_count // 0) | add' "$SCRATCH/heap.out")" $((rounds * each))
same "heap: live" "$(jq -s 'map(.live_count // 0) | add' "$SCRATCH/heap.out")" 0
probes=(comer:hit)
look record record -o "$SCRATCH/record"
same "record: hits" "$("$PROBECTL" export -F json "$SCRATCH/record" | wc -l)" $total

# A program that ends before the children that it has forked: all their hits are there.
for wait in 0 1000 100000; do
	program=("$TARGETS/orphans" 8 "$wait")
	"$PROBECTL" trace -c --json --follow 'orphans:*' -- "${program[@]}" >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "counts of children that end $wait us later" "$(jq -r '"\(.name) \(.hits)"' "$SCRATCH/out" | sort | paste -sd' ')" \
		"child 8 parent 1"
	"$PROBECTL" record -o "$SCRATCH/orphans$wait" --follow 'orphans:*' -- "${program[@]}" >/dev/null 2>"$SCRATCH/err"
	same "records of children that end $wait us later" \
		"$("$PROBECTL" export -F json "$SCRATCH/orphans$wait" | jq -r .name | sort | uniq -c | xargs)" "8 child 1 parent"
done
# An interrupt ends the trace, and the children go on without probes.
trace_start long -c --follow 'orphans:*' -- "$TARGETS/orphans" 2 600000000
until grep -q 'has ended; 2 processes that it has forked go on' "$SCRATCH/long.err"; do
	pause
done
trace_stop long
children=$(pgrep -f "^$TARGETS/orphans 2 600000000")
same "children" "$(wc -w <<<"$children")" 2
for pid in $children; do
	on_exit "stop_process $pid"
	same "memory of ours in a child" "$(grep -c memfd:probectl "/proc/$pid/maps")" 0
done
finish
