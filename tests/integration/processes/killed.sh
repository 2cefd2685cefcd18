#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program that we start is killed, at any moment of its begin: probectl says so, and its exit
# status is that of the signal.
. tests/integration/lib.sh
need_attach

# Kills the child of a command some time after it is there, from 0 to 12 ms, and prints what the
# command returned and said.
cat >"$SCRATCH/kill.py" <<'PYTHON'
import os, subprocess, sys, time

number, runs, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


for run in range(runs):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    found = []
    while not found and process.poll() is None:
        found = children(process.pid)
    end = time.monotonic() + 0.012 * run / runs
    while time.monotonic() < end:
        pass
    for child in found:
        try:
            os.kill(child, number)
        except OSError:
            pass
    said = process.stderr.read().decode().strip()
    print(process.wait(), said.replace(str(found[0]) if found else "?", "PID"))
PYTHON

# killed SIGNAL NUMBER COMMAND…
killed()
{
	local signal=$1 number=$2 wrong
	shift 2
	"$python" "$SCRATCH/kill.py" "$number" 60 "$PROBECTL" "$@" 'loop:*' -- \
		"$TARGETS/loop" -n 100000000 >"$SCRATCH/said" 2>"$SCRATCH/why" ||
		fail "$1: $(cat "$SCRATCH/why")"
	wrong=$(grep -vE "^$((128 + number)) (|probectl: .* was killed by SIG$signal before .*)\$" \
		"$SCRATCH/said" | sort | uniq -c)
	same "$* killed by SIG$signal" "$wrong" ""
}
killed KILL 9 trace -q -c -o /dev/null
killed KILL 9 run
killed ALRM 14 trace -q -c -o /dev/null
killed ALRM 14 run
finish
