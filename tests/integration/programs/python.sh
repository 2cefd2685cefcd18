#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Python: file, function and line of exactly the calls that were made, compared with the log of
# the interpreter's own profiler.
#
# Python 3.11 passes function__entry only while the semaphore of python:line is raised: its main
# loop tests only that.
. tests/integration/lib.sh
interpreter=/usr/bin/python3.11
[ -x "$interpreter" ] || skip "$interpreter is not installed"
need jq setarch
# All of Python's probes are traced, too. Where python:line's bytes happen to lead to, the heap may lie in some starts; without randomized
# addresses it never does.
fixed=(setarch -R)

cat >"$SCRATCH/calls.py" <<'PYTHON'
import sys

log = open(sys.argv[1], "w") if len(sys.argv) > 1 else None


def profile(frame, event, argument):
    if event == "call":
        code = frame.f_code
        log.write(f"{code.co_filename} {code.co_name} {frame.f_lineno}\n")


class Shop:
    def __init__(self, size):
        self.size = size

    def total(self):
        return sum(price(item) for item in range(self.size))

    @staticmethod
    def naïve(value):
        return value


def price(item):
    return item * 3


def recurse(depth):
    return recurse(depth - 1) + 1 if depth else 0


def generate(count):
    for i in range(count):
        yield i


def fail():
    raise ValueError("expected")


def work():
    shop = Shop(20)
    result = shop.total() + recurse(30) + sum(generate(5)) + Shop.naïve(1)
    result += sum(map(lambda x: x + 1, [1, 2, 3]))
    try:
        fail()
    except ValueError:
        result += 1
    return result


if log:
    sys.setprofile(profile)
result = work()
sys.setprofile(None)
print(result)
PYTHON

plain=$("$interpreter" -I -S "$SCRATCH/calls.py" "$SCRATCH/log")
traced=$("${fixed[@]}" "$PROBECTL" trace --json -o "$SCRATCH/python.out" \
	'python:function__entry(str(arg0),str(arg1),arg2)' -b 16M -- "$interpreter" -I -S "$SCRATCH/calls.py" 2>"$SCRATCH/err") ||
	fail "trace -- python: status $?: $(head -3 "$SCRATCH/err")"
same "the program's output" "$traced" "$plain"
same "losses" "$(jq -s 'map(.lost // 0) | add // 0' "$SCRATCH/python.out")" 0

# The profiler sees what work() calls, and itself; the module and the interpreter's start run
# before and after it.
jq -r --arg file "$SCRATCH/calls.py" 'select(.name == "function__entry" and .args[0] == $file) |
	"\(.args[0]) \(.args[1]) \(.args[2])"' "$SCRATCH/python.out" |
	sed -n '/ work /,$p' >"$SCRATCH/hits"
diff "$SCRATCH/log" "$SCRATCH/hits" >"$SCRATCH/diff" ||
	fail "calls differ (< profiler, > probe): $(head -20 "$SCRATCH/diff")"
[ "$(wc -l <"$SCRATCH/hits")" -ge 86 ] || fail "only $(wc -l <"$SCRATCH/hits") calls"

# All of Python's probes, as text; the program's output is the same.
same "with all probes on" "$("${fixed[@]}" "$PROBECTL" trace -o "$SCRATCH/all.out" 'python:*' -- \
	"$interpreter" -I -S "$SCRATCH/calls.py" 2>"$SCRATCH/err")" "$plain"

# Attached to, and left as before.
need_attach
cat >"$SCRATCH/serve.py" <<'PYTHON'
import ctypes, sys
ctypes.CDLL(None).prctl(0x59616d61, -1, 0, 0, 0)


def answer(line):
    return line.strip()[::-1]


print("ready", flush=True)
for line in sys.stdin:
    print(answer(line), flush=True)
PYTHON
start "${fixed[@]}" "$interpreter" -I "$SCRATCH/serve.py"
save_state "$target_pid"
trace_start serve --json -p "$target_pid" 'python:function__entry(str(arg1),arg2)'
wait_on "$target_pid" python:function__entry
serve_words
same "calls of answer()" "$(jq -c 'select(.name == "function__entry" and .args[0] == "answer") | .args[1]' "$SCRATCH/serve.out" | paste -sd,)" "5,5,5"
same_state "$target_pid"
ask again
same "the server answers" "$answer" "niaga"
end_target
finish
