#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The Python package: its wheel, its types, its tests (python_package.py), and the examples of docs/python.md
# as they stand there.
. tests/integration/lib.sh
need_attach
need cc make
export LIBPROBE=$BUILD/libprobe.so PYTHONDONTWRITEBYTECODE=1

"$python" -c 'import setuptools, wheel' 2>/dev/null || skip "setuptools and wheel are not installed"
make -s python PYTHON="$python" BUILD="$SCRATCH/build" >"$SCRATCH/make.out" 2>&1 ||
	die "make python: $(tail -3 "$SCRATCH/make.out")"
wheel=$(ls "$SCRATCH"/build/*.whl)
same "the wheel" "${wheel##*/}" "probectl-$("$PROBECTL" --version | cut -d' ' -f2)-py3-none-any.whl"
# What pip does with it, which is not on every machine.
"$python" -m zipfile -e "$wheel" "$SCRATCH/site"
[ -e "$SCRATCH/site/probectl/py.typed" ] || fail "py.typed is not in the wheel"
! "$python" -c 'import pip' 2>/dev/null ||
	"$python" -m pip install -q --no-index --target "$SCRATCH/pip" "$wheel" >"$SCRATCH/pip.out" 2>&1 ||
	fail "pip install: $(cat "$SCRATCH/pip.out")"
export PYTHONPATH=$SCRATCH/site

# mypy, where it is installed; for the oldest Python that it still knows of ours.
types()
{
	"$python" -c 'import mypy' 2>/dev/null || return 0
	"$python" -m mypy --strict --python-version 3.9 --cache-dir "$SCRATCH/mypy" "$@" \
		>"$SCRATCH/mypy.out" 2>&1 || fail "mypy: $(cat "$SCRATCH/mypy.out")"
}
types "$SCRATCH/site/probectl"

TARGETS=$TARGETS timeout "$TEST_SECONDS" "$python" -X dev tests/integration/library/python_package.py \
	>"$SCRATCH/unittest" 2>&1 || fail "$(cat "$SCRATCH/unittest")"

# ---- A library that is not ours ----------------------------------------------------------

LIBPROBE=/nowhere.so "$python" -c 'import probectl' 2>"$SCRATCH/err" && fail "there is no library"
grep -q 'ImportError: /nowhere.so: .*LIBPROBE' "$SCRATCH/err" || fail "no library: $(cat "$SCRATCH/err")"
mkdir "$SCRATCH/other"
echo 'const char *probe_version(void) { return "9.9.9"; }' |
	cc -x c -shared -fPIC -o "$SCRATCH/other/libprobe.so" - || fail "cc"
LIBPROBE=$SCRATCH/other/libprobe.so "$python" -c 'import probectl' 2>"$SCRATCH/err" &&
	fail "another version is loaded"
grep -q 'is version 9.9.9, this package needs ' "$SCRATCH/err" || fail "versions: $(cat "$SCRATCH/err")"

# ---- docs/python.md ------------------------------------------------------------------------

awk -v to="$SCRATCH/example" '/^```python$/ { n++; inside = 1; next }
	/^```$/ { inside = 0 }
	inside { print >(to n ".py") }' docs/python.md
same "the examples" "$(ls "$SCRATCH"/example?.py | wc -l)" 8
types --no-namespace-packages "$SCRATCH/example2.py" "$SCRATCH/example6.py"
[ -x /usr/bin/python3.11 ] || skip "python3.11 is not installed, which docs/python.md traces"
PYTHONPATH='' /usr/bin/python3.11 -c '
import time
def work():
    return sum(range(100))
while True:
    work()
    time.sleep(0.001)' &
traced=$!
on_exit "end_process $traced"
for _ in $(seq 100); do
	! grep -q /usr/bin/python3.11 "/proc/$traced/maps" || break
	sleep 0.1
done
save_state "$traced"

# example NUMBER PATTERN: its output has such a line
example()
{
	timeout "$TEST_SECONDS" "$python" -X dev "$SCRATCH/example$1.py" "$traced" /usr/bin/python3.11 >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "example $1: $(cat "$SCRATCH/err")"
	grep -Eq "$2" "$SCRATCH/out" || fail "example $1: $(head -3 "$SCRATCH/out" "$SCRATCH/err")"
}
example 1 '^python:function__entry 3 0x'
example 2 "^[0-9]{19} $traced work 3\$"
example 3 '^work [0-9]+ ns$'
example 4 '^[0-9]{2,} work$'
example 5 '^python:function__entry [0-9]{2,} calls, [0-9.]+ [0-9.]+ ns$'
example 6 '^[0-9]{2,} work$'
example 7 '^True (0|None)$'
example 8 '^NOT_FOUND no probe matches .*; the nearest: python:function__entry'
same_state "$traced"
finish
