#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sites that cannot be patched in a library or program that is loaded later: where only wildcards
# match them, one line says how many, and -v names them; of probes that were named, each is, and the
# exit status is that of a refusal at the beginning. No row shows 0 for what is not counted.
. tests/integration/lib.sh
need jq

late=$TARGETS/late
library=$TARGETS/liblate.so
[ -x "$late" ] || skip "$late is not built"
each=(late:none late:part late:whole)
# Only the sites with room for a jump can be patched so.
plan=nop either=behind,nop
[ "$(uname -m)" = x86_64 ] || plan=behind either=behind

# check WHAT STATUS WANTED: the status, and that both refused sites are named once each
check()
{
	same "$1: status" "$2" "$3"
	same "$1: sites named" "$(grep -c 'refused late:' "$SCRATCH/err")" 2
	same "$1: late:none" "$(grep -c 'refused late:none at 0x[0-9a-f]* in .*liblate.so: ' "$SCRATCH/err")" 1
	same "$1: late:part" "$(grep -c 'refused late:part at 0x[0-9a-f]* in .*liblate.so: ' "$SCRATCH/err")" 1
	same "$1: only named" "$(grep -c 'says which' "$SCRATCH/err")" 0
}
# check_line WHAT STATUS: it is 0, and the refused sites are told in one line
check_line()
{
	same "$1: status" "$2" 0
	same "$1: sites named" "$(grep -c 'refused late:' "$SCRATCH/err")" 0
	same "$1: one line" "$(grep 'sites refused' "$SCRATCH/err" | sed 's/process [0-9]*/process PID/' |
		grep -v 'late:')" "probectl: process PID: 2 of 4 sites refused, -v says which: none of the requested plans is possible there"
}
rows='late:none - (refused)
late:part 100 (1 of 2 sites refused)
late:whole 100'

for how in '' exec child; do
	# shellcheck disable=SC2086
	"$PROBECTL" trace -c --plan $plan 'late:*' -- "$late" "$library" $how >"$SCRATCH/out" 2>"$SCRATCH/err"
	check_line "counts ${how:-open}" "$?"
	same "rows ${how:-open}" "$(awk '/^late:/ {$1 = $1; print}' "$SCRATCH/out" | sort)" "$rows"
	# shellcheck disable=SC2086
	"$PROBECTL" trace -c --json --plan $plan 'late:*' -v -- "$late" "$library" $how \
		>"$SCRATCH/out" 2>"$SCRATCH/err"
	check "counts in JSON, -v ${how:-open}" "$?" 0
	same "JSON ${how:-open}" "$(grep '^{' "$SCRATCH/out" | jq -c '[.name, .hits, .sites, .refused]' | sort)" \
		'["none",null,1,1]
["part",100,2,1]
["whole",100,null,null]'
	# shellcheck disable=SC2086
	"$PROBECTL" trace -c --plan $plan "${each[@]}" -- "$late" "$library" $how >"$SCRATCH/out" 2>"$SCRATCH/err"
	check "named ${how:-open}" "$?" 1
	same "rows of the named ${how:-open}" "$(awk '/^late:/ {$1 = $1; print}' "$SCRATCH/out" | sort)" "$rows"
	# shellcheck disable=SC2086
	"$PROBECTL" trace -c --plan $plan --keep-going "${each[@]}" -- "$late" "$library" $how \
		>"$SCRATCH/out" 2>"$SCRATCH/err"
	check "named, --keep-going ${how:-open}" "$?" 0
done

# Nothing is left: a wildcard has nothing to go on with.
"$PROBECTL" trace -c --plan $plan 'late:n*' -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
same "all refused: status" "$?" 1
grep -q '^probectl: all sites are refused (1): nothing was traced$' "$SCRATCH/err" ||
	fail "all refused: $(cat "$SCRATCH/err")"
for command in "run -e" "record --full stop -o $SCRATCH/none"; do
	# shellcheck disable=SC2086
	"$PROBECTL" $command 'late:n*' --plan $plan -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "all refused, $command: status" "$?" 1
	rm -rf "$SCRATCH/none"
	"$PROBECTL" $command 'late:n*' --plan $plan --keep-going -- "$late" "$library" \
		>"$SCRATCH/out" 2>"$SCRATCH/err"
	same "all refused, --keep-going, $command: status" "$?" 0
	rm -rf "$SCRATCH/none"
