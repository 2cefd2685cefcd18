#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What is read from a record is what a trace shows: arguments of all kinds, strings that are cut or
# cannot be read, threads and forked children. Names are right, if they are known.
. tests/integration/lib.sh
need python3 setarch
need_attach

# hits FILE SORTED COMM: names, arguments, and how many processes there are, all of which are called so
hits()
{
	python3 -c '
import json, sys
hits = [json.loads(line) for line in open(sys.argv[1])]
hits = [hit for hit in hits if "args" in hit]
rows = [json.dumps([hit["name"], hit["args"]]) for hit in hits]
# One executes /proc/self/exe.
assert {hit.get("comm", "exe") for hit in hits} <= {sys.argv[3], "exe"}
print("\n".join(sorted(rows) if sys.argv[2] else rows))
print(len({hit["pid"] for hit in hits}), "processes,", len({hit["tid"] for hit in hits}), "threads")
' "$1" "$2" "$3"
}

# both NAME SORTED TARGET OPTION…: traced and recorded, with the same addresses
both()
{
	local name=$1 sorted=$2 target=$3
	shift 3
	setarch -R "$PROBECTL" trace -q --json -o "$SCRATCH/$name.traced" "$@" -- "$TARGETS/$target" \
		>/dev/null || fail "$name: not traced"
	setarch -R "$PROBECTL" record -q -o "$SCRATCH/$name" "$@" -- "$TARGETS/$target" >/dev/null ||
		fail "$name: not recorded"
	# What it is about: hits that nobody has handed over one by one.
	grep -q 'stream_id = 1;' "$SCRATCH/$name/metadata" || fail "$name: not the bytes of rings"
	"$PROBECTL" export --format json "$SCRATCH/$name" >"$SCRATCH/$name.read" || fail "$name: not read"
	hits "$SCRATCH/$name.traced" "$sorted" "$target" >"$SCRATCH/$name.1"
	hits "$SCRATCH/$name.read" "$sorted" "$target" >"$SCRATCH/$name.2"
	[ "$(wc -l <"$SCRATCH/$name.1")" -gt 10 ] || fail "$name: hardly any hits"
	cmp -s "$SCRATCH/$name.1" "$SCRATCH/$name.2" ||
		fail "$name: $(diff "$SCRATCH/$name.1" "$SCRATCH/$name.2" | head -6)"
}

both args '' args 'args:*'
both texts '' args -s 8 'args:*'
both unreadable '' badstring 'badstring:*'
both bad_texts '' badstring -s 8 'badstring:*'
both asked '' badstring 'badstring:text(arg0,str(arg1),arg1)'
both values sorted values -s 3 'values:*'
both children sorted fork --follow 'fork:*'
finish
