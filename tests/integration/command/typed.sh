#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What people type: programs by their names, processes by name, parent or thread, and mistakes,
# which are told once, whatever the number of processes.
. tests/integration/lib.sh
need_attach

# wrong STATUS MESSAGE ARGS…: fails so, and says it in one line
wrong()
{
	local status=$1 message=$2 got
	shift 2
	"$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/wrong.err" </dev/null
	got=$?
	same "status of $*" "$got" "$status"
	same "$*" "$(cat "$SCRATCH/wrong.err")" "probectl: $message"
}

# ---- Programs ---------------------------------------------------------------------

mkdir "$SCRATCH/bin"
cp "$TARGETS/hits" "$SCRATCH/bin/typed-hits"
cp "$TARGETS/whoami" "$SCRATCH/bin/typed-bare" 2>/dev/null
PATH=$SCRATCH/bin:$PATH
ctl list typed-hits
grep -q "^hits:work .*bin/typed-hits" "$SCRATCH/out" || fail "not found in PATH: $(cat "$SCRATCH/out")"
ctl list typed-hits work
grep -q "^hits:work " "$SCRATCH/out" || fail "no PROBE behind a program: $(cat "$SCRATCH/out")"
# A file here comes first; and -e always takes a PROBE.
wrong 1 "no probe matches 'typed-hits' in $TARGETS/hits, and none has a name like it (\`probectl list\` shows what there is)" \
	list "$TARGETS/hits" -e typed-hits

# ---- Processes --------------------------------------------------------------------

start "$python" -c '
import sys, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()'
pids=()
for _ in 1 2 3; do
	sleep 60 &
	pids+=($!)
	on_exit "end_process $!"
done
cp "$(command -v sleep)" "$SCRATCH/bin/typed-sleep"
"$SCRATCH/bin/typed-sleep" 60 &
named=$!
on_exit "end_process $named"
# It is a copy of this shell first.
while [ "$(<"/proc/$named/comm")" != typed-sleep ]; do
	pause
done
for command in "list" "status -a" "repair"; do
	# shellcheck disable=SC2086
	ctl $command --name typed-sleep
done
grep -q "process $named: nothing to repair" "$SCRATCH/out" || fail "--name: $(cat "$SCRATCH/out")"
ctl repair --children $$
grep -q "process $named: nothing" "$SCRATCH/out" || fail "--children: $(cat "$SCRATCH/out")"
for command in list status repair "enable x:y" "disable x:y"; do
	# shellcheck disable=SC2086
	wrong 1 "no process is called 'no-such-name'" $command --name no-such-name
done
wrong 2 "status: no process given; use -p PID, --tree PID, --exe FILE or --name NAME" status

# A mistyped probe of several processes is told with what is near, whichever way they are named.
cp "$TARGETS/hits" "$SCRATCH/bin/typed-near"
near=()
for n in 1 2; do
	"$SCRATCH/bin/typed-near" 2 < <(sleep 60) >"$SCRATCH/near.$n" &
	near+=($!)
	on_exit "end_process $!"
	until grep -q ready "$SCRATCH/near.$n"; do
		pause
	done
done
message="no probe matches 'hits:wrok' in process ${near[0]}; the nearest: hits:work; --follow waits \
for libraries that are opened later; the same for ${near[1]}"
for command in trace top; do
	wrong 1 "$message" $command --name typed-near hits:wrok
done
wrong 1 "$message" trace --name typed-near hits:work hits:wrok

# A thread's id is taken for its process.
for thread in /proc/"$target_pid"/task/*; do thread=${thread##*/}; done
[ "$thread" != "$target_pid" ] || fail "the target has one thread"
ctl repair -p "$thread,$target_pid"
same "a thread's id" "$(cat "$SCRATCH/out")" "process $target_pid: nothing to repair"

# ---- Mistakes ------------------------------------------------------------------------

list=$(IFS=,; echo "${pids[*]}")
nothing="no probe matches 'x:y': there are no probes in process ${pids[0]}"
for command in enable disable status; do
	wrong 1 "$nothing" $command -p "${pids[0]}" x:y
	wrong 1 "$nothing; the same for ${pids[1]}, ${pids[2]}" $command -p "$list" x:y
done
later="; --follow waits for libraries that are opened later"
wrong 1 "$nothing$later" trace -p "${pids[0]}" x:y
wrong 1 "$nothing$later; the same for ${pids[1]}, ${pids[2]}" trace -p "$list" x:y
wrong 1 "there is no process 99999998; the same for 99999999" enable -p 99999998,99999999 x:y

