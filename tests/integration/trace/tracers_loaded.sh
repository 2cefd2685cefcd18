#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Loaded tracers, after Erlang's erl_tracer: what an answer of PROBE_TRACER_REMOVE changes, at
# the start, for a process and for a probe; what a hit says beside its arguments; tags of probes.
. tests/integration/lib.sh
need_attach
need jq

own=$TARGETS/libtracer.so

# loaded STATUS OPTIONS PROBE…: the program loop under that tracer
loaded()
{
	local wanted=$1 options=$2
	shift 2
	timeout "$TEST_SECONDS" "$PROBECTL" trace -t "$own$options" "$@" -- "$TARGETS/loop" -s nop -n 1000 \
		>"$SCRATCH/own.out" 2>"$SCRATCH/own.err"
	same "status with '$options'" "$?" "$wanted"
}

# ---- At the start --------------------------------------------------------------------

loaded 1 ,off loop:nop
says own "libtracer.so wants no hits (it answered PROBE_TRACER_REMOVE): nothing is switched on for it"
! grep -q '^1000 ' "$SCRATCH/own.out" || fail "the program was started nevertheless"
loaded 1 ,off -t count loop:nop
says own "nothing is switched on for it"
grep -q 'loop:nop' "$SCRATCH/own.out" || fail "the other tracer did not go on: $(cat "$SCRATCH/own.out")"

# Two processes, one of which it does not want: that one is not patched.
start "$TARGETS/pairs" 1 10
first=$target_pid
save_state "$first"
start "$TARGETS/pairs" 1 10
trace_start two -t "$own,only=$target_pid" -p "$first,$target_pid" pairs:request__start
wait_tracing two
same_state "$first"
grep -q "wants no hits of process $first: none of its probes" "$SCRATCH/two.err" ||
	fail "it is not said: $(cat "$SCRATCH/two.err")"
ask go
trace_stop two
same "asked about each" "$(grep -o 'process .*' "$SCRATCH/two.out" | sort | paste -sd,)" \
	"process unwanted,process wanted"
same "hits of the other" "$(grep -c 'tag' "$SCRATCH/two.out")" 11
trace_start none -t "$own,only=1" -p "$first" pairs:request__start
wait "$tracer_pid"
same "wanted nowhere" "$?" 1
grep -q 'nothing is traced' "$SCRATCH/none.err" || fail "$(cat "$SCRATCH/none.err")"
same_state "$first"

# ---- Later ---------------------------------------------------------------------------

# is_off PID PROBE: its site is restored, within ten seconds, or more on a slow machine
is_off()
{
	until [ "$("$PROBECTL" list --json -p "$1" "$2" | jq -s 'map(.enabled) | any')" = false ]; do
		pause
	done
}

# A probe of a process: it is restored at once, and the other probe is on until the end.
start "$TARGETS/pairs" 1 10
save_state "$target_pid"
trace_start one -t "$own,remove=1" -p "$target_pid" pairs:request__done pairs:step__start
wait_tracing one
ask go
is_off "$target_pid" pairs:request__done
wait_on "$target_pid" pairs:step__start
trace_stop one
same "hits of what was removed" "$(grep -c request__done "$SCRATCH/one.out")" 0
[ "$(grep -c step__start "$SCRATCH/one.out")" -gt 10 ] || fail "the other probe's hits are missing"
same_state "$target_pid"

# Somebody else wants its hits, too: it stays on, and all are counted.
start "$TARGETS/pairs" 1 10
trace_start both --json -t "$own,remove=1,quiet" -t count -p "$target_pid" pairs:request__start
wait_tracing both
ask go
wait_on "$target_pid" pairs:request__start
trace_stop both
same "counted by the other tracer" "$(grep '"hits"' "$SCRATCH/both.out" | jq .hits)" 11

# Asked again at the next look, it leaves a process that it has had a hit of.
start "$TARGETS/pairs" 1 10
save_state "$target_pid"
trace_start leave -t "$own,leave" -i 0.1 -p "$target_pid" pairs:request__start
wait_tracing leave
ask go
wait "$tracer_pid"
same "nothing is left to trace" "$?" 0
same_state "$target_pid"

# ---- What a hit says ------------------------------------------------------------------

