#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Records as babeltrace2 reads them: every hit with its values, in time order, however the
# record ends.
. tests/integration/lib.sh
need babeltrace2 prlimit taskset
need_attach

# record_end NAME SIGNAL STATUS
record_end()
{
	local status
	kill "-$2" "$recorder" 2>/dev/null
	wait "$recorder" 2>/dev/null
	status=$?
	[ "$status" = "$3" ] ||
		fail "$1 ended with $status, not $3: $(head -5 "$SCRATCH/$1.err")"
}

# read_record NAME: what babeltrace2 prints goes to NAME.txt; it must not print messages
read_record()
{
	babeltrace2 --clock-seconds "$SCRATCH/$1" >"$SCRATCH/$1.txt" 2>"$SCRATCH/$1.bt" ||
		fail "babeltrace2 does not read $1"
	[ ! -s "$SCRATCH/$1.bt" ] || fail "babeltrace2 on $1: $(head -3 "$SCRATCH/$1.bt")"
}

# read_losses NAME: the same, but it must say how many hits were lost, which sets $lost
read_losses()
{
	babeltrace2 --clock-seconds "$SCRATCH/$1" >"$SCRATCH/$1.txt" 2>"$SCRATCH/$1.bt" ||
		fail "babeltrace2 does not read $1"
	lost=$(sed -n 's/.*racer discarded \([0-9]*\) events.*/\1/p' "$SCRATCH/$1.bt" |
		awk '{ n += $1 } END { print n + 0 }')
	[ "$lost" -gt 0 ] || fail "$1: nothing is lost: $(head -3 "$SCRATCH/$1.bt")"
}

# events NAME: their number
events()
{
	grep -c ' hits:work: ' "$SCRATCH/$1.txt"
}

# Each thread is told before its first hit, with its name if it was there to be asked; its hits are there once, in order, with their values.
check_hits()
{
	sed -n 's/^.* probectl:thread: .*{ tid = \([0-9]*\), child = 0 }, { pid = [0-9]*, tid = \1, comm = "\(hits\|\[unknown\]\)" }$/\1/p
		s/^.* hits:work: .*{ tid = \([0-9]*\), child = 0 }.*/\1 hit/p' "$SCRATCH/$1.txt" |
		awk 'NF == 1 { named[$1] = 1 } NF == 2 && !named[$1] { bad++ } END { exit bad > 0 }' ||
		fail "$1: not all threads are named"
	sed -n 's/^.* hits:work: .*{ arg0 = \([0-9]*\), arg1 = \([0-9]*\), arg2 = \([0-9]*\)[, ].*/\1 \2 \3/p' \
		"$SCRATCH/$1.txt" |
		awk -v want="$2" '
			$2 != next_of[$1] + 0 || $3 != 3 * $2 { bad++ }
			{ next_of[$1] = $2 + 1; n++ }
			END { if (bad || n != want) { print n + 0, "hits,", bad + 0, "wrong"; exit 1 } }' ||
		fail "$1: not the values of $2 hits"
	LC_ALL=C sort -c -s -k1,1 "$SCRATCH/$1.txt" || fail "$1: not in order of time"
}

start "$TARGETS/hits" 2
save_state "$target_pid"

# Ctrl-C, SIGTERM: nothing is missing, and the process is as before.
for signal in INT TERM; do
	record_start "$signal" 'hits:work' -p "$target_pid"
	wait_on "$target_pid" hits:work
	ask 5000
	# What it asks for (see --full=loop) is done anyway.
	kill -USR1 "$recorder"
	record_end "$signal" "$signal" 0
	read_record "$signal"
	same "hits until SIG$signal" "$(events "$signal")" 10000
	check_hits "$signal" 10000
	grep -q '10000 hits recorded' "$SCRATCH/$signal.err" || fail "the hits are not counted"
	same_state "$target_pid"
done
grep -q '^\[[0-9.]*\]' "$SCRATCH/INT.txt" || fail "no times"

# An existing record is not overwritten.
"$PROBECTL" record -o "$SCRATCH/INT" hits:work -p "$target_pid" 2>"$SCRATCH/again.err"
same "status for a folder that is not empty" "$?" 1
grep -q 'not empty' "$SCRATCH/again.err" || fail "not said: $(cat "$SCRATCH/again.err")"
"$PROBECTL" record -o /dev/full hits:work -p "$target_pid" 2>"$SCRATCH/full.err"
same "status for what is no folder" "$?" 1
same "lines for it" "$(wc -l <"$SCRATCH/full.err")" 1
"$PROBECTL" record -o "$SCRATCH/large" -b 2G hits:work -p "$target_pid" 2>"$SCRATCH/large.err"
same "status for rings that are too large" "$?" 2
grep -q 'a ring of 2048 MiB (-b) is too large: it may have at most 1024 MiB' "$SCRATCH/large.err" ||
	fail "not said: $(cat "$SCRATCH/large.err")"

