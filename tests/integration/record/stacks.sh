#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A record with call stacks: once the process is gone, its stacks have their names; in JSON, in
# folded lines and flame graphs, below the longest pairs, and for other readers of the format;
# in parts, of several processes, and of a recorder that is killed.
. tests/integration/lib.sh
need_attach
need jq
rounds=50

# recorded NAME TARGET ARGS…: a record of a whole run of a target that waits twice
recorded()
{
	local name=$1 target=$2
	shift 2
	printf '\n\n' | "$PROBECTL" record -o "$SCRATCH/$name" "$@" -- "$TARGETS/$target" "$rounds" \
		>"$SCRATCH/$name.stdout" 2>"$SCRATCH/$name.err" ||
		fail "$name: status $?: $(head -3 "$SCRATCH/$name.err")"
}

# stacks_of FILE: how many hits of stacks:call have which stack, up to main
stacks_of()
{
	jq -r 'select(.name == "call") | .stack + " " +
		([.frames[].symbol] | .[:(index("main") // 999) + 1] | join(","))' "$1" |
		sort | uniq -c | sed 's/^ *//'
}

# exported NAME ARGS…: a record as JSON in $SCRATCH/NAME.json
exported()
{
	"$PROBECTL" export -F json "$SCRATCH/$1" >"$SCRATCH/$1.json" 2>"$SCRATCH/$1.err" ||
		fail "export $1: $(cat "$SCRATCH/$1.err")"
}

left="whole leaf,left,calls,main" right="whole leaf,middle,right,calls,main"
calls="$rounds $left
$((2 * rounds)) $right"
folded="stacks;main;calls;left;leaf;stacks:call $rounds
stacks;main;calls;right;middle;leaf;stacks:call $((2 * rounds))"

# folded_lines: those of the program's own functions
folded_lines()
{
	sed 's/^stacks;.*;main;/stacks;main;/'
}

# ---- Formats -----------------------------------------------------------------------------

for how in '' =frames; do
	rm -rf "$SCRATCH/whole"
	recorded whole stacks_frames --stack$how stacks:call
	exported whole
	same "JSON$how" "$(stacks_of "$SCRATCH/whole.json" | sed 's/ unknown / whole /')" "$calls"
	same "hits$how" "$(wc -l <"$SCRATCH/whole.json")" $((3 * rounds))
done
rm -rf "$SCRATCH/whole"
recorded whole stacks --stack -v stacks:call
exported whole
same "lines" "$(jq -r 'select(.frames[0].line == null)' "$SCRATCH/whole.json")" ""
same "folded" "$("$PROBECTL" export -F folded --count "$SCRATCH/whole" | sed 's/ (stacks.c:[0-9]*)//g' | folded_lines |
	awk '{ n[$1] += $2 } END { for (line in n) print line, n[line] }' | sort)" "$folded"
"$PROBECTL" export -F flamegraph --count "$SCRATCH/whole" >"$SCRATCH/svg" || fail "flamegraph: $?"
grep -q '<title>middle (stacks.c:[0-9]*) ([0-9]* hits, ' "$SCRATCH/svg" || fail "flamegraph: $(head -20 "$SCRATCH/svg")"
# Hits that were printed are read as well. They do not tell where functions without names begin.
same "folded, from JSON" "$("$PROBECTL" export -F folded --count - <"$SCRATCH/whole.json" | sed 's/+0x[0-9a-f]*//')" \
	"$("$PROBECTL" export -F folded --count "$SCRATCH/whole" | sed 's/+0x[0-9a-f]*//')"
same "report" "$("$PROBECTL" report --json "$SCRATCH/whole" | jq -c 'select(.type == "probe") | [.name, .hits]')" \
	"[\"call\",$((3 * rounds))]"

same "hits by stack" "$("$PROBECTL" report --json "$SCRATCH/whole" | jq -r 'select(.type == "stack") | [.count, .stack, .name,
	([.frames[].symbol] | .[:index("main") + 1] | join(","))] | join(" ")' |
	awk '{ n[$2 " " $3 " " $4] += $1 } END { for (stack in n) print n[stack], stack }' | sort -n)" \
	"$rounds whole call leaf,left,calls,main
