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
while [ "$("${psql[@]}" -c "select count(*) from pg_locks where mode = 'ShareLock' and granted")" = 0 ]; do
	pause
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

# ---- All of its probes -----------------------------------------------------------------

"${psql[@]}" -c 'insert into t select -i from generate_series(1, 20000) i' || die "no rows"
trace_start all -b 16M --keep-going -p "$pg_pid" --children "$pg_pid" --follow 'postgresql:*'
wait_tracing all
database=$("${psql[@]}" -c "select oid from pg_database where datname = current_database()")
relation=$("${psql[@]}" -c "select pg_relation_filenode('t')")
"${psql[@]}" >/dev/null 2>&1 <<-'S'
	select a from t order by a desc, -a limit 1;
	set work_mem = '64kB';
	select count(*) from (select a from t order by a) s;
	begin; insert into t values (0); rollback;
	checkpoint;
	select pg_switch_wal();
S
trace_stop all
sed -E 's/^([^ ]+ +){3}[^:]* ([a-z_]+:)/\2/; s/  +/ /; s/^postgresql://' "$SCRATCH/all.out" | sort -u >"$SCRATCH/lines"
read -r written added removed recycled < <(sed -nE 's/.*checkpoint complete: wrote ([0-9]+) buffers.*; ([0-9]+) WAL file\(s\) added, ([0-9]+) removed, ([0-9]+) recycled.*/\1 \2 \3 \4/p' "$pg_dir/log" | tail -1)
page="fork=main block=[0-9]+ tablespace=[0-9]+ database=$database relation=$relation"
while read -r line; do
	grep -qxE "$line" "$SCRATCH/lines" || fail "no line '$line', but $(grep "^${line%% *} " "$SCRATCH/lines" | head -3)"
done <<-L
	transaction__(start|commit|abort) lxid=[0-9]+
	sort__start kind=heap unique=false keys=2 work_mem_kb=4096 random_access=false role=serial
	sort__start kind=datum unique=false keys=1 work_mem_kb=64 random_access=false role=serial
	sort__done external=false used=[0-9]+
	sort__done external=true used=[0-9]+
	buffer__read__start $page backend=-1 extend=false
	buffer__read__done $page backend=-1 extend=false hit=true
	buffer__flush__start $page
	buffer__flush__done $page
	smgr__md__write__start $page backend=-1
	smgr__md__write__done $page backend=-1 written=8192 requested=8192
	smgr__md__read__done fork=[a-z]+ block=[0-9]+ .* backend=-1 read=8192 requested=8192
	lwlock__acquire lock="WALWrite" mode=exclusive
	lwlock__release lock="WALWrite"
	wal__insert resource_manager=[0-9]+ flags=[0-9]+
	checkpoint__start flags=[0-9]+
	checkpoint__done written=$written buffers=8192 wal_added=$added wal_removed=$removed wal_recycled=$recycled
	buffer__sync__start buffers=8192 dirty=[0-9]+
	buffer__sync__written buffer=[0-9]+
	buffer__sync__done buffers=8192 written=[0-9]+ dirty=[0-9]+
	(clog|subtrans|multixact)__checkpoint__start normal=true
L
finish