# The controller is killed: packets are whole, and have a description.
record_start killed 'hits:work' -p "$target_pid"
wait_on "$target_pid" hits:work
ask 20000
until [ "$(cat "$SCRATCH"/killed/stream* 2>/dev/null | wc -c)" -gt 1000000 ]; do
	pause
done
record_end killed KILL 137
read_record killed
[ "$(events killed)" -gt 10000 ] || fail "only $(events killed) of 40000 hits are left"
"$PROBECTL" repair -p "$target_pid" >/dev/null || fail "repair failed"
same_state "$target_pid"

# Parts: together they contain everything.
record_start parts --rotate 64k 'hits:work' -p "$target_pid"
wait_on "$target_pid" hits:work
ask 20000
record_end parts INT 0
[ -e "$SCRATCH/parts/000002/metadata" ] || fail "there is one part only"
read_record parts
same "hits of all parts" "$(events parts)" 40000
check_hits parts 40000

# After a time, the next hit starts a new part.
record_start times --rotate 200ms 'hits:work' -p "$target_pid"
wait_on "$target_pid" hits:work
ask 1000
sleep 0.3
ask 1000
record_end times INT 0
[ -e "$SCRATCH/times/000002/metadata" ] || fail "one part for more than 200 ms"
read_record times
same "hits of all times" "$(events times)" 4000

# short_parts NAME: no part has hits of more than 300 ms, and there are three at least
short_parts()
{
	local part
	for part in "$SCRATCH/$1"/0*; do
		"$PROBECTL" export --format json "$part" | sed -n 's/^{"ts":\([0-9]*\).*/\1/p' |
			awk -v part="${part##*/}" 'NR == 1 { first = $1 } END {
				if (!NR || $1 - first > 301e6) print part, NR, "hits,", ($1 - first) / 1e6, "ms" }'
	done >"$SCRATCH/$1.txt"
	[ ! -s "$SCRATCH/$1.txt" ] || fail "parts of 300 ms: $(cat "$SCRATCH/$1.txt")"
	[ -e "$SCRATCH/$1/000003" ] || fail "$1 has too few parts"
}

# Few hits do not wait for a write: a part lasts as long as it should.
"$PROBECTL" record -q -o "$SCRATCH/slow" --rotate 300ms loop:nop -- \
	"$TARGETS/loop" -s nop -p 1700 -n 1700 >/dev/null || fail "slow failed"
short_parts slow

# So it does if the recorder reads late, and the hits have been on several CPUs by turns.
record_start late --rotate 300ms 'hits:work' -p "$target_pid"
wait_on "$target_pid" hits:work
kill -STOP "$recorder"
cpus=$(taskset -cp $$ | sed 's/.*: *//')
for turn in {1..6}; do
	for cpu in "${cpus%%[-,]*}" "${cpus##*[-,]}"; do
		taskset -acp "$cpu" "$target_pid" >/dev/null || fail "turn $turn: no CPU $cpu"
		ask 10
		sleep 0.11
	done
done
taskset -acp "$cpus" "$target_pid" >/dev/null
kill -CONT "$recorder"
record_end late INT 0
short_parts late
read_record late
same "hits of late parts" "$(events late)" 240

# Some of the hits.
record_start some -f 'arg1 < 10' 'hits:work' -p "$target_pid"
wait_on "$target_pid" hits:work
ask 5000
record_end some INT 0
read_record some
check_hits some 20
record_start ten -n 10 'hits:work' -p "$target_pid"
wait_on "$target_pid" hits:work
ask 5000
wait "$recorder"
same "status after 10 hits" "$?" 0
read_record ten
same "hits of -n 10" "$(events ten)" 10
same_state "$target_pid"

# Programs that a process executes and starts: each has its name, even after it has ended.
for way in exec spawn; do
	"$PROBECTL" record -q -o "$SCRATCH/$way" loop:nop -- \
		"$TARGETS/launch" "$way" "$TARGETS/loop" -s nop -n 1000 >/dev/null || fail "$way failed"
	read_record "$way"
	same "$way: hits" "$(grep -c ' loop:nop: .*, arg2 = 1000 }$' "$SCRATCH/$way.txt")" 1000
	same "$way: names" "$("$PROBECTL" export --format json "$SCRATCH/$way" | grep -c '"comm":"loop"')" 1000
