#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
# More hits than anything can read: each is recorded or counted as lost, in the order of its
# thread; the target never waits; probectl's memory does not grow, whatever happens to its
# output.
# shellcheck disable=SC2317 # functions that are called by name
. tests/integration/lib.sh
need_attach

hits=400000

# busy THREADS: a target that waits for "go", then hits $hits times in each thread
busy()
{
	start "$TARGETS/loop" -s nop -n "$hits" -t "$1" -b -a
	save_state "$target_pid"
}

# finished THREADS: the target has done its work, whatever the controller does
finished()
{
	hear
	same "$what: the program's own count" "${answer%% *}" "$((hits * $1))"
}

unharmed()
{
	hear
	same_state "$target_pid"
	tell bye
	end_target 0
}

# field PID NAME: from its status, in KiB
field()
{
	sed -n "s/^$2:[[:space:]]*\([0-9]*\).*/\1/p" "/proc/$1/status"
}

# no_larger PID: probectl's own memory; the rings belong to the session
no_larger()
{
	local kib
	kib=$(field "$1" RssAnon)
	[ "${kib:-0}" -lt 65536 ] || fail "$what: probectl takes $kib KiB"
}

# ---- Losses, by the size of the ring ------------------------------------------------

for threads in 1 2; do
	for size in 128k 2M; do
		what="-b $size, $threads threads"
		busy "$threads"
		trace_start load --json -b "$size" -p "$target_pid" loop:nop
		wait_on "$target_pid" loop:nop
		tell go
		finished "$threads"
		no_larger "$tracer_pid"
		trace_stop load
		read -r kept lost disordered < <(records_of "$SCRATCH/load.out")
		same "$what: records and losses" "$((kept + lost))" "$((hits * threads))"
		same "$what: out of order" "$disordered" 0
		[ "$kept" -gt 0 ] || fail "$what: no record was kept"
		echo "note: $what: $lost of $((hits * threads)) lost"
		unharmed
	done
done

# ---- A controller that stands still -------------------------------------------------

# Meanwhile the target does all its work. The contents of the rings are read afterwards; all
# other hits are lost, and every hit is accounted for.
what="a stopped controller"
busy 2
trace_start load --json -b 128k -p "$target_pid" loop:nop
wait_on "$target_pid" loop:nop
kill -STOP "$tracer_pid"
tell go
finished 2
kill -CONT "$tracer_pid"
trace_stop load
read -r kept lost disordered < <(records_of "$SCRATCH/load.out")
same "$what: records and losses" "$((kept + lost)) $disordered" "$((hits * 2)) 0"
[ "$lost" -gt $((hits / 2)) ] || fail "$what: only $lost were lost: did it stand still?"
unharmed

# ---- A reader that stands still, and goes on ----------------------------------------

what="a slow pipe"
mkfifo "$SCRATCH/pipe"
busy 1
exec {pipe}<>"$SCRATCH/pipe"
trace_start load --json -o "$SCRATCH/pipe" -b 128k -p "$target_pid" loop:nop
wait_on "$target_pid" loop:nop
tell go
finished 1
no_larger "$tracer_pid"
# The end does not wait for a reader either; the lines do.
kill -INT "$tracer_pid"
unharmed
cat "$SCRATCH/pipe" >"$SCRATCH/load.out" {pipe}>&- &
reader=$!
wait "$tracer_pid"
same "$what: status" $? 0
exec {pipe}>&-
wait "$reader"
read -r kept lost disordered < <(records_of "$SCRATCH/load.out")
same "$what: records and losses" "$((kept + lost)) $disordered" "$hits 0"

what="a pipe that nobody reads"
busy 1
exec {pipe}<>"$SCRATCH/pipe"
trace_start load --json -o "$SCRATCH/pipe" -b 128k -p "$target_pid" loop:nop
wait_on "$target_pid" loop:nop
tell go
finished 1
# Once to end the trace, once more to drop the output.
kill -INT "$tracer_pid"
unharmed
while kill -INT "$tracer_pid" 2>/dev/null; do
	pause
