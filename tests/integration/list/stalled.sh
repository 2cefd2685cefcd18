#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
# A target maps a file from a file system that no longer answers: commands about the target
# report it and go on, and nothing waits for that file system.
. tests/integration/lib.sh

mkdir "$SCRATCH/mounted"
coproc TARGET { exec "$TARGETS/stalled" "$SCRATCH/mounted" "$TARGETS/args" 2>"$SCRATCH/target.err"; }
target_pid=$TARGET_PID
on_exit "umount -lf '$SCRATCH/mounted' 2>/dev/null"
on_exit "end_process $target_pid"
exec {target_out}<&"${TARGET[0]}" {target_in}>&"${TARGET[1]}"
IFS= read -r -t 60 -u "$target_out" answer || {
	wait "$target_pid"
	[ $? != 77 ] || skip "there is no FUSE here"
	die "the file system cannot be mounted: $(cat "$SCRATCH/target.err")"
}

# answers STATUS COMMAND...: in time, even for readers that wait for the end of its output
answers()
{
	local status=$1 got
	shift
	timeout -s KILL 60 "$PROBECTL" "$@" 2>"$SCRATCH/err" </dev/null | cat >"$SCRATCH/out"
	got=${PIPESTATUS[0]}
	[ "$got" = "$status" ] || fail "$*: status $got: $(cat "$SCRATCH/err")"
}

answers 0 list -p "$target_pid"
grep -q 'its file system does not answer' "$SCRATCH/err" || fail "list -p: $(cat "$SCRATCH/err")"
answers 0 list -vv -p "$target_pid"
answers 0 status -p "$target_pid"
answers 1 trace -d 1ms -p "$target_pid" 'args:*'
grep -q 'its file system does not answer' "$SCRATCH/err" || fail "trace: $(cat "$SCRATCH/err")"
answers 1 enable -p "$target_pid" 'args:*'
grep -q 'its file system does not answer' "$SCRATCH/err" || fail "enable: $(cat "$SCRATCH/err")"
answers 0 repair -p "$target_pid"
check_alive "$target_pid"
end_target
finish
