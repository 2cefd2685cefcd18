#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Functions with the entries and exits that compilers write: each call is counted once, whatever the
# first and last instructions are, with its arguments and what it returns. A function of which this
# is unknown is refused with a reason.
. tests/integration/lib.sh
need_attach
need jq

# Those of which all calls, all ends, and pairs of these can be known.
entries=(only_tail) exits=(only_tail loops) pairs=(only_tail)
# Those whose entry has all arguments, and those that return a number.
plain=(only_tail) ends=(only_tail loops)
declare -A reasons=([loops]="a jump of its own leads to its first instruction")
if [ "$(uname -m)" = aarch64 ]; then
	common=(landing sign_a sign_b frame by_adr by_adrp by_literal by_vector by_tbz by_condition
		by_call first_cbz first_adr)
	others=(empty zero system_call ten floating)
	entries+=("${common[@]}" "${others[@]}" overwrites tail far_tail leaves)
	exits+=("${common[@]}" "${others[@]}" overwrites tail)
	plain+=("${common[@]}" tail far_tail leaves)
	ends+=("${common[@]}" overwrites tail)
	pairs+=(empty zero sign_b tail by_call)
	reasons+=([chooses]="may jump to the bytes after"
		[far_tail:return]="one of its jumps may lead to any function")
fi
if [ "$(uname -m)" = x86_64 ]; then
	short=(getter adds swaps calls)
	entries+=("${short[@]}" far_jump near_jump)
	exits+=("${short[@]}" far_jump near_jump)
	plain+=("${short[@]}" far_jump near_jump)
	ends+=("${short[@]}")
	pairs+=("${short[@]}" far_jump near_jump)
fi
calls=30

# run NAME ARGS…: traces the calls
run()
{
	trace_start "$1" --json -p "$target_pid" "${@:2}"
	wait_tracing "$1"
	ask $calls
	same "the program" "$answer" "passed $calls wrong 0"
	trace_stop "$1"
}
# of NAME PROBE: the arguments of its hits
of()
{
	jq -c "select(.name == \"$2\") | .args" "$SCRATCH/$1.out"
}
# counts NAME, expect HITS PROBE…
counts()
{
	jq -r 'select(.hits) | "\(.name) \(.hits)"' "$SCRATCH/$1.out" | sort
}
expect()
{
	printf "%s $1\n" "${@:2}" | sort
}
# any NAME…: a pattern for all of them
any()
{
	(IFS='|' && echo "fn:shapes:/^($*)\$/")
}
# each TEXT: what it is of each call
each()
{
	for ((i = 0; i < calls; i++)); do
		eval "echo \"$1\""
	done
}

start "$TARGETS/shapes"
save_state "$target_pid"
for name in "${!reasons[@]}"; do
	"$PROBECTL" trace -c -n 1 -d 1 -p "$target_pid" "fn:shapes:$name" >"$SCRATCH/out" \
		2>"$SCRATCH/refused.err" && fail "$name is not refused"
	says refused "${reasons[$name]}"
done

run counts -c "$(any "${entries[@]}")" "$(any "${exits[@]}"):return"
same "calls and ends" "$(counts counts)" "$(expect $calls "${entries[@]}" "${exits[@]/%/:return}")"

# What a probe says is what the program passes and gets.
patterns=("${plain[@]/#/fn:shapes:}")
run values "${patterns[@]/%/(arg0,arg1)}" "$(any "${ends[@]}"):return"
for name in "${plain[@]}"; do
	same "arguments of $name" "$(of values "$name")" "$(each '[$i,$((3 * i + 1))]')"
done
for name in "${ends[@]}"; do
	same "results of $name" "$(of values "$name:return")" "$(each '[$((7 * i + 9))]')"
done

# Pairs, also where the entry and the exit are one instruction: a call ends with its own arguments.
patterns=("${pairs[@]/#/fn:shapes:}")
run spans -t span "${patterns[@]/%/(arg0)}"
for name in "${pairs[@]}"; do
	[ "$name" = zero ] ||
		same "spans of $name" "$(jq -c "select(.name == \"$name:return\") | .begin.args" "$SCRATCH/spans.out")" \
			"$(each '[$i]')"
done

run filter -c -f 'arg0 >= 20 && arg1 < 70' "$(any "${plain[@]}")"
same "calls by a filter" "$(counts filter)" "$(expect 3 "${plain[@]}")"
run returned -c -f 'retval > 100' "$(any "${ends[@]}"):return"
same "ends by a filter" "$(counts returned)" "$(expect 16 "${ends[@]/%/:return}")"

# Entry and exit of a short function share one jump, whichever comes or goes first.
[ "$(uname -m)" = aarch64 ] && joint=zero || joint=adds
for first in "$joint" "$joint:return"; do
	second=$joint
	[ "$first" = "$joint" ] && second=$joint:return
	ctl enable -p "$target_pid" "fn:shapes:$first"
	ask 1
	run beside -c "fn:shapes:$second"
	same "$second beside $first" "$(counts beside)" "$(expect $calls "$second")"
	ctl enable -p "$target_pid" "fn:shapes:$second"
	ask 1
	ctl disable -p "$target_pid" "fn:shapes:$first"
	ask 1
	same "what stays after $first" "$("$PROBECTL" status --json -p "$target_pid" |
		jq -r 'select(.name) | "\(.name) \(.hits)"')" "$second 2"
	ctl disable -p "$target_pid" "fn:shapes:$second"
	same_state "$target_pid"
done

if [ "$(uname -m)" = aarch64 ]; then
	run more 'fn:shapes:ten(arg0,arg7,arg8,arg9)' 'fn:shapes:floating(farg0,farg1)' \
		'fn:shapes:floating:return(fretval)' 'fn:shapes:overwrites(arg0,arg1)'
	same "arguments on the stack" "$(of more ten)" "$(each '[$i,7,$((i + 8)),$((i + 9))]')"
	same "floating arguments" "$(of more floating)" "$(each '[$i,0.5]')"
	same "floating results" "$(of more floating:return)" "$(each '[$i.5]')"
	same "a lost argument" "$(of more overwrites)" "$(each '[$i,null]')"
fi
same_state "$target_pid"
end_target
finish
