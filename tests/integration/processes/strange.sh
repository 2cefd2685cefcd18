#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
#
# Threads in which a hit finds an unusual state: the alignment check is on, or the thread
# pointer is another thread's or arbitrary.
. tests/integration/lib.sh
need_attach
need jq

start "$TARGETS/strange"
save_state "$target_pid"

# traced LINE HITS ARGS…: the target does what the line says under a trace, and hits HITS times
traced()
{
	local line=$1 hits=$2 got
	shift 2
	trace_start trace --json "$@" -p "$target_pid"
	wait_tracing trace
	ask "$line"
	trace_stop trace
	got=$(jq -s 'map(select(.args) // select(.lost) | .lost // 1) | add' "$SCRATCH/trace.out")
	same "hits under $line with $*" "$got" "$hits"
}

# counted LINE HITS ARGS…: the same with a counting tracer
counted()
{
	local line=$1 hits=$2
	shift 2
	trace_start count --json "$@" -p "$target_pid"
	wait_tracing count
	ask "$line"
	trace_stop count
	same "counted under $line with $*" "$(jq -s 'map(.hits // .count // 0) | add' "$SCRATCH/count.out")" "$hits"
}

# rated THREADS: a hundred a second are counted, of a thousand in each thread, however long they take
rated()
{
	local got
	trace_start rate --json -c --rate 100 -p "$target_pid" strange:hit
	wait_tracing rate
	ask "go 1000"
	trace_stop rate
	got=$(jq -s 'map(.hits) | add' "$SCRATCH/rate.out")
	[ "$got" -ge 100 ] && [ "$got" -lt $((1000 * $1)) ] && [ $((got % 100)) = 0 ] ||
		fail "of 1000 hits in each of $1 threads, $got were counted at 100 a second"
}

# ---- The alignment check ---------------------------------------------------------------

# Where programs cannot turn it on, what is not aligned is read all the same.
ask "check 0"
check=check
[ "$answer" != none ] || check=hit
traced "$check 300" 300 'strange:hit(arg0,str(arg1),arg2)'
jq -se 'map(select(.args)) | all(.args[1] == "aligned nowhere, and rather long" and .args[2] == 42)' \
	"$SCRATCH/trace.out" >/dev/null || fail "arguments: $(tail -2 "$SCRATCH/trace.out")"
counted "$check 300" 300 -c strange:hit
counted "$check 300" 1 -c --filter 'arg2 == 42 && arg0 == 7' strange:hit
counted "$check 300" 300 -t count -k 'str(arg1)' strange:hit
[ "$check" = hit ] || counted "jump 300" 300 -c strange:jump
same_state "$target_pid"

# ---- Threads unknown to libc -----------------------------------------------------------

# odd ORDER: counts and records are complete, with these threads
odd()
{
	local hits=40000
	ask "$1 3"
	counted "go $hits" $((4 * hits)) -c strange:hit
	counted "go $hits" $((4 * hits)) -t hist,arg0 strange:hit
	counted "go $hits" $((4 * hits)) -c -k 'arg0 % 5' strange:hit
	counted "go $hits" $((2 * hits)) -c --every 2 strange:hit
	traced "go 5000" 20000 -b 16M strange:hit
	traced "go 2000" 8000 'strange:hit(arg0,str(arg1))'
	"$PROBECTL" enable -q -p "$target_pid" strange:hit || fail "enable: status $?"
	ask "go $hits"
	same "enabled" "$("$PROBECTL" status --json -p "$target_pid" | jq .hits)" $((4 * hits))
	"$PROBECTL" disable -q -p "$target_pid" strange:hit || fail "disable: status $?"
	same_state "$target_pid"
	end_target
}

# ---- The time stamp counter ------------------------------------------------------------

# sealed THREADS: records have correct times, as have intervals between two of them. Several
# threads may be preempted between reading the time and publishing it.
sealed()
{
	local before after got
	before=$(date +%s%N)
	traced "go 2000" $((2000 * $1)) -b 16M 'strange:hit(arg0,str(arg1))'
	after=$(date +%s%N)
	got=$(jq -sc "map(select(.ts).ts) | [. == sort or $1 > 1, min > $before, max < $after]" \
		"$SCRATCH/trace.out")
	same "times of $1 threads: in order, not before, not behind" "$got" "[true,true,true]"
	traced "go 2000" $((2000 * $1)) -b 16M -t ring strange:hit
	counted "go 2000" $((2000 * $1)) -t observe,arg0 strange:hit
	counted "go 2000" $((1000 * $1)) -t latency --pairs listed strange:hit strange:back
	rated "$1"
	"$PROBECTL" enable -q -p "$target_pid" -t latency --pairs listed strange:hit strange:back ||
		fail "enable: status $?"
	ask "go 100"
	"$PROBECTL" read --json -p "$target_pid" >"$SCRATCH/out" || fail "read: status $?"
	"$PROBECTL" disable -q -p "$target_pid" strange:hit strange:back || fail "disable: status $?"
	same "times that were read" "$(jq .count "$SCRATCH/out")" $((50 * $1))
	same_state "$target_pid"
}

odd share
start "$TARGETS/strange"
save_state "$target_pid"
ask seal
if [ "$answer" = none ]; then
	echo "note: this kernel has no PR_SET_TSC: all threads may read the counter"
else
	sealed 1
	ask "sealed 2"
	sealed 3
	end_target
	start "$TARGETS/strange"
	save_state "$target_pid"
	ask "sealed 1"
	sealed 2
fi
end_target
start "$TARGETS/strange"
save_state "$target_pid"
odd own
finish
