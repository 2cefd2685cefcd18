#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# An argument that a probe does not have is a mistake, wherever it is named; nothing is changed.
. tests/integration/lib.sh
need_attach
need jq

# wrong MESSAGE COMMAND…: it ends with status 2 and one line, in which * stands for operands
wrong()
{
	local wanted=$1 status
	shift
	"$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	status=$?
	same "$*: status" "$status" 2
	same "$*: lines" "$(wc -l <"$SCRATCH/err")" 1
	# shellcheck disable=SC2053 # a pattern
	[[ $(cat "$SCRATCH/err") == "probectl: "$wanted ]] || fail "$*: $(cat "$SCRATCH/err")"
}

start "$TARGETS/lacking"
save_state "$target_pid"
p=(-p "$target_pid")
two='lacking:two: there is no arg7, the probe has 2 arguments: *@* *@*'
one='lacking:one: there is no arg1, the probe has 1 argument: *@*'
mixed='lacking:mixed: 1 of its 2 sites have no arg1: the one at 0x* has 1 argument: *@*'

# A list behind the probe, whatever is done with it.
wrong "$two" list "$TARGETS/lacking" 'lacking:two(arg7)'
wrong "$mixed" list "$TARGETS/lacking" 'lacking:mixed(arg1)'
wrong 'trace: no program given; put it after --, as in `trace PROBE -- ls -l`' trace lacking:two --
wrong "$two" trace "${p[@]}" 'lacking:two(arg7)'
wrong "$two" trace "${p[@]}" 'lacking:two(arg0,str(arg7))'
wrong "$two" trace "${p[@]}" 'lacking:two(bytes(arg0,arg7))'
wrong "$two" trace -c "${p[@]}" 'lacking:two(arg7)'
wrong "$two" trace --keep-going "${p[@]}" lacking:one 'lacking:two(arg7)'
wrong "$two" trace "${p[@]}" lacking:two 'lacking:two(arg7)'
wrong "$two" trace -t latency "${p[@]}" 'lacking:two(arg7)' lacking:one
wrong "$two" record -o "$SCRATCH/record" "${p[@]}" 'lacking:two(arg7)'
wrong "$two" enable "${p[@]}" 'lacking:two(arg7)'
wrong "$two" enable -t ring "${p[@]}" 'lacking:two(arg7)'
wrong "$two" enable -t hist,arg0 "${p[@]}" 'lacking:two(arg7)'
wrong "$two" run -e 'lacking:two(arg7)' -- "$TARGETS/lacking"
wrong "$one" trace "${p[@]}" 'lacking:one(arg1)'
# One that only some sites have; one that none of the probes has that wildcards match.
wrong "$mixed" trace "${p[@]}" 'lacking:mixed(arg0,arg1)'
wrong "lacking:*: *no arg7*" trace "${p[@]}" 'lacking:*(arg7)'

# Filters, keys and values.
wrong "lacking:two: the filter 'arg7 > 1', column 1: ${two#*: }" trace "${p[@]}" -f 'arg7 > 1' lacking:two
wrong "lacking:two: the filter 'str(arg7) == \"a\"', column *: ${two#*: }" \
	trace "${p[@]}" -f 'str(arg7) == "a"' lacking:two
wrong "lacking:two: the key 'arg7', column 1: ${two#*: }" trace -c "${p[@]}" -k arg7 lacking:two
wrong "lacking:two: the key 'str(arg7)', column 1: ${two#*: }" trace -c "${p[@]}" -k 'str(arg7)' lacking:two
wrong "lacking:two: the value 'arg7', column 1: ${two#*: }" trace -t hist,arg7 "${p[@]}" lacking:two
wrong "lacking:mixed: the filter 'arg1', column 1: there is no arg1, the probe has 1 argument: *" \
	trace "${p[@]}" -f arg1 lacking:mixed
# What only an argument's type shows to be wrong, after other parts of the expression were bound.
shift="a number of 64 bits can be shifted by 0 to 63"
wrong "lacking:two: the filter 'arg0 << 64', column 9: $shift" trace -c "${p[@]}" -f 'arg0 << 64' lacking:two
wrong "lacking:two: the key 'arg0 << 64', column 9: $shift" trace -c "${p[@]}" -k 'arg0 << 64' lacking:two
wrong "lacking:two: the value 'arg0 << 64', column 9: $shift" trace -t "hist,arg0 << 64" "${p[@]}" lacking:two
wrong "lacking:two: the value 'arg0 << 64', column 9: $shift" \
	trace -t "sum,arg0 << 64" -k arg1 "${p[@]}" lacking:two
same_state "$target_pid"

# What all sites have is no mistake.
trace_start hits --json "${p[@]}" 'lacking:two(arg1)' 'lacking:mixed(arg0)'
wait_on "$target_pid" lacking:mixed
ask go
same "the target" "$answer" hit
sleep 0.3
trace_stop hits
same "hits" "$(jq -c 'select(.args) | [.name, .args]' "$SCRATCH/hits.out" | sort | tr '\n' ' ')" \
	'["mixed",[1]] ["mixed",[1]] ["two",[2]] '
same_state "$target_pid"
hear
tell bye
end_target

# Nor is what only some of those have that wildcards match: it is missing from the others' hits.
start "$TARGETS/lacking"
trace_start some --json -p "$target_pid" 'lacking:*(arg1)'
wait_on "$target_pid" lacking:mixed
ask go
sleep 0.3
trace_stop some
same "some have it" "$(jq -c 'select(.name) | [.name, .args]' "$SCRATCH/some.out" | sort | tr '\n' ' ')" \
	'["mixed",[2]] ["mixed",[null]] ["one",[null]] ["two",[2]] '
hear
tell bye
end_target

# In a library that is opened later, a probe that lacks the argument is refused; the rest goes on.
"$PROBECTL" trace -c --json -o "$SCRATCH/late.out" 'lacking:two(arg1)' -- \
	"$TARGETS/lacking" "$TARGETS/liblacking.so" </dev/null >/dev/null 2>"$SCRATCH/err"
same "a library: status" "$?" 1
same "a library: hits" "$(jq -s 'map(.hits // 0) | add' "$SCRATCH/late.out")" 1
grep -q '^probectl: refused lacking:two at 0x.*liblacking.so: it lacks an argument that is asked for$' \
	"$SCRATCH/err" || fail "a library: $(cat "$SCRATCH/err")"
same "a library: refused once" "$(grep -c refused "$SCRATCH/err")" 1

# So it is where a filter or a value asks for it.
spec=$("$PROBECTL" list --json "$TARGETS/liblacking.so" lacking:two | jq -r .args_spec)
for how in 'count' 'hist,arg1'; do
	"$PROBECTL" trace -t "$how" --json -o "$SCRATCH/late.out" --filter 'arg1 == 2' lacking:two -- \
		"$TARGETS/lacking" "$TARGETS/liblacking.so" </dev/null >/dev/null 2>"$SCRATCH/err"
	same "a library, $how: status" "$?" 1
	same "a library, $how: hits" "$(jq -s 'map(.hits // .count // 0) | add' "$SCRATCH/late.out")" 1
	[ "$how" = count ] && what="filter 'arg1 == 2'" || what="value 'arg1'"
	same "a library, $how" "$(sed 's/0x[0-9a-f]* in .*liblacking.so/AT/' "$SCRATCH/err")" \
		"probectl: refused lacking:two at AT: the $what, column 1: there is no arg1, the probe has 1 argument: $spec"
done
finish
