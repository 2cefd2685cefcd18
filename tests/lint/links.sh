#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Files and headings that the documents link to exist, and the tests that the short list of
# `make check-aarch64` names.
. tests/lint/lib.sh
rc=0

# headings FILE: the anchors of its headings, one per line
headings()
{
	sed -n 's/^#\{1,\} //p' "$1" | tr '[:upper:] ' '[:lower:]-' | tr -cd 'a-z0-9_\n-'
}

while IFS=: read -r file line link; do
	link=${link#*](}
	link=${link%)}
	target=${link%%#*}
	case $link in
	*://*) continue ;;
	'#'*) target=$file ;;
	*) target=$(dirname "$file")/$target ;;
	esac
	[ -e "$target" ] || {
		echo "$file:$line: no $target"
		rc=1
		continue
	}
	case $link in
	*.md'#'* | '#'*)
		headings "$target" | grep -qxF -- "${link#*#}" || {
			echo "$file:$line: no heading ${link#*#} in $target"
			rc=1
		}
		;;
	esac
done < <(sources '*.md' | xargs -r grep -noE '\]\([^)]+\)' /dev/null)
make -n AARCH64_SHORT=1 clean >/dev/null || rc=1
exit $rc
