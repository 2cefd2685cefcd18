#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Call stacks on aarch64: a known tree of calls, with and without frame pointers and with signed
# return addresses; a handler; a key.
. tests/integration/lib.sh
. tests/aarch64/lib.sh

# stacks NAME TARGET ARGS…: the folded stacks of a run from main on, in $SCRATCH/NAME
stacks()
{
	local name=$1 target=$2
	shift 2
	printf '\n\n' | "$PROBECTL" trace -o "$SCRATCH/raw" "$@" -- "$TARGETS/$target" 5 \
		>"$SCRATCH/stdout" 2>"$SCRATCH/err" || fail "$name: $(cat "$SCRATCH/err")"
	sed -n 's/^stacks.*;main;/main;/p' "$SCRATCH/raw" >"$SCRATCH/$name"
}

calls="main;calls;left;leaf;stacks:call 5
main;calls;right;middle;leaf;stacks:call 10"
for target in stacks stacks_frames stacks_signed; do
	stacks copies "$target" -t stack,folded stacks:call stacks:signal
	same "$target" "$(grep calls "$SCRATCH/copies")" "$calls"
	same "$target: a signal" "$(grep -o 'main;interrupted;.vdso..*;on_illegal;on_signal' "$SCRATCH/copies" |
		sed 's/+0x[0-9a-f]*//')" "main;interrupted;[vdso];on_illegal;on_signal"
done
stacks frames stacks_frames -t stack,folded,frames stacks:call
same "frame pointers" "$(cat "$SCRATCH/frames")" "${calls//;stacks:call}"

# The innermost return address is in x30, or signed on the stack.
stacks key stacks_signed --json -c -k ustack stacks:call
same "a key" "$(jq -c 'select(.keys) | [.hits, .keys[0][:2]]' "$SCRATCH/raw" | sort)" \
	'[10,["leaf","middle"]]
[5,["leaf","left"]]'
finish
