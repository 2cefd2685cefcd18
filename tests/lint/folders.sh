#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No folder has so many files that nobody finds one: at most 30.
. tests/lint/lib.sh

find . \( -name .git -o -path ./build \) -prune -o -type f -printf '%h\n' | sort | uniq -c |
	awk '$1 > 30 { print substr($2, 3) ": " $1 " files"; bad = 1 } END { exit bad }'
