#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How the sites of installed programs can be patched, by plan, as `list -vv` finds it: a table in
# Markdown, which docs/patching.md holds.
# usage: tests/bench/sites.sh [FILE…]   default: what is installed of the programs below
set -u
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/../.." || exit 1
PROBECTL=${PROBECTL:-${BUILD:-build}/probectl}
plans=(behind hop pun nop toggle before twin part refused)

command -v jq >/dev/null || {
	echo "jq is not installed" >&2
	exit 1
}
files=("$@")
[ $# -gt 0 ] || files=(/usr/lib/postgresql/*/bin/* /usr/lib/jvm/*/lib/server/libjvm.so
	/usr/lib/x86_64-linux-gnu/{libruby-*.so.*.*.*,libstdc++.so.6,libc.so.6,libm.so.6}
	/usr/lib/x86_64-linux-gnu/{libglib-2.0.so.0,libgobject-2.0.so.0,libvirt.so.0,libmirserver.so.*}
	/usr/lib/x86_64-linux-gnu/{libguestfs.so.0,libvirt/connection-driver/*,sssd/libsss_*.so}
	/usr/lib64/ld-linux-x86-64.so.2 /usr/bin/{php*.*,python3.*,stap,gdb,node} /usr/sbin/libvirtd
	/usr/libexec/sssd/sssd_be)

# row NAME: the plans on standard input, one a line, as a row of the table
row()
{
	awk -v name="$1" -v plans="${plans[*]}" '
		{ count[$1]++ }
		END {
			printf "| %s | %d |", name, NR
			for (i = 1; i <= split(plans, plan, " "); i++)
				printf " %d |", count[plan[i]]
			print ""
		}'
}

header="| file | sites |" line="|---|---|"
for plan in "${plans[@]}"; do
	header+=" \`$plan\` |"
	line+="---|"
done
printf '%s\n%s\n' "$header" "$line"
all=
declare -A done_files
for file in "${files[@]}"; do
	file=$(realpath -e -- "$file" 2>/dev/null) || continue
	[ -z "${done_files[$file]-}" ] || continue
	done_files[$file]=1
	found=$("$PROBECTL" list -vv --json "$file" 2>/dev/null | jq -r '.plan // empty') || continue
	[ -n "$found" ] || continue
	case $file in
	/usr/lib/jvm/*) name=$(cut -d/ -f5 <<<"$file")/libjvm.so ;;
	*) name=${file##*/} ;;
	esac
	row "$name" <<<"$found"
	all+=$found$'\n'
done
[ -n "$all" ] || {
	echo "none of the files has a site" >&2
	exit 1
}
row "all" < <(printf '%s' "$all")
