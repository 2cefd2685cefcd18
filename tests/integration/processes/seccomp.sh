#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# A target with a seccomp filter is changed only if the filter allows all necessary calls. Root
# can read it; a controller with the same filters can try the calls in a child. Each thread may
# have its own filters. Landlock is another sandbox.
. tests/integration/lib.sh
need_attach
sandbox=$TARGETS/sandbox
unseen="warning: process [0-9]*: \(hits in libraries\|a program that it starts\).*would kill it for futex"
mapping="mmap memfd_create munmap madvise"

# same_life WHAT: the target answers, is as before, and contains nothing of ours
same_life()
{
	ask x
	same "$1: the answer" "$answer" alive
	same_state "$target_pid"
	same "$1: what is left" "$(grep -c memfd:probectl "/proc/$target_pid/maps")" 0
}

# refused WHAT REASON COMMAND...
refused()
{
	local what=$1 reason=$2
	shift 2
	"$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	same "$what: status" "$?" 1
	grep -q "$reason" "$SCRATCH/err" || fail "$what: the reason: $(cat "$SCRATCH/err")"
}

# hits N COMMAND...: prints N hits, with both texts
hits()
{
	local n=$1
	shift
	"$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null || fail "$*: status $?: $(cat "$SCRATCH/err")"
	same "$*: hits" "$(grep -c '"text" "written"' "$SCRATCH/out")" "$n"
}

# ---- Filters that only the target is under -------------------------------------------------

start "$TARGETS/seccomp" nothing
save_state "$target_pid"
if [ "$(id -u)" = 0 ]; then
	hits 3 "$PROBECTL" trace -q -n 3 -p "$target_pid" 'seccomp:hit(arg0,str(arg1),str(arg2))'
else
	refused "an unknown filter" 'only root can read the filter' "$PROBECTL" enable -p "$target_pid" seccomp:hit
fi
same_life "its own filter"
end_target

if [ "$(id -u)" = 0 ]; then
	for call in $mapping; do
		start "$TARGETS/seccomp" "$call"
		save_state "$target_pid"
		refused "call $call" 'would kill it for' "$PROBECTL" enable -p "$target_pid" seccomp:hit
		same_life "call $call"
		end_target
	done
	# What stubs call: constants and variables are shown, and a message says that others are not.
	start "$TARGETS/seccomp" rt_sigprocmask
	save_state "$target_pid"
	"$PROBECTL" trace -q -n 3 -p "$target_pid" 'seccomp:hit(arg0,str(arg1),str(arg2),str(arg3))' \
		>"$SCRATCH/out" 2>"$SCRATCH/err" || fail "without rt_sigprocmask: $(cat "$SCRATCH/err")"
	same "without rt_sigprocmask" "$(grep -c '"text" null "variable"' "$SCRATCH/out")" 3
	grep -q 'warning: .*would kill it for rt_sigprocmask' "$SCRATCH/err" ||
		fail "without rt_sigprocmask: not said: $(cat "$SCRATCH/err")"
	same_life "without rt_sigprocmask"
	end_target
	# Only the kernel has the name of a thread.
	start "$TARGETS/seccomp" prctl
	save_state "$target_pid"
	refused "names without prctl" 'would kill it for prctl' \
		"$PROBECTL" trace -c -k comm -d 0.1 -p "$target_pid" seccomp:hit
	"$PROBECTL" trace -q -c -k tid -k probe -n 3 -p "$target_pid" seccomp:hit \
		>"$SCRATCH/out" 2>"$SCRATCH/err" || fail "without prctl: $(cat "$SCRATCH/err")"
	grep -q '"seccomp:hit"$' "$SCRATCH/out" || fail "without prctl: $(cat "$SCRATCH/out")"
	same_life "without prctl"
	end_target
	# A thread that waits for a library to be probed waits in futex(2): without it, some hits are
	# missed.
	start "$TARGETS/seccomp" futex
	save_state "$target_pid"
	for command in "trace -c" "record -o $SCRATCH/unseen" top; do
		# shellcheck disable=SC2086 # words
		"$PROBECTL" $command --follow -d 0.1 -p "$target_pid" seccomp:hit \
			>"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null ||
			fail "without futex, $command: $(cat "$SCRATCH/err")"
		same "without futex, $command: said" "$(grep -c "$unseen" "$SCRATCH/err")" 2
	done
	same_life "without futex"
	# No message about what was not requested.
	"$PROBECTL" trace -c -d 0.1 -p "$target_pid" seccomp:hit >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "without futex: $(cat "$SCRATCH/err")"
	same "without futex, not followed" "$(grep -c "$unseen" "$SCRATCH/err")" 0
	end_target
