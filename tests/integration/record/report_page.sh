#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The page of a report in a browser: it loads nothing, logs nothing to the console, fits a
# phone, works with keyboard and screen reader (browser.py has the checks), and has the same
# numbers as the text.
. tests/integration/lib.sh
need chromium chromedriver jq
need_attach

# look PAGE NAME: its contents go to NAME.look
look()
{
	"$python" tests/integration/record/browser.py look "$1" >"$SCRATCH/$2.look" 2>"$SCRATCH/$2.err" ||
		fail "$2: $(head -20 "$SCRATCH/$2.err")"
}

# Hostile names, losses, a pause: the hits of tests/golden/test_summary.c.
"$python" - >"$SCRATCH/golden.json" <<'END'
import json

START = 1790000000123456789
COMMS = ["server", "worker", "<b>\"evil\"&\u202e\x01</b>"]
TEXTS = ["select 1", "commit", "</script><b>", "sel'ect \"x\""]

def hit(ns, thread, provider, name, *args):
    print(json.dumps({"ts": START + ns, "pid": 777 if thread == 2 else 400,
                      "tid": 777 if thread == 2 else 400 + thread, "cpu": thread,
                      "comm": COMMS[thread], "provider": provider, "name": name, "args": args}))

hit(0, 0, "evil", "<script>alert(1)</script>")
for i in range(1000):
    if 300 <= i < 400:
        continue
    if i == 600:
        print('{"lost":42}')
    begin, length, thread = i * 10000000, 20000 + i * i // 2, i % 3
    args = [TEXTS[i % 7 % 4], i % 5 - 1, 0x7ffe00000000 + i % 3]
    hit(begin, thread, "db", "query__start", *args)
    if i % 4 == 0:
        hit(begin + 1000, thread, "db", "lock-wait-start")
        hit(begin + 1000 + length // 3, thread, "db", "lock-wait-done")
    if i < 999:
        hit(begin + length, thread, "db", "query__done" if i % 50 else "query__failed", *args[:2])
END
"$PROBECTL" report --html "$SCRATCH/golden.html" --top 10 - <"$SCRATCH/golden.json" || fail "no page"
look "$SCRATCH/golden.html" golden
same "hits" "$(jq .hits "$SCRATCH/golden.look")" 2250
same "lost" "$(jq .lost "$SCRATCH/golden.look")" 42
same "a hostile probe" "$(jq -r '.probes[-1][0]' "$SCRATCH/golden.look")" 'evil:<script>alert(1)</script>'
same "a hostile command" "$(jq -r '.threads[-1][2]' "$SCRATCH/golden.look")" "<b>\"evil\"&\\u202e\\u0001</b>"
same "a hostile value" "$(jq -r '.keys[0][1][2] | "\(.[0]) \(.[1])"' "$SCRATCH/golden.look")" '"</script><b>" 256'
same "the title" "$(jq -r .title "$SCRATCH/golden.look")" 'standard input – probectl report'

# A program that reports what it did.
start "$TARGETS/pairs" 3 500
env --default-signal=INT "$PROBECTL" record -q -o "$SCRATCH/pairs" 'pairs:*' -p "$target_pid" \
	>"$SCRATCH/record.out" 2>&1 </dev/null &
recorder=$!
on_exit "end_process $recorder"
wait_on "$target_pid" pairs:step__start
ask ''
truth=$answer
kill -INT "$recorder"
wait "$recorder" || fail "record: $(cat "$SCRATCH/record.out")"
"$PROBECTL" report --html "$SCRATCH/page.html" "$SCRATCH/pairs" || fail "no page"
"$PROBECTL" report --json "$SCRATCH/pairs" >"$SCRATCH/pairs.json" || fail "no JSON"
look "$SCRATCH/page.html" pairs

# in_page FILTER, in_json FILTER
in_page()
{
	jq -rc "$1" "$SCRATCH/pairs.look"
}
in_json()
{
	jq -src "$1" "$SCRATCH/pairs.json"
}
same "hits and losses" "$(in_page '[.hits, .lost]')" \
	"$(in_json '[.[0].hits, .[0].lost]')"
same "probes" "$(in_page '[.probes[] | .[0:2]]')" \
	"$(in_json '[.[] | select(.type == "probe") | ["\(.provider):\(.name)", .hits]]')"
same "pairs" "$(in_page '[.pairs[] | [.[0], .[1], .[8], .[9]]]')" \
	"$(in_json '[.[] | select(.type == "pair") | ["\(.begin) → \(.provider):\(.name)", .count, .in_flight, .unmatched]]')"
same "total times" "$(in_page '[.pairs[] | .[7] | if . == "–" then 0 else . end]')" \
	"$(in_json '[.[] | select(.type == "pair") | .sum]')"
same "threads" "$(in_page '[.threads[] | .[3]]')" "$(in_json '[.[] | select(.type == "thread") | .hits]')"
same "steps" "$(in_page '.pairs[] | select(.[0] | endswith("step__done")) | .[1]')" "$(jq .steps <<<"$truth")"
same "requests" "$(in_page '.pairs[] | select(.[0] | endswith("request__done")) | .[1]')" "$(jq .done <<<"$truth")"
same "kinds" "$(in_page '[.keys[] | select(.[0] == "pairs:request__start by arg1") | .[1][][1]] | add')" \
	"$(jq '(.kinds | add) + 3' <<<"$truth")"
same "headings of pairs" "$(in_page '[.headings[] | select(.[0] == 3 and (.[1] | contains("→")))] | length')" \
	"$(in_json '[.[] | select(.type == "pair" and .count > 0)] | length')"
end_target

# One hit; no hit.
"$PROBECTL" trace -q --json -n 1 -o "$SCRATCH/one" 'args:*' -- "$TARGETS/args" >/dev/null
for name in one none; do
	[ "$name" = one ] || : >"$SCRATCH/none"
	"$PROBECTL" report --html "$SCRATCH/$name.html" - <"$SCRATCH/$name" || fail "no page of $name"
	look "$SCRATCH/$name.html" "$name"
done
same "one hit" "$(jq .hits "$SCRATCH/one.look")" 1
finish
