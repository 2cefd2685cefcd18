#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# A program seals memory of probectl's, and its own text (mseal(2), Linux 6.10). The sites are
# restored nevertheless. Memory that cannot be unmapped stays, is reported once, and is used again.
. tests/integration/lib.sh
need_attach
need jq

# sealed WHICH: the program seals memory
sealed()
{
	ask "$1 seal"
	[ "$answer" != "no Function not implemented" ] || skip "the kernel has no mseal(2)"
	[[ $answer = taken* ]] || fail "seal $1: the program says $answer"
}

# mappings: prints how many mappings there are, and which are ours
mappings()
{
	echo "$(wc -l <"/proc/$target_pid/maps") $(ours)"
}

begin()
{
	start "$TARGETS/overmap"
	save_state "$target_pid"
	ask 10
	trace_start first -c --json ${1+--plan "$1"} -p "$target_pid" overmap:hit
	wait_tracing first
	ask 10
}

# again HITS [PLAN]: a later trace still counts
again()
{
	trace_start again -c --json ${2+--plan "$2"} -p "$target_pid" overmap:hit
	wait_tracing again
	ask "$1"
	trace_stop again
	same "$what: hits of a later trace" "$(hits_of "$SCRATCH/again.out")" "$1"
	same "$what: what a later trace says" "$(grep -vc 'Ctrl-C ends' "$SCRATCH/again.err")" 0
}

# stays KIB: `status` and `repair` each report in one line how much stays
stays()
{
	"$PROBECTL" status -p "$target_pid" >"$SCRATCH/out" 2>"$SCRATCH/status.err"
	says status "has sealed $1 KiB of probectl's memory: it stays until the program ends"
	same "$what: warnings of status" "$(grep -c warning: "$SCRATCH/status.err")" 1
	ctl repair -p "$target_pid"
	grep -q "nothing to repair; the program has sealed $1 KiB" "$SCRATCH/out" ||
		fail "$what: repair says $(cat "$SCRATCH/out")"
	same_state "$target_pid"
}

for what in code data guard text; do
	begin
	sealed "$what"
	trace_stop first
	same "$what: hits" "$(hits_of "$SCRATCH/first.out")" 10
	if [ "$what" != text ]; then
		says first "has sealed .* KiB of probectl's memory: it stays until the program ends"
		! grep -q 'its hits are not counted' "$SCRATCH/first.err" ||
			fail "$what: another tool is blamed: $(cat "$SCRATCH/first.err")"
		stays "$("$PROBECTL" repair --json -p "$target_pid" | jq '.sealed_bytes / 1024')"
	fi
	again 5
	before=$(mappings)
	for ((i = 0; i < 10; i++)); do
		ctl enable -q -p "$target_pid" overmap:hit
		ctl disable -q -p "$target_pid" overmap:hit
	done
	again 7
	same "$what: mappings after more sessions" "$(mappings)" "$before"
	same_state "$target_pid"
	end_target
done

# A page of a pun lies at the one address that its site can use.
if has_short_nops; then
	what=pun
	begin pun
	sealed all
	trace_stop first
	again 5 pun
	before=$(mappings)
	again 7 pun
	same "puns: mappings after more sessions" "$(mappings)" "$before"
	same_state "$target_pid"
	end_target
fi
finish
