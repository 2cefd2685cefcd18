#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Statements of PostgreSQL by each protocol: as many as pg_stat_statements has counted, in a table
# with room for their normal forms and not for their texts; taking as long, and the slow ones with the
# texts and times that log_min_duration_statement reports.
. tests/integration/lib.sh
need_attach
need jq
PG_OPTIONS="-c shared_preload_libraries=pg_stat_statements -c pg_stat_statements.track_planning=off"
pg_start
psql=("$pg_bin/psql" -XAtq)
"${psql[@]}" -c 'create extension pg_stat_statements' 2>/dev/null || skip "postgresql-contrib is not installed"
pg_bench_init 1

statements=(-p "$pg_pid" --follow postgresql:query__execute__start
	postgresql:query__execute__done postgresql:statement__status)
transactions=40
# pgbench's script, without statements that only begin and end transactions: of the prepared ones,
# pg_stat_statements counts only the first.
cat >"$SCRATCH/four.sql" <<'SQL'
\set id random(1, 100000)
update pgbench_accounts set abalance = abalance + 1 where aid = :id;
select abalance from pgbench_accounts where aid = :id;
insert into pgbench_history (tid, bid, aid, delta, mtime) values (1, 1, :id, 1, now());
with gone as (delete from pgbench_history where aid = :id returning 1) select count(*) from gone;
SQL

# forms: rows by text, with what differs between a text and its normal form made equal
forms()
{
	sed -E 's/\$[0-9]+|\?/?/g; s/;$//; s/values \(([^)]*)\)/values (...)/; s/now\(\)//g' | sort
}

for protocol in simple extended prepared; do
	trace_start "$protocol" --json -t latency --keys 16 -k 'norm(begin.status)' "${statements[@]}"
	wait_tracing "$protocol"
	"${psql[@]}" -c 'select pg_stat_statements_reset()' >/dev/null
	"$pg_bin/pgbench" -n -M "$protocol" -c 2 -t "$transactions" -f "$SCRATCH/four.sql" >"$SCRATCH/bench" 2>&1 ||
		die "$(cat "$SCRATCH/bench")"
	trace_stop "$protocol"
	same "$protocol: what found no room" "$(jq -c 'select(.other)' "$SCRATCH/$protocol.out")" ""
	counted=$("${psql[@]}" -F ' ' -c "select calls, query from pg_stat_statements
		where query like '%pgbench_accounts%' or query like '%pgbench_history%' order by 2" | forms)
	same "$protocol: statements" "$(jq -r 'select(.keys? and (.keys[0] // "" |
		test("^(update|select ab|insert|with)"))) | "\(.count) \(.keys[0])"' "$SCRATCH/$protocol.out" | forms)" "$counted"
	same "$protocol: kinds" "$(wc -l <<<"$counted")" 4
	same "$protocol: as many as there were" "$(cut -d' ' -f1 <<<"$counted" | sort -u)" "$((2 * transactions))"
	# What lies between the probes and what pg_stat_statements measures takes time, too: of its own,
	# and where the scheduler takes the processor away.
	measured=$("${psql[@]}" -c "select round(1e6 * sum(total_exec_time)) from pg_stat_statements
		where query like '%pgbench_accounts%' or query like '%pgbench_history%'")
	ours=$(jq -s 'map(select(.keys? and (.keys[0] // "" |
		test("^(update|select ab|insert|with)")))) | map(.sum) | add' "$SCRATCH/$protocol.out")
	[ "$ours" -ge "$measured" ] || fail "$protocol: $ours ns, pg_stat_statements has $measured"
	same "$protocol: unmatched" "$(jq -s 'map(.unmatched // 0) | add' "$SCRATCH/$protocol.out")" 0
done

# ---- How it is asked for ----------------------------------------------------------------

# mistake TEXT ARGS...: what probectl says, and that it is a wrong usage
mistake()
{
	"$PROBECTL" trace -p "$pg_pid" -d 1 "${@:2}" >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "status of a mistake" $? 2
	same "a mistake" "$(cat "$SCRATCH/err")" "probectl: $1"
}
pair=(postgresql:query__execute__start postgresql:query__execute__done)
mistake "postgresql:query__execute__start: the key 'begin.status': there is no argument 'status', the probe has none whose name is known; name postgresql:statement__status as well, and it has that one's" \
	-t latency -k begin.status "${pair[@]}"
mistake "postgresql:statement__status gives arguments to a begin of the same thread: that is not possible if begins are matched by an expression" \
	-t latency --match tid "${pair[@]}" postgresql:statement__status
mistake "tracer 'latency' takes the time from one PROBE to another: name both, the begin first, or add --pairs auto, which finds pairs by their names (X__start and X__done)" \
	-t latency postgresql:query__execute__start postgresql:statement__status
