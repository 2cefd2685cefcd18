#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Spans (-t span): each pair with the arguments of both ends, on programs that say what they did:
# nested, from thread to thread, in many threads, deeper than there is room for; --min; strings that
# are cut or cannot be read; what is lost; a controller that is killed.
. tests/integration/lib.sh
need_attach
need jq strace

threads=16 requests=2000

# spanned NAME TARGET… -- OPTIONS…: the program with these options; what it says goes to $said
spanned()
{
	local name=$1 program=()
	shift
	while [ "$1" != -- ]; do
		program+=("$1")
		shift
	done
	shift
	start "${program[@]}"
	save_state "$target_pid"
	trace_start "$name" -t span "$@" -p "$target_pid"
	wait_tracing "$name"
	ask go
	said=$answer
	hear
	trace_stop "$name"
	same_state "$target_pid"
	tell bye
	end_target
}

# summary NAME PROBE: what the end of a trace says about a probe
summary()
{
	sed -n "s/^probectl: $2: //p" "$SCRATCH/$1.err"
}

# check NAME: runs the Python code on standard input with `spans`, the objects of the output, and
# `truth`, what the program said
check()
{
	{
		cat <<'PYTHON'
import json, sys
spans = [json.loads(line) for line in open(sys.argv[1])]
truth = json.loads(sys.argv[2])
def same(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: got {got}, wanted {wanted}")
same("lost", [s for s in spans if "lost" in s], [])
for s in spans:
    begin = s["begin"]
    # A thread that has ended before its name was read has none.
    same("fields", sorted(set(s) - {"comm"}), sorted(("schema ts pid tid cpu provider name pc args duration begin" +
        (" truncated" if "truncated" in s else "")).split()))
    same("fields of the begin", sorted(begin), sorted(("ts pid tid provider name pc args" +
        (" truncated" if "truncated" in begin else "")).split()))
    same("process", begin["pid"], s["pid"])
    # The duration ends when the end is hit; its time is that of its record.
    if not s["duration"] <= s["ts"] - begin["ts"] + 2000:
        sys.exit(f"times: {s}")
PYTHON
		cat
	} >"$SCRATCH/check.py"
	"$python" "$SCRATCH/check.py" "$SCRATCH/$1.out" "$said" 2>"$SCRATCH/check.err" ||
		fail "$1: $(tail -1 "$SCRATCH/check.err")"
}

# ---- Many threads, nested ----------------------------------------------------------------

spanned requests "$TARGETS/pairs" "$threads" "$requests" -- --json --pairs auto -b 16M \
	'pairs:request__start(arg0,arg1,str(arg3))' pairs:request__done pairs:request__fail \
	'pairs:step__*'
check requests <<'PYTHON'
names = ["select", "insert", "update", "delete", 'vacuum "all"']
requests = [s for s in spans if s["name"] in ("request__done", "request__fail")]
steps = [s for s in spans if s["name"] == "step__done"]
same("requests", len(requests), truth["done"] + truth["failed"])
same("failed", sum(s["name"] == "request__fail" for s in requests), truth["failed"])
same("steps", len(steps), truth["steps"])
same("ids", sorted(s["args"][0] for s in requests), list(range(len(requests))))
for s in spans:
    same("thread", s["begin"]["tid"], s["tid"])
    same("argument", s["begin"]["args"][0], s["args"][0])
for s in requests:
    number = s["args"][0]
    same("begin", s["begin"]["args"], [number, number % 7, names[number % 5]])
total = sum(s["duration"] for s in requests)
if not truth["inner"] * 0.999 <= total <= truth["outer"] * 1.001:
    sys.exit(f"time: {total} is not between {truth['inner']} and {truth['outer']}")
PYTHON
same "summary" "$(summary requests pairs:request__done)" \
	"$(jq .done <<<"$said") spans, 0 lost, $threads in flight, $threads ends without a begin"
same "summary of steps" "$(summary requests pairs:step__done)" \
	"$(jq .steps <<<"$said") spans, 0 lost, 0 in flight, 0 ends without a begin"

# ---- From thread to thread ---------------------------------------------------------------

spanned jobs "$TARGETS/pairs" "$threads" "$requests" -- --json --match arg0:arg0 \
	pairs:job__start pairs:job__done
check jobs <<'PYTHON'
same("jobs", len(spans), truth["jobs"])
same("takers", len({s["tid"] for s in spans}), 1)
for s in spans:
    same("argument", s["begin"]["args"], s["args"])
    if s["begin"]["tid"] == s["tid"]:
        sys.exit("a job was done by the thread that began it")
total = sum(s["duration"] for s in spans)
if not truth["job_inner"] * 0.999 <= total <= truth["job_outer"] * 1.001:
    sys.exit(f"time: {total} is not between {truth['job_inner']} and {truth['job_outer']}")
PYTHON

# ---- Deeper than there is room -----------------------------------------------------------

start "$TARGETS/recursive" 200
trace_start deep --json -t span -p "$target_pid" 'recursive:down(arg0)' 'recursive:up(arg0)'
wait_on "$target_pid" recursive:down
ask go
hits=${answer#hits }
hear
trace_stop deep
same "deep: what is lost" "$(jq -s 'map(.lost // 0) | add' "$SCRATCH/deep.out")" 0
grep -q " were lost because" "$SCRATCH/deep.err" && fail "deep: $(cat "$SCRATCH/deep.err")"
same "deep: begins" "$(summary deep recursive:down)" ""
same "deep: ends" "$(summary deep recursive:up)" \
	"$((hits - 73)) spans, 0 lost, 0 in flight, 73 ends without a begin"
same "deep: spans" "$(jq -c 'select(.begin)' "$SCRATCH/deep.out" | wc -l)" $((hits - 73))
same "deep: wrong begins" "$(jq -c 'select(.begin and .begin.args != .args)' "$SCRATCH/deep.out" | wc -l)" 0
end_process "$target_pid"

# ---- Durations, and strings --------------------------------------------------------------

spanned naps "$TARGETS/naps" 40 -- --json --min 8ms 'naps:nap__start(arg0,str(arg1),str(arg2))' \
	naps:nap__done
check naps <<'PYTHON'
least = 8000000
seen = {s["args"][0]: s for s in spans}
same("once each", len(seen), len(spans))
for number, (inner, outer) in enumerate(truth):
    if inner >= least * 1.001 and number not in seen:
        sys.exit(f"nap {number} took {inner} ns and is missing")
    if outer < least * 0.999 and number in seen:
        sys.exit(f"nap {number} took {outer} ns and is there")
    if number not in seen:
        continue
    s = seen[number]
    if not (s["duration"] >= least and inner * 0.999 <= s["duration"] <= outer * 1.001):
        sys.exit(f"nap {number}: {s['duration']} is not between {inner} and {outer}")
    same("end", s["args"], [number, 2 * number])
    same("begin", s["begin"]["args"], [number, "x" * 256, None])
    same("truncated", s["begin"]["truncated"], [1])
if len(seen) < 20:
    sys.exit(f"only {len(seen)} of 20 long naps")
PYTHON

# The same by a filter, in the table of -t latency, and with a key.
spanned filtered "$TARGETS/naps" 40 -- --json -f 'duration >= 8ms && end.arg0 != 7' \
	-t latency -k 'duration / 5ms' -k 'end.arg0 % 4' naps:nap__start naps:nap__done
jq -c 'select(.begin.name?)' "$SCRATCH/filtered.out" >"$SCRATCH/lines"
grep '"tracer":"latency"' "$SCRATCH/filtered.out" >"$SCRATCH/rows"
mv "$SCRATCH/lines" "$SCRATCH/filtered.out"
check filtered <<'PYTHON'
# Each tracer has its own stub, and so its own times, both between those that the program took. A pair
# that these leave at a border may count on either side of it, for each of the two.
least, step = 8000000, 5000000
wanted, maybe = {}, {}
def add(to, key):
    to[key] = to.get(key, 0) + 1
seen = {s["args"][0]: s for s in spans}
same("once each", len(seen), len(spans))
for number, (inner, outer) in enumerate(truth):
    low, high = int(inner * 0.999), int(outer * 1.001)
    if number == 7 or high < least:
        if number in seen:
            sys.exit(f"nap {number} took at most {high} ns and is there")
        continue
    if low >= least and number not in seen:
        sys.exit(f"nap {number} took at least {low} ns and is missing")
    if number in seen and not max(low, least) <= seen[number]["duration"] <= high:
        sys.exit(f"nap {number}: {seen[number]['duration']} is not between {low} and {high}")
    keys = {(part, number % 4) for part in range(max(low, least) // step, high // step + 1)}
    for key in keys:
        add(wanted if low >= least and len(keys) == 1 else maybe, key)
rows = [json.loads(line) for line in open(sys.argv[1].replace("filtered.out", "rows"))]
rows = {tuple(row["keys"]): row["count"] for row in rows}
for key in {*rows, *wanted}:
    if not 0 <= rows.get(key, 0) - wanted.get(key, 0) <= maybe.get(key, 0):
        sys.exit(f"rows: got {rows}, wanted {wanted}, and some of {maybe}")
PYTHON

# Keys and filters that ask for the begin's arguments: the pairs' numbers say what they must be.
spanned begun "$TARGETS/pairs" "$threads" "$requests" -- --json -b 16M \
	-f 'begin.arg1 != 3 && begin.str(arg3) != "insert" && begin.arg0 == end.arg0' \
	-t latency -k 'begin.str(arg3)' -k 'begin.arg1 * 2' -k 'end.arg0 % 4' \
	'pairs:request__start(arg0)' pairs:request__done
jq -c 'select(.begin.name?)' "$SCRATCH/begun.out" >"$SCRATCH/lines"
grep '"tracer":"latency"' "$SCRATCH/begun.out" >"$SCRATCH/rows"
mv "$SCRATCH/lines" "$SCRATCH/begun.out"
check begun <<'PYTHON'
names = ["select", "insert", "update", "delete", 'vacuum "all"']
total = sum(truth["kinds"])
passed = [i for i in range(total) if i % 10 != 9 and i % 7 != 3 and names[i % 5] != "insert"]
same("ids", sorted(s["args"][0] for s in spans), passed)
same("begins", [s for s in spans if s["begin"]["args"] != s["args"]], [])
wanted = {}
for i in passed:
    key = (names[i % 5], i % 7 * 2, i % 4)
    wanted[key] = wanted.get(key, 0) + 1
rows = [json.loads(line) for line in open(sys.argv[1].replace("begun.out", "rows"))]
same("rows", {tuple(row["keys"]): row["count"] for row in rows}, wanted)
PYTHON

# The same by key, and in a session that nobody watches. A text that cannot be read is a key.
start "$TARGETS/pairs" 4 500
"$PROBECTL" enable -t latency --match arg0 -k 'begin.arg0 % 3' -p "$target_pid" \
	pairs:job__start pairs:job__done >/dev/null || fail "enable: $?"
"$PROBECTL" enable -t latency -k 'begin.str(arg0)' -p "$target_pid" \
	pairs:step__start pairs:step__done >/dev/null || fail "enable: $?"
ask go
said=$answer
hear
# Whoever may not open the table's file reads it through the process, whose pages are asked after once.
strace -qq -e trace=openat -o "$SCRATCH/strace" "$PROBECTL" read --json -p "$target_pid" >"$SCRATCH/read.out" ||
	fail "read: $?"
[ "$(grep -c '/smaps"' "$SCRATCH/strace")" -lt 20 ] || fail "the flags of all mappings are read for each row"
same "jobs by key" "$(jq -sc '[.[] | select(.name == "job__done") | .count] | [length, add]' "$SCRATCH/read.out")" \
	"[3,$(jq .jobs <<<"$said")]"
same "steps, null and depth 0 apart" \
	"$(jq -sc '[.[] | select(.name == "step__done") | [.keys[0], .count]]' "$SCRATCH/read.out")" \
	"[[null,$(jq .steps <<<"$said")]]"
"$PROBECTL" disable -p "$target_pid" pairs:{job,step}__{start,done} >/dev/null || fail "disable: $?"
tell bye
end_target

spanned text "$TARGETS/naps" 3 -- -s 16 'naps:nap__start(arg0,str(arg1),str(arg2))' naps:nap__done
same "text" "$(sed -E 's/^[0-9:.]+ +([0-9]+) +\1 +/PID /; s/ [0-9.]+[num]?s +/ TIME /' "$SCRATCH/text.out")" \
	"$(for i in 0 1 2; do
		echo "PID naps             TIME naps:nap__start..nap__done  $i \"xxxxxxxxxxxxxxxx\"... null -> $i $((2 * i))"
	done)"

spanned few "$TARGETS/naps" 20 -- -n 3 'naps:nap__start(arg0)' naps:nap__done
same "-n 3" "$(wc -l <"$SCRATCH/few.out")" 3
same "-n 3, summary" "$(summary few naps:nap__done)" \
	"3 spans, 0 lost, 0 in flight, 0 ends without a begin"

# ---- Losses ------------------------------------------------------------------------------

# The rings are not read while the tracer stands still.
start "$TARGETS/pairs" 1 20000
trace_start full --json -t span -b 128k -p "$target_pid" 'pairs:step__start' pairs:step__done
wait_tracing full
kill -STOP "$tracer_pid"
ask go
said=$answer
kill -CONT "$tracer_pid"
hear
trace_stop full
kept=$(jq -c 'select(.begin)' "$SCRATCH/full.out" | wc -l)
lost=$(jq -s 'map(.lost // 0) | add' "$SCRATCH/full.out")
[ "$lost" -gt 0 ] || fail "nothing was lost in a ring of 128 KiB"
same "kept and lost" "$((kept + lost))" "$(jq .steps <<<"$said")"
same "the lost are no spans" "$(summary full pairs:step__done)" \
	"$kept spans, $lost lost, 0 in flight, 0 ends without a begin"
tell bye
end_target

# ---- A controller that is killed ---------------------------------------------------------

start "$TARGETS/pairs" 4 2000
save_state "$target_pid"
trace_start killed --json -t span -p "$target_pid" 'pairs:request__start(str(arg3))' pairs:request__done
wait_tracing killed
kill -KILL "$tracer_pid"
wait "$tracer_pid" 2>/dev/null
ask go
hear
"$PROBECTL" repair -p "$target_pid" >/dev/null || fail "repair: $?"
same_state "$target_pid"
tell bye
end_target

# ---- Mistakes ----------------------------------------------------------------------------

start "$TARGETS/naps" 1
# wrong TEXT COMMAND…
wrong()
{
	local text=$1
	shift
	"$PROBECTL" "$@" >"$SCRATCH/wrong.out" 2>&1
	same "$*" "$?" 2
	grep -qF -e "$text" "$SCRATCH/wrong.out" || fail "$*: $(cat "$SCRATCH/wrong.out")"
}
pair=(-p "$target_pid" naps:nap__start naps:nap__done)
wrong "name both, the begin first" trace -t span -p "$target_pid" naps:nap__start
wrong "--min is for tracer span" trace -t latency --min 5ms "${pair[@]}"
wrong "'5 apples' is not a duration" trace -t span --min '5 apples' "${pair[@]}"
wrong "tracer 'span' has no rows" trace -t span -k arg0 "${pair[@]}"
wrong "pairs cannot be sampled" trace -t span --every 2 "${pair[@]}"
wrong "column 17: beside duration, begin. and end., say of which of them" trace -t span \
	-f 'duration > 5 && arg0' "${pair[@]}"
for options in "-t print -f duration" "-c -f end.arg0" "-t latency --match duration" \
	"-t sum,duration" "-c -k end.arg0" "-t print -f begin.arg0" "-c -k begin.str(arg1)"; do
	# shellcheck disable=SC2086 # several words
	wrong "only the filters and keys of pairs know their duration, begin and end" \
		trace $options "${pair[@]}"
done
wrong "there is no arg2, the probe has" trace -t span -f 'end.arg2 == 1' "${pair[@]}"
wrong "naps:nap__start: the filter 'begin.arg3 == 1', column 1: there is no arg3, the probe has" \
	trace -t span -f 'begin.arg3 == 1' "${pair[@]}"
wrong "naps:nap__start: the key 'begin.str(arg4)', column 1: there is no arg4" \
	trace -t latency -k 'begin.str(arg4)' "${pair[@]}"
wrong "ask for more than 16 arguments of the begin" trace -t span \
	-f "($(printf 'begin.arg%d + ' {0..8})1) + ($(printf 'begin.arg%d + ' {9..16})1) > 5" "${pair[@]}"
wrong "tracer 'span' takes no value" trace -t span,arg0 "${pair[@]}"
wrong "tracer 'span' prints hits as they come; use \`probectl trace\`" enable -t span "${pair[@]}"
# The end's own, and the begin's.
wrong "a record could take 65" trace -t span -s 8192 -p "$target_pid" \
	"naps:nap__start($(printf 'str(arg1),%.0s' 1 2 3 4 5)str(arg1))" naps:nap__done
end_process "$target_pid"
finish
