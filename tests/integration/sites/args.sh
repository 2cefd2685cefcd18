#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every form of operand, executed: `trace --json` shows what the program expects
# (tests/targets/arguments/args.c), and a hit leaves the machine state unchanged.
. tests/integration/lib.sh
need_attach

# compare_args NAME HITS EXPECTED: both hold "name" and "args"
compare_args()
{
	"$python" - "$1" "$2" "$3" <<'PYTHON' || fail "$1: arguments differ"
import json, sys
name, hits_path, expected_path = sys.argv[1:]
hits = {}
for line in open(hits_path, encoding="utf-8"):
    item = json.loads(line)
    if "args" in item:
        hits.setdefault(item["name"], []).append(item["args"])
    elif item.get("lost"):
        sys.exit(f"{name}: lost {item}")
wrong = 0
for line in open(expected_path, encoding="utf-8"):
    case = json.loads(line)
    got = hits.pop(case["name"], [])
    # 1.0 and 1 are the same number, 2**64 - 1 and its float are not.
    if len(got) != 1 or got[0] != case["args"] or \
            [type(v) is str for v in got[0]] != [type(v) is str for v in case["args"]]:
        wrong += 1
        print(f"{name}: {case['name']}: got {got}, wanted [{case['args']}]")
for extra in hits:
    wrong += 1
    print(f"{name}: nobody expected {extra}")
sys.exit(1 if wrong else 0)
PYTHON
}

for program in args args_nopie; do
	"$TARGETS/$program" --expect >"$SCRATCH/expected"

	# Attached to, with the state compared before and after.
	start "$TARGETS/$program" --wait
	save_state "$target_pid"
	trace_start hits --json -p "$target_pid" 'args:*'
	wait_on "$target_pid" args:none
	ask go
	ask_hits=$answer
	trace_stop hits
	compare_args "$program" "$SCRATCH/hits.out" "$SCRATCH/expected"
	same "$program: cases" "$ask_hits" "hit $(wc -l <"$SCRATCH/expected")"
	same_state "$target_pid"
	tell bye
	end_target

	# Started by probectl.
	"$PROBECTL" trace --json -o "$SCRATCH/run.out" 'args:*' -- "$TARGETS/$program" \
		>"$SCRATCH/stdout" 2>"$SCRATCH/run.err" ||
		fail "$program: trace -- ended with $?: $(head -3 "$SCRATCH/run.err")"
	compare_args "$program, started" "$SCRATCH/run.out" "$SCRATCH/expected"
	same "$program: output" "$(cat "$SCRATCH/stdout")" "$ask_hits"
done

# Some arguments of a probe only, by number.
"$PROBECTL" trace --json -o "$SCRATCH/part.out" 'args:immediate_32(arg1,arg0)' -- \
	"$TARGETS/args" >/dev/null 2>"$SCRATCH/run.err"
same "chosen arguments" \
	"$(jq -c 'select(.args) | .args' "$SCRATCH/part.out" 2>/dev/null)" "[-5,5]"

# Half of a value is marked as such.
"$PROBECTL" trace --json -o "$SCRATCH/half.out" 'args:half' -- "$TARGETS/args" >/dev/null \
	2>"$SCRATCH/run.err"
same "values of which the operands have half" \
	"$(jq -c 'select(.args) | .truncated' "$SCRATCH/half.out" 2>/dev/null)" "[0,1,3]"

# Registers, flags, vector registers and the red zone, counted and recorded.
rounds=128
plans=(behind pun)
[ "$(uname -m)" = x86_64 ] || plans=(behind nop)
for how in --count --json; do
	for plan in "${plans[@]}"; do
		start "$TARGETS/preserve" "$rounds"
		save_state "$target_pid"
		trace_start preserve "$how" --plan "$plan" -p "$target_pid" \
			'preserve:hit(arg0,arg1,arg2,arg3,arg4,str(arg5))'
		wait_on "$target_pid" preserve:hit
		ask go
		same "preserve, $how, $plan" "$answer" "hits $rounds wrong 0"
		trace_stop preserve
		same_state "$target_pid"
		tell bye
		end_target
	done
	[ "$how" = --count ] || same "strings of preserve" \
		"$(jq -r 'select(.args) | .args[5]' "$SCRATCH/preserve.out" 2>/dev/null | sort | uniq -c | tr -s ' ')" \
		" $rounds kept"
done

# Strings at bad pointers: the program lives, and prints what it should.
start "$TARGETS/badstring"
save_state "$target_pid"
trace_start bad --json -s 64 -p "$target_pid" 'badstring:text(arg0,str(arg1))'
wait_on "$target_pid" badstring:text
ask go
same "bad strings" "$answer" "passed 12"
trace_stop bad
same_state "$target_pid"
tell bye
end_target
"$TARGETS/badstring" --expect >"$SCRATCH/expected"
"$python" - "$SCRATCH/bad.out" "$SCRATCH/expected" <<'PYTHON' || fail "strings differ"
import json, sys
got = {}
for line in open(sys.argv[1], encoding="utf-8"):
    item = json.loads(line)
    if "args" in item:
        got[item["args"][0]] = item["args"][1]
wrong = 0
for line in open(sys.argv[2], encoding="utf-8"):
    case = json.loads(line)
    allowed = case["text"] if isinstance(case["text"], list) else [case["text"]]
    if case["case"] not in got or got[case["case"]] not in allowed:
        wrong += 1
        print(f"case {case['case']}: got {got.get(case['case'], 'no hit')!r}, wanted one of {allowed}")
sys.exit(1 if wrong else 0)
PYTHON
finish
