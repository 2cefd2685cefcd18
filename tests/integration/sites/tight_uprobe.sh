#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
#
# A kernel uprobe at a twin's nop, while signals arrive: a handler returns to the byte after it, and
# its frame stays on the stack. When the uprobe has gone, the twin is mended all the same.
. tests/integration/lib.sh
need_short_nops
need jq
need_attach

program=$TARGETS/tight
[ -x "$program" ] || skip "$program is not built"
# The code of this program lies in the file as it does in memory.
offset=$("$PROBECTL" list -v --json "$program" tight:twin | jq -r .pc)

start "$program"
pid=$target_pid
save_state "$pid"
ctl enable -p "$pid" --plan twin tight:twin
read -r place original _ < <("$python" "$integration/poke.py" "$pid" changed "$program")
for ((i = 0; i < 24; i++)); do
	rm -f "$SCRATCH/to" "$SCRATCH/from"
	mkfifo "$SCRATCH/to" "$SCRATCH/from"
	"$TARGETS/uprobe" "$pid" "$program" "$((offset))" <"$SCRATCH/to" >"$SCRATCH/from" &
	kernel_pid=$!
	exec {to}>"$SCRATCH/to" {from}<"$SCRATCH/from"
	IFS= read -r -t "$TEST_SECONDS" -u "$from" said || die "uprobe said nothing"
	[[ $said != no\ uprobes* ]] || skip "$said"
	same "the kernel" "$said" on
	pass 1000
	exec {to}>&- {from}<&-
	wait "$kernel_pid"
	# The kernel takes it away a while later.
	while [ "$("$python" "$integration/poke.py" "$pid" peek "$place" 1)" != "${original:0:2}" ]; do
		pause
	done
	"$PROBECTL" repair -p "$pid" >"$SCRATCH/out" 2>&1 || fail "$i: $(cat "$SCRATCH/out")"
done
pass 3
same "it counts" "$(enabled_of tight | cut -d' ' -f1,3)" "twin 1/1"
ctl disable -p "$pid" tight:twin
same_state "$pid"
end_target
finish
