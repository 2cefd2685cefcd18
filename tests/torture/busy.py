# SPDX-License-Identifier: MIT
"""Calls, allocates and imports, and checks every result; answers lines as victim.c does."""
import gc
import select
import sys


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def numbers(count):
    for i in range(count):
        yield i * i


def caught(count):
    total = 0
    for i in range(count):
        try:
            raise ValueError(i)
        except ValueError as error:
            total += error.args[0]
    return total


def work():
    text = "".join(chr(97 + i % 26) for i in numbers(200))
    gc.collect(0)
    return (fibonacci(14), sum(numbers(300)), caught(100), hash(len(text)), text[:30])


def main():
    rounds = wrong = 0
    first = work()
    print("ready", flush=True)
    while True:
        rounds += 1
        wrong += work() != first
        if select.select([sys.stdin], [], [], 0)[0]:
            line = sys.stdin.readline()
            if line in ("", "quit\n"):
                return 1 if wrong else 0
            print(f"rounds {rounds} wrong {wrong} interrupted 0 late 0", flush=True)


sys.exit(main())
