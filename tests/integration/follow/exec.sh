#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# Processes that execute another program: programs started through libc are traced from their
# first hit, others from the moment probectl notices, which it reports.
. tests/integration/lib.sh
need jq

loop=$TARGETS/loop
launch=$TARGETS/launch
[ -x "$launch" ] || skip "the test targets are not built"

# launched WAY ARGS…: every hit is counted, and no message appears
launched()
{
	local way=$1
	shift
	"$PROBECTL" trace --count --json -o "$SCRATCH/out" "$@" loop:nop -- \
		"$launch" "$way" "$program" -s nop -n 1000 >"$SCRATCH/stdout" 2>"$SCRATCH/err"
	same "$way: status" "$?" 0
	same "$way: the program" "$(cut -d' ' -f1 "$SCRATCH/stdout")" 1000
	same "$way: messages" "$(cat "$SCRATCH/err")" ""
	same "$way: hits" "$(hits_of "$SCRATCH/out")" 1000
}

program=$loop
for way in exec thread late fork vfork spawn; do
	launched $way
done
PATH=/nonexistent:$SCRATCH:$TARGETS:$PATH program=loop launched path

# A script, executed by its interpreter; and a shell that starts several programs.
printf '#!%s exec\n' "$launch" >"$SCRATCH/script"
chmod 755 "$SCRATCH/script"
printf '#!/bin/sh\n"$@"; "$@" & wait; exec "$@"\n' >"$SCRATCH/thrice"
chmod 755 "$SCRATCH/thrice"
"$PROBECTL" trace --json -o "$SCRATCH/out" loop:nop -- "$SCRATCH/thrice" "$loop" -s nop -n 100 \
	>"$SCRATCH/stdout" 2>"$SCRATCH/err" || fail "a shell: status $?: $(head -3 "$SCRATCH/err")"
same "hits of three programs" "$(grep -c '"args"' "$SCRATCH/out")" 300
same "their pids" "$(jq -r 'select(.args).pid' "$SCRATCH/out" | sort -u | wc -l)" 3
same "each hit has the thread's own" "$(jq -r 'select(.args and .pid != .tid) | .pid' "$SCRATCH/out")" ""
[ "$(jq -r 'select(.args).ts' "$SCRATCH/out")" = "$(jq -r 'select(.args).ts' "$SCRATCH/out" | sort -n)" ] ||
	fail "hits of several programs are out of order"

# The exit status is the last program's.
for status in 0 3; do
	"$PROBECTL" trace -q loop:nop -- "$launch" exec /bin/sh -c "exit $status" >/dev/null 2>"$SCRATCH/err"
	same "the status of what was started" "$?" "$status"
done
"$PROBECTL" trace -q loop:nop -- "$launch" exec /bin/sh -c 'kill -TERM $$' >/dev/null 2>"$SCRATCH/err"
same "the signal of what was started" "$?" 143
"$PROBECTL" trace -q loop:nop -- "$launch" exec /nonexistent >/dev/null 2>"$SCRATCH/err"
same "what does not exist" "$?" 127

# With --no-follow, children's programs are not traced, but the process's own next program is.
"$PROBECTL" trace --count --json --no-follow -o "$SCRATCH/out" 'libc:*' -- \
	"$launch" fork "$loop" -s nop -n 1000 >"$SCRATCH/stdout" 2>"$SCRATCH/err"
same "--no-follow: hits of a child" "$(jq -r 'select(.name == "nop")' "$SCRATCH/out")" ""

# ---- What is noticed later --------------------------------------------------------

