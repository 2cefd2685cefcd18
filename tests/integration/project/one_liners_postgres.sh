#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The commands of docs/one-liners.md about PostgreSQL, on a server under pgbench, beside its log and
# its own statistics.
. tests/integration/project/lib_one_liners.sh
need_attach
need jq
psql=("$pg_bin/psql" -XAtq)
PG_OPTIONS="-c shared_preload_libraries=pg_stat_statements -c pg_stat_statements.track=top
-c log_min_duration_statement=20 -c log_lock_waits=on -c deadlock_timeout=10ms
-c log_line_prefix=%p:"
PG_OPTIONS=${PG_OPTIONS//$'\n'/ }
[ -e "$("$pg_bin/pg_config" --sharedir)/extension/pg_stat_statements.control" ] ||
	skip "pg_stat_statements is not installed"
pg_start
pg_bench_init 1
"${psql[@]}" -c "create extension pg_stat_statements" >/dev/null || die "no pg_stat_statements"
save_state "$pg_pid"

# log_from: what the server logs from now on is what new_log prints
log_from()
{
	log_start=$(wc -l <"$pg_dir/log")
}
new_log()
{
	tail -n "+$((log_start + 1))" "$pg_dir/log"
}

bench()
{
	"$pg_bin/pgbench" -n -c 2 -t "${1:-50}" >"$SCRATCH/pgbench.out" 2>&1 ||
		fail "pgbench: $(tail -2 "$SCRATCH/pgbench.out")"
}

# Slow queries: the server logs those of 20 ms or more. What is near that, either may leave out.
log_from
answer_start "Which queries are slow?" "$pg_pid"
for ((i = 0; i < 5; i++)); do
	"${psql[@]}" -c "select $i, pg_sleep(0.05)" -c "select 'quick', $i" >/dev/null
done
answer_stop
slow_of()
{
	sed -n "s/.*$1\(select [0-9]*, pg_sleep([0-9.]*)\).*/\1/p"
}
same "slow queries" "$(slow_of 'status="' <"$SCRATCH/answer")" "$(new_log | slow_of 'statement: ')"
same "there are some" "$(grep -c pg_sleep "$SCRATCH/answer")" 5
while read -r duration; do
	between "milliseconds of a slow one" 20 "$(milliseconds "$duration")" 1e5
done < <(awk '/status=/ { print $5 }' "$SCRATCH/answer")

# All queries: their normal forms, as the server's statistics have them.
"${psql[@]}" -c "select pg_stat_statements_reset()" >/dev/null
answer_start "Which queries take most time in all?" "$pg_pid"
bench
answer_stop
for query in "UPDATE pgbench_accounts SET" "UPDATE pgbench_branches SET" "INSERT INTO pgbench_history"; do
	read -r calls least < <("${psql[@]}" -F' ' -c "select sum(calls), sum(total_exec_time)
		from pg_stat_statements where query like '$query%'")
	row=$(grep -F "\"$query" "$SCRATCH/answer")
	same "rows of $query" "$(wc -l <<<"$row")" 1
	same "calls of $query" "$(awk '{ print $4 }' <<<"$row")" "$calls"
	# The server leaves out the time before and after the execution.
	between "milliseconds of $query" "0.98 * $least" \
		"$(milliseconds "$(awk '{ print $5 }' <<<"$row")")" "2 * $least + 20000"
done

# Locks: the server logs each wait when it has ended.
log_from
answer_start "Which locks are waited for, and how long?" "$pg_pid"
"${psql[@]}" -c "do \$\$ begin
	lock table pgbench_tellers;
	while not exists (select from pg_locks where relation = 'pgbench_tellers'::regclass and not granted) loop
		perform pg_sleep(0.01);
	end loop;
	perform pg_sleep(0.5);
end \$\$" >/dev/null &
holder=$!
while :; do
	[ "$("${psql[@]}" -c "select count(*) from pg_locks
		where relation = 'pgbench_tellers'::regclass and granted")" = 0 ] || break
	pause
done
"${psql[@]}" -c "begin; lock table pgbench_tellers; commit"
wait "$holder"
answer_stop
waited=$(new_log | sed -n 's/.* acquired AccessExclusiveLock on relation .* after \([0-9.]*\) ms.*/\1/p')
[ -n "$waited" ] || fail "the server has logged no wait: $(new_log)"
relation=$("${psql[@]}" -c "select 'pgbench_tellers'::regclass::oid")
row=$(awk -v relation="$relation" '$(NF - 1) == relation' "$SCRATCH/answer")
same "waits" "$(awk '{ print $4 }' <<<"$row")" 1
between "milliseconds of the wait" "$waited - 1" \
	"$(milliseconds "$(awk '{ print $5 }' <<<"$row")")" "$waited + 200"

# Pages read, by relation: the server's own counts.
answer_start "What are the mean and the p99 of any pair, by any key?" "$pg_pid"
"${psql[@]}" -c "select pg_stat_reset()" >/dev/null
"${psql[@]}" -c "select count(*) from pgbench_accounts where filler is null" >/dev/null
sleep 1
answer_stop
read -r relation hits reads < <("${psql[@]}" -F' ' -c "select relfilenode, heap_blks_hit,
	heap_blks_read from pg_statio_user_tables join pg_class on oid = relid
	where pg_class.relname = 'pgbench_accounts'")
[ $((hits + reads)) -gt 1000 ] || fail "only $hits hits, $reads reads"
for which in false true; do
	same "pages of pgbench_accounts, hit: $which" \
		"$(awk -v r="$relation" -v h="$which" '$(NF - 1) == r && $NF == h { print $4 }' \
			"$SCRATCH/answer")" "$([ $which = true ] && echo "$hits" || echo "${reads#0}")"
done

# Callers, of one session, which says itself how many records of WAL it has written.
"${psql[@]}" -c "create table rows (a int)"
start "$pg_bin/psql" -XAtq -c "select pg_backend_pid()" -f -
backend=$answer
answer_start "Who calls this probe most?" "$backend"
tell "explain (analyze, wal, costs off, timing off, summary off)
	insert into rows select generate_series(1, 5000);"
until [[ $answer == *WAL:* ]]; do
	hear
done
answer_stop
records=$(sed 's/.*records=\([0-9]*\).*/\1/' <<<"$answer")
hits=$(sed -n 's/^postgresql:wal__insert: \([0-9]*\) hits.*/\1/p' "$SCRATCH/answer")
lost=$(sed -n 's/^# lost \([0-9]*\) hits of postgresql:wal__insert$/\1/p' "$SCRATCH/answer")
between "records of WAL" "$records" "$hits + ${lost:-0}" "$records + 20"
between "of them by heap_insert()" "$hits - 20" \
	"$(awk '/ heap_insert$/ { sum += $1 } END { print sum }' "$SCRATCH/answer")" "$hits"

# Two records: of each statement, one a transaction.
record_day()
{
	record_start "$1" -p "$pg_pid" --follow 'postgresql:query__start(str(arg0))' postgresql:query__done
	wait_tracing "$1" "$recorder"
	bench "$2"
	record_stop "$1"
}
record_day monday.ctf 20
record_day tuesday.ctf 40
answer "What has changed since yesterday?"
same "transactions, before and after" \
	"$(awk '$NF == "\"END;\"" { print $1, $2 }' "$SCRATCH/answer" | sort | uniq -c | xargs)" "2 40 80"

# The last queries of a session that is killed.
question="What happened in the last ten seconds before the crash?"
answer "$question" "$backend"
on_exit "rm -f /dev/shm/$backend.probectl"
for ((i = 0; i < 3; i++)); do
	tell "select 'query', $i;"
	until [ "$answer" = "query|$i" ]; do
		hear
	done
done
kill -KILL "$backend"
while kill -0 "$backend" 2>/dev/null; do
	pause
done
answer "$question" "$backend" 2
same "the last queries" "$(sed -n "s/.*\"select 'query', \([0-9]*\);\"$/\1/p" \
	"$SCRATCH/answer" | paste -sd' ')" "0 1 2"
finish
