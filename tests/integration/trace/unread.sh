#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
# Standard error or standard output is a full pipe that nobody reads. Probes go off nevertheless, at
# the time limit or at a signal. Messages are dropped and counted. Only data waits for a reader,
# until a signal ends that wait.
. tests/integration/lib.sh
need_attach

start "$TARGETS/loop" -s nop -n 1000000 -b -a
save_state "$target_pid"

# unread STREAM HOW COMMAND…: runs COMMAND with a full pipe as STREAM (stderr, stdout, both). Prints
# its state, and whether probes are on, after it should have ended; then the same after INT and
# after TERM; then the messages that the pipe yields when it is read.
unread()
{
	"$python" - "$PROBECTL" "$target_pid" "$@" <<'PYTHON'
import fcntl, os, signal, subprocess, sys, time
probectl, pid, stream, how, *command = sys.argv[1:]
read_end, write_end = os.pipe()
fcntl.fcntl(write_end, fcntl.F_SETFL, os.O_NONBLOCK)
filled = 0
for size in (4096, 1):
    try:
        while True:
            filled += os.write(write_end, b"x" * size)
    except BlockingIOError:
        pass
fcntl.fcntl(write_end, fcntl.F_SETFL, 0)
tracer = subprocess.Popen([probectl] + command + ["-p", pid, "loop:nop"],
    stdout=write_end if stream != "stderr" else subprocess.DEVNULL,
    stderr=write_end if stream != "stdout" else subprocess.DEVNULL,
    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
os.close(write_end)

def on():
    with open("/proc/%s/maps" % pid) as maps:
        return "memfd:probectl" in maps.read()

def until(what):
    end = time.monotonic() + 30
    while not what() and time.monotonic() < end:
        time.sleep(0.01)
    return what()

def state():
    return ("runs" if tracer.poll() is None else "ended") + (" on" if on() else " off")

until(lambda: on() or tracer.poll() is not None)
if how == "signal":
    tracer.send_signal(signal.SIGINT)
until(lambda: not on())
print(state().split()[1], end=" ")
if stream != "stderr" and command[0] != "record":
    # The tracer waits for its reader.
    tracer.send_signal(signal.SIGINT if how == "limit" else signal.SIGTERM)
until(lambda: tracer.poll() is not None)
print(state())
tracer.kill()
PYTHON
}

# check STREAM COMMAND…: with a time limit, and ended by a signal
check()
{
	rm -rf "$SCRATCH/record"
	same "$1, ${*:2} -d" "$(unread "$1" limit "${@:2}" -d 300ms)" 'off ended off'
	rm -rf "$SCRATCH/record"
	same "$*" "$(unread "$1" signal "${@:2}")" 'off ended off'
}

for stream in stderr stdout; do
	check $stream trace
	check $stream trace -c
	check $stream trace --json
	check $stream record -o "$SCRATCH/record"
	check $stream top -i 0.1
done
check both trace
check both record -o "$SCRATCH/record"

# Commands without an event loop end by themselves, or at a signal.
for command in status list; do
	same "$command" "$(unread stderr limit $command)" 'off ended off'
done
same_state "$target_pid"

tell go
hear
hear
same_state "$target_pid"
tell bye
end_target 0
finish
