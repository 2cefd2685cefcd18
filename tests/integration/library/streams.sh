#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Streams of real processes, with the programs of docs/examples/stream: events in order,
# filters, logs that babeltrace2 reads, and targets that are as before, whatever happens.
. tests/integration/lib.sh
need cc babeltrace2
need_attach

examples=docs/examples/stream
export LD_LIBRARY_PATH=$BUILD
for source in "$examples"/*.c; do
	name=${source##*/}
	cc -std=gnu11 -O2 -Wall -Wextra -Werror -Ilibprobe/include "$source" \
		-o "$SCRATCH/${name%.c}" -L"$BUILD" -lprobe || die "$source"
done

# example NAME OUTPUT ARGS…: in the background. Sets $example.
example()
{
	local name=$1 output=$2
	shift 2
	"$SCRATCH/$name" "$@" >"$SCRATCH/$output" 2>"$SCRATCH/$output.err" </dev/null &
	example=$!
	on_exit "end_process $example"
}

# example_ends OUTPUT
example_ends()
{
	wait "$example" || fail "$1: $(head -3 "$SCRATCH/$1.err")"
}

start "$TARGETS/hits" 2
save_state "$target_pid"

# ---- Reading --------------------------------------------------------------------------

example watch watched "$target_pid" hits:work 2
wait_on "$target_pid" hits:work
ask 1000
example_ends watched
same "first event" "$(sed -n '1s/^[0-9]* //p' "$SCRATCH/watched")" \
	"posix_trace_start: other types than those asked for"
same "hits" "$(grep -c ' hits:work ' "$SCRATCH/watched")" 2000
same "last event" "$(sed -n '$s/^[0-9]* //p' "$SCRATCH/watched")" "posix_trace_stop 0"
LC_ALL=C sort -c -s -n -k1,1 "$SCRATCH/watched" || fail "events are not in order"
same_state "$target_pid"

# The newest hits, in a record that others may be written to.
example last last_out "$SCRATCH/kept" 2 hits:work "$target_pid"
wait_on "$target_pid" hits:work
ask 300
example_ends last_out
same "hits of the caller's record" "$("$PROBECTL" export -F json "$SCRATCH/kept" | grep -c '"name":"work"')" 600
same_state "$target_pid"

# Filtered hits are absent, and nothing counts as missing.
example watch filtered "$target_pid" 'hits:*' 1 hits:work
wait_on "$target_pid" hits:work
ask 1000
example_ends filtered
same "types behind a filter" "$(sed 's/^[0-9]* //' "$SCRATCH/filtered" | cut -d: -f1 | paste -sd,)" \
	"without hits,posix_trace_start,posix_trace_stop 0"
same_state "$target_pid"

# The newest hits are kept if there is no room for all while nothing reads.
example watch newest "$target_pid" hits:work 3
wait_on "$target_pid" hits:work
kill -STOP "$example"
ask 400000
kill -CONT "$example"
example_ends newest
grep -q 'written over' "$SCRATCH/newest.err" || fail "that events are missing is not told"
grep -q ' posix_trace_overflow$' "$SCRATCH/newest" || fail "no overflow among the events"
grep -q ' posix_trace_resume$' "$SCRATCH/newest" || fail "no resume among the events"
awk '$2 == "hits:work" { last = $4 > last ? $4 : last } END { exit last != 399999 }' \
	"$SCRATCH/newest" || fail "the newest hit is not there"
same_state "$target_pid"

# ---- Logs -------------------------------------------------------------------------------

example log logged "$target_pid" hits:work "$SCRATCH/full"
wait_on "$target_pid" hits:work
# Until it is full: if the machine is busy, some hits are not written.
for ((i = 0; i < 100; i++)); do
	ask 100000
	kill -0 "$example" 2>"$SCRATCH/null" || break
done
example_ends logged
grep -q 'the log is full' "$SCRATCH/logged" || fail "log: $(cat "$SCRATCH/logged")"
[ "$(du -cb "$SCRATCH"/full/stream_* | awk 'END { print $1 }')" -le $((16 << 20)) ] ||
	fail "the log is larger than it may be"
babeltrace2 "$SCRATCH/full" >"$SCRATCH/full.txt" 2>"$SCRATCH/full.bt" || fail "babeltrace2 fails"
grep -v 'discarded' "$SCRATCH/full.bt" >"$SCRATCH/full.said"
[ ! -s "$SCRATCH/full.said" ] || fail "babeltrace2: $(head -3 "$SCRATCH/full.said")"
grep -q ' posix_trace:stop: .*arg0 = 1 }' <(tail -1 "$SCRATCH/full.txt") ||
	fail "the last event is no stop: $(tail -1 "$SCRATCH/full.txt")"
