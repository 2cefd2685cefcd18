#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# PostgreSQL under pgbench: every query is seen, with its text, as often as it ran; all probes
# can be enabled; afterwards the backends are as before.
. tests/integration/lib.sh
need_attach
need jq
pg_start
pg_bench_init 1

# Two clients whose first statement waits for a lock, so that their backends can be traced
# before they run anything else.
transactions=400
"$pg_bin/psql" -XAtqc "select pg_advisory_lock(42); select pg_sleep(600)" >/dev/null 2>&1 &
holder=$!
on_exit "stop_process $holder"
sleep 1

cat >"$SCRATCH/all.sql" <<'SQL'
\if :first
select pg_advisory_lock_shared(42);
\set first 0
\endif
\set id random(1, 100000)
select abalance from pgbench_accounts where aid = :id;
select 'second', :id;
SQL
"$pg_bin/pgbench" -n -c 2 -j 2 -t "$transactions" -D first=1 -f "$SCRATCH/all.sql" \
	>"$SCRATCH/pgbench.out" 2>&1 &
bench_pid=$!
on_exit "stop_process $bench_pid"
backends=
while :; do
	backends=$("$pg_bin/psql" -XAtc "select pid from pg_locks where locktype = 'advisory'
		and not granted order by pid" | paste -sd,)
	case $backends in *,*) break ;; esac
	pause
done
case $backends in
*,*) ;;
*) die "pgbench's two backends do not wait: '$backends', $(cat "$SCRATCH/pgbench.out")" ;;
esac
for backend in ${backends//,/ }; do
	save_state "$backend"
done

trace_start query --json -s 200 -b 4M -p "$backends" 'postgresql:query__start(str(arg0))'
for backend in ${backends//,/ }; do
	wait_on "$backend" postgresql:query__start
done
# pgbench's backends end with it; the test below compares their state afterwards.
kill "$holder"
"$pg_bin/psql" -XAtqc "select pg_terminate_backend(pid) from pg_locks
	where locktype = 'advisory' and granted and mode = 'ExclusiveLock'" >/dev/null
wait "$bench_pid" || fail "pgbench: $(tail -2 "$SCRATCH/pgbench.out")"
wait "$tracer_pid"
same "trace of backends that ended" "$?" 0
same "pgbench's transactions" "$(sed -n 's/.*actually processed: \([0-9]*\).*/\1/p' "$SCRATCH/pgbench.out")" \
	"$((2 * transactions))"

seen()
{
	jq -r 'select(.args) | .args[0]' "$SCRATCH/query.out" | grep -c "$1"
}
same "lost" "$(jq -s 'map(.lost // 0) | add // 0' "$SCRATCH/query.out")" 0
same "first statements" "$(seen '^select abalance from pgbench_accounts where aid = [0-9]*;$')" \
	"$((2 * transactions))"
same "second statements" "$(seen "^select 'second', [0-9]*;$")" "$((2 * transactions))"
same "all statements" "$(seen .)" "$((4 * transactions))"

# ---- All probes, on a backend that stays --------------------------------------------

coproc PSQL { exec "$pg_bin/psql" -XAtq 2>&1; }
on_exit "stop_process $PSQL_PID"
sql()
{
	echo "$1" >&"${PSQL[1]}"
	IFS= read -r -t 30 -u "${PSQL[0]}" answer || answer='no answer'
}
sql "select pg_backend_pid();"
backend=$answer
save_state "$backend"
save_state "$pg_pid"
# Some sites can only be punned; whether that works depends on the memory map.
trace_start all --count --json -v -p "$backend,$pg_pid" 'postgresql:*'
wait_on "$backend" postgresql:query__start
for ((i = 0; i < 50; i++)); do
	sql "select count(*) from pgbench_accounts where aid < 100 + $i;"
	same "a query under trace" "$answer" "$((99 + i))"
done
trace_stop all
refusals "$SCRATCH/all.err"
for name in query__start query__done query__parse__start query__execute__done; do
	same "$name" "$(jq -s "map(select(.name == \"$name\").hits // 0) | add // 0" "$SCRATCH/all.out")" 50
done
same_state "$backend"
same_state "$pg_pid"
sql "select 6 * 7;"
same "the backend answers" "$answer" 42
finish
