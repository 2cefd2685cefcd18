#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# record --full=loop and --full=stop of several processes: one record has them all, also those that
# come, that become another program, and that have ended by then.
. tests/integration/lib.sh
need_attach
need babeltrace2
need jq

comer=$SCRATCH/comer
cp "$TARGETS/comer" "$comer"

# recorded NAME: what babeltrace2 prints goes to NAME.txt; it must not print messages, except of hits
# that are gone
recorded()
{
	babeltrace2 "$SCRATCH/$1" >"$SCRATCH/$1.txt" 2>"$SCRATCH/$1.bt" || fail "babeltrace2: $1"
	! grep -v 'racer discarded [0-9]* event' "$SCRATCH/$1.bt" >"$SCRATCH/$1.said" ||
		fail "babeltrace2 on $1: $(head -3 "$SCRATCH/$1.said")"
	same "$1: hits told" "$(sed -n 's/^probectl: \([0-9]*\) hits recorded.*/\1/p' "$SCRATCH/$1.err")" \
		"$(grep -vc ' posix_trace:' "$SCRATCH/$1.txt")"
}

# hits_of NAME PID: the second argument of its hits, in their order
hits_of()
{
	sed -n "s/.* hits:work: .* pid = $2, .* arg1 = \([0-9]*\),.*/\1/p" "$SCRATCH/$1.txt"
}

# One that has more hits than there is room for, and another one.
start "$TARGETS/hits" 1
first=$target_pid first_in=$target_in first_out=$target_out
"$python" "$integration/state.py" save "$first" "$SCRATCH/state.$first" || die "no state of $first"
mkfifo "$SCRATCH/in"
"$TARGETS/hits" 1 <"$SCRATCH/in" >"$SCRATCH/second.out" &
second=$!
on_exit "end_process $second"
exec {second_in}>"$SCRATCH/in"
# second COUNT: lets it hit, and waits until it has
said=1
second()
{
	echo "$1" >&"$second_in"
	said=$((said + 1))
	until [ "$(wc -l <"$SCRATCH/second.out")" -ge $said ]; do
		pause
	done
}
until [ -s "$SCRATCH/second.out" ]; do
	pause
done

record_start loop --full=loop -b 128k -p "$first,$second" hits:work
wait_tracing loop "$recorder"
ask 50000
second 100
kill -USR1 "$recorder"
until [ "$(grep -ac . "$SCRATCH"/loop/stream_* 2>/dev/null | wc -l)" -ge 4 ]; do
	pause
done
second 200
record_stop loop
recorded loop
grep -q 'older hits were overwritten' "$SCRATCH/loop.err" || fail "loop: it is not told that hits are gone"
same "loop: the newest of the first" "$(hits_of loop "$first" | tail -1000 | cksum)" "$(seq 49000 49999 | cksum)"
same "loop: all of the second" "$(hits_of loop "$second" | cksum)" "$({ seq 0 99; seq 0 199; } | cksum)"
for pid in "$first" "$second"; do
	grep -q " posix_trace:stop: .* pid = $pid, tid = 0," "$SCRATCH/loop.txt" || fail "loop: no stop of $pid"
done
grep -q " posix_trace:overflow: .* pid = $first," "$SCRATCH/loop.txt" || fail "loop: no overflow of the first"
grep -q " posix_trace:overflow: .* pid = $second," "$SCRATCH/loop.txt" && fail "loop: an overflow of the second"
"$PROBECTL" report "$SCRATCH/loop" >"$SCRATCH/report" || fail "report"
# What is there, and what is gone, is all.
hits=$(grep -c ' hits:work: ' "$SCRATCH/loop.txt")
grep -q "^$hits hits, .* $((50000 + 100 + 200 - hits)) lost ([0-9.]*%); 1 probe, 2 processes, " "$SCRATCH/report" ||
	fail "report: $(head -2 "$SCRATCH/report")"
same_state "$first"

# The first one is full: that is the end of both.
record_start stop --full=stop -b 128k -p "$first,$second" hits:work
wait_tracing stop "$recorder"
second 100
ask 50000
wait "$recorder" || fail "stop: $(cat "$SCRATCH/stop.err")"
recorded stop
grep -q 'later hits were not recorded' "$SCRATCH/stop.err" || fail "stop: it is not told that hits are missing"
[ "$("$PROBECTL" export -F json "$SCRATCH/stop" | jq -s 'map(.lost // 0) | add')" -gt 0 ] ||
	fail "stop: no hit is lost"