same_state "$target_pid"
"$SCRATCH/play" "$SCRATCH/full" >"$SCRATCH/played" || fail "play"
same "hits of the log" "$(sed -n 's/^hits:work //p' "$SCRATCH/played")" \
	"$(grep -c ' hits:work: ' "$SCRATCH/full.txt")"
same "stops of the log" "$(sed -n 's/^posix_trace_stop //p' "$SCRATCH/played")" 1
grep -q "^a log of probectl $("$PROBECTL" --version | cut -d' ' -f2), of [0-9]* hits$" \
	"$SCRATCH/played" || fail "play: $(head -1 "$SCRATCH/played")"

# Any other record can be played, too; anything else cannot.
echo 100 | "$PROBECTL" record -q -o "$SCRATCH/record" hits:work -- "$TARGETS/hits" 1 >/dev/null ||
	fail "record"
same "hits of a record" "$("$SCRATCH/play" "$SCRATCH/record" | paste -sd,)" \
	"first hits:work,hits:work 100"
"$SCRATCH/play" "$BUILD" >/dev/null 2>"$SCRATCH/none" && fail "a folder of other files is played"
same "lines about it" "$(wc -l <"$SCRATCH/none")" 1

# The controller is killed: the target is well, and the log is readable.
example log killed "$target_pid" hits:work "$SCRATCH/killed.log"
wait_on "$target_pid" hits:work
ask 20000
until [ "$(cat "$SCRATCH"/killed.log/stream_* 2>/dev/null | wc -c)" -gt 1000000 ]; do
	pause
done
end_process "$example"
"$PROBECTL" repair -p "$target_pid" >/dev/null || fail "repair"
same_state "$target_pid"
[ "$("$SCRATCH/play" "$SCRATCH/killed.log" | sed -n 's/^hits:work //p')" -gt 10000 ] ||
	fail "play of a log that was cut off: $("$SCRATCH/play" "$SCRATCH/killed.log" 2>&1)"

# ---- probectl record --full ------------------------------------------------------------------

# recorder NAME ARGS…: in the background. Sets $example.
recorder()
{
	local name=$1
	shift
	"$PROBECTL" record -o "$SCRATCH/$name" "$@" hits:work -p "$target_pid" \
		>"$SCRATCH/$name.out" 2>"$SCRATCH/$name.err" </dev/null &
	example=$!
	on_exit "end_process $example"
	wait_on "$target_pid" hits:work
}

# recorded NAME: what babeltrace2 prints goes to NAME.txt; it must not print messages, except of hits
# that are gone
recorded()
{
	babeltrace2 "$SCRATCH/$1" >"$SCRATCH/$1.txt" 2>"$SCRATCH/$1.bt" || fail "babeltrace2: $1"
	! grep -v 'racer discarded [0-9]* event' "$SCRATCH/$1.bt" >"$SCRATCH/$1.said" ||
		fail "babeltrace2 on $1: $(head -3 "$SCRATCH/$1.said")"
}

recorder loop --full=loop -b 128k
ask 50000
kill -USR1 "$example"
until [ "$(cat "$SCRATCH"/loop/stream_* 2>/dev/null | wc -c)" -gt 100000 ]; do
	pause
done
ask 1000
kill -TERM "$example"
wait "$example" || fail "record --full=loop: $(cat "$SCRATCH/loop.err")"
recorded loop
grep -q 'older hits were overwritten' "$SCRATCH/loop.err" || fail "it is not told that hits are gone"
same "hits told" "$(sed -n 's/^probectl: \([0-9]*\) hits recorded.*/\1/p' "$SCRATCH/loop.err")" \
	"$(grep -c ' hits:work: ' "$SCRATCH/loop.txt")"
for thread in 0 1; do
	same "the newest hits of thread $thread" "$(grep "{ arg0 = $thread, " "$SCRATCH/loop.txt" |
		tail -1000 | sed 's/.* arg1 = \([0-9]*\),.*/\1/' | cksum)" "$(seq 0 999 | cksum)"
done
grep -q "{ arg0 = [01], arg1 = 49999, " "$SCRATCH/loop.txt" || fail "nothing was written at SIGUSR1"
grep -q ' posix_trace:flush_stop: ' "$SCRATCH/loop.txt" || fail "the stream tells of no flush"
# The threads had ended when their hits were read.
grep ' hits:work: ' "$SCRATCH/loop.txt" | grep -qv 'comm = "\(hits\|\[unknown\]\)"' && fail "wrong names"
# A report covers only hits, and says that there were other events.
"$PROBECTL" report "$SCRATCH/loop" >"$SCRATCH/loop.report" || fail "no report of loop"
# Together they are all that were made.
hits=$(grep -c ' hits:work: ' "$SCRATCH/loop.txt")
grep -q "^$hits hits, .* $((2 * 51000 - hits)) lost ([0-9.]*%); 1 probe, 1 process, " \
	"$SCRATCH/loop.report" || fail "report of loop: $(head -2 "$SCRATCH/loop.report")"
