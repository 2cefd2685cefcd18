#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The commands of docs/tutorial.md, all of them and in their order, on a server under pgbench, beside
# the server's log and its own tables.
document=$PWD/docs/tutorial.md
. tests/integration/project/lib_one_liners.sh
need_attach
need readelf
PG_OPTIONS="-c log_statement=all -c log_line_prefix=%p:"
pg_start
pg_bench_init 1
export PATH=$pg_bin:$PATH
psql=(psql -XAtq)
save_state "$pg_pid"
top=$PWD
commands=0

pgbench -n -R 100 -T 100000 >"$SCRATCH/pgbench.out" 2>&1 &
load=$!
on_exit "end_process $load"
while :; do
	[ "$("${psql[@]}" -c "select count(*) from pg_stat_activity
		where application_name = 'pgbench' and query like 'UPDATE%'")" = 0 ] || break
	pause
done

# section QUESTION: runs its commands in this shell, the output of the Nth to $SCRATCH/answer.N
section()
{
	local command number=0

	cd "$SCRATCH" || die "no scratch folder"
	rm -f answer answer.*
	while read -r command; do
		number=$((number + 1))
		echo "\$ $command"
		eval "$command" >"answer.$number" 2>"answer.$number.err" </dev/null ||
			fail "status $?: $(head -3 "answer.$number.err")"
		head -n 12 "answer.$number"
	done < <(commands_of "$1")
	cd "$top" || die "no working folder"
	[ "$number" != 0 ] || die "the tutorial has no commands below '$1'"
	commands=$((commands + number))
}

# look NUMBER: later functions look into this command's output
look()
{
	cp "$SCRATCH/answer.$1" "$SCRATCH/answer"
}

# texts: those of the first argument that the answer shows, without quotes
texts()
{
	sed -n 's/^[^"]*"\([^"]*\)".*/\1/p' "$SCRATCH/answer"
}

# spans LEAST COUNT TEXT: that the answer has spans, COUNT at least, all of a text that begins with
# TEXT and of LEAST milliseconds at least
spans()
{
	local duration

	while read -r duration; do
		between "milliseconds of a span" "$1" "$(milliseconds "$duration")" 1e6
	done < <(awk '{ print $5 }' "$SCRATCH/answer")
	between "spans" "$2" "$(texts | grep -c "^$3")" 1000
	same "other spans" "$(texts | grep -vc "^$3")" 0
}

section "Start a database"
same "the server" "$SERVER" "$pg_pid"

section "Which probes are there?"
look 1
same "probes" "$(awk 'NR > 1 { sub(/.*:/, "", $1); print $1 }' "$SCRATCH/answer")" \
	"$(readelf -nW "$pg_bin/postgres" | sed -n 's/^ *Name: \(query.*\)/\1/p' | LC_ALL=C sort -u)"
look 2
grep -q 'arguments: query: string' "$SCRATCH/answer" || fail "no name of the argument"

section "Which queries run?"
look 1
same "queries" "$(texts | wc -l)" 4
while read -r text; do
	grep -qF "$PID:LOG:  statement: $text" "$pg_dir/log" || fail "the server has not logged '$text'"
done < <(texts)

# A transaction of pgbench has seven queries, two of which need no plan.
section "How often?"
look 1
read -r begun planned < <(awk '{ hits[$1] = $2 } END {
	print hits["postgresql:transaction__start"], hits["postgresql:query__plan__start"] }' \
	"$SCRATCH/answer")
between "transactions" 20 "$begun" 1000
between "queries" "7 * $begun - 7" "$(awk '$1 ~ /:query__start$/ { print $2 }' "$SCRATCH/answer")" \
	"7 * $begun + 7"
between "plans" "5 * $begun - 5" "$planned" "5 * $begun + 5"

section "How long do they take?"
look 1
count=$(sed -n 's/^count \([0-9]*\) .*/\1/p' "$SCRATCH/answer")
between "queries" 100 "$count" 10000
same "the sum of the bars" \
	"$(awk '/^\[/ { sub(/.*\)/, ""); sum += $1 } END { print sum }' "$SCRATCH/answer")" "$count"

section "Which kinds of queries take the time?"
look 1
pgbench --show-script=tpcb-like 2>&1 | sed 's/:[a-z]*/?/g' >"$SCRATCH/script"
same "kinds of queries" "$(texts | wc -l)" 5
while read -r text; do
	grep -qxF "$text" "$SCRATCH/script" || fail "the load has no '$text'"
done < <(texts)

section "Which single queries are slow?"
look 1
spans 0.1 0 ""

