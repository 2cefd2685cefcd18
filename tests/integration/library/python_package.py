# SPDX-License-Identifier: MIT
"""The Python package on tests/targets. python_package.sh runs it."""
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import probectl
from probectl import abi

TARGETS, SCRATCH = os.environ["TARGETS"], os.environ["SCRATCH"]
HEADERS = ("catalogue", "hit", "list", "processes", "table", "target", "trace", "tracer")


def code_of(pid):
    """What the process's program has mapped as code."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            start, end, flags = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            if "x" in flags and (f"{TARGETS}/" in line or f"{SCRATCH}/" in line):
                memory.seek(int(start, 16))
                yield memory.read(int(end, 16) - int(start, 16))


class Layouts(unittest.TestCase):
    def test_c_compiler(self):
        """Sizes and offsets of all structs, and constants, are those of the headers."""
        checks = []
        for name, struct in vars(abi).items():
            if not isinstance(struct, type) or not issubclass(struct, abi.Structure):
                continue
            if name in ("Structure", "ConditionValues"):
                continue
            name = "probe" + re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name)
            checks.append((f"sizeof(struct {name})", abi.ctypes.sizeof(struct)))
            for field, *_ in struct._fields_:
                if field == "_number":
                    continue
                member = getattr(struct, field)
                checks.append((f"offsetof(struct {name}, {field})", member.offset))
                checks.append((f"sizeof(((struct {name} *)0)->{field})", member.size))
        checks += [(f"offsetof(struct probe_value, {n})", abi.Value.i.offset) for n in "iuf"]
        for name in dir(abi):
            if re.match("(VALUE|SESSION|TRACE_|TRACER|CONDITION|ORDER|STACK|KEYS|ARGS|PLAN|BUCKETS|COVER)", name):
                checks.append((f"PROBE_{name}", getattr(abi, name)))
        checks += [(f"PROBE_ERROR_{code.name}", code.value) for code in probectl.ErrorCode]
        source = os.path.join(SCRATCH, "layouts.c")
        with open(source, "w") as file:
            file.write("#include <stddef.h>\n")
            file.writelines(f"#include <probe/{name}.h>\n" for name in HEADERS)
            for text, number in checks:
                file.write(f'_Static_assert({text} == {number}, "{text} is not {number}");\n')
        command = [os.environ.get("CC", "cc").split()[-1], "-std=gnu11", "-fsyntax-only"]
        done = subprocess.run(
            command + ["-Ilibprobe/include", source], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(checks), 300)


class OnTarget(unittest.TestCase):
    program = ("hits", "2")

    def setUp(self):
        self.target = subprocess.Popen(
            [os.path.join(TARGETS, self.program[0]), *self.program[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.target.stdout.readline()
        self.pid = self.target.pid
        self.code = list(code_of(self.pid))
        self.assertTrue(self.code)

    def tearDown(self):
        """The target is alive, and its code as it was."""
        self.assertIsNone(self.target.poll())
        self.assertEqual(list(code_of(self.pid)), self.code)
        self.target.stdin.close()
        self.assertEqual(self.target.wait(), 0)
        self.target.stdout.close()

    def hit(self, count):
        self.target.stdin.write(f"{count}\n")
        self.target.stdin.flush()
        return self.target.stdout.readline()

    def run_python(self, text, **options):
        """Starts a Python of its own with this session; its first line is "on"."""
        lines = f"import os, sys, time, probectl\ns = probectl.Session({self.pid}, ['hits:work'])\n"
        process = subprocess.Popen(
            [sys.executable, "-c", lines + "print('on', flush=True)\n" + text],
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )
        self.addCleanup(process.kill)
        return process


class Lists(OnTarget):
    def test_both(self):
        path = os.path.join(TARGETS, "hits")
        (site,) = probectl.list(path)
        self.assertEqual((site.provider, site.name, site.path), ("hits", "work", path))
        self.assertEqual([arg.size for arg in site.args], [4, 8, 8])
        self.assertEqual((site.pid, site.enabled, site.plan), (0, None, "none"))
        with probectl.Session(self.pid, ["hits:work"]):
            (site,) = [s for s in probectl.list(self.pid) if s.provider == "hits"]
            self.assertTrue(site.enabled)
            self.assertEqual((site.pid, site.refcount), (self.pid, 1))

    def test_malformed(self):
        with self.assertRaises(probectl.ProbeError) as caught:
            probectl.list("Makefile")
        self.assertEqual(caught.exception.code, probectl.ErrorCode.FORMAT)
        with self.assertRaises(probectl.ProbeError) as caught:
            probectl.list("/nowhere")
        self.assertEqual(caught.exception.code, probectl.ErrorCode.NOT_FOUND)


class Hits(OnTarget):
    def test_all_arrive(self):
        with probectl.Session(self.pid, ["hits:work"]) as session:
            self.hit(1000)
            hits = list(session.hits(timeout=1))
            self.assertEqual(len(hits), 2000)
            self.assertEqual(sum(hit.args[2] for hit in hits), 2 * 3 * 499500)
            self.assertEqual({hit.pid for hit in hits}, {self.pid})
            self.assertEqual(session.probes[0].hits, 2000)
            self.assertEqual((session.lost, session.damaged, session.refusals), (0, 0, ()))

    def test_the_rest_comes_next(self):
        with probectl.Session(self.pid, ["hits:work"]) as session:
            self.hit(500)
            first = list(itertools.islice(session, 10))
            session.stop()
            self.assertEqual(list(code_of(self.pid)), self.code)
            self.assertEqual(len(first) + len(list(session)), 1000)

    def test_filter_and_capture(self):
        with probectl.Session(self.pid, ["hits:work(arg1)"], filter="arg1 > 997") as session:
            self.hit(1000)
            self.assertEqual(
                sorted(hit.args for hit in session.hits(timeout=0.5)),
                [(998,), (998,), (999,), (999,)],
            )

    def test_losses_are_counted(self):
        with probectl.Session(self.pid, ["hits:work"], ring_bytes=4096) as session:
            self.hit(100000)
            count = sum(1 for _ in session.hits(timeout=2))
            self.assertGreater(session.lost, 0)
            self.assertEqual(count + session.lost, 200000)

    def test_hits_wait(self):
        with probectl.Session(
            self.pid, ["hits:work"], ring_bytes=4096, wait_ns=10**9
        ) as session:
            self.hit(20000)
            session.stop()
            self.assertEqual((sum(1 for _ in session), session.lost), (40000, 0))
        with self.assertRaisesRegex(probectl.ProbeError, "for a second at most"):
            probectl.Session(self.pid, ["hits:work"], wait_ns=10**9 + 1)

    def test_slow_reader(self):
        """What nobody reads stays in the process, and then is lost, and counted."""
        with probectl.Session(self.pid, ["hits:work"]) as session:
            self.hit(150000)
            session.stop()
            self.assertGreater(session.lost, 0)
            self.assertEqual(sum(1 for _ in session) + session.lost, 300000)

    def test_libraries(self):
        """One that is opened later is probed before anything of it runs."""
        text = "import ctypes, sys; input(); ctypes.CDLL(sys.argv[1]).late_pass(); print(); input()"
        with subprocess.Popen(
            [sys.executable, "-c", text, os.path.join(TARGETS, "liblate.so")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as target:
            with probectl.Session(
                target.pid, ["late:*"], tracer="count", follow_libraries=True
            ) as session:
                target.stdin.write("\n")
                target.stdin.flush()
                start = time.monotonic()
                target.stdout.readline()
                # Not waiting for us until it gives up.
                self.assertLess(time.monotonic() - start, 5)
                rows = {row.name: row.count for row in session.table().rows}
            self.assertEqual(rows["whole"], 1)
            target.stdin.write("\n")

    def test_until_the_process_ends(self):
        other = subprocess.Popen(
            [os.path.join(TARGETS, "hits"), "1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with other, probectl.Session(other.pid, ["hits:work"]) as session:
            other.stdout.readline()
            other.stdin.write("100\n")
            other.stdin.close()
            self.assertEqual(sum(1 for _ in session), 100)

    def test_threads(self):
        """Several threads read the same session: each hit comes once."""
        found = []
        with probectl.Session(self.pid, ["hits:work"]) as session:
            threads = [
                threading.Thread(target=lambda: found.extend(session.hits(timeout=1)))
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for _ in range(20):
                self.hit(100)
            for thread in threads:
                thread.join()
        self.assertEqual(len(found), 4000)
        self.assertEqual(len({(hit.tid, hit.time_ns, hit.args) for hit in found}), 4000)

    def test_an_exception_of_a_signal_loses_nothing(self):
        class Alarm(Exception):
            pass

        def handler(*_):
            raise Alarm

        before = signal.signal(signal.SIGALRM, handler)
        interrupted = count = 0
        with probectl.Session(self.pid, ["hits:work"]) as session:
            writer = threading.Thread(target=self.hit, args=(20000,))
            writer.start()
            end = time.monotonic() + 1
            while time.monotonic() < end:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0003)
                    while True:
                        session.probes
                except Alarm:
                    interrupted += 1
            signal.signal(signal.SIGALRM, before)
            writer.join()
            session.stop()
            count = sum(1 for _ in session)
        self.assertEqual(count, 40000)
        self.assertGreater(interrupted, 10)


class Tables(OnTarget):
    def test_count(self):
        with probectl.Session(self.pid, ["hits:work"], tracer="count") as session:
            self.hit(1000)
            table = session.table()
        (row,) = table.rows
        self.assertEqual((row.provider, row.name, row.count), ("hits", "work", 2000))
        self.assertEqual((row.sum, row.average, row.percentiles, row.keys), (None, None, {}, ()))
        self.assertEqual((table.lost, row.not_counted), (0, ""))

    def test_histogram_by_key(self):
        with probectl.Session(
            self.pid, ["hits:work"], tracer="hist,arg1", key=["arg0", "arg1 & 1"]
        ) as session:
            self.hit(1000)
            session.stop()
            rows = session.table(percentiles=(50,)).rows
        self.assertEqual(sorted(row.keys for row in rows), [(0, 0), (0, 1), (1, 0), (1, 1)])
        for row in rows:
            odd = row.keys[1]
            self.assertEqual((row.count, row.sum), (500, 249500 + 500 * odd))
            self.assertEqual((row.min, row.max), (odd, 998 + odd))
            self.assertEqual(row.average, 499 + odd)
            self.assertAlmostEqual(row.percentiles[50], 499, delta=10)
            self.assertEqual(sum(bucket.count for bucket in row.buckets), 500)

    def test_sums_are_exact(self):
        """A float would round this sum, and a signed number is below 0."""
        for value, wanted in (("arg1 * 0 + 4503599627370497", 5), ("0 - 7", 3)):
            with probectl.Session(self.pid, ["hits:work"], tracer=f"sum,{value}") as session:
                self.hit(wanted)
                (row,) = session.table().rows
            self.assertEqual(row.sum, 2 * wanted * (-7 if wanted == 3 else 4503599627370497))
            self.assertEqual(row.count, 2 * wanted)


class Pairs(OnTarget):
    program = ("naps", "8")

    def test_latency_and_spans(self):
        probes = ["naps:nap__start", "naps:nap__done"]
        with probectl.Session(self.pid, probes, tracer="latency") as table, probectl.Session(
            self.pid, probes, tracer="span", stack=""
        ) as spans:
            self.hit("go")
            spans = list(spans.hits(timeout=1))
            (row,) = table.table().rows
        self.assertEqual(row.begin, "naps:nap__start")
        self.assertEqual(row.count, len(spans))
        self.assertGreater(row.count, 0)
        # The longest naps take milliseconds.
        self.assertGreaterEqual(row.max, 1000000)
        self.assertGreaterEqual(max(span.duration_ns for span in spans), 1000000)
        for span in spans:
            self.assertEqual((span.name, span.begin.name), ("nap__done", "nap__start"))
            self.assertIn("nap", [frame.symbol for frame in span.stack])

    def test_function(self):
        """One function is a pair."""
        with probectl.Session(self.pid, ["fn:naps:nap"], tracer="span") as spans:
            self.hit("go")
            spans = list(spans.hits(timeout=1))
        self.assertGreater(len(spans), 0)
        for span in spans:
            self.assertEqual((span.name, span.begin.name), ("nap:return", "nap"))


class Traces(OnTarget):
    # A copy: other tests have processes of the target, too.
    path = os.path.join(SCRATCH, "hits")
    program = (path, "2")

    @classmethod
    def setUpClass(cls):
        shutil.copy(os.path.join(TARGETS, "hits"), cls.path)

    def setUp(self):
        super().setUp()
        self.other = self.start()

    def tearDown(self):
        self.end(self.other)
        super().tearDown()

    def start(self):
        process = subprocess.Popen(
            [self.path, "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        return process

    def end(self, process, count=0):
        """Lets a process hit its probe, and ends it."""
        process.communicate(f"{count}\n" if count else "", timeout=60)
        self.assertEqual(process.returncode, 0)

    def test_processes_of_a_program(self):
        with probectl.Trace(["hits:work"], exe=self.path) as trace:
            self.assertEqual(trace.processes, tuple(sorted((self.pid, self.other.pid))))
            self.hit(500)
            self.end(self.other, 500)
            hits = list(trace.hits(timeout=1))
            self.assertEqual(trace.processes, (self.pid,))
            self.assertEqual([probe.hits for probe in trace.probes], [1500])
            self.assertEqual((trace.lost, trace.damaged, trace.refusals), (0, 0, ()))
        self.assertEqual(len(hits), 1500)
        self.assertEqual(sum(hit.pid == self.pid for hit in hits), 1000)
        self.assertEqual([hit.time_ns for hit in hits], sorted(hit.time_ns for hit in hits))

    def test_processes_that_come_later(self):
        with probectl.Trace(
            ["hits:work"], name="hits", children=os.getpid(), later=True, tracer="count"
        ) as trace:
            late = self.start()
            while late.pid not in trace.processes:
                time.sleep(0.01)
            self.end(late, 100)
            self.hit(50)
            while late.pid in trace.processes:
                time.sleep(0.01)
            self.assertEqual(sum(row.count for row in trace.table().rows), 200)
            trace.stop()
            self.assertEqual(trace.processes, ())
            self.assertEqual(sum(row.count for row in trace.table().rows), 200)

    def test_only_processes_that_come_later(self):
        with probectl.Trace(
            ["hits:work"], children=os.getpid(), only_later=True, tracer="count"
        ) as trace:
            self.assertEqual(trace.processes, ())
            late = self.start()
            while late.pid not in trace.processes:
                time.sleep(0.01)
            self.assertNotIn(self.pid, trace.processes)
            self.hit(50)
            self.end(late, 100)
            while late.pid in trace.processes:
                time.sleep(0.01)
            self.assertEqual(sum(row.count for row in trace.table().rows), 100)
        with self.assertRaisesRegex(probectl.ProbeError, "only processes that come later are meant"):
            probectl.Trace(["hits:work"], pids=self.pid, only_later=True)

    @unittest.skipIf(os.getuid() == 0, "root holds programs until they can be traced")
    def test_a_process_ends_before_its_probes_are_on(self):
        with tempfile.TemporaryDirectory() as folder:
            never = os.path.join(folder, "never.so")
            os.mkfifo(never)
            for _ in range(20):  # a busy machine may not see it at all
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    with probectl.Trace(["hits:work"], exe=self.path, later=True) as trace:
                        comer = subprocess.Popen(
                            [self.path, "1"], env={**os.environ, "LD_PRELOAD": never}
                        )
                        for _ in range(50):
                            self.assertNotIn(comer.pid, trace.processes)
                            time.sleep(0.01)
                        comer.kill()
                        comer.wait()
                if said:
                    break
        self.assertEqual([w.category for w in said], [probectl.ProbeWarning])
        self.assertIn("1 process that came had ended before", str(said[0].message))

    def test_a_program_is_started(self):
        script = f"echo 7 | {self.path} 1 >/dev/null; echo 3 | {self.path} 1 >/dev/null; exit 4"
        with probectl.Trace(
            ["hits:work"], command=["sh", "-c", script], follow=True
        ) as trace:
            self.assertEqual(len(list(trace)), 10)
            while trace.returncode is None:
                time.sleep(0.01)
            self.assertEqual(trace.returncode, 4)

    def test_errors(self):
        gone = self.start()
        self.end(gone)
        for options, code in (
            ({"command": ["/nowhere"]}, "SYSTEM"),
            ({"command": ["true"]}, "NOT_FOUND"),
            ({"pids": gone.pid}, "NOT_FOUND"),
            ({"name": "no such process"}, "NOT_FOUND"),
        ):
            with self.assertRaises(probectl.ProbeError) as caught:
                probectl.Trace(["hits:work"], **options)
            self.assertEqual(caught.exception.code.name, code)
        with self.assertRaisesRegex(ValueError, "no process"):
            probectl.Trace(["hits:work"])
        with self.assertWarnsRegex(probectl.ProbeWarning, f"process {gone.pid}"):
            with probectl.Trace(["hits:work"], pids=[gone.pid, self.pid]) as trace:
                self.assertEqual(trace.processes, (self.pid,))
        with self.assertRaisesRegex(ValueError, "closed"):
            trace.processes


class Ends(OnTarget):
    def test_exceptions(self):
        with self.assertRaises(ZeroDivisionError):
            with probectl.Session(self.pid, ["hits:work"]) as session:
                raise ZeroDivisionError
        session.close()
        self.assertEqual(list(session), [])
        with self.assertRaisesRegex(ValueError, "closed"):
            session.lost

    def test_errors(self):
        for probes, options, code, text in (
            (["hits:wrok"], {}, "NOT_FOUND", "the nearest: hits:work"),
            (["a:b("], {}, "USAGE", "column 4"),
            (["hits:work"], {"filter": "arg9"}, "USAGE", "there is no arg9"),
            (["hits:work"], {"tracer": "sums"}, "USAGE", "sum"),
        ):
            with self.assertRaisesRegex(probectl.ProbeError, text) as caught:
                probectl.Session(self.pid, probes, **options)
            self.assertEqual(caught.exception.code.name, code)
        for options in ({"tracer": "ring"}, {"key": ["tid"] * 5}, {"filter": "a\0"}):
            with self.assertRaises(ValueError):
                probectl.Session(self.pid, ["hits:work"], **options)
        with self.assertRaises(TypeError):
            probectl.Session(self.pid, "hits:work")
        # Another process's number, for C.
        for function in (probectl.list, lambda pid: probectl.Session(pid, ["hits:work"])):
            with self.assertRaises(OverflowError):
                function((1 << 32) + self.pid)

    def test_forgotten(self):
        session = probectl.Session(self.pid, ["hits:work"])
        self.assertNotEqual(list(code_of(self.pid)), self.code)
        del session
        self.assertEqual(list(code_of(self.pid)), self.code)

    def test_interpreter_exit(self):
        """Without close(): by its end, by an exception, by Ctrl-C, by sys.exit()."""
        for text, status in (("", 0), ("1 / 0", 1), ("sys.exit(3)", 3)):
            process = self.run_python(text, stderr=subprocess.DEVNULL)
            self.assertEqual(process.communicate(timeout=60)[0], "on\n")
            self.assertEqual(process.returncode, status)
            self.assertEqual(list(code_of(self.pid)), self.code)
        process = self.run_python("for hit in s: pass", stderr=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), "on\n")
        self.assertNotEqual(list(code_of(self.pid)), self.code)
        process.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", process.communicate(timeout=60)[1])
        self.assertEqual(list(code_of(self.pid)), self.code)

    def test_killed(self):
        """The next controller restores what a killed one has left."""
        process = self.run_python("time.sleep(100)")
        process.stdout.readline()
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual(self.hit(10), "did 20\n")
        with probectl.Session(self.pid, ["hits:work"]) as session:
            self.hit(10)
            self.assertEqual(len(list(session.hits(timeout=0.5))), 20)

    def test_forked_child(self):
        """A child neither uses nor ends the session of its parent."""
        process = self.run_python(
            "if not os.fork():\n"
            " try: list(s.hits(timeout=0))\n"
            " except RuntimeError as error: print(error, flush=True)\n"
            " s.close(); sys.exit()\n"
            "os.wait()\n"
            "print(probectl.list(%d)[0].enabled, flush=True)" % self.pid
        )
        self.assertEqual(
            process.communicate(timeout=60)[0].splitlines(),
            ["on", "a forked child cannot use a session of its parent: start its own", "True"],
        )


if __name__ == "__main__":
    unittest.main()
