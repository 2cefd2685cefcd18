#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A site that is refused is named once, with every reason, and `list -vv -p` gives the same
# reasons beforehand. They differ from the file's only if the process has mapped something where
# memory is needed.
. tests/integration/lib.sh
need_short_nops
need jq
need_attach

branch='something in the module may jump to the bytes after the site'
hop='a branch enters the instructions after the site'
in_use='the address that its bytes would jump to is in use, or where the heap or the stack grows'
program=$TARGETS/taken

start "$program"
pid=$target_pid
save_state "$pid"

# forecast: what list -vv says about the site in the process
forecast()
{
	"$PROBECTL" list -vv --json -p "$pid" taken:site | jq -r '"\(.plan): \(.reason // "")"'
}
# enable's messages on standard error, line by line
enable()
{
	{ "$PROBECTL" enable "$@" -p "$pid" taken:site >"$SCRATCH/out"; } 2>&1
}

same "the file" "$("$PROBECTL" list -vv --json "$program" | jq -r .plan)" pun
ask take
[ "$answer" = taken ] || skip "something is where the pun would jump to"
same "list -vv, taken" "$(forecast)" "refused: $branch, and $hop, and $in_use"
"$PROBECTL" list -vv -p "$pid" | grep -q "refused: $branch, and $hop, and $in_use" || fail "list -vv in words"
wanted="probectl: refused taken:site at 0x[0-9a-f]* in $program: $branch, and $hop, and $in_use
probectl: process $pid: 1 of 1 sites cannot be patched (taken:site), so nothing is changed"
enable >"$SCRATCH/err" && fail "enable works"
[[ $(sed 's/0x[0-9a-f]* in/0x[0-9a-f]* in/' "$SCRATCH/err") == "$wanted" ]] ||
	fail "enable: $(cat "$SCRATCH/err")"
same "a pun alone" "$(enable --plan pun | sed -n '1s/.*taken: //p')" "$in_use"
same "behind alone" "$(enable --plan behind | sed -n '1s/.*taken: //p')" "$branch"
same "no plan" "$(enable --plan nop | sed -n '1s/.*taken: //p')" \
	"none of the requested plans is possible there"
"$PROBECTL" enable -p "$pid" 'taken:*' >"$SCRATCH/out" 2>"$SCRATCH/wildcard" && fail "enable 'taken:*' works"
same "all that a wildcard matches is refused" "$(cat "$SCRATCH/wildcard")" "$(cat "$SCRATCH/err")"
enable --keep-going >"$SCRATCH/err" || fail "enable --keep-going: status $?"
same "lines with --keep-going" "$(wc -l <"$SCRATCH/err")" 1

# ---- Free again ----------------------------------------------------------------------------
ask give
same "list -vv, given" "$(forecast)" "pun: "
enable || fail "enable: $?"
same "list -vv of what is on" "$(forecast)" "pun: "
ask 10
same "passed" "$answer" "passed 10"
same "hits" "$("$PROBECTL" status --json -p "$pid" | jq .hits)" 10
"$PROBECTL" disable -q -p "$pid" taken:site || fail "disable: $?"
same_state "$pid"
end_target

# ---- Sites that share bytes ------------------------------------------------------------------
# Each one alone can be enabled. A wildcard goes on with those that can be together, and says so in
# one line; -v names the others. What enabling has left out, disabling leaves out, too.
start "$TARGETS/adjacent"
pid=$target_pid
save_state "$pid"
sites=$("$PROBECTL" list --json "$TARGETS/adjacent" | wc -l)
# What list -vv says in advance of each plan, and why: alone, and together with all others.
"$PROBECTL" list -vv --json -p "$pid" 'adjacent:*' >"$SCRATCH/before"
"$PROBECTL" list -vv --json "$TARGETS/adjacent" >"$SCRATCH/file"
for listed in before file; do
	same "$listed: neighbours" "$(jq -r 'select(.shared) | "\(.name) \(.plan)"' "$SCRATCH/$listed" | sort | tr '\n' ' ')" \
		"one_first behind one_second behind row_first behind row_fourth behind row_second behind row_third behind "
	same "$listed: instead" "$(jq -r 'select(.name == "four_second").instead' "$SCRATCH/$listed")" \
		"another site is in the bytes after the site"
	jq -r 'select(.together).together_reason' "$SCRATCH/$listed" |
		grep -q "its bytes overlap those of another patched site\|could lead to are taken" ||
		fail "$listed: conflicts: $(cat "$SCRATCH/$listed")"
done
"$PROBECTL" list -vv "$TARGETS/adjacent" | grep -q 'behind, shared' || fail "list -vv: shared"
"$PROBECTL" list -vv "$TARGETS/adjacent" |
	grep -q ' hop: another site .*; with the others .*: .* could lead to are taken' ||
	fail "list -vv: with the others"
