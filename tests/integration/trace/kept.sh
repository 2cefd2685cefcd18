#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sessions that `enable -t` leaves in a process, without a controller: `read` prints what the
# program did; --reset starts over; `disable` ends them, and the process is as before.
. tests/integration/lib.sh
need_attach
need jq

threads=4 requests=3000
total=$((threads * requests))

# printed ARGS…: what `read` prints for the target
printed()
{
	"$PROBECTL" read --json -p "$target_pid" "$@" 2>"$SCRATCH/err" || fail "read $*: $(head -3 "$SCRATCH/err")"
}
left()
{
	"$PROBECTL" enable -q -p "$target_pid" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "enable $*: $(head -3 "$SCRATCH/err")"
}

start "$TARGETS/pairs" "$threads" "$requests"
save_state "$target_pid"
left -t count pairs:step__done
left -t sum,arg2 -k 'str(arg3)' -f 'arg2 != 0' pairs:request__start
left -t latency pairs:request__start pairs:request__done
left -t transaction pairs:request__start pairs:request__done pairs:request__fail
left -t ring -b 128k 'pairs:request__fail(arg0)'
same "the state before" "$("$PROBECTL" status --json -p "$target_pid" | jq -s 'map(select(.name == "request__start"))[0].refcount')" 3
ask go
said=$answer
same "counts" "$(printed -t count | jq .hits)" "$(jq .steps <<<"$said")"
same "sums" "$(printed -t sum | jq -s 'map(.sum) | add')" "$(jq .sizes <<<"$said")"
same "keys" "$(printed -t 2 | jq -r '.keys[0]' | sort | paste -sd,)" 'delete,insert,select,update,vacuum "all"'
same "ends" "$(printed -t latency | jq .count)" "$(jq .done <<<"$said")"
same "transactions" "$(printed -t transaction | jq -s 'map(.count) | add')" "$total"
same "the flight recorder's last" "$(printed -t ring | jq -s 'map(.args[0]) | max')" $((total - 1))
same "read twice" "$(printed -t count | jq .hits)" "$(jq .steps <<<"$said")"
"$PROBECTL" read -p "$target_pid" >"$SCRATCH/text" || fail "read as text: status $?"
grep -q "^# process $target_pid, session 2: sum,arg2 -k str(arg3) -f arg2 != 0 pairs:request__start, " "$SCRATCH/text" ||
	fail "the headings: $(grep '^#' "$SCRATCH/text")"

# After a reset: nothing at first, then new hits.
same "what --reset prints" "$(printed -t count --reset | jq .hits)" "$(jq .steps <<<"$said")"
same "after --reset" "$(printed -t count | jq .hits)" 0
same "of others" "$(printed -t latency | jq .count)" "$(jq .done <<<"$said")"

# Probes of other commands are not affected.
"$PROBECTL" disable -q -p "$target_pid" pairs:step__done || fail "disable: status $?"
"$PROBECTL" read -p "$target_pid" -t count >/dev/null 2>"$SCRATCH/err"
same "read without a session" "$?" 1
grep -q 'there is no such session (without -t' "$SCRATCH/err" || fail "its message: $(cat "$SCRATCH/err")"
same "ends, still" "$(printed -t latency | jq .count)" "$(jq .done <<<"$said")"
for ((i = 0; i < 3; i++)); do
	"$PROBECTL" disable -q -p "$target_pid" pairs:request__start || fail "disable: status $?"
done
"$PROBECTL" disable -q --force -p "$target_pid" 'pairs:*' || fail "disable --force: status $?"
hear
same_state "$target_pid"
tell bye
end_target

