#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Files that the documents link to are there.
. tests/lint/lib.sh
rc=0
while IFS=: read -r file line link; do
	target=${link#*](}
	target=${target%)}
	target=${target%%#*}
	case $target in
	'' | *://*) continue ;;
	esac
	[ -e "$(dirname "$file")/$target" ] || {
		echo "$file:$line: no $target"
		rc=1
	}
done < <(sources '*.md' | xargs -r grep -noE '\]\([^)]+\)' /dev/null)
exit $rc
