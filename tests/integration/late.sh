#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sites that cannot be patched in a library or program that is loaded later are named, the exit
# status is that of a refusal at the beginning, and no row shows 0 for what is not counted.
. tests/integration/lib.sh
need jq

late=$TARGETS/late
library=$TARGETS/liblate.so
[ -x "$late" ] || skip "$late is not built"

# check WHAT STATUS WANTED: the status, and that both refused sites are named once each
check()
{
	same "$1: status" "$2" "$3"
	same "$1: sites named" "$(grep -c 'refused late:' "$SCRATCH/err")" 2
	same "$1: late:none" "$(grep -c 'refused late:none at 0x[0-9a-f]* in .*liblate.so: ' "$SCRATCH/err")" 1
	same "$1: late:part" "$(grep -c 'refused late:part at 0x[0-9a-f]* in .*liblate.so: ' "$SCRATCH/err")" 1
}

for how in '' exec child; do
	# shellcheck disable=SC2086
	"$PROBECTL" trace -c --plan nop 'late:*' -- "$late" "$library" $how >"$SCRATCH/out" 2>"$SCRATCH/err"
	check "counts ${how:-open}" "$?" 1
	same "rows ${how:-open}" "$(awk '/^late:/ {$1 = $1; print}' "$SCRATCH/out" | sort)" \
		"late:none - (refused)
late:part 100 (1 of 2 sites refused)
late:whole 100"
	# shellcheck disable=SC2086
	"$PROBECTL" trace -c --json --plan nop --keep-going 'late:*' -- "$late" "$library" $how \
		>"$SCRATCH/out" 2>"$SCRATCH/err"
	check "counts in JSON, --keep-going ${how:-open}" "$?" 0
	same "JSON ${how:-open}" "$(grep '^{' "$SCRATCH/out" | jq -c '[.name, .hits, .sites, .refused]' | sort)" \
		'["none",null,1,1]
["part",100,2,1]
["whole",100,null,null]'
done

# Single hits: the summary reports what is missing.
"$PROBECTL" trace --plan nop 'late:*' -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
check "hits" "$?" 1
same "the summary" "$(sed -n 's/^probectl: \(late:.*\)/\1/p' "$SCRATCH/err" | sort)" \
	"late:none: not traced (refused)
late:part: 100 hits, 0 lost (1 of 2 sites refused)
late:whole: 100 hits, 0 lost"

# A probe waits for one that never comes: hits so far are printed all the same.
for probes in '' no:such; do
	# shellcheck disable=SC2086
	"$PROBECTL" run --plan nop -e 'late:*' ${probes:+-e $probes} -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
	check "run $probes" "$?" 1
done
"$PROBECTL" run --plan nop --keep-going -e 'late:*' -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
check "run, --keep-going" "$?" 0

"$PROBECTL" record --plan nop -o "$SCRATCH/record" 'late:*' -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
check "record" "$?" 1
grep -q '200 hits recorded' "$SCRATCH/err" || fail "record: $(cat "$SCRATCH/err")"
# missing WHAT: the end names what is missing from the record
missing()
{
	same "$1: what is missing" "$(sed -n 's/^probectl: \(late:[a-z]*: not .*\)/\1/p' "$SCRATCH/err" | sort)" \
		"late:none: not recorded (refused)
late:part: not all of its hits are there (1 of 2 sites refused)"
}
missing record
"$PROBECTL" record --full stop --plan nop -o "$SCRATCH/stream" 'late:*' -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
check "record of a stream" "$?" 1
missing "record of a stream"

# top names the probe, not each site.
"$PROBECTL" top -d 60 'late:*' -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
same "top: status" "$?" 0
finish
