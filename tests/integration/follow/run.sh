#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run and trace -- PROGRAM: probes are enabled before any code that could pass them, the exit
# status is the program's, and children behave as usual.
. tests/integration/lib.sh
need jq

ctor=$TARGETS/ctor
plugin=$TARGETS/libctor_plugin.so
[ -x "$ctor" ] || skip "the test targets are not built"

# args_of FILE: "NAME(ARG)" of every hit, in order
args_of()
{
	jq -r 'select(.args) | "\(.name)(\(.args[0]))"' "$1" | paste -sd' '
}

# Constructors of the library (2) and of the program (1), then main's.
"$PROBECTL" trace --json -o "$SCRATCH/ctor.out" 'ctor:*' -- "$ctor" >"$SCRATCH/stdout" \
	2>"$SCRATCH/err" || fail "trace -- ctor: status $?: $(head -3 "$SCRATCH/err")"
same "constructors" "$(args_of "$SCRATCH/ctor.out")" "construct(2) construct(1) main(4) call(5)"
same "output" "$(cat "$SCRATCH/stdout")" "done 1"

# Those of the plugin, which is opened later, three times.
"$PROBECTL" trace --json -o "$SCRATCH/ctor.out" 'ctor:*' -- "$ctor" "$plugin" 3 >"$SCRATCH/stdout" \
	2>"$SCRATCH/err" || fail "trace -- ctor PLUGIN: status $?: $(head -3 "$SCRATCH/err")"
same "constructors of a plugin" "$(args_of "$SCRATCH/ctor.out")" "construct(2) construct(1) main(4) call(5) construct(3) plugin(6) construct(3) plugin(6) construct(3) plugin(6)"
same "output with a plugin" "$(cat "$SCRATCH/stdout")" "done 4"

# A probe that only the plugin has.
"$PROBECTL" trace --json -o "$SCRATCH/ctor.out" ctor:plugin -- "$ctor" "$plugin" >"$SCRATCH/stdout" \
	2>"$SCRATCH/err" || fail "trace ctor:plugin: status $?: $(head -3 "$SCRATCH/err")"
same "the plugin's own probe" "$(args_of "$SCRATCH/ctor.out")" "plugin(6)"

# run alone enables probes and leaves: OCaml's handlers then count.
if [ "$(uname -m)" = x86_64 ]; then
	same "run of toggles" "$(printf 'hit\nprint\nquit\n' |
		"$PROBECTL" run -e 'ocaml*:*' -- "$TARGETS/ocaml" 2>"$SCRATCH/err" | sed -n 's/ semaphores.*//; s/^hits //p')" \
		"10 10 17 10 0 0"
else
	echo "note: OCaml has its protocol on x86-64 alone: run of toggles is not tested"
fi

# Pairs, lists from a file, and what is left off, as with `enable`. semaphores_of prints demo:event's
# three semaphores, demo:other's and that of a probe that cannot be patched.
semaphores_of()
{
	printf 'print\nquit\n' | "$PROBECTL" run "$@" -- "$TARGETS/semaphores" 2>"$SCRATCH/err" |
		sed -n 's/^ready.*//; s/^[0-9]/&/p'
}
same "run --pair" "$(semaphores_of --pair demo:event,demo:other)" "1 1 1 1 0"
same "run --pair and a PROBE" "$(semaphores_of --pair demo:event,demo:other demo:other)" "1 1 1 2 0"
same "run --disable" "$(semaphores_of 'demo:*' --disable demo:other)" "1 1 1 0 0"
same "run --disable: what is off anyway" "$(semaphores_of demo:other --disable demo:event \
	--disable-pair demo:event,not:there)" "0 0 0 1 0"
same "run --disable: messages" "$(cat "$SCRATCH/err")" ""
same "run --disable alone" "$(semaphores_of --disable demo:event)" "0 0 0 0 0"
printf '# what is wanted\n\n  demo:event  \r\ndemo:other' >"$SCRATCH/list"
echo 'demo:event' >"$SCRATCH/less"
same "run @FILE" "$(semaphores_of "@$SCRATCH/list")" "1 1 1 1 0"
same "run -e @FILE" "$(semaphores_of -e "@$SCRATCH/list" --disable "@$SCRATCH/less")" "0 0 0 1 0"
same "run @FILE: a file that is not there" \
	"$("$PROBECTL" run "@$SCRATCH/gone" -- true 2>&1; echo $?)" "probectl: $SCRATCH/gone: No such file or directory
1"
printf 'demo:event\ndemo:other(arg0\n' >"$SCRATCH/wrong"
"$PROBECTL" run "@$SCRATCH/wrong" -- true 2>"$SCRATCH/err" && fail "a malformed list: status 0"
grep -qF "probectl: $SCRATCH/wrong:2: " "$SCRATCH/err" || fail "a malformed list: $(cat "$SCRATCH/err")"
same "run @" "$("$PROBECTL" run @ -- true 2>&1; echo $?)" "probectl: '@' needs the name of a file: @FILE
2"
same "a list without an end" "$("$PROBECTL" run @/dev/zero -- true 2>&1; echo $?)" \
	"probectl: /dev/zero:1: the line is no PROBE: it has a zero byte, or more than 8192 bytes
