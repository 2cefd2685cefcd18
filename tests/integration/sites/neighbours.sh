#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sites whose nops follow each other share one jump: all of them count, in their order, each is
# switched by itself and by different sessions, and whatever is left is found and undone.
. tests/integration/lib.sh
need jq
need_attach

program=$TARGETS/neighbours
entered='neighbours:entered_first|neighbours:entered_second'
mapfile -t names < <("$PROBECTL" list --json "$program" | jq -r '"\(.provider):\(.name)"' |
	grep -Evx "$entered|neighbours:spin_.*" | sort)
row=()
for number in {01..21}; do
	row+=("neighbours:row$number")
done

# texts: the places of the program that are not as in its file
texts()
{
	"$python" "$integration/poke.py" "$pid" changed "$program" | wc -l
}

# Where a nop is as long as a jump, only the last ten of a row share one: of 21, eleven do not.
plans=behind places=6 gone=19
[ "$(uname -m)" = x86_64 ] || plans=$'behind\nnop' places=7 gone=9

start "$program"
pid=$target_pid
save_state "$pid"
same "plans" "$("$PROBECTL" list -vv --json -p "$pid" "${names[@]}" | jq -r .plan | sort -u)" "$plans"

# ---- All at once: a jump for each row, for all but two that a branch comes behind --------------------
ctl enable -p "$pid" "${names[@]}"
same "jumps" "$(texts)" $places
pass 7
same "all" "$(enabled_of neighbours)" "$(all_enabled 7 "${names[@]}")"
same "list -p" "$("$PROBECTL" list --json -p "$pid" 'neighbours:*' | jq -r 'select(.enabled).name' |
	sort -u | wc -l)" "${#names[@]}"

# ---- Off and on again, one by one ------------------------------------------------------------
for name in neighbours:row01 neighbours:row11 neighbours:row21 neighbours:usdt_first \
	neighbours:long_second neighbours:call_second neighbours:folded_second; do
	ctl disable -p "$pid" "$name"
	pass 1
	same "$name is off" "$(enabled_of neighbours | grep -c "^${name#*:} ")" 0
	same "status of $name" "$("$PROBECTL" status --json -p "$pid" "$name" |
		jq -c '[.patched, .refcount]')" '[0,0]'
	same "list of $name" "$("$PROBECTL" list --json -p "$pid" "$name" | jq -c .enabled)" false
done
same "row02" "$(enabled_of neighbours | grep '^row02 ')" "row02 14 1/1"
same "jumps, some off" "$(texts)" $places
for name in neighbours:row21 neighbours:row01; do
	ctl enable -p "$pid" "$name"
	pass 1
	same "$name is on again" "$(enabled_of neighbours | grep "^${name#*:} " | cut -d' ' -f2)" 1
	pass 1
done

# ---- Sessions of others at the same sites, in their order, and their end ----------------------
trace_start order --json -p "$pid" 'neighbours:row*'
wait_tracing order
trace=$tracer_pid
trace_start few --count --json -p "$pid" neighbours:row20 neighbours:row02 neighbours:usdt_second
wait_tracing few
ctl disable -p "$pid" neighbours:row05
pass 3
trace_stop few
same "few" "$(jq -r 'select(.hits) | "\(.name) \(.hits)"' "$SCRATCH/few.out" | sort | paste -sd,)" \
	"row02 3,row20 3,usdt_second 3"
pass 1
tracer_pid=$trace
trace_stop order
same "the order of a row" "$(jq -r 'select(.args) | .name' "$SCRATCH/order.out" | paste -sd' ')" \
	"$(for round in 1 2 3 4; do printf '%s ' "${row[@]#*:}"; done | sed 's/ $//')"
same "times ascend" "$(jq -s 'map(select(.args).ts) | . == sort' "$SCRATCH/order.out")" true

# A controller that is killed: the next one ends its session, and nothing else.
trace_start dead --count -p "$pid" neighbours:row05 neighbours:row06
wait_tracing dead
end_process "$tracer_pid"
ctl repair -p "$pid"
pass 2
same "row05, of the dead" "$(enabled_of neighbours | grep -c '^row05 ')" 0
same "row06 stays" "$(enabled_of neighbours | grep -c '^row06 ')" 1

# ---- Somebody else's bytes ---------------------------------------------------------------------
read -r place original ours < <("$python" "$integration/poke.py" "$pid" changed "$program" | head -1)
"$python" "$integration/poke.py" "$pid" poke "$place" "$original"
same "a jump is gone" "$("$PROBECTL" status -p "$pid" 2>&1 >"$SCRATCH/out" |
	grep -c 'as before it was patched; its hits are not counted')" $gone
ctl repair -p "$pid"
same "mended" "$("$python" "$integration/poke.py" "$pid" peek "$place" $((${#ours} / 2)))" "$ours"
pass 1
same "all are patched" "$(enabled_of neighbours | grep -vc ' 1/1$')" 0

# ---- All off; also in another order -----------------------------------------------------------
ctl disable --force --keep-going -p "$pid" "${names[@]}"
same_state "$pid"
pass 1
for name in neighbours:row21 neighbours:row10 neighbours:row01 neighbours:long_third \
	neighbours:long_first; do
	ctl enable -p "$pid" "$name"
	pass 1
done
same "added backwards" "$(enabled_of neighbours | cut -d' ' -f1,2 | paste -sd,)" \
	"long_first 1,long_third 2,row01 3,row10 4,row21 5"
for name in neighbours:row10 neighbours:long_first neighbours:row21 neighbours:long_third; do
	ctl disable -p "$pid" "$name"
	pass 1
done
same "the last" "$(enabled_of neighbours | cut -d' ' -f1 | paste -sd,)" row01
ctl disable -p "$pid" neighbours:row01
same_state "$pid"

# ---- A thread stands where the jump is to be --------------------------------------------------
ask spin
for ((i = 0; i < 20; i++)); do
	ctl enable -p "$pid" neighbours:spin_first
	ctl enable -p "$pid" neighbours:spin_second
	ctl disable -p "$pid" 'neighbours:spin_*'
done
ask spin
same "the thread" "$answer" "spun 0"
same_state "$pid"

# A branch comes behind the first two of four: the others share a jump, and count each pass.
ctl enable -p "$pid" neighbours:entered_third neighbours:entered_fourth
pass 10
same "entered" "$(enabled_of neighbours | cut -d' ' -f1,2 | paste -sd,)" "entered_fourth 10,entered_third 10"
ctl disable -p "$pid" 'neighbours:entered_*' --keep-going
same_state "$pid"
end_target
finish
