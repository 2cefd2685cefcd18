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
together=$((40 / slower))

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
	sleep 0.3
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

# soon WHAT MS: one process runs in that time, or in more on a slow machine
soon()
{
	local begun=${EPOCHREALTIME/./} ms
	timeout "$TEST_SECONDS" "$comer" 1 || fail "$1: status $?"
	ms=$(((${EPOCHREALTIME/./} - begun) / 1000))
	((ms < $2 * slower)) || fail "$1: a process took $ms ms"
}

# ended WHAT: the guardian ends soon; whoever adopts it may leave a zombie
ended()
{
	while grep -qs '^State:.[^ZX]' "/proc/$guard/status"; do
		pause
	done
}

# Every hit of every process, from its constructors on; also of forked children.
hold all "$comer" 'comer:*'
come 30
come 10 fork
trace_stop all
says all "processes came, and were traced from the start"
if [ "$slower" = 1 ]; then
	same "hits before main()" "$(count all '.name == "early"')" 40
	same "hits" "$(count all '.name == "hit"')" $((30 * hits + 10 * (2 * hits - 1)))
	! grep -q "earlier hits are missing" "$SCRATCH/all.err" || fail "some were late: $(cat "$SCRATCH/all.err")"
else
	echo "note: this machine is slow: that each process is held until it is traced is not tested"
fi
ended "after a trace"

# Of a daemon, the parent has one hit, and the child the rest. When the parent has ended, its
# sessions end, and the child is found by looking: no hit is seen twice.
hold daemon "$comer" 'comer:hit'
"$comer" 200 5000 daemon
sleep 2
trace_stop daemon
same "hits of a daemon, twice" "$(jq -c '.args' "$SCRATCH/daemon.out" | sort | uniq -d | wc -l)" 0
same "its last hit" "$(count daemon '.args[0] == 199')" 1
# Also if nobody waits for the parent.
hold zombie "$comer" 'comer:hit'
"$python" -c "import subprocess, time
p = subprocess.Popen(['$comer', '200', '5000', 'daemon']); time.sleep(3)"
trace_stop zombie
same "hits of a daemon of a zombie, twice" "$(jq -c '.args' "$SCRATCH/zombie.out" | sort | uniq -d | wc -l)" 0
same "its last hit" "$(count zombie '.args[0] == 199')" 1
[ "$(count daemon 'true')" -gt 100 ] || fail "a daemon has $(count daemon true) of 200 hits"

# The interpreter of a script, a link, and a thread that is not the first one.
cp /bin/sh "$SCRATCH/shell"
printf '#!%s\nexit 0\n' "$SCRATCH/shell" >"$SCRATCH/script" && chmod +x "$SCRATCH/script"
ln -s comer "$SCRATCH/link"
hold other "$SCRATCH/link" --exe "$SCRATCH/shell" 'comer:early'
for ((i = 0; i < 20; i++)); do
	timeout "$TEST_SECONDS" "$SCRATCH/script" || fail "a script: status $?"
done
soon "a link" 2000
"$python" -c "import os, sys, threading
t = threading.Thread(target=lambda: os.execv('$comer', ['$comer', '1']))
t.start(); t.join()" || fail "a thread: status $?"
sleep 0.3
trace_stop other
# Where a machine is slow, one may be let go before.
[ "$(count other '.name == "early"')" -ge $((slower == 1 ? 2 : 1)) ] ||
	fail "hits of a link and a thread: $(count other '.name == "early"')"

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
soon "stopped" 3000
for ((i = 0; i < 10; i++)); do
	soon "stopped, and known to be" 1000
done
kill -CONT "$tracer_pid"
sleep "$slower"
come 4
trace_stop stop
[ "$(count stop '.name == "early"')" -ge $((slower == 1 ? 4 : 1)) ] || fail "after SIGCONT: $(cat "$SCRATCH/stop.err")"
says stop "or more processes have started while too many others did, or while probectl was stopped"

# missed NAME N: the last time, the trace has said so many
missed()
{
	same "$1: the last number of those that were not held" \
		"$(sed -n 's/.* \([0-9]*\) or more processes have started.*/\1/p' "$SCRATCH/$1.err" | tail -1)" "$2"
}

# come_unseen N: processes that start and end while we are stopped; SIGCONT is the caller's
come_unseen()
{
	local i
	kill -STOP "$tracer_pid"
	for ((i = 0; i < $1; i++)); do
		soon "unseen" 3000
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
sleep "$slower"
missed more 2
come_unseen 1
kill -CONT "$tracer_pid"
sleep "$slower"
missed more 2
trace_stop more
missed more 3
same "how often it is told" "$(grep -c "or more processes have started" "$SCRATCH/more.err")" 2

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
soon "both stopped" 5000
ended "both stopped"
soon "both stopped before" 500
kill -CONT "$tracer_pid"
sleep "$slower"
come 4
trace_stop both

# The guardian is killed: processes are found by looking. We are killed: he ends.
hold lost "$comer" 'comer:*'
kill -KILL "$guard"
sleep "$slower"
hits=$((500 * slower))
come 2
trace_stop lost
says lost "2 processes came"
hold killed "$comer" 'comer:early'
kill -KILL "$tracer_pid"
wait "$tracer_pid" 2>/dev/null
soon "killed" 1000
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
