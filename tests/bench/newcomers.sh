#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Processes that come while probectl waits for them (--exe FILE --follow): which hits are missed, as
# root and as an ordinary user; and what a build of this tree takes while its compilers are counted.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh

processes=200
seconds=60
hits=50
[ "$quick" = 0 ] || processes=50 seconds=10
chmod 755 "$SCRATCH"
cp "$TARGETS/comer" "$SCRATCH/comer"

# Whom the ordinary user is; nobody, if we are root.
user=()
[ "$(id -u)" != 0 ] ||
	user=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all)

# come PREFIX…: one process, by a parent of one kind or another
come()
{
	case $((RANDOM % 4)) in
	0) "$@" "$SCRATCH/comer" $hits 2000 ;;
	1) sh -c '"$@"; exit 0' sh "$@" "$SCRATCH/comer" $hits 2000 ;;
	2) "$python" -c 'import subprocess, sys; subprocess.run(sys.argv[1:])' "$@" "$SCRATCH/comer" $hits 2000 ;;
	3) setsid -w "$@" "$SCRATCH/comer" $hits 2000 ;;
	esac
}

# random NAME PREFIX…: what is missed of processes that begin at random
random()
{
	local name=$1 i tracer line
	shift
	env --default-signal=INT "$@" "$PROBECTL" trace --json -q --follow --exe "$SCRATCH/comer" comer:hit \
		>"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
	tracer=$!
	sleep 1
	RANDOM=17
	for ((i = 0; i < processes; i++)); do
		(sleep "$((RANDOM % seconds)).$((RANDOM % 1000))" && come "$@") &
	done
	# shellcheck disable=SC2046 # one word each
	wait $(jobs -p | grep -vx $tracer)
	sleep 0.5
	kill -INT $tracer
	wait $tracer || missing "$name" "$(head -1 "$SCRATCH/err")"
	line=$(jq -r 'select(.name == "hit") | "\(.args[1]) \(.args[0])"' "$SCRATCH/out" | sort -u |
		awk -v all=$processes -v hits=$hits '{ seen[$1]++ }
			END {
				for (pid in seen) {
					processes++
					missed += hits - seen[pid]
					late += seen[pid] < hits
				}
				print processes, all - processes, missed, late
			}')
	# shellcheck disable=SC2086 # four figures
	row "$name" $line
}

# said PATTERN: the number of processes in a line that the trace ended with, or -
said()
{
	sed -n "s/^probectl: \([0-9]*\) process.*$1\$/\1/p" "$SCRATCH/err" | grep . || echo -
}

# built NAME COMMAND…: how long a build takes beside a command, and its processor time
built()
{
	local name=$1 beside='' TIMEFORMAT='%R %U %S' figures
	shift
	: >"$SCRATCH/err"
	if [ $# != 0 ]; then
		env --default-signal=INT "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
		beside=$!
		sleep 1
	fi
	rm -rf "$SCRATCH/build"
	figures=$({ time make -s -j2 BUILD="$SCRATCH/build" "$target" >"$SCRATCH/make" 2>&1; } 2>&1)
	[ -e "$SCRATCH/build/libcli.a" ] || missing "$name" "$(tail -1 "$SCRATCH/make")"
	if [ -n "$beside" ]; then
		sleep 0.5
		kill -INT $beside
		wait $beside
	fi
	# shellcheck disable=SC2046 # two figures
	row "$name" $(awk '{ printf "%.1f %.1f", $1, $2 + $3 }' <<<"$figures") \
		"$(said ' from the start')" "$(said ' earlier hits are missing')"
}

if [ ! -x "$PROBECTL" ] || ! command -v jq setpriv >/dev/null; then
	missing "processes that come" "probectl, jq or setpriv is missing"
	exit 0
fi
heading "$processes processes of $hits hits each, at random in $seconds s" "seen" "not seen" "missed" "late"
[ "$(id -u)" != 0 ] || random "as root"
random "as an ordinary user" "${user[@]}"

# The compiler's own programs; all have the probes of libc.
target=all
[ "$quick" = 0 ] || target=$SCRATCH/build/libcli.a
compilers=()
for program in cc1 collect2 as ld; do
	path=$(${CC:-gcc} -print-prog-name=$program)
	[[ $path == */* ]] || path=$(type -P "$path")
	compilers+=(--exe "$path")
done
heading "make -j2 of this tree" "s" "CPU s" "held" "found late"
for ((i = 0; i < (quick ? 3 : 1); i++)); do
	built "alone"
	built "its compilers are counted: trace -c --follow --exe cc1 ..." \
		"$PROBECTL" trace -c --follow "${compilers[@]}" 'libc:memory_*'
done
exit 0
