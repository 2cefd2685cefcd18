#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Where less than a jump has room after the nop, and nothing before it: two jumps one byte apart, or
# the first bytes of one. What enters behind the nop is no hit, whatever interrupts it.
. tests/integration/lib.sh
need jq
need_attach

program=$TARGETS/tight
[ -x "$program" ] || skip "$program is not built"
names=(tight:call tight:page tight:part tight:twin)

plans="call twin,page part,part part,twin twin"
[ "$(uname -m)" = x86_64 ] || plans="call nop,page nop,part nop,twin nop"

start "$program"
pid=$target_pid
save_state "$pid"
same "plans" "$("$PROBECTL" list -vv --json -p "$pid" 'tight:*' | jq -r '"\(.name) \(.plan)"' |
	sort | paste -sd,)" "$plans"
for plan in behind hop pun before; do
	"$PROBECTL" enable --plan "$plan" -p "$pid" "${names[@]}" >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "--plan $plan: status" "$?" 1
done
if [ "$(uname -m)" != x86_64 ]; then
	for plan in toggle hop pun before twin part call; do
		"$PROBECTL" enable --plan "$plan" -p "$pid" tight:twin >"$SCRATCH/out" 2>"$SCRATCH/plan.err"
		same "--plan $plan: status" "$?" 1
		says plan ': its nop is as long as a jump, which none of the requested plans is for'
	done
fi
same_state "$pid"

# ---- All, and singly --------------------------------------------------------------------------
ctl enable -p "$pid" "${names[@]}"
pass 7
same "all" "$(enabled_of tight)" "$(all_enabled 7 "${names[@]}")"
switch_singly "${names[@]}"

# ---- Another session, and controllers that are killed ------------------------------------------
trace_start args --json -p "$pid" "${names[@]}"
wait_tracing args
pass 2
trace_stop args
same "arguments" "$(jq -r 'select(.args) | "\(.name) \(.args[0])"' "$SCRATCH/args.out" |
	paste -sd,)" "twin 1,call 1,part 1,page 1,twin 2,call 2,part 2,page 2"
trace_start dead --count -p "$pid" "${names[@]}"
wait_tracing dead
end_process "$tracer_pid"
ctl repair -p "$pid"
pass 1
ctl disable -p "$pid" "${names[@]}"
same_state "$pid"
pass 1
ask spin
for ((i = 0; i < 20; i++)); do
	"$PROBECTL" enable -q -p "$pid" "${names[@]}" 2>/dev/null &
	controller=$!
	sleep "0.0$((RANDOM % 30 + 10))"
	kill -KILL "$controller" 2>/dev/null
	wait "$controller" 2>/dev/null
	"$PROBECTL" repair -p "$pid" >"$SCRATCH/out" 2>&1 || fail "repair: $(cat "$SCRATCH/out")"
	"$PROBECTL" disable -q --force -p "$pid" "${names[@]}" >/dev/null 2>&1
done
ask spin
same "the thread, with killed controllers" "$answer" "spun 0"
"$PROBECTL" repair -p "$pid" >"$SCRATCH/out" 2>&1
same_state "$pid"
pass 1

# ---- Somebody else's bytes ---------------------------------------------------------------------
# What is as long as the program's instruction is restored, as by a kernel uprobe that leaves:
# nothing is counted until it is mended.
for name in tight:twin tight:page; do
	ctl enable -p "$pid" "$name"
	read -r place original ours < <("$python" "$integration/poke.py" "$pid" changed "$program")
	[ "$(uname -m)" != x86_64 ] || original=${original:0:2}
	"$python" "$integration/poke.py" "$pid" poke "$place" "$original"
	pass 2
	"$PROBECTL" status -p "$pid" >"$SCRATCH/out" 2>"$SCRATCH/err"
	grep -q 'its hits are not counted' "$SCRATCH/err" || fail "$name: $(cat "$SCRATCH/err")"
	ctl repair -p "$pid"
	same "$name is mended" \
		"$("$python" "$integration/poke.py" "$pid" peek "$place" $((${#ours} / 2)))" "$ours"
	pass 3
	same "$name counts" "$(enabled_of tight)" "${name#*:} 3 1/1"
	"$python" "$integration/poke.py" "$pid" poke "$place" "$original"
	ctl disable -p "$pid" "$name"
	same_state "$pid"
done

# ---- Threads run through them ------------------------------------------------------------------
ask spin
for ((i = 0; i < 30; i++)); do
	ctl enable -p "$pid" "${names[@]}"
	ctl disable -p "$pid" "${names[i % 4]}"
	ctl disable -p "$pid" "${names[(i + 1) % 4]}" "${names[(i + 2) % 4]}" "${names[(i + 3) % 4]}"
done
ask spin
same "the thread" "$answer" "spun 0"
pass 1
same_state "$pid"
end_target
finish
