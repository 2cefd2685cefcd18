#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
# A target that overwrites what it shares with probectl, or keeps or replaces the descriptor:
# probectl neither crashes nor hangs, removes its probes, and does nothing to other files. `make
# asan KINDS=integration` runs this with a controller that detects each invalid read.
. tests/integration/lib.sh
need_attach

rounds=${HOSTILE_ROUNDS:-1${TEST_ALL:+0}} # with other random numbers each

# misled COMMAND…: fails with an error at most; never a signal, a timeout or a sanitizer's
# report
misled()
{
	local status
	timeout -s KILL "$TEST_SECONDS" "$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	status=$?
	[ "$status" -le 1 ] || fail "$what: $*: status $status: $(tail -3 "$SCRATCH/err")"
	if grep -q 'Sanitizer\|runtime error' "$SCRATCH/err"; then
		fail "$what: $*: $(grep -m 3 'Sanitizer\|runtime error' "$SCRATCH/err")"
	fi
}

# stopped: the misbehaviour has ended; without any, the test would prove nothing
stopped()
{
	ask stop
	[ "${answer#did }" -gt 0 ] || fail "$what: the target found nothing to do"
	hear
}

# ---- The shared memory: rings, counters, headers ------------------------------------

for ((seed = 1; seed <= rounds; seed++)); do
	for how in scribble fill; do
		what="$how $seed"
		start "$TARGETS/hostile" "$how" "$seed"
		save_state "$target_pid"
		misled trace --json -d 0.5 -p "$target_pid" hostile:tick
		misled trace -s 64 -d 0.3 -p "$target_pid" 'hostile:tick(str(arg1))'
		misled trace --json -t span -d 0.3 -p "$target_pid" 'hostile:tick(str(arg1))' hostile:tock
		misled trace -t span --match arg0:arg0-1 -d 0.3 -p "$target_pid" hostile:tick hostile:tock
		misled trace -c -i 0.1 -d 0.3 -p "$target_pid" hostile:tick
		misled trace --follow --json -d 0.3 -p "$target_pid" hostile:tick
		misled enable -p "$target_pid" hostile:tick
		misled status --json -p "$target_pid"
		misled disable -p "$target_pid" hostile:tick
		stopped
		same_state "$target_pid"
		tell bye
		end_target 0
	done
done

# The output is still JSON.
start "$TARGETS/hostile" scribble 7
trace_start json --json -d 0.5 -p "$target_pid" hostile:tick
wait "$tracer_pid"
"$python" -c '
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    json.loads(line)' "$SCRATCH/json.out" || fail "no JSON any more"
stopped
tell bye
end_target 0

# ---- The descriptor --------------------------------------------------------------------

# A file that probectl may write and the target may not, if this runs as root.
echo precious >"$SCRATCH/precious"
cp "$SCRATCH/precious" "$SCRATCH/copy"
chmod 644 "$SCRATCH/precious"

briefly()
{
	misled trace -c -d 0.01 -p "$target_pid" hostile:tick
	cmp "$SCRATCH/precious" "$SCRATCH/copy" || die "another file was written"
}

# met: the descriptor, which is there for microseconds, was found at least once
met()
{
	local i
	for ((i = 0; i < 20; i++)); do
		briefly
	done
	until [ -s "$SCRATCH/target.err" ]; do
		briefly
		pause
	done
	: >"$SCRATCH/target.err"
}

what="cut short"
start "$TARGETS/hostile" cut
save_state "$target_pid"
misled trace --json -d 0.5 -p "$target_pid" hostile:tick
met
stopped
same_state "$target_pid"
tell bye
end_target 0

what="another file"
start "$TARGETS/hostile" swap "$SCRATCH/precious"
save_state "$target_pid"
met
stopped
same_state "$target_pid"
tell bye
end_target 0

# ---- What controllers keep for each other ------------------------------------------------

# The target corrupts its own text here, so it may die.
for ((seed = 1; seed <= rounds; seed++)); do
	what="registry $seed"
	coproc VICTIM { exec "$TARGETS/hostile" registry "$seed" 2>/dev/null; }
	victim=$VICTIM_PID
	on_exit "end_process $victim"
	read -r -t "$TEST_SECONDS" -u "${VICTIM[0]}" _ || die "the target said nothing"
	for ((i = 0; i < 5 && failures == 0; i++)); do
		misled trace --json -d 0.05 -p "$victim" hostile:tick
		misled enable -p "$victim" hostile:tick
		misled status --json -p "$victim"
		misled list --json -p "$victim"
		misled repair -p "$victim"
		misled disable --force -p "$victim" hostile:tick
		kill -0 "$victim" 2>/dev/null || break
	done
	end_process "$victim"
done

# ---- Mappings that are named as ours are -----------------------------------------------------

# Whether a program serves a missing page is told by the flags of all mappings, so they are not
# read for each page.
if command -v strace >/dev/null; then
	for command in status repair enable; do
		what="named as ours: $command"
		start "$TARGETS/hostile" named 300
		what_to=()
		[ "$command" = repair ] || what_to=(hostile:tick)
		strace -f -qq -e trace=openat -o "$SCRATCH/strace" "$PROBECTL" "$command" -p "$target_pid" \
			"${what_to[@]}" >"$SCRATCH/out" 2>&1 || fail "$what: $(<"$SCRATCH/out")"
		reads=$(grep -c '/smaps"' "$SCRATCH/strace")
		[ "$reads" -le 8 ] || fail "$what: reads the flags of all mappings $reads times"
		"$PROBECTL" disable -q --force -p "$target_pid" hostile:tick 2>/dev/null
		ask stop
		tell bye
		end_target 0
	done
fi
finish
