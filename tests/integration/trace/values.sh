#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Filters, keys and records of numbers behind pointers, some of which are bad
# (tests/targets/arguments/values.c); the program does not notice.
. tests/integration/lib.sh
need_attach
need jq

hits=1000

# traced OPTIONS…: of the program, while it hits each probe; rows and hits go to $SCRATCH/out
traced()
{
	start "$TARGETS/values" "$hits"
	save_state "$target_pid"
	trace_start traced --json "$@" -p "$target_pid"
	wait_tracing traced
	ask go
	same "the program's answer" "$answer" "done"
	sleep 0.2
	trace_stop traced
	mv "$SCRATCH/traced.out" "$SCRATCH/out"
	same_state "$target_pid"
	tell bye
	end_target
}

# rows FILTER: of the output, one to a line
rows()
{
	jq -r "$1" "$SCRATCH/out" | sort
}

# good: the numbers of the hits, without those that have a bad pointer or NaN
good()
{
	seq 0 $((hits - 1)) | grep -v '9$'
}

# ---- Numbers behind pointers ----------------------------------------------------------------------

traced 'values:node(arg0,*(s32 *)(arg1 + 4),*(u8 *)(*(u64 *)(arg1 + 8)),str(*(u64 *)(arg1 + 16)),*(u8 *)arg1)'
same "hits" "$(rows 'select(.args) | .args[0]' | wc -l)" "$hits"
same "found" "$(rows 'select(.args[1] != null and .args[1] == -.args[0] and .args[2] == .args[0] % 7 and
	.args[3] == (if .args[0] % 2 == 1 then "odd" else "even" end) and .args[4] == .args[0] % 256) | .args[0]' | sort -n | md5sum)" \
	"$(good | md5sum)"
same "bad" "$(rows 'select(.args and .args[1:] == [null, null, null, null]) | .args[0]' | wc -l)" $((hits / 10))

traced -c -f '*(s32 *)(arg1 + 4) <= -500' values:node
same "filtered" "$(rows '.hits')" "$(good | awk '$1 >= 500' | wc -l)"
# What cannot be read fails the filter, wherever it stands.
traced -c -f 'arg0 >= 0 || *(u8 *)*(u64 *)(arg1 + 8) == 3' values:node
same "rejected" "$(rows '.hits')" "$(good | wc -l)"

traced -c -k '*(u8 *)*(u64 *)(arg1 + 8)' -k 'str(*(u64 *)(arg1 + 16))' values:node
same "rows by tag and name" "$(rows 'select(.keys) | select(.keys[1] != null) | "\(.keys[0]) \(.keys[1]) \(.hits)"')" \
	"$(good | awk '{ n[$1 % 7 " " ($1 % 2 ? "odd" : "even")]++ } END { for (k in n) print k, n[k] }' | sort)"
same "lost" "$(rows 'select(.lost).lost')" $((hits / 10))

traced -t 'sum,*(s16 *)(arg1 + 2)' values:node
same "sum" "$(rows 'select(.sum).sum')" "-$(good | awk '{ s += $1 } END { print s }')"

# Elements of an array, and texts in the middle.
traced 'values:item(arg1,*(u32 *)(arg0 + arg1 * 16),str(arg0 + 4 + arg1 * 16),str(arg0 + 8 + arg1 * 16),*(u8 *)((arg0 + 4) + arg2),arg0)'
same "elements" "$(rows 'select(.args[5] != 0 and .args[1] == .args[0] and .args[2] == "text\(.args[0])" and
	.args[3] == "\(.args[0])" and .args[4] == 48) | .args[0]' | wc -l)" "$(good | wc -l)"
same "no array" "$(rows 'select(.args and .args[1:] == [null, null, null, null, 0]) | .args[0]' | wc -l)" $((hits / 10))
traced -c -k 'str(arg0 + arg1 * 16 + 4)' -f '*(u32 *)(arg0 + arg1 * 16) != 2 && starts_with(str(arg0 + 4), "text")' values:item
same "rows by element" "$(rows 'select(.keys) | "\(.keys[0]) \(.hits)"')" \
	"$(good | awk '$1 % 4 != 2 { n[$1 % 4]++ } END { for (k in n) print "text" k, n[k] }' | sort)"
traced -t 'sum,*(u32 *)(arg0 + arg1 * 16)' values:item
same "sum of elements" "$(rows 'select(.sum).sum')" "$(good | awk '{ s += $1 % 4 } END { print s }')"
traced -t span --pairs listed -f 'begin.str(arg0 + 4 + arg1 * 16) == "text3" && begin.*(u32 *)(arg0 + arg1 * 16) == 3' \
	values:item values:query
