#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# --new: only processes that come later. Those that are there at the start are left alone for as long
# as they run.
. tests/integration/lib.sh
need_attach
need jq

comer=$SCRATCH/new$$
cp "$TARGETS/comer" "$comer"

# traced NAME: the processes that have hits
traced()
{
	jq -r 'select(.name == "hit").pid' "$SCRATCH/$1.out" | sort -un | paste -sd' '
}

# comes NAME PATTERN COMMAND…: starts a program in the background, as $came; when the output of NAME has
# the pattern, with PID for its number, ends it
comes()
{
	local pattern=$2

	"${@:3}" &
	came=$!
	on_exit "end_process $came"
	until grep -q "${pattern//PID/$came}" "$SCRATCH/$1.out"; do
		pause
	done
	end_process "$came"
}

start bash -c '"$0" 1000000 1000 alone >/dev/null & echo $! >"$1"; echo ready; wait' \
	"$comer" "$SCRATCH/old"
old=$(cat "$SCRATCH/old")
until grep -q "$comer" "/proc/$old/maps"; do
	pause
done
save_state "$old"
for selection in "--exe $comer" "--name new$$" "--children $$"; do
	# shellcheck disable=SC2086
	trace_start new --json --new $selection comer:hit
	wait_tracing new
	says new "waiting for each process that"
	same_state "$old"
	comes new '"pid":PID,.*"name":"hit"' "$comer" 1000000 1000 alone
	first=$came
	comes new '"pid":PID,.*"name":"hit"' "$comer" 1000000 1000 alone
	trace_stop new
	same "$selection" "$(traced new)" "$(printf '%s\n' "$first" "$came" | sort -n | paste -sd' ')"
	same_state "$old"
done

# It is the process that counts, also when it executes another program.
mkdir "$SCRATCH/other"
cp "$BASH" "$SCRATCH/other/new$$"
anew again
"$SCRATCH/other/new$$" -c 'read -r line <"$1"; exec "$0" 100 1000 alone' "$comer" <(wait_file "$SCRATCH/go"; echo) &
again=$!
on_exit "end_process $again"
trace_start again --json --new --name "new$$" comer:hit
wait_tracing again
: >"$SCRATCH/go"
wait "$again"
comes again '"pid":PID,.*"name":"hit"' "$comer" 1000000 1000 alone
trace_stop again
same "one that executes another program" "$(traced again)" "$came"
same_state "$old"

# top has it, too.
anew top
env --default-signal=INT "$PROBECTL" top -i 0.2 --new --exe "$comer" comer:hit >"$SCRATCH/top.out" \
	2>"$SCRATCH/top.err" </dev/null &
tracer_pid=$!
on_exit "end_process $tracer_pid"
wait_tracing top
comes top "1 process" "$comer" 1000000 1000 alone
trace_stop top
grep -q "1 process, 0 now" "$SCRATCH/top.out" || fail "top: $(cat "$SCRATCH/top.out" "$SCRATCH/top.err")"
same_state "$old"
kill "$old"

for wrong in "-p $$" "--tree $$" "--no-follow --exe $comer" ""; do
	# shellcheck disable=SC2086
	"$PROBECTL" trace --new $wrong comer:hit 2>"$SCRATCH/wrong.err"
	same "--new $wrong" $? 2
	says wrong "--new is for processes that come later"
done
finish
