#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Chromium loads an export for Chrome: every slice of every thread is there with its name.
. tests/integration/lib.sh
need chromium chromedriver jq python3
need_attach

start "$TARGETS/pairs" 4 50
save_state "$target_pid"
record_start pairs 'pairs:*' -p "$target_pid"
wait_on "$target_pid" pairs:step__start
ask ''
record_stop pairs
same_state "$target_pid"
"$PROBECTL" export --format=chrome -o "$SCRATCH/trace" "$SCRATCH/pairs" || fail "no export"
jq -r '.traceEvents[] | select(.ph == "X" or .ph == "B") | "\(.pid) \(.tid) pairs"' "$SCRATCH/trace" |
	LC_ALL=C sort | uniq -c | awk '{ print $2, $3, $4, $1 }' >"$SCRATCH/slices"
[ "$(wc -l <"$SCRATCH/slices")" = 4 ] || fail "not four threads: $(cat "$SCRATCH/slices")"
"$python" tests/integration/record/export_loader.py "$SCRATCH/trace" \
	>"$SCRATCH/loaded" 2>"$SCRATCH/err" ||
	fail "Chromium: $(tail -2 "$SCRATCH/err")"
same "slices that Chromium loads" "$(cat "$SCRATCH/loaded")" "$(cat "$SCRATCH/slices")"
finish
