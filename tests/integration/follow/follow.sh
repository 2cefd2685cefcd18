#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
#
# Following blocks no program: however many start at once, and however they or probectl end, all
# of them end as they would have. FOLLOW_ROUNDS=1000 runs each part that many times.
. tests/integration/lib.sh
need jq timeout pgrep

rounds=${FOLLOW_ROUNDS:-8}
brood=$TARGETS/brood
loop=$TARGETS/loop
[ -x "$brood" ] || skip "the test targets are not built"

# This does not depend on time: what hangs, hangs forever.
bounded()
{
	timeout -s KILL "$TEST_SECONDS" "$@"
}

# same_end NAME PROGRAM…: it ends with its own status and output under each command
same_end()
{
	local name=$1 wanted status command
	shift
	"$@" >"$SCRATCH/wanted" 2>&1
	wanted=$?
	for command in "trace -q -c -o /dev/null" "run -e" "record -q -o $SCRATCH/record"; do
		rm -rf "$SCRATCH/record"
		# shellcheck disable=SC2086 # a command of several words
		bounded "$PROBECTL" $command loop:nop -- "$@" >"$SCRATCH/stdout" 2>"$SCRATCH/err"
		status=$?
		same "$name: ${command%% *}: status" "$status" "$wanted"
		same "$name: ${command%% *}: output" "$(cat "$SCRATCH/stdout")" "$(cat "$SCRATCH/wanted")"
		same "$name: ${command%% *}: messages" \
			"$(grep -v 'matched no probe\|recorded in' "$SCRATCH/err")" ""
	done
}

# ---- Children that a signal ends ------------------------------------------------------

# shellcheck disable=SC2016 # the inner shell's
same_end "children ended by signals" sh -c 'for i in 1 2; do sh -c "kill -PIPE \$\$"; done; exit 4'

# ---- Several programs at once ---------------------------------------------------------

for ((i = 0; i < rounds; i++)); do
	bounded "$PROBECTL" trace -q -c x:y -- sh -c '/bin/true & /bin/true; wait' \
		>"$SCRATCH/stdout" 2>"$SCRATCH/err"
	same "two children at once, round $i" "$?" 0
	[ "$failures" = 0 ] || break
done
# shellcheck disable=SC2016 # the programs' own variables
{
	same_end pipeline sh -c 'seq 100 | sort -rn | head -3; seq 5 | grep -c . | cat'
	same_end failing sh -c 'true | sh -c "exit 7"; echo $?; (sleep 0; exit 3) & wait $!; echo $?; exit 5'
	same_end signal sh -c 'sh -c "kill -KILL \$\$" 2>&-; echo $?'
}

# brooded WAY THREADS: each of its programs is traced from its first hit
brooded()
{
	local way=$1 threads=$2
	bounded "$PROBECTL" trace --count --json -o "$SCRATCH/out" loop:nop -- \
		"$brood" "$way" "$threads" "$rounds" "$loop" -s nop -n 10 >"$SCRATCH/stdout" 2>"$SCRATCH/err"
	same "$way in $threads threads: status" "$?" 0
	same "$way in $threads threads: programs" "$(tail -1 "$SCRATCH/stdout")" \
		"$((threads * rounds)) ended, 0 wrong"
	same "$way in $threads threads: messages" "$(cat "$SCRATCH/err")" ""
	same "$way in $threads threads: hits" \
		"$(hits_of "$SCRATCH/out")" $((threads * rounds * 10))
}
brooded spawn 1
brooded vfork 3
brooded fork 3
brooded mixed 6

# ---- Children that are killed -----------------------------------------------------------

# If a tracer does not reap them, nobody does.
for command in trace "trace --count" run; do
	option=
	[ "$command" != run ] || option=-e
	# shellcheck disable=SC2086 # a command of several words
	bounded "$PROBECTL" $command $option loop:nop -- \
		"$brood" kill 3 "$rounds" "$loop" -s nop -n 1000000000 >"$SCRATCH/stdout" 2>"$SCRATCH/err"
	same "$command: killed children: status" "$?" 0
	grep -q "^$((3 * rounds)) ended, 0 wrong" "$SCRATCH/stdout" ||
		fail "$command: killed children: $(tail -1 "$SCRATCH/stdout" | cut -c1-200)"
done

# ---- Libraries that are opened beside a vfork --------------------------------------------

bounded "$PROBECTL" trace -q -c -o /dev/null 'ctor:*' -- "$brood" open 2 "$rounds" \
	"$TARGETS/libctor_plugin.so" "$loop" -n 1 >"$SCRATCH/stdout" 2>"$SCRATCH/err"
