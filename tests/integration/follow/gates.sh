#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Who waits at a gate of a controller that is killed goes on at once: long before the two seconds
# after which a gate that nobody serves lets everyone go. If it is only stopped, what is missed is
# told, and the gate holds again when it goes on.
. tests/integration/lib.sh
need_attach
need jq

library=$TARGETS/liblate.so
[ -e "$library" ] || skip "$library is not built"

# waiting PID…: how many of them wait in futex(2)
futex=202
[ "$(uname -m)" = x86_64 ] || futex=98
waiting()
{
	cat "${@/%//syscall}" 2>/dev/null | grep -c "^$futex "
}

# ask_timed: asks, and sets $took to the milliseconds until the answer
ask_timed()
{
	local began=${EPOCHREALTIME/./}
	ask go
	took=$(((${EPOCHREALTIME/./} - began) / 1000))
}

# killed WHAT WAITERS: so many threads or children of the target wait at a gate of a stopped
# controller, which is killed. Sets quick[WHAT] if they go on long before two seconds, beside the time
# $alone that they take without a gate, and then do not wait at the gate that is left.
declare -A quick=([libraries]=0 [programs]=0)
killed()
{
	local began pids
	kill -STOP "$tracer_pid"
	tell go
	while :; do
		mapfile -t pids < <({ echo "$target_pid" && pgrep -P "$target_pid"; } | sed 's,^,/proc/,')
		[ "$(waiting "${pids[@]}")" -ge "$2" ] && break
		pause
	done
	began=${EPOCHREALTIME/./}
	kill -KILL "$tracer_pid"
	hear
	times=$(((${EPOCHREALTIME/./} - began) / 1000))
	same "$1, round $round: answer" "$answer" "done"
	wait "$tracer_pid" 2>/dev/null
	ask_timed
	((times >= alone + 1500 || took >= alone + 1800)) || quick[$1]=1
	times+=" ms after the controller was killed, $took ms at the gate of a dead one"
	ctl repair -p "$target_pid"
	end_target
}

# Where the machine is busy, it takes more rounds to tell.
for ((round = 0; round < 3 || (round < 20 && quick[libraries] + quick[programs] < 2); round++)); do
	start "$python" -c 'import _ctypes, sys
print("ready", flush=True)
for line in sys.stdin:
	_ctypes.dlclose(_ctypes.dlopen(sys.argv[1], 2))
	print("done", flush=True)' "$library"
	ask_timed
	alone=$took
	trace_start libraries -c --follow -p "$target_pid" 'late:*'
	wait_tracing libraries
	killed libraries 1

	# More than there are turns: some wait in the same.
	start /bin/bash -c 'echo ready; while read -r line; do for ((i = 0; i < 18; i++)); do
		/bin/true & done; wait; echo done; done'
	ask_timed
	alone=$took
	trace_start programs -c --follow -p "$target_pid" 'loop:*'
	wait_tracing programs
	killed programs 18
done
for what in libraries programs; do
	[ "${quick[$what]}" = 1 ] || fail "$what: held each time, the last time for $times"
done

# A constructor passes its probe while the controller is stopped, another one after that.
plugin=$TARGETS/libctor_plugin.so
cat >"$SCRATCH/loads.py" <<'END'
import ctypes, os, subprocess, sys, time
scratch, *plugins = sys.argv[1:]
def wait_for(name):
    while not os.path.exists(f"{scratch}/{name}"):
        time.sleep(0.01)
open(f"{scratch}/ready", "w")
for i, plugin in enumerate(plugins):
    wait_for(f"go{i}")
    began = time.monotonic()
    if plugin == "true":
        subprocess.run([plugin], check=True)
    else:
        assert ctypes.CDLL(plugin).ctor_plugin_call(6) == 7
    with open(f"{scratch}/took{i}.new", "w") as file:
        print(int((time.monotonic() - began) * 1000), file=file)
    os.rename(f"{scratch}/took{i}.new", f"{scratch}/took{i}")
