#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A million hits under signals change no register of aarch64: neither the general ones nor the flags,
# nor what SVE has, whatever the stubs do and wherever their jumps are.
. tests/integration/lib.sh
need_attach
need jq

start "$TARGETS/kept" 2
[ "$answer" != none ] || skip "this processor has no SVE"
save_state "$target_pid"
trace_start alone -c --json -p "$target_pid" 'kept:*'
wait_tracing alone
same "the plans" "$("$PROBECTL" status --json -p "$target_pid" | jq -r '.plan | keys[]' | sort | xargs)" \
	"behind nop"
# 2 threads, of which each passes two probes, but the second one time less in each round
ask "1000 250"
same "counted" "$answer" "wrong 0"
trace_stop alone
same "hits" "$(jq -s 'map(.hits // empty) | add' "$SCRATCH/alone.out")" $((2 * 250 * 1999))
for how in 'kept:*(arg0,arg2,arg3)' 'kept:*(arg0,str(arg1))' \
	'-t hist,arg3 -k tid kept:*' '-f arg3<0 kept:*(str(arg1))'; do
	read -r -a options <<<"$how"
	trace_start other --json -o /dev/null -p "$target_pid" "${options[@]}"
	wait_tracing other
	ask "100 100"
	same "$how" "$answer" "wrong 0"
	trace_stop other
done
same_state "$target_pid"
end_target
finish
