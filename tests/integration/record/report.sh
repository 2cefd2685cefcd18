#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Reports: their numbers are those of the program itself and of babeltrace2, in text, JSON and
# HTML.
. tests/integration/lib.sh
need babeltrace2 jq
need_attach

# A signal ends a report of input that never ends, whether it waits for more or has enough to read. No
# other process reads for it.
mkfifo "$SCRATCH/endless"
exec {endless}<>"$SCRATCH/endless"
for input in silent busy; do
	"$PROBECTL" report - <&"$endless" >"$SCRATCH/out" 2>&1 &
	reporter=$!
	until grep -qs '^State:[[:space:]]*S' "/proc/$reporter/status" &&
		[ "$(cat "/proc/$reporter/comm")" = probectl ]; do
		pause
	done
	same "children that read" "$(pgrep -P "$reporter")" ""
	if [ "$input" = busy ]; then
		yes '{"lost":1}' >&"$endless" &
		writer=$!
		until grep -qs '^State:[[:space:]]*R' "/proc/$reporter/status"; do
			pause
		done
	fi
	kill -TERM "$reporter"
	wait "$reporter"
	same "status of an ended report, $input input" "$?" 143
	same "output of an ended report, $input input" "$(cat "$SCRATCH/out")" ""
done 2>"$SCRATCH/terminated"
end_process "$writer"
exec {endless}>&-

# report NAME: as text and JSON, to NAME.txt and NAME.json
report()
{
	local name=$1
	shift
	"$PROBECTL" report "$@" "$SCRATCH/$name" >"$SCRATCH/$name.txt" 2>"$SCRATCH/$name.err" ||
		fail "report $name: $(head -3 "$SCRATCH/$name.err")"
	[ ! -s "$SCRATCH/$name.err" ] || fail "report $name said: $(head -3 "$SCRATCH/$name.err")"
	"$PROBECTL" report --json "$@" "$SCRATCH/$name" >"$SCRATCH/$name.json" ||
		fail "report --json $name"
}

# of NAME FILTER: what jq finds in its objects
of()
{
	jq -r "$2" "$SCRATCH/$1.json" || fail "jq on $1.json"
}

# same_counts NAME: hits of each probe in the text, in JSON and from babeltrace2 are equal
same_counts()
{
	babeltrace2 "$SCRATCH/$1" 2>/dev/null | grep -v ' probectl:' | sed 's/^\[[^]]*\] ([^)]*) [^ ]* \([^ ]*\): {.*/\1/' |
		sort | uniq -c | awk '{ print $2, $1 }' | sort >"$SCRATCH/$1.counts"
	[ -s "$SCRATCH/$1.counts" ] || fail "babeltrace2 prints nothing of $1"
	of "$1" 'select(.type == "probe") | "\(.provider):\(.name) \(.hits)"' | sort |
		cmp -s - "$SCRATCH/$1.counts" || fail "$1: counts in JSON are not babeltrace2's"
	while read -r probe hits; do
		grep -qE "^$probe +$hits " "$SCRATCH/$1.txt" || fail "$1: no $hits of $probe in the text"
	done <"$SCRATCH/$1.counts"
}

# ---- A program that reports what it did ---------------------------------------------

start "$TARGETS/pairs" 3 2000
save_state "$target_pid"
record_start pairs 'pairs:*' -p "$target_pid"
wait_on "$target_pid" pairs:step__start
ask ''
truth=$answer
record_stop pairs
same_state "$target_pid"
report pairs --top 0
same_counts pairs
for format in --json ''; do
	# shellcheck disable=SC2086 # none is no argument
	"$PROBECTL" report $format "$SCRATCH/pairs" >/dev/full 2>"$SCRATCH/err"
	same "status of report $format >/dev/full" "$?" 1
	same "report $format >/dev/full" "$(cat "$SCRATCH/err")" \
		"probectl: cannot write the output: No space left on device"
done

# true_of NAME: from the program's report
true_of()
{
	jq -r ".$1" <<<"$truth"
}
# pair_count END: how many were timed
pair_count()
{
	of "$1" "select(.type == \"pair\" and .name == \"$2\") | .count"
}
same "requests" "$(pair_count pairs request__done)" "$(true_of 'done')"
same "failed requests" "$(pair_count pairs request__fail)" "$(true_of failed)"
same "steps" "$(pair_count pairs step__done)" "$(true_of steps)"
same "ends without a begin, begins without an end" \
	"$(of pairs 'select(.type == "pair" and .name == "request__done") | "\(.unmatched) \(.in_flight)"')" "3 3"
