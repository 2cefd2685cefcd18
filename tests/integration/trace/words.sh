#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Keys that are words: comm, ustack and probe, alone and beside others, wherever a key is taken. The
# threads end at once, so nobody could ask for their names later.
. tests/integration/lib.sh
need_attach
need jq

# keys ARGS…: "HITS KEY KEY…" of each row of a trace of the orders below
keys()
{
	printf '%s\n' 'web 100 left' 'db 20 right' 'web 7 right' 'old 30 left new' |
		"$PROBECTL" trace --json "$@" -o "$SCRATCH/keys.json" -- "$TARGETS/nicknames" \
			>"$SCRATCH/keys.out" 2>"$SCRATCH/keys.err" ||
		fail "trace $*: status $?: $(head -3 "$SCRATCH/keys.err")"
	jq -r 'select(.keys) | "\(.hits // .count) \([.keys[] |
		if type == "array" then map(select(test("libc") | not)) | join("<") else tostring end] |
		join(" "))"' "$SCRATCH/keys.json" | sort
}

# What a stack looks like: the C library starts threads.
left='leaf<left<work' right='leaf<right<work'

same "comm" "$(keys -c -k comm nicknames:hit)" "$(sort <<<'107 web
20 db
15 old
15 new')"
same "comm and a number" "$(keys -c -k 'arg1 == 114' -k comm nicknames:hit)" "$(sort <<<'100 0 web
20 1 db
7 1 web
15 0 old
15 0 new')"
same "ustack" "$(keys -c -k ustack nicknames:hit)" "$(sort <<<"130 $left
27 $right")"
same "four keys" "$(keys -c -k ustack -k comm -k arg1 -k probe nicknames:hit)" "$(sort <<<"100 $left web 108 nicknames:hit
20 $right db 114 nicknames:hit
7 $right web 114 nicknames:hit
15 $left old 108 nicknames:hit
15 $left new 108 nicknames:hit")"
same "probe" "$(keys -c -k probe 'nicknames:*')" "$(sort <<<'157 nicknames:begin
157 nicknames:done
157 nicknames:hit')"
same "values" "$(keys -t sum,arg0 -k comm -k ustack nicknames:hit)" "$(sort <<<"100 web $left
20 db $right
7 web $right
15 old $left
15 new $left")"
same "their sums" "$(jq -s 'map(select(.keys)) | map(.sum) | add' "$SCRATCH/keys.json")" \
	$((99 * 50 + 19 * 10 + 6 * 7 / 2 + 29 * 15))
same "times" "$(keys -t latency -k ustack -k comm nicknames:begin nicknames:done)" "$(sort <<<"100 $left web
20 $right db
7 $right web
15 $left old
15 $left new")"
same "the probe of a pair" "$(keys -t latency -k probe nicknames:begin nicknames:done)" "157 nicknames:done"
same "a filter beside them" "$(keys -c -f 'arg0 >= 99' -k ustack nicknames:hit)" "1 $left"

# libstdc++ has no frame pointers, but what the program has above it is found.
if printf '\n\n' | "$PROBECTL" trace --json -c -k comm -k ustack -o "$SCRATCH/throw" libstdcxx:throw -- \
	"$TARGETS/throw_frames" 30 >"$SCRATCH/keys.out" 2>"$SCRATCH/keys.err"; then
	same "exceptions" "$(jq -r 'select(.keys) | "\(.hits) \(.keys[0]) \(.keys[1] |
		map(sub("\\(.*"; "")) | .[0:5] | join("<"))"' "$SCRATCH/throw")" \
		"20 throw_frames __cxa_throw<thrower<around<catcher<main"
else
	grep -q 'libstdcxx:throw' "$SCRATCH/keys.err" || fail "exceptions: $(head -3 "$SCRATCH/keys.err")"
	echo "note: this libstdc++ has no probes"
fi

# As text, a stack has a line for each function, under each other.
printf '%s\n' 'web 10 left' | "$PROBECTL" trace -c -k comm -k ustack -o "$SCRATCH/text" nicknames:hit -- \
	"$TARGETS/nicknames" >"$SCRATCH/keys.out" || fail "as text: status $?"
same "as text" "$(head -4 "$SCRATCH/text")" 'PROBE                  HITS  comm   ustack
nicknames:hit            10  "web"  leaf
                                    left
                                    work'

# ---- Records --------------------------------------------------------------------------

printf '%s\n' 'web 100 left' 'db 20 right' | "$PROBECTL" record -q -o "$SCRATCH/record" -e 'nicknames:hit' \
	-- "$TARGETS/nicknames" >"$SCRATCH/keys.out" || fail "record: status $?"
same "a report by probe" "$("$PROBECTL" report --json -k probe "$SCRATCH/record" |
	jq -r 'select(.type == "key") | "\(.key) \(.value) \(.count)"')" "probe nicknames:hit 120"
same "an export by probe" "$("$PROBECTL" export -F folded --count -k probe "$SCRATCH/record" |
	grep -c 'nicknames:hit nicknames:hit 1[0-9]*$')" 1
