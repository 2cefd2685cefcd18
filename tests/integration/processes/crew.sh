#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
#
# Programs whose threads have small stacks, share their memory with other processes, wait in
# vfork(2) or have lost their main thread: each computes its result while controllers come and
# go.
. tests/integration/lib.sh
need_attach

rounds=1${TEST_ALL:+0}

# traced WHAT: counting and recording traces, enable and disable come and go
traced()
{
	local i before after
	for ((i = 0; i < rounds; i++)); do
		"$PROBECTL" trace -q -c -d 10ms -p "$target_pid" crew:work >"$SCRATCH/out" 2>"$SCRATCH/err" ||
			fail "$1: trace -c: $(cat "$SCRATCH/err")"
		"$PROBECTL" trace -q -d 5ms -o /dev/null -p "$target_pid" crew:work >"$SCRATCH/out" 2>"$SCRATCH/err" ||
			fail "$1: trace: $(cat "$SCRATCH/err")"
		"$PROBECTL" enable -p "$target_pid" crew:work >"$SCRATCH/out" 2>"$SCRATCH/err" ||
			fail "$1: enable: $(cat "$SCRATCH/err")"
		"$PROBECTL" disable -p "$target_pid" crew:work >"$SCRATCH/out" 2>"$SCRATCH/err" ||
			fail "$1: disable: $(cat "$SCRATCH/err")"
	done
	ask progress
	before=${answer#progress }
	ask progress
	after=${answer#progress }
	[ "$after" -gt "$before" ] || fail "$1: it does not go on: $before, $after"
}

# all_right WHAT MODE…: the program is not harmed
all_right()
{
	local what="$*"
	start "$TARGETS/crew" "$@"
	save_state "$target_pid"
	traced "$what"
	same_state "$target_pid"
	ask quit
	same "$what" "$answer" "wrong 0"
	end_target
}

# ---- Stacks that are parts of something else -------------------------------------------

all_right array 4096
all_right pool 6000
# The kernel requires room for all registers.
all_right alt 16384

# ---- Other processes in the same memory ------------------------------------------------

all_right child
all_right sibling

# ---- No main thread --------------------------------------------------------------------

start "$TARGETS/crew" leader
save_state "$target_pid"
trace_start ends -c -p "$target_pid" crew:work
wait_tracing ends
ask release
until grep -q '^State:.*Z' "/proc/$target_pid/status"; do
	pause
done
trace_stop ends
traced "a program without a main thread"
"$PROBECTL" status -p "$target_pid" >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "status: $(cat "$SCRATCH/err")"
"$PROBECTL" list -p "$target_pid" crew:work >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "list: $(cat "$SCRATCH/err")"
grep -q crew:work "$SCRATCH/out" || fail "list of a program without a main thread: $(cat "$SCRATCH/out")"
"$PROBECTL" repair -p "$target_pid" >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "repair: $(cat "$SCRATCH/err")"
# Its child was there before: it is not traced, nor taken for another program.
"$PROBECTL" trace -q -c -d 0.5 --follow -p "$target_pid" crew:work >"$SCRATCH/out" 2>"$SCRATCH/err" ||
	fail "trace --follow: $(cat "$SCRATCH/err")"
same "messages about a program without a main thread" "$(cat "$SCRATCH/err")" ""
ask quit
same "without a main thread" "$answer" "wrong 0"
end_target

# ---- A thread in vfork(2) --------------------------------------------------------------

start "$TARGETS/crew" vfork
save_state "$target_pid"
trace_start vfork -c -p "$target_pid" crew:work
# The other threads continue, however long it takes.
ask progress
before=${answer#progress }
ask progress
[ "${answer#progress }" -gt "$before" ] || fail "they stand still while one is in vfork"
grep -q crew:work "$SCRATCH/vfork.out" && fail "traced while a thread is in vfork"
ask release
wait_tracing vfork
trace_stop vfork
same_state "$target_pid"
ask quit
same "a thread in vfork" "$answer" "wrong 0"
end_target

# It does not end: this is reported, and the other threads continue.
start "$TARGETS/crew" vfork
"$PROBECTL" trace -c -d 10ms -p "$target_pid" crew:work >"$SCRATCH/out" 2>"$SCRATCH/err" &&
	fail "traced while a thread is in vfork"
grep -q 'vfork(2)' "$SCRATCH/err" || fail "a thread in vfork: $(cat "$SCRATCH/err")"
ask progress
ask quit
same "a thread that stays in vfork" "$answer" "wrong 0"
end_target

# It begins during a trace and outlasts it: the probes stay, and this is reported.
for command in "trace -c" "top -i 0.1"; do
	start "$TARGETS/crew" later
	save_state "$target_pid"
	anew stays
	# shellcheck disable=SC2086 # words
	env --default-signal=INT "$PROBECTL" $command -p "$target_pid" crew:work \
		>"$SCRATCH/stays.out" 2>"$SCRATCH/stays.err" </dev/null &
	tracer=$!
	on_exit "end_process $tracer"
	wait_on "$target_pid" crew:work
	ask fork
	until grep -q '[0-9]' "/proc/$target_pid"/task/*/children; do
		pause
	done
	kill -INT "$tracer"
	wait "$tracer"
	same "$command while a thread stays in vfork: status" "$?" 1
	grep -q "keeps its probes until .probectl repair.*vfork(2)" "$SCRATCH/stays.err" ||
		fail "$command while a thread stays in vfork: it says: $(cat "$SCRATCH/stays.err")"
	"$PROBECTL" status -p "$target_pid" >"$SCRATCH/out" 2>"$SCRATCH/err"
	grep -q "probectl repair -p $target_pid" "$SCRATCH/err" || fail "$command, status: $(cat "$SCRATCH/err")"
	ask release
	"$PROBECTL" repair -p "$target_pid" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "$command, repair: $(cat "$SCRATCH/err")"
	same_state "$target_pid"
	same "$command, what is mapped at the end" "$(grep -c memfd:probectl "/proc/$target_pid/maps")" 0
	ask quit
	same "$command while a thread stays in vfork" "$answer" "wrong 0"
	end_target
done

all_right spawn 3

# ---- A file that is mapped shared ------------------------------------------------------

# Writes to such memory change the file.
for part in text data; do
	cp "$TARGETS/libsemaphores.so" "$SCRATCH/lib$part.so"
	start "$TARGETS/crew" shared "$SCRATCH/lib$part.so" "$part"
	"$PROBECTL" enable -p "$target_pid" demo:event >"$SCRATCH/out" 2>"$SCRATCH/err" &&
		fail "$part that is mapped shared: enabled"
	grep -q 'mapped shared' "$SCRATCH/err" || fail "$part that is mapped shared: $(cat "$SCRATCH/err")"
	cmp -s "$TARGETS/libsemaphores.so" "$SCRATCH/lib$part.so" || fail "the file was changed ($part)"
	all=$("$PROBECTL" trace -q -c -d 10ms --keep-going -p "$target_pid" '*:*' 2>"$SCRATCH/err")
	grep -q crew:work <<<"$all" || fail "the program's own probe: $all $(cat "$SCRATCH/err")"
	cmp -s "$TARGETS/libsemaphores.so" "$SCRATCH/lib$part.so" || fail "the file was changed ($part)"
	ask quit
	same "$part that is mapped shared" "$answer" "wrong 0"
	end_target
done
finish
