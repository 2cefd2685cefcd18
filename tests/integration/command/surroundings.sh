#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
# What a parent leaves behind: closed streams, ignored signals, few descriptors, a strict umask,
# no environment. The figures are the same, or a message says why not.
. tests/integration/lib.sh
need_attach
need jq

ctor=$TARGETS/ctor
[ -x "$ctor" ] || skip "the test targets are not built"

# without STREAMS COMMAND…: with those of 0, 1 and 2 closed; output goes to $SCRATCH/out and err
without()
{
	local streams=$1
	shift
	(
		exec </dev/null >"$SCRATCH/out" 2>"$SCRATCH/err"
		[[ $streams != *0* ]] || exec <&-
		[[ $streams != *1* ]] || exec >&-
		[[ $streams != *2* ]] || exec 2>&-
		exec timeout -k 5 60 "$@"
	)
}

# ---- Too few descriptors for a reader --------------------------------------------------------

"$PROBECTL" record -q -o "$SCRATCH/record" 'ctor:*' -- "$ctor" >"$SCRATCH/out" || fail "no record"
for ((limit = 4; limit < 12; limit++)); do
	(ulimit -n "$limit" && exec "$PROBECTL" report "$SCRATCH/record") >"$SCRATCH/out" 2>"$SCRATCH/err"
	[ "$?" = 0 ] || grep -q 'Too many open files' "$SCRATCH/err" ||
		fail "report with $limit descriptors: $(cat "$SCRATCH/err")"
done

# ---- Streams that are closed --------------------------------------------------------------

# Warnings are dropped: they must not go into the first file that is opened.
for streams in 0 1 2 01 02 12 012; do
	what="without $streams"
	rm -rf "$SCRATCH/record" "$SCRATCH/hits" "$SCRATCH/page"
	without $streams "$PROBECTL" trace --json -o "$SCRATCH/hits" 'ctor:*' 'no:such' -- "$ctor"
	same "$what: trace" "$?" 0
	same "$what: hits" "$(jq -r .name "$SCRATCH/hits" | paste -sd' ')" "construct construct main call"
	without $streams "$PROBECTL" run 'ctor:main' 'no:such' -- "$ctor"
	same "$what: run" "$?" 0
	"$PROBECTL" record -q -o "$SCRATCH/record" 'ctor:*' -- "$ctor" >"$SCRATCH/out" || fail "no record"
	without $streams "$PROBECTL" report --html "$SCRATCH/page" "$SCRATCH/record"
	same "$what: report" "$?" 0
	same "$what: the page" "$(head -c 15 "$SCRATCH/page")" '<!DOCTYPE html>'
	# shellcheck disable=SC2016 # expanded by that shell
	without $streams "$PROBECTL" run no:such -- sh -c 'for i in 0 1 2; do
		[ -e /proc/$$/fd/$i ] || closed=$closed$i
	done; echo "$closed" >"$1"' sh "$SCRATCH/closed"
	same "$what: what the program finds closed" "$(cat "$SCRATCH/closed")" $streams
done
for command in "trace -q ctor:* -- $ctor" "top ctor:* -- $ctor" "list $ctor" "export --format=csv $SCRATCH/record" \
	"report $SCRATCH/record"; do
	# shellcheck disable=SC2086 # a list of words
	without 1 "$PROBECTL" $command
	same "without output: $command" "$?" 1
	grep -q 'Bad file descriptor' "$SCRATCH/err" || fail "without output: $command: $(cat "$SCRATCH/err")"
done

# ---- Signals that are ignored --------------------------------------------------------------

# Children of a process that ignores SIGCHLD leave no status.
for signals in CHLD PIPE,CHLD,INT,HUP,TERM,QUIT; do
	for command in "run --no-follow" run "trace -q" "top -i 1"; do
		for ((i = 0; i < 4; i++)); do
			# shellcheck disable=SC2086 # a list of words
			env --ignore-signal=$signals "$PROBECTL" $command 'ctor:main' -- "$ctor" \
				>"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
			same "$command, $signals ignored" "$?" 0
		done
	done
	env --ignore-signal=$signals "$PROBECTL" report "$SCRATCH/record" >"$SCRATCH/out" ||
		fail "report, $signals ignored: status $?"
done

# ---- Few descriptors -----------------------------------------------------------------------

# Some of 25 processes are not traced, which is reported; nothing is left in any of them.
start "$TARGETS/herd" 25 10
mapfile -t kids < <(pgrep -P "$target_pid")
maps=()
for kid in "${kids[@]}"; do
	maps+=("/proc/$kid/maps")
done
for limit in 40 64 75 90 100 110; do
	for command in "trace -c" "record -o $SCRATCH/herd" "top -i 1"; do
		rm -rf "$SCRATCH/herd"
		# shellcheck disable=SC2086 # a list of words
		(ulimit -n $limit && exec "$PROBECTL" $command -d 0.1 --children "$target_pid" herd:hit) \
			>"$SCRATCH/out" 2>"$SCRATCH/err"
		[ $? -le 1 ] || fail "$limit descriptors, $command: $(cat "$SCRATCH/err")"
		grep -q 'ulimit -n.*: Too many open files' "$SCRATCH/err" ||
			fail "$limit descriptors, $command: not said: $(cat "$SCRATCH/err")"
		! grep -vE 'ulimit -n|Ctrl-C ends|none of the|hits recorded' "$SCRATCH/err" ||
			fail "$limit descriptors, $command: something else is said"
		! grep -l memfd:probectl "${maps[@]}" || fail "$limit, $command: something is left"
	done
done
for limit in 8 10 12; do
	(ulimit -n $limit && exec "$PROBECTL" enable -p "${kids[0]}" herd:hit) 2>"$SCRATCH/err"
	same "enable with $limit descriptors" "$?" 1
	grep -q 'Too many open files' "$SCRATCH/err" || fail "enable: $(cat "$SCRATCH/err")"
	! grep memfd:probectl "${maps[0]}" || fail "enable with $limit descriptors left something"
done
ask go
tell bye
end_target 0

# ---- Modes, and an environment of nothing -----------------------------------------------------

# modes UMASK: all new files and folders are for their user alone, whatever the umask allows
modes()
{
	(
		umask "$1"
		rm -rf "$SCRATCH/made"
		mkdir "$SCRATCH/made"
		cd "$SCRATCH/made" || exit
		"$PROBECTL" record -q -o record 'ctor:*' -- "$ctor" >"$SCRATCH/out" &&
			"$PROBECTL" report --html page record &&
			"$PROBECTL" export --format=csv -o csv record &&
			"$PROBECTL" trace -q -o hits 'ctor:*' -- "$ctor" >"$SCRATCH/out"
		find . -mindepth 1 -printf '%y%m\n' | sort -u | paste -sd' '
	)
}
for mask in 000 027 077; do
	same "modes, umask $mask" "$(modes $mask)" "d700 f600"
done
env -i "$PROBECTL" trace --json -o "$SCRATCH/hits" 'ctor:main' -- "$ctor" >"$SCRATCH/out" 2>"$SCRATCH/err"
same "without an environment" "$(jq -r .name "$SCRATCH/hits")" main
finish
