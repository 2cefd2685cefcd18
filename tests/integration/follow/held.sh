#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
#
# Root holds what executes a file of --exe until it is probed, so that its first hit is seen; and
# nobody waits for ever, whoever is stopped or killed.
. tests/integration/lib.sh
need jq
need setsid

hits=20
comer=$SCRATCH/comer
cp "$TARGETS/comer" "$comer"

guards()
{
	grep -lx probectl-guard /proc/[0-9]*/comm 2>/dev/null | sort
}

# hold NAME ARGS…: a trace that holds; sets `guard`, its guardian
hold()
{
	local before
	before=$(guards)
	trace_start "$1" --json --follow --exe "${@:2}"
	wait_tracing "$1"
	guard=$(comm -13 <(echo "$before") <(guards))
	guard=${guard#/proc/} guard=${guard%/comm}
	[[ $guard =~ ^[0-9]+$ ]] || skip "the kernel has no FAN_OPEN_EXEC_PERM for us"
}

# How many come at once: each is held for half a second at most.
together=40
# What says that some were not held until they were traced.
late='or more processes have started while\|earlier hits are missing'

# come N [ARGS…]: that many processes, by different parents
come()
{
	local i started=()
	for ((i = 0; i < $1; i++)); do
		if ((i % 2)); then
			setsid "$comer" $hits 100 "${@:2}" &
		else
			sh -c '"$@"; exit $?' sh "$comer" $hits 100 "${@:2}" &
		fi
		started+=($!)
		((${#started[@]} < together && i < $1 - 1)) || came
	done
}

# came: waits for those that were started
came()
{
	local pid
	for pid in "${started[@]}"; do
		wait "$pid" || fail "a process: status $?"
	done
	started=()
}

# count NAME FILTER: lines of JSON
count()
{
	jq -c "select($2)" "$SCRATCH/$1.out" | wc -l
}

# released WHAT: one process runs, though nobody but the guardian or the kernel lets it. That takes a
# second at most, and the rest is for a busy machine.
released()
{
	timeout 20 "$comer" 1 || fail "$1: status $?"
}

# unheld WHAT: processes run without being held for half a second, at least the quickest of ten
unheld()
{
	local i begun ms least=
	for ((i = 0; i < 10; i++)); do
		begun=${EPOCHREALTIME/./}
		released "$1"
		ms=$(((${EPOCHREALTIME/./} - begun) / 1000))
		((ms >= ${least:-500})) || least=$ms
	done
	[ -n "$least" ] || fail "$1: each process took half a second or longer"
}

# ended WHAT: the guardian ends soon; whoever adopts it may leave a zombie
ended()
{
	while grep -qs '^State:.[^ZX]' "/proc/$guard/status"; do
		pause
	done
}

# Every hit of every process, from its constructors on; also of forked children. If many come at
# once, and the machine is busy, some may be let go before: that is told. Not always, if one comes
# after the other.
for together in 40 20 1 1 1 1 1; do
	hold all "$comer" 'comer:*'
	come 30
	come 10 fork
	trace_stop all
	ended "after a trace"
	says all "processes\? came, and w[aer]* traced from the start"
	grep -q "$late" "$SCRATCH/all.err" || break
done
same "hits before main()" "$(count all '.name == "early"')" 40
same "hits" "$(count all '.name == "hit"')" $((30 * hits + 10 * (2 * hits - 1)))
together=40

# Of a daemon, the parent has one hit, and the child the rest. When the parent has ended, its
# sessions end, and the child is found by looking: no hit is seen twice. It has ended when the pipe
# is closed.
hold daemon "$comer" 'comer:hit'
"$comer" 200 10000 daemon | cat
trace_stop daemon
same "hits of a daemon, twice" "$(jq -c '.args' "$SCRATCH/daemon.out" | sort | uniq -d | wc -l)" 0
same "its last hit" "$(count daemon '.args[0] == 199')" 1
# Also if nobody waits for the parent.
hold zombie "$comer" 'comer:hit'
"$python" -c "import subprocess
p = subprocess.Popen(['$comer', '200', '10000', 'daemon'], stdout=subprocess.PIPE); p.stdout.read()"
trace_stop zombie
same "hits of a daemon of a zombie, twice" "$(jq -c '.args' "$SCRATCH/zombie.out" | sort | uniq -d | wc -l)" 0
same "its last hit" "$(count zombie '.args[0] == 199')" 1
# From the one where it is found on, each hit is there. The first ones may have been seen with its
# parent's session; those in between are told.
for name in daemon zombie; do
	gaps=$(jq '.args[0] | select(. > 0)' "$SCRATCH/$name.out" | sort -n |
		awk 'NR > 1 && $1 != last + 1 { n++ } { last = $1 } END { print n + 0 }')
	[ "$gaps" = 0 ] || { [ "$gaps" = 1 ] && grep -q "$late" "$SCRATCH/$name.err"; } ||
		fail "$name: hits are missing $gaps times: $(cat "$SCRATCH/$name.err")"
done

# The interpreter of a script, a link, and a thread that is not the first one.
cp /bin/sh "$SCRATCH/shell"
printf '#!%s\nexit 0\n' "$SCRATCH/shell" >"$SCRATCH/script" && chmod +x "$SCRATCH/script"
ln -s comer "$SCRATCH/link"
for ((try = 0; try < 10; try++)); do
	hold other "$SCRATCH/link" --exe "$SCRATCH/shell" 'comer:early'
	for ((i = 0; i < 20; i++)); do
		timeout "$TEST_SECONDS" "$SCRATCH/script" || fail "a script: status $?"
	done
	released "a link"
	"$python" -c "import os, sys, threading
t = threading.Thread(target=lambda: os.execv('$comer', ['$comer', '1']))
t.start(); t.join()" || fail "a thread: status $?"
	trace_stop other
	early=$(count other '.name == "early"')
	# If the machine is busy, one may be let go before.
	[ "$early" -lt 2 ] && grep -q "$late" "$SCRATCH/other.err" || break
done
same "hits of a link and a thread" "$early" 2

# With few descriptors, nobody is kept from being executed.
ulimit -S -n 24
hold few "$comer" 'comer:early'
ulimit -S -n 1024
come 40
trace_stop few
[ "$(count few '.name == "early"')" -gt 0 ] || fail "few descriptors: $(cat "$SCRATCH/few.err")"

# We are stopped: the first ones wait for half a second, the others not.
hold stop "$comer" 'comer:early'
kill -STOP "$tracer_pid"
released "stopped"
unheld "stopped, and known to be"
kill -CONT "$tracer_pid"
until grep -q "or more processes have started while too many others did, or while probectl was stopped" \
	"$SCRATCH/stop.err"; do
	pause
done
# They are held again; one or another may be let go, if the machine is busy.
for ((try = 0; try < 20; try++)); do
	come 4
	[ "$(count stop '.name == "early"')" -lt 4 ] || break
done
trace_stop stop
[ "$(count stop '.name == "early"')" -ge 4 ] || fail "after SIGCONT: $(cat "$SCRATCH/stop.err")"

# told_missed NAME: the numbers that the trace has said, one a line
told_missed()
{
	sed -n 's/.* \([0-9]*\) or more processes have started.*/\1/p' "$SCRATCH/$1.err"
}
# missed NAME N: the last time, the trace has said so many
missed()
{
	same "$1: the last number of those that were not held" "$(told_missed "$1" | tail -1)" "$2"
}

# come_unseen N: processes that start and end while we are stopped; SIGCONT is the caller's
come_unseen()
{
	local i
	kill -STOP "$tracer_pid"
	for ((i = 0; i < $1; i++)); do
		released "unseen"
	done
	# The guardian tells us after it has let them go.
	until grep -q '^State:.S' "/proc/$guard/status"; do
		pause
	done
}

# What was let go is told also if it happened just before the end, and if there were few more.
hold end "$comer" 'comer:early'
come_unseen 3
kill -INT "$tracer_pid"
kill -CONT "$tracer_pid"
trace_stop end
missed end 3
hold more "$comer" 'comer:early'
come_unseen 2
kill -CONT "$tracer_pid"
until [ "$(told_missed more | tail -1)" = 2 ]; do
	pause
done
come_unseen 1
kill -CONT "$tracer_pid"
sleep 1
missed more 2
trace_stop more
# Each time, they are twice as many, or it is the end.
told=$(told_missed more | paste -sd' ')
[[ $told == "2 3" || $told == "1 2 3" ]] || fail "told are $told"

# Who is traced by somebody else cannot be held, nor be traced once found.
hold other_tracer "$comer" 'comer:early'
"$python" - "$comer" <<'EOF' || fail "traced by another: status $?"
import ctypes, os, sys

ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
PTRACE_TRACEME, PTRACE_CONT = 0, 7
pid = os.fork()
if pid == 0:
    ptrace(PTRACE_TRACEME, 0, None, None)
    os.execv(sys.argv[1], [sys.argv[1], "1"])
while True:
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status):
        sys.exit(status != 0)
    ptrace(PTRACE_CONT, pid, None, None)
EOF
trace_stop other_tracer
missed other_tracer 1

# Both are stopped: the guardian is killed, and then the kernel lets everybody go.
hold both "$comer" 'comer:early'
kill -STOP "$tracer_pid" "$guard"
released "both stopped"
ended "both stopped"
unheld "both stopped before"
kill -CONT "$tracer_pid"
come 4
trace_stop both

# The guardian is killed: processes are found by looking. We are killed: he ends.
hold lost "$comer" 'comer:*'
kill -KILL "$guard"
"$comer" 1000000 1000 &
found=($!)
"$comer" 1000000 1000 &
found+=($!)
for pid in "${found[@]}"; do
	until grep -q "\"pid\":$pid\b" "$SCRATCH/lost.out"; do
		pause
	done
	end_process "$pid"
done
trace_stop lost
says lost "2 processes came"
hold killed "$comer" 'comer:early'
kill -KILL "$tracer_pid"
wait "$tracer_pid" 2>/dev/null
unheld "killed"
ended "we were killed"

# The kernel refuses an execve(2) if there is no descriptor for the guardian. (The last trace: there
# is no way back.)
ulimit -n 40
hold few "$comer" 'comer:early'
kill -STOP "$tracer_pid"
started=()
for ((i = 0; i < 60; i++)); do
	"$comer" 1 2>/dev/null &
	started+=($!)
done
for pid in "${started[@]}"; do
	wait "$pid" || fail "with few descriptors: status $?"
done
kill -CONT "$tracer_pid"
trace_stop few
finish