same "libraries beside vfork: status" "$?" 0
same "libraries beside vfork" "$(tail -1 "$SCRATCH/stdout")" "$((3 * rounds)) ended, 0 wrong"

# ---- Libraries that a forked child opens by itself ------------------------------------------

# Where each nop is as long as a jump, both sites of late:part are traced.
part=1
[ "$(uname -m)" = x86_64 ] || part=2
# child_opens WHAT HITS COMMAND…: each site is hit as often, in the children and the process
child_opens()
{
	local what=$1 hits=$2
	shift 2
	bounded "$PROBECTL" "$@" "$TARGETS/liblate.so" "$what" >"$SCRATCH/stdout" 2>"$SCRATCH/err"
	same "$1, $what: status" "$?" 0
	[ "$1" = trace ] || "$PROBECTL" report "$SCRATCH/record.child" >"$SCRATCH/stdout" 2>"$SCRATCH/null"
	same "$1, $what: hits" "$(awk '/^ *late:/ {print $1, $2}' "$SCRATCH/stdout" | sort)" \
		"late:none $hits
late:part $((hits * part))
late:whole $hits"
}
child_opens fork 200 trace -c 'late:*' -- "$TARGETS/late"
child_opens fork 200 record -o "$SCRATCH/record.child" 'late:*' -- "$TARGETS/late"
child_opens both 300 trace -c 'late:*' -- "$TARGETS/late"
# A site that is refused in several processes is named once.
same "refused sites of children" "$(bounded "$PROBECTL" trace -v -c 'late:*' -- "$TARGETS/late" \
	"$TARGETS/liblate.so" fork 2>&1 >"$SCRATCH/null" | grep -c 'refused late:part at')" "$((2 - part))"

# stacks STATUS COMMAND…: addresses there have no names; what is not traced is named once
stacks()
{
	local wanted=$1
	shift
	bounded "$PROBECTL" "$@" "$TARGETS/liblate.so" fork >"$SCRATCH/stdout" 2>"$SCRATCH/err"
	same "$*, stacks of children: status" "$?" "$wanted"
	same "$*, stacks of children: sites named" "$(grep 'refused late:.*a forked child has opened it' "$SCRATCH/err" |
		sed 's/.*refused \(late:[a-z]*\) at [0-9a-fx]*\(.*\) in .*/\1\2/' | sort)" \
		"late:none
late:part and 1 more site
late:whole"
}
stacks 1 trace -t stack 'late:*' -- "$TARGETS/late"
stacks 0 trace -t stack --keep-going 'late:*' -- "$TARGETS/late"

# ---- A build -------------------------------------------------------------------------------

if command -v make >/dev/null && command -v cc >/dev/null; then
	mkdir "$SCRATCH/build"
	for ((i = 0; i < 12; i++)); do
		echo "int f$i(void) { return $i; }" >"$SCRATCH/build/f$i.c"
	done
	printf 'all: %s\n\t@cat $^ | wc -c | sed s/.*/built/\nf%%.o: f%%.c\n\t@cc -c -o $@ $<\n' \
		"$(printf 'f%d.o ' {0..11})" >"$SCRATCH/build/Makefile"
	bounded "$PROBECTL" trace -q -c -o /dev/null x:y -- make -s -C "$SCRATCH/build" -j4 \
		>"$SCRATCH/stdout" 2>"$SCRATCH/err"
	same "a build: status" "$?" 0
	same "a build" "$(cat "$SCRATCH/stdout")" built
fi

# ---- A controller that ends, or stands still, at any moment ----------------------------------

# Its program continues, and so does everything that it starts.
for ((i = 0; i < rounds; i++)); do
	: >"$SCRATCH/stdout"
	"$PROBECTL" trace -q -c -o /dev/null x:y -- "$brood" mixed 3 30 /bin/true \
		>"$SCRATCH/stdout" 2>"$SCRATCH/err" &
	controller=$!
	# Before, during and after the first programs.
	sleep "0.0$((RANDOM % 10))$((RANDOM % 10))"
	program=$(pgrep -P $controller -x brood)
	end_process $controller
	[ -n "$program" ] || continue
	until grep -q ended "$SCRATCH/stdout"; do
		pause
	done
	same "a controller that was killed: round $i" "$(cat "$SCRATCH/stdout")" "90 ended, 0 wrong"
	[ "$failures" = 0 ] || break
done
finish
