#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Names in the documents exist: files, functions, tests, make targets, options of probectl; and
# docs/architecture.md lists every file of libprobe.
. tests/lint/lib.sh
rc=0

# each PATTERN: its matches in the documents, as file:line:match
each()
{
	sources '*.md' | xargs -r grep -noE "$1" /dev/null
}

# missing FILE:LINE NAME
missing()
{
	echo "$1: there is no $2"
	rc=1
}

# Paths from the root; programs are built below build/, those of tests/targets in one folder.
# Capitals stand for any name.
while IFS=: read -r file line name; do
	[[ $name =~ [A-Z]{3} ]] || compgen -G "$name" >/dev/null || compgen -G "$name.*" >/dev/null ||
		compgen -G "${name/tests\/targets/tests/targets/*}.*" >/dev/null ||
		missing "$file:$line" "$name"
done < <(each '\b(arch|cli|docs|elf|libprobe|tests)/[a-zA-Z0-9_.*/-]*[a-zA-Z0-9_*/]')

# Names in backquotes: NAME(), tests and fuzzers.
sources '*.c' '*.h' '*.sh' '*.S' | xargs cat | grep -oE '\w+' | sort -u >"$SCRATCH/words"
while IFS=: read -r file line name; do
	name=${name//[\`()]/}
	# Names of the standard need not be ours.
	[[ $name == posix_* ]] || grep -qxF "$name" "$SCRATCH/words" ||
		compgen -G "tests/*/$name.c" >/dev/null || compgen -G "tests/*/*/$name.c" >/dev/null ||
		missing "$file:$line" "$name"
done < <(each '`([a-z]\w*\(\)|(test|fuzz)_\w+)`')

while IFS=: read -r file line name; do
	name=${name#\`make }
	grep -qE "^(\.PHONY:.* )?$name( |:|$)" Makefile docs/packaging/*.mk \
		tests/aarch64/*.mk || missing "$file:$line" "goal $name of make"
done < <(each '`make [a-z0-9-]+')

# Options in the commands shown, up to `--`, a pipe or a backquote.
while IFS= read -r line; do
	command=${line#probectl } command=${command%% *}
	[ -x "$BUILD/probectl" ] && help=$("$BUILD/probectl" help "$command" 2>/dev/null) || continue
	for word in ${line%% -- *}; do
		[[ $word =~ ^(--[a-z-]+) ]] && ! grep -qE -- " ${BASH_REMATCH[1]}( |\[|\$)" <<<"$help" &&
			missing "probectl $command" "${BASH_REMATCH[1]}: $line"
	done
done < <(set -f && sources '*.md' '*.[1-8]' | xargs cat | grep -oE 'probectl [a-z]+ [^`|]*' | sort -u)

# The tables of architecture.md that name files: below libprobe/ or its headers, or below the root.
while read -r file; do
	[ -e "libprobe/$file" ] || [ -e "libprobe/include/$file" ] || [ -e "$file" ] ||
		missing docs/architecture.md "$file"
done < <(sed -nE '/^\| (question|addition) \| files? \|/,/^$/p' docs/architecture.md |
	grep -oE '[a-z0-9_]+/[a-z0-9_/]+\.[ch]\b')
exit $rc