done

# More than a ring holds, without a reader: losses are reported, and add up.
record_start lost -b 128k 'hits:work' -p "$target_pid"
wait_on "$target_pid" hits:work
kill -STOP "$recorder"
ask 50000
kill -CONT "$recorder"
record_end lost INT 0
read_losses lost
same "hits and losses" "$(($(events lost) + lost))" 100000
grep -q "$lost hits were lost" "$SCRATCH/lost.err" || fail "losses are not told"

# No room: one line, and what has been written is readable. It says itself what is missing: all had
# hit before.
record_start room 'hits:work' -p "$target_pid"
wait_on "$target_pid" hits:work
# Not earlier: the rings are a file, too.
prlimit --pid "$recorder" --fsize=100000 || die "prlimit failed"
kill -STOP "$recorder"
ask 50000
kill -CONT "$recorder"
wait "$recorder"
same "status without room" "$?" 1
same "errors without room" "$(grep -c 'which is whole so far: File too large' "$SCRATCH/room.err")" 1
read_losses room
[ "$(events room)" -gt 0 ] || fail "nothing is left of what had room"
same "hits and losses without room" "$(($(events room) + lost))" 100000
grep -q "warning: at least $lost hits were not written" "$SCRATCH/room.err" ||
	fail "not $lost losses: $(cat "$SCRATCH/room.err")"
same_state "$target_pid"

# A full disk of our own.
mkdir "$SCRATCH/disk"
ways=(unshare -rm)
[ "$(id -u)" != 0 ] || ways=(unshare -m)
if "${ways[@]}" true 2>/dev/null; then
	# shellcheck disable=SC2016 # for the inner shell
	"${ways[@]}" sh -c 'mount -t tmpfs -o size=256k none "$1" || exit
		"$2" record -o "$1/record" loop:nop -- "$3" -s nop -n 100000 >/dev/null 2>"$4.err"
		echo $? >"$4.status"
		"$2" report --json "$1/record" >"$4.json"
		babeltrace2 "$1/record" >"$4.txt" 2>"$4.bt" || echo "babeltrace2: $?" >>"$4.bt"' \
		sh "$SCRATCH/disk" "$PROBECTL" "$TARGETS/loop" "$SCRATCH/full" || fail "no full disk"
	same "status on a full disk" "$(cat "$SCRATCH/full.status")" 1
	same "lines about it" "$(wc -l <"$SCRATCH/full.err")" 3
	grep -q 'which is whole so far: No space left on device' "$SCRATCH/full.err" ||
		fail "not said: $(cat "$SCRATCH/full.err")"
	! grep -v 'Tracer discarded' "$SCRATCH/full.bt" || fail "babeltrace2 on a full disk: $(head -3 "$SCRATCH/full.bt")"
	full=$(grep -c ' loop:nop: ' "$SCRATCH/full.txt")
	[ "$full" -gt 1000 ] || fail "only $full hits of a full disk are left"
	# That the rings ran over meanwhile was the disk's fault. What hits after the end is not counted.
	recorded=$(sed -n 's/^probectl: warning: that ended the record: at least \([0-9]*\) hits are recorded in .*/\1/p' "$SCRATCH/full.err")
	missing=$(sed -n 's/^probectl: warning: at least \([0-9]*\) hits were not written$/\1/p' "$SCRATCH/full.err")
	[ "${recorded:-$((full + 1))}" -le "$full" ] && [ "${missing:-0}" -gt 0 ] &&
		[ "${missing:-0}" -le $((100000 - full)) ] ||
		fail "$full hits are there of 100000: $(cat "$SCRATCH/full.err")"
	same "hits that a record of a full disk says are lost" \
		"$(sed -n '1s/.*,"lost":\([0-9]*\),.*/\1/p' "$SCRATCH/full.json")" \
		"${missing:-0}"
else
	echo "note: no disk of our own: none is full"
fi

# The target is killed.
record_start crash 'hits:work' -p "$target_pid"
wait_on "$target_pid" hits:work
ask 5000
end_process "$target_pid"
wait "$recorder"
same_end "status after the target was killed" "$?" 1
read_record crash
same "hits before the crash" "$(events crash)" 10000

