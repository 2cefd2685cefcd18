# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Shared by the parts of `make bench`; sourced after tests/integration/lib.sh. A part prints
# rows of the table, and says why if it cannot measure.

bench=$PWD/tests/bench
tools=$BUILD/bench
quick=${BENCH_QUICK:-0}

# heading TEXT COLUMN…
heading()
{
	local text=$1
	shift
	printf "\n%-58s" "$text"
	printf '%12s' "$@"
	printf '\n'
}

# row NAME FIGURE…
row()
{
	local name=$1
	shift
	printf '  %-56s' "$name"
	printf '%12s' "$@"
	printf '\n'
}

# missing NAME REASON
missing()
{
	printf '  %-56s    not measured: %s\n' "$1" "$2"
}

# above FIGURE BASE: the difference, or - if there is none
above()
{
	awk -v a="$1" -v b="$2" 'BEGIN { if (a == "" || a == "-") print "-"; else printf "%.1f\n", a - b }'
}

# median: of the numbers on standard input
median()
{
	sort -g | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "-" }'
}

# us MICROSECONDS: as milliseconds
ms()
{
	awk -v v="$1" 'BEGIN { if (v < 0) print "-"; else printf "%.2f\n", v / 1000 }'
}

is_root()
{
	[ "$(id -u)" = 0 ]
}

# Where uprobe events are created, if this machine allows it to this user.
tracing=
for folder in /sys/kernel/tracing /sys/kernel/debug/tracing; do
	[ -w "$folder/uprobe_events" ] && tracing=$folder && break
done
why_no_uprobes="uprobe events need root and a mounted tracefs"
