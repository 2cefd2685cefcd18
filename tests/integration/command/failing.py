#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs commands of probectl, and makes each of their requests for memory, descriptors
or processes fail in turn (tests/torture/failing.c).

usage: failing.py LIBRARY TARGET_PID FOLDER KIND STRIDE START [COMMAND...]

KIND is memory, descriptors or processes; with a `-` after it, all requests from the Nth on
fail. START is the first N, STRIDE its increment. A COMMAND is a name of COMMANDS; default: all.
Each time the command must end by itself, either with success or with status 1 and a reason; the
target must be alive, and as before except for what was enabled. Prints every violation, and the
number of tries; status 1 if there was any.
"""
import os
import re
import shutil
import subprocess
import sys

PROBECTL = os.environ["PROBECTL"]
TARGETS = os.environ["TARGETS"]
SECONDS = int(os.environ["TEST_SECONDS"])
PROBE = "loop:pair*"
SITE = "loop:*"
LOOP = ["--", f"{TARGETS}/loop", "-s", "pair", "-n", "100", "-r", "1"]

# name: (arguments, setup commands, whether what it enables stays)
COMMANDS = {
    "list": (["list", "{file}"], [], False),
    "list-v": (["list", "-v", "{file}"], [], False),
    "list-vv": (["list", "-vv", "{file}"], [], False),
    "list-json": (["list", "--json", "{file}"], [], False),
    "list-p": (["list", "-p", "{pid}"], [], False),
    "list-vv-p": (["list", "-vv", "-p", "{pid}"], [], False),
    "status": (["status", "-p", "{pid}"], [["enable", "-p", "{pid}", PROBE]], True),
    "enable": (["enable", "-p", "{pid}", SITE], [], True),
    "enable-t": (["enable", "-t", "hist,arg1", "-k", "arg0", "-p", "{pid}", PROBE], [], True),
    "disable": (["disable", "-p", "{pid}", PROBE], [["enable", "-p", "{pid}", PROBE]], True),
    "read": (["read", "-p", "{pid}"],
             [["enable", "-t", "hist,arg1", "-p", "{pid}", PROBE]], True),
    "repair": (["repair", "-p", "{pid}"], [], False),
    "run": (["run", "-e", PROBE, *LOOP], [], False),
    "trace": (["trace", "-d", "5ms", "-p", "{pid}", SITE], [], False),
    "trace-json": (["trace", "--json", "-s", "8", "-d", "5ms", "-o", "{dir}/out",
                    "-p", "{pid}", PROBE], [], False),
    "trace-c": (["trace", "-c", "-d", "5ms", "--follow", "-p", "{pid}", PROBE], [], False),
    "trace-hist": (["trace", "-t", "hist,arg1", "-k", "arg0 % 4", "-f", "arg0 > 3",
                    "-d", "5ms", "-p", "{pid}", PROBE], [], False),
    "trace-latency": (["trace", "-t", "latency", "--pairs", "auto", "-d", "5ms", "-p", "{pid}",
                       PROBE], [], False),
    "trace-metrics": (["trace", "--listen", ":0", "-t", "metrics,latency", "-k", "arg0 % 4", "--pairs", "auto",
                       "-i", "2ms", "-d", "5ms", "-p", "{pid}", PROBE], [], False),
    "trace-stack": (["trace", "-t", "stack", "-d", "5ms", "-p", "{pid}", PROBE], [], False),
    "trace-run": (["trace", "-o", "/dev/null", PROBE, *LOOP], [], False),
    "record": (["record", "-o", "{dir}/record", "-d", "5ms", "-p", "{pid}", PROBE], [], False),
    "record-run": (["record", "-o", "{dir}/record", PROBE, *LOOP], [], False),
    "top": (["top", "-i", "0.01", "-d", "0.02", "-p", "{pid}", PROBE], [], False),
    "top-run": (["top", "-i", "0.01", PROBE, *LOOP], [], False),
    "report": (["report", "{record}"], [], False),
    "report-json": (["report", "--json", "-k", "arg0", "-"], [], False),
    "report-html": (["report", "--html", "{dir}/page.html", "{record}"], [], False),
    "export-json": (["export", "-F", "json", "{record}"], [], False),
    "export-csv": (["export", "-F", "csv", "-o", "{dir}/out", "{record}"], [], False),
    "export-folded": (["export", "-F", "folded", "-"], [], False),
    "export-trace": (["export", "-F", "trace-event", "{record}"], [], False),
}


def is_the_loaders(status, error):
    """Without memory for a library's thread-local variables the dynamic loader ends the program."""
    return status == 127 and "thread-local" in error


class Target:
    """A process, and what its text is."""

    def __init__(self, pid):
        self.pid = pid
        self.before = self.text()

    def text(self):
        found = {}
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as maps, \
                open(f"/proc/{self.pid}/mem", "rb", 0) as memory:
            for line in maps:
                fields = line.rstrip("\n").split(None, 5)
                if "x" in fields[1] and len(fields) == 6 and fields[5].startswith("/"):
                    start, end = (int(part, 16) for part in fields[0].split("-"))
                    memory.seek(start)
                    found[start] = memory.read(end - start)
        return found

    def is_alive(self):
        try:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] not in "ZXTt"
        except OSError:
            return False

    def leftovers(self):
        """What is not as it was, in words; empty: nothing."""
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as maps:
            mapped = sum("memfd:probectl" in line for line in maps)
        if mapped:
            return f"{mapped} mappings are left"
        for number in os.listdir(f"/proc/{self.pid}/fd"):
            if "memfd:probectl" in os.readlink(f"/proc/{self.pid}/fd/{number}"):
                return "a descriptor is left"
        return "" if self.text() == self.before else "its text is not as it was"


