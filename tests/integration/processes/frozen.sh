#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
#
# A program whose control group is frozen cannot stop, and this is said; once it is thawed, a trace
# that waits for it goes on. Only version 1 of the freezer keeps threads from stopping.
. tests/integration/lib.sh
need_attach

below=$(sed -n 's/^[0-9]*:freezer://p' /proc/self/cgroup)
top=$(awk '$NF ~ /freezer/ && / - cgroup / {print $5; exit}' /proc/self/mountinfo)
group=$top$below/probectl-test.$$
[ -n "$top" ] || skip "there is no freezer of version 1"
mkdir "$group" 2>"$SCRATCH/err" || skip "no control group can be made: $(<"$SCRATCH/err")"
on_exit "rmdir '$group'"

start "$TARGETS/grows" 1
save_state "$target_pid"
echo "$target_pid" >"$group/cgroup.procs"
on_exit "echo THAWED >'$group/freezer.state'"
echo FROZEN >"$group/freezer.state"
tries=0
until [ "$(<"$group/freezer.state")" = FROZEN ] || ((tries++ > 200)); do
	sleep 0.05
done
"$PROBECTL" trace -c -d 10ms -p "$target_pid" grows:hit >"$SCRATCH/out" 2>"$SCRATCH/err"
same "frozen: status" "$?" 1
grep -q 'can stop: each waits for .* or for its control group to be thawed' "$SCRATCH/err" ||
	fail "frozen: $(<"$SCRATCH/err")"
anew thawed
env --default-signal=INT "$PROBECTL" trace -c -p "$target_pid" grows:hit >"$SCRATCH/thawed.out" 2>"$SCRATCH/thawed.err" &
tracer_pid=$!
sleep 0.3
echo THAWED >"$group/freezer.state"
wait_tracing thawed
ask "hits 1000"
trace_stop thawed
same "thawed: hits" "$(awk '$1 == "grows:hit" {print $2}' "$SCRATCH/thawed.out")" 1000
same_state "$target_pid"
echo "$target_pid" >"$top$below/cgroup.procs"
end_target
finish
