#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Files and headings that the documents link to exist, the files that documents and comments name,
# and the tests that the short list of `make check-aarch64` names.
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

# Files are named from the root of the sources, or from libprobe.
while IFS=: read -r file line name; do
	name=${name#?}
	[ -e "$name" ] || [ -e "libprobe/$name" ] || {
		echo "$file:$line: no $name"
		rc=1
	}
done < <({
	sources '*.md' | grep -v CHANGELOG | xargs -r grep -noE \
		'`(cli|elf|arch|tests|'"$(cd libprobe && echo ./*/ | sed 's,\./,,g; s,include/ ,,; s,/ \?,|,g')"'libprobe)/[a-z0-9_/]+\.(c|h|sh|S|html)\b' /dev/null
	sources '*.c' '*.h' '*.py' | xargs -r grep -noE '[ (](cli|libprobe)/[a-z0-9_/]+\.[ch]\b' /dev/null
})
make -n AARCH64_SHORT=1 clean >/dev/null || rc=1
exit $rc