fi

# ---- Threads --------------------------------------------------------------------------------

for how in "rt_sigprocmask worker" "memfd_create worker"; do
	# shellcheck disable=SC2086 # two words
	start "$TARGETS/seccomp" $how
	save_state "$target_pid"
	for ((i = 0; i < 3; i++)); do
		"$PROBECTL" trace -q -n 3 -p "$target_pid" 'seccomp:hit(arg0,str(arg1))' \
			>"$SCRATCH/out" 2>"$SCRATCH/err" || fail "thread $how: status $?: $(cat "$SCRATCH/err")"
		same "thread $how: hits" "$(grep -c '"text"' "$SCRATCH/out")" 3
	done
	[ "$how" = "memfd_create worker" ] && [ "$(id -u)" = 0 ] || grep -q 'warning: .*seccomp' "$SCRATCH/err" ||
		fail "thread $how: not said: $(cat "$SCRATCH/err")"
	same_life "thread $how"
	end_target
done

# Strict seccomp forbids even the time stamp counter.
start "$TARGETS/seccomp" nothing strict
save_state "$target_pid"
refused "a strict thread" 'strict seccomp' "$PROBECTL" trace -q -n 1 -p "$target_pid" seccomp:hit
for filter in 1 'str(arg1) == "text"'; do
	"$PROBECTL" trace -c -f "$filter" -n 3 -p "$target_pid" seccomp:hit >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "a strict thread, $filter: $(cat "$SCRATCH/err")"
	grep -q 'seccomp:hit *[1-9]' "$SCRATCH/out" || fail "a strict thread, $filter: $(cat "$SCRATCH/out")"
done
same_life "a strict thread"
end_target

# ---- A filter added while it is traced
# --------------------------------------------------------

start "$TARGETS/seccomp" memfd_create later
trace_start later -p "$target_pid" 'seccomp:hit(arg0,str(arg2))'
wait_tracing later
ask now
if [ "$(id -u)" = 0 ]; then # what is needed to end is allowed
	trace_stop later
else
	wait "$tracer_pid"
	same "a filter that came later: status" "$?" 1
	grep -q 'switched off: .*only root' "$SCRATCH/later.err" || fail "later: $(cat "$SCRATCH/later.err")"
fi
ask x
same "a filter that came later: the answer" "$answer" alive
end_target

# ---- Filters that only probectl is under -----------------------------------------------------

# within WHAT COMMAND...: with a filter, status 0
within()
{
	local what=$1
	shift
	# shellcheck disable=SC2086 # lists of words
	timeout -k 5 "$TEST_SECONDS" "$sandbox" $what -- "$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null ||
		fail "under $what: $*: status $?: $(head -3 "$SCRATCH/err")"
}

# Optional calls are not made if they would kill: madvise, kcmp, sched_setattr, sched_getattr,
# sched_setaffinity, sched_getaffinity, sched_yield.
start "$TARGETS/seccomp" nothing none
save_state "$target_pid"
probe='seccomp:hit(arg0,str(arg1))'
for filters in kill:madvise "trap:madvise kill:kcmp kill:sched_setattr" kill:sched_getattr "kill:sched_setaffinity kill:sched_getaffinity kill:sched_yield trap:kcmp" \
	"kill:process_vm_readv kill:process_vm_writev" errno:process_vm_readv container; do
	within "$filters" list -vv "$TARGETS/seccomp"
	within "$filters" list -p "$target_pid"
	within "$filters" enable -p "$target_pid" seccomp:hit
	within "$filters" status -p "$target_pid"
	within "$filters" disable -p "$target_pid" seccomp:hit
	within "$filters" trace -q -n 3 -p "$target_pid" "$probe"
	same "under $filters: hits" "$(grep -c '"text"' "$SCRATCH/out")" 3
	within "$filters" trace -q -c --follow -d 0.1 -p "$target_pid" seccomp:hit
	within "$filters" record -q -n 3 -o "$SCRATCH/within" -p "$target_pid" "$probe"
	within "$filters" report "$SCRATCH/within"
	rm -rf "$SCRATCH/within"
	within "$filters" top -i 0.1 -d 0.2 -p "$target_pid" seccomp:hit
	same_life "under $filters"