# noticed NAME LAUNCH WAY OPTIONS…: the process executes `world`, which is traced from then on
noticed()
{
	local name=$1 program=$2 way=$3
	shift 3
	start "$program" "$way" "$TARGETS/world"
	trace_start "$name" --json "$@" -p "$target_pid" '/^(launch:go|world:hit)$/'
	wait_tracing "$name"
	ask go
	wait_on "$target_pid" world:hit
	ask "hit 5"
	trace_stop "$name"
	same "$name: hits of what it was" "$(grep -c '"name":"go"' "$SCRATCH/$name.out")" 1
	same "$name: hits" "$(grep -c '"args":\[.,1\]' "$SCRATCH/$name.out")" 5
	check_alive "$target_pid"
	! grep -q memfd:probectl "/proc/$target_pid/maps" || fail "$name: something is left"
	ask "hit 5"
	same "$name: the target" "$answer" "hits 5"
	tell quit
	end_target 0
}
need_attach
missed='has become another program; hits of its first .* ms are not reported'
for program in launch launch_static; do
	noticed $program "$TARGETS/$program" wait --follow
	! grep -q 'not reported' "$SCRATCH/$program.err" ||
		fail "$program: said to have missed hits: $(cat "$SCRATCH/$program.err")"
done
noticed raw "$launch" raw --follow
grep -q "$missed" "$SCRATCH/raw.err" || fail "what was missed is not said: $(cat "$SCRATCH/raw.err")"
noticed alone "$launch" wait
grep -q "$missed" "$SCRATCH/alone.err" ||
	fail "what was missed is not said: $(cat "$SCRATCH/alone.err")"

# Children that are there when the trace begins, and then become another program: what they hit before
# took no longer than they have been there.
begun=$SECONDS
start sh -c 'echo ready; while :; do (sleep 0.2; exec "$0" 20 2000) & (sleep 0.3; exec "$0" 20 2000) & wait; done' "$TARGETS/comer"
for ((i = 0; i < 5; i++)); do
	"$PROBECTL" trace -c -d 0.7 --follow -p "$target_pid" comer:hit >/dev/null 2>>"$SCRATCH/young.err"
done
longest=$(sed -n "s/.*hits of its first \([0-9]*\) ms .*/\1/p" "$SCRATCH/young.err" | sort -n | tail -1)
[ "${longest:-0}" -le $(((SECONDS - begun + 1) * 1000)) ] || fail "a child of some seconds: its first $longest ms"
end_process "$target_pid"

# ---- run ------------------------------------------------------------------------------

