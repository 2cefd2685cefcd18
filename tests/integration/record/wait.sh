#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
#
# --full=wait: hits wait for room in their rings. None is lost while somebody reads, whatever hits;
# a recorder that is stopped or killed delays its target once; what was lost is counted.
. tests/integration/lib.sh
need_attach
need jq

now_ms()
{
	date +%s%3N
}

# told NAME WHAT: of the hits of a record, how many were `recorded`, `lost`, or have `waited`
told()
{
	local count
	count=$(sed -n "s/^probectl: \(warning: \)\?\([0-9]*\) hits\? \(was \|were \)\?$2.*/\2/p" "$SCRATCH/$1.err")
	echo "${count:-0}"
}

# in_record NAME: hits and losses as its readers see them
in_record()
{
	"$PROBECTL" report --json "$SCRATCH/$1" | jq -c 'select(.type == "record") | [.hits, .lost]'
}

# whole NAME HITS: all are in the record, and some had to wait
whole()
{
	same "$1: recorded and lost" "$(told "$1" recorded) $(told "$1" lost)" "$2 0"
	same "$1: in the record" "$(in_record "$1")" "[$2,0]"
	[ "$(told "$1" waited)" -gt 0 ] || fail "$1: no hit has waited: $(cat "$SCRATCH/$1.err")"
}

# More hits than a ring of 128 KiB has room for, many times.
many=60000

# ---- Nothing is lost -----------------------------------------------------------------------

start "$TARGETS/hits" 2
save_state "$target_pid"
record_start two --full=wait:1s -b 128k -p "$target_pid" hits:work
wait_tracing two "$recorder"
ask $many
same "two threads" "$answer" "did $((2 * many))"
record_stop two
whole two $((2 * many))
grep -q '^probectl: [0-9]* hits\? waited for room, [0-9.]* s in all$' "$SCRATCH/two.err" ||
	fail "the waits: $(cat "$SCRATCH/two.err")"
# Each thread has all of its hits, in their order.
"$PROBECTL" export -F csv "$SCRATCH/two" >"$SCRATCH/csv"
same "each in its order" "$(awk -F, 'NR > 1 && $12 != seen[$3]++ { wrong++ }
	END { for (i in seen) threads++; print wrong + 0, threads }' "$SCRATCH/csv")" "0 2"
rm "$SCRATCH/csv"
same_state "$target_pid"

# schedule_of PID: how its threads are scheduled: with a priority of root's, or in short slices
schedule_of()
{
	ps -L -o cls= -p "$1" | sort -u
	cat "/proc/$1"/task/*/sched 2>/dev/null | sed -n 's/^se\.slice[: ]*//p' | sort -u
}

# A program that is held is changed with priority, which no thread keeps.
"$PROBECTL" record -q --full=wait -o "$SCRATCH/held" loop:nop -- "$TARGETS/loop" -s nop -n 2000 -p 1000 \
	>/dev/null 2>"$SCRATCH/held.err" &
held=$!
while [ ! -s "$SCRATCH/held/metadata" ]; do
	pause
done
same "how the recorder's threads are scheduled" "$(schedule_of "$held")" "$(schedule_of $$)"
wait "$held" || fail "held: status $?: $(cat "$SCRATCH/held.err")"

# In parts, and of a filter's hits.
record_start parts --full=wait:1s -b 128k --rotate 1M -f 'arg1 % 2 == 1' -p "$target_pid" hits:work
wait_tracing parts "$recorder"
ask 200000
record_stop parts
same "parts: recorded and lost" "$(told parts recorded) $(told parts lost)" "200000 0"
[ -d "$SCRATCH/parts/000002" ] || fail "there is one part"
same_state "$target_pid"

# Printed hits wait, too, and JSON tells it.
trace_start json --json --full=wait:1s -b 128k -p "$target_pid" hits:work
wait_tracing json
ask 20000
trace_stop json
same "printed" "$(grep -c '"name":"work"' "$SCRATCH/json.out")" 40000
jq -e 'select(.waited) | .waited > 0 and .waited_ns > 0' "$SCRATCH/json.out" >"$SCRATCH/out" ||
	fail "JSON does not tell of waits: $(tail -1 "$SCRATCH/json.out")"
same_state "$target_pid"
end_target

# A signal handler may find the ring full while its thread waits.
start "$TARGETS/signals" storm 1
record_start storm --full=wait:1s -b 128k -p "$target_pid" 'signals:*'
wait_tracing storm "$recorder"
ask go
[[ $answer =~ ^main\ ([0-9]+)\ handler\ ([0-9]+)$ ]] || fail "the storm: $answer"
record_stop storm
whole storm $((BASH_REMATCH[1] + BASH_REMATCH[2]))
end_target

