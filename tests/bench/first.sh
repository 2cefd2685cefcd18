#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The time from a command's start to the first hit that it prints. The target hits the probe all
# the time.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh

rounds=15
[ "$quick" = 0 ] || rounds=5
gap=$TARGETS/gap
"$gap" >"$SCRATCH/gap.out" &
pid=$!
on_exit "end_process $pid"
sleep 0.2

# first NAME TEXT COMMAND…: only hits print TEXT
first()
{
	local name=$1 text=$2 figures
	shift 2
	figures=$("$tools/stopwatch" -r "$rounds" -f -t "$text" -- "$@") || figures="-1 -1 -1"
	# shellcheck disable=SC2086 # three words
	set -- $figures
	row "$name" "$(ms "$1")" "$(ms "$2")" "$3"
}

heading "from the command's start to the first hit, ms" "first hit" "its end" "KiB"
if [ -x "$PROBECTL" ]; then
	first "probectl trace -n 1" "gap:hit" "$PROBECTL" trace -n 1 -p "$pid" gap:hit
	first "probectl trace -n 1 -- PROGRAM" "loop:nop" "$PROBECTL" trace -n 1 loop:nop -- "$TARGETS/loop" -n 10
else
	missing "probectl trace -n 1" "$PROBECTL is not built"
fi
rounds=5
if is_root && command -v bpftrace >/dev/null; then
	first "bpftrace, printf() and exit()" "hit " bpftrace -p "$pid" \
		-e "usdt:$gap:gap:hit { printf(\"hit %d\\n\", arg0); exit(); }"
else
	missing "bpftrace" "it is not installed, or we are not root"
fi
if is_root && command -v trace-bpfcc >/dev/null && [ -e "/lib/modules/$(uname -r)/build" ]; then
	first "trace-bpfcc" "hit " trace-bpfcc -p "$pid" -M 1 "u:$gap:hit \"hit %d\", arg1"
else
	missing "trace-bpfcc" "it needs root and this kernel's headers"
fi
if command -v gdb >/dev/null; then
	first "gdb, a breakpoint" "Breakpoint 1, " gdb -q -nx -batch -iex 'set debuginfod enabled off' \
		-ex 'break -probe-stap gap:hit' -ex continue -p "$pid"
else
	missing "gdb" "it is not installed"
fi
exit 0
