#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# strace comes before us, or after us, and goes: hits are counted, results are right, and what its
# presence forbids says so and changes nothing.
. tests/integration/lib.sh
need strace jq
need_attach

rounds=20

# strace_on, strace_off: it follows all threads
strace_on()
{
	strace -f -qq -o "$SCRATCH/strace" -p "$target_pid" 2>"$SCRATCH/strace.err" &
	strace_pid=$!
	on_exit "end_process $strace_pid"
	until ! grep -L "^TracerPid:.$strace_pid\$" "/proc/$target_pid/task/"*/status | grep -q .; do
		kill -0 "$strace_pid" || skip "strace cannot attach: $(head -1 "$SCRATCH/strace.err")"
		pause
	done
}
strace_off()
{
	kill "$strace_pid"
	wait "$strace_pid" 2>/dev/null
}

# refused COMMAND...: it says that strace is there
refused()
{
	"$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/refused.err" && fail "$*: beside strace"
	says refused "is being traced by process $strace_pid"
}

go()
{
	ask "go $rounds"
	same "$1" "$answer" "passed $((2 * rounds)) wrong 0"
}

hits()
{
	same "$1" "$("$PROBECTL" status --json -p "$target_pid" | jq 'select(.refcount > 0).hits' |
		sort -u | xargs)" "$((2 * rounds * $2))"
}

start "$TARGETS/company" 2
save_state "$target_pid"
# ---- We were there first ------------------------------------------------------------------
ctl enable -p "$target_pid" 'company:*'
go "without it"
strace_on
go "under strace"
hits "hits under strace" 2
refused disable -p "$target_pid" 'company:*'
go "refused"
strace_off
hits "hits then" 3
ctl disable -p "$target_pid" 'company:*'
same_state "$target_pid"

# ---- It was there first -------------------------------------------------------------------
strace_on
refused enable -p "$target_pid" 'company:*'
refused trace -c -d 10ms -p "$target_pid" 'company:*'
go "strace alone"
strace_off
same_state "$target_pid"
ctl enable -p "$target_pid" 'company:*'
go "strace has gone"
hits "hits without it" 1
ctl disable -p "$target_pid" 'company:*'
same_state "$target_pid"
end_target

# ---- It sees the system calls by which stubs ask for memory ----------------------------------
start "$TARGETS/loop" -s string -n 500 -t 2 -w heap -b -a
save_state "$target_pid"
trace_start text --json -p "$target_pid" 'loop:string(arg0,str(arg2))'
wait_tracing text
strace_on
ask go
same "the program's own count" "${answer%% *}" 1000
strace_off
trace_stop text
same "texts" "$(jq -r 'select(.args).args[1]' "$SCRATCH/text.out" | sort | uniq -c | xargs)" \
	"1000 the quick brown fox jumps"
same_state "$target_pid"
hear
tell bye
end_target
finish
