# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Cycles and instructions of a hit, by the processor's own counters (`perf stat`). Sourced after
# tests/bench/lib.sh. Virtual machines often have no counters; then no_cycles says why.

# cycles_of FILE HITS: what `perf stat -x,` has written there, as "CYCLES INSTRUCTIONS" of a hit;
# nothing where it has not counted both. A processor with two kinds of cores has a line for each.
cycles_of()
{
	awk -F, -v hits="$2" '
		$3 ~ /cycles/ && $1 ~ /^[0-9]+$/ { cycles += $1; has_cycles = 1 }
		$3 ~ /instructions/ && $1 ~ /^[0-9]+$/ { instructions += $1; has_instructions = 1 }
		END { if (has_cycles && has_instructions && hits > 0)
			printf "%.1f %.1f\n", cycles / hits, instructions / hits }' "$1" 2>/dev/null
}

# counting FILE: sets counting to the words before a command whose counts go to FILE
counting()
{
	counting=()
	[ -n "$no_cycles" ] || counting=(perf stat "-x," -e "cycles,instructions" -o "$1" --)
}

# cycles_begin PID, cycles_end: counts what the process does in between, into $SCRATCH/cycles
cycles_begin()
{
	rm -f "$SCRATCH/cycles"
	[ -z "$no_cycles" ] || return
	env --default-signal=INT perf stat -x, -e cycles,instructions -o "$SCRATCH/cycles" -p "$1" \
		2>/dev/null &
	cycles_pid=$!
	sleep 0.2
}
cycles_end()
{
	[ -z "$no_cycles" ] || return
	kill -INT "$cycles_pid" 2>/dev/null
	wait "$cycles_pid" 2>/dev/null
}

# Does this machine count? Without a word of why, it does.
no_cycles=
if ! command -v perf >/dev/null; then
	no_cycles="perf is not installed"
else
	perf stat -x, -e cycles,instructions -o "$SCRATCH/cycles" -- true >"$SCRATCH/perf.err" 2>&1 ||
		no_cycles="perf stat: $(grep -v '^$' "$SCRATCH/perf.err" | head -1)"
	[ -n "$no_cycles" ] || [ -n "$(cycles_of "$SCRATCH/cycles" 1)" ] ||
		no_cycles="perf stat says $(grep -m 1 -o '<[^>]*>' "$SCRATCH/cycles" || echo nothing)"
	rm -f "$SCRATCH/cycles"
fi
