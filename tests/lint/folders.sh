#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No folder has so many files that nobody finds one: at most 30, except the seeds of fuzzers.
. tests/lint/lib.sh

find . \( -name .git -o -path ./build -o -path ./tests/fuzz/corpus \) -prune -o -type f \
	-printf '%h\n' | sort | uniq -c |
	awk '$1 > 30 { print substr($2, 3) ": " $1 " files"; bad = 1 } END { exit bad }'
