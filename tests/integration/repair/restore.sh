#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# After disable, Ctrl-C, and the controller's sudden death, text and semaphores are as before,
# or the next command makes them so; reference counts work as documented.
. tests/integration/lib.sh
need_attach

# refuse TEXT ARGS…: must fail with TEXT
refuse()
{
	local text=$1
	shift
	"$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" && fail "probectl $* succeeded"
	# One line, after those that name refused sites.
	[ "$(grep -vc '^probectl: refused ' "$SCRATCH/err")" = 1 ] ||
		fail "probectl $*: not one line: $(cat "$SCRATCH/err")"
	grep -q "^probectl: .*$text" "$SCRATCH/err" ||
		fail "probectl $*: '$(cat "$SCRATCH/err")' does not say '$text'"
}

# refcount PROBE: from status
refcount()
{
	"$PROBECTL" status --json -p "$target_pid" "$1" 2>/dev/null |
		jq -r '"\(.refcount) \(.enabled) \(.patched)/\(.sites)"' | sort -u | paste -sd,
}

start "$TARGETS/semaphores"
save_state "$target_pid"
pid=$target_pid

# ---- Every semaphore of every site ---------------------------------------------
ask print
same "semaphores at first" "$answer" "0 0 0 0 0"
ctl enable -p "$pid" demo:event
ask print
same "semaphores of demo:event" "$answer" "1 1 1 0 0"
ask hit
same "tests that saw it" "$answer" 60
ctl enable -p "$pid" demo:event
ask print
same "enabled twice" "$answer" "2 2 2 0 0"
same "refcount" "$(refcount demo:event)" "2 true 2/2,2 true 4/4"
ctl disable -p "$pid" demo:event
ask print
same "disabled once" "$answer" "1 1 1 0 0"
ctl disable -p "$pid" demo:event
ask print
same "disabled twice" "$answer" "0 0 0 0 0"
same_state "$pid"
refuse "demo:event" disable -p "$pid" demo:event
same_state "$pid"

# ---- --force sets, and --exe checks ---------------------------------------------
ctl enable -p "$pid" demo:event
ctl enable -p "$pid" demo:event
ctl disable --force -p "$pid" demo:event
ask print
same "disabled by force" "$answer" "0 0 0 0 0"
same_state "$pid"
refuse "does not run /bin/true" enable --exe /bin/true -p "$pid" demo:event
ctl enable --exe "$TARGETS/semaphores" -p "$pid" demo:event
ctl disable -p "$pid" demo:event
ctl enable --atomic -p "$pid" demo:other
ask print
same "--atomic" "$answer" "0 0 0 1 0"
ctl disable --atomic -p "$pid" demo:other
same_state "$pid"
refuse "demo:other" enable -p "$pid" demo:othre
same_state "$pid"

# ---- All or nothing --------------------------------------------------------------
refuse "stuck:site" enable -p "$pid" 'demo:*' stuck:site
ask print
same "all or nothing" "$answer" "0 0 0 0 0"
same_state "$pid"
"$PROBECTL" enable --keep-going -p "$pid" 'demo:*' stuck:site >"$SCRATCH/out" 2>"$SCRATCH/err"
case $(uname -m) in
x86_64) reason='a jump or return follows the site' ;;
*) reason='the bytes there are not the nop' ;;
esac
grep -q "stuck:site.*: .*$reason" "$SCRATCH/err" ||
	fail "the refused site is not named with its reason: $(cat "$SCRATCH/err")"
ask print
same "--keep-going" "$answer" "1 1 1 1 0"
ctl disable -p "$pid" 'demo:*'
same_state "$pid"

# ---- Two controllers ------------------------------------------------------------
trace_start first --count --json -p "$pid" demo:event
first=$tracer_pid
wait_on "$pid" demo:event
ctl enable -p "$pid" demo:event
ask print
same "two controllers" "$answer" "2 2 2 0 0"
trace_start second --json -p "$pid" demo:event
wait_tracing second
ask print
same "three controllers" "$answer" "3 3 3 0 0"
ask hit
same "tests that saw three controllers" "$answer" 60
trace_stop second
same "records of the second" "$(grep -c '"args"' "$SCRATCH/second.out")" 60
tracer_pid=$first
trace_stop first
same "counts of the first" "$(jq -s 'map(.hits // 0) | add // 0' "$SCRATCH/first.out")" 60
ask print
same "only the persistent one" "$answer" "1 1 1 0 0"
ctl disable -p "$pid" demo:event
same_state "$pid"

# ---- A controller that dies ---------------------------------------------------------
for ((i = 0; i < 8; i++)); do
	trace_start dead --json -p "$pid" 'demo:*'
	# At a different moment each time: while it starts, and when it is enabled.
	sleep "0.0$((i * 8 % 10))$i"
	kill -KILL "$tracer_pid"
	wait "$tracer_pid" 2>/dev/null
	check_alive "$pid"
	ask hit
done
# The next command cleans up.
ctl enable -p "$pid" demo:other
ctl disable -p "$pid" demo:other
ask print
same "semaphores after dead controllers" "$answer" "0 0 0 0 0"
same_state "$pid"
ask hit
same "tests after dead controllers" "$answer" 0

# ---- A target that dies -------------------------------------------------------------
trace_start gone --json -p "$pid" 'demo:*'
wait_on "$pid" demo:event
tell quit
end_target
wait "$tracer_pid"
same "trace of a program that ended" "$?" 0

start "$TARGETS/gap"
trace_start killed --count -p "$target_pid" gap:hit
wait_on "$target_pid" gap:hit
kill -KILL "$target_pid"
wait "$tracer_pid"
status=$?
# Once its parent, this shell, has waited for it, only Linux 6.15 and later tell how it ended.
IFS=.- read -r major minor _ <<<"$(uname -r)"
[ "$status" = 0 ] && [ $((major * 1000 + minor)) -lt 6015 ] ||
	same "trace of a program that was killed" "$status" 1

# ---- The wrong bytes, the wrong process ------------------------------------------------
refuse "there is no process 999999999" enable -p 999999999 demo:event
refuse "no probe matches 'nobody:nothing'" enable -p "$$" nobody:nothing
finish