same "stop: the oldest of the first" "$(hits_of stop "$first" | head -1000 | cksum)" "$(seq 0 999 | cksum)"
same "stop: all of the second" "$(hits_of stop "$second" | cksum)" "$(seq 0 99 | cksum)"
same_state "$first"

# One that is no process does not keep the other from being recorded.
record_start wrong --full=loop -p "$first,$$" hits:work
wait_tracing wrong "$recorder"
ask 10
kill -INT "$recorder"
wait "$recorder"
same "wrong: status" $? 1
recorded wrong
same "wrong: hits" "$(hits_of wrong "$first" | wc -l)" 10
exec {second_in}>&- {first_in}>&- {first_out}<&-

# processes NAME MAX: those that have the last of their 20 hits; no hit is there twice
processes()
{
	"$PROBECTL" export -F json "$SCRATCH/$1" | jq -r 'select(.name == "hit") | "\(.pid) \(.args[0])"' >"$SCRATCH/$1.hits"
	same "$1: hits that are there twice" "$(sort "$SCRATCH/$1.hits" | uniq -d | wc -l)" 0
	grep -c ' 19$' "$SCRATCH/$1.hits"
}

# check_came NAME COUNT: each process that came is accounted for; without root, except some that were
# found just before their end. (Whether all come is asked in newcomers.sh.)
check_came()
{
	local came
	came=$(sed -n 's/^probectl: \([0-9]*\) process.* came, .*/\1/p' "$SCRATCH/$1.err" | awk '{ n += $1 } END { print n + 0 }')
	if [ "$(id -u)" = 0 ]; then
		[ "$2" = "$came" ] || fail "$1: $2 of $came processes accounted for: $(cat "$SCRATCH/$1.err")"
	else
		[ "$2" -le "$came" ] && [ "$2" -ge $((came * 9 / 10)) ] ||
			fail "$1: $2 accounted for: $(cat "$SCRATCH/$1.err")"
	fi
}

# come COUNT
come()
{
	local i started=()
	for ((i = 0; i < $1; i++)); do
		"$comer" 20 25000 alone &
		started+=($!)
		((i % 8 != 7)) || wait "${started[@]}"
	done
	wait "${started[@]}"
}

# kept: how many processes the recorder has something of that is not written
kept()
{
	readlink "/proc/$recorder/fd"/* | grep -c '/mem$'
}

# More come and end than are kept; what was written on request stays.
record_start many --full=loop --follow --exe "$comer" comer:hit
wait_tracing many "$recorder"
come 10
# It may not know yet that they have ended.
while [ "$(kept)" -gt 0 ]; do
	kill -USR1 "$recorder"
	pause
done
come 74
until [ "$(kept)" -le 69 ]; do
	pause
done
record_stop many
dropped=$(sed -n 's/.* rings of \([0-9]*\) process[es]* that had ended were dropped, .*/\1/p' "$SCRATCH/many.err")
check_came many $(($(processes many) + ${dropped:-0}))
[ "$(id -u)" != 0 ] || { [ "${dropped:-0}" -ge 5 ] && [ "$dropped" -le 12 ]; } ||
	fail "many: dropped: $(cat "$SCRATCH/many.err")"
record_start all --full=stop --follow --exe "$comer" comer:hit
wait_tracing all "$recorder"
come 84
record_stop all
check_came all "$(processes all)"

# What a shell becomes is another program with the same id.
cp "$TARGETS/comer" "$SCRATCH/other"
"$PROBECTL" record -o "$SCRATCH/become" --full=loop comer:hit -- \
	sh -c '"$0" 20 1000 alone & wait; exec "$1" 20 1000 alone' "$comer" "$SCRATCH/other" >"$SCRATCH/out" 2>"$SCRATCH/become.err" ||
	fail "become: $(cat "$SCRATCH/become.err")"
recorded become
same "become: programs" "$(sed -n 's/.* comer:hit: .* comm = "\([a-z]*\)" .*/\1/p' "$SCRATCH/become.txt" | sort | uniq -c | xargs)" \
	"20 comer 20 other"

# The controller is killed: whoever it traced goes on, and is as it was after a repair.
start "$TARGETS/hits" 1
"$python" "$integration/state.py" save "$target_pid" "$SCRATCH/state.$target_pid" || die "no state"
record_start killed --full=loop -p "$target_pid" hits:work
wait_tracing killed "$recorder"
kill -KILL "$recorder"
wait "$recorder" 2>/dev/null
ask 10
"$PROBECTL" repair -p "$target_pid" >/dev/null || fail "repair"
same_state "$target_pid"
finish