# Forked children have the same rings, and nobody reads for those that are not followed.
for follow in '--follow' '--no-follow'; do
	start "$TARGETS/fork" 3 100000
	# shellcheck disable=SC2086
	record_start fork --full=wait:1s -b 128k $follow -p "$target_pid" fork:hit
	wait_tracing fork "$recorder"
	ask go
	[[ $answer =~ ^parent\ ([0-9]+)\ children\ ([0-9]+)$ ]] || fail "forked: $answer"
	record_stop fork
	hits=${BASH_REMATCH[1]}
	[ "$follow" = --no-follow ] || hits=$((hits + BASH_REMATCH[2]))
	whole fork "$hits"
	end_target
	rm -r "$SCRATCH/fork"
done

# A trace that ends while its target hits as fast as it can has all hits up to some one of each
# thread: none is recorded behind others that nobody has counted.
start "$TARGETS/hits" 2
tell 2000000000
record_start ended --full=wait:1s -b 128k -d 0.5 -p "$target_pid" hits:work
wait "$recorder" || fail "ended: $(cat "$SCRATCH/ended.err")"
same "ended: lost" "$(told ended lost)" 0
"$PROBECTL" export -F csv "$SCRATCH/ended" | awk -F, 'NR > 1 {
		if (!($3 in count) || $12 < least[$3]) least[$3] = $12
		if (!($3 in count) || $12 > most[$3]) most[$3] = $12
		count[$3]++ }
	END { for (i in count) { threads++; missing += most[i] - least[i] + 1 - count[i] }
		print threads, missing + 0 }' >"$SCRATCH/out"
same "ended: threads, hits that are missing" "$(cat "$SCRATCH/out")" "2 0"
end_process "$target_pid"
rm -r "$SCRATCH/ended"
# ---- Several processes -------------------------------------------------------------------------

# They are changed one after the other, and a thread in vfork(2) makes that take long: in the second
# one at the start, in the first one at the end. The other one hits all the time.
start "$TARGETS/crew" vfork
mkfifo "$SCRATCH/fifo"
"$TARGETS/crew" later <"$SCRATCH/fifo" >"$SCRATCH/first.out" &
first=$!
on_exit "end_process $first"
exec {first_in}>"$SCRATCH/fifo"
while [ ! -s "$SCRATCH/first.out" ]; do
	pause
done
# in_futex: how many of their threads wait in futex(2), as those do that wait for room
in_futex()
{
	cat "/proc/$first"/task/*/syscall "/proc/$target_pid"/task/*/syscall 2>/dev/null | grep -c "^$futex "
}
futex=202
[ "$(uname -m)" = x86_64 ] || futex=98
record_start several --full=wait:1s -b 128k -f 'arg0 % 256 == 0' -p "$first,$target_pid" crew:work
wait_on "$first" crew:work
sleep 1.5
ask release
wait_tracing several "$recorder"
# The rings fill up, whoever is quicker, for less than a hit waits at most.
waiting=$(in_futex)
kill -STOP "$recorder"
until [ "$(in_futex)" -gt "$waiting" ]; do
	pause
