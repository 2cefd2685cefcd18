#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# Programs without a probe that is wanted are passed over: when one starts again, it is held
# before its loader runs. Whatever it opens or starts is traced all the same.
. tests/integration/lib.sh
need jq

loop=$TARGETS/loop
launch=$TARGETS/launch
[ -x "$launch" ] || skip "the test targets are not built"

# traced WANTED SCRIPT PATTERN OPTIONS…: so many hits in what a shell runs, without a word
traced()
{
	local wanted=$1 script=$2 pattern=$3
	shift 3
	"$PROBECTL" trace --count --json -o "$SCRATCH/out" "$@" "$pattern" -- \
		/bin/sh -c "$script; exit 7" >"$SCRATCH/stdout" 2>"$SCRATCH/err"
	same "$script: status" "$?" 7
	same "$script: messages" "$(cat "$SCRATCH/err")" ""
	same "$script: hits" "$(hits_of "$SCRATCH/out")" "$wanted"
}

# What it starts: by each way to do so, from a shell that was passed over.
for way in exec thread late fork vfork spawn; do
	again="/bin/sh -c '$launch $way $loop -s nop -n 100; exit 0'"
	traced 300 "$again; $again; $again" loop:nop
done
traced 400 "/bin/sh -c 'true | $loop -s nop -n 100 | $loop -s nop -n 100';
/bin/sh -c 'true | $loop -s nop -n 100 | $loop -s nop -n 100'" loop:nop

# What it opens: with LD_PRELOAD, its constructor included; by dlopen(3).
traced 1 "/bin/true; /bin/true; LD_PRELOAD=$TARGETS/libctor.so /bin/true; /bin/true" ctor:construct
traced 3 "$TARGETS/ctor $TARGETS/libctor_plugin.so; $TARGETS/ctor $TARGETS/libctor_plugin.so;
$TARGETS/ctor $TARGETS/libctor_plugin.so" ctor:plugin
traced 2 "$TARGETS/ctor; $TARGETS/ctor" ctor:main

# With several tracers.
"$PROBECTL" trace -t count -t hist --json -o "$SCRATCH/out" 'ctor:plugin(arg0)' -- /bin/sh -c \
	"$TARGETS/ctor $TARGETS/libctor_plugin.so; $TARGETS/ctor $TARGETS/libctor_plugin.so" \
	>"$SCRATCH/stdout" 2>"$SCRATCH/err" || fail "two tracers: $(cat "$SCRATCH/err")"
same "two tracers: messages" "$(cat "$SCRATCH/err")" ""
same "two tracers: hits" "$(hits_of "$SCRATCH/out")" 2

# Exit statuses.
traced 0 "/bin/sh -c 'kill -TERM \$\$'; /bin/sh -c 'kill -TERM \$\$'; [ \$? = 143 ] || exit 1" loop:nop
traced 0 "/bin/sh -c 'exit 5'; /bin/sh -c 'exit 5'; [ \$? = 5 ] || exit 1" loop:nop
