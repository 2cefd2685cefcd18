#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What happens to processes: they are stopped, crash, block signals, fork, have another tracer,
# and unload libraries.
. tests/integration/lib.sh
need_attach
need jq

state()
{
	sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status"
}

# ---- Stopped ---------------------------------------------------------------------------

start "$TARGETS/life"
save_state "$target_pid"
kill -STOP "$target_pid"
until [ "$(state "$target_pid")" = T ]; do
	pause
done
ctl enable -p "$target_pid" life:hit
same "stopped, after enable" "$(state "$target_pid")" T
ctl enable -p "$target_pid" life:hit
ctl disable -p "$target_pid" life:hit
same "stopped, after disable" "$(state "$target_pid")" T
"$PROBECTL" trace -d 0.1 -p "$target_pid" life:hit >/dev/null 2>"$SCRATCH/err" || fail "trace: $(cat "$SCRATCH/err")"
same "stopped, after a trace" "$(state "$target_pid")" T
kill -CONT "$target_pid"
ask "hit 4"
same "hits counted since" "$("$PROBECTL" status --json -p "$target_pid" | jq .hits)" 4
ctl disable -p "$target_pid" life:hit
same_state "$target_pid"

# Stopped and continued repeatedly, under a trace that begins and ends.
(while kill -STOP "$target_pid" && sleep 0.01 && kill -CONT "$target_pid"; do sleep 0.01; done) 2>/dev/null &
stopper=$!
on_exit "stop_process $stopper"
for ((i = 0; i < 10; i++)); do
	"$PROBECTL" trace -q -d 0.02 -p "$target_pid" life:hit >/dev/null 2>"$SCRATCH/err" ||
		fail "trace $i of a target that stops and goes: $(cat "$SCRATCH/err")"
done
kill "$stopper"
wait "$stopper" 2>/dev/null
kill -CONT "$target_pid"
ask "hit 1"
same_state "$target_pid"

# ---- Signals blocked --------------------------------------------------------------------

ask block
blocked=$(grep SigBlk "/proc/$target_pid/status")
trace_start blocked --json -p "$target_pid" life:hit
wait_on "$target_pid" life:hit
ask "hit 3"
trace_stop blocked
same "hits with all signals blocked" "$(grep -c '"args"' "$SCRATCH/blocked.out")" 3
same_state "$target_pid"
same "all are blocked still" "$(grep SigBlk "/proc/$target_pid/status")" "$blocked"

# ---- Children ----------------------------------------------------------------------------

