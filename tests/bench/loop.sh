# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The loop (tests/targets/loops/loop.c) under a tracer, for parts that measure the cost of a hit;
# sourced after tests/bench/lib.sh and tests/bench/cycles.sh.

# shellcheck disable=SC2154 # set by the two libraries
loop=$TARGETS/loop
rounds=9
[ "$quick" = 0 ] || rounds=3

# alone OPTION…: the loop without a tracer that is started for it; prints the nanoseconds of an
# iteration
alone()
{
	local line
	local -a counting
	counting "$SCRATCH/cycles"
	line=$("${counting[@]}" "$loop" "$@")
	cycles_of "$SCRATCH/cycles" "${line% *}" >"$SCRATCH/per_hit"
	echo "${line#* }"
}
bare2=$(alone -s bare -n 20000000 -r "$rounds" -t 2)
bare1=$(alone -s bare -n 20000000 -r "$rounds" -t 1)
bare_cycles=$(cat "$SCRATCH/per_hit")

# loop_heading: the columns of pair
loop_heading()
{
	local -a cycles=()
	[ -n "$no_cycles" ] || cycles=(cycles instr.)
	heading "ns a hit, above the bare loop of $bare1 ns ($bare2 with two)" "1 thread" "2, each" \
		"${cycles[@]}"
	[ -z "$no_cycles" ] || printf '  cycles and instructions are not counted here: %s\n' "$no_cycles"
}

# pair NAME FUNCTION ARGS…: a row with one and two threads; FUNCTION ARGS THREADS
# prints the nanoseconds of an iteration, and leaves the cycles and instructions in per_hit
pair()
{
	local name=$1 one two base
	local -a of_hit=() cycles=()
	shift
	rm -f "$SCRATCH/per_hit"
	one=$("$@" 1)
	[ ! -e "$SCRATCH/per_hit" ] || read -r -a of_hit <"$SCRATCH/per_hit"
	two=$("$@" 2)
	if [ -z "$one" ]; then
		missing "$name" "$(head -c 200 "$SCRATCH/why" 2>/dev/null | head -1)"
		return
	fi
	read -r -a base <<<"$bare_cycles"
	[ -n "$no_cycles" ] || cycles=("$(above "${of_hit[0]-}" "${base[0]-0}")"
		"$(above "${of_hit[1]-}" "${base[1]-0}")")
	row "$name" "$(above "$one" "$bare1")" "$(above "$two" "$bare2")" "${cycles[@]}" \
		"$(cat "$SCRATCH/note" 2>/dev/null)"
	rm -f "$SCRATCH/note" "$SCRATCH/why"
}

# attached PID PROBE: waits until it is patched; no note says where a function is
attached()
{
	[ "$2" = loop:function ] || {
		"$python" tests/integration/state.py wait "$1" "$2" 15
		return
	}
	for ((times = 0; times < 150; times++)); do
		sleep 0.1
		! grep -qsE 'Ctrl-C ends|^Attaching' "$SCRATCH/tracer.err" "$SCRATCH/tracer.out" || return 0
	done
	return 1
}

# under SITE HITS ROUNDS THREADS ATTACH…: the loop under the tracer that ATTACH (a command line;
# PID is replaced) starts; it is ended with SIGINT. loop_options are further options of the loop.
# Prints nothing if the tracer does not patch the site, or the end of a pair.
under()
{
	local site=$1 hits=$2 count=$3 threads=$4 line pid tracer
	local -a command
	local probe=loop:$site
	[ "$site" != pair ] || probe=loop:pair__end
	shift 4
	coproc LOOP { exec "$loop" ${loop_options:-} -s "$site" -n "$hits" -r "$count" -t "$threads" -z 10 -b -a; }
	pid=$LOOP_PID
	read -r -u "${LOOP[0]}" line
	command=("${@//PID/$pid}")
	env --default-signal=INT "${command[@]}" >"$SCRATCH/tracer.out" 2>"$SCRATCH/tracer.err" </dev/null &
	tracer=$!
	if attached "$pid" "$probe"; then
		sleep 0.2
		cycles_begin "$pid"
		echo >&"${LOOP[1]}"
		read -r -u "${LOOP[0]}" line
		cycles_end
		cycles_of "$SCRATCH/cycles" "${line% *}" >"$SCRATCH/per_hit"
		echo "${line#* }"
	else
		head -1 "$SCRATCH/tracer.err" >"$SCRATCH/why"
		echo >&"${LOOP[1]}"
		read -r -u "${LOOP[0]}" line
	fi
	kill -INT "$tracer" 2>/dev/null
	wait "$tracer" 2>/dev/null
	read -r -u "${LOOP[0]}" line
	echo >&"${LOOP[1]}"
	wait "$pid" 2>/dev/null
}

# uftrace_ns: of a function, entry and exit, above the bare loop
uftrace_ns()
{
	local base traced
	base=$(cd "$SCRATCH" && "$tools/called" 1000000)
	traced=$(cd "$SCRATCH" && uftrace record --no-libcall --no-event -d uftrace.data "$tools/called_pg" 1000000 2>"$SCRATCH/why")
	rm -rf "$SCRATCH/uftrace.data"
	[ -z "$traced" ] || awk -v t="$traced" -v b="$base" -v bare="$bare1" 'BEGIN { print t - b + bare }'
}
