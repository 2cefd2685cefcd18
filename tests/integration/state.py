#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks for the tests whether a process is as before.

usage: state.py save PID FILE       stores the text and the semaphores
       state.py compare PID FILE    prints the differences; status 1 if there are any
       state.py wait PID PROBE [S]  waits until a site of PROBE is patched
       state.py hash PID            prints a sum of the text
       state.py semaphores PID      prints "PATH PROVIDER:NAME ADDRESS VALUE"
       state.py sites PATH          prints "PROVIDER:NAME ADDRESS OFFSET"
       state.py functions PATH MOST prints "NAME OFFSET" of functions that are chosen at random

The text is every executable mapping of a file, byte for byte, and the last page of each that is
only read: what follows a segment there belongs to nobody, and is used by controllers. The semaphores are those
named by the stapsdt notes of the mapped files. It has its own reader of notes, so that an
error of the tool under test cannot hide itself.
"""
import hashlib
import os
import pickle
import random
import re
import struct
import sys
import time


PAGE = 4096


def maps(pid):
    """The file mappings: (start, end, permissions, offset, inode, path)."""
    found = []
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) == 6 and fields[5].startswith("/"):
                start, end = (int(part, 16) for part in fields[0].split("-"))
                found.append((start, end, fields[1], int(fields[2], 16), fields[4], fields[5]))
    return found


class Elf:
    """What the tests need of a 64-bit little-endian ELF file."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no 64-bit little-endian ELF file")
        (self.type,) = struct.unpack_from("<H", self.data, 16)
        phoff, shoff = struct.unpack_from("<QQ", self.data, 32)
        phentsize, phnum, shentsize, shnum, shstrndx = struct.unpack_from("<5H", self.data, 54)
        self.loads = []
        for i in range(phnum):
            kind, _, offset, vaddr, _, filesz = struct.unpack_from(
                "<IIQQQQ", self.data, phoff + i * phentsize)
            if kind == 1:
                self.loads.append((vaddr, offset, filesz))
        self.sections = []
        links = {}
        for i in range(shnum if shoff else 0):
            name, kind, _, addr, offset, size, link = struct.unpack_from(
                "<IIQQQQI", self.data, shoff + i * shentsize)
            self.sections.append((name, kind, addr, offset, size))
            links[offset] = link
        # By a section's offset, that of the strings it uses.
        self.links = {offset: self.sections[link][3] for offset, link in links.items()
                      if link < len(self.sections)}
        strings = self.sections[shstrndx][3] if self.sections else 0
        self.sections = [
            (self.data[strings + s[0]:self.data.index(b"\0", strings + s[0])].decode(), *s[1:])
            for s in self.sections]

    def notes(self):
        """(provider, name, args, pc, semaphore), link-time addresses."""
        base_now = next((s[2] for s in self.sections if s[0] == ".stapsdt.base"), 0)
        for name, kind, _, offset, size in self.sections:
            if kind != 7 or name != ".note.stapsdt":
                continue
            at, end = offset, offset + size
            while at + 12 <= end:
                namesz, descsz, _ = struct.unpack_from("<III", self.data, at)
                body = at + 12 + (namesz + 3 & ~3)
                pc, base, semaphore = struct.unpack_from("<QQQ", self.data, body)
                texts = self.data[body + 24:body + descsz].split(b"\0")
                delta = base_now - base if base_now and base else 0
                yield (*(text.decode() for text in texts[:3]),
                       pc + delta if pc else 0, semaphore + delta if semaphore else 0)
                at = body + (descsz + 3 & ~3)

    def functions(self):
        """(name, address) of functions whose names are those of C, and mean one address."""
        found = {}
        for _, kind, _, offset, size in self.sections:
            if kind not in (2, 11):
                continue
            strings = self.links[offset]
            for at in range(offset, offset + size, 24):
                name, info, _, _, value, length = struct.unpack_from("<IBBHQQ", self.data, at)
                if info & 15 != 2 or not value or not length:
                    continue
                end = self.data.index(b"\0", strings + name)
                text = self.data[strings + name:end].decode("utf-8", "replace")
                if re.fullmatch(r"[A-Za-z_]\w*", text):
                    found.setdefault(text, set()).add(value)
        return [(name, next(iter(values))) for name, values in sorted(found.items())
                if len(values) == 1]

    def offset_of(self, address):
        for vaddr, offset, filesz in self.loads:
            if vaddr <= address < vaddr + filesz:
                return address - vaddr + offset
        return None


def file_of(pid, path, inode):
    """Where a mapped file can be opened: one of memfd_create(2) has no path."""
    if path.startswith("/memfd:"):
        for number in os.listdir(f"/proc/{pid}/fd"):
            name = f"/proc/{pid}/fd/{number}"
            if os.readlink(name) == path and str(os.stat(name).st_ino) == inode:
                return name
    return f"/proc/{pid}/root{path}"


