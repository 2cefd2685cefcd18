# SPDX-License-Identifier: MIT
"""What OCaml's own tool does with a process, as its library does it (ocaml-probes, probes_lib.ml
and stubs.c): a count for each name, and one byte at each site, without any of ours.

usage: ocaml_probes.py enable|disable|state PID NAME...

`state` prints NAME=COUNT/BYTES for each name, where BYTES has a + for a site whose handler is
called, and a - for one whose handler is not. A byte that is neither is an error, as there."""

import re
import subprocess
import sys

CMP, CALL = 0x3D, 0xE8


class Probe:
    def __init__(self):
        self.sites, self.counts = set(), set()


def read_notes(path):
    text = subprocess.run(
        ["readelf", "-nW", path], capture_output=True, text=True, check=True
    ).stdout
    probes = {}
    pattern = r"Provider: (\S+)\s+Name: (\S+)\s+Location: (\S+), Base: \S+, Semaphore: (\S+)"
    for provider, name, site, semaphore in re.findall(pattern, text):
        probe = probes.setdefault(name, Probe())
        if int(site, 16):
            probe.sites.add(int(site, 16) + 1)
        # Only the first version of the protocol has no count of its own.
        probe.counts.add(int(semaphore, 16) + (0 if provider == "ocaml" else 2))
    return probes


def bias_of(pid, path):
    header = subprocess.run(["readelf", "-hW", path], capture_output=True, text=True, check=True)
    if "EXEC" in header.stdout:
        return 0
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return min(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(path))


class Process:
    def __init__(self, pid):
        path = subprocess.run(
            ["readlink", f"/proc/{pid}/exe"], capture_output=True, text=True, check=True
        ).stdout.strip()
        self.memory = open(f"/proc/{pid}/mem", "r+b", buffering=0)
        self.bias = bias_of(pid, path)
        self.probes = read_notes(path)

    def read(self, address, length):
        self.memory.seek(self.bias + address)
        return int.from_bytes(self.memory.read(length), "little")

    def write(self, address, length, value):
        self.memory.seek(self.bias + address)
        self.memory.write(value.to_bytes(length, "little"))

    def is_on(self, site):
        byte = self.read(site, 1)
        if byte not in (CMP, CALL):
            sys.exit(f"unexpected instruction {byte:#x} at {site:#x}")
        return byte == CALL

    def switch(self, name, by):
        probe = self.probes[name]
        before = self.read(min(probe.counts), 2)
        after = before + by
        if not 0 <= after <= 0xFFFF:
            sys.exit(f"{name}: the count would be {after}")
        for count in probe.counts:
            self.write(count, 2, after)
        if (before > 0) == (after > 0):
            return
        for site in probe.sites:
            if self.is_on(site) != (after > 0):
                self.write(site, 1, CALL if after else CMP)

    def state(self, name):
        probe = self.probes[name]
        sites = "".join("+" if self.is_on(site) else "-" for site in sorted(probe.sites))
        return f"{name}={self.read(min(probe.counts), 2)}/{sites}"


def main():
    action, pid, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    process = Process(pid)
    for name in names:
        if action != "state":
            process.switch(name, 1 if action == "enable" else -1)
    print(" ".join(process.state(name) for name in names))


main()
