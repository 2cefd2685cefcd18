#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every source names its licence; no trailing space, no line without an end; no notes about work
# left to do; no comment of the product that begins with "Of" or "What"; a space after each star that
# begins a line of a comment.
. tests/lint/lib.sh
need perl
rc=0

files=$(sources '*.c' '*.h' '*.S' '*.cc' '*.sh' '*.bash' '*.py' Makefile '*.mk' rules run deps '*.map')
for file in $files; do
	head -n 3 "$file" | grep -q 'SPDX-License-Identifier: MIT' || {
		echo "$file: no SPDX-License-Identifier in its first three lines"
		rc=1
	}
done

texts="$files $(sources '*.md' '*.[1-8]')"
# shellcheck disable=SC2086 # a list of paths
grep -nE '[[:space:]]+$' $texts && rc=1
for file in $texts; do
	[ -z "$(tail -c 1 "$file")" ] || {
		echo "$file: its last line has no end"
		rc=1
	}
done
# shellcheck disable=SC2086
grep -nE '\b(TODO|FIXME|XXX|HACK)\b' $texts | grep -v '^tests/lint/' && rc=1
sources '*.c' '*.h' | grep -E '^(cli|libprobe|elf|arch)/' | xargs perl -0 -ne '
	while (m{/\*[\s*]*((?:Of|What|Whoever)\b[^\n]*)}g) { print "$ARGV: $1\n"; $bad = 1 }
	END { exit $bad }' || rc=1
sources '*.c' '*.h' '*.S' '*.cc' | xargs perl -0 -ne '
	while (m{(/\*.*?\*/)}sg) {
		for (split /\n/, $1) {
			next unless m{^\s*\*[^\s*/]};
			print "$ARGV: $_\n";
			$bad = 1;
		}
	}
	END { exit $bad }' || rc=1
exit $rc