loaded 0 ,terms -f 'arg0 & 6' -n 3 'loop:nop(arg1)'
same "values of a filter" "$(grep -o 'filter=.*' "$SCRATCH/own.out" | paste -sd';')" \
	"$("$python" -c "print(';'.join([f'filter={n & 6}u comm=loop' for n in range(1000, 0, -1) if n & 6][:3]))")"
same "arguments" "$(grep -c 'loop:nop [0-9]* filter' "$SCRATCH/own.out")" 3
loaded 0 ,terms -f 'arg0 == 7 || arg1 < 0' loop:nop
same "a truth value" "$(grep -o 'loop:nop.*' "$SCRATCH/own.out")" "loop:nop 7 993 1000 filter=1 comm=loop"
loaded 0 ,terms -f 'pid + 0 * tid' -n 1 loop:nop
grep -q 'filter=[1-9]' "$SCRATCH/own.out" || fail "a filter of the process: $(cat "$SCRATCH/own.out")"
loaded 0 ,terms -n 1 loop:nop
same "without a filter" "$(grep -c 'filter=' "$SCRATCH/own.out")" 0

loaded 0 ,tag=observe,terms -n 1 loop:nop
same "a value" "$(grep -o 'tag.*' "$SCRATCH/own.out")" "tag 3 loop:nop 1000 0 1000 extra=1000u comm=loop"
loaded 0 ,tag=count,tag=observe@loop:n?p,tag=point@other:\*,terms -n 1 loop:nop
same "the tag of a probe" "$(grep -o 'tag [0-9]' "$SCRATCH/own.out")" "tag 3"
loaded 0 ,tag=count,tag=observe@other:\*,terms -n 1 loop:nop
same "the tag of all others" "$(grep -o 'tag [0-9]' "$SCRATCH/own.out")" "tag 4"
says own "no hit got the tag of @other:\*"
loaded 1 ,odd=3 loop:nop
says own "its operation 'trace' returned no verdict of probe/tracer.h"
for tag in begin status 'a b' ''; do
	loaded 2 ",tag=$tag" loop:nop
	says own "tag=$tag: a tag is point, observe, count or a name of your own"
done
loaded 2 ',tag=count@/(/' loop:nop
says own "tag=count@/(/"

# Names of one's own get to both operations, with the probe.
loaded 0 ,tag=send@loop:\*,named -n 1 loop:nop
same "a name of one's own" "$(grep -E 'enabled|tag' "$SCRATCH/own.out" | paste -sd';')" \
	"enabled send loop:nop;send tag 5 loop:nop 1000 0 1000"
loaded 0 ,tag=count,named -n 1 loop:nop
same "a tag's name" "$(grep -E 'enabled|tag' "$SCRATCH/own.out" | paste -sd';')" \
	"enabled count loop:nop;count tag 4 loop:nop 1000 0 1000"

# Labels: an argument that is named, or else a trace id, whoever has the hit.
loaded 0 ,label=arg1,terms -n 2 loop:nop
same "labels" "$(grep -o 'label=.*' "$SCRATCH/own.out" | paste -sd,)" label=0u,label=1u
for label in arg arg32 x 'arg0)'; do
	loaded 2 ",label=$label" loop:nop
	says own "'$label' is no argument (label=arg0)"
done
id=0af7651916cd43dd8448eb211c80319c
start bash -c 'exec -a "$0" "$1" named 1' "00-$id-b7ad6b7169203331-01" "$TARGETS/hostile"
timeout "$TEST_SECONDS" "$PROBECTL" trace -n 1 -t "$own,terms" -p "$target_pid" 'hostile:tick(arg0,str(arg1))' \
	>"$SCRATCH/id.out" 2>"$SCRATCH/id.err" || fail "a trace id: $?"
same "a trace id" "$(grep -o 'label=.*' "$SCRATCH/id.out")" "label=$id"
tell stop
hear
tell end

# ---- Filters of the tracer --------------------------------------------------------------

# filtered WHAT HITS ENABLED: the hits that were recorded, and those that the tracer was asked about
filtered()
{
	same "$1: recorded" "$(sed -n 's/.*loop:nop: \([0-9]*\) hit.*/\1/p' "$SCRATCH/own.err")" "$2"
	same "$1: asked" "$(sed -n 's/^asked of \([0-9]*\) hits/\1/p' "$SCRATCH/own.out")" "$2"
}

