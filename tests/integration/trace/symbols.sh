#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# sym(argN): addresses by the names of functions and data, in lines, rows, records and kept sessions.
. tests/integration/lib.sh
need_attach
need jq

names='sym(arg0),sym(arg1),sym(arg2),sym(arg3),arg0'

# traced NAME ARGS…: `trace ARGS` of a target that calls four times
traced()
{
	local name=$1
	shift
	start "$TARGETS/addresses" 4
	save_state "$target_pid"
	trace_start "$name" "$@" -p "$target_pid"
	wait_tracing "$name"
	ask ''
	same "$name: the program" "$answer" "hits 4"
	trace_stop "$name"
	same_state "$target_pid"
	tell ''
	wait "$target_pid" 2>/dev/null
}

# Lines, JSON: a function is named wherever in it the address is; what nobody knows is in hex.
traced text "addresses:call($names)"
traced json --json "addresses:call($names)"
traced keys -c --json -k 'sym(arg1)' -k 'sym(arg2)' addresses:call
same "lines" "$(grep -c '"first" "first" "table" "0x1234" 0x' "$SCRATCH/text.out")" 2
same "JSON" "$(jq -r '.args[:4] | join(" ")' "$SCRATCH/json.out" | sort | uniq -c | awk '{$1=$1};1' | paste -sd,)" \
	"2 first first table 0x1234,2 second second table 0x1234"
same "rows by name" "$(jq -r 'select(.keys) | "\(.keys | join(" ")) \(.hits)"' "$SCRATCH/keys.out" | sort | paste -sd,)" \
	"first table 2,second table 2"

# Sessions that are kept: another process reads them. What remains of a process has numbers.
remains=$(mktemp -u /dev/shm/test.XXXXXX.probectl)
on_exit "rm -f '$remains'"
start "$TARGETS/addresses" 4
"$PROBECTL" enable -q -t ring -b 64k --file "$remains" -p "$target_pid" 'addresses:call(sym(arg3))' ||
	fail "enable -t ring --file"
"$PROBECTL" enable -q -t count -k 'sym(arg0)' -p "$target_pid" addresses:call || fail "enable -t count"
"$PROBECTL" enable -q -t ring -b 64k -p "$target_pid" 'addresses:call(sym(arg1))' || fail "enable -t ring"
record_start record.ctf -p "$target_pid" "addresses:call($names)"
wait_tracing record.ctf "$recorder"
ask ''
record_stop record.ctf
same "a kept table" "$("$PROBECTL" read --json -t count -p "$target_pid" |
	jq -r '"\(.keys[0]) \(.hits)"' | sort | paste -sd,)" "first 2,second 2"
same "a flight recorder" "$("$PROBECTL" read --json -t 3 -p "$target_pid" |
	jq -r '.args[0]' | paste -sd,)" "first,second,first,second"
tell ''
wait "$target_pid" 2>/dev/null

same "what remains" "$("$PROBECTL" read --json --from "$remains" | jq -r '.args[0]' | sort -u)" 0x1234

# Records: the process has ended, and they have the names.
report=$("$PROBECTL" report --json -k 'sym(arg0)' -k 'sym(arg3)' "$SCRATCH/record.ctf" |
	jq -c 'select(.key) | [.key, .value, .count]' | sort | paste -sd,)
same "a report" "$report" \
	'["sym(arg0)","first",2],["sym(arg0)","second",2],["sym(arg3)","0x1234",4]'
same "an export" "$("$PROBECTL" export -F csv "$SCRATCH/record.ctf" | grep -c ',first,first,table,0x1234,')" 2
"$PROBECTL" report -k 'sym(arg4)' "$SCRATCH/record.ctf" >/dev/null 2>"$SCRATCH/err"
same "no names in the record" "$?" 1
grep -q "no hit has a value for the key 'sym(arg4)'" "$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"

# A program that has ended when its rows are read, and files without symbols.
"$PROBECTL" trace -c --json -k 'sym(arg0)' -o "$SCRATCH/ended" addresses:call -- \
	"$TARGETS/addresses" 6 </dev/null >/dev/null 2>"$SCRATCH/err" || fail "a program: $(cat "$SCRATCH/err")"
same "rows after its end" "$(jq -r 'select(.keys) | "\(.keys[0]) \(.hits)"' "$SCRATCH/ended" | sort | paste -sd,)" \
	"first 3,second 3"
# The type of an exception of C++, a symbol of data.
"$PROBECTL" trace -c --json -k 'sym(type)' -o "$SCRATCH/cxx" libstdcxx:throw -- \
	"$TARGETS/throw" 9 </dev/null >/dev/null 2>"$SCRATCH/err" || fail "throw: $(cat "$SCRATCH/err")"
jq -r 'select(.keys) | "\(.keys[0]) \(.hits)"' "$SCRATCH/cxx" | sort >"$SCRATCH/types"
same "types of exceptions" "$(paste -sd, "$SCRATCH/types")" "typeinfo for int 3,typeinfo for std::runtime_error 3"
for full in flush loop; do
	"$PROBECTL" record -q --full "$full" -o "$SCRATCH/cxx.$full" 'libstdcxx:throw(sym(type))' -- \
		"$TARGETS/throw" 9 </dev/null >/dev/null 2>"$SCRATCH/err" || fail "record: $(cat "$SCRATCH/err")"
	same "recorded types, $full" "$("$PROBECTL" report --json -k 'sym(arg1)' "$SCRATCH/cxx.$full" |
		jq -r 'select(.key) | "\(.value) \(.count)"' | sort | paste -sd,)" "typeinfo for int 3,typeinfo for std::runtime_error 3"
done

if command -v strip >/dev/null; then
	strip -o "$SCRATCH/stripped" "$TARGETS/addresses"
	chmod 755 "$SCRATCH" "$SCRATCH/stripped"
	"$PROBECTL" trace -c --json -k 'sym(arg1)' -o "$SCRATCH/bare" addresses:call -- \
		"$SCRATCH/stripped" </dev/null >/dev/null 2>"$SCRATCH/err" || fail "a stripped program: $(cat "$SCRATCH/err")"
	same "functions without names" "$(jq -r 'select(.keys) | "\(.keys[0]) \(.hits)"' "$SCRATCH/bare" |
		sed 's/0x[0-9a-f]*/ADDRESS/' | paste -sd,)" "stripped+ADDRESS 5,stripped+ADDRESS 5"
fi
finish
