# SPDX-License-Identifier: MIT
"""chaos.py PROBECTL SECONDS SEED WORKERS SCRATCH TARGET...: controllers that start, end, stall
and are killed at random, on many programs at once.

A TARGET is NAME=PID=OPTIONS=PROBES: a running process, options for commands that switch its
probes, and the probes, both separated by commas. A NAME that ends with + is a server whose
children are traced, too.

Each worker runs one command after another. Half of them are killed, some are stopped for a
while. Some start a program (children, pipelines), which must end by itself whatever happens to
its controller. As root, kernel uprobes are put on the probes and removed meanwhile.

Prints what was done as "N commands, N killed ..."; status 1, and a line for each program that
was harmed: one that has ended, does not run, or did not finish.
"""
import os
import random
import signal
import subprocess
import sys
import threading
import time

TRACES = [
    ["-c"],
    ["-o", "/dev/null"],
    ["-t", "hist,tid", "-k", "cpu"],
    ["-t", "ring"],
    ["-t", "stack,frames"],
    ["-c", "-f", "cpu < 64"],
]
EVENTS = "/sys/kernel/tracing/uprobe_events"
FINISH_SECONDS = 60  # a program of a few children, on a machine that is busy
SETTLE_SECONDS = 60


class Target:
    def __init__(self, text):
        name, pid, options, probes = text.split("=", 3)
        self.is_server = name.endswith("+")
        self.name = name.rstrip("+")
        self.pid = int(pid)
        self.options = options.split(",") if options else []
        self.probes = probes.split(",")

    def state(self):
        """The letter of proc(5); empty when it is gone."""
        try:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8", errors="replace") as file:
                return file.read().rpartition(")")[2].split()[0]
        except OSError:
            return ""

    def is_alive(self):
        return self.state() not in ("", "Z", "X")


class Uprobe:
    """A kernel uprobe at a site of a file; on and off."""

    def __init__(self, number, path, offset):
        self.event = f"probectl_chaos/u{os.getpid()}_{number}"
        self.place = f"{path}:{offset:#x}"
        self.is_on = False

    @staticmethod
    def _write(path, text):
        # Not open(): it calls lseek(2), after which tracefs takes no write.
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)

    def switch(self):
        enable = f"/sys/kernel/tracing/events/{self.event}/enable"
        if self.is_on:
            self._write(enable, "0")
            self._write(EVENTS, f"-:{self.event}\n")
        else:
            self._write(EVENTS, f"p:{self.event} {self.place}\n")
            self._write(enable, "1")
        self.is_on = not self.is_on