# Arguments of all sizes and kinds; the exit status is the program's.
"$PROBECTL" record -q -o "$SCRATCH/args" 'args:*' -- "$TARGETS/args" || fail "args failed"
read_record args
# The first register has the same value, and the same types, on each machine.
first=rax
[ "$(uname -m)" = x86_64 ] || first=x0
grep -q " args:$first: .*arg0 = 9833440829064126592, arg1 = -8613303244645425024, arg2 = 2419105920, arg3 = -1875861376, arg4 = 41088, arg5 = -24448, arg6 = 128, arg7 = -128 }" \
	"$SCRATCH/args.txt" || fail "args:$first: $(grep "args:$first:" "$SCRATCH/args.txt")"
"$PROBECTL" record -q -o "$SCRATCH/status" 'args:*' -- sh -c 'exit 3' 2>/dev/null
same "status of the program" "$?" 3

# A program that becomes another one at once: the hits of each have its own name.
"$PROBECTL" record -q -o "$SCRATCH/names" launch:go loop:nop -- "$TARGETS/launch" exec \
	"$TARGETS/loop" -s nop -n 10 >/dev/null || fail "names failed"
same "names of two programs" "$("$PROBECTL" export --format=json "$SCRATCH/names" |
	sed -n 's/.*"comm":"\([^"]*\)".*/\1/p' | sort -u | paste -sd,)" launch,loop

# A target that overwrites its hits: no hit is in the future, and no number of losses is made up.
end_process "$target_pid"
start "$TARGETS/hostile" scribble 1
"$PROBECTL" record -q -d 0.5 -o "$SCRATCH/hostile" -p "$target_pid" hostile:tick 2>"$SCRATCH/hostile.err"
same "status with a hostile target" "$?" 0
grep '[0-9]\{16\} hits were lost' "$SCRATCH/hostile.err" && fail "losses that cannot be"
now=$(date +%s)
babeltrace2 --clock-seconds "$SCRATCH/hostile" >"$SCRATCH/hostile.txt" 2>/dev/null ||
	fail "babeltrace2 does not read what a hostile target left"
[ "$(sed -n '$s/^\[\([0-9]*\).*/\1/p' "$SCRATCH/hostile.txt")" -le "$now" ] ||
	fail "a hit in the future: $(tail -1 "$SCRATCH/hostile.txt")"
ask stop

# Many processes with streams of their own, and fewer descriptors than those would need.
end_process "$target_pid"
start "$TARGETS/herd" 100 200
ulimit -n 512
record_start herd --children "$target_pid" herd:hit
wait_tracing herd "$recorder"
ask go
record_end herd INT 0
read_record herd
same "hits of many" "$(grep -c ' herd:hit: ' "$SCRATCH/herd.txt")" 20000
same "their processes" "$(sed -n 's/.* herd:hit: .* pid = \([0-9]*\) }.*/\1/p' "$SCRATCH/herd.txt" | sort -u | wc -l)" 100
grep -q '20000 hits recorded' "$SCRATCH/herd.err" || fail "not said: $(cat "$SCRATCH/herd.err")"
tell bye
end_target 0
# ---- On a terminal -------------------------------------------------------------------------

# A line with what was done so far, written over once a second; nothing with -q, or into a file.
if command -v script >/dev/null; then
	start "$TARGETS/hits" 2
	script -qefc "'$PROBECTL' record -o '$SCRATCH/tty' -p $target_pid hits:work" \
		/dev/null >"$SCRATCH/tty.out" </dev/null &
	recorder=$!
	until grep -qa '0 hits, 0/s, 0.0 MB, 0 lost' "$SCRATCH/tty.out"; do
		pause
	done
	pkill -INT -f "^$PROBECTL record -o $SCRATCH/tty "
	wait "$recorder" || fail "record on a terminal: $(cat -v "$SCRATCH/tty.out")"
	script -qec "'$PROBECTL' record -q -d 1.5 -o '$SCRATCH/quiet' -p $target_pid hits:work" \
		/dev/null >"$SCRATCH/tty.out" </dev/null || fail "record -q on a terminal"
	! grep -qa 'hits' "$SCRATCH/tty.out" || fail "progress, with -q: $(cat -v "$SCRATCH/tty.out")"
	"$PROBECTL" record -d 1.5 -o "$SCRATCH/no_tty" -p "$target_pid" hits:work 2>"$SCRATCH/err" ||
		fail "record: $(cat "$SCRATCH/err")"
	! grep -q $'\r' "$SCRATCH/err" || fail "progress in a file: $(cat -v "$SCRATCH/err")"
	tell ''
fi
finish
