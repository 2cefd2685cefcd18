# SPDX-License-Identifier: MIT
"""together.py PROBECTL TARGET SECONDS SEED: several controllers, each with its own tracer,
on one probe; each starts and stops at random while the target is working.

The target hits in rounds that this script requests. If a controller starts and stops between
rounds, its result is known exactly; if it does so within a round, only by bounds. Prints what
was done; status 1 and a line for each error.
"""
import json
import random
import signal
import subprocess
import sys
import time

THREADS = 4
TRACERS = [
    ["-t", "count"],
    ["-t", "hist,arg1"],
    ["-t", "count", "-k", "arg0"],
    ["-t", "sum,arg2", "-f", "arg0 == 1"],
    ["-t", "count", "-f", "arg1 % 2"],
]


class Target:
    def __init__(self, path):
        self.process = subprocess.Popen(
            [path, str(THREADS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.pid = int(self.process.stdout.readline().split()[1])
        self.rounds = []  # hits of each thread

    def tell(self, hits):
        self.process.stdin.write(f"{hits}\n")
        self.rounds.append(hits)

    def hear(self):
        did = self.process.stdout.readline()
        if did != f"did {self.rounds[-1] * THREADS}\n":
            raise SystemExit(f"the target answers {did!r} to {self.rounds[-1]}")

    def text(self):
        """The bytes of its code."""
        code = b""
        with open(f"/proc/{self.pid}/maps") as maps, open(f"/proc/{self.pid}/mem", "rb") as memory:
            for line in maps:
                words = line.split()
                if "x" in words[1] and words[-1].endswith("/hits"):
                    start, end = (int(word, 16) for word in words[0].split("-"))
                    memory.seek(start)
                    code += memory.read(end - start)
        return code


def seen(options, rounds):
    """(hits, sum) of these rounds for a tracer."""
    hits = total = 0
    for count in rounds:
        if "arg0 == 1" in options:
            hits += count
            total += 3 * count * (count - 1) // 2
        elif "arg1 % 2" in options:
            hits += THREADS * (count // 2)
        else:
            hits += THREADS * count
            total += THREADS * count * (count - 1) // 2
    return hits, total


class Controller:
    def __init__(self, probectl, target, options, in_round):
        self.options = options
        self.process = subprocess.Popen(
            [probectl, "trace", "--json", *options, "-p", str(target.pid), "hits:work"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stderr.readline()
        if not line.startswith("probectl: tracing 1 probe"):
            raise SystemExit(f"{options}: {line}")
        # The round that runs at its start counts for some part.
        self.first = len(target.rounds)
        self.partly = target.rounds[-1:] if in_round else []

    def stop(self, target, in_round, wrong):
        last = len(target.rounds) - (1 if in_round else 0)
        if in_round and last >= self.first:
            self.partly = self.partly + target.rounds[-1:]
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate()
        rows = [row for row in map(json.loads, out.splitlines()) if row.get("name") == "work"]
        hits = sum(row.get("count", row.get("hits", 0)) for row in rows)
        low, low_sum = seen(self.options, target.rounds[self.first : last])
        more, _ = seen(self.options, self.partly)
        if self.process.returncode != 0 or not low <= hits <= low + more or '"lost"' in out:
            wrong.append(f"{self.options}: {hits} hits, wanted {low} to {low + more}: {err.strip()}")
        if not self.partly and "sum" in (rows[0] if rows else {}) and low:
            total = sum(row["sum"] for row in rows)
            if total != low_sum:
                wrong.append(f"{self.options}: a sum of {total}, wanted {low_sum}")
        if "arg0" in self.options and not self.partly and low:
            counts = [row.get("count", row.get("hits")) for row in rows]
            if counts != [low // THREADS] * THREADS:
                wrong.append(f"{self.options}: {counts} by thread, wanted {low // THREADS} each")


def main():
    probectl, path, seconds, seed = sys.argv[1:]
    random.seed(int(seed))
    target = Target(path)
    before = target.text()
    controllers, wrong, changes = [], [], 0
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end and not wrong:
        in_round = random.random() < 0.5
        if in_round:
            target.tell(random.randrange(100000, 1000000))
        for _ in range(random.randrange(1, 3)):
            changes += 1
            if len(controllers) < 2 or (len(controllers) < 4 and random.random() < 0.4):
                options = random.choice(TRACERS)
                controllers.append(Controller(probectl, target, options, in_round))
            else:
                index = random.randrange(len(controllers))
                controllers.pop(index).stop(target, in_round, wrong)
        if in_round:
            target.hear()
        if random.random() < 0.7:
            target.tell(random.randrange(1, 50000))
            target.hear()
    while controllers:
        controllers.pop().stop(target, False, wrong)
    if target.text() != before:
        wrong.append("the target's code is not as it was")
    target.process.stdin.close()
    if target.process.wait() != 0:
        wrong.append(f"the target ended with {target.process.returncode}")
    print(f"{changes} starts and stops in {len(target.rounds)} rounds of {sum(target.rounds) * THREADS} hits")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