for command in report 'export -F folded'; do
	# shellcheck disable=SC2086 # two words
	"$PROBECTL" $command -k ustack "$SCRATCH/record" >/dev/null 2>"$SCRATCH/err"
	same "status of $command -k ustack" "$?" 2
	same "what $command says" "$(cat "$SCRATCH/err")" "probectl: 'ustack' is a key only while \
a program runs: probectl trace -c -k ustack; probectl export -F folded --count shows stacks that were recorded"
done

# ---- In a process that goes on --------------------------------------------------------

start "$TARGETS/nicknames"
save_state "$target_pid"

# printed ARGS…: what `read` prints for the target
printed()
{
	"$PROBECTL" read --json -p "$target_pid" "$@" 2>"$SCRATCH/err" || fail "read $*: $(head -3 "$SCRATCH/err")"
}
"$PROBECTL" enable -q -p "$target_pid" -t count -k comm -k ustack nicknames:hit ||
	fail "enable: status $?"
ask 'gone 5 left'
ask 'gone 6 left'
same "a kept session" "$(printed -t count | jq -r '"\(.hits) \(.keys[0]) \(.keys[1][0:3] | join("<"))"')" \
	"11 gone $left"
"$PROBECTL" disable -q -p "$target_pid" nicknames:hit || fail "disable: status $?"

# Intervals add up.
trace_start intervals --json -i 0.2 -c -k comm -k ustack -p "$target_pid" nicknames:hit
wait_tracing intervals
for ((i = 0; i < 5; i++)); do
	ask 'turns 10 left'
	sleep 0.1
done
trace_stop intervals
same "intervals" "$(jq -s 'map(select(.interval and .keys[0] == "turns") | .hits) | add' "$SCRATCH/intervals.out")" 50
same_state "$target_pid"

# top: a row for each name beside the probe's own, and stacks in one line.
"$PROBECTL" top -k comm -k ustack -i 30 --top 0 nicknames:hit -- "$TARGETS/nicknames" \
	<<<$'web 9 left\ndb 4 right' >"$SCRATCH/lines" 2>"$SCRATCH/err" || fail "top: $(head -3 "$SCRATCH/err")"
for row in 'hit "web" leaf < left < work .* 9$' 'hit "db" leaf < right < work .* 4$'; do
	grep -q "$row" "$SCRATCH/lines" || fail "top lacks '$row': $(cat "$SCRATCH/lines")"
done

# ---- Errors ---------------------------------------------------------------------------

# refused MESSAGE ARGS…
refused()
{
	local message=$1
	shift
	"$PROBECTL" "$@" >/dev/null 2>"$SCRATCH/err"
	same "status of $*" "$?" 2
	same "message of $*" "$(head -1 "$SCRATCH/err")" "probectl: $message"
}
only='comm, ustack and probe are whole keys (-k), and no part of an expression'
refused "the key 'comm + 1', column 1: $only" trace -c -k 'comm + 1' -p "$target_pid" nicknames:hit
refused "the key 'comm + 1', column 1: $only" top -k 'comm + 1' -p "$target_pid" nicknames:hit
refused "nicknames:hit: the filter 'ustack', column 1: $only" trace -f ustack -p "$target_pid" nicknames:hit
refused "only one of the keys can be ustack" enable -t count -k ustack -k ustack -p "$target_pid" nicknames:hit
same_state "$target_pid"
end_target

# A stack keeps its name in later intervals, though generated code gets another one meanwhile.
start "$TARGETS/jit" file
trace_start renamed --json -i 0.2 -c -k ustack -p "$target_pid" jit:call
wait_tracing renamed
ask go
sleep 0.5
sed 's/[^ ]*$/renamed/' "/tmp/perf-$target_pid.map" >"$SCRATCH/map"
cat "$SCRATCH/map" >"/tmp/perf-$target_pid.map"
sleep 0.7
trace_stop renamed
same "what intervals add up to" "$(jq -s 'map(select(.interval and .keys) | .hits) | add' "$SCRATCH/renamed.out")" 10
end_target

# Where hits are shown one by one, nobody may have asked for a name in time. It is the right one, or
# there is none: never that of the process.
for how in trace record; do
	options=(--json -o "$SCRATCH/hits.json")
	[ $how = trace ] || options=(-o "$SCRATCH/named")
	for ((i = 0; i < 20; i++)); do
		echo "web$i 10 left"
	done | "$PROBECTL" $how -q "${options[@]}" nicknames:hit -- "$TARGETS/nicknames" >"$SCRATCH/out" ||
		fail "$how: status $?"
	[ $how = trace ] || "$PROBECTL" export -F json "$SCRATCH/named" >"$SCRATCH/hits.json"
	same "$how: all are there" "$(jq .ts "$SCRATCH/hits.json" | wc -l)" 200
	same "$how: names" "$(jq -s 'group_by(.tid) | map(map(.comm) | unique | length) | max' "$SCRATCH/hits.json")" 1
	same "$how: others" "$(jq -r '.comm // "web"' "$SCRATCH/hits.json" | grep -vc '^web')" 0
	"$PROBECTL" report --json - <"$SCRATCH/hits.json" >"$SCRATCH/report" || fail "$how: report"
	same "$how: others in a report" "$(grep -c '"comm":"nicknames"' "$SCRATCH/report")" 0
done
finish
