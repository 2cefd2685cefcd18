#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# PostgreSQL on aarch64: the commits and queries that probectl counts are those that the server does.
. tests/integration/lib.sh
. tests/aarch64/lib.sh

pg_start
coproc PSQL { exec "$pg_bin/psql" -XAtq 2>&1; }
on_exit "kill $PSQL_PID 2>/dev/null"
sql()
{
	echo "$1" >&"${PSQL[1]}"
	IFS= read -r -t 60 -u "${PSQL[0]}" answer || answer='no answer'
}
# What the server has counted until the statement before the last one: it writes that down only beside
# what it counts of a table.
commits()
{
	sql "select count(*), pg_stat_force_next_flush() from pg_class;"
	sql "select xact_commit from pg_stat_database where datname = current_database();"
}
sql "select pg_backend_pid();"
target_pid=$answer
save_state "$target_pid"
toggle enable postgresql:transaction__commit postgresql:query__start
commits
before=$answer
first=$(hits postgresql:transaction__commit)
queries=$(hits postgresql:query__start)
for ((i = 0; i < 30; i++)); do
	sql "select $i;"
	same "a query" "$answer" "$i"
done
commits
same "PostgreSQL's commits" "$(($(hits postgresql:transaction__commit) - first))" "$((answer - before))"
same "PostgreSQL's queries" "$(($(hits postgresql:query__start) - queries))" 32
toggle disable postgresql:transaction__commit postgresql:query__start
same_state "$target_pid"
sql "select 6 * 7;"
same "the backend answers" "$answer" 42
finish