done
kill -CONT "$recorder"
sleep 0.5
echo fork >&"$first_in"
until grep -q '[0-9]' "/proc/$first"/task/*/children; do
	pause
done
kill -INT "$recorder"
sleep 1.5
echo release >&"$first_in"
record_stop several
hits=$(told several recorded)
same "several: lost" "$(told several lost)" 0
[ "$(told several waited)" -gt 0 ] || fail "several: no hit has waited"
same "several: in the record" "$(in_record several)" "[$hits,0]"
"$PROBECTL" export -F csv "$SCRATCH/several" >"$SCRATCH/csv"
# They number their hits. A thread may have stood still in one since long before the begin, so the
# second one of each thread is where all are there; at the end, each may be in one.
same "several: the columns" "$(head -1 "$SCRATCH/csv" | cut -d, -f2,3,11)" "pid,tid,arg0"
sed 1d "$SCRATCH/csv" | cut -d, -f2,3,11 >"$SCRATCH/numbers"
same "several: without a gap, to the end" "$(awk -F, '
	NR == FNR {
		if (seen[$2] < 2 && ++seen[$2] == 2 && $3 > from[$1]) from[$1] = $3
		if ($3 > most[$1]) most[$1] = $3
		next
	}
	$3 >= from[$1] { count[$1]++ }
	END {
		for (pid in from) {
			processes++
			missing += (most[pid] - from[pid]) / 256 + 1 - count[pid]
		}
		print processes, missing <= 8 ? "whole" : missing " are missing"
	}' "$SCRATCH/numbers" "$SCRATCH/numbers")" "2 whole"
rm "$SCRATCH/numbers"
rm "$SCRATCH/csv"
echo quit >&"$first_in"
exec {first_in}>&-
wait "$first" || fail "the first one: status $?"
same "the first one" "$(tail -1 "$SCRATCH/first.out")" "wrong 0"
ask quit
same "the second one" "$answer" "wrong 0"
end_target

# ---- A recorder that does not read -----------------------------------------------------------

start "$TARGETS/hits" 1
save_state "$target_pid"
record_start stopped --full=wait:400ms -b 128k -p "$target_pid" hits:work
wait_tracing stopped "$recorder"
kill -STOP "$recorder"
begin=$(now_ms)
ask $many
took=$(($(now_ms) - begin))
[ "$took" -ge 390 ] || fail "nothing waited for a stopped recorder: $took ms"
ask $many
kill -CONT "$recorder"
# It reads what is there.
until [ "$(cat "$SCRATCH"/stopped/stream* | wc -c)" -gt 50000 ]; do
	pause
done
ask 100
record_stop stopped
says stopped 'larger ones (-b), a longer wait (--full=wait:TIME) or fewer probes help$'
same "stopped: one hit of all has waited" "$(told stopped waited)" 1
same "stopped: all hits" $(($(told stopped recorded) + $(told stopped lost))) $((2 * many + 100))
[ "$(told stopped lost)" -gt $((many * 5 / 3)) ] || fail "stopped: $(cat "$SCRATCH/stopped.err")"
same "stopped: in the record" "$(in_record stopped)" "[$(told stopped recorded),$(told stopped lost)]"
same_state "$target_pid"

# The kernel ends the wait when the recorder dies; the machine may be slow to let us see it.
for ((try = 0; try < 20; try++)); do
	record_start killed$try --full=wait:1s -b 128k -p "$target_pid" hits:work
	wait_tracing killed$try "$recorder"
	kill -STOP "$recorder"
	begin=$(now_ms)
	tell $many
	sleep 0.1
	end_process "$recorder"
	hear
	took=$(($(now_ms) - begin))
	same "killed: the target" "$answer" "did $many"
	[ "$took" -ge 900 ] || break
done
[ "$took" -lt 900 ] || fail "the target waits for a dead recorder: $took ms"
# The ring is still full.
for ((try = 0; try < 20; try++)); do
	begin=$(now_ms)
	ask 1000
	took=$(($(now_ms) - begin))
	[ "$took" -ge 900 ] || break
done
[ "$took" -lt 900 ] || fail "the target waits after the recorder has died: $took ms"
ctl repair -p "$target_pid"
same_state "$target_pid"
end_target

# ---- A filter that forbids to sleep ----------------------------------------------------------

start "$TARGETS/seccomp" futex all
"$PROBECTL" record -o "$SCRATCH/filtered" --full=wait -p "$target_pid" seccomp:hit >"$SCRATCH/out" 2>"$SCRATCH/err"
same "filtered: status" "$?" 1
# Others than root do not know the filter.
why=futex
[ "$(id -u)" = 0 ] || why="only root can read the filter"
grep -q "$why" "$SCRATCH/err" || fail "filtered: $(cat "$SCRATCH/err")"
ask "still there?"
same "filtered: the target" "$answer" alive
check_alive "$target_pid"
end_target

# One that comes later ends the record.
start "$TARGETS/seccomp" futex later
save_state "$target_pid"
record_start later --full=wait -p "$target_pid" seccomp:hit
wait_tracing later "$recorder"
ask now
wait "$recorder"
same "a later filter: status" "$?" 1
says later 'its probes are switched off: '
ask "still there?"
same "a later filter: the target" "$answer" alive
same_state "$target_pid"
end_target

# ---- Command lines that make no sense --------------------------------------------------------

# refused MESSAGE ARGS…
refused()
{
	"$PROBECTL" "${@:2}" -p $$ hits:work >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "status of ${*:2}" "$?" 2
	grep -q -e "$1" "$SCRATCH/err" || fail "${*:2}: $(cat "$SCRATCH/err")"
}
for time in 0 2s 1x x ''; do
	refused "'$time' is no time between 1ns and 1s, as in wait:20ms" record -o "$SCRATCH/none" --full=wait:$time
done
refused "use flush, loop, stop or wait" record -o "$SCRATCH/none" --full=waits
refused "use wait, or wait:TIME" trace --full=loop
refused "not for 'count'" trace --full=wait -c
refused "not for 'ring'" trace --full=wait -t ring
refused "not for 'span'" trace --full=wait -t span hits:begin
[ ! -e "$SCRATCH/none" ] || fail "there is a record"
finish
