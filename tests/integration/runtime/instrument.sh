#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The example of docs/instrumenting.md: each of its loops hits its probe as often as it says,
# including the one that checks a semaphore first.
. tests/integration/lib.sh
need cc jq

cc -O2 -Wall -Wextra -Werror -o "$SCRATCH/cost" docs/examples/instrument/cost.c || die "it does not build"
"$SCRATCH/cost" >"$SCRATCH/off" || fail "cost: status $?"
"$PROBECTL" trace -q -c --json -o "$SCRATCH/counts" 'cost:*' -- "$SCRATCH/cost" >"$SCRATCH/on" ||
	fail "counted: status $?"
same "what is measured" "$(sed 's/ [ 0-9.]* ns$//' "$SCRATCH/off")" "$(sed 's/ [ 0-9.]* ns$//' "$SCRATCH/on")"
same "lines" "$(wc -l <"$SCRATCH/on")" 5
for name in plain values computed guarded; do
	same "$name" "$(jq "select(.name == \"$name\").hits" "$SCRATCH/counts")" $((9 * 5000000))
done
finish
