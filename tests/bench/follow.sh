#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What it costs to follow the programs that a program starts: alone, under `strace -f -e execve`,
# which stops at every system call, and under a trace of a probe that none of them has.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh

rounds=9
[ "$quick" = 0 ] || rounds=3

# Forty small files, compiled by make as in a normal build.
mkdir "$SCRATCH/tree"
for ((i = 0; i < 40; i++)); do
	printf '#include <stdio.h>\nint f%d(void) { return printf("%d"); }\n' $i $i >"$SCRATCH/tree/f$i.c"
done
printf 'all: $(patsubst %%.c,%%.o,$(wildcard *.c))\n' >"$SCRATCH/tree/Makefile"

# least FIELD FILE: the least of a column
least()
{
	cut -d' ' -f"$1" "$2" | sort -g | head -1
}

# follow NAME COMMAND…: in turns, so that other load affects all three alike
follow()
{
	local name=$1 who
	shift
	rm -f "$SCRATCH"/turn.*
	for ((i = 0; i < rounds; i++)); do
		timed "$@" >>"$SCRATCH/turn.alone"
		timed strace -f -o /dev/null -e trace=execve "$@" >>"$SCRATCH/turn.strace"
		timed "$PROBECTL" trace -q -c -o /dev/null nothing:here -- "$@" >>"$SCRATCH/turn.probectl"
	done
	for who in alone strace probectl; do
		row "$name, $who" "$(least 1 "$SCRATCH/turn.$who")" \
			"$(cut -d' ' -f1 "$SCRATCH/turn.$who" | median)" "$(least 2 "$SCRATCH/turn.$who")"
	done
}

heading "programs that are followed, ms" "least" "median" "least CPU"
if [ ! -x "$PROBECTL" ]; then
	missing "probectl trace" "$PROBECTL is not built"
elif ! command -v strace >/dev/null; then
	missing "strace -f" "it is not installed"
else
	follow "200 programs, one after the other" \
		sh -c 'i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i + 1)); done'
	follow "make -j4 of 40 files" make -s -j4 -B -C "$SCRATCH/tree"
fi
exit 0