# Without --follow a child's hits are not reported; its probes are removed with its parent's.
for follow in "" --follow; do
	# shellcheck disable=SC2086 # one word or none
	trace_start fork --json $follow -p "$target_pid" life:hit
	wait_on "$target_pid" life:hit
	ask fork
	child=${answer#child }
	ask "hit 5"
	[ "$("$PROBECTL" status --json -p "$child" | jq .patched)" = 1 ] || fail "the child has no copy"
	trace_stop fork
	same "hits of a child, ${follow:-alone}" "$(jq -r "select(.args).pid" "$SCRATCH/fork.out" | grep -c "^$child\$")" \
		"$([ -n "$follow" ] && echo 5 || echo 0)"
	same "the child, after the trace" "$("$PROBECTL" status --json -p "$child" | jq -s length)" 0
	cmp -s <("$python" "$integration/state.py" hash "$child") \
		<("$python" "$integration/state.py" hash "$target_pid") || fail "the child's text is not its parent's"
	ask back
	same "the child's status" "$answer" "status 0"
	same_state "$target_pid"
done

# So are those of a process to which no parent leads any more: its parent has ended.
trace_start daemon --json -p "$target_pid" life:hit
wait_on "$target_pid" life:hit
ask daemon
child=${answer#daemon }
ask "hit 5"
[ "$("$PROBECTL" status --json -p "$child" | jq .patched)" = 1 ] || fail "the daemon has no copy"
trace_stop daemon
same "the daemon, after the trace" "$("$PROBECTL" status --json -p "$child" | jq -s length)" 0
same "the daemon's mappings" "$(grep -c memfd:probectl "/proc/$child/maps")" 0
cmp -s <(text_hash "$child") <(text_hash "$target_pid") || fail "the daemon's text is not its parent's"
ask "hit 5"
ask back
same "after the daemon" "$answer" alone
same_state "$target_pid"

# A killed controller leaves its probes in both; repair removes them from both.
trace_start dead --json -p "$target_pid" life:hit
wait_on "$target_pid" life:hit
ask fork
child=${answer#child }
kill -KILL "$tracer_pid"
wait "$tracer_pid" 2>/dev/null
ask "hit 5"
ctl repair -p "$target_pid"
same "the child, after repair" "$("$PROBECTL" status --json -p "$child" | jq -s length)" 0
ask "hit 5"
ask back
same "the child's status after repair" "$answer" "status 0"
same_state "$target_pid"
tell quit
end_target 0

# The target itself has ended when the trace does; its child has not.
for follow in "" --follow; do
	start "$TARGETS/life"
	unpatched=$(text_hash "$target_pid")
	# shellcheck disable=SC2086 # one word or none
	trace_start left --json $follow -p "$target_pid" life:hit
	wait_on "$target_pid" life:hit
	ask leave
	child=${answer#child }
	on_exit "end_process $child"
	ask "hit 5"
	trace_stop left
	same "a child that is left, ${follow:-alone}" "$("$PROBECTL" status --json -p "$child" | jq -s length)" 0
	same "its mappings, ${follow:-alone}" "$(grep -c memfd:probectl "/proc/$child/maps")" 0
	same "its text, ${follow:-alone}" "$(text_hash "$child")" "$unpatched"
	ask "hit 5"
	tell quit
done

# ---- A library that is closed --------------------------------------------------------------

plugin=$TARGETS/libctor_plugin.so
for kind in trace enable; do
	start "$TARGETS/life"
	ask "open $plugin"
	same "the library" "$answer" opened
	if [ $kind = trace ]; then
		trace_start closed --json --follow -p "$target_pid" 'ctor:*'
		wait_on "$target_pid" ctor:plugin
	else
		ctl enable -p "$target_pid" 'ctor:*'
	fi
	ask close
	[ "${answer#closed }" -gt 4096 ] || fail "nothing was mapped in its place: $answer"
	ask check
	same "$kind: what is mapped in its place" "$answer" intact
	# Another change, and the end.
	ctl enable -p "$target_pid" life:hit
	ctl disable -p "$target_pid" life:hit
	if [ $kind = trace ]; then
		trace_stop closed
	else
		"$PROBECTL" repair -p "$target_pid" >/dev/null 2>"$SCRATCH/err" || fail "repair: $(cat "$SCRATCH/err")"
	fi
	ask check
	same "$kind: what is mapped there in the end" "$answer" intact
	check_alive "$target_pid"
	tell quit
	end_target 0
done

# ---- Another tracer --------------------------------------------------------------------------

# strace_start PID, strace_end
strace_start()
{
	strace -o "$SCRATCH/strace.out" -p "$1" 2>"$SCRATCH/strace.err" &
	strace=$!
	until grep -q "^TracerPid:[[:space:]]*$strace\$" "/proc/$1/status"; do
		pause
	done
}
strace_end()
{
	kill "$strace"
	wait "$strace" 2>/dev/null
}

if command -v strace >/dev/null; then
	start "$TARGETS/life"
	save_state "$target_pid"
	maps=$(cat "/proc/$target_pid/maps")
	strace_start "$target_pid"
	for command in enable trace; do
		"$PROBECTL" $command -p "$target_pid" life:hit >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
		same "$command under strace" "$?" 1
		grep -q "traced by process $strace (strace)" "$SCRATCH/err" ||
			fail "$command: the tracer is not named: $(cat "$SCRATCH/err")"
	done
	ask "hit 1"
	same "mappings under strace" "$(cat "/proc/$target_pid/maps")" "$maps"
	strace_end
	same_state "$target_pid"

	# A daemon cannot be cleaned at the end of a trace: it is named.
	trace_start held --json -p "$target_pid" life:hit
	wait_on "$target_pid" life:hit
	ask daemon
	child=${answer#daemon }
	strace_start "$child"
	trace_stop held
	says held "warning: process $child, which .* has forked, keeps its probes .* by process $strace (strace)"
	strace_end
	ctl repair -p "$child"
	same "the daemon's text" "$(text_hash "$child")" "$(text_hash "$target_pid")"
	ask back
	same_state "$target_pid"
	tell quit
	end_target 0
else
	echo "note: strace is not installed"
fi

# ---- A crash ---------------------------------------------------------------------------------

start "$TARGETS/life"
trace_start crash --json -p "$target_pid" life:hit
wait_on "$target_pid" life:hit
tell crash
wait "$tracer_pid"
same "trace of a program that crashes" "$?" 0
same "hits before a crash" "$(grep -c '"args"' "$SCRATCH/crash.out")" 3
! tells_ends || grep -q "process $target_pid was killed by SIGSEGV$" "$SCRATCH/crash.err" ||
	fail "a crash is not told: $(cat "$SCRATCH/crash.err")"
same_end "a crash is told once" "$(grep -c 'was killed by' "$SCRATCH/crash.err")" 1
start "$TARGETS/life"
trace_start killed -p "$target_pid" life:hit
wait_tracing killed
kill -KILL "$target_pid"
wait "$tracer_pid"
same_end "trace of a program that is killed" "$?" 1
! tells_ends || grep -q "process $target_pid was killed by SIGKILL$" "$SCRATCH/killed.err" ||
	fail "SIGKILL is not told: $(cat "$SCRATCH/killed.err")"
same_end "SIGKILL is told once" "$(grep -c 'was killed by' "$SCRATCH/killed.err")" 1
echo crash | "$PROBECTL" trace --json -o "$SCRATCH/crash.out" life:hit -- "$TARGETS/life" \
	>"$SCRATCH/stdout" 2>"$SCRATCH/err"
same "the status of a program that crashes" "$?" 139
same "hits before its crash" "$(grep -c '"args"' "$SCRATCH/crash.out")" 3
finish
