#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# PostgreSQL by the names of its arguments: texts of queries, the words for locks.
. tests/integration/lib.sh
need_attach
need jq
pg_start
psql=("$pg_bin/psql" -XAtq)
export XDG_CONFIG_HOME=$SCRATCH/config
"${psql[@]}" -c 'create table t(a int)' || die "no table"

trace_start lines -p "$pg_pid" --follow postgresql:query__start postgresql:query__done
wait_tracing lines
"${psql[@]}" -c 'select 1' >/dev/null
trace_stop lines
grep -q 'postgresql:query__start *query="select 1"$' "$SCRATCH/lines.out" || fail "$(cat "$SCRATCH/lines.out")"

trace_start filter --json -p "$pg_pid" --follow -f 'query == "select 2"' 'postgresql:query__start(query)'
wait_tracing filter
"${psql[@]}" -c 'select 1' >/dev/null
"${psql[@]}" -c 'select 2' >/dev/null
trace_stop filter
same "a filter" "$(jq -c 'select(.args).args' "$SCRATCH/filter.out")" '["select 2"]'

# The begin of a pair.
queries=(-p "$pg_pid" --follow postgresql:query__start postgresql:query__done)
trace_start texts --json -t latency -k 'begin.query' -f 'begin.query != "select 2" && duration > 0' "${queries[@]}"
texts_pid=$tracer_pid
wait_tracing texts
trace_start kinds --json -t latency -k 'norm(begin.query)' "${queries[@]}"
kinds_pid=$tracer_pid
wait_tracing kinds
trace_start norms --json -t latency -k 'norm(query)' -f 'starts_with(begin.query, "select")' "${queries[@]}"
wait_tracing norms
for number in 1 2 3 3; do
	"${psql[@]}" -c "select $number" >/dev/null
done
trace_stop norms
tracer_pid=$kinds_pid
trace_stop kinds
tracer_pid=$texts_pid
trace_stop texts
# rows NAME: the keys, each with its count
rows()
{
	jq -r 'select(.keys?) | "\(.count) \(.keys[0])"' "$SCRATCH/$1.out" | sort | paste -sd,
}
same "queries by their texts" "$(rows texts)" "1 select 1,2 select 3"
same "by the form of the begin's" "$(rows kinds)" "4 select ?"
same "by the form of the end's" "$(rows norms)" "4 select ?"
"$PROBECTL" trace -t latency -k begin.colour "${queries[@]}" >"$SCRATCH/out" 2>"$SCRATCH/err"
same "status of a mistake" $? 2
same "a mistake" "$(cat "$SCRATCH/err")" "probectl: postgresql:query__start: the key 'begin.colour': there is no argument 'colour', the probe has query"

# A session holds a lock, and two others wait for it: of these, one asks for all access.
trace_start locks -p "$pg_pid" --follow -f 'lockmode == AccessExclusiveLock && locktype == relation' \
	'postgresql:lock__wait__start(locktype,lockmode)'
wait_tracing locks
locks_pid=$tracer_pid
trace_start modes -c -k lockmode -k arg5 -p "$pg_pid" --follow postgresql:lock__wait__start
wait_tracing modes
"${psql[@]}" -c 'begin; lock table t in share mode; select pg_sleep(1.5)' >/dev/null &
holder=$!
for ((i = 0; i < 100; i++)); do
	[ "$("${psql[@]}" -c "select count(*) from pg_locks where mode = 'ShareLock' and granted")" = 0 ] || break
	sleep 0.05
done
"${psql[@]}" -c 'begin; lock table t in row exclusive mode; commit' &
waiter=$!
"${psql[@]}" -c 'begin; lock table t; commit'
wait "$holder" "$waiter"
trace_stop modes
tracer_pid=$locks_pid
trace_stop locks
same "keys have words" "$(sed -n 's/.*lock__wait__start  *//p' "$SCRATCH/modes.out" | sort -k2 | tr -s ' ' | paste -sd,)" \
	"1 AccessExclusiveLock 8,1 RowExclusiveLock 3"
same "locks" "$(sed -n 's/.*lock__wait__start *//p' "$SCRATCH/locks.out")" \
	"locktype=relation lockmode=AccessExclusiveLock"
finish
