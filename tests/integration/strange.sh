#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# Threads in which a hit finds what it does not find elsewhere: the alignment check on.
. tests/integration/lib.sh
need_attach
need jq

start "$TARGETS/strange"
save_state "$target_pid"

# traced LINE HITS ARGS…: the target does what the line says under a trace, hits so often, and
# its last hit has the right arguments
traced()
{
	local line=$1 hits=$2 got
	shift 2
	trace_start trace --json "$@" -p "$target_pid"
	wait_tracing trace
	ask "$line"
	same "$line" "$answer" "hits ${line#* }"
	trace_stop trace
	got=$(jq -s 'map(select(.args)) | length' "$SCRATCH/trace.out")
	same "hits under $line with $*" "$got" "$hits"
}

# counted LINE HITS PROBE ARGS…: the same, of a tracer that counts
counted()
{
	local line=$1 hits=$2
	shift 2
	trace_start count --json "$@" -p "$target_pid"
	wait_tracing count
	ask "$line"
	same "$line" "$answer" "hits ${line#* }"
	trace_stop count
	same "counted under $line with $*" "$(jq -s 'map(.hits // .count // 0) | add' "$SCRATCH/count.out")" "$hits"
}

# ---- The alignment check ---------------------------------------------------------------

traced "check 300" 300 'strange:hit(arg0,str(arg1),arg2)'
jq -se 'map(select(.args)) | all(.args[1] == "aligned nowhere, and rather long" and .args[2] == 42)' \
	"$SCRATCH/trace.out" >/dev/null || fail "arguments: $(tail -2 "$SCRATCH/trace.out")"
counted "check 300" 300 -c strange:hit
counted "check 300" 1 -c --filter 'arg2 == 42 && arg0 == 7' strange:hit
counted "check 300" 300 -t count -k 'str(arg1)' strange:hit
check_alive "$target_pid"
same_state "$target_pid"

end_target
finish
