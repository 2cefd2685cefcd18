#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The cost of metrics: a pmlogger queries a pmcd every second, in a network namespace whose
# loopback is measured (both directions, all headers); the program hits its probe a million
# times a second. Processor time covers the time of the measurement.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh
. tests/integration/pcp/lib_pcp.sh

title="metrics that are asked for every second"
for program in pmlogger ip $pcp_lib/bin/pmcd; do
	command -v "$program" >/dev/null && continue
	heading "$title"
	missing "metrics" "$program is not installed"
	exit 0
done
if [ -z "${BENCH_NETWORK-}" ]; then
	network=(unshare -n)
	is_root || network=(unshare -rn)
	"${network[@]}" true 2>/dev/null && BENCH_NETWORK=1 exec "${network[@]}" bash "$0"
	heading "$title"
	missing "metrics" "no network of its own is to be had"
	exit 0
fi

seconds=20
[ "$quick" = 0 ] || seconds=5
heading "$title" values bytes/s packets/s "archive B/s" "probectl ms" "pmcd ms" \
	"probectl MB" "pmcd MB"
ip link set lo up
pcp_setup
pmcd_start

# used PID, resident PID: its processor time so far, in ms; its memory, in MB
used()
{
	awk -v hz="$(getconf CLK_TCK)" '{print ($14 + $15) * 1000 / hz}' "/proc/$1/stat"
}
resident()
{
	awk '/^VmRSS/ {printf "%.1f\n", $2 / 1024}' "/proc/$1/status"
}

# now: bytes and packets of the loopback, bytes of the archive, ms of probectl and of pmcd
now()
{
	echo "$(awk '$1 == "lo:" {print $2, $3}' /proc/net/dev)" \
		"$(stat -c %s "$SCRATCH/archive.0")" "$(used "$1")" "$(used "$pmcd_pid")"
}

# exported NAME METRICS VALUES OPTION…: what it costs to ask for METRICS once a second
exported()
{
	local name=$1 metrics=$2 values=$3 program tracer logger before after try
	shift 3

	"$TARGETS/loop" -s nop -p 1100000 -n 1000000000000 >/dev/null &
	program=$!
	"$PROBECTL" trace -q "$@" -p "$program" loop:nop 2>"$SCRATCH/why" &
	tracer=$!
	# Its percentiles and extremes have values only after an interval.
	for ((try = 0; try < 150; try++)); do
		[ "$(metric "$metrics" | wc -l)" -lt "$values" ] || break
		sleep 0.1
	done
	rm -f "$SCRATCH"/archive.*
	echo "log mandatory on 1 sec { mmv.probectl.$metrics }" >"$SCRATCH/config"
	pmlogger -h "127.0.0.1:$pmcd_port" -c "$SCRATCH/config" -l "$SCRATCH/pmlogger" \
		-U "$(id -un)" -y "$SCRATCH/archive" >"$SCRATCH/why" 2>&1 &
	logger=$!
	sleep 2.5
	if before=$(now "$tracer") && sleep "$seconds" && after=$(now "$tracer"); then
		# shellcheck disable=SC2046 # figures
		row "$name" "$(metric "$metrics" | wc -l)" \
			$(awk -v s="$seconds" '{printf "%d %d %d %d %d\n", ($6 - $1) / s, ($7 - $2) / s,
				($8 - $3) / s, $9 - $4, $10 - $5}' <<<"$before $after") \
			"$(resident "$tracer")" "$(resident "$pmcd_pid")"
	else
		missing "$name" "$(head -1 "$SCRATCH/why")"
	fi 2>/dev/null
	for pid in "$logger" "$tracer" "$program"; do
		end_process "$pid"
	done
}

exported "-t pcp: count.hits" count.hits 1 -t pcp
for keys in 10 100 1000; do
	exported "-t pcp -k 'arg1 % $keys': count.hits" count.hits "$keys" -t pcp -k "arg1 % $keys"
done
exported "-t pcp,hist,arg1: all of hist" hist 10 -t pcp,hist,arg1
exported "-t pcp,hist,arg1 -k 'arg1 % 100': all of hist" hist 901 \
	-t pcp,hist,arg1 -k "arg1 % 100"