END
libraries_line='hits in libraries that it opened while probectl was stopped or busy may be missing'
programs_line='1 or more processes have started while too many others did, or while probectl was stopped or busy'
cp "$plugin" "$SCRATCH/second.so"
cp "$plugin" "$SCRATCH/third.so"

# lapse WHAT LINE LOADS COMMAND…: the first of what is loaded comes while the command is stopped,
# the last after that, if it is not alone; LINE is told once
lapse()
{
	local what=$1 line=$2 loads=$3 took pid child i
	shift 3
	rm -rf "$SCRATCH"/{go,took}? "$SCRATCH"/{ready,recorded}
	# shellcheck disable=SC2086
	"$PROBECTL" "$@" -- "$python" "$SCRATCH/loads.py" "$SCRATCH" $loads \
		>"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
	pid=$!
	on_exit "end_process $pid"
	wait_file "$SCRATCH/ready"
	child=$(pgrep -P "$pid" python3)
	is_served
	# shellcheck disable=SC2086
	set -- $loads
	# All but the last, or the only one, are missed.
	for ((i = 0; i < $# - ($# > 1); i++)); do
		kill -STOP "$pid"
		: >"$SCRATCH/go$i"
		wait_file "$SCRATCH/took$i"
		took=$(<"$SCRATCH/took$i")
		[ "$took" -ge 1900 ] || fail "$what: was not held: $took ms"
		# The program ends.
		until [ $# -gt 1 ] || grep -q '^State:.Z' "/proc/$child/status"; do
			pause
		done
		kill -CONT "$pid"
		[ $# -gt 1 ] || break
		until grep -q "$line" "$SCRATCH/err" && [ "$(constructors)" -gt $i ]; do
			pause
		done
		is_served
	done
	: >"$SCRATCH/go$i"
	wait_file "$SCRATCH/took$(($# - 1))"
	wait "$pid" || fail "$what: status $?: $(cat "$SCRATCH/err")"
	same "$what: told" "$(grep -c "$line" "$SCRATCH/err")" 1
}
# constructors: how many sites of those are patched: of each library so far, or all that there are
constructors()
{
	case $what in
	*program*) echo 1 ;;
	*) "$PROBECTL" status --json -p "$child" ctor:construct 2>/dev/null | jq -s 'map(.patched) | add // 0' ;;
	esac
}
# is_served: waits until the controller has changed what it had to, and sleeps
is_served()
{
	check_alive "$child"
	until grep -q '^State:.S' "/proc/$pid/status"; do
		pause
	done
}

# The first two miss a hit each in their constructors, no other one.
lapse "libraries, counted" "$libraries_line" "$plugin $SCRATCH/second.so $SCRATCH/third.so" \
	trace -c --json 'ctor:*'
same "libraries, counted: hits of the last" "$(jq -s 'map(select(.hits) | {(.name): .hits}) | add.construct' \
	"$SCRATCH/out")" 1
lapse "a library, two tracers" "$libraries_line" "$plugin $SCRATCH/second.so" \
	trace -t count -t hist,arg0 'ctor:*'
lapse "the last library" "$libraries_line" "$plugin" trace -c 'ctor:*'
lapse "a library, run" "$libraries_line" "$plugin $SCRATCH/second.so" run -e 'ctor:*'
lapse "a library, recorded" "$libraries_line" "$plugin $SCRATCH/second.so" \
	record -o "$SCRATCH/recorded" 'ctor:*'
lapse "a library, a stream" "$libraries_line" "$plugin $SCRATCH/second.so" \
	record --full stop -o "$SCRATCH/recorded" 'ctor:*'
lapse "a library, top" "$libraries_line" "$plugin $SCRATCH/second.so" top -d 60 'ctor:*'
lapse "a program" "$programs_line" "true $SCRATCH/second.so" trace -c 'ctor:*'
same "a program: hits of the library" "$(awk '/ctor:construct/ {print $2}' "$SCRATCH/out")" 1
finish
