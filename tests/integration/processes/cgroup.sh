#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
#
# A control group with a memory limit: a session fits into what is left, says what it takes, or
# is refused; if the kernel kills the program, this is reported.
. tests/integration/lib.sh
need_attach

# make_group NAME MIB: creates a limited group below our own, or below another one
path=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
if [ -n "$path" ]; then
	groups=$(awk '$NF ~ /memory/ && / - cgroup / {print $5; exit}' /proc/self/mountinfo)$path
	limit=memory.limit_in_bytes
else
	groups=$(awk '/ - cgroup2 / {print $5; exit}' /proc/self/mountinfo)$(sed -n 's/^0:://p' /proc/self/cgroup)
	limit=memory.max
fi
make_group()
{
	local children
	# Groups below it may have no limits yet.
	children=$(dirname "$groups/$1")/cgroup.subtree_control
	[ "$limit" != memory.max ] || grep -qw memory "$children" ||
		{ echo +memory >"$children" && on_exit "echo -memory >'$children'"; } 2>/dev/null
	mkdir "$groups/$1" 2>"$SCRATCH/err" && on_exit "rmdir '$groups/$1'" &&
		echo "$(($2 << 20))" 2>"$SCRATCH/err" >"$groups/$1/$limit" ||
		skip "no control group with a limit can be made: $(cat "$SCRATCH/err")"
}

# start_in GROUP COMMAND...
start_in()
{
	local group=$1
	shift
	# shellcheck disable=SC2016 # expanded by that shell
	start sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$groups/$group" "$@"
	save_state "$target_pid"
}

group=probectl-test.$$
make_group $group 24

# The program has 18 of 24 MiB: the default buffers must not kill it.
start_in $group "$TARGETS/grows" 18
for how in "trace -o $SCRATCH/out" "record -o $SCRATCH/record" "trace -o $SCRATCH/out -t count -t print"; do
	anew room
	# shellcheck disable=SC2086 # a list of words
	env --default-signal=INT "$PROBECTL" $how -p "$target_pid" grows:hit >"$SCRATCH/room.out" 2>"$SCRATCH/room.err" &
	tracer_pid=$!
	wait_tracing room
	ask "hits 3000000"
	trace_stop room
	same "$how: the target" "$answer" "done"
	grep -qE "has [0-9.]+ MiB left of 24 MiB: the buffers have [0-9]+ KiB for each CPU instead of" "$SCRATCH/room.err" ||
		fail "$how: not said: $(cat "$SCRATCH/room.err")"
	rm -rf "$SCRATCH/record"
done
for size in 4M 64M 1G; do
	"$PROBECTL" trace -b $size -d 0.1 -p "$target_pid" grows:hit >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "-b $size: status" "$?" 1
	grep -qE 'may need [0-9]+ MiB of memory; its control group has [0-9.]+ MiB left of 24 MiB' "$SCRATCH/err" ||
		fail "-b $size: $(cat "$SCRATCH/err")"
done
"$PROBECTL" trace -q -b 128k -d 0.1 -p "$target_pid" grows:hit >"$SCRATCH/out" 2>"$SCRATCH/err" ||
	fail "-b 128k: $(cat "$SCRATCH/err")"
same "-b 128k: nothing is said" "$(cat "$SCRATCH/err")" ""
"$PROBECTL" trace -q -t hist,arg0 -k arg1 -d 0.1 -p "$target_pid" grows:hit >"$SCRATCH/out" 2>"$SCRATCH/err" ||
	fail "a table: $(cat "$SCRATCH/err")"
grep -qE 'room for [0-9]+ keys on each CPU instead of 4096' "$SCRATCH/err" ||
	fail "a table: not said: $(cat "$SCRATCH/err")"
"$PROBECTL" trace -q -t hist,arg0 -k arg1 --keys 4096 -d 0.1 -p "$target_pid" grows:hit >"$SCRATCH/out" 2>"$SCRATCH/err"
same "too large a table: status" "$?" 1
same_state "$target_pid"

end_target

# Begins that wait for their ends are accounted for: by a value, any entry may be touched.
start_in $group "$TARGETS/naps" 8
for match in "" "--match arg0"; do
	# shellcheck disable=SC2086 # a list of words
	trace_start spans -d 0.1 -t span $match -p "$target_pid" 'naps:nap__start(arg0,str(arg1))' naps:nap__done
	wait "$tracer_pid"
	same "spans $match: status" "$?" 0
	grep -qE 'left of 24 MiB: the buffers have [0-9]+ KiB for each CPU' "$SCRATCH/spans.err" ||
		fail "spans $match: not said: $(cat "$SCRATCH/spans.err")"
done
same_state "$target_pid"
end_process "$target_pid"

# The program's own allocation kills it.
start_in $group "$TARGETS/grows" 18
for how in trace record; do
	anew $how
	rm -rf "$SCRATCH/record"
	output=$SCRATCH/out
	[ $how = trace ] || output=$SCRATCH/record
	"$PROBECTL" $how -o "$output" -p "$target_pid" grows:hit >"$SCRATCH/$how.out" 2>"$SCRATCH/$how.err" &
	tracer_pid=$!
	wait_tracing $how
	tell "more 40"
	wait "$tracer_pid"
	same_end "$how of a process that is killed: status" "$?" 1
	! tells_ends ||
		grep -q "process $target_pid was killed by SIGKILL: its control group ran out of memory" "$SCRATCH/$how.err" ||
		fail "$how: not said: $(cat "$SCRATCH/$how.err")"
	exec {target_in}>&- {target_out}<&-
	wait "$target_pid" 2>"$SCRATCH/err"
	[ $how = record ] || start_in $group "$TARGETS/grows" 18
done

# The limit of a parent group counts, too.
make_group $group/inner 1000
start_in $group/inner "$TARGETS/grows" 18
"$PROBECTL" trace -q -d 0.1 -p "$target_pid" grows:hit >"$SCRATCH/out" 2>"$SCRATCH/err" ||
	fail "a group inside: $(cat "$SCRATCH/err")"
grep -qE 'left of 24 MiB: the buffers have [0-9]+ KiB' "$SCRATCH/err" || fail "a group inside: $(cat "$SCRATCH/err")"
end_target

# A program that has just started will need what is left.
# shellcheck disable=SC2016 # expanded by that shell
printf 'hits 3000000\n' | "$PROBECTL" trace -o "$SCRATCH/out" grows:hit -- \
	sh -c 'echo $$ >"$1/cgroup.procs" && exec "$2" 18' sh "$groups/$group/inner" "$TARGETS/grows" >"$SCRATCH/stdout" 2>"$SCRATCH/err"
same "a program that was started" "$?" 0
grep -q 'left of 24 MiB' "$SCRATCH/err" || fail "a program that was started: $(cat "$SCRATCH/err")"
finish