grep -q '^older hits were overwritten' "$SCRATCH/loop.report" || fail "the report does not say that hits are gone"
same "stacks of loop" "$("$PROBECTL" export --format=folded --count "$SCRATCH/loop" 2>"$SCRATCH/null" |
	sed 's/^?;/hits;/' | grep -v '^\[lost\]')" "hits;hits:work $(grep -c ' hits:work: ' "$SCRATCH/loop.txt")"
same_state "$target_pid"

recorder stop --full=stop -b 128k
ask 50000
wait "$example" || fail "record --full=stop: $(cat "$SCRATCH/stop.err")"
recorded stop
grep -q ' posix_trace:stop: .*arg0 = 1 }' <(tail -1 "$SCRATCH/stop.txt") || fail "it did not stop when full"
"$PROBECTL" report "$SCRATCH/stop" | grep -q '^later hits were not recorded' ||
	fail "the report does not say that it stopped when full"
for thread in 0 1; do
	count=$(grep -c "{ arg0 = $thread, " "$SCRATCH/stop.txt")
	same "the oldest hits of thread $thread" "$(grep "{ arg0 = $thread, " "$SCRATCH/stop.txt" |
		sed 's/.* arg1 = \([0-9]*\),.*/\1/' | cksum)" "$(seq 0 $((count - 1)) | cksum)"
done
same_state "$target_pid"

# Its messages are no longer read: it ends as it should all the same.
"$PROBECTL" record -o "$SCRATCH/unread" --full=loop --follow hits:work 'no*:such' -p "$target_pid" \
	2> >(head -1 >"$SCRATCH/unread.err") &
example=$!
on_exit "end_process $example"
wait_on "$target_pid" hits:work
until [ -s "$SCRATCH/unread.err" ]; do
	pause
done
kill -TERM "$example"
wait "$example"
same "status of a record whose messages nobody reads" "$?" 0
recorded unread
same_state "$target_pid"

# A program of several threads that ends before anything is read: hits keep their threads.
echo 100 | "$PROBECTL" record -q -o "$SCRATCH/gone" --full=loop hits:work -- "$TARGETS/hits" 2 \
	>"$SCRATCH/gone.out" || fail "record --full=loop -- PROGRAM"
recorded gone
same "hits of a program" "$(grep -c ' hits:work: ' "$SCRATCH/gone.txt")" 200
"$PROBECTL" record -q -o "$SCRATCH/status" --full=stop 'hits:*' -- sh -c 'exit 3' 2>/dev/null
same "status of the program" "$?" 3

# refused STATUS TEXT ARGS…
refused()
{
	local status=$1 text=$2
	shift 2
	"$PROBECTL" record -o "$SCRATCH/refused" "$@" >/dev/null 2>"$SCRATCH/refused.err"
	same "status of $*" "$?" "$status"
	same "lines of $*" "$(wc -l <"$SCRATCH/refused.err")" 1
	grep -q -e "$text" "$SCRATCH/refused.err" || fail "$*: $(cat "$SCRATCH/refused.err")"
	[ ! -e "$SCRATCH/refused" ] || fail "$* leaves a folder"
}
refused 2 "use flush, loop, stop or wait" --full=round hits:work -p "$target_pid"
refused 2 "leave --rotate out" --full=loop --rotate 1M hits:work -p "$target_pid"
refused 2 "do not go with" --full=stop -n 5 hits:work -p "$target_pid"
refused 1 "the nearest: hits:work" --full=stop hits:wrok -p "$target_pid"
refused 127 "No such file" --full=loop hits:work -- /nonexistent

# ---- The switch behind streams ------------------------------------------------------------

mkfifo "$SCRATCH/lines"
"$SCRATCH/pause" "$target_pid" hits:work <"$SCRATCH/lines" >"$SCRATCH/paused" 2>&1 &
example=$!
on_exit "end_process $example"
exec {lines}>"$SCRATCH/lines"
said=0
for want in off on off on; do
	said=$((said + 1))
	until [ "$(wc -l <"$SCRATCH/paused")" -ge "$said" ]; do
		pause
	done
	same "the switch" "$(tail -1 "$SCRATCH/paused")" "$want"
	if [ "$want" = off ]; then ask 7; else ask 5; fi
	echo >&"$lines"
done
exec {lines}>&-
wait "$example" || fail "pause"
same "hits while it was on" "$(tail -1 "$SCRATCH/paused")" "20 hits"
same_state "$target_pid"
end_target
finish