# Found by names, and left in the process.
coproc STAYS { exec "${psql[@]}" 2>&1; }
# bash forgets the variable once it has noticed the end of the process.
# shellcheck disable=SC2153 # coproc sets it
stays=$STAYS_PID
on_exit "stop_process $stays"
echo "select pg_backend_pid();" >&"${STAYS[1]}"
IFS= read -r -t 30 -u "${STAYS[0]}" backend
trace_start auto --json -t latency --pairs auto -k begin.status -p "$backend" "${pair[@]}" postgresql:statement__status
wait_tracing auto
ctl enable -t latency -p "$backend" "${pair[@]}"
echo "insert into pgbench_history (tid) values (2); select 3;" >&"${STAYS[1]}"
IFS= read -r -t 30 -u "${STAYS[0]}" _
ctl read --json -p "$backend"
same "statements of a session that stays" "$(jq .count "$SCRATCH/out")" 2
ctl disable -p "$backend" "${pair[@]}"
trace_stop auto
same "pairs by their names" "$(jq -r 'select(.keys?) | "\(.count) \(.keys[0])"' "$SCRATCH/auto.out" | sort | paste -sd,)" \
	'1 insert into pgbench_history (tid) values (2);,1 select 3;'
kill "$stays"
wait "$stays"

# ---- Slow ones, with their texts -------------------------------------------------------

trace_start slow --json -t span --min 20ms -p "$pg_pid" --follow postgresql:query__execute__start \
	postgresql:query__execute__done 'postgresql:statement__status(status)'
wait_tracing slow
echo "select pg_sleep(0.02), 'a';" >"$SCRATCH/sleep.sql"
export PGOPTIONS="-c log_min_duration_statement=20"
for protocol in simple extended prepared; do
	"$pg_bin/pgbench" -n -M "$protocol" -t 1 -f "$SCRATCH/sleep.sql" >"$SCRATCH/bench" 2>&1 ||
		die "$(cat "$SCRATCH/bench")"
done
# Statements in others, and those that fail.
"${psql[@]}" >/dev/null 2>&1 <<'SQL'
prepare p as select pg_sleep(0.02), 'b';
execute p;
select pg_sleep(0.02) / 0;
select 1 / 0;
do $$ begin perform pg_sleep(0.02); end $$;
insert into pgbench_history (tid) select 1 from pg_sleep(0.02);
copy (select pg_sleep(0.02)) to stdout;
SQL
trace_stop slow
same "slow statements" "$(jq -r 'select(.begin) | .begin.args[0]' "$SCRATCH/slow.out")" \
	"$(sed -nE 's/.*duration: .* ms  (statement|execute [^:]*): //p' "$pg_dir/log")"
same "in all" "$(jq -s 'map(select(.begin)) | length' "$SCRATCH/slow.out")" 7
# milliseconds: ours, and the log's, line by line; the log's begin earlier and end later.
paste -d' ' <(jq 'select(.begin) | .duration / 1e6' "$SCRATCH/slow.out") \
	<(sed -nE 's/.*duration: ([0-9.]*) ms.*/\1/p' "$pg_dir/log") >"$SCRATCH/times"
awk '$1 > $2 + 0.01 { exit 1 }' "$SCRATCH/times" || fail "times: $(cat "$SCRATCH/times")"
same "the begin is the statement's" "$(jq -r 'select(.begin) | .begin.name' "$SCRATCH/slow.out" | sort -u)" query__execute__start
jq -e -s 'all(.[] | select(.begin); .ts - .begin.ts - .duration | fabs < 1000000)' "$SCRATCH/slow.out" >/dev/null ||
	fail "begins and durations differ: $(head -3 "$SCRATCH/slow.out")"

# ---- A text that nobody has seen -------------------------------------------------------

# The trace begins while the first of a message's two statements waits for a lock.
unset PGOPTIONS
coproc HOLDER { exec "${psql[@]}" 2>&1; }
# shellcheck disable=SC2153 # coproc sets it
on_exit "stop_process $HOLDER_PID"
echo "select pg_advisory_lock(42);" >&"${HOLDER[1]}"
IFS= read -r -t 30 -u "${HOLDER[0]}" _
"${psql[@]}" -c "select pg_advisory_lock(42); select 7" >/dev/null &
waiter=$!
while :; do
	[ "$("${psql[@]}" -c "select count(*) from pg_locks where locktype = 'advisory' and not granted")" = 0 ] || break
	pause
done
trace_start unseen --json -t span -p "$pg_pid,$(pg_backends | paste -sd,)" --follow postgresql:query__execute__start \
	postgresql:query__execute__done 'postgresql:statement__status(status)'
wait_tracing unseen
"${psql[@]}" -c 'select 8' >/dev/null
echo "select pg_advisory_unlock(42);" >&"${HOLDER[1]}"
wait "$waiter"
trace_stop unseen
same "known, and unknown texts" "$(jq -c 'select(.begin) | .begin.args' "$SCRATCH/unseen.out" | sort | paste -sd,)" \
	'["select 8"],["select pg_advisory_unlock(42);"],[]'
finish