done
wait "$tracer_pid"
[ $? -le 1 ] || fail "$what: status $?"
exec {pipe}>&-

# ---- A terminal that is not read, or goes away ----------------------------------------

# on_terminal HOW: trace on a terminal that is not read; once $SCRATCH/did exists, the terminal
# is closed, or signals are sent. Prints how it ended.
on_terminal()
{
	"$python" - "$PROBECTL" "$target_pid" "$1" "$SCRATCH/did" <<'PYTHON'
import os, pty, signal, subprocess, sys, time
probectl, pid, how, did = sys.argv[1:]
master, slave = pty.openpty()
tracer = subprocess.Popen([probectl, "trace", "-b", "128k", "-p", pid, "loop:nop"],
                          stdin=slave, stdout=slave, stderr=subprocess.DEVNULL,
                          start_new_session=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
os.close(slave)
while not os.path.exists(did):
    time.sleep(0.05)
if how == "close":
    os.close(master)
for _ in range(600):
    if tracer.poll() is not None:
        break
    if how != "close":
        tracer.send_signal(getattr(signal, how))
    time.sleep(0.1)
else:
    print("does not end")
    tracer.kill()
print("status", tracer.wait())
PYTHON
}

for how in SIGINT SIGTERM close; do
	what="a terminal, $how"
	rm -f "$SCRATCH/did"
	busy 1
	on_terminal "$how" >"$SCRATCH/terminal" &
	terminal=$!
	wait_on "$target_pid" loop:nop
	tell go
	finished 1
	: >"$SCRATCH/did"
	wait "$terminal"
	case $(cat "$SCRATCH/terminal") in
	'status 0' | 'status 1') ;;
	*) fail "$what: $(cat "$SCRATCH/terminal")" ;;
	esac
	unharmed
done

# ---- Outputs that fail -----------------------------------------------------------------

# traced COMMAND…: runs it next to a busy target, from before its first hit; its status goes to
# $status
traced()
{
	local tracer
	rm -f "$SCRATCH/on"
	busy 1
	"$@" &
	tracer=$!
	wait_on "$target_pid" loop:nop
	: >"$SCRATCH/on"
	tell go
	finished 1
	wait "$tracer"
	status=$?
	unharmed
}

# traces ARGS…: to standard output
traces()
{
	"$PROBECTL" trace -p "$target_pid" loop:nop "$@" 2>"$SCRATCH/err"
}

# fails WORDS ARGS…: status 1, and says why; the target is as before
fails()
{
	local words=$1
	shift
	traced traces "$@"
	same "$what, $*: status" "$status" 1
	grep -q "$words" "$SCRATCH/err" || fail "$what, $*: $(cat "$SCRATCH/err")"
}

what="a full disk"
fails "No space left on device" --json -o /dev/full
fails "No space left on device" -o /dev/full
fails "No space left on device" --json >/dev/full

