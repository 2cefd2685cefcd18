#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Traces all functions of programs that are generated from seeds, and compares every entry, every
return and every returned value with what the program itself says.

The functions call each other directly, by pointers and in tails, recurse, switch, loop from their
first instruction on, jump out by longjmp(3), throw, and switch stacks in the middle; stacks are used
again. The seed also chooses the compiler and its options. A call is noted by its caller, so the
functions have nothing of the test in them.

usage: functions.py PROBECTL FOLDER SEED [COUNT]
"""

import collections
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

PREFIX = "zz"
WORD = 1 << 64
OPEN_MAX = 128  # begins of a pair that a thread keeps open; older ones make room for them

HEAD = r"""
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

typedef long long i64;
#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noipa))
#endif

enum { DEPTH = 200, CHAIN = 40, STACKS = 4, STACK_BYTES = 16 << 20 };
static struct { unsigned long entries, returns, sum; } figures[FUNCTIONS];
struct frame { int functions[CHAIN], count; };
struct shadow {
	struct frame frames[DEPTH];
	int top, catchers, depth;
	jmp_buf *target;
	ucontext_t context;
	int has_ended;
};
static struct shadow shadows[STACKS + 1], *self = &shadows[STACKS];
static ucontext_t scheduler;
static char stacks[STACKS][STACK_BYTES] __attribute__((aligned(16)));
static i64 fuel;
static unsigned long state = SEED;
volatile i64 sink;

static unsigned long any(unsigned long n)
{
	state = state * 6364136223846793005ul + 1442695040888963407ul;
	return (state >> 33) % n;
}

static void enter(int function)
{
	struct frame *frame = &self->frames[self->top++];

	frame->count = 1;
	frame->functions[0] = function;
	figures[function].entries++;
}

static void leave(unsigned long value)
{
	struct frame *frame = &self->frames[--self->top];

	for (int i = 0; i < frame->count; i++) {
		figures[frame->functions[i]].returns++;
		figures[frame->functions[i]].sum += value;
	}
}

/* A tail call: both functions return with the frame. */
static void tail(int function)
{
	struct frame *frame = &self->frames[self->top - 1];

	frame->functions[frame->count++] = function;
	figures[function].entries++;
}

static int may_call(void)
{
	return fuel-- > 0 && self->top < DEPTH - 2;
}

static int may_tail(void)
{
	return fuel-- > 0 && self->frames[self->top - 1].count < CHAIN - 1;
}

static unsigned long bits(double value)
{
	unsigned long ret;

	memcpy(&ret, &value, 8);
	return ret;
}

#define CALL(i, value) ({ enter(i); i64 r_ = (value); leave((unsigned long)r_); r_; })
#define CALL32(i, value) ({ enter(i); int r_ = (value); leave((unsigned int)r_); (i64)r_; })
#define CALLD(i, value) ({ enter(i); double r_ = (value); leave(bits(r_)); (i64)r_; })
#define CALLV(i, value) ({ enter(i); value; leave(0); (i64)1; })

static void yield(void)
{
	struct shadow *mine = self;

	if (mine != &shadows[STACKS])
		swapcontext(&mine->context, &scheduler);
	__asm__ volatile(""); /* no tail call: a jump to another file would be an end */
}
"""

TAIL = r"""
static void first(void)
{
	struct shadow *mine = self;

	while (fuel > 0)
		sink += root();
	mine->has_ended = 1;
	swapcontext(&mine->context, &scheduler);
}

static void anew(int i)
{
	struct shadow *its = &shadows[i];

	its->top = its->catchers = its->has_ended = 0;
	its->target = NULL;
	getcontext(&its->context);
	its->context.uc_stack.ss_sp = stacks[i];
	its->context.uc_stack.ss_size = STACK_BYTES;
	its->context.uc_link = NULL;
	makecontext(&its->context, first, 0);
}

