#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A pun never misses memory that we have allocated ourselves; no jump crosses a page boundary;
# notes with the same address count its hits once for each probe.
. tests/integration/lib.sh
need_attach
need jq

crowded=$TARGETS/crowded
hits_of()
{
	"$PROBECTL" status --json -p "$target_pid" |
		jq -r --arg name "$1" 'select(.name == $name) | .hits'
}

# ---- The end of a page --------------------------------------------------------------------------

# Where a jump can be in one page, it is; an instruction of one length always is.
places="1 2 3 4 5 6" fit="1 6"
[ "$(uname -m)" = x86_64 ] || places="4 8" fit="4 8"
start "$crowded"
save_state "$target_pid"
for place in $places; do
	name=crowded:edge$place
	case " $fit " in
	*" $place "*) ctl enable --plan behind -p "$target_pid" "$name" ;;
	*)
		"$PROBECTL" enable --plan behind -p "$target_pid" "$name" >/dev/null 2>"$SCRATCH/err" &&
			fail "$name: a jump across two pages"
		grep -q "refused $name .*: the jump would cross a page" "$SCRATCH/err" ||
			fail "$name: $(cat "$SCRATCH/err")"
		;;
	esac
done
ask 50
same "beside the end of a page" "$answer" "passed 50 wrong 0"
for place in $fit; do
	same "edge$place" "$(hits_of "edge$place")" 50
	ctl disable -p "$target_pid" "crowded:edge$place"
done
same_state "$target_pid"
end_target

# ---- One address, several notes --------------------------------------------------------------

same "list shows each note" "$("$PROBECTL" list --json "$crowded" | jq -r .name | grep -c folded)" 3
start "$crowded"
save_state "$target_pid"
ctl enable -p "$target_pid" 'crowded:*' --keep-going
ask 200
same "folded" "$(hits_of folded)" 200
same "another" "$(hits_of another)" 200
"$PROBECTL" list --json -p "$target_pid" "crowded:folded" >"$SCRATCH/out"
same "each semaphore is raised" \
	"$("$python" tests/integration/state.py semaphores "$target_pid" | grep -c 'folded 0x.* 1$')" 2
ctl disable -p "$target_pid" 'crowded:*' --keep-going
same_state "$target_pid"

trace_start count -c --json -p "$target_pid" crowded:folded crowded:another
wait_tracing count
ask 150
trace_stop count
same "counted" "$(jq -r '"\(.name) \(.hits)"' "$SCRATCH/count.out" | sort | xargs)" \
	"another 150 folded 150"
trace_start records --json -p "$target_pid" crowded:folded crowded:another
wait_tracing records
ask 150
trace_stop records
same "one record for each hit and probe" \
	"$(jq -r 'select(.args).name' "$SCRATCH/records.out" | sort | uniq -c | xargs)" \
	"150 another 150 folded"
record_start record -p "$target_pid" crowded:folded
wait_tracing record "$recorder"
ask 150
record_stop record
same "recorded" "$("$PROBECTL" export -F json "$SCRATCH/record" 2>/dev/null | grep -c folded)" 150
same_state "$target_pid"
end_target
# ---- Puns beside our own memory ------------------------------------------------------------

[ "$(uname -m)" = x86_64 ] || finish # no nop is shorter than a jump
near="crowded:near1 crowded:near2 crowded:near3 crowded:near4"

# The heap's start is random: in nearly all cases it is not right after the program.
start_roomy()
{
	for ((try = 0; try < 20; try++)); do
		start "$crowded"
		"$python" - "$target_pid" <<'PYTHON' && return
import sys
ends = [line.split() for line in open(f"/proc/{sys.argv[1]}/maps")]
last = max(int(f[0].split("-")[1], 16) for f in ends if f[-1].endswith("/crowded"))
heap = [int(f[0].split("-")[0], 16) for f in ends if f[-1] == "[heap]"]
sys.exit(bool(heap) and last <= heap[0] < last + 0x100000)
PYTHON
		end_target
	done
	die "the heap is always right behind the program"
}

# All at once: their pages are allocated first.
start_roomy
save_state "$target_pid"
# shellcheck disable=SC2086 # several words
ctl enable --plan pun -p "$target_pid" $near
ask 100
same "puns at once" "$answer" "passed 100 wrong 0"
for name in $near; do
	same "$name" "$(hits_of "${name#*:}")" 100
done
# shellcheck disable=SC2086
ctl disable -p "$target_pid" $near
ask 100
same "puns are gone" "$answer" "passed 100 wrong 0"
grep -q memfd:probectl "/proc/$target_pid/maps" && fail "memory is left"
same_state "$target_pid"
end_target

# One after another: all but the first use the arena, where their jumps can reach.
start_roomy
save_state "$target_pid"
ctl enable --plan behind -p "$target_pid" crowded:folded
for name in crowded:near4 crowded:near3 crowded:near2; do
	ctl enable --plan pun -p "$target_pid" "$name"
	ask 10
	same "$name beside an arena" "$answer" "passed 10 wrong 0"
done
same "near4" "$(hits_of near4)" 30
same "near3" "$(hits_of near3)" 20
same "near2" "$(hits_of near2)" 10
# Add more sessions; the older ones end first.
# shellcheck disable=SC2086
ctl trace -q -c -d 10ms -p "$target_pid" --keep-going $near
trace_start more -c --json -p "$target_pid" crowded:near3 crowded:near4
wait_tracing more
ctl disable -p "$target_pid" crowded:near4
ask 10
trace_stop more
same "near4 of the newer session" \
	"$(jq -r 'select(.name == "near4") | .hits' "$SCRATCH/more.out")" 10
ctl repair -p "$target_pid"
ask 10
same "near3" "$(hits_of near3)" 40
# What an arena lent to a pun is returned, and used again.
for ((round = 0; round < 5; round++)); do
	ctl enable --plan pun -p "$target_pid" crowded:near4
	ask 1
	same "again" "$(hits_of near4)" 1
	ctl disable -p "$target_pid" crowded:near4
done
ctl disable -p "$target_pid" crowded:near2 crowded:near3 crowded:folded
ask 10
same "all are gone" "$answer" "passed 10 wrong 0"
grep -q memfd:probectl "/proc/$target_pid/maps" && fail "memory is left"
same_state "$target_pid"
end_target

finish
