# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The loop (tests/targets/loops/loop.c) under a tracer, for parts that measure the cost of a hit;
# sourced after tests/bench/lib.sh.

# shellcheck disable=SC2154 # set by the two libraries
loop=$TARGETS/loop
rounds=9
[ "$quick" = 0 ] || rounds=3

# bare THREADS: the loop without a probe
bare()
{
	"$loop" -s bare -n 20000000 -r "$rounds" -t "$1" | cut -d' ' -f2
}
bare1=$(bare 1)
bare2=$(bare 2)

# pair NAME FUNCTION ARGS…: a row with one and two threads; FUNCTION ARGS THREADS
# prints the nanoseconds of an iteration
pair()
{
	local name=$1 one two
	shift
	one=$("$@" 1)
	two=$("$@" 2)
	if [ -z "$one" ]; then
		missing "$name" "$(head -c 200 "$SCRATCH/why" 2>/dev/null | head -1)"
		return
	fi
	row "$name" "$(above "$one" "$bare1")" "$(above "$two" "$bare2")" "$(cat "$SCRATCH/note" 2>/dev/null)"
	rm -f "$SCRATCH/note" "$SCRATCH/why"
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
	if "$python" tests/integration/state.py wait "$pid" "$probe" 15; then
		sleep 0.2
		echo >&"${LOOP[1]}"
		read -r -u "${LOOP[0]}" line
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