# ran WAY WANTED OPTIONS…: whether world:hit is enabled in what `launch WAY` starts
ran()
{
	local way=$1 wanted=$2 pid
	shift 2
	start "$PROBECTL" run -e '/^(launch:go|world:hit)$/' "$@" -- "$launch" "$way" "$TARGETS/world"
	[ "$way" != raw ] || ask go
	pid=${answer#ready }
	while :; do
		[ "$("$PROBECTL" status --json -p "$pid" 2>/dev/null | jq .enabled)" != "$wanted" ] || break
		[ "$way" = raw ] || break
		pause
	done
	same "run $way $*: enabled" "$("$PROBECTL" status --json -p "$pid" 2>/dev/null | jq .enabled)" "$wanted"
	ask "hit 5"
	[ -z "$wanted" ] ||
		same "run $way: counted" "$("$PROBECTL" status --json -p "$pid" 2>/dev/null | jq .hits)" 5
	tell quit
	[ "$way" != raw ] || grep -q 'has become another program; its probes were off' "$SCRATCH/target.err" ||
		fail "run raw: nothing is said"
	[ "$way" != raw ] || : >"$SCRATCH/target.err"
	end_target 0
}
ran exec true
ran spawn true
ran fork true
ran raw true
ran exec "" --no-follow
ran spawn "" --no-follow

# ---- What must not change -----------------------------------------------------------

# Under a tracer without privileges the kernel would ignore the file's set-user-id bit.
if [ "$(id -u)" = 0 ]; then
	cp "$TARGETS/whoami" "$SCRATCH/other"
	chown daemon "$SCRATCH/other"
	chmod 4755 "$SCRATCH" "$SCRATCH/other"
	chmod 755 "$SCRATCH"
	wanted=$(id -u daemon)
	drop="setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=-all"
	# shellcheck disable=SC2086 # a command prefix of several words
	if [ "$($drop "$launch" exec "$SCRATCH/other")" != "$wanted" ]; then
		echo "note: $SCRATCH is mounted nosuid: files that change the user are not tested"
	else
		for way in exec spawn other; do
			# shellcheck disable=SC2086
			same "$way: who a setuid program is" "$($drop "$PROBECTL" trace -q loop:nop -- \
				"$launch" $way "$SCRATCH/other" 2>"$SCRATCH/err")" "$wanted"
			same "$way: root traces it" "$("$PROBECTL" trace -q loop:nop -- \
				"$launch" $way "$SCRATCH/other" 2>"$SCRATCH/err")" "$wanted"
		done
	fi
fi

# A controller that is killed while programs start: all of them run.
for ((i = 0; i < 6; i++)); do
	: >"$SCRATCH/stdout"
	"$PROBECTL" trace -q --count -o /dev/null loop:nop -- /bin/sh -c 'for i in 1 2 3 4 5 6 7 8 9; do "$@"; done
		echo finished' sh "$launch" spawn "$loop" -n 10 >"$SCRATCH/stdout" 2>"$SCRATCH/err" &
	tracer=$!
	sleep "0.$((i * 2))3"
	kill -STOP $tracer 2>/dev/null
	child=$(pgrep -P $tracer)
	kill -KILL $tracer 2>/dev/null
	wait $tracer 2>/dev/null
	# If it is killed before it releases the program, the program dies with it.
	while :; do
		case $(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/${child:-none}/status" 2>/dev/null) in
		'' | Z | X) break ;;
		esac
		pause
	done
	lines=$(grep -vc finished "$SCRATCH/stdout")
	[ "$lines" = 0 ] || [ "$lines" = 9 ] ||
		fail "killed: only $lines programs ran"
done

# Programs that have ended leave nothing behind in their tracer.
mkfifo "$SCRATCH/more"
"$PROBECTL" trace -q -o /dev/null 'loop:*' -- /bin/bash -c 'for ((i = 0; i < 40; i++)); do
	/bin/true; done; echo ran; read -r more' <"$SCRATCH/more" >"$SCRATCH/stdout" 2>"$SCRATCH/err" &
tracer=$!
on_exit "end_process $tracer"
exec {more}>"$SCRATCH/more"
until grep -q ran "$SCRATCH/stdout" && [ "$(readlink "/proc/$tracer/fd"/* | grep -c '/mem$')" -le 5 ]; do
	pause
done
exec {more}>&-
wait $tracer

# ---- Attribution of hits, even of threads and processes that are gone ----------------------

"$PROBECTL" trace -q --json -o "$SCRATCH/out" 'pairs:*' -- "$TARGETS/pairs" 4 500 \
	</dev/null >"$SCRATCH/stdout" || fail "pairs failed"
pid=$(sed -n '1s/ready //p' "$SCRATCH/stdout")
same "pids of threads" "$(jq -r 'select(.args) | .pid' "$SCRATCH/out" | sort -u)" "$pid"
same "names of threads that were there to be asked" "$(jq -r 'select(.args) | .comm // "pairs"' "$SCRATCH/out" | sort -u)" pairs
[ "$(jq -r 'select(.args) | .tid' "$SCRATCH/out" | sort -u | wc -l)" = 5 ] || fail "there are not five threads"

"$PROBECTL" trace -q --json -o "$SCRATCH/out" fork:hit -- "$TARGETS/fork" 3 50 \
	</dev/null >"$SCRATCH/stdout" || fail "fork failed"
pid=$(sed -n '1s/ready //p' "$SCRATCH/stdout")
same "the parent's" "$(jq -r 'select(.args and .args[0] == 0) | .pid' "$SCRATCH/out" | sort -u)" "$pid"
same "none of the children's is its" \
	"$(jq -r "select(.args and .args[0] != 0 and .pid == $pid) | .pid" "$SCRATCH/out")" ""
finish