# Between what the program measured inside the probes and around them.
sum=$(of pairs 'select(.type == "pair" and (.name | startswith("request"))) | .sum' |
	awk '{ sum += $1 } END { print sum }')
[ "$sum" -ge "$(true_of inner)" ] && [ "$sum" -le "$(true_of outer)" ] ||
	fail "requests took $sum, not $(true_of inner) to $(true_of outer)"
same "all buckets of requests" \
	"$(of pairs 'select(.type == "pair" and .name == "request__done") | [.buckets[][2]] | add')" "$(true_of 'done')"
same "all heat of requests" \
	"$(of pairs 'select(.type == "pair" and .name == "request__done") | [.heat[][2][]] | add')" "$(true_of 'done')"
same "all bins" "$(of pairs 'select(.type == "probe") | .hits - ([.bins[]] | add)' | sort -u)" 0
same "threads" "$(of pairs 'select(.type == "thread") | .hits' | awk '{ n += $1 } END { print n }')" \
	"$(of pairs 'select(.type == "record") | .hits')"
grep -q ' 0 lost; 7 probes, 1 process, 4 threads' "$SCRATCH/pairs.txt" ||
	fail "the first lines: $(head -2 "$SCRATCH/pairs.txt")"

# Jobs begin in one thread and end in another.
report pairs --match arg0 -k arg1
same "jobs" "$(pair_count pairs job__done)" "$(true_of jobs)"
# An unserved request has no kind, but its begin has, and there are three of those.
same "kinds" "$(of pairs 'select(.type == "key" and .name == "request__start") | .count' |
	awk '{ n += $1 } END { print NR, n }')" \
	"$(jq -r '"\(.kinds | length) \((.kinds | add) + 3)"' <<<"$truth")"

# The page has the same numbers.
"$PROBECTL" report --html "$SCRATCH/page.html" "$SCRATCH/pairs" || fail "no page"
sed -n '/^{"type":"page"/,/^</p' "$SCRATCH/page.html" | grep '^{' >"$SCRATCH/page.json"
same "the page's JSON" "$(jq -c 'select(.type != "page") | del(.text)' "$SCRATCH/page.json" | md5sum)" \
	"$("$PROBECTL" report --json "$SCRATCH/pairs" | jq -c . | md5sum)"
same "the hash of the page's script" \
	"$("$python" -c 'import base64, hashlib, re, sys