int main(void)
{
	char line[16];

	alarm(300);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	fuel = FUEL;
	while (fuel > FUEL / 2)
		sink += root();
	for (int i = 0; i < STACKS; i++)
		anew(i);
	for (int ended = 0; ended < STACKS;) {
		int i = (int)any(STACKS);

		if (shadows[i].has_ended) {
			ended++;
			shadows[i].has_ended = 0;
			anew(i);
			continue;
		}
		self = &shadows[i];
		swapcontext(&scheduler, &shadows[i].context);
		if (any(23) == 0)
			anew(i); /* the calls on that stack never return */
	}
	for (int i = 0; i < FUNCTIONS; i++)
		printf("%d %lu %lu %lu\n", i, figures[i].entries, figures[i].returns, figures[i].sum);
	puts("end");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	return 0;
}
"""


class Function:
    def __init__(self, number, rng, is_cpp):
        self.number = number
        self.kind = rng.choice(["i64"] * 6 + ["int", "double", "void"])
        self.count = rng.randrange(0, 9)
        self.name = "%s%d" % (PREFIX, number)
        self.is_static = rng.random() < 0.4
        self.is_cpp = is_cpp
        self.tails = []
        self.leaves_file = False  # by a tail call: then its result is unknown

    def may_leave_file(self, seen=()):
        return self.leaves_file or any(
            g.may_leave_file(seen + (self,)) for g in self.tails if g not in seen)

    def head(self):
        args = ", ".join("i64 a%d" % i for i in range(self.count)) or "void"
        return "%sNOINLINE %s %s(%s)" % (
            "static " if self.is_static else "", self.kind, self.name, args)


class Program:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.seed = seed
        self.is_cpp = self.rng.random() < 0.5
        self.functions = [
            Function(i, self.rng, self.is_cpp) for i in range(self.rng.randrange(10, 28))]

    def value(self, f):
        return self.rng.choice(
            ["a%d" % i for i in range(f.count)] + ["x", "x", "(i64)(%d)" % self.rng.randrange(100)]
        )

    def arguments(self, f, callee):
        return ", ".join(self.value(f) for _ in range(callee.count))

    def call(self, f, callee, by_pointer=False):
        macro = {"i64": "CALL", "int": "CALL32", "double": "CALLD", "void": "CALLV"}[callee.kind]
        name = callee.name
        if by_pointer:
            args = ", ".join("i64" for _ in range(callee.count)) or "void"
            name = "((%s (*)(%s))pointers[%d])" % (callee.kind, args, callee.number)
        return "%s(%d, %s(%s))" % (macro, callee.number, name, self.arguments(f, callee))

    def statement(self, f, depth=0):
        rng = self.rng
        any_function = rng.choice(self.functions)
        what = rng.randrange(15)
        if what < 4:
            return "if (may_call()) x += %s;" % self.call(f, any_function)
        if what == 4:
            return "if (may_call()) x += %s;" % self.call(f, any_function, True)
        if what == 5:
            return "x = x * %d + %s;" % (rng.randrange(1, 99), self.value(f))
        if what == 6:
            return "{ volatile char room[%d]; room[(unsigned long)x %% %d] = room[0] = 1; sink += room[0]; }" % (
                (size := rng.choice([16, 100, 1000, 5000])), size)
        if what == 7 and depth < 2:
            cases = "".join(
                " case %d: %s break;" % (i, self.statement(f, depth + 1))
                for i in range(rng.randrange(4, 9)))
            return "switch ((unsigned long)x %% 9) {%s default: x ^= 5; }" % cases
        if what == 8 and depth < 2:
            return "for (int i = 0; i < %d; i++) { %s }" % (
                rng.randrange(1, 4), self.statement(f, depth + 1))
        if what == 9:
            return "if (self->target && any(9) == 0) longjmp(*self->target, 1);"
        if what == 10 and f.is_cpp:
            return "if (self->catchers && any(9) == 0) throw 1;"
        inner = "if (may_call()) x += %s;" % self.call(f, any_function, rng.random() < 0.3)
        if what == 11:
            return ("{ volatile int top = self->top, catchers = self->catchers; jmp_buf here; "
                    "jmp_buf *volatile target = self->target; "
                    "if (setjmp(here) == 0) { self->target = &here; %s } "
                    "self->top = top; self->catchers = catchers; self->target = target; }" % inner)
        if what == 12 and f.is_cpp:
            return ("{ int top = self->top, catchers = self->catchers++; "
                    "jmp_buf *target = self->target; try { %s } catch (int) { x += 3; } "
                    "self->top = top; self->catchers = catchers; self->target = target; }" % inner)
        if what == 13:
            return "if (any(5) == 0) yield();"
        if f.kind == "void":
            return "if (any(6) == 0) return;"
        return "if (any(6) == 0) return (%s)x;" % f.kind

    def body(self, f):
        rng = self.rng
        first = self.value(f) if f.count else "sink"
        if rng.random() < 0.12:  # loops from the first instruction on
            return ("\tdo { sink++; } while (--fuel > 0 && any(3));\n" if rng.random() < 0.5 else
                    "\twhile (sink & 1) sink = (unsigned long)sink >> 1;\n") + (
                        "" if f.kind == "void" else "\treturn (%s)sink;\n" % f.kind)
        text = "\ti64 x = %s;\n\n" % (first if first != "x" else "7")
        text += '\t__asm__ volatile("" : "+r"(x)); /* no compiler knows the result */\n'
        if rng.random() < 0.1:
            text += "\tif (any(4)) return%s;\n" % ("" if f.kind == "void" else " (%s)x" % f.kind)
        for _ in range(rng.randrange(0, 6)):
            text += "\t%s\n" % self.statement(f)
        others = [
            g for g in self.functions if g.kind == f.kind and g.count <= 6 and g is not f]
        if others and rng.random() < 0.45:
            for _ in range(rng.randrange(1, 3)):
                g = rng.choice(others)
                f.tails.append(g)
                callee = g.name if rng.random() < 0.9 else "((%s (*)(%s))pointers[%d])" % (
                    g.kind, ", ".join("i64" for _ in range(g.count)) or "void", g.number)
                text += "\tif (%smay_tail()) { tail(%d); %s%s(%s)%s }\n" % (
                    "any(2) && " if rng.random() < 0.5 else "", g.number,
                    "" if f.kind == "void" else "return ", callee, self.arguments(f, g),
                    "; return;" if f.kind == "void" else ";")
        elif rng.random() < 0.15 and f.kind == "i64":
            f.leaves_file = True
            return text + '\treturn labs(atol("12"));\n' if rng.random() < 0.5 else \
                text + '\treturn atol("12");\n'
        return text + ("" if f.kind == "void" else "\treturn (%s)x;\n" % f.kind)

    def source(self):
        text = "#define FUNCTIONS %d\n#define SEED %dul\n#define FUEL %d\n" % (
            len(self.functions), self.seed * 7919 + 1, 6000)
        text += HEAD + "\n"
        text += "".join("%s;\n" % f.head() for f in self.functions)
        text += "void *volatile pointers[] = {%s};\n\n" % ", ".join(
            "(void *)%s" % f.name for f in self.functions)
        for f in self.functions:
            text += "%s\n{\n%s}\n\n" % (f.head(), self.body(f))
        f = Function(0, random.Random(1), False)
        f.count = 0
        text += "static NOINLINE i64 root(void)\n{\n\ti64 x = (i64)any(1000);\n\n"
        text += "\tswitch (any(%d)) {\n" % len(self.functions)
        for g in self.functions:
            text += "\tcase %d: if (may_call()) x = %s; break;\n" % (g.number, self.call(f, g))
        return text + "\t}\n\treturn x;\n}\n" + TAIL

    def command(self, source, program):
        rng = self.rng
        clang = shutil.which("clang++" if self.is_cpp else "clang")
        compiler = "g++" if self.is_cpp else "gcc"
        if clang and rng.random() < 0.3:
            compiler = clang
        options = ["-w", "-O%d" % rng.randrange(4), "-o", program, source]
        for option, share in (
            ("-fcf-protection=full", 0.4), ("-fno-plt", 0.3), ("-g", 0.5), ("-flto", 0.2),
            ("-fno-omit-frame-pointer", 0.3), ("-fno-pie", 0.2), ("-march=x86-64-v3", 0.2),
            ("-fstack-protector-all", 0.2), ("-fno-stack-clash-protection", 0.2),
            # Without padding, exits need code that makes room for their jumps.
            ("-falign-functions=1", 0.5), ("-Og", 0.2)):
            if rng.random() < share:
                options.append(option)
        if "-fno-pie" in options:
            options.append("-no-pie")
        if os.uname().machine != "x86_64":
            options = [o for o in options if not o.startswith(("-march", "-fcf"))]
        if compiler == clang and "-flto" in options:
            options.remove("-flto")
        return [compiler] + options


class Controller:
    """A probectl that traces the program."""

    def __init__(self, probectl, folder, name, args):
        self.out = os.path.join(folder, name + ".out")
        self.err = os.path.join(folder, name + ".err")
        self.process = subprocess.Popen(
            [probectl, "trace", "--json"] + args, stdout=open(self.out, "w"),
            stderr=open(self.err, "w"))

    def wait(self):
        while "tracing" not in open(self.err).read():
            if self.process.poll() is not None:
                if "cannot be patched" in open(self.err).read():
                    return
                raise RuntimeError("probectl: status %d: %s" % (self.process.returncode, open(self.err).read()))
            time.sleep(0.02)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        return [json.loads(line) for line in open(self.out) if line.strip()]


def refused(probectl, program):
    """Returns why functions' entries or exits cannot be traced, by name."""
    ret = {}
    for pattern in (PREFIX + "*", PREFIX + "*:return"):
        lines = subprocess.run(
            [probectl, "list", "-vv", "--json", "--functions", program, pattern],
            stdout=subprocess.PIPE, check=False).stdout.decode()
        for line in lines.splitlines():
            note = json.loads(line)
            if note.get("plan") == "refused":
                ret.setdefault(note["name"], note.get("reason", "?"))
    return ret


