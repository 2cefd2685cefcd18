#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Programs that enable and disable their own probes while probectl does so from outside; and the
# examples.
. tests/integration/lib.sh
need_attach
need cc jq

for linked in so a; do
	cc -O2 -g -std=gnu11 -D_GNU_SOURCE -rdynamic -I. -Ilibprobe/include \
		-o "$SCRATCH/target_$linked" tests/integration/library/self_target.c \
		"$BUILD/libprobe.$linked" -Wl,-rpath,"$BUILD" -lelf -liberty -ldl -lpthread ||
		die "the target cannot be linked with libprobe.$linked"
done

# of EXPRESSION: of the single probe in `probectl status`
of()
{
	"$PROBECTL" status --json -p "$target_pid" selftest:hit | jq -r "$1"
}

quietly()
{
	"$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "probectl $*: $(head -3 "$SCRATCH/err")"
}

# ---- Both count, and each sees what the other does ------------------------------------

both_count()
{
	ask "enable selftest:hit"
	same "the program enables itself" "$answer" ok
	quietly enable -p "$target_pid" selftest:hit
	same "its count, seen from outside" "$(of .refcount)" 2
	ask "hit 1000"
	same "hits" "$answer" "hits 3000"
	ask status
	same "its count, seen from within" "$answer" "enabled 2 3000"
	quietly disable -p "$target_pid" selftest:hit
	ask status
	same "one is left" "$answer" "enabled 1 3000"
	ask "disable selftest:hit"
	same "the program disables itself" "$answer" ok
	ask "disable selftest:hit"
	case $answer in
	"selftest:hit is not enabled in process $target_pid"*) ;;
	*) fail "disabled once too often: $answer" ;;
	esac
	same_state "$target_pid"
}

# ---- Functions inside, a trace outside --------------------------------------------------

functions_and_trace()
{
	ask "register selftest:hit"
	same "a function" "$answer" ok
	same "a function is a reference" "$(of '"\(.refcount) \(.enabled) \(.patched)"')" "1 true 1"
	trace_start "both" --json -c -p "$target_pid" selftest:hit
	wait_refcount 2
	ask "hit 20000"
	trace_stop both
	same "hits counted outside" "$(jq -s 'map(.hits // empty) | last' "$SCRATCH/both.out")" 60000
	# Others cannot remove it: it is neither a stale session nor another's reference.
	quietly repair -p "$target_pid"
	"$PROBECTL" disable -p "$target_pid" selftest:hit 2>"$SCRATCH/err" &&
		fail "a function was disabled from outside"
	grep -q 'is not enabled' "$SCRATCH/err" || fail "disable says: $(cat "$SCRATCH/err")"
	ask "hit 10"
	ask "unregister selftest:hit"
	same "calls" "$answer" "calls 60030"
	same_state "$target_pid"
}

# wait_refcount N
wait_refcount()
{
	until [ "$(of .refcount)" = "$1" ]; do
		pause
	done
}

# The program itself cleans up after a controller that died.
killed_outside()
{
	trace_start "killed" -c -p "$target_pid" selftest:hit
	wait_on "$target_pid" selftest:hit
	end_process "$tracer_pid"
	ask "register selftest:hit"
	same "after a dead trace" "$answer" ok
	ask "hit 5"
	ask "unregister selftest:hit"
	same "calls after a dead trace" "$answer" "calls 15"
	same_state "$target_pid"
}

# ---- Both at once, while it is hit ---------------------------------------------------------

