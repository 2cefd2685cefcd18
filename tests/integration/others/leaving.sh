#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Another tool's breakpoint covers the jump of a probe that is off, and goes at any moment while
# repair is at work: repair has either removed all, or says what it has left.
. tests/integration/lib.sh
need_attach

loop=$TARGETS/loop
# Its jump is over the nop.
site=pun
[ "$(uname -m)" = x86_64 ] || site=entered
[ -x "$loop" ] || skip "$loop is not built"

"$loop" -p 100 -s "$site" -n 100000000 >/dev/null &
pid=$!
on_exit "end_process $pid"
until "$python" tests/integration/poke.py "$pid" changed "$loop" >/dev/null 2>&1; do
	kill -0 "$pid" || die "the program has ended"
done
save_state "$pid"

# repairs PROBECTL PID ADDRESS BYTE DELAY_US: the breakpoint goes so long after repair has begun;
# prints its exit status and what it says. Nothing runs where the breakpoint is.
cat >"$SCRATCH/repair.py" <<'PYTHON'
import os, subprocess, sys, time

probectl, pid, address, byte, delay = sys.argv[1:]
memory = os.open(f"/proc/{pid}/mem", os.O_WRONLY)
repair = subprocess.Popen([probectl, "repair", "-p", pid], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
end = time.monotonic() + int(delay) / 1e6
while time.monotonic() < end:
    pass
os.pwrite(memory, bytes.fromhex(byte), int(address, 16))
os.kill(int(pid), 18)
said = repair.communicate()[0].strip()
print(repair.returncode, said)
PYTHON

# From short steps to long ones: how long a repair takes depends on the machine.
for ((delay = 0; delay < 100000; delay += 200 + delay / 8)); do
	"$PROBECTL" enable -q -p "$pid" "loop:$site" || fail "enable"
	# shellcheck disable=SC2046
	set -- $("$python" tests/integration/poke.py "$pid" changed "$loop")
	kill -STOP "$pid"
	"$python" tests/integration/poke.py "$pid" poke "$1" "$breakpoint"
	"$PROBECTL" disable -q -p "$pid" "loop:$site" 2>/dev/null && fail "disable: it was covered"
	said=$("$python" "$SCRATCH/repair.py" "$PROBECTL" "$pid" "$1" "${3:0:${#breakpoint}}" "$delay")
	mapped=$(grep -c memfd:probectl "/proc/$pid/maps")
	case $said in
	0*"removed: 1 session"*) same "after $delay us: $said: what is mapped" "$mapped" 0 ;;
	1*"nothing removed; left as they are: 1 site") ;;
	*) fail "after $delay us: $said" ;;
	esac
	"$PROBECTL" repair -p "$pid" >/dev/null || fail "after $delay us: the second time"
	same_state "$pid"
done
finish