$((2 * rounds)) whole call leaf,middle,right,calls,main"
recorded tree stacks --stack stacks:call
same "the tree" "$("$PROBECTL" report "$SCRATCH/tree" | sed -n '/^stacks:call: /,/^$/p' | sed -n '1,2p; / main$/,/leaf$/p')" \
	"stacks:call: 150 hits, 2 stacks
        HITS        %  FRAME
         150  100.0 %  main
         150  100.0 %  calls
         100   66.7 %  - right
         100   66.7 %    middle
         100   66.7 %    leaf"

# The form that LTTng has for its callstack_user, and events that name the addresses.
if command -v babeltrace2 >"$SCRATCH/null"; then
	babeltrace2 "$SCRATCH/whole" >"$SCRATCH/text" 2>"$SCRATCH/err" || fail "babeltrace2: $(cat "$SCRATCH/err")"
	same "babeltrace2: hits" "$(grep -c 'stacks:call: .* callstack_user = \[ \[0\] = 0x' "$SCRATCH/text")" \
		$((3 * rounds))
	grep -q 'probectl:frame: .* symbol = "middle", ' "$SCRATCH/text" || fail "babeltrace2: no names"
	leaf=$(sed -n 's/.* ip = \(0x[0-9A-F]*\), .* symbol = "leaf".*/\1/p' "$SCRATCH/text" | head -1)
	same "babeltrace2: the innermost frames" "$(grep -c "callstack_user = \[ \[0\] = $leaf" "$SCRATCH/text")" \
		$((3 * rounds))
fi

# ---- The longest pairs -------------------------------------------------------------------

recorded naps naps --stack 'naps:*'
"$PROBECTL" report --pairs "$SCRATCH/naps" >"$SCRATCH/report" || fail "report: $?"
same "stacks of the longest" "$(grep -c -A2 ', and ended in$' "$SCRATCH/report")" 20
same "where they ended" "$(sed -n '/, and ended in$/{n;p;n;p}' "$SCRATCH/report" | sort | uniq -c | sed 's/^ *//')" \
	"20 	main
20 	nap"
same "as JSON" "$("$PROBECTL" report --pairs --json "$SCRATCH/naps" |
	jq -r 'select(.type == "longest") | .stack + " " + ([.frames[:2][].symbol] | join(","))' | sort -u)" \
	"whole nap,main"

# ---- Parts, and several processes --------------------------------------------------------

rounds=4000
recorded parts stacks --stack -b 64M --rotate 100k stacks:call
[ "$(find "$SCRATCH/parts" -name metadata | wc -l)" -gt 1 ] || fail "there is one part only"
exported parts
same "parts" "$(stacks_of "$SCRATCH/parts.json")" "$rounds $left
$((2 * rounds)) $right"
for part in "$SCRATCH"/parts/*; do
	same "a part by itself" "$("$PROBECTL" export -F json "$part" | jq -r 'select(.frames[0].symbol != "leaf")')" ""
done
rounds=50

start "$TARGETS/stacks" "$rounds"
first=$target_pid first_in=$target_in
start "$TARGETS/stacks_frames" "$rounds" 2>"$SCRATCH/null" # that there are two
save_state "$target_pid"
record_start both --stack -p "$first,$target_pid" stacks:call
wait_tracing both "$recorder"
echo go >&"$first_in"
ask go
while :; do
	exported both
	[ "$(wc -l <"$SCRATCH/both.json")" -lt $((6 * rounds)) ] || break
	pause
done
# Nothing more is written.
kill -KILL "$recorder"
wait "$recorder" 2>"$SCRATCH/null"
"$PROBECTL" repair -p "$first,$target_pid" >"$SCRATCH/null" || fail "repair: $?"
same_state "$target_pid"
end_process "$first"
end_process "$target_pid"
exported both
same "two processes, and a recorder that was killed" "$(stacks_of "$SCRATCH/both.json")" \
	"$((2 * rounds)) $left
$((4 * rounds)) $right"

# ---- Mistakes ----------------------------------------------------------------------------

"$PROBECTL" record --stack --full=loop -o "$SCRATCH/loop" -p $$ stacks:call >"$SCRATCH/out" 2>"$SCRATCH/err"
same "--full=loop: status" "$?" 2
grep -q 'only a record that is written continuously has stacks' "$SCRATCH/err" || fail "--full=loop: $(cat "$SCRATCH/err")"
finish
