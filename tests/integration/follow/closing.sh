#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A library that the target closes while its sites are being patched is gone, and no more: nobody
# blames another tool or the kernel, and what follows libraries goes on.
. tests/integration/lib.sh
need_attach

library=$TARGETS/liblate.so
[ -e "$library" ] || skip "$library is not built"

for pause in 100 1000; do
	start "$TARGETS/closing" "$library" "$pause"
	for ((i = 0; i < 12; i++)); do
		"$PROBECTL" trace -c --follow -d 200ms -p "$target_pid" late:whole >"$SCRATCH/out" 2>"$SCRATCH/err"
		status=$?
		same "pause $pause, follow: status: $(tail -2 "$SCRATCH/err")" "$status" 0
		grep -q '^late:whole *[0-9]*$\|^no hits$' "$SCRATCH/out" || [ ! -s "$SCRATCH/out" ] ||
			fail "pause $pause, follow: $(cat "$SCRATCH/out")"
		"$PROBECTL" trace -c -d 100ms -p "$target_pid" late:whole >"$SCRATCH/out" 2>>"$SCRATCH/err"
	done
	! grep -E 'there is no memory|proc_mem|No such process' "$SCRATCH/err" ||
		fail "pause $pause: misleading"
	check_alive "$target_pid"
	ctl repair -p "$target_pid"
	end_target
done

# A library that comes back keeps the counters of its probes: 20 times 512 are more than a session
# has.
crowd=$TARGETS/libcrowd.so
start "$TARGETS/closing" "$crowd" 0 asked
trace_start back -c --top 0 --follow -p "$target_pid" 'crowd:*'
wait_tracing back
pass 20
trace_stop back
same "hits of a library that comes back" "$(grep -c '^crowd:p[0-7]* *20$' "$SCRATCH/back.out")" 512
check_alive "$target_pid"
end_target

# While a debugger traces the program, a trace goes on, says what it misses, and catches up.
start "$TARGETS/closing" "$library" 0 asked
trace_start debugged -c --follow -p "$target_pid" late:whole
wait_tracing debugged
pass 3
mkfifo "$SCRATCH/end"
"$python" tests/integration/others/seize.py "$target_pid" <"$SCRATCH/end" >"$SCRATCH/seize.out" &
seize_pid=$!
on_exit "end_process $seize_pid"
exec {seize_in}>"$SCRATCH/end"
until grep -q seized "$SCRATCH/seize.out"; do
	pause
done
pass 2
exec {seize_in}>&-
wait "$seize_pid" || fail "the debugger failed"
until grep -q 'are seen again' "$SCRATCH/debugged.err"; do
	pause
done
pass 4
trace_stop debugged
grep -q 'not seen for now: process [0-9]* is being traced by process' "$SCRATCH/debugged.err" ||
	fail "nothing tells of the debugger: $(cat "$SCRATCH/debugged.err")"
same "hits before and after" "$(sed -n 's/^late:whole  *//p' "$SCRATCH/debugged.out")" 7
check_alive "$target_pid"
end_target
finish
