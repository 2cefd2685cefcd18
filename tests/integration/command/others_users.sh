#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
#
# --name finds the processes of other users, too: one line says that they may not be used. So it
# is for a root that has fewer capabilities than a process; it is not told to become root.
. tests/integration/lib.sh
need setpriv

chmod 755 "$SCRATCH"
cp "$(command -v sleep)" "$SCRATCH/others-sleep"
pids=()
for _ in 1 2 3; do
	"$SCRATCH/others-sleep" 60 &
	pids+=($!)
	on_exit "end_process $!"
	# Until then it has our name.
	while [ "$(<"/proc/$!/comm")" != others-sleep ]; do
		pause
	done
done
also="; the same for ${pids[1]}, ${pids[2]}"
refusal="process ${pids[0]} belongs to user 0: run probectl as that user or as root$also"

# as_nobody ARGS…: what probectl says on standard error
as_nobody()
{
	setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=-all \
		"$PROBECTL" "$@" --name others-sleep 2>&1 >/dev/null </dev/null
}
for command in "trace x:y" "top x:y"; do
	# shellcheck disable=SC2086 # words
	same "$command" "$(as_nobody $command)" "probectl: warning: $refusal
probectl: none of the 3 processes can be traced"
done
same enable "$(as_nobody enable x:y)" "probectl: $refusal"
for command in list status; do
	same "$command" "$(as_nobody $command)" "probectl: cannot read the mappings of process \
${pids[0]}: it belongs to user 0; run as that user or as root$also"
done
weak_root=$(setpriv --bounding-set=-sys_ptrace --inh-caps=-all "$PROBECTL" trace x:y \
	-p "${pids[0]}" 2>&1 >/dev/null </dev/null)
same "a root without CAP_SYS_PTRACE" "$weak_root" "probectl: process ${pids[0]} may not be traced: \
it is not dumpable, has more capabilities or is in another user namespace: run probectl outside of \
its container, as the host's root"
finish
