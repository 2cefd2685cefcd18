#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# Call stacks through generated code get their names from /tmp/perf-PID.map. It must be a file of the
# process's user or of root, with one name only.
. tests/integration/lib.sh
need_attach

# stack_of HOW OPTIONS [OWNER]: the stacks from main on of 10 hits in the target `jit HOW`, as lines
# "frames hits", joined; addresses become 0x. OWNER gets the files first.
stack_of()
{
	start "$TARGETS/jit" "$1"
	save_state "$target_pid"
	[ -z "${3-}" ] || chown "$3" /tmp/*"-$target_pid".map 2>/dev/null
	trace_start "$1" -t "stack,$2" -o "$SCRATCH/$1.folded" -p "$target_pid" jit:call
	wait_tracing "$1"
	ask ''
	same "$1: the program" "$answer" "hits 10"
	hear
	trace_stop "$1"
	same_state "$target_pid"
	tell ''
	wait "$target_pid" 2>/dev/null
	sed 's/.*;main;/main;/; s/;0x[0-9a-f]*;/;0x;/' "$SCRATCH/$1.folded" | paste -sd, >"$SCRATCH/stacks"
	found=$(cat "$SCRATCH/stacks")
}

for how in folded frames,folded; do
	stack_of file "$how"
	same "$how: the code's name" "$found" "main;js:~compute /srv/app.js:7;leaf 10"
done
stack_of late folded
same "names that come later" "$found" "main;first;leaf 5,main;second;leaf 5"
for how in link hard fifo broken none; do
	stack_of "$how" folded
	same "$how: no name" "$found" "main;0x;leaf 10"
done
if [ "$(id -u)" = 0 ]; then
	stack_of file folded nobody
	same "another user's file" "$found" "main;0x;leaf 10"
fi
finish