# cut_off WHAT: every hit that was counted is said to be in the output, or not to be
cut_off()
{
	local counted told
	counted=$(sed -n 's/.*: \([0-9]*\) hits\?, \([0-9]*\) lost.*/\1 - \2/p' "$SCRATCH/err")
	told=$(sed -n 's/.*cut off: up to \([0-9]*\) hits\? .* at least \([0-9]*\) .*/\1 + \2/p
		s/.*cut off: not all of its \([0-9]*\) hits\? .*/\1/p' "$SCRATCH/err")
	same "$1: hits that are told of" "$((told))" "$((counted))"
	((counted)) || fail "$1: $(cat "$SCRATCH/err")"
}

what="a full disk, one process"
timeout "$TEST_SECONDS" "$PROBECTL" trace -o /dev/full comer:hit -- "$TARGETS/comer" 200000 2>"$SCRATCH/err"
cut_off "$what"
# Hits of several are put in order first.
what="a full disk, two processes"
timeout "$TEST_SECONDS" "$PROBECTL" trace --follow -o /dev/full comer:hit -- \
	sh -c '"$1" 200000 & "$1" 200000; wait' sh "$TARGETS/comer" 2>"$SCRATCH/err"
cut_off "$what"
# Who reads no more has seen enough.
timeout "$TEST_SECONDS" "$PROBECTL" trace comer:hit -- "$TARGETS/comer" 200000 2>"$SCRATCH/err" | head -1 >/dev/null
! grep -q "cut off" "$SCRATCH/err" || fail "a reader that ends: $(cat "$SCRATCH/err")"

what="no standard output"
busy 1
traces >&-
same "$what: status" $? 1
grep -q "standard output" "$SCRATCH/err" || fail "$what: $(cat "$SCRATCH/err")"
tell go
finished 1
unharmed

# A file system that becomes full.
on_small_disk()
{
	# shellcheck disable=SC2016 # expanded by that shell
	unshare -m sh -c 'mount -t tmpfs -o size=64k none "$1" &&
		exec "$2" trace --json -p "$3" loop:nop -o "$1/file"' \
		sh "$SCRATCH/disk" "$PROBECTL" "$target_pid" 2>"$SCRATCH/err"
}
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	what="a disk that becomes full"
	mkdir "$SCRATCH/disk"
	traced on_small_disk
	same "$what: status" "$status" 1
	grep -q "No space left on device" "$SCRATCH/err" || fail "$what: $(cat "$SCRATCH/err")"
else
	echo "note: no file system of our own: only /dev/full is full"
fi

# Readers that close early, but not before the probes were seen enabled.
into_head()
{
	local lines=$1
	shift
	traces "$@" | {
		while [ ! -e "$SCRATCH/on" ]; do
			sleep 0.02
		done
		head -n "$lines"
	} >"$SCRATCH/out"
	echo "${PIPESTATUS[*]}" >"$SCRATCH/statuses"
}
for format in --json -q; do
	what="head, $format"
	traced into_head 3 "$format"
	same "$what: status" "$(cat "$SCRATCH/statuses")" "0 0"
	same "$what: lines" "$(wc -l <"$SCRATCH/out")" 3
done
what="count, closed"
traced into_head 1 -c -i 0.05
same "$what: status" "$(cat "$SCRATCH/statuses")" "0 0"

# What was switched is said elsewhere, if it cannot be said.
busy 1
for command in enable disable; do
	"$PROBECTL" "$command" -p "$target_pid" loop:nop >/dev/full 2>"$SCRATCH/err"
	same "$command >/dev/full: status" "$?" 1
	same "$command >/dev/full" "$(cat "$SCRATCH/err")" "probectl: cannot write which probes were ${command}d; \`probectl status\` shows what is on: No space left on device"
done
tell go
unharmed

# Output of the other commands.
for command in list status; do
	"$PROBECTL" "$command" -p $$ >/dev/full 2>"$SCRATCH/err"
	status=$?
	[ "$status" -le 1 ] || fail "$command >/dev/full: status $status"
done
for format in "" --json; do
	# shellcheck disable=SC2086 # no word, or one
	"$PROBECTL" list $format "$TARGETS/many" >/dev/full 2>"$SCRATCH/err"
	same "list $format >/dev/full: status" "$?" 1
	same "list $format >/dev/full" "$(cat "$SCRATCH/err")" \
		"probectl: cannot write the output: No space left on device"
done
"$PROBECTL" list --json "$TARGETS/many" 2>"$SCRATCH/err" | head -n 1 >/dev/null
status=${PIPESTATUS[0]}
[ "$status" = 0 ] || [ "$status" = 141 ] || fail "list | head: $(cat "$SCRATCH/err")"
finish
