#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Man pages are clean mdoc, and there is one for each command of probectl and for each function
# of the library.
. tests/lint/lib.sh
need mandoc
pages=$(find docs/man -name '*.[1-8]' | sort)
[ -n "$pages" ] || {
	echo "docs/man holds no page yet"
	exit 77
}
python3 docs/man/headers.py "$SCRATCH/man3" libprobe/include/probe/*.h
pages="$pages $(find "$SCRATCH/man3" -type f | sort)"
rc=0
# shellcheck disable=SC2086 # a list of paths
mandoc -Tlint -W warning $pages || rc=1
for page in $pages; do
	grep -q '^\.Dd ' "$page" || {
		echo "$page: not an mdoc page"
		rc=1
	}
	# roff interprets such a backslash: the line would be joined with the next.
	sed -n '/^\.Bd/,/^\.Ed/p' "$page" | grep -n '\\$' && {
		echo "$page: a backslash at the end of a line of an example is written \\e"
		rc=1
	}
done
# libprobe(3) names the page of each header, and every page it names exists.
for header in libprobe/include/probe/*.h; do
	grep -q "^\.It .*Xr probe_${header##*/} 3" docs/man/libprobe.3 || {
		echo "docs/man/libprobe.3: probe_${header##*/} is missing"
		rc=1
	}
done
# shellcheck disable=SC2086
while IFS=: read -r page name; do
	name=${name#Xr } name=${name% *}.${name##* }
	[ -e "docs/man/$name" ] || [ -e "$SCRATCH/man3/$name" ] || {
		echo "$page: there is no page $name"
		rc=1
	}
done < <(grep -oE 'Xr (libprobe|probe)[a-z_.-]* [1-8]' $pages | sort -u)

# The options in lines like "-p, --pid PID", one per line, sorted.
options()
{
	grep -oE '(^|[[:space:],])--?[a-zA-Z][a-zA-Z-]*' | tr -d ' ,' | sort
}

# A page lists the same options as the command's help, each once.
if [ -x "$BUILD/probectl" ]; then
	for command in $("$BUILD/probectl" help | sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p'); do
		[ "$command" != help ] || continue
		page=docs/man/probectl-$command.1
		[ -e "$page" ] || {
			echo "$page is missing"
			rc=1
			continue
		}
		"$BUILD/probectl" help "$command" | sed -n '/^Options:/,$s/^ *\(-[^ ].*\)/\1/p' |
			sed 's/   *.*//' | options | uniq | grep -vx -e -h -e --help >"$SCRATCH/help"
		sed -n 's/^\.It \(Fl .*\)/\1/p' "$page" | sed 's/ Ar [^ ]*//g; s/ Fl / -/g; s/^Fl /-/' |
			options >"$SCRATCH/page"
		diff -u --label "probectl help $command" --label "$page" "$SCRATCH/help" "$SCRATCH/page" ||
			rc=1
	done
fi
exit $rc
