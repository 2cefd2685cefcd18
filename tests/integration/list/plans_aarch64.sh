#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Debian's programs for arm64 are listed, with each argument understood, and planned.
. tests/integration/lib.sh
[ "$(uname -m)" = aarch64 ] || skip "aarch64's own plans"
need jq readelf

lib=/usr/lib/aarch64-linux-gnu
for file in /usr/lib/postgresql/15/bin/postgres "$lib"/libruby-3.1.so.3.1 "$lib"/libstdc++.so.6 \
	/usr/bin/python3.11; do
	"$PROBECTL" list --json "$file" >"$SCRATCH/sites" || fail "$file cannot be listed"
	expected=$(readelf -n "$file" | sed -n 's/^ *Arguments: *//p' | sed 's/ *$//' | sort)
	[ -n "$expected" ] || fail "$file has no notes"
	[ "$(jq -r .args_spec "$SCRATCH/sites" | sort)" = "$expected" ] ||
		fail "$file: other arguments than its notes have"
done
"$PROBECTL" list -vv "$lib/libstdc++.so.6" >"$SCRATCH/vv" || fail "list -vv"
grep -q '__cxa_throw.* 1f 20 03 d5 .*8@x' "$SCRATCH/vv" || fail "the code and the arguments are not shown"

# A jump is as long as the nop, so each site can be patched; most jumps are behind the nop.
for file in /usr/lib/postgresql/15/bin/postgres "$lib"/libruby-3.1.so.3.1 "$lib"/libstdc++.so.6 \
	/usr/bin/python3.11; do
	"$PROBECTL" list -vv --json "$file" >"$SCRATCH/plans" || fail "list -vv of $file"
	others=$(jq -r 'select((.bytes | startswith("1f2003d5") | not) or
		(.plan != "behind" and (.plan != "nop" or .instead == null))) | .pc' "$SCRATCH/plans")
	[ -z "$others" ] || fail "$file: no plan, or no nop, at $others"
	behind=$(jq -r 'select(.plan == "behind") | .pc' "$SCRATCH/plans" | wc -l)
	[ "$((4 * behind))" -ge "$((3 * $(wc -l <"$SCRATCH/plans")))" ] ||
		fail "$file: only $behind sites have a jump behind the nop"
done
finish
