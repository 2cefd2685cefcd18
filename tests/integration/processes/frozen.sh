#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
#
# A program whose control group is frozen makes no system call for us, and with version 1 of the
# freezer its threads do not even stop. Commands say so at once. A trace whose process is frozen
# later waits at its end, for a limited time or until a signal; its other processes wait for
# nothing.
. tests/integration/lib.sh
need_attach

# use VERSION: makes a control group, where that is possible, and sets how it is frozen
use()
{
	local top below
	case $1 in
	1)
		top=$(awk '$NF ~ /freezer/ && / - cgroup / {print $5; exit}' /proc/self/mountinfo)
		below=$(sed -n 's/^[0-9]*:freezer://p' /proc/self/cgroup)
		switch=freezer.state frozen=FROZEN thawed=THAWED
		;;
	2)
		top=$(awk '/ - cgroup2 / {print $5; exit}' /proc/self/mountinfo)
		below=$(sed -n 's/^0:://p' /proc/self/cgroup)
		switch=cgroup.freeze frozen=1 thawed=0
		;;
	esac
	[ -n "$top" ] || return 1
	base=$top${below%/}
	group=$base/probectl-test.$$
	mkdir "$group" "$group/inner" 2>"$SCRATCH/err" || return 1
	on_exit "rmdir '$group/inner' '$group'"
	on_exit "echo $thawed >'$group/$switch'"
}

freeze()
{
	echo $frozen >"$group/$switch"
	case $switch in
	freezer.state) wait_until "[ \"\$(<'$group/$switch')\" = FROZEN ]" ;;
	*) wait_until "grep -q 'frozen 1' '$group/inner/cgroup.events'" ;;
	esac
}

thaw()
{
	echo $thawed >"$group/$switch"
}

# wait_until CONDITION
wait_until()
{
	until eval "$1"; do
		pause
	done
}

# names_group NAME: standard error names the process, and the group to thaw
names_group()
{
	says "$1" "process $target_pid is frozen (its control group $group): thaw it first"
}

# trace_frozen NAME ARGS…: traces both processes, and freezes the first once probes are on
trace_frozen()
{
	anew "$1"
	env --default-signal=INT "$PROBECTL" trace -c "${@:2}" -p "$target_pid" -p "$free" \
		grows:hit >"$SCRATCH/$1.out" 2>"$SCRATCH/$1.err" &
	tracer_pid=$!
	wait_tracing "$1"
	freeze
}

# is_off PID: no memory of probectl's is left in the process
is_off()
{
	! grep -q memfd:probectl "/proc/$1/maps"
}

# limited: checks that the wait ends by itself
limited()
{
	trace_frozen limit -d 500ms
	wait "$tracer_pid"
	same "version 2, at the limit: status" "$?" 1
	names_group limit
	thaw
	ctl repair -p "$target_pid"
	same_state "$target_pid"
	same_state "$free"
}

check_version()
{
	local command
	start "$TARGETS/grows" 1
	free=$target_pid
	save_state "$free"
	start "$TARGETS/grows" 1
	save_state "$target_pid"
	# The parent group is frozen, so it is the one to thaw.
	echo "$target_pid" >"$group/inner/cgroup.procs"

	freeze
	for command in 'trace -c -d 10ms' enable 'disable --force' "record -d 10ms -o $SCRATCH/record"; do
		# shellcheck disable=SC2086 # split into words
		"$PROBECTL" $command -p "$target_pid" grows:hit >"$SCRATCH/frozen.out" 2>"$SCRATCH/frozen.err"
		same "version $1, frozen, $command: status" "$?" 1
		names_group frozen
	done
	"$PROBECTL" status -p "$target_pid" grows:hit >"$SCRATCH/frozen.out" 2>&1 ||
		fail "version $1, frozen, status: $(<"$SCRATCH/frozen.out")"
	# The process that is not frozen is traced.
	"$PROBECTL" trace -c -d 10ms -p "$target_pid" -p "$free" grows:hit >"$SCRATCH/frozen.out" \
		2>"$SCRATCH/frozen.err"
	names_group frozen
	says frozen "tracing 1 probe"
	thaw
	same_state "$target_pid"
	same_state "$free"

	# The process is thawed before the limit.
	trace_frozen thawed
	kill -INT "$tracer_pid"
	wait_until "grep -q 'is frozen: waiting' '$SCRATCH/thawed.err'"
	wait_until "is_off $free"
	! is_off "$target_pid" || fail "version $1: what is frozen was changed"
	thaw
	wait "$tracer_pid"
	same "version $1, thawed: status" "$?" 0
	same "version $1, thawed: messages" "$(grep -c 'keeps its probes' "$SCRATCH/thawed.err")" 0
	same_state "$target_pid"
	same_state "$free"

	# A second signal ends the wait; the probes that stay are named, and repaired later.
	trace_frozen ended
	kill -INT "$tracer_pid"
	wait_until "grep -q 'is frozen: waiting' '$SCRATCH/ended.err'"
	kill -TERM "$tracer_pid"
	wait "$tracer_pid"
	same "version $1, ended: status" "$?" 1
	says ended "process $target_pid keeps its probes until .probectl repair.: process"
	names_group ended
	! grep -q forked "$SCRATCH/ended.err" || fail "version $1: $(grep forked "$SCRATCH/ended.err")"
	same_state "$free"
	thaw
	ctl repair -p "$target_pid"
	same_state "$target_pid"

	[ "$1" = 1 ] || limited
	echo "$target_pid" >"$base/cgroup.procs"
	end_target
	end_process "$free"
}

checked=0
for version in 1 2; do
	use $version || continue
	check_version $version
	rmdir "$group/inner" "$group"
	checked=$((checked + 1))
done
[ $checked -gt 0 ] || skip "no control group can be made: $(<"$SCRATCH/err")"
finish
