#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `list` under valgrind: reads no uninitialised byte, and leaks none.
. tests/integration/lib.sh
need valgrind
if grep -q __asan_init "$PROBECTL" || grep -q __tsan_init "$PROBECTL"; then
	skip "a sanitizer is built in, which does the same"
fi

clean()
{
	local status
	valgrind -q --leak-check=full --error-exitcode=99 --log-file="$SCRATCH/valgrind" \
		"$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
	status=$?
	same "$*: status ($(cat "$SCRATCH/err"))" "$status" 0
	[ ! -s "$SCRATCH/valgrind" ] || fail "$*: $(head -20 "$SCRATCH/valgrind")"
	[ -s "$SCRATCH/out" ] || fail "$*: said nothing"
}

clean list "$TARGETS/args"
clean list --json "$TARGETS/many"
clean list -v "$TARGETS/loop" "$TARGETS/semaphores"
clean list -vv "$TARGETS/loop"
start "$TARGETS/loop" -b -a
clean list -v -p "$target_pid"
clean list --json -p "$target_pid"
clean status -a -p "$target_pid"
kill "$target_pid"
finish
