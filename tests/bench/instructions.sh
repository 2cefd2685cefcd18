#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How many instructions a hit takes. This machine's are counted, one by one; those of the other
# instruction set are what they were counted to be there, and are at most, as the test demands.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh

counter=$BUILD/tests/unit/stub/test_stub_instructions
heading "instructions of a hit" x86-64 aarch64 ratio
if [ ! -x "$counter" ]; then
	missing "instructions" "$counter is not built"
	exit 0
fi
"$counter" >"$SCRATCH/rows" 2>&1 || tail -3 "$SCRATCH/rows" >&2
while read -r _ x86 aarch64 name; do
	row "$name" "${x86/#0/-}" "$aarch64" \
		"$(awk -v a="$aarch64" -v x="$x86" 'BEGIN { if (x) printf "%.2f\n", a / x; else print "-" }')"
done < <(grep '^row ' "$SCRATCH/rows")