storm()
{
	local i hits
	ask "register selftest:h*"
	ask begin
	tell "cycle selftest:hit 20"
	for ((i = 0; i < 10; i++)); do
		quietly enable -p "$target_pid" selftest:hit
		quietly disable -p "$target_pid" selftest:hit
	done
	hear
	same "registering and unregistering" "$answer" ok
	ask end
	hits=${answer#hits }
	[ "$hits" -gt 0 ] || fail "nothing was hit"
	# A session that was there all the time has missed no hit.
	ask "unregister selftest:h*"
	calls=${answer#calls }
	[ "$calls" -ge "$hits" ] || fail "$calls calls of $hits hits"
	same_state "$target_pid"
}

# ---- Libraries that come and go ----------------------------------------------------------

# answers COMMAND WANTED
answers()
{
	ask "$1"
	same "$1" "$answer" "$2"
}

libraries()
{
	local library=$TARGETS/libself_plugin.so
	answers "register self*:*" ok
	answers "open $library" ok
	answers poke ok
	answers update "updated 1"
	answers poke ok
	answers close ok
	answers "hit 1" "hits 3"
	answers update "updated 0"
	# It may well be mapped at its old address.
	answers "open $library" ok
	answers poke ok
	answers update "updated 1"
	answers poke ok
	answers close ok
	answers "open $library" ok
	answers poke ok
	answers "unregister self*:*" "calls 5"
	answers poke ok
	answers close ok
	same_state "$target_pid"
}

# Followed: they are connected before their constructors, and patterns wait for them.
followed()
{
	local library=$TARGETS/libctor_plugin.so
	ask "register ctor:construct"
	[[ $answer == "no probe matches 'ctor:construct'"* ]] || fail "not followed: $answer"
	answers unfollow "libraries are not followed"
	answers follow ok
	answers follow "libraries are followed already"
	answers "register ctor:construct" ok
	answers "open $library" ok
	answers told "told 1 0 0"
	answers close ok
	answers "open $library" ok
	answers "unregister ctor:construct" "calls 2"
	answers close ok
	# Beside a controller that follows as well.
	answers "register ctor:*" ok
	trace_start followed --json -c --follow -p "$target_pid" selftest:hit ctor:construct
	wait_on "$target_pid" selftest:hit
	answers "open $library" ok
	trace_stop followed
	same "hits counted outside" "$(jq -s 'map(.hits // empty) | add' "$SCRATCH/followed.out")" 1
	answers close ok
	answers "unregister ctor:*" "calls 1"
	# What is refused is told; the rest is connected.
	answers "register selftest:*" ok
	answers told "told 3 0 0"
	answers "register lacking:two(arg1)" ok
	answers "open $TARGETS/liblacking.so" ok
	answers told "told 0 1 0"
	answers close ok
	answers "unregister lacking:two(arg1)" "calls 0"
	answers "unregister selftest:*" "calls 0"
	# Changes meanwhile, in another thread.
	answers "register ctor:construct" ok
	answers "race $library 20" ok
	answers "unregister ctor:construct" "calls 20"
	# Patterns that wait stay.
	answers "register ctor:construct" ok
	answers unfollow ok
	answers "open $library" ok
	answers update "updated 1"
	answers "unregister ctor:construct" "calls 0"
	answers close ok
	same_state "$target_pid"
}

for linked in so a; do
	start "$SCRATCH/target_$linked"
	save_state "$target_pid"
	both_count
	functions_and_trace
	killed_outside
	storm
	libraries
	followed
	same_state "$target_pid"
	grep -q memfd:probectl "/proc/$target_pid/maps" && fail "memory is left in the target"
	end_target 0
done

# ---- The examples ----------------------------------------------------------------------------

for example in slow switch; do
	cc -O2 -g -Wall -Wextra -Werror -rdynamic -Ilibprobe/include -o "$SCRATCH/$example" \
		"docs/examples/self/$example.c" "$BUILD/libprobe.a" -lelf -liberty -ldl -lpthread ||
		die "docs/examples/self/$example.c cannot be built"
done
"$SCRATCH/slow" >"$SCRATCH/slow.out" 2>&1 || fail "slow: $(cat "$SCRATCH/slow.out")"
# On a busy machine others may take long, too.
grep -q '^request 4 took long' "$SCRATCH/slow.out" || fail "the wrong one: $(cat "$SCRATCH/slow.out")"
grep -q 'slow(main' "$SCRATCH/slow.out" || fail "no way back to main: $(cat "$SCRATCH/slow.out")"

"$SCRATCH/switch" "$TARGETS/libself_plugin.so" >"$SCRATCH/switch.out" 2>&1 ||
	fail "switch: $(cat "$SCRATCH/switch.out")"
cat >"$SCRATCH/switch.wanted" <<'END'
site: selfswitch:turn
site: selfswitch:odd
at first: odd is off, 0 hits
at first: turn is off, 0 hits
enabled: odd is off, 0 hits
enabled: turn is on, 1000 hits
exchanged: odd is on, 500 hits
exchanged: turn is off, 0 hits
disabled: odd is off, 0 hits
disabled: turn is off, 0 hits
updated: 1 more
called: selfswitch:poked
opened: 1 sites
called: selfswitch:poked
END
diff "$SCRATCH/switch.wanted" "$SCRATCH/switch.out" || fail "switch says something else"
finish