loaded 0 ,filter=997 loop:nop
filtered "a filter" 3
same "hits" "$(grep -o 'loop:nop [0-9]*' "$SCRATCH/own.out" | paste -sd,)" "loop:nop 1000,loop:nop 999,loop:nop 998"
loaded 0 ,filter=995 -f 'arg0 & 6' 'loop:nop(arg1)'
filtered "with -f" 4
same "with -f: hits" "$(grep -o 'loop:nop [0-9]* filter=[0-9]*' "$SCRATCH/own.out" | paste -sd,)" \
	"loop:nop 1 filter=6,loop:nop 2 filter=6,loop:nop 3 filter=4,loop:nop 4 filter=4"
loaded 0 ,filter=997,tag=own@loop:n\* loop:nop
filtered "of a name of one's own" 1
loaded 0 ,filter=997,tag=observe loop:nop
filtered "of another tag" 1000
loaded 2 ,wrong loop:nop
says own "tracer $own: the tracer's filter 'arg0 >', column 7: "
! grep -q '^1000 ' "$SCRATCH/own.out" || fail "the program was started nevertheless"
loaded 2 ,lacking loop:nop
says own "loop:nop: the tracer's filter 'arg9 == 1', column 1: there is no arg9"
! grep -q '^1000 ' "$SCRATCH/own.out" || fail "the program was started nevertheless"
start "$TARGETS/pairs" 1 10
save_state "$target_pid"
"$PROBECTL" trace -t "$own,lacking" -p "$target_pid" pairs:request__start 2>"$SCRATCH/lacking.err"
same "a filter that a probe cannot have" $? 2
same_state "$target_pid"

# ---- Threads and children -----------------------------------------------------------------

# One thread is left, and the others of its process are not. A name is the thread's own, or none.
printf '%s\n' 'alice 5 left' 'bob 6 left' 'carol 7 left' | timeout "$TEST_SECONDS" "$PROBECTL" trace -t "$own,thread" \
	nicknames:hit -- "$TARGETS/nicknames" >"$SCRATCH/thread.out" 2>"$SCRATCH/thread.err" || fail "threads: $?"
same "the other threads" "$(grep -c 'tag 0 nicknames:hit' "$SCRATCH/thread.out")" 13
same "one thread is asked about once" "$(sed -n 's/^asked of \([0-9]*\) hits/\1/p' "$SCRATCH/thread.out")" 14
printf '%s\n' 'alice 5 left' 'bob 6 left' 'carol 7 left' | timeout "$TEST_SECONDS" "$PROBECTL" trace -t "$own,terms" \
	nicknames:hit -- "$TARGETS/nicknames" >"$SCRATCH/names.out" 2>"$SCRATCH/names.err" || fail "names: $?"
same "named threads" "$(grep -c 'comm=' "$SCRATCH/names.out")" 18
same "threads under another name" "$(grep -c 'comm=nicknames' "$SCRATCH/names.out")" 0

# A forked child has its parent's probes; the tracer is asked about it all the same.
for option in asked child; do
	timeout "$TEST_SECONDS" "$PROBECTL" trace --follow -t "$own,$option" comer:hit -- \
		"$TARGETS/comer" 5 1000 fork >"$SCRATCH/$option.out" 2>"$SCRATCH/$option.err" || fail "$option: status $?"
	same "$option: processes" "$(grep '^asked about' "$SCRATCH/$option.out" | sort -u | wc -l)" 2
done
same "hits of both" "$(grep -c 'tag 0 comer:hit' "$SCRATCH/asked.out")" 9
same "hits without the child's" "$(grep -c 'tag 0 comer:hit' "$SCRATCH/child.out")" 5

# An end says how long it took; one without a begin does not.
start "$TARGETS/pairs" 1 10
trace_start ends -t "$own,terms" --pairs auto -p "$target_pid" 'pairs:request__*'
wait_tracing ends
ask go
trace_stop ends
same "the first end has no begin" "$(grep -m1 'tag 2' "$SCRATCH/ends.out" | grep -o 'extra=[a-z]*')" extra=none
same "the others" "$(grep 'tag 2' "$SCRATCH/ends.out" | sed 1d | grep -o 'extra=[a-z]*' | sort | uniq -c | xargs)" \
	"10 extra=time"
finish