# The help and the message list the same plans, and each is known.
for help in --help "trace --help"; do
	# shellcheck disable=SC2086
	"$PROBECTL" $help | grep -q "function.* fn:FILE:NAME" || fail "$help does not mention functions"
done
plans=$("$PROBECTL" enable --help | sed -n 's/.*--plan LIST .*(default: \(.*\))$/\1/p')
wrong 2 "--plan: unknown plan '?'; the plans are ${plans//,/, }" enable -p $$ --plan "$plans,?" x:y
wrong 2 "'${pids[1]}' is no PROBE; several process ids are one value, as in -p ${pids[0]},${pids[1]}" \
	trace -p "${pids[0]}" "${pids[1]}"
wrong 2 "no PROBE given: -k took 'query__start' as a key, as in -k EXPR PROBE" trace -c -k query__start -- /bin/true
wrong 2 "there is no command 'query-start' ('probectl --help' lists the commands)" query-start /bin/true
wrong 1 "no probe matches 'memory_sbrk_more' in $TARGETS/pairs, and none has a name like it (\`probectl list\` shows what there is)" \
	list "$TARGETS/pairs" memory_sbrk_more
check_alive "$target_pid"

# ---- Several operands for a probe ---------------------------------------------------------

# trace_args ARGS…: how the first request__start of a program is traced
trace_args()
{
	"$PROBECTL" trace --json "$@" -- "$TARGETS/pairs" 1 5 2>"$SCRATCH/trace.err" |
		grep request__start | jq -c .args | head -1
}
same "the more exact operand" "$(trace_args 'pairs:*' 'pairs:request__start(arg1,str(arg3))' | jq -c 'map(type)')" \
	'["number","string"]'
same "in the other order" "$(trace_args 'pairs:request__start(arg1,str(arg3))' 'pairs:*' | jq -c 'map(type)')" \
	'["number","string"]'
same "a list of arguments" "$(trace_args pairs:request__start 'pairs:request__start(arg1)' | jq length)" 1

# ---- Hits of what is gathered ---------------------------------------------------------------

# hits NAME: the hits that status says a probe has
hits()
{
	"$PROBECTL" status --json -p "$target_pid" "pairs:$1" | jq .hits
}
end_process "$target_pid"
start "$TARGETS/pairs" 1 20
ctl enable -p "$target_pid" -t count -k arg0 pairs:step__start
ctl enable -p "$target_pid" -t hist,arg0 pairs:step__done
ctl enable -p "$target_pid" -t latency pairs:request__start pairs:request__done
ask go
same "with a key" "$(hits step__start)" "$(jq .steps <<<"$answer")"
same "with buckets" "$(hits step__done)" "$(jq .steps <<<"$answer")"
same "of a pair" "$(hits request__start) $(hits request__done)" "null null"
"$PROBECTL" status -p "$target_pid" pairs:request__done | grep -q ' - *  /' || fail "a pair's hits are shown"
"$PROBECTL" read --json -t latency -p "$target_pid" | jq -e '.sum == (.sum | floor) and .avg == (.avg | floor)' \
	>"$SCRATCH/whole" || fail "nanoseconds with a fraction"
ctl disable --force -p "$target_pid" 'pairs:*'
same "of what is off" "$(hits step__start)" 0
trace_start others -p "$target_pid" pairs:step__start
wait_tracing others
same "of a trace" "$(hits step__start)" null
trace_stop others
tell quit
end_target

# ---- Switched off as it was switched on ---------------------------------------------------------

start "$TARGETS/adjacent"
save_state "$target_pid"
ctl enable --plan behind -p "$target_pid" 'adjacent:*'
"$PROBECTL" disable -p "$target_pid" 'adjacent:*' >"$SCRATCH/out" 2>"$SCRATCH/off.err" &&
	fail "disable does not say what is off"
ctl disable --plan behind -p "$target_pid" 'adjacent:*'
same_state "$target_pid"
one=$("$PROBECTL" list --json -p "$target_pid" 'adjacent:*' | jq -r .name | head -1)
trace_start other -c -p "$target_pid" "adjacent:$one"
wait_tracing other
ctl disable --force -p "$target_pid" "adjacent:$one"
grep -q "process $target_pid: adjacent:$one stays on: process $tracer_pid traces it" "$SCRATCH/err" ||
	fail "disable --force does not say that it is on: $(cat "$SCRATCH/err")"
trace_stop other
ctl disable --force -p "$target_pid" "adjacent:$one"
same "disable --force of what is off" "$(cat "$SCRATCH/err")" ""
same_state "$target_pid"
finish
