#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Long rows of sites, nop after nop, as test programs have them: all of a row share one jump, each
# is switched by itself, in any order, and none misses a hit.
. tests/integration/lib.sh
need jq
need_attach

program=$TARGETS/rows
mapfile -t names < <("$PROBECTL" list --json "$program" | jq -r '"\(.provider):\(.name)"' |
	grep -Ev 'rspin|rbranch_[1-5]?[0-9]$|rbranch_60$' | sort)
same "sites" "${#names[@]}" 544

# jumps: the runs of bytes of the program that are not as in its file
jumps()
{
	"$python" "$integration/poke.py" "$pid" changed "$program" | wc -l
}

# counts EXPECTED...: the sites that are on, and their hits
counts()
{
	same "$1" "$(enabled_of rows | cut -d' ' -f1,2)" "$(printf '%s\n' "${@:2}" | sort)"
}

# Where a nop is as long as a jump, only the last ten of a row share one, apart from the others.
plans="484 behind,60 hop" places=6
[ "$(uname -m)" = x86_64 ] || plans="43 behind,501 nop" places=10

start "$program"
pid=$target_pid
save_state "$pid"
same "plans" "$("$PROBECTL" list -vv --json -p "$pid" "${names[@]}" | jq -r .plan | sort | uniq -c |
	sed 's/^ *//' | paste -sd,)" "$plans"

# ---- All at once: a jump for each row; where the short one leads is right behind it ------------
ctl enable -p "$pid" "${names[@]}"
same "jumps" "$(jumps)" $places
pass 7
same "all" "$(enabled_of rows)" "$(all_enabled 7 "${names[@]}" | sort)"
for name in rows:r400_1 rows:r400_200 rows:r400_400 rows:r41_1 rows:rhop_1 rows:rhop_60 \
	rows:rbranch_61; do
	ctl disable -p "$pid" "$name"
	pass 1
	same "$name is off" "$(enabled_of rows | grep -c "^${name#*:} ")" 0
done
same "r400_2" "$(enabled_of rows | grep '^r400_2 ')" "r400_2 14 1/1"
same "jumps, some off" "$(jumps)" $places
ctl disable --force --keep-going -p "$pid" "${names[@]}"
same_state "$pid"

# The first of those that a branch enters behind cannot share the jump: half would be lost.
# (A nop that is as long as a jump has one of its own.)
for name in rows:rbranch_1 rows:rbranch_60; do
	[ "$(uname -m)" = x86_64 ] || break
	"$PROBECTL" enable -p "$pid" "$name" >"$SCRATCH/branch.out" 2>"$SCRATCH/branch.err" &&
		fail "$name is on"
	says branch "a branch enters the instructions after the site"
done
same_state "$pid"

# ---- Singly, in random order: what is on counts each pass since then --------------------------
RANDOM=12
declare -A hits=()
for ((i = 0; i < 30; i++)); do
	name=${names[RANDOM % ${#names[@]}]#*:}
	if [ -n "${hits[$name]-}" ]; then
		ctl disable -p "$pid" "rows:$name"
		unset "hits[$name]"
	else
		ctl enable -p "$pid" "rows:$name"
		hits[$name]=0
	fi
	pass 2
	expected=()
	for name in "${!hits[@]}"; do
		hits[$name]=$((hits[$name] + 2))
		expected+=("$name ${hits[$name]}")
	done
	counts "after $i" "${expected[@]}"
done
for name in "${!hits[@]}"; do
	ctl disable -p "$pid" "rows:$name"
	pass 1
done
same_state "$pid"

# ---- Records have the order of the nops -------------------------------------------------------
trace_start order --json -p "$pid" 'rows:r400_*'
wait_tracing order
pass 3
trace_stop order
same "the order of a row" "$(jq -r 'select(.args) | .name' "$SCRATCH/order.out" | md5sum)" \
	"$(for round in 1 2 3; do printf 'r400_%d\n' {1..400}; done | md5sum)"

# ---- Others at the nops that stay -------------------------------------------------------------
# poke BYTE: writes it to the nop of the third site of 400
poke()
{
	"$python" "$integration/poke.py" "$pid" poke "$third" "$1"
}
if [ "$(uname -m)" = x86_64 ]; then
	ctl enable -p "$pid" rows:r400_1
	read -r place _ < <("$python" "$integration/poke.py" "$pid" changed "$program")
	third=$(printf '%#x' $((place - 398)))
	ctl disable -p "$pid" rows:r400_1
	poke cc
	ctl enable -p "$pid" rows:r400_2 rows:r400_3 rows:r400_399
	poke 90
	pass 4
	counts "after a breakpoint" "r400_2 4" "r400_3 4" "r400_399 4"
	poke cc
	ctl disable -p "$pid" rows:r400_3
	ctl enable -p "$pid" rows:r400_3
	poke 90
	pass 1
	counts "after another" "r400_2 5" "r400_3 1" "r400_399 5"
	ctl disable -p "$pid" rows:r400_2 rows:r400_3 rows:r400_399
	same_state "$pid"

	# Another instruction is no nop: what is before it is left alone.
	poke f8
	"$PROBECTL" enable -p "$pid" rows:r400_1 >"$SCRATCH/other.out" 2>"$SCRATCH/other.err" &&
		fail "r400_1 is on"
	says other "the memory there does not hold what the file holds"
	ctl enable -p "$pid" rows:r400_4
	pass 2
	counts "behind it" "r400_4 2"
	ctl disable -p "$pid" rows:r400_4
	poke 90
	same_state "$pid"
fi

# ---- A thread stands where the jump is to be --------------------------------------------------
ask spin
for ((i = 0; i < 10; i++)); do
	ctl enable -p "$pid" "rows:rspin_$((1 + RANDOM % 50))"
	ctl enable --keep-going -p "$pid" 'rows:rspin_*'
	ctl disable --force --keep-going -p "$pid" 'rows:rspin_*'
done
ask spin
same "the thread" "$answer" "spun 0"
same_state "$pid"

# ---- A controller that is killed: the next one ends what it began -----------------------------
for ((i = 0; i < 12; i++)); do
	"$PROBECTL" enable -p "$pid" "${names[@]}" >"$SCRATCH/out" 2>&1 &
	sleep "0.0$((1 + i / 2))"
	end_process $!
	pass 2
	"$PROBECTL" disable --force --keep-going -p "$pid" 'rows:*' >"$SCRATCH/out" 2>&1
	ctl repair -p "$pid"
	pass 1
	same_state "$pid"
done
end_target
finish