def sum_up(program, hits):
    """Returns what is wrong, and by name: numbers of hits, sums of values, lost hits; names with unknown values."""
    wrong = []
    counts, sums, lost, unknown = collections.Counter(), collections.Counter(), collections.Counter(), set()
    for hit in hits:
        name = hit["name"]
        if ".cold" in name:  # a part of a function
            continue
        if "lost" in hit:
            lost[name] += hit["lost"]
            continue
        counts[name] += 1
        if not name.endswith(":return"):
            continue
        f = program.functions[int(name[len(PREFIX):-len(":return")])]
        if f.kind == "double":
            value = struct.unpack("<Q", struct.pack("<d", hit["args"][1]))[0] if hit["args"][1] is not None else 0
        else:
            value = hit["args"][0]
        if f.kind == "void":
            value = 0
        if value is None and f.may_leave_file():
            value, unknown = 0, unknown | {name}
        elif value is None:
            wrong.append("%s: a returned value is null" % name)
            value = 0
        if f.kind == "int":
            value %= 1 << 32
        sums[name] = (sums[name] + value) % WORD
    return wrong, counts, sums, lost, unknown


def run(probectl, folder, seed, totals):
    program = Program(seed)
    source = os.path.join(folder, "s%d.%s" % (seed, "cc" if program.is_cpp else "c"))
    path = os.path.join(folder, "s%d" % seed)
    with open(source, "w") as file:
        file.write(program.source())
    command = program.command(source, path)
    subprocess.run(command, check=True)
    target = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    wrong = []
    try:
        assert target.stdout.readline() == b"ready\n"
        base = os.path.basename(path)
        each = Controller(probectl, folder, "each%d" % seed, ["-p", str(target.pid), "--buffer", "64M",
            "fn:%s:%s*" % (base, PREFIX), "fn:%s:%s*:return(retval, fretval)" % (base, PREFIX)])
        each.wait()
        pairs = Controller(probectl, folder, "pairs%d" % seed, [
            "-p", str(target.pid), "-t", "latency", "fn:%s:%s*" % (base, PREFIX)])
        pairs.wait()
        target.stdin.write(b"go\n")
        target.stdin.flush()
        figures = {}
        for line in iter(target.stdout.readline, b"end\n"):
            if not line:
                raise RuntimeError("the program has died: %s" % target.wait())
            number, entries, returns, total = (int(word) for word in line.split())
            figures[number] = (entries, returns, total)
        rows = {row["name"]: row for row in pairs.end() if "begin" in row}
        hits = each.end()
        told = open(each.err).read() + open(pairs.err).read()
        target.stdin.write(b"bye\n")
        target.stdin.close()
        if target.wait() != 0:
            wrong.append("the program has failed: %d" % target.returncode)
    finally:
        target.kill()
    why = refused(probectl, path)
    wrong_values, counts, sums, lost, unknown = sum_up(program, hits)
    wrong += wrong_values
    traced = set(re.findall(r"fn:[^:]*:(%s\d+(?::return)?): \d+ hits?, \d+ lost" % PREFIX, told))
    left = sum(entries - returns for entries, returns, _ in figures.values())
    for f in program.functions:
        entries, returns, total = figures[f.number]
        end = f.name + ":return"
        totals["functions"] += 1
        if f.name not in traced:
            totals["entries refused: " + why.get(f.name, "in this process")] += 1
        elif counts[f.name] != entries:
            wrong.append("%s: %d entries, traced %d" % (f.name, entries, counts[f.name]))
        if end not in traced:
            totals["exits refused: " + why.get(end, "in this process")] += 1
            continue
        # A jump to another function makes room for newer ones, and is lost: it may yet return, or not.
        if not returns - (lost[end] if left > OPEN_MAX else 0) <= counts[end] <= returns:
            wrong.append("%s: %d returns, traced %d, lost %d" % (f.name, returns, counts[end], lost[end]))
        elif end not in unknown and counts[end] == returns and sums[end] != (total if f.kind != "void" else 0):
            wrong.append("%s: other values are returned" % f.name)
        if f.name not in traced:
            continue
        row = rows.get(end, {})
        count, unmatched = row.get("count") or 0, row.get("unmatched") or 0
        if count + unmatched != returns or (unmatched and left <= OPEN_MAX):
            wrong.append("%s: %d returns, %d pairs, %d ends without a begin" % (
                f.name, returns, count, unmatched))
        if row and row["in_flight"] != entries - count:
            wrong.append("%s: %d calls were not timed, %d in flight" % (
                f.name, entries - count, row["in_flight"]))
    totals["calls"] += sum(figure[0] for figure in figures.values())
    totals["left"] += left
    if wrong:
        print("seed %d: %s" % (seed, " ".join(command)))
        for text in sorted(set(wrong))[:12]:
            print("    " + text)
        print("    " + "\n    ".join(told.splitlines()[:6]))
        sys.stdout.flush()
    else:
        for name in (source, path, each.out, each.err, pairs.out, pairs.err):
            os.unlink(name)
    return not wrong


def main():
    probectl, folder, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    totals = collections.Counter()
    good = sum(run(probectl, folder, seed, totals) for seed in range(first, first + count))
    for name in sorted(totals):
        print("%8d %s" % (totals[name], name))
    print("%d of %d programs agree" % (good, count))
    return 0 if good == count else 1


if __name__ == "__main__":
    sys.exit(main())
