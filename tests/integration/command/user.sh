#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# An ordinary user's rights: full access to their own processes, none to others, and errors name
# the reason.
. tests/integration/lib.sh
need_attach
[ "$(id -u)" != 0 ] || skip "needs an ordinary user"

# The user's own process.
start "$TARGETS/loop" -s nop -n 1000 -b -a
save_state "$target_pid"
trace_start own --count --json -p "$target_pid" loop:nop
wait_on "$target_pid" loop:nop
ask go
trace_stop own
grep -q '"hits":1000' "$SCRATCH/own.out" || fail "own process: $(cat "$SCRATCH/own.out")"
hear
same_state "$target_pid"
tell bye
end_target

# Another user's: process 1 is root's.
if [ "$(stat -c %u /proc/1)" = "$(id -u)" ]; then
	echo "process 1 is ours: the refusal is not tested"
else
	for command in enable disable trace; do
		"$PROBECTL" $command -p 1 'a:b' >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
		same "$command of another user's process" "$?" 1
		[ "$(wc -l <"$SCRATCH/err")" = 1 ] || fail "$command: not one line: $(cat "$SCRATCH/err")"
		grep -Eq "^probectl: .*(uid|user|capabilit|ptrace_scope|CAP_)" "$SCRATCH/err" ||
			fail "$command does not name the cause: $(cat "$SCRATCH/err")"
	done
fi

# A process that already has a tracer.
if command -v gdb >/dev/null; then
	start "$TARGETS/gap"
	gdb -q -nx -batch -iex 'set debuginfod enabled off' -ex continue -p "$target_pid" \
		>"$SCRATCH/gdb.out" 2>&1 </dev/null &
	gdb_pid=$!
	on_exit "end_process $gdb_pid"
	while [ "$(sed -n 's/^TracerPid:[[:space:]]*//p' "/proc/$target_pid/status")" = 0 ]; do
		pause
	done
	"$PROBECTL" enable -p "$target_pid" gap:hit >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "enable under gdb" "$?" 1
	grep -q "$gdb_pid" "$SCRATCH/err" || fail "the tracer is not named: $(cat "$SCRATCH/err")"
	kill -KILL "$target_pid"
	wait "$gdb_pid" 2>/dev/null
fi
finish
