#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Where there is room for a short jump alone, it leads to a jump in bytes that are nobody's: hits
# count, sites near by share the padding, and all of it is given back.
. tests/integration/lib.sh
need_short_nops
need jq
need_attach

program=$TARGETS/hops
mapfile -t names < <("$PROBECTL" list --json "$program" | jq -r '"\(.provider):\(.name)"' |
	grep -Evx 'hops:(none|dead|spin)' | sort)

# changed: the places of the program that are not as in its file: "ADDRESS BEFORE NOW"
changed()
{
	"$python" "$integration/poke.py" "$pid" changed "$program"
}

start "$program"
pid=$target_pid
save_state "$pid"
same "plans" "$("$PROBECTL" list -vv --json -p "$pid" 'hops:*' | jq -r '"\(.name) \(.plan)"' |
	grep -Ev '^(none|dead) ' | sort | paste -sd,)" \
	"between_first hop,between_second behind,branch hop,last hop,row_first hop,row_second hop,spin hop,twice_first hop,twice_second hop"
same "no padding" "$("$PROBECTL" enable --plan hop -p "$pid" hops:none 2>&1 |
	grep -c 'no five unused bytes are within reach')" 1
same_state "$pid"

# ---- All, and singly --------------------------------------------------------------------------
ctl enable -p "$pid" "${names[@]}"
pass 7
same "all" "$(enabled_of hops)" "$(all_enabled 7 "${names[@]}")"
switch_singly hops:twice_first hops:row_first hops:between_second

# ---- Another session, and one whose controller is killed -------------------------------------
trace_start order --json -p "$pid" 'hops:row*' hops:branch
wait_tracing order
pass 2
trace_stop order
same "the order" "$(jq -r 'select(.args) | .name' "$SCRATCH/order.out" | paste -sd' ')" \
	"branch row_first row_second branch row_first row_second"
trace_start dead --count -p "$pid" hops:branch
wait_tracing dead
end_process "$tracer_pid"
ctl repair -p "$pid"
pass 1
ctl disable -p "$pid" "${names[@]}"
same_state "$pid"
pass 1
trace_start dead --count -p "$pid" hops:branch hops:twice_first
wait_tracing dead
end_process "$tracer_pid"
ctl repair -p "$pid"
same_state "$pid"

# ---- Somebody else's bytes ---------------------------------------------------------------------
# The short jump is restored: repair patches the site again, but only if it leads to our jump.
ctl enable -p "$pid" hops:branch
read -r short original ours < <(changed | grep ' eb..$')
read -r place _ jump < <(changed | grep ' e9')
ctl disable -p "$pid" hops:branch
padding=$("$python" "$integration/poke.py" "$pid" peek "$place" 5)
ctl enable -p "$pid" hops:branch
"$python" "$integration/poke.py" "$pid" poke "$short" "$original"
same "restored" "$("$PROBECTL" status -p "$pid" 2>&1 >"$SCRATCH/out" |
	grep -c 'as before it was patched; its hits are not counted')" 1
ctl repair -p "$pid"
same "mended" "$("$python" "$integration/poke.py" "$pid" peek "$short" $((${#ours} / 2)))" "$ours"
pass 1
"$python" "$integration/poke.py" "$pid" poke "$short" "$original"
"$python" "$integration/poke.py" "$pid" poke "$place" "$padding"
"$PROBECTL" repair -p "$pid" >"$SCRATCH/out" 2>&1
same "without its jump" "$("$python" "$integration/poke.py" "$pid" peek "$short" \
	$((${#original} / 2)))" "$original"
pass 1
same "the jump is gone" "$("$python" "$integration/poke.py" "$pid" peek "$place" 5)" "$padding"
same "it was one" "${jump:0:2}" e9
ctl disable -p "$pid" hops:branch
same_state "$pid"
pass 1

# The padding is somebody's: another place is taken, or none.
"$python" "$integration/poke.py" "$pid" poke "$place" cccc
ctl enable -p "$pid" hops:branch
pass 1
same "another place" "$(enabled_of hops)" "branch 1 1/1"
ctl disable -p "$pid" hops:branch
"$python" "$integration/poke.py" "$pid" poke "$place" "${padding:0:4}"
same_state "$pid"

# ---- A thread stands where the jump is to be --------------------------------------------------
ask spin
for ((i = 0; i < 20; i++)); do
	ctl enable -p "$pid" hops:spin
	ctl disable -p "$pid" hops:spin
done
ask spin
same "the thread" "$answer" "spun 0"
same_state "$pid"
end_target

# ---- libstdc++ -----------------------------------------------------------------------------
library=$(ldd "$TARGETS/rethrow" 2>/dev/null | awk '/libstdc\+\+/ { print $3 }')
if [ "$("$PROBECTL" list -vv --json "${library:-/}" libstdcxx:rethrow 2>/dev/null |
	jq -r .plan)" = hop ]; then
	start "$TARGETS/rethrow"
	pid=$target_pid
	save_state "$pid"
	ctl enable --plan behind,hop -p "$pid" 'libstdcxx:*'
	ask 50
	same "rethrown" "$answer" "rethrown 50"
	same "hits" "$("$PROBECTL" status --json -p "$pid" 'libstdcxx:*' |
		jq -r '"\(.name) \(.hits)"' | sort | paste -sd,)" "catch 100,rethrow 50,throw 50"
	ctl disable -p "$pid" 'libstdcxx:*'
	ask 5
	same_state "$pid"
	end_target
else
	echo "note: libstdcxx:rethrow of this system needs no hop"
fi
finish