done

# Single hits: the summary reports what is missing.
"$PROBECTL" trace --plan $plan 'late:*' -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
check_line "hits" "$?"
same "the summary" "$(sed -n 's/^probectl: \(late:.*\)/\1/p' "$SCRATCH/err" | sort)" \
	"late:none: not traced (refused)
late:part: 100 hits, 0 lost (1 of 2 sites refused)
late:whole: 100 hits, 0 lost"

# A probe waits for one that never comes: hits so far are printed all the same.
for probes in '' no:such; do
	# shellcheck disable=SC2086
	"$PROBECTL" run --plan $plan -e 'late:*' ${probes:+-e $probes} -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
	check_line "run $probes" "$?"
	# shellcheck disable=SC2086
	"$PROBECTL" run --plan $plan "${each[@]}" ${probes:+-e $probes} -- "$late" "$library" \
		>"$SCRATCH/out" 2>"$SCRATCH/err"
	check "run of the named $probes" "$?" 1
done
"$PROBECTL" run --plan $plan -v -e 'late:*' -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
check "run -v" "$?" 0

"$PROBECTL" record --plan $plan -o "$SCRATCH/record" 'late:*' -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
check_line "record" "$?"
grep -q '200 hits recorded' "$SCRATCH/err" || fail "record: $(cat "$SCRATCH/err")"
# missing WHAT: the end names what is missing from the record
missing()
{
	same "$1: what is missing" "$(sed -n 's/^probectl: \(late:[a-z]*: not .*\)/\1/p' "$SCRATCH/err" | sort)" \
		"late:none: not recorded (refused)
late:part: not all of its hits are there (1 of 2 sites refused)"
}
missing record
"$PROBECTL" record --full stop --plan $plan -o "$SCRATCH/stream" 'late:*' -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
check_line "record of a stream" "$?"
missing "record of a stream"
rm -rf "$SCRATCH/stream"
"$PROBECTL" record --full stop --plan $plan -o "$SCRATCH/stream" "${each[@]}" -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
check "record of a stream, named" "$?" 1
missing "record of a stream"

# top names the probe, not each site.
"$PROBECTL" top -d 60 'late:*' -- "$late" "$library" >"$SCRATCH/out" 2>"$SCRATCH/err"
same "top: status" "$?" 0
# run enables what a wildcard matches in a library that is opened when every PROBE has matched; what
# is on already keeps its count.
cat >"$SCRATCH/later.py" <<'END'
import ctypes, os, subprocess, sys, time
status, library, limit = sys.argv[1:]
def show():
    command = [status, "status", "-p", str(os.getpid()), "/^(late:|python:gc__start)/"]
    return subprocess.run(command, capture_output=True, text=True).stdout
ctypes.CDLL(library)
# While probes are being enabled, their semaphores are up already, and those of refused ones still.
end = time.monotonic() + float(limit)
while time.monotonic() < end:
    shown = show()
    words = [line.split() for line in shown.splitlines() if ":" in line]
    if sorted(w[2] for w in words) == ["off", "on", "on", "on"] and all(w[3] in "01" for w in words):
        break
    time.sleep(0.05)
print(shown)
END
/usr/bin/python3.11 -c '' && for how in '' -v; do
	# shellcheck disable=SC2086
	"$PROBECTL" run $how --plan $either '/^(python:gc__start|late:)/' -- \
		/usr/bin/python3.11 "$SCRATCH/later.py" "$PROBECTL" "$library" "$TEST_SECONDS" \
		>"$SCRATCH/stdout" 2>"$SCRATCH/err"
	same "a library after the rest: status" "$?" 0
	same "a library after the rest: what is on" \
		"$(awk '/:/ {print $2, $3, $4}' "$SCRATCH/stdout" | sort | paste -sd' ')" \
		"late:none off 0 late:part on 1 late:whole on 1 python:gc__start on 1"
done
same "a library after the rest: -v" "$(sed -n 's/^probectl: \(.*\) in [0-9]*$/\1/p' "$SCRATCH/err" | paste -sd' ')" \
	"1 probe, 1 site enabled 2 probes, 2 sites enabled"
finish