page = open(sys.argv[1]).read()
script = re.search("<script>(.*?)</script>", page, re.S).group(1)
print(base64.b64encode(hashlib.sha256(script.encode()).digest()).decode())' "$SCRATCH/page.html")" \
	"$(sed -n "s/.*script-src 'sha256-\([^']*\)'.*/\1/p" "$SCRATCH/page.html")"
"$PROBECTL" report --html - "$SCRATCH/pairs" | cmp -s - "$SCRATCH/page.html" ||
	fail "the page is another one on standard output"

# ---- Pairs by key, and the longest ----------------------------------------------------

# Only some arguments are recorded, in another order; they keep their numbers.
start "$TARGETS/pairs" 3 2000
record_start some 'pairs:request__start(str(arg3),arg1,arg3)' pairs:request__done -p "$target_pid"
wait_on "$target_pid" pairs:request__start
ask ''
truth=$answer
record_stop some
report some --pairs -k 'str(arg3)' -k arg1
same "pairs by key" "$(of some 'select(.type == "pair_key") | .key' | sort | uniq -c | tr -s ' ')" \
	" 7 arg1
 5 str(arg3)"
for key in 'str(arg3)' arg1; do
	same "pairs by $key" "$(of some "select(.type == \"pair_key\" and .key == \"$key\") | .count" |
		awk '{ n += $1 } END { print n }')" "$(true_of 'done')"
	same "time by $key" "$(of some "select(.type == \"pair_key\" and .key == \"$key\") | .sum" |
		awk '{ n += $1 } END { print n }')" "$(of some 'select(.type == "pair") | .sum')"
done
# The numbers of requests are those below 6000; each tenth, with the last name, fails.
same "pairs by name" "$(of some 'select(.type == "pair_key" and .key == "str(arg3)") | "\(.count) \(.value)"' | sort)" \
	"$(printf '%s\n' "1200 delete" "1200 insert" "1200 select" "1200 update" '600 vacuum "all"' | sort)"
same "the longest" "$(of some 'select(.type == "longest") | .duration' | wc -l)" 20
same "the longest come first" "$(of some 'select(.type == "longest") | .duration' | sort -rnc 2>&1)" ""
same "the very longest" "$(of some 'select(.type == "longest") | .duration' | head -1)" \
	"$(of some 'select(.type == "pair") | .max')"
same "texts of the longest" \
	"$(of some 'select(.type == "longest") | .text' | grep -cE '^"[a-z]+( \\"all\\")?" [0-6] 0x[0-9a-f]+$')" 20
grep -q "^pairs:request__start -> pairs:request__done by str(arg3)$" "$SCRATCH/some.txt" || fail "no pairs by text"
grep -q "^the longest of pairs:request__start -> pairs:request__done$" "$SCRATCH/some.txt" || fail "no longest ones"

# Keys that no hit has.
"$PROBECTL" report -k 'str(arg0)' "$SCRATCH/some" >"$SCRATCH/out" 2>"$SCRATCH/err"
same "status without such a key" "$?" 1
grep -qF "no hit has a value for the key 'str(arg0)'" "$SCRATCH/err" || fail "no such key: $(cat "$SCRATCH/err")"
"$PROBECTL" report --match arg0:name "$SCRATCH/some" >"$SCRATCH/out" 2>"$SCRATCH/err"
same "status of a match by no name" "$?" 2
same "a match by no name" "$(cat "$SCRATCH/err")" \
	"probectl: pairs:request__done: the key 'name': there is no argument 'name', the probe has none whose name is known"
for key in 'str(arg0)' arg2; do
	"$PROBECTL" export --format folded -k "$key" "$SCRATCH/some" >/dev/null 2>"$SCRATCH/err"
	same "status of an export by $key" "$?" 1
	grep -qF "no hit has a value for the key '$key'" "$SCRATCH/err" || fail "export: $(cat "$SCRATCH/err")"
done
"$PROBECTL" export --format folded --match arg2 "$SCRATCH/some" >/dev/null 2>"$SCRATCH/err"
same "status of an export that matches nothing" "$?" 1
"$PROBECTL" export --format trace-event -k 'str(arg3)' -o "$SCRATCH/some.events" "$SCRATCH/some" || fail "export"
same "slices by name" "$(jq -r '.traceEvents[] | select(.ph == "X") | "\(.name) \(.args | keys | join(","))"' \
	"$SCRATCH/some.events" | sort | uniq -c | tr -s ' ')" \
	" 1200 delete arg1,arg3,arg3_2,end_arg0
 1200 insert arg1,arg3,arg3_2,end_arg0
 1200 select arg1,arg3,arg3_2,end_arg0
 1200 update arg1,arg3,arg3_2,end_arg0
 600 vacuum \"all\" arg1,arg3,arg3_2,end_arg0"
"$PROBECTL" report --pairs --html - "$SCRATCH/some" >/dev/null 2>"$SCRATCH/err"
same "status of --pairs with --html" "$?" 2

# ---- Hits as JSON ----------------------------------------------------------------------

"$PROBECTL" trace -q --json -o "$SCRATCH/args.json" 'args:*' -- "$TARGETS/args" >/dev/null ||
	fail "trace --json"
hits=$(wc -l <"$SCRATCH/args.json")
"$PROBECTL" report --json - <"$SCRATCH/args.json" >"$SCRATCH/args.report" || fail "report -"
same "hits as JSON" "$(jq -r 'select(.type == "record") | .hits' "$SCRATCH/args.report")" "$hits"
# Whatever precedes an invalid line is reported.
{
	head -3 "$SCRATCH/args.json"
	echo '{"ts":'
} | "$PROBECTL" report - >"$SCRATCH/cut.txt" 2>"$SCRATCH/cut.err"
same "status of a damaged record" "${PIPESTATUS[1]}" 1
same "lines about it" "$(wc -l <"$SCRATCH/cut.err")" 1
grep -q '^3 hits, ' "$SCRATCH/cut.txt" || fail "what could be read: $(cat "$SCRATCH/cut.txt")"
echo nonsense | "$PROBECTL" report - >"$SCRATCH/cut.txt" 2>/dev/null
same "status of nonsense" "${PIPESTATUS[1]}" 1
[ ! -s "$SCRATCH/cut.txt" ] || fail "nonsense: $(cat "$SCRATCH/cut.txt")"
end_target

# ---- Losses ----------------------------------------------------------------------------

start "$TARGETS/hits" 2
record_start lost -b 128k 'hits:work' -p "$target_pid"
wait_on "$target_pid" hits:work
kill -STOP "$recorder"
ask 50000
kill -CONT "$recorder"
record_stop lost
lost=$(sed -n 's/.* \([0-9]*\) hits were lost.*/\1/p' "$SCRATCH/lost.err" | head -1)
report lost
same "lost" "$(of lost 'select(.type == "record") | .lost')" "$lost"
same "lost over time" "$(of lost 'select(.type == "record") | [.lost_bins[]] | add')" "$lost"
same "hits and losses" "$(of lost 'select(.type == "record") | .lost + .hits')" 100000
grep -q "^(lost)  *$lost " "$SCRATCH/lost.txt" || fail "losses are not among the probes"
end_target

# ---- What can go wrong -------------------------------------------------------------------

# fails STATUS WORDS ARGS…: prints one line with these words
fails()
{
	local status=$1 words=$2 got
	shift 2
	"$PROBECTL" report "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	got=$?
	same "status of report $*" "$got" "$status"
	same "lines of report $*" "$(wc -l <"$SCRATCH/err")" 1
	grep -q -- "$words" "$SCRATCH/err" || fail "report $*: $(cat "$SCRATCH/err")"
}
fails 2 'no DIR given'
fails 2 'no DIR given' ''
fails 2 'two DIRs' a b c
fails 2 'only one' - -
fails 2 'two records' --html x a b
fails 1 "$SCRATCH/nothing" "$SCRATCH/pairs" "$SCRATCH/nothing"
fails 2 'give one' --json --html x "$SCRATCH/pairs"
fails 2 'not a key' -k arg99 "$SCRATCH/pairs"
fails 2 'not a key' --match arg0:arg99 "$SCRATCH/pairs"
fails 1 "$SCRATCH/nothing" "$SCRATCH/nothing"
fails 1 "$TARGETS" "$TARGETS"
fails 1 'cannot create' --html "$SCRATCH/no/page.html" "$SCRATCH/pairs"
fails 1 'cannot write .*No space' --html /dev/full "$SCRATCH/pairs"
"$PROBECTL" report "$SCRATCH/pairs" >/dev/full 2>"$SCRATCH/err"
same "status of a full disk" "$?" 1
grep -q 'cannot write' "$SCRATCH/err" || fail "a full disk: $(cat "$SCRATCH/err")"
"$PROBECTL" report --json "$SCRATCH/pairs" 2>"$SCRATCH/err" | true
[ ! -s "$SCRATCH/err" ] || fail "a closed pipe: $(cat "$SCRATCH/err")"
# A terminal that supports only ASCII.
LC_ALL=C "$PROBECTL" report "$SCRATCH/pairs" | LC_ALL=C grep -q '[^ -~]' &&
	fail "there is more than ASCII"

# ---- Two records ---------------------------------------------------------------------------

# The same twice: nothing changed; each figure is that of the report of one.
"$PROBECTL" report --json "$SCRATCH/pairs" - <"$SCRATCH/args.json" >"$SCRATCH/two.json" ||
	fail "report of two records"
jq -r 'select(.type == "probe" and .before) | "\(.provider):\(.name) \(.before.hits)"' \
	"$SCRATCH/two.json" | sort | cmp -s - "$SCRATCH/pairs.counts" ||
	fail "the first record's counts: $(cat "$SCRATCH/two.json")"
jq -r 'select(.type == "probe" and .after) | .after.hits' "$SCRATCH/two.json" | sort >"$SCRATCH/a"
jq -r 'select(.type == "probe") | .hits' "$SCRATCH/args.report" | sort | cmp -s - "$SCRATCH/a" ||
	fail "the second record's counts: $(cat "$SCRATCH/two.json")"
"$PROBECTL" report --top 0 "$SCRATCH/pairs" "$SCRATCH/pairs" >"$SCRATCH/two.txt" ||
	fail "report of the same record twice"
changes=$(awk '/^pairs:/ && NF == 6 { print $6 }' "$SCRATCH/two.txt" | sort -u)
same "changes from a record to itself" "$changes" '+0.0%'
# Keys and pairs by key: it is enough that one of the two has them.
"$PROBECTL" report --json --pairs -k 'str(arg3)' "$SCRATCH/some" "$SCRATCH/some" >"$SCRATCH/two.json" ||
	fail "pairs of two records"
same "pairs by name, in both" \
	"$(jq -r 'select(.type == "pair_key" and .before == .after) | "\(.after.count) \(.value)"' "$SCRATCH/two.json" | sort)" \
	"$(of some 'select(.type == "pair_key" and .key == "str(arg3)") | "\(.count) \(.value)"' | sort)"
"$PROBECTL" report --pairs -k 'str(arg3)' "$SCRATCH/some" "$SCRATCH/some" >"$SCRATCH/two.txt" ||
	fail "pairs of two records as text"
grep -q "^pairs:request__start -> pairs:request__done by str(arg3)$" "$SCRATCH/two.txt" || fail "no pairs by text of two"
"$PROBECTL" report -k 'str(arg3)' "$SCRATCH/some" - <"$SCRATCH/args.json" >/dev/null ||
	fail "a key that the first record has"
"$PROBECTL" report -k 'str(arg0)' "$SCRATCH/some" "$SCRATCH/some" >/dev/null 2>"$SCRATCH/err"
same "status without such a key in two records" "$?" 1
grep -qF "no hit has a value for the key 'str(arg0)'" "$SCRATCH/err" || fail "no such key: $(cat "$SCRATCH/err")"

# ---- PostgreSQL ----------------------------------------------------------------------------

pg_start
pg_bench_init
mkfifo "$SCRATCH/sql"
pg_as_user env PGHOST="$PGHOST" PGUSER="$PGUSER" PGDATABASE="$PGDATABASE" \
	"$pg_bin/psql" -qAt <"$SCRATCH/sql" >"$SCRATCH/answers" 2>&1 &
client=$!
exec {sql}>"$SCRATCH/sql"
until backend=$(pg_backends | head -1) && [ -n "$backend" ]; do
	pause
done
record_start pg -s 64 'postgresql:query__start' 'postgresql:query__done' 'postgresql:transaction__*' \
	'postgresql:lwlock__wait*' 'postgresql:query__parse*' 'postgresql:query__execute*' \
	-p "$backend"
wait_on "$backend" postgresql:query__start
for ((i = 0; i < 200; i++)); do
	echo "BEGIN; UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = $i; SELECT 1; END;"
done >&"$sql"
echo '\q' >&"$sql"
exec {sql}>&-
wait "$client" || fail "psql: $(tail -2 "$SCRATCH/answers")"
wait "$recorder" || fail "record: $(head -3 "$SCRATCH/pg.err")"
report pg
same_counts pg
# One thread: everything that began has ended.
for end in query__done query__parse__done query__execute__done; do
	same "$end" "$(pair_count pg "$end")" \
		"$(of pg "select(.type == \"probe\" and .name == \"${end%done}start\") | .hits")"
done
same "queries" "$(pair_count pg query__done)" 800
grep -q 'by str(arg0)' "$SCRATCH/pg.txt" || fail "no queries by their text"
# On a terminal, one line shows how far reading is; the report takes its place.
if command -v script >/dev/null; then
	"$PROBECTL" trace --json loop:nop -- "$TARGETS/loop" -s nop -n 10000 |
		grep '^{' >"$SCRATCH/long" || fail "trace"
	mkfifo "$SCRATCH/fifo"
	(
		head -5000 "$SCRATCH/long"
		sleep 0.5
		tail -n +5001 "$SCRATCH/long"
	) >"$SCRATCH/fifo" &
	script -qec "'$PROBECTL' report - <'$SCRATCH/fifo'" /dev/null >"$SCRATCH/tty.out" \
		</dev/null || fail "report on a terminal"
	wait $!
	grep -qa 'probectl: [0-9]* events read, [0-9.]* million a second' "$SCRATCH/tty.out" ||
		fail "no progress: $(cat "$SCRATCH/tty.out")"
	"$PROBECTL" report - <"$SCRATCH/long" >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "report"
	same "errors" "$(cat "$SCRATCH/err")" ""
fi
finish
