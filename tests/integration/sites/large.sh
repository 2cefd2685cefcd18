#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program that is larger than a jump reaches: its code lies near its sites.
. tests/integration/lib.sh
need_attach
need jq

start "$TARGETS/large"
pid=$target_pid
save_state "$pid"
for ((i = 0; i < 2; i++)); do
	ctl enable -v -p "$pid" large:hit
	pass 7
	same "hits" "$("$PROBECTL" status --json -p "$pid" large:hit | jq .hits)" 7
	ctl disable -p "$pid" large:hit
	same_state "$pid"
done
pass 3
end_target
finish