"$PROBECTL" enable -v -p "$pid" 'adjacent:*' >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "enable -v: $?"
grep '^probectl: refused ' "$SCRATCH/err" | awk '{print $3}' | sort >"$SCRATCH/refused"
named=$(sort -u "$SCRATCH/refused" | wc -l)
[ "$named" -gt 0 ] || skip "all of adjacent can be patched at once"
same "named once" "$(wc -l <"$SCRATCH/refused")" "$named"
same "enable -v: the rest" "$(grep -vc '^probectl: refused ' "$SCRATCH/err")" 0
grep -q "sites enabled in $pid; $named refused" "$SCRATCH/out" || fail "enable -v: $(cat "$SCRATCH/out")"
same "status" "$("$PROBECTL" status -a --json -p "$pid" | jq -r 'select(.patched < .sites) |
	"\(.provider):\(.name)"' | sort)" "$(cat "$SCRATCH/refused")"
same "list -vv, together" "$(jq -r '"\(.name) \(.together // .plan)"' "$SCRATCH/before" | sort)" \
	"$("$PROBECTL" status -a --json -p "$pid" | jq -r 'select(.provider == "adjacent") |
		"\(.name) \(.plan // {} | keys[0] // "refused")"' | sort)"
"$PROBECTL" enable -p "$pid" 'adjacent:*' >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "enable again: $?"
same "one line" "$(cat "$SCRATCH/err")" "probectl: process $pid: $named of $sites sites refused, -v says which"
one=$(head -n 1 "$SCRATCH/refused")
"$PROBECTL" disable -q -p "$pid" "$one" 2>"$SCRATCH/err" && fail "what is off was disabled by name"
grep -q "$one is not enabled" "$SCRATCH/err" || fail "disabled by name: $(cat "$SCRATCH/err")"
"$PROBECTL" disable -q -p "$pid" 'adjacent:*' || fail "disable once: $?"
# The same with a list of actions.
"$PROBECTL" disable -q -p "$pid" 'adjacent:*' --enable 'adjacent:*' || fail "mixed: $?"
"$PROBECTL" disable -q -p "$pid" 'adjacent:*' || fail "disable: $?"
same "all off" "$("$PROBECTL" status -a --json -p "$pid" | jq .patched | sort -u)" 0
"$PROBECTL" disable -q -p "$pid" 'adjacent:*' 2>"$SCRATCH/err" && fail "what is off was disabled"

# Named exactly, one that is refused is an error, whatever else is asked.
"$PROBECTL" enable -p "$pid" 'adjacent:*' "$one" 2>"$SCRATCH/err" && fail "enabled by name"
same "all are named then" "$(grep -c '^probectl: refused ' "$SCRATCH/err")" "$named"
grep -v '^probectl: refused ' "$SCRATCH/err" >"$SCRATCH/rest"
grep -q "^probectl: process $pid: $named of $sites sites cannot be patched ($one.*so nothing is changed (--keep-going does the rest)$" \
	"$SCRATCH/rest" || fail "adjacent: $(cat "$SCRATCH/rest")"
same "the rest" "$(wc -l <"$SCRATCH/rest")" 1
for command in "trace -c -d 10ms" "record -d 10ms -o $SCRATCH/record"; do
	# shellcheck disable=SC2086
	"$PROBECTL" $command -p "$pid" 'adjacent:*' >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "$command: $?"
	same "$command: one line" "$(grep 'says which' "$SCRATCH/err")" \
		"probectl: process $pid: $named of $sites sites refused, -v says which"
	# shellcheck disable=SC2086
	"$PROBECTL" $command -p "$pid" "$one" 'adjacent:*' >"$SCRATCH/out" 2>"$SCRATCH/err" &&
		fail "$command with a name"
	rm -rf "$SCRATCH/record"
done
"$PROBECTL" list -vv --json -p "$pid" | jq -r '"\(.provider):\(.name) \(.plan)"' |
	while read -r probe plan; do
		if "$PROBECTL" enable -q -p "$pid" "$probe" 2>"$SCRATCH/err"; then
			[ "$plan" != refused ] || echo "$probe: enable works, list says refused"
			"$PROBECTL" disable -q -p "$pid" "$probe" || echo "$probe stays"
		else
			[ "$plan" = refused ] || echo "$probe: list says $plan: $(cat "$SCRATCH/err")"
		fi
	done >"$SCRATCH/differences"
same "list -vv and enable" "$(cat "$SCRATCH/differences")" ""
same_state "$pid"
ask ""
same "adjacent" "$answer" "passed 1000 wrong 0"
end_target
finish
