#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# --follow with a condition alone: processes that come later, whoever starts them. Without root, or
# for other conditions than --exe, they are found when they run, so their first hits are missing,
# but none after them.
. tests/integration/lib.sh
need_attach
need jq
need setsid

hits=200
comer=$SCRATCH/comer
cp "$TARGETS/comer" "$comer"
cp "$TARGETS/comer" "$SCRATCH/another"

# waiting NAME: until the trace of that name is ready
waiting()
{
	wait_tracing "$1"
	grep -q "waiting for each process that" "$SCRATCH/$1.err" || fail "$1: $(cat "$SCRATCH/$1.err")"
}

# come N MODE [PROGRAM]: that many processes, started by different parents; waits for them
come()
{
	local i started=()
	for ((i = 0; i < $1; i++)); do
		if ((i % 2)); then
			setsid "${3-$comer}" $hits 10000 "$2" &
		else
			sh -c '"$@"; exit $?' sh "${3-$comer}" $hits 10000 "$2" &
		fi
		started+=($!)
	done
	wait "${started[@]}"
	# Children of daemons.
	while pgrep -f "^${3-$comer} $hits" >/dev/null; do
		pause
	done
}

# top_start NAME ARGS…: the same as trace_start(), of top
top_start()
{
	anew "$1"
	env --default-signal=INT "$PROBECTL" top "${@:2}" >"$SCRATCH/$1.out" 2>"$SCRATCH/$1.err" </dev/null &
	tracer_pid=$!
	on_exit "end_process $tracer_pid"
}

