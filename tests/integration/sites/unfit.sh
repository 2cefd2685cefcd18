#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# Sites where no stub may run are refused, with the reason; the others are not.
. tests/integration/lib.sh
need_attach
need jq

start "$TARGETS/unfit"
[ "$answer" != none ] || skip "the C library registers no area for restartable sequences"
save_state "$target_pid"

# refused PROBE REASON
refused()
{
	"$PROBECTL" enable -p "$target_pid" "unfit:$1" 2>"$SCRATCH/err" && fail "unfit:$1 was enabled"
	grep -q "$2" "$SCRATCH/err" || fail "unfit:$1: $(cat "$SCRATCH/err")"
	same_state "$target_pid"
}
refused described "restartable sequence"
refused built "restartable sequence"
others=
if [ "$(uname -m)" = x86_64 ]; then
	refused unstacked "points to no stack"
	others=',["restacked",10000]'
fi

trace_start count --json -c --keep-going -p "$target_pid" 'unfit:*'
wait_tracing count
ask "count 10000"
same "the program" "$answer" "counted 10000"
trace_stop count
same "hits" "$(jq -sc 'map(select(.hits) | [.name, .hits]) | sort' "$SCRATCH/count.out")" \
	"[[\"outside\",10000]$others]"
same_state "$target_pid"
end_target
finish
