#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The call stack of each hit, and of each slow span: --stack with the tracers that print hits. A
# known tree of calls, several processes, a program that is started, C++ exceptions; rejected
# spans leave nothing; losses are counted; a seccomp filter cuts the copy, which says so.
. tests/integration/lib.sh
need_attach
need jq

rounds=50

# trace_run NAME TARGET ARGS…: a whole run of a target that waits twice, into $SCRATCH/NAME.out
trace_run()
{
	local name=$1 target=$2
	shift 2
	printf '\n\n' | "$PROBECTL" trace -o "$SCRATCH/$name.out" "$@" -- "$TARGETS/$target" \
		"$rounds" >"$SCRATCH/$name.stdout" 2>"$SCRATCH/$name.err" ||
		fail "$name: status $?: $(head -3 "$SCRATCH/$name.err")"
}

# stacks_of NAME PROBE: how many hits have which stack, up to main, without frames of the C library
# and of the kernel's code
stacks_of()
{
	jq -r "select(.name == \"$2\" and .args) | .stack + \" \" +
		([.frames[] | select(.module | test(\"libc[.]so|^.vdso.$\") | not).symbol] |
		.[:(index(\"main\") // 999) + 1] | join(\",\"))" "$SCRATCH/$1.out" |
		sort | uniq -c | sed 's/^ *//'
}

# ---- Hits --------------------------------------------------------------------------------

left="whole leaf,left,calls,main" right="whole leaf,middle,right,calls,main"
calls="$rounds $left
$((2 * rounds)) $right"
# On aarch64 a function saves its return address below its variables.
big="behind_big,big"
[ "$(uname -m)" != aarch64 ] || big=$big,main
for target in stacks stacks_frames; do
	trace_run "$target" "$target" --json --stack 'stacks:*'
	same "$target: calls" "$(stacks_of "$target" call)" "$calls"
	same "$target: a signal" "$(stacks_of "$target" signal)" \
		"1 whole on_signal,on_illegal,interrupted,main"
	same "$target: a big frame" "$(stacks_of "$target" big)" "1 truncated $big"
done
trace_run bytes stacks --json --stack=bytes=32768 stacks:big
same "a big frame in a big copy" "$(stacks_of bytes big)" "1 whole behind_big,big,main"
trace_run frames stacks_frames --json --stack=frames 'stacks:*'
same "frame pointers: calls" "$(stacks_of frames call | sed 's/ unknown / whole /')" "$calls"
same "frame pointers: a big frame" "$(stacks_of frames big | sed 's/ unknown / whole /')" \
	"1 whole behind_big,big,main"
# The site, its caller, and what 64 frame pointers lead to.
same "frame pointers: frames at most" "$(jq 'select(.name == "deep").frames | length' "$SCRATCH/frames.out")" 66

# As text, the innermost frame first; with -v, source lines. Arguments are there, too.
trace_run text stacks --stack -v -n 1 -f 'arg0 == 0' 'stacks:call(arg0)'
same "text" "$(sed -E '1s/^[0-9:.]+ +([0-9]+) +\1 +/PID /; s/ \(stacks.c:[0-9]+\)$/ LINE/; /main/q' "$SCRATCH/text.out")" \
	"PID stacks           stacks:call               0
	leaf LINE
	left LINE
	calls LINE
	main LINE"
trace_run cut stacks --stack stacks:big
same "a stack that is cut" "$(sed 1d "$SCRATCH/cut.out")" "$(tr ',' '\n' <<<"$big,[truncated]" | sed 's/^/\t/')"

# Only the tracer that prints hits has them; a filter and samples choose hits.
trace_run some stacks --json --stack -t print -t count --every 10 stacks:call
same "one in ten" "$(stacks_of some call | awk '{ n += $1 } END { print n }')" "$((3 * rounds / 10))"
same "count" "$(jq -c 'select(.tracer == "count") | [.hits, has("frames")]' "$SCRATCH/some.out")" \
	"[$((3 * rounds / 10)),false]"

# A flight recorder keeps those of the newest hits.
trace_run ring stacks --json -t ring --stack -b 64k stacks:call
count=$(stacks_of ring call | awk '{ n += $1 } END { print n }')
if [ "${count:-0}" -lt 3 ] || [ "$count" -ge $((3 * rounds)) ]; then
	fail "a ring of 64k holds $count of $((3 * rounds)) copies"
fi
same "the stacks in a ring" "$(stacks_of ring call | cut -d' ' -f2-)" "$left
$right"

# Names of C++, as they were written.
trace_run cxx throw --json --stack cxx:enter
jq -e '.frames[0].symbol | startswith("thrower(int)")' "$SCRATCH/cxx.out" >"$SCRATCH/null" ||
	fail "C++: $(head -1 "$SCRATCH/cxx.out")"

# ---- Spans -------------------------------------------------------------------------------

# Naps take 0, 5, 10 and 15 ms; what is too short leaves nothing.
for how in '' =frames; do
	trace_run naps naps --json -t span --min 8ms --stack$how naps:nap__start naps:nap__done
	same "slow spans$how" "$(stacks_of naps nap__done | sed 's/^[0-9]* //; s/^unknown/whole/')" \
		"whole nap,main"
	same "the slowest are there$how" "$(jq '[.args[0] | select(. != null and . % 4 >= 2)] | .[]' "$SCRATCH/naps.out" | wc -l)" \
		$((rounds / 4 + (rounds - 2) / 4))
	same "begins$how" "$(jq -c 'select(.begin) | .begin | [.name, has("frames")]' "$SCRATCH/naps.out" | sort -u)" \
		'["nap__start",false]'
	same "fast spans$how" "$(jq 'select(.duration < 8000000)' "$SCRATCH/naps.out")" ""
done
trace_run filtered naps --stack -t span -f 'end.arg0 == 6' 'naps:nap__start(arg0)' naps:nap__done
same "a span as text" "$(sed -E '1s/^.*naps:/naps:/; /main/q' "$SCRATCH/filtered.out")" \
	"naps:nap__start..nap__done  6 -> 6 12
	nap
	main"
same "what a filter leaves" "$(grep -c 'nap__done' "$SCRATCH/filtered.out")" 1

# ---- Several processes -------------------------------------------------------------------

# Their hits are put into one order.
start "$TARGETS/stacks" "$rounds"
save_state "$target_pid"
first=$target_pid first_in=$target_in
start "$TARGETS/stacks_frames" "$rounds" 2>"$SCRATCH/null" # that there are two
trace_start both --json --stack -p "$first,$target_pid" stacks:call
wait_tracing both
echo go >&"$first_in"
ask go
hear_both()
{
	while [ "$(grep -c '"frames"' "$SCRATCH/both.out")" -lt $((6 * rounds)) ]; do
		pause
	done
}
hear_both
trace_stop both
same "two processes" "$(stacks_of both call)" "$((2 * rounds)) $left
$((4 * rounds)) $right"
same_state "$first"
same "the order of time" "$(jq -s '[.[].ts] | . == sort' "$SCRATCH/both.out")" true
end_process "$first"
end_process "$target_pid"

# A program that is started by the one that is traced.
printf '\n\n' | "$PROBECTL" trace --json --stack -o "$SCRATCH/followed.out" stacks:call -- \
	sh -c "'$TARGETS/stacks' $rounds; exit 3" >"$SCRATCH/stdout" 2>"$SCRATCH/err"
same "a started program: status" "$?" 3
same "a started program" "$(stacks_of followed call)" "$calls"

# ---- Losses ------------------------------------------------------------------------------

# A ring has room for few copies, and is not read while the tracer stands still.
start "$TARGETS/stacks" 2000
save_state "$target_pid"
trace_start full --json --stack -b 64k -p "$target_pid" stacks:call
wait_tracing full
kill -STOP "$tracer_pid"
ask go
kill -CONT "$tracer_pid"
trace_stop full
kept=$(grep -c '"frames"' "$SCRATCH/full.out")
lost=$(jq -s 'map(.lost // 0) | add' "$SCRATCH/full.out")
[ "$lost" -gt 0 ] || fail "nothing was lost in a ring of 64 KiB"
same "kept and lost" "$((kept + lost))" 6000
same_state "$target_pid"
tell bye
end_target 0

# ---- A seccomp filter --------------------------------------------------------------------

# Stubs cannot ask which pages are readable: the copy of another thread's stack ends with
# the page of the stack pointer.
start "$TARGETS/seccomp" rt_sigprocmask worker
"$PROBECTL" trace --json --stack -n 2 -p "$target_pid" seccomp:hit >"$SCRATCH/filtered" 2>"$SCRATCH/err" ||
	fail "under a filter: $(cat "$SCRATCH/err")"
same "stacks under a filter" \
	"$(jq -r '[.frames[0].symbol, (.stack == "whole" or .stack == "truncated")] | join(" ")' "$SCRATCH/filtered")" \
	"pass true
pass true"
end_process "$target_pid"

# ---- Exceptions --------------------------------------------------------------------------

printf '\n\n' | "$PROBECTL" trace --json --stack -o "$SCRATCH/thrown.out" libstdcxx:throw -- \
	"$TARGETS/throw" 300 >"$SCRATCH/stdout" 2>"$SCRATCH/err" || fail "throws: $(cat "$SCRATCH/err")"
same "throws" "$(jq -r 'select(.frames) | .stack + " " + ([.frames[].symbol | tostring | split(" [clone")[0]] |
	.[:index("main") + 1] | map(select(contains("::") | not)) | join(","))' "$SCRATCH/thrown.out" | sort | uniq -c | sed 's/^ *//')" \
	"200 whole __cxa_throw,thrower(int),around(int),catcher(int),main"

# ---- Mistakes ----------------------------------------------------------------------------

# usage WANTED ARGS…
usage()
{
	local wanted=$1
	shift
	"$PROBECTL" trace "$@" -p $$ stacks:call >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "$*: status" "$?" 2
	grep -qF -e "$wanted" "$SCRATCH/err" || fail "$*: $(cat "$SCRATCH/err") lacks $wanted"
}
usage "--stack=frame: use --stack, --stack=frames or --stack=bytes=N" --stack=frame
usage "--stack=bytes=9: between 512 and 32768 bytes" --stack=bytes=9
usage "tracer 'count' prints no hits; -t stack counts hits by their stacks" --stack -c
usage "tracer 'count' prints no hits; -t stack counts hits by their stacks" --stack -c -k arg0
usage "tracer 'latency' prints no hits; -t span prints each pair" --stack -t latency --pairs auto
usage "--stack: tracer 'stack' takes stacks by itself" --stack -t stack
usage "--stack: none of the tracers prints hits" --stack -t stack -t count

# Without libdw the command fails at once.
mkdir "$SCRATCH/no_libdw"
: >"$SCRATCH/no_libdw/libdw.so.1"
for how in '' =frames; do
	LD_LIBRARY_PATH=$SCRATCH/no_libdw "$PROBECTL" trace --stack$how stacks:call -- \
		"$TARGETS/stacks" "$rounds" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	same "$how without libdw: status" "$?" 1
	grep -q 'unwinding stacks needs libdw (elfutils), which cannot be loaded:' "$SCRATCH/err" ||
		fail "$how without libdw: $(cat "$SCRATCH/err")"
done
finish