# whole NAME PROCESSES: so many have hits, each all from some hit on to its last, once
whole()
{
	local bad
	same "$1: processes" "$(jq -r 'select(.name == "hit").args[1]' "$SCRATCH/$1.out" | sort -u | wc -l)" "$2"
	bad=$(jq -r 'select(.name == "hit") | "\(.args[1]) \(.args[0])"' "$SCRATCH/$1.out" | sort -n -k1,1 -k2,2 |
		awk -v hits=$hits '
			$1 != pid { if (pid && last != hits - 1) print "the end of", pid; pid = $1; last = $2; next }
			$2 != last + 1 { print $1, "after", last, "has", $2 }
			{ last = $2 }
			END { if (pid && last != hits - 1) print "the end of", pid }')
	[ -z "$bad" ] || fail "$1: ${bad:0:500}"
}

# came NAME N: the trace has counted so many, those that were traced from the start and the others
came()
{
	same "$1: processes that came" "$(sed -n 's/^probectl: \([0-9]*\) process[es]* came, and .*/\1/p' \
		"$SCRATCH/$1.err" | awk '{n += $1} END {print n + 0}')" "$2"
}

# None is there at the start; other programs are left alone.
trace_start alone --json --follow --exe "$comer" comer:hit
waiting alone
come 6 alone &
others=$!
come 2 alone "$SCRATCH/another"
wait $others
trace_stop alone
whole alone 6
came alone 6

# One that ends while its loader is at work (here it opens a library that never comes) was found, but
# not traced. Root holds it there, so nothing of it is missed.
if [ "$(id -u)" != 0 ]; then
	mkfifo "$SCRATCH/never.so"
	# If the machine is busy, it may be found too late, by nobody.
	for command in trace top; do
		for ((try = 0; try < 20; try++)); do
			${command}_start loader --follow --exe "$comer" comer:hit
			waiting loader
			LD_PRELOAD=$SCRATCH/never.so "$comer" 1 &
			sleep 0.5
			end_process $!
			trace_stop loader
			! grep -q "1 process that came had ended" "$SCRATCH/loader.err" || break
		done
		says loader "1 process that came had ended before its probes could be switched on"
		# The file has the probe; what is missing is a process.
		! grep -q "matched no probe" "$SCRATCH/loader.err" || fail "$command: $(cat "$SCRATCH/loader.err")"
	done
	says loader "no process was traced: none came, or each had ended"

	# Of programs that end at once, some are found: they are traced, or missed.
	for ((try = 0; try < 20; try++)); do
		top_start top -i 0.2 --follow --exe "$comer" comer:hit
		waiting top
		for ((i = 0; i < 200; i++)); do
			"$comer" 1
		done
		trace_stop top
		found=$(grep -ohE "[0-9]+ process(es)?(, 0 now, all of| that came had ended)" "$SCRATCH/top.out" \
			"$SCRATCH/top.err" | awk '{ n += $1 } END { print n + 0 }')
		[ "$found" = 0 ] || break
	done
	[ "$found" -gt 0 ] || fail "short programs are not told: $(cat "$SCRATCH/top.out" "$SCRATCH/top.err")"
fi

# What they fork has the sessions of its parent, or one of its own; daemons stay.
trace_start fork --json --follow --exe "$comer" comer:hit
waiting fork
come 4 fork
trace_stop fork
whole fork 8
trace_start daemon --json --follow --exe "$comer" comer:hit
waiting daemon
come 4 daemon
trace_stop daemon
[ "$(jq -r 'select(.name == "hit" and .args[0] == '$((hits - 1))') | .args[1]' \
	"$SCRATCH/daemon.out" | sort -u | wc -l)" = 4 ] || fail "not all daemons are traced to their end"

# Some are there already; by name, which no other test's have.
named=$SCRATCH/named$$
cp "$TARGETS/comer" "$named"
"$named" 1000000 5000 &
there=$!
trace_start name --json --follow --name "named$$" --user "$(id -u)" comer:hit
wait_tracing name
says name "in 1 process.*, and those that come\|1 site, and those that come"
come 2 alone "$named"
kill "$there"
trace_stop name
same "by name: processes" "$(jq -r '.args[1]' "$SCRATCH/name.out" | sort -u | wc -l)" 3

# A program that is replaced meanwhile, as by an upgrade.
trace_start new --json --follow --exe "$comer" comer:hit
waiting new
cp "$TARGETS/comer" "$SCRATCH/new" && mv "$SCRATCH/new" "$comer"
come 2 alone
trace_stop new
whole new 2

# Counted, recorded, and shown.
trace_start count -c --json --follow --exe "$comer" comer:hit
waiting count
come 4 alone
trace_stop count
counted=$(jq -r 'select(.name == "hit").hits' "$SCRATCH/count.out")
[ "$counted" -gt $hits ] && [ "$counted" -le $((4 * hits)) ] || fail "counted: $counted"
record_start record --follow --exe "$comer" comer:hit
wait_tracing record "$recorder"
come 4 alone
record_stop record
same "recorded: processes" "$("$PROBECTL" export -F json "$SCRATCH/record" | jq -r '.pid' | sort -u | wc -l)" 4
top_start top -i 0.2 --follow --exe "$comer" 'comer:*'
waiting top
come 2 alone
trace_stop top
grep -q "comer:hit" "$SCRATCH/top.out" || fail "top: $(cat "$SCRATCH/top.out")"
grep -q "^# .*, comer: 2 processes, 0 now, all of " "$SCRATCH/top.out" || fail "title: $(cat "$SCRATCH/top.out")"
# On a terminal, nothing is said of probes and stops where nobody is there yet.
if command -v script >/dev/null; then
	TERM=xterm script -qec "'$PROBECTL' top -d 0.5 --follow --exe '$comer' comer:hit" /dev/null \
		>"$SCRATCH/tty.out" </dev/null || fail "top on a terminal: $(cat -v "$SCRATCH/tty.out")"
	grep -qa "probectl top  waiting for processes" "$SCRATCH/tty.out" ||
		fail "top on a terminal: $(cat -v "$SCRATCH/tty.out")"
	! grep -qa "probes enabled" "$SCRATCH/tty.out" || fail "top on a terminal: $(cat -v "$SCRATCH/tty.out")"
fi

# A reader that is slow: what the output has no room for waits in the rings of those that have ended,
# also when others come. (More than probectl itself keeps of what is to be sorted, which is 4 MiB.)
cp "$TARGETS/comer" "$SCRATCH/slow$$"
mkfifo "$SCRATCH/pipe"
anew slow
{
	wait_file "$SCRATCH/all_ended"
	cat
} <"$SCRATCH/pipe" >"$SCRATCH/slow.out" &
reader=$!
on_exit "end_process $reader"
env --default-signal=INT "$PROBECTL" trace -b 16M --json --follow --name "slow$$" comer:hit \
	>"$SCRATCH/pipe" 2>"$SCRATCH/slow.err" </dev/null &
tracer_pid=$!
on_exit "end_process $tracer_pid"
waiting slow
hits=40000
for ((i = 0; i < 2; i++)); do
	"$SCRATCH/slow$$" $hits 10
done
: >"$SCRATCH/all_ended"
trace_stop slow
wait $reader
whole slow 2
hits=200

# With -p it only narrows: of what a shell starts, these.
start sh -c 'echo ready; while read -r line; do "$0" $line & "$1" $line; wait; echo did; done' "$comer" "$SCRATCH/another"
trace_start narrow --json --follow -p "$target_pid" --name sh --name comer comer:hit
wait_tracing narrow
ask "$hits 1000"
trace_stop narrow
same "-p narrowed: processes" "$(jq -r 'select(.name == "hit").args[1]' "$SCRATCH/narrow.out" | sort -u | wc -l)" 1

# A record of the rings, too (tests/integration/record/rings.sh has more of that).
record_start loop --full=loop --follow --exe "$comer" comer:hit
wait_tracing loop "$recorder"
come 4 alone
record_stop loop
same "--full=loop: processes" "$("$PROBECTL" export -F json "$SCRATCH/loop" | jq -r 'select(.name == "hit").pid' | sort -u | wc -l)" 4

# Commands that do not stay for what comes say which do.
for command in enable run; do
	"$PROBECTL" $command --follow --exe "$comer" comer:hit 2>"$SCRATCH/err"
	same "$command --follow: status" $? 2
	grep -q -- '--follow: .*probectl trace --follow' "$SCRATCH/err" || fail "$command: $(cat "$SCRATCH/err")"
done

# A limit ends it, with nobody there.
"$PROBECTL" trace -d 0.3 --follow --exe "$comer" comer:hit >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null ||
	fail "-d: status $?: $(cat "$SCRATCH/err")"
# Children are forked before, while and after the probes of their parent are switched on: each is
# traced, and counted once, whichever way they are named.
for way in --tree --children; do
	start "$TARGETS/orphans" 60
	options=("$way" "$target_pid")
	[ "$way" = --tree ] || options+=(-p "$target_pid" --follow)
	trace_start tree -c --json "${options[@]}" orphans:child
	hear # all are forked
	wait_tracing tree
	until [ "$("$PROBECTL" status --json --children "$target_pid" orphans:child 2>/dev/null |
		jq -s 'map(.patched) | add // 0')" = 60 ]; do
		pause
	done
	tell go
	wait "$tracer_pid"
	same "$way: status" "$?" 0
	end_target
	same "$way: hits of children" "$(jq .hits "$SCRATCH/tree.out")" 60
done

# A child may know a site from its parent's registry that was not patched yet when it was forked.
start "$TARGETS/life"
trace_start parent -c --json -p "$target_pid" life:hit
wait_tracing parent
ask fork
child=${answer#child }
read -r at original _ < <("$python" tests/integration/poke.py "$child" changed "$TARGETS/life")
"$python" tests/integration/poke.py "$child" poke "$at" "$original"
trace_start child -c --json -p "$child" life:hit
wait_tracing child
ask "hit 5"
trace_stop child
same "hits of a child whose site was not patched yet" "$(jq .hits "$SCRATCH/child.out")" 5
trace_stop parent
same "hits of its parent" "$(hits_of "$SCRATCH/parent.out")" 0
ask back
end_target
finish