done
# Without this nothing works: this is reported, and nothing is killed.
for action in kill trap; do
	refused "$action ptrace" "would kill probectl for calling ptrace" \
		"$sandbox" "$action:ptrace" -- "$PROBECTL" enable -p "$target_pid" seccomp:hit
	refused "$action ptrace, started" "would kill probectl for calling ptrace" \
		"$sandbox" "$action:ptrace" -- "$PROBECTL" run seccomp:hit -- true
done
same_life "the call that nothing can be done without"

# Landlock keeps its processes from tracing others, and from writing to the files of their own.
"$sandbox" landlock -- true
if [ $? = 77 ]; then
	echo "note: this kernel has no Landlock: its refusals are not tested"
else
	refused "Landlock, outside" "may not be traced: Landlock or another" \
		"$sandbox" landlock -- "$PROBECTL" enable -p "$target_pid" seccomp:hit
	refused "Landlock, started" "may be read, but not written to .*: Landlock or another" \
		"$sandbox" landlock -- "$PROBECTL" run seccomp:hit -- "$TARGETS/seccomp" nothing none
	same_life "Landlock"
fi
end_target

# ---- In a sandbox, as in containers
# ------------------------------------------------------------

cat >"$SCRATCH/inside.sh" <<'INSIDE'
probectl=$1 program=$2 out=$3 limit=$4
coproc TARGET { exec "$program" nothing none; }
pid=$TARGET_PID
read -r -u "${TARGET[0]}" line
maps=$(cat "/proc/$pid/maps")
probe='seccomp:hit(arg0,str(arg1),str(arg2))'
{
	"$probectl" trace -q -n 3 -p "$pid" "$probe"
	echo "attach $?"
	"$probectl" enable -p "$pid" seccomp:hit
	echo "enable $?"
	"$probectl" disable -p "$pid" seccomp:hit
	echo "disable $?"
	"$probectl" record -q -n 3 -o "$out.record" -p "$pid" "$probe"
	echo "record $?"
	rm -rf "$out.record"
	[ "$(cat "/proc/$pid/maps")" = "$maps" ] && echo "maps 0"
	echo x >&"${TARGET[1]}"
	read -r -t "$limit" -u "${TARGET[0]}" line
	echo "target $line"
	kill "$pid"
	# The program ends with its input, which is closed when it has hit.
	before=$(grep -c '"written"' "$out")
	rm -f "$out.input" && mkfifo "$out.input"
	"$probectl" trace -q -n 3 "$probe" -- "$program" nothing none <"$out.input" &
	exec {input}>"$out.input"
	while kill -0 $! && [ "$(grep -c '"written"' "$out")" -lt $((before + 3)) ]; do
		sleep 0.05
	done 2>/dev/null
	exec {input}>&-
	wait $!
	echo "launch $?"
	sleep 1 | "$probectl" run seccomp:hit -- "$program" nothing none
	echo "run $?"
} >"$out" 2>&1 </dev/null
INSIDE

# inside WHAT FILTERS...: the outcome is in $SCRATCH/inside
inside()
{
	local what=$1
	shift
	rm -f "$SCRATCH/inside"
	timeout -k 5 "$TEST_SECONDS" "$sandbox" "$@" -- bash "$SCRATCH/inside.sh" "$PROBECTL" "$TARGETS/seccomp" "$SCRATCH/inside" \
		"$TEST_SECONDS"
}

caps=
[ "$(id -u)" != 0 ] || caps=caps
for filters in container "container allow" "errno:personality" \
	"container errno:process_vm_readv errno:process_vm_writev"; do
	# shellcheck disable=SC2086 # lists of words
	inside "$filters" $caps $filters
	for line in "attach 0" "enable 0" "disable 0" "record 0" "maps 0" "target alive" "launch 0" "run 0"; do
		grep -qx "$line" "$SCRATCH/inside" || fail "inside $filters: no '$line': $(cat "$SCRATCH/inside")"
	done
	same "inside $filters: hits" "$(grep -c '"text" "written"' "$SCRATCH/inside")" 6
