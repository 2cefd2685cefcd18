#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A stub keeps the arithmetic flags, unless the code after its site overwrites them: so does the
# stub of a second session, which finds the site patched.
. tests/integration/lib.sh
[ "$(uname -m)" = x86_64 ] || skip "stubs keep the flags here, whatever follows their sites"

# flags_at PID PROBE: what the first stub at its only site does with the flags
flags_at()
{
	PYTHONPATH=tests/integration "$python" - "$@" <<'PYTHON'
import struct, sys
import state
pid, probe = sys.argv[1:]
site = next(bias + note[3] for _, bias, elf in state.modules(pid) for note in elf.notes()
            if f"{note[0]}:{note[1]}" == probe)
with open(f"/proc/{pid}/mem", "rb") as memory:
    memory.seek(site)
    nop, jump, distance = struct.unpack("<BBi", memory.read(6))
    if (nop, jump) != (0x90, 0xe9):
        sys.exit(f"{nop:#x} {jump:#x} at the site")
    memory.seek(site + 6 + distance)
    stub = memory.read(10)
if stub[:6] != bytes.fromhex("488d64248050"):  # lea -128(%rsp),%rsp; push %rax
    sys.exit(f"no stub: {stub.hex()}")
print("kept" if stub[6:] == bytes.fromhex("9f0f90c0") else "free")  # lahf; seto %al
PYTHON
}

# expect PROBE WHAT PROGRAM…: what the stubs at a probe of the program do
expect()
{
	local probe=$1 what=$2 how
	shift 2
	start "$@"
	save_state "$target_pid"
	for how in --count --json; do
		trace_start "first" "$how" --plan behind -p "$target_pid" "$probe"
		wait_on "$target_pid" "$probe"
		same "$probe, $how" "$(flags_at "$target_pid" "$probe")" "$what"
		"$PROBECTL" enable -q -t count -p "$target_pid" "$probe" || fail "a second session"
		same "$probe, $how, second session" "$(flags_at "$target_pid" "$probe")" "$what"
		"$PROBECTL" disable -q -p "$target_pid" "$probe" || fail "the second session stays"
		trace_stop "first"
	done
	same_state "$target_pid"
}

# moves follow, and pushf
expect preserve:hit kept "$TARGETS/preserve" 16
tell bye
end_target

# cmp and jne follow
expect loop:nop free "$TARGETS/loop" -s nop -n 1000 -b
tell go
end_target
finish
