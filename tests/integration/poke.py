#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads and writes a process's memory as another tool would, without stopping it.

usage: poke.py PID changed PATH              prints "ADDRESS FILE'S-BYTES MEMORY'S-BYTES" of
                                             each place in the code that is not as in the file
       poke.py PID peek ADDRESS LENGTH       prints the bytes as hexadecimal digits
       poke.py PID poke ADDRESS HEX          writes them, in one write
"""
import os
import sys

# Where instructions have one length, those that differ are told as wholes.
UNIT = 4 if os.uname().machine == "aarch64" else 1
NEAR = 8  # bytes that are the same between two that are not, within one patch


def changed(pid, path):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            fields = line.split()
            if len(fields) < 6 or fields[5] != path or "x" not in fields[1]:
                continue
            start, end = (int(x, 16) for x in fields[0].split("-"))
            with open(path, "rb") as file:
                file.seek(int(fields[2], 16))
                wanted = file.read(end - start)
            memory.seek(start)
            found = memory.read(end - start)
            runs = []
            for at in (i for i in range(len(wanted)) if wanted[i] != found[i]):
                if runs and at - runs[-1][1] < NEAR:
                    runs[-1][1] = at
                else:
                    runs.append([at, at])
            for first, last in runs:
                first -= first % UNIT
                last += UNIT - 1 - last % UNIT
                print(f"{start + first:#x} {wanted[first:last + 1].hex()} "
                      f"{found[first:last + 1].hex()}")


def main():
    pid, action, place = sys.argv[1:4]
    if action == "changed":
        changed(pid, place)
        return
    with open(f"/proc/{pid}/mem", "r+b", 0) as memory:
        memory.seek(int(place, 16))
        if action == "peek":
            print(memory.read(int(sys.argv[4])).hex())
        else:
            memory.write(bytes.fromhex(sys.argv[4]))


main()
