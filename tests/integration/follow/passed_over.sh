#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
#
# Programs without a probe that is wanted are passed over: when one starts again, it is only watched
# from system call to system call, for a moment. Whatever it opens or starts is traced all the same.
. tests/integration/lib.sh
need jq

loop=$TARGETS/loop
launch=$TARGETS/launch
[ -x "$launch" ] || skip "the test targets are not built"

# traced WANTED SCRIPT PATTERN OPTIONS…: so many hits in what a shell runs, without a word
traced()
{
	local wanted=$1 script=$2 pattern=$3
	shift 3
	"$PROBECTL" trace --count --json -o "$SCRATCH/out" "$@" "$pattern" -- \
		/bin/sh -c "$script; exit 7" >"$SCRATCH/stdout" 2>"$SCRATCH/err"
	same "$script: status" "$?" 7
	# The shell tells of what it kills.
	same "$script: messages" "$(grep -vE "^(Killed|Terminated)\$|matched no probe" "$SCRATCH/err")" ""
	same "$script: hits" "$(hits_of "$SCRATCH/out")" "$wanted"
}

# What it starts: by each way to do so, from a shell that was passed over.
for way in exec thread late fork vfork spawn; do
	again="/bin/sh -c '$launch $way $loop -s nop -n 100; exit 0'"
	traced 300 "$again; $again; $again" loop:nop
done
traced 400 "/bin/sh -c 'true | $loop -s nop -n 100 | $loop -s nop -n 100';
/bin/sh -c 'true | $loop -s nop -n 100 | $loop -s nop -n 100'" loop:nop

# What it opens: with LD_PRELOAD, its constructor included; by dlopen(3).
traced 1 "/bin/true; /bin/true; LD_PRELOAD=$TARGETS/libctor.so /bin/true; /bin/true" ctor:construct
traced 3 "$TARGETS/ctor $TARGETS/libctor_plugin.so; $TARGETS/ctor $TARGETS/libctor_plugin.so;
$TARGETS/ctor $TARGETS/libctor_plugin.so" ctor:plugin
traced 2 "$TARGETS/ctor; $TARGETS/ctor" ctor:main

# With several tracers.
"$PROBECTL" trace -t count -t hist,arg0 --json -o "$SCRATCH/out" ctor:plugin -- /bin/sh -c \
	"$TARGETS/ctor $TARGETS/libctor_plugin.so; $TARGETS/ctor $TARGETS/libctor_plugin.so" \
	>"$SCRATCH/stdout" 2>"$SCRATCH/err" || fail "two tracers: $(cat "$SCRATCH/err")"
same "two tracers: messages" "$(cat "$SCRATCH/err")" ""
same "two tracers: hits" "$(hits_of "$SCRATCH/out")" 2

# Exit statuses.
traced 0 "/bin/sh -c 'kill -TERM \$\$'; /bin/sh -c 'kill -TERM \$\$'; [ \$? = 143 ] || exit 1" loop:nop
traced 0 "/bin/sh -c 'exit 5'; /bin/sh -c 'exit 5'; [ \$? = 5 ] || exit 1" loop:nop

# It is watched indeed, and not for long; the third time not, as it outlived that the second time.
# On aarch64 nothing is: no single request of ptrace(2) takes a call back.
idle=$TARGETS/idle
watched=1
[ "$(uname -m)" = x86_64 ] || watched=0
# (If the machine is busy, it may have looked too late.)
for ((i = 0; i < 20; i++)); do
	"$PROBECTL" trace --count -o "$SCRATCH/out" loop:nop -- \
		/bin/sh -c "$idle tracer; $idle tracer; $idle tracer; exit 0" >"$SCRATCH/tracers" 2>"$SCRATCH/err"
	same "who traces them later" "$(awk '{ print $2 }' "$SCRATCH/tracers" | sort -u)" 0
	tracers=$(awk '{ print ($1 > 0) }' "$SCRATCH/tracers" | paste -sd' ')
	[ "$tracers" != "0 $watched 0" ] || break
done
same "who traces them" "$tracers" "0 $watched 0"

# Nor for many calls, however quick they are.
"$PROBECTL" trace --count -o "$SCRATCH/out" loop:nop -- \
	/bin/sh -c "$idle calls; $idle calls; exit 0" >"$SCRATCH/tracers" 2>"$SCRATCH/err"
same "who traces them after many calls" "$(cat "$SCRATCH/tracers")" "0
0"

# What it does otherwise is as it would be: time limits, handlers, stopping and going on.
traced 0 "for i in 1 2 3; do $idle waits || exit 1; done" loop:nop
traced 0 "for i in 1 2 3 4 5; do $idle signals || exit 1; done" loop:nop
# (The state letter of a stopped process is t while it is traced.)
cat >"$SCRATCH/stop" <<'END'
set -m
for i in 1 2 3 4; do
	sleep 0.5 &
	sleep 0.005
	kill -STOP $!
	state=
	while [[ $state != [TZ] ]]; do
		state=$(ps -o stat= -p $! | cut -c1 | tr t T)
	done
	echo "$state"
	kill -CONT $!
	wait $!
	echo $?
done
END
"$PROBECTL" trace --count -o "$SCRATCH/out" loop:nop -- bash "$SCRATCH/stop" >"$SCRATCH/stopped" 2>/dev/null
# 147: wait(1) told of the stop, and not of the end.
same "stopping and going on" "$(sed "s/^147$/0/" "$SCRATCH/stopped" | paste -sd' ')" "T 0 T 0 T 0 T 0"

# It may be killed, and so may we, at any time: no program is lost, stopped or ends otherwise.
traced 0 "for i in 1 2 3 4 5; do sleep 100 & sleep 0.00\$i; kill -KILL \$!; wait \$!
[ \$? = 137 ] || exit 1; done" loop:nop
for ((i = 1; i <= 5; i++)); do
	rm -f "$SCRATCH/ended" "$SCRATCH/trues"
	"$PROBECTL" trace --count -o /dev/null loop:nop -- /bin/sh -c "i=0
while [ \$i -lt 80 ]; do /bin/true && echo true; i=\$((i + 1)); done >$SCRATCH/trues
echo >$SCRATCH/ended" >/dev/null 2>&1 &
	wait_file "$SCRATCH/trues"
	sleep "0.0$((2 * i - 1))"
	kill -KILL $! 2>/dev/null
	wait $! 2>/dev/null
	wait_file "$SCRATCH/ended"
	same "killed: programs" "$(grep -c true "$SCRATCH/trues")" 80
done
finish
