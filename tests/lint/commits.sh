#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The subjects of the last hundred commits: an area, a colon, and at most 72 characters.
. tests/lint/lib.sh
need git
[ -e .git ] || { echo "these sources are not a clone"; exit 77; }

git -c safe.directory='*' log -100 --no-merges --format='%h %s' >"$SCRATCH/commits"
awk '{
	hash = $1
	sub(/^[^ ]+ /, "")
	if (length($0) > 72 || !/^[A-Za-z0-9_.,\/ -]+: [^ ]/) {
		print "commit " hash ": " $0
		bad = 1
	}
}
END { exit bad }' "$SCRATCH/commits"