class Chaos:
    def __init__(self, probectl, seconds, scratch, targets):
        self.probectl = probectl
        self.end = time.monotonic() + seconds
        self.scratch = scratch
        self.targets = targets
        self.lock = threading.Lock()
        self.counts = dict.fromkeys(
            ["commands", "killed", "stopped", "failed", "started", "uprobes"], 0)
        self.complaints = {}
        self.wrong = []

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def goes_on(self):
        return time.monotonic() < self.end and not self.wrong

    def harmed(self, what):
        with self.lock:
            self.wrong.append(what)

    def command(self, random_, target, number):
        """The words of a random command for a target."""
        where = ["-p", str(target.pid)]
        switch = [*target.options, *where, *target.probes]
        whole = switch
        if target.is_server:
            children = ["--children", str(target.pid), "--follow"]
            whole = [*target.options, *children, *target.probes]
        kind = random_.random()
        if kind < 0.55:
            seconds = f"{random_.choice([1, 3, 10, 50, 200])}ms"
            return ["trace", "-q", *random_.choice(TRACES), "-d", seconds, *whole]
        if kind < 0.65:
            folder = f"{self.scratch}/record.{number}"
            return ["record", "-q", "-o", folder, "-d", "20ms", *whole]
        if kind < 0.75:
            return ["enable", *switch]
        if kind < 0.85:
            return ["disable", "--force", "--keep-going", *where, *target.probes]
        if kind < 0.92:
            return ["repair", *where]
        return ["status", *where]

    def meddle(self, random_, process):
        """Kills a command, stops it for a while, or does neither."""
        chance = random_.random()
        if chance < 0.5:
            time.sleep(random_.random() ** 2 * 0.4)
            if process.poll() is None:
                process.kill()
                self.count("killed")
        elif chance < 0.55:
            time.sleep(random_.random() * 0.1)
            if process.poll() is None:
                process.send_signal(signal.SIGSTOP)
                time.sleep(random_.random() * 0.5)
                process.send_signal(signal.SIGCONT)
                self.count("stopped")

    def attack(self, random_, number):
        target = random_.choice(self.targets)
        words = self.command(random_, target, number)
        process = subprocess.Popen(
            [self.probectl, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors="replace")
        self.count("commands")
        self.meddle(random_, process)
        try:
            said = process.communicate(timeout=FINISH_SECONDS)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.harmed(f"{target.name}: no end of: probectl {' '.join(words)}")
            return
        if process.returncode not in (0, -signal.SIGKILL):
            self.count("failed")
            self.complaints[(said.strip().splitlines() or ["?"])[-1][:160]] = words[0]
        if process.returncode < 0 and process.returncode != -signal.SIGKILL:
            self.harmed(f"probectl ended by signal {-process.returncode}: {' '.join(words)}")
        if not target.is_alive():
            self.harmed(f"{target.name} ({target.pid}) is dead after: {' '.join(words)}")

    def launch(self, random_, number):
        """A program that starts others, under a controller that may be killed."""
        begun, done = f"{self.scratch}/begun.{number}", f"{self.scratch}/done.{number}"
        script = random_.choice([
            "/bin/true & /bin/true; wait",
            "for i in 1 2 3 4 5; do /bin/true & done; wait",
            "/bin/echo a | /bin/cat | /bin/cat >/dev/null",
            "for i in 1 2 3 4 5; do /bin/true; done",
        ])
        process = subprocess.Popen(
            [self.probectl, "trace", "-q", "-c", "libc:*", "--", "/bin/sh", "-c",
             f": >{begun}; {script}; echo $? >{done}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.count("started")
        self.meddle(random_, process)
        killed = process.wait() == -signal.SIGKILL
        until = time.monotonic() + FINISH_SECONDS
        # A controller killed early may not have started the program.
        while not os.path.exists(done) and time.monotonic() < until:
            if killed and not os.path.exists(begun):
                return
            time.sleep(0.05)
        if not os.path.exists(done):
            self.harmed(f"a program that was traced did not end: {script}")

    def work(self, seed, base):
        random_ = random.Random(seed)
        number = base
        while self.goes_on():
            number += 1
            if random_.random() < 0.1:
                self.launch(random_, number)
            else:
                self.attack(random_, number)

    def probe_kernel(self, seed, uprobes):
        random_ = random.Random(seed)
        try:
            while self.goes_on():
                random_.choice(uprobes).switch()
                self.count("uprobes")
                time.sleep(random_.random() * 0.3)
        finally:
            for uprobe in uprobes:
                if uprobe.is_on:
                    uprobe.switch()

    def settle(self):
        """All probes are off; no target is stopped or traced, or has anything of ours."""
        for target in self.targets:
            where = ["-p", str(target.pid)]
            until = time.monotonic() + SETTLE_SECONDS
            left = "?"
            while left and target.is_alive() and time.monotonic() < until:
                subprocess.run(
                    [self.probectl, "disable", "--force", "--keep-going", *where, *target.probes],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, check=False)
                said = subprocess.run(
                    [self.probectl, "repair", *where], stdin=subprocess.DEVNULL,
                    capture_output=True, text=True, errors="replace", check=False)
                left = self.left_in(target.pid)
                if left:
                    left += f"; repair: {(said.stdout + said.stderr).strip()}"
                    time.sleep(0.2)
            state = target.state()
            if state in ("", "Z", "X", "T", "t") or left:
                self.harmed(f"{target.name} ({target.pid}): state {state or 'gone'}; {left}")

    @staticmethod
    def left_in(pid):
        """What a process still has of ours."""
        try:
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
                mappings = sum("memfd:probectl" in line for line in file)
            with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
                tracer = [line.split()[1] for line in file if line.startswith("TracerPid:")][0]
        except OSError as error:
            return str(error)
        found = [f"{mappings} mappings"] if mappings else []
        found += [f"tracer {tracer}"] if tracer != "0" else []
        return ", ".join(found)


def uprobes_of(targets):
    """A uprobe at the first sites of each target's program, where the kernel lets us."""
    if not os.access(EVENTS, os.W_OK):
        return []
    found = []
    for target in targets:
        path = os.readlink(f"/proc/{target.pid}/exe")
        lines = subprocess.run(
            [sys.executable, "tests/integration/state.py", "sites", path],
            capture_output=True, text=True, check=False).stdout.splitlines()
        for line in lines[:3]:
            found.append(Uprobe(len(found), path, int(line.split()[-1], 0)))
    return found


def main():
    probectl, seconds, seed, workers, scratch = sys.argv[1:6]
    targets = [Target(text) for text in sys.argv[6:]]
    chaos = Chaos(probectl, float(seconds), scratch, targets)
    threads = [
        threading.Thread(target=chaos.work, args=(f"{seed}/{i}", 1000000 * (i + 1)))
        for i in range(int(workers))]
    uprobes = uprobes_of(targets)
    if uprobes:
        threads.append(threading.Thread(
            target=chaos.probe_kernel, args=(f"{seed}/kernel", uprobes)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chaos.settle()
    print(", ".join(f"{count} {what}" for what, count in chaos.counts.items()))
    for complaint, command in sorted(chaos.complaints.items()):
        print(f"note: {command}: {complaint}")
    for line in chaos.wrong:
        print(f"HARMED: {line}")
    return bool(chaos.wrong)


sys.exit(main())
