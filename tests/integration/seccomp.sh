#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# A target under a seccomp filter is only touched if the filter allows what that
# takes, and only root can know.
. tests/integration/lib.sh
need_attach

start "$TARGETS/seccomp" 0
if [ "$(id -u)" = 0 ]; then
	"$PROBECTL" trace -q -n 3 -p "$target_pid" 'seccomp:hit(arg0,str(arg1))' >"$SCRATCH/out" ||
		fail "trace under a filter that allows everything: status $?"
	grep -c '"text"' "$SCRATCH/out" | grep -qx 3 || fail "hits: $(cat "$SCRATCH/out")"
else
	"$PROBECTL" enable -p "$target_pid" seccomp:hit 2>"$SCRATCH/err" && fail "enabled without knowing the filter"
	grep -q 'only root can read the filter' "$SCRATCH/err" || fail "the reason: $(cat "$SCRATCH/err")"
fi
ask x
[ "$answer" = alive ] || fail "answer: $answer"
end_target

if [ "$(id -u)" = 0 ]; then
	for call in 9 319 14; do # mmap, memfd_create, rt_sigprocmask
		start "$TARGETS/seccomp" "$call"
		save_state "$target_pid"
		"$PROBECTL" enable -p "$target_pid" seccomp:hit 2>"$SCRATCH/err" && fail "enabled against the filter ($call)"
		grep -q 'does not allow' "$SCRATCH/err" || fail "the reason ($call): $(cat "$SCRATCH/err")"
		ask x
		[ "$answer" = alive ] || fail "answer ($call): $answer"
		same_state "$target_pid"
		end_target
	done
fi
finish
