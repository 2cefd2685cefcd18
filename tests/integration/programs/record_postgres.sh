#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A server's record while pgbench uses it: each backend, from its fork to its end, with every
# query and its text, and without complaints from babeltrace2.
. tests/integration/lib.sh
need_attach
need babeltrace2
need jq
pg_start
pg_bench_init 1
save_state "$pg_pid"

transactions=100
cat >"$SCRATCH/all.sql" <<'SQL'
\set id random(1, 100000)
select abalance from pgbench_accounts where aid = :id;
update pgbench_accounts set abalance = abalance + 1 where aid = :id;
SQL
env --default-signal=INT "$PROBECTL" record -b 16M --follow --rotate 500ms --keep-going -p "$pg_pid" \
	-o "$SCRATCH/record" 'postgresql:query__*(str(arg0))' 'postgresql:*' \
	>"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
recorder=$!
on_exit "end_process $recorder"
wait_on "$pg_pid" postgresql:query__start
"$pg_bin/pgbench" -n -c 2 -j 2 -t "$transactions" -f "$SCRATCH/all.sql" >"$SCRATCH/pgbench.out" 2>&1 ||
	fail "pgbench: $(tail -2 "$SCRATCH/pgbench.out")"
kill -INT "$recorder"
wait "$recorder"
same "status" "$?" 0
same_state "$pg_pid"

babeltrace2 "$SCRATCH/record" >"$SCRATCH/txt" 2>"$SCRATCH/bt" || fail "babeltrace2 failed"
[ ! -s "$SCRATCH/bt" ] || fail "babeltrace2: $(head -3 "$SCRATCH/bt")"
# queries PROBE TEXT: events with such a query
queries()
{
	grep -c " postgresql:$1: .* arg0 = \"$2\" }\$" "$SCRATCH/txt"
}
same "all events" "$(grep -vc ' probectl:thread: ' "$SCRATCH/txt")" \
	"$(sed -n 's/^probectl: \([0-9]*\) hits recorded.*/\1/p' "$SCRATCH/err")"
for probe in query__start query__done; do
	same "$probe, select" "$(queries $probe 'select abalance from pgbench_accounts where aid = [0-9]*;')" \
		$((2 * transactions))
	same "$probe, update" "$(queries $probe 'update pgbench_accounts set .* where aid = [0-9]*;')" \
		$((2 * transactions))
done
# Before, pgbench queries the size of its tables.
[ "$(grep -c ' postgresql:transaction__commit: ' "$SCRATCH/txt")" -ge $((4 * transactions)) ] ||
	fail "only $(grep -c ' postgresql:transaction__commit: ' "$SCRATCH/txt") commits"
[ "$(grep -c ' postgresql:lwlock__acquire: ' "$SCRATCH/txt")" -gt $((4 * transactions)) ] ||
	fail "hardly a lock was taken"
[ "$(sed -n 's/.* postgresql:query__start: .* tid = \([0-9]*\),.*/\1/p' "$SCRATCH/txt" | sort -u | wc -l)" -ge 2 ] ||
	fail "not two backends"
# Parts follow each other in time.
for part in "$SCRATCH"/record/0*; do
	babeltrace2 --clock-seconds "$part" 2>/dev/null | sed -n '1s/ .*//p;$s/ .*//p'
done >"$SCRATCH/times"
LC_ALL=C sort -c "$SCRATCH/times" || fail "parts are not in order: $(cat "$SCRATCH/times")"

# By the names that the catalogue has, in another place of each probe.
"$PROBECTL" report --json --pairs -k 'norm(query)' -k mode "$SCRATCH/record" >"$SCRATCH/names.json" ||
	fail "no report by names"
query='select abalance from pgbench_accounts where aid = ?;'
same "queries by their normal form" "$(jq "select(.type == \"key\" and .name == \"query__start\" and .value == \"$query\").count" \
	"$SCRATCH/names.json")" $((2 * transactions))
same "pairs by their normal form" "$(jq "select(.type == \"pair_key\" and .name == \"query__done\" and .value == \"$query\").count" \
	"$SCRATCH/names.json")" $((2 * transactions))
"$PROBECTL" export -F folded --count -k query "$SCRATCH/record" >"$SCRATCH/folded" || fail "no export by names"
grep -q 'query select abalance from pgbench_accounts where aid = [0-9]*: 1$' "$SCRATCH/folded" ||
	fail "no texts of queries: $(head -3 "$SCRATCH/folded")"
"$PROBECTL" report -k qurey "$SCRATCH/record" >/dev/null 2>"$SCRATCH/err"
same "status without such a name" "$?" 2
grep -qE "^probectl: postgresql:[a-z_]+: the key 'qurey': there is no argument 'qurey', the probe has " "$SCRATCH/err" ||
	fail "no such name: $(cat "$SCRATCH/err")"
finish