same "spans by a begin's element" "$(rows 'select(.begin) | .begin.args[1]' | sort | uniq -c | tr -s ' ')" \
	" $(good | awk '$1 % 4 == 3' | wc -l) 3"

# The end of a pair.
traced -t span --pairs listed -f 'end.*(s32 *)(arg1 + 4) < -990 && end.str(*(u64 *)(arg1 + 16)) == "odd"' \
	values:ratio values:node
same "spans" "$(rows 'select(.begin) | .args[0]' | paste -sd' ')" "991 993 995 997"

# ---- Lists -----------------------------------------------------------------------------------------

traced -c -f 'arg0 in (3, 14, 15, 999, 1000, -1) || *(s32 *)(arg1 + 4) in (-92, -65)' values:node
same "listed" "$(rows '.hits')" 5
traced -c -k arg0 -f 'str(*(u64 *)(arg1 + 16)) not in ("even", "none") && arg0 not in (1, 3) && arg0 < 10' values:node
same "not listed" "$(rows 'select(.keys) | .keys[0]' | paste -sd' ')" "5 7"

# ---- Floating-point numbers ----------------------------------------------------------------------

# ratios CONDITION: how many of them, (i - 500) / 4, fulfil it
ratios()
{
	good | awk "{ d = (\$1 - 500) / 4 } $1 { n++ } END { print n + 0 }"
}

traced -c -f 'arg0 > 1.5 && arg1 <= 100.25' values:ratio
same "between" "$(rows '.hits')" "$(ratios 'd > 1.5 && d <= 100.25')"
traced -c -f 'arg0 == arg1 && arg0 != 0' values:ratio
same "equal" "$(rows '.hits')" "$(ratios 'd != 0')"
# NaN is not equal to itself, and nothing else about it is true.
traced -c -f 'arg0 != arg0 && !(arg1 < 0 || arg1 >= 0)' values:ratio
same "NaN" "$(rows '.hits')" $((hits / 10))
traced -c -k arg1 -k 'arg0 < 0' -f 'arg0 >= -0.5 && arg0 < 0.75' values:ratio
same "rows" "$(rows 'select(.keys) | "\(.keys[0]) \(.keys[1])"' | sort -g | paste -sd,)" "-0.5 1,0 0,0.25 0,0.5 0"
traced -c -k arg0 values:ratio
same "the row of NaN" "$(rows 'select(.keys == [null]).hits')" $((hits / 10))

# ---- Normal forms -----------------------------------------------------------------------------------

# Of 1,000 different texts, with room for three keys: the target keeps normal forms.
traced -c --keys 3 -k 'norm(str(arg0))' values:query
same "rows by form" "$(rows 'select(.keys) | "\(.hits) \(.keys[0])"')" "333 /var/spool/N/job-N
333 UPDATE t2 SET x = x + ?
334 SELECT name FROM users WHERE id = ? AND note = ?"
same "lost" "$(rows 'select(.lost).lost')" ""

# Keys that find no room have a row together, which is the last one and shown in any case.
traced -c --keys 100 -k 'str(arg0)' values:query
same "counted" "$(jq -s 'map(.hits // 0) | add' "$SCRATCH/out")" "$hits"
same "lost" "$(rows 'select(.lost).lost')" ""
others=$(rows 'select(.other) | select(.keys == ["(other)"]).hits')
[ "${others:-0}" -gt 0 ] || fail "no hit of $hits was of another key, with room for 100 texts on a CPU"
grep -qxF "probectl: hits without a row of their key: $others, for not all keys fit into the table; --keys N makes it \
larger" "$SCRATCH/traced.err" || fail "what has no row: $(cat "$SCRATCH/traced.err")"
"$PROBECTL" trace -c --keys 100 --top 1 -k arg0 loop:nop -- "$TARGETS/loop" -s nop -n 10000 \
	</dev/null 2>/dev/null | grep loop:nop >"$SCRATCH/out"
same "rows with --top 1" "$(wc -l <"$SCRATCH/out")" 2
grep -q ' (other)$' "$SCRATCH/out" || fail "the row of others is not shown: $(cat "$SCRATCH/out")"
# Sums, too.
traced -t sum,arg0 --keys 10 -k arg0 values:node
same "the sum of all rows" "$(jq -s 'map(.sum // 0) | add' "$SCRATCH/out")" $((hits * (hits - 1) / 2))

finish
