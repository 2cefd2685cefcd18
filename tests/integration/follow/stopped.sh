#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
#
# A controller that is stopped (SIGSTOP, Ctrl-Z) holds no program for long that is being started.
. tests/integration/lib.sh
need_attach

comer=$SCRATCH/comer
cp "$TARGETS/comer" "$comer"

# The longest time, in ms, that one of many programs took.
cat >"$SCRATCH/starter" <<'EOF'
most=0
while [ ! -e "$2" ]; do
	begun=${EPOCHREALTIME/./}
	"$1" 1
	ms=$(((${EPOCHREALTIME/./} - begun) / 1000))
	((ms <= most)) || most=$ms
	printf x >>"$2.each"
done
echo "$most" >"$2.ms"
EOF

trace_start stopped -t json --follow 'comer:early' -- bash "$SCRATCH/starter" "$comer" "$SCRATCH/end"
# some_start: waits until the program that is on its way has ended, and some after it
some_start()
{
	local before
	before=$(wc -c <"$SCRATCH/end.each")
	until [ "$(wc -c <"$SCRATCH/end.each")" -gt $((before + 3)) ]; do
		pause
	done
}
wait_file "$SCRATCH/end.each"
for ((i = 0; i < 8; i++)); do
	some_start
	sleep "0.$((2 + i))"
	kill -STOP "$tracer_pid"
	some_start
	kill -CONT "$tracer_pid"
done
: >"$SCRATCH/end"
wait "$tracer_pid" || fail "trace: status $?: $(head -5 "$SCRATCH/stopped.err")"
# A thread at a gate waits for 2 seconds; the rest is for a busy machine.
(($(<"$SCRATCH/end.ms") < 20000)) || fail "a program took $(<"$SCRATCH/end.ms") ms to start and end"
finish
