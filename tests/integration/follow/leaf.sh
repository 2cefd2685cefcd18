#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
#
# Programs that neither start nor load anything run without a stop, once that is known of them.
# Their ends are as they would be alone; and what they do against all expectation is told.
. tests/integration/lib.sh
need jq timeout

leaf=$TARGETS/leaf
tracer="$leaf tracer 300"
loop=$TARGETS/loop
launch=$TARGETS/launch
[ -x "$leaf" ] || skip "the test targets are not built"

# traced PATTERN SCRIPT: what a shell runs is traced; its status is 7
traced()
{
	timeout -s KILL "$TEST_SECONDS" "$PROBECTL" trace --count --json -o "$SCRATCH/out" "$1" -- \
		/bin/sh -c "$2
exit 7" >"$SCRATCH/stdout" 2>"$SCRATCH/err"
	same "$2: status" "$?" 7
	sed -i '/matched no probe/d' "$SCRATCH/err"
}

# silent PATTERN WANTED SCRIPT: the same with so many hits, and no messages
silent()
{
	traced "$1" "$3"
	same "$3: messages" "$(cat "$SCRATCH/err")" ""
	same "$3: hits" "$(hits_of "$SCRATCH/out")" "$2"
}

# ---- They run without a stop --------------------------------------------------------------

# It makes a hundred system calls, and stops at none.
traced loop:nop "for i in 1 2 3 4 5 6; do $leaf calls; done"
[ "$(tail -5 "$SCRATCH/stdout" | sort -g | tail -1)" -lt 50 ] ||
	fail "it stood still: $(paste -s -d' ' "$SCRATCH/stdout") times"

# Nobody is asked to stop on the way through execve(2), unless the machine is too busy each time.
if command -v strace >/dev/null; then
	for ((try = 0; try < 20; try++)); do
		strace -e trace=ptrace -o "$SCRATCH/calls" "$PROBECTL" trace -q -c -o /dev/null loop:nop -- \
			/bin/sh -c "i=0; while [ \$i -lt 30 ]; do $leaf exit 0; i=\$((i + 1)); done" >/dev/null 2>&1
		same "the traced controller: status" "$?" 0
		asked=$(grep -c PTRACE_INTERRUPT "$SCRATCH/calls")
		[ "$asked" -ge 21 ] || break
	done
	[ "$asked" -lt 21 ] || fail "of 30 threads, $asked were asked to stop"
else
	echo "note: strace is not installed: how often threads are asked to stop is not tested"
fi

# It is traced indeed, and not for long. (If the machine is busy, it may have looked too late.)
for ((i = 0; i < 20; i++)); do
	traced loop:nop "$tracer; $tracer; $tracer"
	same "who traces them later" "$(awk '{ print $2 }' "$SCRATCH/stdout" | sort -u)" 0
	tracers=$(awk '{ print ($1 > 0) }' "$SCRATCH/stdout" | paste -s -d' ')
	[ "$tracers" != "0 1 1" ] || break
done
same "who traces them" "$tracers" "0 1 1"

# ---- Ends, signals ----------------------------------------------------------------------------

traced loop:nop "i=0; while [ \$i -lt 300 ]; do
	$leaf exit \$((i % 256)); [ \$? = \$((i % 256)) ] || echo \"\$i: wrong\"
	i=\$((i + 1)); done"
same "many programs" "$(cat "$SCRATCH/stdout" "$SCRATCH/err")" ""
traced loop:nop "for signal in 1 2 9 15 1 2 9 15; do
	$leaf kill \$signal; [ \$? = \$((128 + signal)) ] || echo \"\$signal: wrong\"; done" 2>/dev/null
same "killed by themselves" "$(cat "$SCRATCH/stdout")" ""
# (On aarch64, one that begins between a look and the stop ends early: libprobe/ptrace/restart.c.)
for ((i = 0; i < 20; i++)); do
	silent loop:nop 0 "$leaf exit 0; for i in 1 2 3; do $leaf waits || echo early; done"
	early=$(cat "$SCRATCH/stdout")
	[ "$(uname -m)" != x86_64 ] && [ -n "$early" ] || break
done
same "waits that end early" "$early" ""
silent loop:nop 0 "for i in 1 2 3 4 5 6; do $leaf handlers \$((i * 2)) || exit 1; done"
traced loop:nop "$leaf exit 0; $leaf exit 0; for i in 1 2 3 4 5 6 7 8 9; do
	$leaf tracer 100000 >/dev/null & sleep 0.00\$i; kill -KILL \$!; wait \$!
	[ \$? = 137 ] || echo \"\$i: wrong\"; done" 2>/dev/null
