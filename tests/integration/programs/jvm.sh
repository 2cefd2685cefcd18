#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A JVM with every probe of libjvm enabled: no site is refused without a reason, and the
# program's output stays the same.
. tests/integration/lib.sh
java_class
need jq

libjvm=$(readlink -f "$(dirname "$(readlink -f "$(command -v java)")")/../lib/server/libjvm.so")
sites=$("$python" tests/integration/state.py sites "$libjvm" | wc -l)
[ "$sites" -gt 100 ] || skip "this JVM has no probes: $libjvm"
flags=(-XX:+ExtendedDTraceProbes -XX:-OmitStackTraceInFastThrow -Xshare:auto -cp "$SCRATCH")
java "${flags[@]}" Busy work 2 >"$SCRATCH/plain" 2>"$SCRATCH/plain.err" || die "java: $(cat "$SCRATCH/plain.err")"

# Counting, from the start.
"$PROBECTL" trace --count --json -o "$SCRATCH/count.out" -v 'hotspot*:*' -- \
	java "${flags[@]}" Busy work 2 >"$SCRATCH/traced" 2>"$SCRATCH/err" ||
	fail "trace --count -- java: status $?: $(head -3 "$SCRATCH/err")"
diff "$SCRATCH/plain" "$SCRATCH/traced" || fail "the output differs"
refusals "$SCRATCH/err"
for name in class__loaded thread__start method__entry object__alloc; do
	hits=$(jq -s "map(select(.name == \"$name\").hits // 0) | add // 0" "$SCRATCH/count.out")
	[ "$hits" -gt 0 ] || fail "$name was never hit"
done

# By the names of arguments, which are texts with a length and without a NUL.
"$PROBECTL" trace --json -o "$SCRATCH/method.out" -k class -f 'method == "work"' -c hotspot:method__entry -- \
	java "${flags[@]}" Busy work 2 >"$SCRATCH/traced" 2>"$SCRATCH/err" ||
	fail "trace -k class: status $?: $(head -3 "$SCRATCH/err")"
same "calls of work() by class" \
	"$(jq -r 'select(.keys) | "\(.hits) \(.keys[0])"' "$SCRATCH/method.out" | grep Busy)" "2 Busy"
"$PROBECTL" trace --json -o "$SCRATCH/method.out" -t latency -k begin.method \
	-f 'begin.class == "Busy" && begin.method in ("work", "garbage") && duration > 0' \
	hotspot:method__entry hotspot:method__return -- \
	java "${flags[@]}" Busy work 2 >"$SCRATCH/traced" 2>"$SCRATCH/err" ||
	fail "trace -t latency -k begin.method: status $?: $(head -3 "$SCRATCH/err")"
same "times of methods" \
	"$(jq -r 'select(.keys) | "\(.count) \(.keys[0])"' "$SCRATCH/method.out" | sort | paste -sd,)" \
	"2 garbage,2 work"

# Recording, except the two probes that are hit for every method.
"$PROBECTL" trace --json -o "$SCRATCH/record.out" --keep-going 'hotspot:class__*' 'hotspot:thread__*' \
	'hotspot:gc__*' 'hotspot:monitor__*' 'hotspot:vmops__*' -- \
	java "${flags[@]}" Busy work 2 >"$SCRATCH/traced" 2>"$SCRATCH/err" ||
	fail "trace -- java: status $?: $(head -3 "$SCRATCH/err")"
diff "$SCRATCH/plain" "$SCRATCH/traced" || fail "the recorded output differs"

# run: enables the probes and leaves.
"$PROBECTL" run -v -e 'hotspot*:*' -- java "${flags[@]}" Busy work 2 >"$SCRATCH/traced" \
	2>"$SCRATCH/err" || fail "run -- java: status $?: $(head -3 "$SCRATCH/err")"
diff "$SCRATCH/plain" "$SCRATCH/traced" || fail "the output under run differs"
refusals "$SCRATCH/err"

# Attached, enabled and disabled, while it works; then it is as before.
need_attach
start "$(command -v java)" "${flags[@]}" Busy stay
sleep 1
save_state "$target_pid"
for ((i = 0; i < 5; i++)); do
	"$PROBECTL" enable -v -p "$target_pid" 'hotspot*:*' >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "enable: status $?: $(head -3 "$SCRATCH/err")"
	refusals "$SCRATCH/err" >/dev/null
	grep -q 'sites enabled' "$SCRATCH/out" || fail "enable $i: $(cat "$SCRATCH/out" "$SCRATCH/err" | head -3)"
	[ "$i" -gt 0 ] || cat "$SCRATCH/out"
	ask ping
	"$PROBECTL" disable -p "$target_pid" 'hotspot*:*' >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "disable: status $?: $(head -3 "$SCRATCH/err")"
	ask ping
done
trace_start attached --count -v -p "$target_pid" 'hotspot*:*'
wait_on "$target_pid" hotspot:gc__begin
sleep 1
trace_stop attached
same_state "$target_pid"
before=${answer#pong }
sleep 1
ask ping
[ "${answer#pong }" -gt "$before" ] || fail "the program does not work any more: $before, then $answer"
tell quit
end_target
finish
