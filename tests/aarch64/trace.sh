#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Hits with their arguments on aarch64: printed, gathered by pairs and threads, recorded and
# reported, in whole programs and running ones. A controller that is killed leaves what repair
# removes.
. tests/integration/lib.sh
. tests/aarch64/lib.sh

text="the quick brown fox jumps"

# ---- A program from its start ------------------------------------------------------

# launch ARGS…: probectl, and a program whose output is of no interest, must succeed
launch()
{
	"$PROBECTL" "$@" >/dev/null 2>"$SCRATCH/err" || fail "$1: $(cat "$SCRATCH/err")"
}

launch trace --json -o "$SCRATCH/hits" 'loop:string(arg0,str(arg2))' -- \
	"$TARGETS/loop" -s string -n 300 -t 2 -w heap
same "each hit of both threads" \
	"$(jq -r '"\(.tid) \(.args[0])"' "$SCRATCH/hits" | sort -u | wc -l)" 600
same "their text" "$(jq -r '.args[1]' "$SCRATCH/hits" | sort -u)" "$text"

launch trace --json -t latency -k tid -o "$SCRATCH/pairs" loop:pair__begin loop:pair__end -- \
	"$TARGETS/loop" -s pair -n 200 -t 2
same "pairs of each thread" "$(jq -r 'select(.keys) | .count' "$SCRATCH/pairs")" "200
200"

launch record --full=wait:1s -o "$SCRATCH/record" 'loop:string(arg0,str(arg2))' -- \
	"$TARGETS/loop" -s string -n 1000 -t 2
same "a record" "$("$PROBECTL" report --json "$SCRATCH/record" |
	jq -c 'select(.type == "record") | [.hits, .lost]')" "[2000,0]"

# ---- A running one, and a controller that is killed --------------------------------

start "$TARGETS/loop" -s string -n 1000 -t 2 -w heap -b -a
save_state "$target_pid"
"$PROBECTL" trace -q -o "$SCRATCH/out" -p "$target_pid" 'loop:string(arg0,str(arg2))' \
	2>"$SCRATCH/err" &
tracer=$!
until [ "$(enabled_of loop | wc -l)" = 1 ]; do
	kill -0 $tracer 2>/dev/null || die "trace: $(cat "$SCRATCH/err")"
	sleep 0.1
done
end_process $tracer
ask go
same "the program's own count" "${answer%% *}" 2000
same "what is removed" \
	"$("$PROBECTL" repair --json -p "$target_pid" | jq -c '[.sessions, .sites]')" "[1,1]"
same_state "$target_pid"
hear
tell bye
end_target
finish
