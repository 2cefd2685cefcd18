#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
#
# Kernel uprobes on the first, a middle and the last site of a long row, which come before and after
# our jump, and go: both count each pass.
. tests/integration/lib.sh
need jq
need_attach

program=$TARGETS/rows
# Of those that share a jump: where a nop is as long as one, the last ten.
first=rows:r400_1 middle=rows:r400_200
[ "$(uname -m)" = x86_64 ] || first=rows:r400_391 middle=rows:r400_395
# The code of this program lies in the file as it does in memory.
mapfile -t offsets < <("$PROBECTL" list -v --json "$program" "$first" "$middle" \
	rows:r400_400 | jq -r .pc)
same "sites" "${#offsets[@]}" 3
places=()
for offset in "${offsets[@]}"; do
	places+=($((offset)))
done

# kernel_on, kernel_off HITS: uprobes come, and go after so many hits of each
kernel_on()
{
	rm -f "$SCRATCH/to" "$SCRATCH/from"
	mkfifo "$SCRATCH/to" "$SCRATCH/from"
	"$TARGETS/uprobe" "$pid" "$program" "${places[@]}" <"$SCRATCH/to" >"$SCRATCH/from" &
	kernel_pid=$!
	exec {to}>"$SCRATCH/to" {from}<"$SCRATCH/from"
	IFS= read -r -t "$TEST_SECONDS" -u "$from" said || die "uprobe said nothing"
	[[ $said != no\ uprobes* ]] || skip "$said"
	same "the kernel" "$said" on
}

kernel_off()
{
	echo >&"$to"
	IFS= read -r -t "$TEST_SECONDS" -u "$from" said || die "uprobe said nothing"
	same "the kernel's hits" "$said" "$1 $1 $1"
	exec {to}>&- {from}<&-
	wait "$kernel_pid"
}

start "$program"
pid=$target_pid
save_state "$pid"
kernel_on
ctl enable -p "$pid" 'rows:r400_*'
pass 10
kernel_off 10
pass 5
kernel_on
ctl disable -p "$pid" "$first" rows:r400_300
pass 3
ctl enable -p "$pid" "$first"
pass 2
same "hits" "$(enabled_of rows | cut -d' ' -f2,3 | sort | uniq -c | sed 's/^ *//' | paste -sd,)" \
	"1 2 1/1,398 20 1/1"
ctl disable -p "$pid" 'rows:r400_*' --keep-going
pass 1
kernel_off 6
pass 1
# The kernel takes them away a while later.
while [ -n "$("$python" "$integration/poke.py" "$pid" changed "$program")" ]; do
	pause
done
same_state "$pid"
end_target
finish
