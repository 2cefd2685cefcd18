#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Another controller is changing the process, or has been stopped meanwhile: a command waits for it,
# names it if that takes long, and gives up only after many seconds, with nothing changed. The
# command does not delay its other processes.
. tests/integration/lib.sh
need_attach

start "$TARGETS/semaphores"
pid=$target_pid
save_state "$pid"
hold_lock "$pid"
holder="process $holder_pid ($(<"/proc/$holder_pid/comm"))"

# wait_for FILE: until the command says that it waits
wait_for()
{
	until grep -q waiting "$1"; do
		pause
	done
	same "what it says" "$(cat "$1")" \
		"probectl: warning: process $pid: $holder has locked its probes: waiting for it"
}

"$PROBECTL" trace -c -p "$pid" demo:event >"$SCRATCH/out" 2>"$SCRATCH/impatient.err" &
impatient=$!
on_exit "end_process $impatient"
wait_for "$SCRATCH/impatient.err"
# Who waits can be interrupted.
trace_start interrupted -c -p "$pid" demo:event
wait_for "$SCRATCH/interrupted.err"
kill -INT "$tracer_pid"
while kill -0 "$tracer_pid" 2>/dev/null; do
	pause
done

# These are still waiting when the first one gives up, and the lock is removed then: give a busy
# machine time for that.
sleep 8
# Of several processes, only the locked one is delayed.
"$TARGETS/semaphores" < <(sleep 300) >/dev/null &
second=$!
on_exit "end_process $second"
until "$PROBECTL" list -p "$second" demo:event >/dev/null 2>&1; do
	pause
done
"$PROBECTL" enable -q -p "$pid,$second" demo:event 2>"$SCRATCH/two.err" &
two=$!
on_exit "end_process $two"
wait_on "$second" demo:event
kill -0 "$two" || fail "the second process is on, but nobody waits for the first: $(cat "$SCRATCH/two.err")"
"$PROBECTL" status -p "$pid" demo:event >"$SCRATCH/out" 2>&1
grep -q '1/1' "$SCRATCH/out" && fail "the locked process is changed"

"$PROBECTL" enable -q -p "$pid" demo:event 2>"$SCRATCH/patient.err" &
patient=$!
on_exit "end_process $patient"
wait "$impatient"
same "after 20 seconds" "$?" 1
same "what it says then" "$(tail -1 "$SCRATCH/impatient.err")" \
	"probectl: $holder has locked the probes of process $pid: try again when it has ended"
wait_for "$SCRATCH/patient.err"
same_state "$pid"

# The other one ends.
kill -0 "$patient" || fail "it has not waited: $(cat "$SCRATCH/patient.err")"
end_process "$holder_pid"
wait "$patient" || fail "enable: $(cat "$SCRATCH/patient.err")"
wait "$two" || fail "enable of two: $(cat "$SCRATCH/two.err")"
"$PROBECTL" disable -q -p "$pid,$second" demo:event || fail "disable of two"
"$PROBECTL" disable -q -p "$pid" demo:event 2>"$SCRATCH/err" || fail "disable: $(cat "$SCRATCH/err")"
same "without another one" "$(cat "$SCRATCH/err")" ""

same_state "$pid"
check_alive "$pid"
end_process "$pid"
finish