same "killed by others" "$(cat "$SCRATCH/stdout")" ""
# (The state letter of a stopped process is t while it is traced.)
traced loop:nop "$leaf exit 0; $leaf exit 0; for i in 0 1 2 3 4 5 6 7 8 9; do
	$leaf tracer 600 >/dev/null & sleep 0.00\$i; kill -STOP \$!; state=
	while [ \"\$state\" != T ] && [ \"\$state\" != Z ]; do
		state=\$(ps -o stat= -p \$! | cut -c1 | tr t T); done
	echo \$state; kill -CONT \$!; wait \$!; echo \$?; done"
same "stopping and going on" "$(sort "$SCRATCH/stdout" | uniq -c | paste -s -d' ' | tr -s ' ')" " 10 0 10 T"

# ---- What they open ---------------------------------------------------------------------------

# With LD_PRELOAD it is no leaf: every hit is seen, the constructor's included.
silent ctor:construct 2 "$leaf exit 0; $leaf exit 0; $leaf exit 0
LD_PRELOAD=$TARGETS/libctor.so $leaf exit 0; $leaf exit 0; LD_PRELOAD=$TARGETS/libctor.so $leaf exit 0"
silent ctor:construct 1 "$leaf exit 0; $leaf exit 0; x=$(head -c 60000 /dev/zero | tr '\0' x)
export x; LD_PRELOAD=$TARGETS/libctor.so $leaf exit 0"

# Code with probes, mapped by system calls: told if it ends, and no leaf from then on.
missed="ended soon after it had mapped $TARGETS/liblate.so: hits of probes in it are not reported"
late='hits of its first .* ms are not reported'
# It may be held before it ends, if the machine is busy; each time, one of both is told.
for ((i = 0; i < 20; i++)); do
	traced 'late:*' "$leaf exit 0; $leaf exit 0
$leaf map $TARGETS/liblate.so 0; $leaf map $TARGETS/liblate.so 0; $leaf map $TARGETS/liblate.so 0"
	same "told" "$(grep -c "$missed\|$late" "$SCRATCH/err")" 1
	! grep -q "$missed" "$SCRATCH/err" || break
done
[ "$i" -lt 20 ] || fail "no end is told: $(cat "$SCRATCH/err")"
# The same where it runs for longer.
for ((i = 0; i < 20; i++)); do
	traced 'late:*' "$leaf exit 0; $leaf exit 0; $leaf map $TARGETS/liblate.so 500"
	same "told of a longer one" "$(grep -c "$missed\|$late" "$SCRATCH/err")" 1
	! grep -q "$late" "$SCRATCH/err" || break
done
[ "$i" -lt 20 ] || fail "nothing is told while it runs: $(cat "$SCRATCH/err")"
# A file without probes loses nothing.
silent loop:nop 0 "$leaf exit 0; $leaf exit 0; $leaf map $(command -v jq) 0; $leaf exit 0"

# ---- What they start --------------------------------------------------------------------------

# Followed from its first instruction, though nobody knew of it. What ran before is told. (If the
# machine is busy, it may have been let go before, and is found by looking.)
for ((i = 0; i < 20; i++)); do
	traced loop:nop "$leaf exit 0; $leaf exit 0
	$leaf exec $loop -s nop -n 100; $leaf exec $loop -s nop -n 100"
	told=$(grep -c 'has executed another program by a system call of its own' "$SCRATCH/err")
	[ "$(hits_of "$SCRATCH/out")" -ge $((told * 100)) ] || fail "told, but hits are missing"
	[ "$told" != 2 ] || break
done
same "executed" "$(hits_of "$SCRATCH/out")" 200
same "told of it" "$told" 2
# Found by looking, as is any program that starts in such a way.
traced loop:nop "$leaf exit 0; $leaf exit 0; $leaf fork /bin/sh -c 'exit 3'; echo \$?
$leaf fork /bin/sh -c 'exit 3'; echo \$?; $leaf thread; $leaf thread; $leaf thread"
same "started" "$(paste -s -d' ' "$SCRATCH/stdout")" "3 3 thread thread thread"

# A program that is not found in the first folders of PATH: execve(2) fails there.
silent loop:nop 200 "PATH=/nowhere:$SCRATCH:$TARGETS:\$PATH; export PATH
env loop -s nop -n 100; env leaf exit 0; env leaf exit 0; env loop -s nop -n 100"
traced loop:nop "PATH=/nowhere:$TARGETS:/usr/bin:/bin
env no-such-program; echo \$?; env no-such-program; echo \$?"
same "no such program" "$(paste -s -d' ' "$SCRATCH/stdout")" "127 127"

# ---- Passed over, and no leaf ------------------------------------------------------------------

# What a shell starts that was passed over before, in each way; what a program opens that was.
for way in exec thread late fork vfork spawn; do
	again="/bin/sh -c '$launch $way $loop -s nop -n 100; exit 0'"
	silent loop:nop 200 "$again; $again"
done
silent ctor:plugin 2 "$TARGETS/ctor $TARGETS/libctor_plugin.so; $TARGETS/ctor $TARGETS/libctor_plugin.so"

# ---- A controller that is killed -----------------------------------------------------------------

for ((i = 1; i <= 5; i++)); do
	rm -f "$SCRATCH/ended" "$SCRATCH/statuses"
	"$PROBECTL" trace --count -o /dev/null loop:nop -- /bin/sh -c "i=0
while [ \$i -lt 100 ]; do $leaf exit 3; echo \$?; i=\$((i + 1)); done >$SCRATCH/statuses
echo >$SCRATCH/ended" >/dev/null 2>&1 &
	wait_file "$SCRATCH/statuses"
	sleep "0.0$((2 * i - 1))"
	kill -KILL $! 2>/dev/null
	wait $! 2>/dev/null
	wait_file "$SCRATCH/ended"
	same "killed: programs" "$(grep -c '^3$' "$SCRATCH/statuses")" 100
done
finish
