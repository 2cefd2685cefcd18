#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The cost of a hit for a program that has connected a function to its own probe, compared with
# counting and with calling the function directly.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh

hits=5000000 rounds=9 changes=51
[ "$quick" = 0 ] || hits=1000000 rounds=3 changes=21

# rows PROGRAM ARGUMENT…: a row for each line that it prints
rows()
{
	"$tools/$1" "${@:2}" 2>"$SCRATCH/why" | while IFS=$'\t' read -r name one two; do
		row "$name" "$one" "$two"
	done
	[ ! -s "$SCRATCH/why" ] || missing "the rest" "$(head -1 "$SCRATCH/why")"
}

heading "a program's own probe: ns a hit, above the bare loop" "1 thread" "2, each"
rows self "$hits" "$rounds"

heading "a change of it: by libprobe.so, executed" "us" ""
rows self changes "$changes"

heading "and by a copy of the program (libprobe.a)" "us" ""
rows self_copied changes 5
