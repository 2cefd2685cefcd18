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

# What is told of a program that is not held on its way.
late='or more processes have started while'
# ending NAME ARGS...: the trace ends while a loader opens a library that comes later; 1: it did not
# hold the program, and has said so
ending()
{
	local never traced=()
	sh "$SCRATCH/script" &
	script=$!
	[ "$1" != gate ] || traced=(-p "$script")
	rm -f "$SCRATCH/never.so"
	mkfifo "$SCRATCH/never.so"
	exec {never}<>"$SCRATCH/never.so"
	anew "$1"
	env --default-signal=INT "$PROBECTL" trace --json "${traced[@]}" "${@:2}" >"$SCRATCH/unread" 2>"$SCRATCH/$1.err" \
		</dev/null &
	tracer_pid=$!
	on_exit "end_process $tracer_pid"
	wait_tracing "$1"
	echo >&"$go"
	until [ -n "$(loading)" ]; do
		pause
	done
	until [ "$(awk '/^TracerPid:/ {print $2}' "/proc/$(loading)/status")" = "$tracer_pid" ]; do
		! grep -q "$late" "$SCRATCH/$1.err" || break
		pause
	done
	if ! grep -q "$late" "$SCRATCH/$1.err"; then
		kill -INT "$tracer_pid"
		sleep 1
		kill -0 "$tracer_pid" 2>/dev/null || fail "$1: the trace does not wait for its reader"
	fi
	printf "%1000s" x >&"$never" # no library
	timeout "$TEST_SECONDS" tail --pid="$script" -f /dev/null || fail "$1: a program is held: $(
		grep State "/proc/$(loading)/status")"
	kill -KILL "$tracer_pid"
	wait "$tracer_pid" 2>/dev/null
	wait "$script"
	! grep -q "$late" "$SCRATCH/$1.err"
}

# ends NAME ARGS...: the same, until the program is held
ends()
{
	local i
	for ((i = 0; i < 20; i++)); do
		! ending "$@" || return
	done
	fail "$1: the program is not held: $(cat "$SCRATCH/$1.err")"
}

# Its output is more than fits a pipe.
cat >"$SCRATCH/script" <<END
read -r _ <"$SCRATCH/go"
"$comer" 4000 0
LD_PRELOAD=$SCRATCH/never.so "$comer" 7 0 2>/dev/null
END

ends gate --follow comer:hit
[ "$(id -u)" != 0 ] || ends guardian --follow --exe "$comer" comer:hit
finish
