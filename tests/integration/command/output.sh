#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What other programs read: every --json line is valid JSON with the fields that the manual
# promises, whatever bytes names and strings contain; and lines stay whole if the traced program
# writes to the same pipe.
. tests/integration/lib.sh
need_attach

# valid KIND FILE: each line is an object with that kind's fields; prints their number
valid()
{
	"$python" - "$1" "$2" <<'PYTHON' || fail "$1: not valid"
import json, sys
number, text = (int, float), (str, type(None))
site = {"provider": str, "name": str, "path": str, "build_id": str, "pc": str, "base": str,
        "semaphore": str, "args_spec": str, "args": list}
kinds = {
    "list": site,
    "process": {**site, "pid": int, "enabled": bool, "refcount": int},
    "detail": {**site, "function": text, "file": text, "bytes": str, "plan": str},
    "status": {"pid": int, "provider": str, "name": str, "path": str, "sites": int,
               "patched": int, "refcount": int, "enabled": bool, "plan": dict, "hits": int},
    "hit": {"ts": int, "pid": int, "tid": int, "cpu": int, "comm": str, "provider": str,
            "name": str, "pc": str, "args": list},
    "count": {"provider": str, "name": str, "hits": int},
    "lost": {"lost": int, "provider": str, "name": str},
    "any": {},
}

def unique(pairs):
    names = [name for name, _ in pairs]
    assert len(set(names)) == len(names), f"a name twice: {names}"
    return dict(pairs)

def no_constant(word):
    raise ValueError(f"{word} is no JSON")

lines = 0
with open(sys.argv[2], "rb") as file:
    for raw in file:
        assert raw.endswith(b"}\n"), f"half a line: {raw[-80:]}"
        item = json.loads(raw.decode("utf-8"), object_pairs_hook=unique,
                          parse_constant=no_constant)
        kind = "lost" if "lost" in item and sys.argv[1] == "hit" else sys.argv[1]
        for name, types in kinds[kind].items():
            assert name in item, f"no {name} in {raw}"
            assert isinstance(item[name], types), f"{name} in {raw}"
        assert item.get("schema") == 1, f"no schema 1 in {raw}"
        lines += 1
assert lines > 0, "no line at all"
print(lines)
PYTHON
}

# A program whose path and thread name are hostile.
odd=$SCRATCH/$(printf 'a"b\\c\n\033[31m\377\t')
cp "$TARGETS/badstring" "$odd" 2>/dev/null || skip "badstring is not built"
out=$SCRATCH/json

"$PROBECTL" list --json "$odd" >"$out" || fail "list: status $?"
same "sites in the file" "$(valid list "$out")" 1
"$PROBECTL" list -vv --json "$odd" "$TARGETS/args" "$TARGETS/loop" >"$out" || fail "list -vv: status $?"
valid detail "$out" >/dev/null

start "$odd"
save_state "$target_pid"
"$PROBECTL" list --json -p "$target_pid" badstring:text >"$out" || fail "list -p: status $?"
same "sites in the process" "$(valid process "$out")" 1
"$PROBECTL" enable -q -p "$target_pid" badstring:text || fail "enable: status $?"
"$PROBECTL" status -a --json -p "$target_pid" >"$out" || fail "status: status $?"
valid status "$out" >/dev/null
same "the probe that is on" "$(jq -c 'select(.enabled) | [.name, .sites, .patched, .refcount]' "$out")" \
	'["text",1,1,1]'
# It has no semaphore: list takes its state from the registry.
"$PROBECTL" list --json -p "$target_pid" badstring:text >"$out" || fail "list -p: status $?"
same "its state in the list" "$(jq -c '[.enabled, .refcount, .plan != null]' "$out")" '[true,1,true]'
trace_start hits --json -s 300 -p "$target_pid" badstring:text
# state.py cannot find this path: wait for trace's message.
for _ in {1..100}; do
	grep -q 'tracing 1 probe' "$SCRATCH/hits.err" && break
	sleep 0.05
done
ask go
sleep 0.3
trace_stop hits
same "hits" "$(valid hit "$SCRATCH/hits.out")" 12
"$PROBECTL" disable -q -p "$target_pid" badstring:text || fail "disable: status $?"
same_state "$target_pid"
tell bye
end_target

# Floats that JSON cannot represent, aggregates, unknown operands; and counts.
"$PROBECTL" trace --json -o "$out" 'args:*' -- "$TARGETS/args" >/dev/null 2>&1 </dev/null
valid hit "$out" >/dev/null
"$PROBECTL" trace -c --json -o "$out" 'args:*' -- "$TARGETS/args" >/dev/null 2>&1 </dev/null
(cd "$SCRATCH" && "$PROBECTL" trace -c --json -o - 'args:*' -- "$TARGETS/args" </dev/null 2>/dev/null |
	grep '"hits"' >dash && [ ! -e - ]) || fail "-o - is not the standard output"
