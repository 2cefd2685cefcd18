#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A folder includes, and its objects use, only folders below it in the list of docs/architecture.md
# ("Folders"). The
# commands include only the public headers and base; code linked into traced programs only the
# public headers and its machine code; and the public headers only each other. Within arch, an
# instruction set knows arch/stub and no other one; arch/stub knows none.
. tests/lint/lib.sh
set +e # grep finding nothing is the good case

# For each #include "..." or <...> of one of our files: FILE LINE PATH, from the root.
includes()
{
	sources '*.c' '*.h' '*.S' | grep -E '^(cli|libprobe|elf|arch)/' |
		xargs grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' /dev/null |
		sed -E 's/^([^:]*):([0-9]+):[^"<]*["<]([^">]*)[">].*/\1 \2 \3/' |
		while read -r file line name; do
			for dir in "${file%/*}" . libprobe/include; do
				[ -e "$dir/$name" ] || continue
				case $name in
				*..*) name=$(realpath --relative-to=. "$dir/$name") ;;
				*) name=$dir/$name ;;
				esac
				echo "$file $line ${name#./}"
				break
			done
		done
}

bad=0
# Shared by both checks. The list: the indented lines after the heading, from the highest layer to the
# lowest.
list='
function folder(path, parts)
{
	split(path, parts, "/")
	return parts[1] == "libprobe" ? parts[2] : parts[1]
}
FILENAME != "-" {
	if (/^## /)
		listed = $0 == "## Folders"
	else if (listed && /^    [a-z]/)
		for (i = 1; i <= NF && $0 ~ "^    ([a-z]+ )*" $i "( |$)"; i++)
			if (!($i in depth))
				depth[$i] = FNR
	next
}
'
includes | awk "$list"'
# The folder of an instruction set, or stub; empty for what all of arch includes.
function part(path, parts)
{
	return split(path, parts, "/") > 2 && parts[1] == "arch" ? parts[2] : ""
}
function complain(why)
{
	print $1 ":" $2 ": " $3 ": " why
	bad = 1
}
{
	from = folder($1)
	to = folder($3)
	if (part($1) && part($3) && part($1) != part($3) && part($3) != "stub")
		complain("instruction sets do not know each other, and arch/stub knows none")
	if (to == "include" || from == to)
		next
	if (from == "cli") {
		if (to != "base")
			complain("the commands use the public API, and base alone")
	}
	else if (from == "runtime" && $3 ~ "^arch/([a-z0-9_]+/)?runtime.h$")
		next
	else if (from == "include" || from == "runtime")
		complain("it includes nothing of libprobe")
	else if (!(from in depth) || !(to in depth))
		complain("docs/architecture.md does not say where " (from in depth ? to : from) " is")
	else if (depth[to] <= depth[from])
		complain(to " is not below " from)
}
END { exit bad }' docs/architecture.md - || bad=1

# What objects use of each other. A header may declare a function of another folder without including
# one of its headers.
find "$BUILD"/obj/{libprobe,elf,arch} -name '*.o' -exec nm -gA {} + | sed "s#^$BUILD/obj/##" | awk "$list"'
{
	split($1, object, ":")
	if (!(folder(object[1]) in depth))
		next
	if ($(NF - 1) == "U")
		used[object[1] " " $NF]
	else if ($(NF - 1) ~ /[TDBRVW]/)
		home[$NF] = object[1]
}
END {
	for (use in used) {
		split(use, part, " ")
		if (!(part[2] in home))
			continue
		from = folder(part[1])
		to = folder(home[part[2]])
		if (from != to && depth[to] <= depth[from]) {
			print part[1] ": uses " part[2] " of " home[part[2]] ", which is not below"
			bad = 1
		}
	}
	exit bad
}' docs/architecture.md - || bad=1
exit "$bad"