done
# The only call that we need in the target but never make ourselves.
for action in kill trap; do
	# shellcheck disable=SC2086
	inside "$action memfd_create" $caps container "$action:memfd_create"
	grep -q 'would kill it for memfd_create' "$SCRATCH/inside" || fail "$action memfd_create: $(cat "$SCRATCH/inside")"
	grep -qx "target alive" "$SCRATCH/inside" || fail "$action memfd_create: the target: $(cat "$SCRATCH/inside")"
	grep -qx "maps 0" "$SCRATCH/inside" || fail "$action memfd_create: something is left"
done
for call in memfd_create madvise; do
	# shellcheck disable=SC2086
	inside "no $call" $caps container "errno:$call"
	grep -q "does not allow $call (Operation not permitted)" "$SCRATCH/inside" ||
		fail "no $call: $(cat "$SCRATCH/inside")"
	grep -qx "target alive" "$SCRATCH/inside" || fail "no $call: the target"
	grep -qx "maps 0" "$SCRATCH/inside" || fail "no $call: something is left"
done
# shellcheck disable=SC2086
inside "no ptrace" $caps container errno:ptrace
grep -q 'keeps probectl from calling ptrace: .*SYS_PTRACE' "$SCRATCH/inside" ||
	fail "no ptrace: $(cat "$SCRATCH/inside")"
# As root from outside: the filters can be read.
if [ "$(id -u)" = 0 ]; then
	start "$sandbox" container -- "$TARGETS/seccomp" nothing none
	save_state "$target_pid"
	hits 3 "$PROBECTL" trace -q -n 3 -p "$target_pid" 'seccomp:hit(arg0,str(arg1),str(arg2))'
	same_life "a container, from outside"
	end_target
fi

# A process that joins a container later has no ancestor inside (docker exec).
if [ "$(id -u)" = 0 ] && command -v nsenter >/dev/null; then
	start unshare -pf --mount-proc --kill-child "$sandbox" caps container -- "$TARGETS/seccomp" nothing none
	outer=$target_pid
	inner=$(cat "/proc/$outer/task/$outer/children")
	join=(nsenter -t "${inner// /}" -p -m)
	hits 3 "${join[@]}" "$sandbox" caps container -- "$PROBECTL" trace -q -n 3 -p 1 'seccomp:hit(arg0,str(arg1),str(arg2))'
	refused "joined with other capabilities" 'only root can read the filter' \
		"${join[@]}" "$sandbox" container -- "$PROBECTL" enable -p 1 seccomp:hit
	refused "joined with one filter more" 'only root can read the filter' \
		"${join[@]}" "$sandbox" caps container allow -- "$PROBECTL" enable -p 1 seccomp:hit
	ask x
	same "a container that was joined: the answer" "$answer" alive
	end_target
fi

# Names of control groups may be long: a line for each hierarchy, or folder in folder.
if [ "$(id -u)" = 0 ] && command -v nsenter >/dev/null; then
	name=$(printf '%0240d' 0)
	group=$(awk '/ - cgroup2 / {print $5; exit}' /proc/self/mountinfo)$(sed -n 's/^0:://p' /proc/self/cgroup)
	if mkdir -p "$group/$name/$name/$name"; then
		on_exit "rmdir '$group/$name/$name/$name' '$group/$name/$name' '$group/$name'"
		# shellcheck disable=SC2016 # expanded by that shell
		deep=(sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group/$name/$name/$name")
		start "${deep[@]}" unshare -pf --mount-proc --kill-child "$sandbox" caps container -- "$TARGETS/seccomp" nothing none
		outer=$target_pid
		inner=$(cat "/proc/$outer/task/$outer/children")
		hits 3 "${deep[@]}" nsenter -t "${inner// /}" -p -m "$sandbox" caps container -- \
			"$PROBECTL" trace -q -n 3 -p 1 'seccomp:hit(arg0,str(arg1),str(arg2))'
		end_target
	fi
fi

# Two unrelated sandboxes with equally many filters.
# shellcheck disable=SC2086
start "$sandbox" $caps kill:memfd_create -- "$TARGETS/seccomp" nothing none
save_state "$target_pid"
# shellcheck disable=SC2086
refused "another sandbox" 'only root can read the filter' "$sandbox" $caps allow -- \
	"$PROBECTL" enable -p "$target_pid" seccomp:hit
same_life "another sandbox"
end_target
finish
