#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Strings that the catalogue knows are read wherever `trace` prints them: in JSON, in records and
# what is made of them, in flight recorders, also for a reader with another catalogue.
. tests/integration/lib.sh
need_attach
need jq

mkdir -p "$SCRATCH/config/probectl/probes.d"
cat >"$SCRATCH/config/probectl/probes.d/pairs.probes" <<'P'
provider pairs
probe request__start id kind size name:string
probe request__done id
P
known()
{
	XDG_CONFIG_HOME=$SCRATCH/config "$PROBECTL" "$@" 2>"$SCRATCH/err" ||
		fail "$*: status $?: $(head -3 "$SCRATCH/err")"
}
# run ARGS…: 20 requests of one thread under `known`
run()
{
	printf 'go\nbye\n' | known "$@" -- "$TARGETS/pairs" 1 20 >"$SCRATCH/out"
}
texts='delete insert orphan select update vacuum "all"'
# texts_of FILE: of the hits, or begins, in a file of JSON
texts_of()
{
	jq -r '(.begin // .) | select(.name == "request__start") |
		select(.named_args == [3] and (.args | map(type) == ["number", "number", "number", "number"])) |
		.named.name' "$1" | sort -u | paste -sd' '
}

run trace -q --json -o "$SCRATCH/json" 'pairs:request__*'
same "JSON" "$(texts_of "$SCRATCH/json")" "$texts"
same "others have none" "$(jq -c 'select(.name == "request__done" and .named)' "$SCRATCH/json")" ""
run trace -q -t span --json -o "$SCRATCH/spans" pairs:request__start pairs:request__done
same "spans" "$(texts_of "$SCRATCH/spans")" "${texts/orphan /}"
known report -k 'norm(name)' - <"$SCRATCH/json" >"$SCRATCH/report"
same "report of JSON" "$(grep -c '^ *4 .* "select"$' "$SCRATCH/report")" 1
run trace -q --json -o "$SCRATCH/list" 'pairs:request__start(name,id)'
same "a list is what was asked for" "$(jq -c 'select(.args) | [(.args | map(type)), .named]' "$SCRATCH/list" | sort -u)" \
	'[["string","number"],null]'

# The bytes of rings, and hits that are added one by one.
for how in '' --stack; do
	rm -rf "$SCRATCH/record"
	# shellcheck disable=SC2086 # an option, or none
	run record -q $how -o "$SCRATCH/record" 'pairs:request__*'
	known export -F json "$SCRATCH/record" >"$SCRATCH/exported"
	same "a record $how" "$(texts_of "$SCRATCH/exported")" "$texts"
	same "as it was traced $how" "$(jq -c 'select(.name == "request__start").named' "$SCRATCH/exported")" \
		"$(jq -c 'select(.name == "request__start").named' "$SCRATCH/json")"
	known report -k name "$SCRATCH/record" >"$SCRATCH/report"
	same "report of a record $how" "$(grep -c '^ *4 .* "select"$' "$SCRATCH/report")" 1
done
same "without the catalogue" "$("$PROBECTL" export -F json "$SCRATCH/record" | jq -r '.named.arg3 // empty' | sort -u | paste -sd' ')" "$texts"

run trace -q -t ring -o "$SCRATCH/ring" 'pairs:request__*'
grep -q ' id=19 kind=5 size=50458 name="vacuum \\"all\\""$' "$SCRATCH/ring" || fail "-t ring: $(tail -2 "$SCRATCH/ring")"

start "$TARGETS/pairs" 1 20
save_state "$target_pid"
known enable -q -p "$target_pid" -t ring 'pairs:request__*'
known enable -q -p "$target_pid" -t ring 'pairs:request__start(str(arg3),arg0)'
ask go
known read -p "$target_pid" -t 1 >"$SCRATCH/read"
grep -q ' id=19 kind=5 size=50458 name="vacuum \\"all\\""$' "$SCRATCH/read" || fail "read: $(tail -2 "$SCRATCH/read")"
"$PROBECTL" read --json -p "$target_pid" -t 1 >"$SCRATCH/read" || fail "read without the catalogue"
same "read without the catalogue" "$(jq -r '.named.arg3 // empty' "$SCRATCH/read" | sort -u | paste -sd' ')" "$texts"
known read --json -p "$target_pid" -t 1 >"$SCRATCH/read"
same "read" "$(texts_of "$SCRATCH/read")" "$texts"
known read --json -p "$target_pid" -t 2 >"$SCRATCH/read"
same "a list" "$(jq -c .args "$SCRATCH/read" | head -1)" '["select",0]'
"$PROBECTL" disable -q --force -p "$target_pid" 'pairs:*' || fail "disable: status $?"
hear
same_state "$target_pid"
tell bye
end_target
# Pairs are matched by text, across threads, wherever it is in memory: 500 that begin in one thread
# and end in another, two ends that nobody has begun, one of them without a text.
# tells MESSAGE: what was said last has it
tells()
{
	grep -q -e "$1" "$SCRATCH/err" || fail "no '$1': $(head -3 "$SCRATCH/err")"
}
# matched ARGS…
matched()
{
	printf 'go\nbye\n' | known trace --json -o "$SCRATCH/pairs" "$@" naps:nap__post naps:nap__take \
		-- "$TARGETS/naps" 500 apart >"$SCRATCH/out"
}
cat >"$SCRATCH/config/probectl/probes.d/naps.probes" <<'P'
provider naps
probe nap__post key:string number
probe nap__take key:string number
P
for match in 'str(arg0)' 'str(arg0):str(arg0)' key; do
	matched -t span --match "$match"
	same "$match: spans" "$(jq -c 'select(.begin)' "$SCRATCH/pairs" | wc -l)" 500
	same "$match: spans with another's begin" \
		"$(jq -c 'select(.begin and .begin.args[1] != .args[1])' "$SCRATCH/pairs")" ""
	tells ': 500 spans, 1 lost, 0 in flight, 1 end without a begin'
done
matched -t latency --match 'str(arg0)'
same "latency" "$(jq -c 'select(.name == "nap__take" and .count) | [.count, .unmatched, .in_flight]' "$SCRATCH/pairs")" '[500,1,0]'
# Of a text that is longer than what is compared nothing is known: no pair, instead of a wrong one.
# "request-" and one digit are 9 bytes.
matched -t span -s 9 --match 'str(arg0)'
same "spans of short texts" "$(jq -c 'select(.begin) | .args[1]' "$SCRATCH/pairs" | sort -n | paste -sd' ')" \
	"0 1 2 3 4 5 6 7 8 9"
tells 'naps:nap__post: 490 begins lost'
tells 'was a text longer than -s allows'
for match in 'arg1:str(arg0)' comm; do
	! "$PROBECTL" trace -t span --match "$match" naps:nap__post naps:nap__take -- "$TARGETS/naps" \
		</dev/null >/dev/null 2>"$SCRATCH/err" || fail "--match $match is accepted"
	tells 'matched by'
done
finish
