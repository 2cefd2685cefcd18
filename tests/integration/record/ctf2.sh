#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Records in CTF 2: their metadata is what the specification says, their packets decode by it to the
# hits that we read ourselves; and these are those of a record in CTF 1.8.
. tests/integration/lib.sh
need_attach
need python3

# check NAME [HITS]: a record, or a part
check()
{
	local found
	"$PROBECTL" export --format=json "$SCRATCH/$1" >"$SCRATCH/hits.json" 2>"$SCRATCH/err" ||
		fail "export $1: $(cat "$SCRATCH/err")"
	found=$(python3 tests/integration/record/ctf2.py "$SCRATCH/$1" "$SCRATCH/hits.json" 2>&1) ||
		fail "$1: $found"
	[ -z "${2-}" ] || same "hits of $1" "$found" "$2"
}

# recorded NAME ARGS…: a record in CTF 2
recorded()
{
	local name=$1
	shift
	"$PROBECTL" record -q --ctf 2 -o "$SCRATCH/$name" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "$name: $(cat "$SCRATCH/err")"
}

recorded numbers 'loop:nop' -- "$TARGETS/loop" -s nop -n 20000 -t 4
check numbers 80000
recorded strings 'loop:string(arg0,str(arg2),arg1)' -- "$TARGETS/loop" -s string -n 5000
check strings 5000
printf '\n\n' | "$PROBECTL" record -q --ctf 2 --stack -o "$SCRATCH/stacks" stacks:call -- \
	"$TARGETS/stacks" 50 >/dev/null || fail "stacks"
check stacks 150
grep -q '"whole":\[\[0,0\]\]' "$SCRATCH/stacks/metadata" || fail "how stacks end has no names"

# Every kind of argument, and such as cannot be read.
recorded values 'values:*' -- "$TARGETS/values"
check values
recorded texts -s 64 'values:*' -- "$TARGETS/values"
check texts
recorded bad 'badstring:*(str(arg0))' -- "$TARGETS/badstring"
check bad

# Several processes; the newest hits only; parts.
recorded several --follow 'fork*:*' -- "$TARGETS/forked"
check several
recorded loop --full=loop -b 64k 'loop:nop' -- "$TARGETS/loop" -s nop -n 20000
check loop
recorded parts --rotate 64k 'loop:nop' -- "$TARGETS/loop" -s nop -n 20000 -r 5 -z 300
count=0
for part in "$SCRATCH"/parts/*; do
	check "parts/${part##*/}"
	count=$((count + 1))
done
[ "$count" -gt 1 ] || fail "there is one part"

# The same hits as in CTF 1.8, but for their times.
"$PROBECTL" record -q --ctf 1.8 -o "$SCRATCH/other" 'loop:nop' -- "$TARGETS/loop" -s nop -n 1000 \
	>/dev/null || fail "CTF 1.8"
recorded same 'loop:nop' -- "$TARGETS/loop" -s nop -n 1000
for name in other same; do
	"$PROBECTL" export --format=json "$SCRATCH/$name" |
		sed 's/"ts":[0-9]*,"pid":[0-9]*,"tid":[0-9]*,"cpu":[0-9]*//' >"$SCRATCH/$name.json"
done
cmp -s "$SCRATCH/other.json" "$SCRATCH/same.json" || fail "other hits than in CTF 1.8"
head -c 4 "$SCRATCH/other/metadata" | grep -q '/\* C' || fail "1.8 is not TSDL"

"$PROBECTL" record --ctf 3 -o "$SCRATCH/none" 'loop:nop' -- "$TARGETS/loop" 2>"$SCRATCH/err"
same "status of CTF 3" "$?" 2
same "the error" "$(head -1 "$SCRATCH/err")" "probectl: --ctf '3': use 1.8 or 2"
"$PROBECTL" record --ctf 3 'loop:nop' -- "$TARGETS/loop" 2>"$SCRATCH/err"
same "status of CTF 3 without a folder" "$?" 2
same "the error without a folder" "$(head -1 "$SCRATCH/err")" "probectl: --ctf '3': use 1.8 or 2"

# What is not understood is said, with the line.
sed -i '$s/"dynamic-length-string"/"optional"/' "$SCRATCH/strings/metadata"
"$PROBECTL" report "$SCRATCH/strings" >/dev/null 2>"$SCRATCH/err"
same "status of another class" "$?" 1
grep -q "metadata: line [0-9]*: 'optional' is no type that is understood (it was made by probectl" \
	"$SCRATCH/err" || fail "another class: $(cat "$SCRATCH/err")"

# Nor is another version blamed, where there is none.
truncate -s -150 "$SCRATCH/strings/metadata"
"$PROBECTL" report "$SCRATCH/strings" >/dev/null 2>"$SCRATCH/err"
same "status of metadata that is cut off" "$?" 1
grep -q 'as this is: it has been changed, or cut off)$' "$SCRATCH/err" ||
	fail "cut off: $(cat "$SCRATCH/err")"
finish
