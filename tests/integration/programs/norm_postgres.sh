#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Queries of a PostgreSQL server that differ in their literals are one row.
. tests/integration/lib.sh
need_attach
need jq
pg_start
save_state "$pg_pid"
queries=20

trace_start queries --json -t latency --follow -k 'norm(str(arg0))' -p "$pg_pid" \
	postgresql:query__start postgresql:query__done
wait_tracing queries
for ((i = 0; i < queries; i++)); do
	"$pg_bin/psql" -XAtqc "select $i, 'it''s $i', -1 + -$i as a_name_that_makes_the_text_longer, pg_sleep(0.00$i)" >/dev/null
done
trace_stop queries
same "rows" "$(jq -c 'select(.keys) | [.keys[0], .count]' "$SCRATCH/queries.out")" \
	"[\"select ?, ?, ? + ? as a_name_that_makes_the_text_longer, pg_sleep(?)\",$queries]"
same "lost" "$(jq 'select(.lost).lost' "$SCRATCH/queries.out")" ""
same_state "$pg_pid"
finish
