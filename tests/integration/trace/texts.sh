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
finish