same "the standard output, named" "$(cat "$SCRATCH/dash")" "$(grep '"hits"' "$out")"
valid count "$out" >/dev/null

# Losses are lines of their own.
"$PROBECTL" trace --json -b 4k -o "$out" loop:nop -- "$TARGETS/loop" -s nop -n 300000 \
	>/dev/null 2>&1 || fail "a small ring: status $?"
valid hit "$out" >/dev/null

# All other objects have the version as well: rows of all kinds, spans, repair, records.
pairs=(pairs:step__start pairs:step__done -- "$TARGETS/pairs" 1 10)
for tracer in latency span hist,arg0 sum,arg0 observe,arg0; do
	"$PROBECTL" trace --json -t "$tracer" -o "$out" "${pairs[@]}" >/dev/null 2>"$SCRATCH/err" </dev/null ||
		fail "-t $tracer: $(cat "$SCRATCH/err")"
	valid any "$out" >/dev/null
done
"$PROBECTL" trace --json -t stack -o "$out" loop:nop -- "$TARGETS/loop" -s nop -n 10 >/dev/null 2>&1 ||
	fail "-t stack: status $?"
valid any "$out" >/dev/null
"$PROBECTL" record -o "$SCRATCH/record" "${pairs[@]}" >/dev/null 2>"$SCRATCH/err" </dev/null ||
	fail "record: $(cat "$SCRATCH/err")"
"$PROBECTL" report --json "$SCRATCH/record" >"$out" || fail "report: status $?"
valid any "$out" >/dev/null
"$PROBECTL" export --format=json "$SCRATCH/record" >"$out" || fail "export: status $?"
valid any "$out" >/dev/null
start "$TARGETS/pairs" 1 10
"$PROBECTL" enable -q -t count -p "$target_pid" pairs:step__done || fail "enable: status $?"
"$PROBECTL" read --json -p "$target_pid" >"$out" || fail "read: status $?"
valid any "$out" >/dev/null
"$PROBECTL" repair --json -p "$target_pid" >"$out" || fail "repair: status $?"
valid any "$out" >/dev/null
"$PROBECTL" disable -q -p "$target_pid" pairs:step__done || fail "disable: status $?"
end_process "$target_pid"

# The program's lines and ours in one pipe.
if [ -x /usr/bin/python3.11 ]; then
	cat >"$SCRATCH/chatter.py" <<'PYTHON'
import sys
def tick(number):
    sys.stdout.write(f"tick {number}\n")
    sys.stdout.flush()
for number in range(20000):
    tick(number)
PYTHON
	"$PROBECTL" trace --json 'python:function__return(str(arg0),str(arg1),arg2)' -- \
		/usr/bin/python3.11 -I -S "$SCRATCH/chatter.py" 2>"$SCRATCH/err" | cat >"$SCRATCH/mixed"
	same "whole lines of the program" "$(grep -cx 'tick [0-9]*' "$SCRATCH/mixed")" 20000
	grep -vx 'tick [0-9]*' "$SCRATCH/mixed" >"$out"
	valid hit "$out" >/dev/null
	same "its calls" "$(jq -c 'select(.args[1] == "tick")' "$out" | wc -l)" 20000
fi

# A file system that reports only at close(2) that a write failed.
if command -v cc >/dev/null; then
	cat >"$SCRATCH/late.c" <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int close(int fd)
{
	char name[64], path[512];
	ssize_t length;
	int result;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	length = readlink(name, path, sizeof(path) - 1);
	path[length > 0 ? length : 0] = '\0';
	result = (int)syscall(SYS_close, fd);
	if (strcmp(path, getenv("LATE")) != 0)
		return result;
	errno = EDQUOT;
	return -1;
}
C
	cc -shared -fPIC -o "$SCRATCH/late.so" "$SCRATCH/late.c" || die "late.c"
	LATE=$SCRATCH/late LD_PRELOAD=$SCRATCH/late.so "$PROBECTL" trace -q -o "$SCRATCH/late" hits:work \
		-- "$TARGETS/hits" 1 <<<5 >/dev/null 2>"$SCRATCH/err"
	same "status where the last bytes could not be written" "$?" 1
	same "message" "$(cat "$SCRATCH/err")" "probectl: cannot write $SCRATCH/late: Disk quota exceeded"
fi
finish
