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
		"$PROBECTL" trace -c --follow -d 0.1 -p "$target_pid" late:whole >"$SCRATCH/out" 2>"$SCRATCH/err"
		status=$?
		same "pause $pause, follow: status: $(tail -2 "$SCRATCH/err")" "$status" 0
		grep -q '^late:whole *[0-9]*$' "$SCRATCH/out" || [ ! -s "$SCRATCH/out" ] ||
			fail "pause $pause, follow: $(cat "$SCRATCH/out")"
		"$PROBECTL" trace -c -d 0.05 -p "$target_pid" late:whole >"$SCRATCH/out" 2>>"$SCRATCH/err"
	done
	! grep -E 'there is no memory|proc_mem|No such process' "$SCRATCH/err" ||
		fail "pause $pause: misleading"
	check_alive "$target_pid"
	ctl repair -p "$target_pid"
	end_target
done
finish