section "Can I see only some of them?"
look 1
spans 0.03 0 UPDATE
look 2
between "locks of a transaction's number" 20 "$(column 2 '"XidGen"')" 1000
look 3
same "unknown files of pgbench's tables" "$(awk '$1 ~ /:buffer/ && $(NF - 1) >= 16384 {
	print $(NF - 1) }' "$SCRATCH/answer" |
	grep -vxF "$("${psql[@]}" -c "select relfilenode from pg_class")")" ""
grep -q ' pgbench_accounts$' "$SCRATCH/answer.4" || fail "no names of files"

# Each transaction of pgbench has one insert and one commit.
section "Who calls?"
look 1
calls()
{
	awk -v name="$1" '$NF == name { sum += $1 } END { print sum + 0 }' "$SCRATCH/answer"
}
commits=$(calls XactLogCommitRecord)
lost=$(sed -n 's/.*wal__insert: .* hits, \([0-9]*\) lost$/\1/p' "$SCRATCH/answer.1.err")
between "commits" 20 "$commits" 1000
between "inserts" "$commits - 3 - $lost" "$(calls heap_insert)" "$commits + 3 + $lost"
grep -q 'heap_update' "$SCRATCH/wal.svg" || fail "no heap_update in the flame graph"

section "What do all sessions do, and those that come later?"
look 2
same "slow queries" "$(texts | grep -c '^select pg_sleep(0.05)$')" 1
between "milliseconds" 50 "$(milliseconds "$(awk '/pg_sleep/ { print $5 }' "$SCRATCH/answer")")" 5000
look 4
same "new sessions of a transaction" "$(awk -v pid="$PID" '$1 ~ /:query/ && $NF != pid && $4 == 7' \
	"$SCRATCH/answer" | wc -l)" 3

section "Can it gather while no probectl runs?"
same "probes that are on" "$(grep -c ' on .* 1/1 ' "$SCRATCH/answer.3")" 2
same "probes that stay on" "$(cat "$SCRATCH/answer.5")" ""

section "What happens to the server meanwhile?"
grep -q 'has leftovers (1 session)' "$SCRATCH/answer.6.err" || fail "no word of what was left"
same "probes that stay on" "$(cat "$SCRATCH/answer.8")" ""
same "the code" "$(cat "$SCRATCH/answer.9")" "$(cat "$SCRATCH/answer.2")"
[ "$(cat "$SCRATCH/answer.5")" != "$(cat "$SCRATCH/answer.2")" ] || fail "the code was not patched"
[ -s "$SCRATCH/answer.2" ] || fail "no sum of the code"

# recorded NUMBER: the hits that the NUMBERth command, a record, says it has
recorded()
{
	sed -n 's/.*: \([0-9]*\) hits recorded.*/\1/p' "$SCRATCH/answer.$1.err"
}

section "Can I record now and look later?"
look 2
before=$(recorded 1)
between "hits" 200 "$before" 10000
same "hits of the report" "$(sed -n 's/^\([0-9]*\) hits, .*/\1/p' "$SCRATCH/answer")" "$before"
same "hits of the record" "$("$PROBECTL" export -F json "$SCRATCH/before.ctf" |
	grep -c 'query__')" "$before"
grep -q 'query END' "$SCRATCH/queries.svg" || fail "no queries in the flame graph"
grep -q '</html>' "$SCRATCH/queries.html" || fail "no page"
whole=$(recorded 5)
between "hits, of which none is lost" $((2 * before)) "$whole" 100000
same "hits of a record that waits" "$("$PROBECTL" export -F json "$SCRATCH/whole.ctf" |
	grep -c 'query__')" "$whole"
! grep -q lost "$SCRATCH/answer.5.err" || fail "hits are lost: $(cat "$SCRATCH/answer.5.err")"

section "What has changed?"
look 3
same "hits of both" "$(sed -n 's/^\([0-9]*\) hits, .*/\1/p' "$SCRATCH/answer" | paste -sd' ')" \
	"$before $(recorded 2)"

# The server logs a query after the probe.
on_exit "rm -f /dev/shm/$PID.probectl"
section "What were the last queries before a crash?"
look 3
between "queries" 2 "$(texts | wc -l)" 4
same "queries that the server has not logged" "$(texts | sed '$d' | while read -r text; do
	grep -F "$PID:LOG:  statement: " "$pg_dir/log" | tail -n 20 | grep -qF "$text" || echo "$text"
done)" ""

same "commands that the test has run" "$commands" "$(grep -c '^    \$ ' "$document")"
same_state "$pg_pid"
finish
