#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Divides the list of all tests into parts, as it takes hours in an emulator, and remembers which
# parts have been run.
# usage: tests/aarch64/parts.sh tests PART
#        tests/aarch64/parts.sh run PART FILE COMMAND...
#
# PART is N/M: the Nth of M parts. `tests` prints its tests. `run` runs COMMAND, which runs these
# tests, notes its last line in FILE with the commit of the sources, and prints what FILE says of all
# parts.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage()
{
	echo "parts.sh: PART is N/M, such as 3/10: the third of ten parts" >&2
	exit 2
}

mode=${1:?usage: tests/aarch64/parts.sh tests|run PART ...}
part=${2-}
[[ $part =~ ^([0-9]{1,3})/([0-9]{1,3})$ ]] || usage
number=$((10#${BASH_REMATCH[1]}))
parts=$((10#${BASH_REMATCH[2]}))
((1 <= number && number <= parts)) || usage
part=$number/$parts

# all_tests: what tests/run.sh finds of the kinds unit, golden and integration
all_tests()
{
	find tests/unit tests/golden -maxdepth 2 -name 'test_*.c'
	find tests/golden tests/integration -maxdepth 2 -name '*.sh' ! -name 'lib*.sh'
}

# The tests of a folder stand beside each other, and take about as long: each goes to the next part.
tests_of_part()
{
	all_tests | LC_ALL=C sort | awk -v n="$number" -v m="$parts" 'NR % m == n % m'
}

# commit: that of the sources, with -dirty if they were changed since
commit()
{
	git describe --always --dirty --exclude '*' 2>/dev/null || echo unknown
}

# say FILE COMMIT: what is known of all parts, each a line PART COMMIT RESULT...
say()
{
	printf '\nparts, at %s:\n' "$2"
	sort -t / -k 2,2n -k 1,1n "$1" | awk -v at="$2" -v parts="$parts" '{
		line = $0
		sub(/^[^ ]+ [^ ]+ /, "", line)
		printf "  %-7s %s%s\n", $1, line, $2 == at ? "" : " (at " $2 ", another commit)"
		split($1, of, "/")
		if (of[2] == parts && $2 == at && / [1-9][0-9]* passed, 0 failed,/) passed++
	} END { printf "%d of %d parts have passed at %s\n", passed, parts, at }'
}

case $mode in
tests) tests_of_part ;;
run)
	file=$3
	shift 3
	commit=$(commit)
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	status=0
	"$@" | tee "$log" || status=$?
	result=$(grep -E '^[0-9]+ passed, [0-9]+ failed,' "$log" | tail -n 1) ||
		result="did not come to its end"
	touch "$file"
	{
		awk -v part="$part" '$1 != part' "$file"
		echo "$part $commit $result, in $((SECONDS / 60)) min"
	} >"$file.new"
	mv "$file.new" "$file"
	say "$file" "$commit"
	exit "$status"
	;;
*) usage ;;
esac
