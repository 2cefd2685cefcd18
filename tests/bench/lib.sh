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

# timed COMMAND…: its wall-clock and its processor time, in ms
timed()
{
	local TIMEFORMAT='%R %U %S'
	{ time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ printf "%.0f %.0f\n", $1 * 1000, ($2 + $3) * 1000 }'
}

# us MICROSECONDS: as milliseconds
ms()
{
	awk -v v="$1" 'BEGIN { if (v < 0) print "-"; else printf "%.2f\n", v / 1000 }'
}

# ---- Beside the best other tool --------------------------------------------------------

# judge KIND OURS OTHERS: the ratio ours/others, and how we stand: ahead, within 15 % or behind.
# KIND says what is better: less, more, or limit: less, but nobody can do better than that.
judge()
{
	awk -v kind="$1" -v ours="$2" -v others="$3" 'BEGIN {
		if (ours <= 0 || others <= 0) { print "-\tbelow what can be measured"; exit }
		behind = kind == "more" ? others / ours : ours / others
		printf "%.2f\t%s\n", ours / others,
			behind < 1 ? "ahead" : behind <= 1.15 ? "within 15 %" : "behind"
	}'
}

# versus NAME KIND OURS OTHERS: a row; figures that are missing are -
short_of=()
versus()
{
	local ratio how
	if [ "$3" = - ] || [ "$4" = - ]; then
		row "$1" "$3" "$4" "-" "not measured"
		short_of+=("$1")
		return
	fi
	IFS=$'\t' read -r ratio how < <(judge "$2" "$3" "$4")
	row "$1" "$3" "$4" "$ratio" "$how"
	[ "$how" = ahead ] || { [ "$2" = limit ] && [ "$how" = "within 15 %" ]; } || short_of+=("$1")
}

# conclude: are all rows ahead, and within 15 % of limits?
conclude()
{
	local name
	if [ ${#short_of[@]} = 0 ]; then
		echo "  ahead in every row, and within 15 % of what is compiled in"
		return
	fi
	echo "  not ahead, or not within 15 % of what is compiled in:"
	for name in "${short_of[@]}"; do
		echo "    $name"
	done
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
