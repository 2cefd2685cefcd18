#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
#
# --name finds the processes of other users, too: one line says that they may not be used.
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
	for ((i = 0; i < 200; i++)); do
		[ "$(<"/proc/$!/comm")" != others-sleep ] || break
		sleep 0.05
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
finish
