#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# A trace that has ended, but waits for the reader of its output, holds nobody: a program that was on
# its way then goes on.
. tests/integration/lib.sh
need_attach

comer=$SCRATCH/comer
cp "$TARGETS/comer" "$comer"
mkfifo "$SCRATCH/go" "$SCRATCH/unread"
# shellcheck disable=SC2034 # nobody reads it
exec {go}<>"$SCRATCH/go" {unread}<>"$SCRATCH/unread"

# The program whose loader is at work.
loading()
{
	pgrep -f "^$comer 7 0"
}

# ending NAME ARGS...: the trace ends while a loader opens a library that comes later
ending()
{
	local never
	rm -f "$SCRATCH/never.so"
	mkfifo "$SCRATCH/never.so"
	exec {never}<>"$SCRATCH/never.so"
	anew "$1"
	env --default-signal=INT "$PROBECTL" trace --json "${@:2}" >"$SCRATCH/unread" 2>"$SCRATCH/$1.err" \
		</dev/null &
	tracer_pid=$!
	on_exit "end_process $tracer_pid"
	wait_tracing "$1"
	echo >&"$go"
	until [ -n "$(loading)" ]; do
		pause
	done
	sleep 1
	[ "$(awk '/^TracerPid:/ {print $2}' "/proc/$(loading)/status")" = "$tracer_pid" ] ||
		fail "$1: the program is not on its way"
	kill -INT "$tracer_pid"
	sleep 1
	kill -0 "$tracer_pid" 2>/dev/null || fail "$1: the trace does not wait for its reader"
	printf "%1000s" x >&"$never" # no library
	timeout "$TEST_SECONDS" tail --pid="$script" -f /dev/null || fail "$1: a program is held: $(
		grep State "/proc/$(loading)/status")"
	kill -KILL "$tracer_pid"
	wait "$tracer_pid" 2>/dev/null
	wait "$script"
}

# Its output is more than fits a pipe.
cat >"$SCRATCH/script" <<END
read -r _ <"$SCRATCH/go"
"$comer" 4000 0
LD_PRELOAD=$SCRATCH/never.so "$comer" 7 0 2>/dev/null
END

sh "$SCRATCH/script" &
script=$!
ending gate --follow -p "$script" comer:hit
if [ "$slower" != 1 ]; then
	echo "note: this machine is slow: what the guardian holds is not tested, as it begins before it is traced"
elif [ "$(id -u)" = 0 ]; then
	sh "$SCRATCH/script" &
	script=$!
	ending guardian --follow --exe "$comer" comer:hit
fi
finish
