#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
Checks an exported file field by field.

    export.py json FILE         counts of "provider:name", one per line
    export.py csv FILE          the same for CSV; every line has equally many columns
    export.py flamegraph FILE   "FRAME N" for the boxes: their hits, with --count; each lies within
                                the picture and above a box of its stack
    export.py trace-event FILE  "KIND N" for slices, asyncs, instants, open,
                                lost, threads, named ones, and processes; what the Trace Event
                                Format asks of each event is checked
"""

import collections
import csv
import json
import re
import sys
import xml.etree.ElementTree

# What each phase needs, beside ph, pid, tid and (but for M) ts.
NEEDED = {
    "X": {"name", "cat", "dur", "args"},
    "B": {"name", "cat", "args"},
    "b": {"name", "cat", "id", "args"},
    "e": {"name", "cat", "id", "args"},
    "i": {"name", "cat", "s", "args"},
    "M": {"name", "args"},
}
KINDS = {"X": "slices", "B": "open", "i": "instants"}


def print_counts(counts):
    for name in sorted(counts):
        print(name, counts[name])


def read_json(path):
    counts = collections.Counter()
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            if "lost" in event:
                counts["lost"] += event["lost"]
                continue
            assert {"ts", "pid", "tid", "cpu", "provider", "name", "args"} <= set(event), event
            counts[event["provider"] + ":" + event["name"]] += 1
    return counts


def read_csv(path):
    counts = collections.Counter()
    with open(path, encoding="utf-8", newline="") as text:
        rows = csv.reader(text, strict=True)
        header = next(rows)
        assert header[:10] == "ts,pid,tid,cpu,comm,provider,name,pc,lost,truncated".split(",")
        assert header[10:] == [f"arg{i}" for i in range(len(header) - 10)], header
        for row in rows:
            assert len(row) == len(header), row
            event = dict(zip(header, row))
            if event["lost"]:
                counts["lost"] += int(event["lost"])
            else:
                counts[event["provider"] + ":" + event["name"]] += 1
    return counts


def check_event(event):
    needed = NEEDED[event["ph"]] | {"ph", "pid", "tid"}
    if event["ph"] != "M":
        needed.add("ts")
    else:
        assert event["name"] in ("process_name", "thread_name"), event
        assert isinstance(event["args"]["name"], str), event
    assert set(event) == needed, (event, needed)
    assert isinstance(event["pid"], int) and isinstance(event["tid"], int), event
    assert isinstance(event["name"], str) and isinstance(event["args"], dict), event
    assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0, event
    assert event["ph"] != "i" or event["s"] in ("t", "g"), event


def check_nesting(slices):
    """Within a thread, of two slices one lies within the other, or they do not meet."""
    threads = collections.defaultdict(list)
    for event in slices:
        begin = round(event["ts"] * 1000)
        threads[event["pid"], event["tid"]].append((begin, begin + round(event["dur"] * 1000)))
    for intervals in threads.values():
        stack = []
        for begin, end in sorted(intervals, key=lambda interval: (interval[0], -interval[1])):
            while stack and stack[-1] <= begin:
                stack.pop()
            assert not stack or end <= stack[-1], (begin, end, stack)
            stack.append(end)


def read_trace_event(path):
    with open(path, encoding="utf-8") as text:
        trace = json.load(text)
    assert set(trace) == {"displayTimeUnit", "traceEvents", "otherData"}, set(trace)
    assert trace["displayTimeUnit"] == "ns"
    counts = collections.Counter(dict.fromkeys([*KINDS.values(), "asyncs", "lost"], 0))
    named, used, asyncs = collections.defaultdict(set), set(), {}
    for event in trace["traceEvents"]:
        check_event(event)
        phase = event["ph"]
        if phase == "M":
            named[event["name"]].add((event["pid"], event["tid"]))
            continue
        if event["cat"] == "lost":
            counts["lost"] += event["args"]["lost"]
            continue
        used.add((event["pid"], event["tid"]))
        if phase == "b":
            assert event["id"] not in asyncs, event
            asyncs[event["id"]] = event
        elif phase == "e":
            begin = asyncs.pop(event["id"])
            assert (begin["name"], begin["cat"]) == (event["name"], event["cat"]), event
            assert begin["ts"] <= event["ts"], event
            counts["asyncs"] += 1
        else:
            counts[KINDS[phase]] += 1
    assert not asyncs, asyncs
    check_nesting([event for event in trace["traceEvents"] if event["ph"] == "X"])
    assert counts["lost"] == trace["otherData"]["lost"]
    counts["threads"] = len(used)
    counts["processes"] = len({pid for pid, _ in used})
    # Of a process that has ended, nobody may have found out the name.
    assert named["thread_name"] <= used, named["thread_name"] - used
    counts["named"] = len(named["thread_name"])
    assert {pid for pid, _ in named["thread_name"]} == {pid for pid, _ in named["process_name"]}
    return counts


def read_flamegraph(path):
    svg = "{http://www.w3.org/2000/svg}"
    root = xml.etree.ElementTree.parse(path).getroot()
    counts, boxes = collections.Counter(), []
    for group in root.iter(svg + "g"):
        match = re.fullmatch(r"(.*) \((\d+) hits?, [\d.]+ %\)", group.find(svg + "title").text)
        box = group.find(svg + "rect")
        counts[match[1]] += int(match[2])
        boxes.append([float(box.get(name)) for name in ("x", "width", "y")])
        assert match[1].startswith((group.findtext(svg + "text") or "").rstrip(".")), match[1]
    lowest = max(y for _, _, y in boxes)
    for x, width, y in boxes:
        assert x >= 10 and x + width <= 1190.01, (x, width)
        below = [b for b in boxes if b[2] > y and b[0] <= x + 0.01 and
                 b[0] + b[1] >= x + width - 0.01]
        assert len({b[2] for b in below}) == round((lowest - y) / 17), (x, width, y)
    return counts


READERS = {"json": read_json, "csv": read_csv, "flamegraph": read_flamegraph,
           "trace-event": read_trace_event}
print_counts(READERS[sys.argv[1]](sys.argv[2]))
