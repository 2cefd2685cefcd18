#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Our reader and babeltrace2 find the same events in one record: times, threads, CPUs, names and
# every number and text.
. tests/integration/lib.sh
need_attach
need babeltrace2 python3

cat >"$SCRATCH/same.py" <<'PY'
import json, re, sys

def bare(value):
    """A value as babeltrace2 prints it."""
    if value.startswith('"'):
        return json.loads(value)
    if value.startswith("("):  # an enumeration: an argument that could not be read
        return None
    return float(value) if "." in value or "e" in value else int(value, 0)

line = re.compile(r'\[(\d+)\.(\d{9})\] \([^)]*\) (?:\S+ )?([^: ]*):(.*?): (\{ .*\})$')
member = re.compile(r'(\w+) = ("(?:[^"\\]|\\.)*"|\( [^)]*\)|[^,} ]*)')

def args(members):
    """In the order of what is said first about each."""
    first = dict.fromkeys(re.match(r"arg\d+", name).group() for name, _ in members
                          if name.startswith("arg"))
    values = dict(members)
    return [bare(values[name]) for name in first]

theirs = []
for text in open(sys.argv[1]):
    s, ns, provider, name, rest = line.match(text.rstrip("\n")).groups()
    members = member.findall(rest)
    value = dict(members)
    if provider != "probectl":
        theirs.append((int(s) * 10**9 + int(ns), provider, name, int(value["cpu_id"]),
                       int(value["pid"]), int(value["tid"]), args(members)))
ours = []
for text in open(sys.argv[2]):
    hit = json.loads(text)
    if "lost" in hit:
        continue
    assert hit.get("comm") != "", hit
    ours.append((hit["ts"], hit["provider"], hit["name"], hit["cpu"], hit["pid"], hit["tid"],
                 hit["args"]))
assert ours, "no hits"
def without_time(hit):
    return str(hit[1:]), hit[0]

for a, b in zip(sorted(ours, key=without_time), sorted(theirs, key=without_time)):
    # It counts cycles as a double, which rounds.
    assert a[1:] == b[1:] and abs(a[0] - b[0]) <= 1, (a, b)
assert len(ours) == len(theirs), (len(ours), len(theirs))
times = [hit[0] for hit in ours]
assert times == sorted(times), "not in order"
PY

# same_events NAME: what both find in a record
same_events()
{
	babeltrace2 --clock-seconds "$SCRATCH/$1" >"$SCRATCH/$1.theirs" 2>/dev/null ||
		fail "babeltrace2: $1"
	"$PROBECTL" export --format=json "$SCRATCH/$1" >"$SCRATCH/$1.ours" 2>/dev/null ||
		fail "export: $1"
	python3 "$SCRATCH/same.py" "$SCRATCH/$1.theirs" "$SCRATCH/$1.ours" 2>"$SCRATCH/err" ||
		fail "$1: $(tail -1 "$SCRATCH/err")"
}

"$PROBECTL" record -q -o "$SCRATCH/numbers" 'loop:nop' -- "$TARGETS/loop" -s nop -n 20000 -t 4 \
	>/dev/null || fail "record"
same_events numbers
"$PROBECTL" record -q -o "$SCRATCH/strings" 'loop:string(arg0,str(arg2),arg1)' -- \
	"$TARGETS/loop" -s string -n 5000 >/dev/null || fail "record of strings"
same_events strings

# What babeltrace2 has copied of our record is ours, too.
babeltrace2 -o ctf -w "$SCRATCH/copy" "$SCRATCH/numbers" >/dev/null || fail "babeltrace2 copies nothing"
"$PROBECTL" export --format=json "$SCRATCH/copy" >"$SCRATCH/copy.json" || fail "a copy"
# Hits of one nanosecond have no order.
cmp -s <(sort "$SCRATCH/copy.json") <(sort "$SCRATCH/numbers.ours") || fail "the copy has other events"

# A record that is not understood says which probectl made it.
sed -i 's/tracer_version = .*/tracer_version = "99.0";/; s/^event {/event { flavour = 1;/' \
	"$SCRATCH/numbers/metadata"
"$PROBECTL" report "$SCRATCH/numbers" >"$SCRATCH/out" 2>"$SCRATCH/err"
same "status of a later record" "$?" 1
grep -q "metadata: line [0-9]*: an event's 'flavour' is not understood (it was made by probectl 99.0" \
	"$SCRATCH/err" || fail "a later record: $(cat "$SCRATCH/err")"

# A record of another tool, wherever it is in the folder, gets one line that names its reader.
mkdir -p "$SCRATCH/folder/a/b"
cp -r "$SCRATCH/strings" "$SCRATCH/folder"
cp -r "$SCRATCH/strings" "$SCRATCH/folder/a/b/c"
sed -i 's/tracer_name = "probectl"/tracer_name = "lttng-ust"/' "$SCRATCH/folder/a/b/c/metadata"
for command in report 'export -F json'; do
	# shellcheck disable=SC2086 # words
	"$PROBECTL" $command "$SCRATCH/folder" >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "status of $command of another tool's record" "$?" 1
	same "$command of another tool's record" "$(cat "$SCRATCH/err")" \
		"probectl: $SCRATCH/folder/a/b/c: its metadata does not say that probectl has made this record; babeltrace2 reads records of other tools"
	[ ! -s "$SCRATCH/out" ] || fail "$command of another tool's record: $(head -1 "$SCRATCH/out")"
done
finish