def modules(pid):
    """(path, bias, Elf) of every mapped ELF file with notes."""
    seen = set()
    for start, _, _, offset, inode, path in maps(pid):
        if (path, inode) in seen or offset:
            continue
        seen.add((path, inode))
        try:
            elf = Elf(file_of(pid, path, inode))
        except (OSError, ValueError, struct.error):
            continue
        if any(True for _ in elf.notes()):
            first = min(elf.loads)[0] & ~0xfff
            yield path, start - first if elf.type == 3 else 0, elf


def semaphores(pid):
    found = {}
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for path, bias, elf in modules(pid):
            for provider, name, _, _, semaphore in elf.notes():
                if not semaphore:
                    continue
                memory.seek(semaphore + bias)
                # OCaml's semaphores are two u16; the other is then compared as well.
                size = 4 if provider.startswith("ocaml") else 2
                value = int.from_bytes(memory.read(size), "little")
                found[(path, f"{provider}:{name}", semaphore + bias)] = value
    return found


def text(pid):
    found = []
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for start, end, permissions, _, _, path in maps(pid):
            if "x" in permissions:
                memory.seek(start)
                found.append((start, path, memory.read(end - start)))
    return found


def tails(pid):
    found = []
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for start, end, permissions, _, _, path in maps(pid):
            if permissions != "r--p":
                continue
            memory.seek(end - PAGE)
            try:
                found.append((start, path, end - PAGE, memory.read(PAGE)))
            except OSError:
                pass  # behind the end of the file
    return found


def compare(pid, before):
    """Prints the differences; returns how many there are."""
    wrong = 0
    now = {(start, path) for start, _, _, _, _, path in maps(pid)}
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        pieces = [(start, path, start, old) for start, path, old in before["text"]]
        for start, path, at, old in pieces + before["tails"]:
            if (start, path) not in now:
                continue  # the program closed that library
            memory.seek(at)
            new = memory.read(len(old))
            if new == old:
                continue
            places = [i for i in range(len(old)) if i >= len(new) or old[i] != new[i]]
            wrong += 1
            print(f"{path}: {len(places)} bytes of text differ, the first at "
                  f"{at + places[0]:#x}: was {old[places[0]:places[0] + 8].hex()}, "
                  f"is {new[places[0]:places[0] + 8].hex()}")
        current = semaphores(pid)
        for key, value in before["semaphores"].items():
            if key in current and current[key] != value:
                wrong += 1
                print(f"{key[0]}: the semaphore of {key[1]} at {key[2]:#x} was {value}, "
                      f"is {current[key]}")
    return wrong


# Bytes from a site on in which its patch lies: behind a nop of ten bytes, at most.
PATCH = 16


def wait(pid, probe, seconds):
    sites = []
    for _, bias, elf in modules(pid):
        for provider, name, _, pc, _ in elf.notes():
            offset = elf.offset_of(pc)
            if probe == f"{provider}:{name}" and offset is not None:
                sites.append((pc + bias, elf.data[offset:offset + PATCH]))
    end = time.monotonic() + seconds
    while sites and time.monotonic() < end:
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for address, original in sites:
                memory.seek(address)
                if memory.read(PATCH) != original:
                    return True
        time.sleep(0.005)
    return False


def main(arguments):
    command = arguments[1] if len(arguments) > 2 else ""
    if command == "save":
        state = {"text": text(arguments[2]), "tails": tails(arguments[2]),
                 "semaphores": semaphores(arguments[2])}
        with open(arguments[3], "wb") as file:
            pickle.dump(state, file)
        return 0
    if command == "compare":
        with open(arguments[3], "rb") as file:
            return 1 if compare(arguments[2], pickle.load(file)) else 0
    if command == "wait":
        seconds = float(arguments[4]) if len(arguments) > 4 else 10
        return 0 if wait(arguments[2], arguments[3], seconds) else 1
    if command == "hash":
        total = hashlib.sha256()
        for start, path, content in text(arguments[2]):
            total.update(f"{path} {start} {len(content)}\n".encode() + content)
        print(total.hexdigest())
        return 0
    if command == "semaphores":
        for (path, probe, address), value in semaphores(arguments[2]).items():
            print(path, probe, hex(address), value)
        return 0
    if command == "sites":
        elf = Elf(arguments[2])
        for provider, name, _, pc, _ in elf.notes():
            print(f"{provider}:{name}", hex(pc), hex(elf.offset_of(pc) or 0))
        return 0
    if command == "functions":
        elf = Elf(arguments[2])
        functions = elf.functions()
        random.shuffle(functions)
        for name, address in functions[:int(arguments[3])]:
            print(name, hex(elf.offset_of(address) or 0))
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv))