# Names of arguments are replaced when the session begins; who reads it shows them as it can.
config=$SCRATCH/config/probectl/probes.d
mkdir -p "$config"
cat >"$config/kept.probes" <<'P'
provider pairs
words Kind 1=red 2=green
probe request__start id kind:Kind size name:string
probe request__done id
probe request__fail failed
P
start "$TARGETS/pairs" "$threads" "$requests"
save_state "$target_pid"
named()
{
	XDG_CONFIG_HOME=$SCRATCH/config "$@"
}
named left -t sum,size -k kind -f 'kind not in (red, 0)' pairs:request__start
named left -t latency -k begin.name -f 'begin.kind == green' pairs:request__start pairs:request__done
named left -t count -k 'id % 4' pairs:request__start pairs:request__done
named left -t ring -b 128k -f 'kind == green' 'pairs:request__start(id,kind)'
ask go
same "kinds" "$(printed -t sum | jq '.keys[0]' | sort | paste -sd,)" 2,3,4,5,6
same "names of begins" "$(printed -t 2 | jq -r '.keys[0]' | sort | paste -sd,)" 'delete,insert,select,update,vacuum "all"'
same "ids of two probes" "$(printed -t 3 | jq '.keys[0]' | sort -u | paste -sd,)" 0,1,2,3
named "$PROBECTL" read -p "$target_pid" --last 1ms >"$SCRATCH/text" || fail "read by names"
same "the words of kinds" "$(grep -c '^pairs:request__start  .* green$' "$SCRATCH/text")" 1
grep -qE '^PROBE +COUNT +SUM +kind$' "$SCRATCH/text" || fail "no name of the key"
grep -q "^# process $target_pid, session 1: sum,arg2 -k arg1 -f arg1 not in (1, 0) pairs:request__start, " "$SCRATCH/text" ||
	fail "the headings of names: $(grep '^#' "$SCRATCH/text")"
grep -qE '  pairs:request__start +id=[0-9]+ kind=green$' "$SCRATCH/text" || fail "hits without names"
"$PROBECTL" read -p "$target_pid" --reset -t sum >"$SCRATCH/text" || fail "read without names"
grep -qE '^pairs:request__start .* 2$' "$SCRATCH/text" || fail "a word without a catalogue: $(cat "$SCRATCH/text")"
same "after --reset" "$(named "$PROBECTL" read -p "$target_pid" -t sum | tail -1)" "no hits"
# What is not the same argument of all probes is refused, and leaves nothing.
cat >"$config/two.probes" <<'P'
provider pairs
probe step__done id
probe request__start a b id c
P
named "$PROBECTL" enable -t count -k id -p "$target_pid" pairs:step__done pairs:request__start 2>"$SCRATCH/err"
same "status of a name for two" "$?" 2
grep -q "^probectl: the key 'id': its names are 'arg[02]' for one of the probes and 'arg[02]' for another" "$SCRATCH/err" ||
	fail "a name for two: $(cat "$SCRATCH/err")"
"$PROBECTL" disable -q --force -p "$target_pid" 'pairs:*' || fail "disable --force: status $?"
hear
same_state "$target_pid"
tell bye
end_target

# Options without a meaning here are rejected, and nothing changes.
for line in 'enable --top' 'disable --tracer'; do
	# shellcheck disable=SC2086 # a command and its option
	"$PROBECTL" $line nop -p "$$" x:y 2>"$SCRATCH/err"
	same "$line" "$?" 2
	grep -q 'unknown option' "$SCRATCH/err" || fail "$line: $(cat "$SCRATCH/err")"
done
start "$TARGETS/pairs" 1 1
save_state "$target_pid"
for tracer in print json "$TARGETS/libtracer.so" nosuch; do
	"$PROBECTL" enable -t "$tracer" -p "$target_pid" pairs:request__start >/dev/null 2>"$SCRATCH/err"
	same "enable -t $tracer" "$?" 2
done
"$PROBECTL" enable -k arg0 -p "$target_pid" pairs:request__start >/dev/null 2>"$SCRATCH/err"
same "enable -k without -t" "$?" 2
same_state "$target_pid"
end_process "$target_pid"
finish