2"
# A library that is opened later has its probes enabled but for what is left off.
start "$PROBECTL" run 'ctor:*' --disable ctor:plugin -- "$python" -c "
import ctypes
ctypes.CDLL('$plugin')
print('ready', flush=True)
input()"
child=$(pgrep -P "$target_pid")
until [ "$("$PROBECTL" status -a --json -p "$child" 'ctor:*' | jq -r '"\(.name)=\(.refcount)"' | sort | paste -sd,)" = \
	construct=1,plugin=0 ]; do
	pause
done
tell bye
end_target

# Exit status: the program's own, of a signal, and of a program that cannot be started.
status_of()
{
	"$PROBECTL" "$@" >/dev/null 2>"$SCRATCH/err" </dev/null
	echo $?
}
for command in run trace; do
	same "$command: status 0" "$(status_of $command -e 'ctor:main' -- "$ctor")" 0
	same "$command: status 1" "$(status_of $command -e 'ctor:main' -- "$ctor" /no/plugin)" 1
	same "$command: not found" "$(status_of $command -e 'ctor:main' -- /no/such/program)" 127
	same "$command: not executable" "$(status_of $command -e 'ctor:main' -- /etc/passwd)" 126
	same "$command: a probe that is not there" "$(status_of $command -e 'ctor:nothing' --no-follow -- "$ctor" 2>&1)" \
		1
done
# A program that its loader cannot load.
head -c 4096 "$ctor" >"$SCRATCH/short"
chmod +x "$SCRATCH/short"
bare=$("$SCRATCH/short" >/dev/null 2>&1; echo $?) 2>/dev/null
for command in run trace; do
	same "$command: a program cut short" "$(status_of $command -e 'ctor:main' -- "$SCRATCH/short")" \
		"$bare"
done
same "wrong usage" "$(status_of trace)" 2
same "an unknown command" "$(status_of frobnicate)" 2

# A program for another machine is not a script: no shell gets it. (e_machine: AArch64, or x86-64.)
mkdir "$SCRATCH/bin"
cp "$ctor" "$SCRATCH/bin/other"
other=aarch64 number='\267'
if [ "$(uname -m)" = aarch64 ]; then
	other=x86-64 number='\76'
fi
printf "$number" | dd of="$SCRATCH/bin/other" bs=1 seek=18 conv=notrunc status=none
PATH=$PATH:$SCRATCH/bin
for program in "$SCRATCH/bin/other" other; do
	same "for another machine" "$(status_of trace -c ctor:main -- "$program")" 126
	same "for another machine: messages" "$(cat "$SCRATCH/err")" \
		"probectl: $program is a program for another machine ($other), which this one does not execute"
done
# A script without an interpreter in its first line is the shell's.
echo 'exit 5' >"$SCRATCH/bin/five.sh"
chmod +x "$SCRATCH/bin/five.sh"
same "a script" "$(status_of trace -c ctor:main -- five.sh)" 5

# A program killed by a signal.
cat >"$SCRATCH/die.sh" <<'SH'
exec "$1" -b </dev/null & wait $!
SH
"$PROBECTL" trace --count loop:nop -- "$TARGETS/loop" -s nop -n 100000000000 >/dev/null 2>"$SCRATCH/err" &
tracer=$!
until child=$(pgrep -P "$tracer" -x loop); do
	pause
done
kill -TERM "$child"
wait "$tracer"
same "a program that was terminated" "$?" 143

# Arguments, environment, standard files and the working folder are inherited.
if [ -x /usr/bin/python3.11 ]; then
	same "what is inherited" "$(cd "$SCRATCH" && echo input | A_B=c "$PROBECTL" run -e 'python:*' -- \
		/usr/bin/python3.11 -I -c 'import os, sys
print(sys.stdin.read() + os.environ["A_B"], sys.argv[1], os.getcwd())' 'two words' 2>&1)" "input
c two words $(cd "$SCRATCH" && pwd -P)"
fi

# If a trace ends just as the program does, the exit status is still the program's.
if [ -x /usr/bin/python3.11 ]; then
	for _ in {1..40}; do
		"$PROBECTL" trace -q -n 2 -o /dev/null python:function__return -- \
			/usr/bin/python3.11 -I -S -c 'raise SystemExit(7)' >"$SCRATCH/err" 2>&1
		same "the exit status of a short program" "$? $(cat "$SCRATCH/err")" "7 "
	done
fi

# Children: without --follow only the program is traced, with it all of them.
"$PROBECTL" trace --count --json -o "$SCRATCH/fork.out" --no-follow fork:hit -- "$TARGETS/fork" 3 500 \
	</dev/null >"$SCRATCH/stdout" 2>"$SCRATCH/err" || fail "fork: status $?: $(head -3 "$SCRATCH/err")"
same "children do as they would" "$(grep parent "$SCRATCH/stdout")" "parent 1500 children 3500"
same "hits of the parent alone" "$(jq -s 'map(.hits // 0) | add // 0' "$SCRATCH/fork.out")" 1500
"$PROBECTL" trace --json -o "$SCRATCH/fork.out" --follow fork:hit -- "$TARGETS/fork" 3 500 \
	</dev/null >"$SCRATCH/stdout" 2>"$SCRATCH/err" || fail "fork --follow: status $?: $(head -3 "$SCRATCH/err")"
same "followed children do as they would" "$(grep parent "$SCRATCH/stdout")" "parent 1500 children 3500"
same "hits of forked children" "$(jq -s '[.[] | select(.args and .args[0] < 3)] | length' "$SCRATCH/fork.out")" 4500
finish