class Runner:
    def __init__(self, library, pid, folder, kind):
        self.library, self.folder, self.kind = library, folder, kind
        self.all_behind = kind.endswith("-")
        self.target = Target(pid)
        self.words = {"{pid}": str(pid), "{dir}": folder, "{file}": f"{TARGETS}/loop",
                      "{record}": f"{folder}/before", "{hits}": f"{folder}/hits.json"}
        self.tried = self.wrong = 0
        self.plain(["record", "-q", "-o", "{record}", "-n", "20", "-p", "{pid}", PROBE])
        self.plain(["trace", "-q", "--json", "-o", "{hits}", "-n", "20", "-p", "{pid}", PROBE])

    def fill(self, arguments):
        return [re.sub(r"\{\w+\}", lambda match: self.words[match[0]], word)
                for word in arguments]

    def plain(self, arguments, wanted=True):
        done = subprocess.run([PROBECTL, *self.fill(arguments)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if wanted and done.returncode:
            sys.exit(f"FAIL: {' '.join(arguments)}: {done.stderr.decode()}")

    def clean(self):
        """Takes away what was enabled."""
        self.plain(["disable", "--force", "-p", "{pid}", "loop:*"], False)
        for name in ("record", "out", "page.html"):
            path = f"{self.folder}/{name}"
            shutil.rmtree(path, True)
            if os.path.exists(path):
                os.unlink(path)

    def complain(self, name, number, what):
        call = "nothing"
        if os.path.exists(f"{self.folder}/failed"):
            with open(f"{self.folder}/failed", encoding="utf-8") as file:
                call = file.read().split()[0]
        self.wrong += 1
        print(f"FAIL: {name}, {self.kind} {number} ({call}): {what}", flush=True)

    def check(self, name, number, status, error):
        if status is None:
            self.complain(name, number, f"does not end within {SECONDS} s")
        elif is_the_loaders(status, error):
            pass
        elif status < 0 or status > 125:
            self.complain(name, number, f"ends with {status}: {error[-200:]}")
        elif status not in (0, 1):
            self.complain(name, number, f"status {status}: {error[-200:]}")
        elif status and not error.strip() and self.kind != "descriptors-":
            self.complain(name, number, "fails without a word")
        if not self.target.is_alive():
            self.complain(name, number, "the target is dead, or stopped")
            sys.exit(1)

    def check_target(self, name, number, stays, ended_at_once):
        """What a command leaves that could undo nothing, the next command undoes."""
        if stays or ended_at_once:
            self.clean()
        left = self.target.leftovers()
        if left and ended_at_once:
            self.plain(["repair", "-p", "{pid}"])
            left = self.target.leftovers()
        if left:
            self.complain(name, number, left)
            self.plain(["repair", "-p", "{pid}"], False)
            self.clean()

    def once(self, name, number):
        """One request fails. False: the command made fewer."""
        arguments, setup, stays = COMMANDS[name]
        failed = f"{self.folder}/failed"
        for command in setup:
            self.plain(command)
        if os.path.exists(failed):
            os.unlink(failed)
        kind = f"{self.kind.rstrip('-')}:{number}{'-' if self.all_behind else ''}"
        stdin = self.words["{hits}"] if "-" in arguments else os.devnull
        process = subprocess.Popen(
            [PROBECTL, *self.fill(arguments)], stdin=open(stdin, "rb"),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
            env={**os.environ, "LD_PRELOAD": self.library, "PROBECTL_FAIL": kind,
                 "PROBECTL_FAILED": failed})
        try:
            error = process.communicate(timeout=SECONDS)[1].decode(errors="replace")
            status = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            status, error = None, ""
        there = os.path.exists(failed)
        if there:
            self.tried += 1
            self.check(name, number, status, error)
        elif status:
            self.complain(name, number, f"nothing failed, and yet: status {status}: {error}")
        self.check_target(name, number, stays, self.all_behind or is_the_loaders(status, error))
        if not stays:
            self.clean_files()
        return there

    def clean_files(self):
        for name in ("record", "out", "page.html"):
            path = f"{self.folder}/{name}"
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.exists(path):
                os.unlink(path)


def main(arguments):
    if len(arguments) < 7:
        sys.exit(__doc__)
    library, pid, folder, kind, stride, start, *names = arguments[1:]
    runner = Runner(library, int(pid), folder, kind)
    for name in names or COMMANDS:
        number, tried = int(start), runner.tried
        while runner.once(name, number):
            number += int(stride)
        if os.environ.get("VERBOSE"):
            print(name, runner.tried - tried, "of up to", number, flush=True)
    print(f"{kind}: {runner.tried} failed, {runner.wrong} wrong")
    return 1 if runner.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
