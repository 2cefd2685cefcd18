#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Exports: each format contains what babeltrace2 finds in the record, and fails as it should.
# tests/golden/export has the exact output for known hits.
. tests/integration/lib.sh
need babeltrace2 prlimit python3
need_attach

# export_as NAME FORMAT ARGS…: writes $SCRATCH/NAME.FORMAT
export_as()
{
	local name=$1 format=$2
	shift 2
	"$PROBECTL" export --format="$format" -o "$SCRATCH/$name.$format" "$SCRATCH/$name" "$@" \
		2>"$SCRATCH/err" || fail "$name as $format: $(head -3 "$SCRATCH/err")"
}

# counts NAME FORMAT: hits by probe, one per line, of an exported file
counts()
{
	python3 tests/integration/record/export.py "$2" "$SCRATCH/$1.$2" >"$SCRATCH/$1.$2.counts" ||
		fail "$1 as $2 is not what it should be"
	cat "$SCRATCH/$1.$2.counts"
}

# check_counts NAME: each format contains the hits that babeltrace2 prints
check_counts()
{
	babeltrace2 "$SCRATCH/$1" >"$SCRATCH/$1.txt" 2>"$SCRATCH/$1.bt" || fail "babeltrace2: $1"
	! grep -v 'Tracer discarded' "$SCRATCH/$1.bt" || fail "babeltrace2 says more of $1"
	grep -v ' probectl:' "$SCRATCH/$1.txt" |
		sed -n 's/^\[[^]]*\] ([^)]*) [^ ]* \([^ ]*:[^ ]*\): { .*/\1/p' |
		LC_ALL=C sort | uniq -c | awk '{ print $2, $1 }' >"$SCRATCH/$1.counts"
	[ -s "$SCRATCH/$1.counts" ] || fail "there is nothing in $1"
	for format in json csv; do
		export_as "$1" "$format"
		same "$1 as $format" "$(counts "$1" "$format" | grep -v '^lost ')" \
			"$(cat "$SCRATCH/$1.counts")"
	done
	export_as "$1" trace-event
}

# number NAME KIND: from a trace-event file
number()
{
	counts "$1" trace-event | awk -v kind="$2" '$1 == kind { print $2 }'
}

# failing STATUS WORDS ARGS…: `probectl export ARGS` prints one line with these words
failing()
{
	local want=$1 words=$2
	shift 2
	"$PROBECTL" export "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	same "status of: export $*" "$?" "$want"
	same "lines of: export $*" "$(wc -l <"$SCRATCH/err")" 1
	grep -qF -e "$words" "$SCRATCH/err" || fail "export $*: $(cat "$SCRATCH/err")"
}

# ---- Pairs in several threads -----------------------------------------------------------

start "$TARGETS/pairs" 4 50
save_state "$target_pid"
record_start pairs 'pairs:*' -p "$target_pid"
wait_on "$target_pid" pairs:step__start
ask ''
truth=$answer
record_stop pairs
same_state "$target_pid"
value() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" <<<"$truth"; }
check_counts pairs
requests=$(($(value "done") + $(value failed)))
steps=$(value steps)
jobs=$(value jobs)
# Each thread has a request__done without a begin, and a request__start without an end.
same "slices" "$(number pairs slices)" "$((requests + steps))"
same "requests that go on" "$(number pairs open)" 4
same "points" "$(number pairs instants)" "$((4 + 2 * jobs))"
same "threads" "$(number pairs threads)" 5
# A thread that ends before its name is read has none.
[ "$(number pairs named)" -ge 1 ] || fail "no thread has a name"
export_as pairs trace-event --match arg0 'pairs:job*'
same "jobs from thread to thread" "$(number pairs asyncs)" "$jobs"
same "nothing else" "$(number pairs slices)$(number pairs instants)" 00

# Stacks appear as often as the program made the calls, with no more time than these took.
export_as pairs folded --count
weight() { awk -v end="$1" '$0 ~ end " [0-9]+$" { n += $NF } END { print n + 0 }' "$SCRATCH/pairs.folded"; }
same "requests in stacks" "$(weight ';pairs:request')" "$((requests + 4))"
same "steps in requests" "$(weight ';pairs:request;.*pairs:step')" "$steps"
export_as pairs flamegraph --count
within() { awk -v frame="$1" '$0 ~ frame { n += $NF } END { print n }' "$SCRATCH/pairs.folded"; }
for frame in request job; do
	same "hits in $frame" "$(counts pairs flamegraph | sed -n "s/^pairs:$frame //p")" \
		"$(within ";pairs:${frame}[; ]")"
done
same "hits in all" "$(counts pairs flamegraph | sed -n 's/^all //p')" "$(within '')"
export_as pairs folded
awk '{ n += $NF } END { exit !(n > 0) }' "$SCRATCH/pairs.folded" || fail "stacks take no time"
grep -v '^[^;]*\(;pairs:[a-z]*\)* [0-9]*$' "$SCRATCH/pairs.folded" && fail "no folded stacks"

# Functions of an interpreter are frames by their own names.
if [ -x /usr/bin/python3.11 ]; then
	printf 'def inner(): return 1\ndef outer(): return inner()\nouter()\n' >"$SCRATCH/calls.py"
	"$PROBECTL" record -q -s 64 -o "$SCRATCH/calls" 'python:function*' -- \
		/usr/bin/python3.11 "$SCRATCH/calls.py" || fail "record: Python"
	export_as calls folded --key 'str(arg1)'
	grep -q '^python3.11;<module>;outer;inner [0-9]*$' "$SCRATCH/calls.folded" ||
		fail "no frames of functions: $(tail -3 "$SCRATCH/calls.folded")"
fi

# Through a pipe, and with another name of the format, the output is the same.
export_as pairs json
for format in csv folded flamegraph trace-event; do
	export_as pairs "$format"
	"$PROBECTL" export --format="$format" - <"$SCRATCH/pairs.json" >"$SCRATCH/piped" ||
		fail "$format through a pipe"
	cmp -s "$SCRATCH/piped" "$SCRATCH/pairs.$format" || fail "$format through a pipe differs"
done
"$PROBECTL" export -F perfetto "$SCRATCH/pairs" | cmp -s - "$SCRATCH/pairs.trace-event" ||
	fail "perfetto is not trace-event"

# ---- Live, until Ctrl-C ------------------------------------------------------------------

start "$TARGETS/hits" 2
save_state "$target_pid"
env --default-signal=INT "$PROBECTL" trace --json -o "$SCRATCH/live.pipe" -p "$target_pid" hits:work \
	2>/dev/null &
tracer=$!
on_exit "end_process $tracer"
wait_on "$target_pid" hits:work
ask 1000
kill -INT "$tracer"
wait "$tracer" || fail "trace failed"
"$PROBECTL" export -F csv - <"$SCRATCH/live.pipe" -o "$SCRATCH/live.csv" || fail "no CSV of JSON"
same "hits of trace --json" "$(counts live csv)" "hits:work 2000"
grep -q ',0x[0-9a-f]*,,,' "$SCRATCH/live.csv" || fail "the address is missing"
same_state "$target_pid"

# ---- Parts, and losses -------------------------------------------------------------------

"$PROBECTL" record -q --rotate 64k -o "$SCRATCH/parts" loop:nop -- \
	"$TARGETS/loop" -s nop -n 20000 >/dev/null || fail "record: parts"
[ -e "$SCRATCH/parts/000002/metadata" ] || fail "there is one part only"
check_counts parts
export_as parts json
same "a part's hits" "$("$PROBECTL" export -F json "$SCRATCH/parts/000001")" \
	"$(head -n "$(babeltrace2 "$SCRATCH/parts/000001" | grep -vc ' probectl:')" "$SCRATCH/parts.json")"
"$PROBECTL" record -q -b 4k -o "$SCRATCH/lost" loop:nop -- "$TARGETS/loop" -s nop -n 2000000 \
	>/dev/null 2>&1
check_counts lost
grep -q 'warning: [0-9]* hits were lost when this was recorded' "$SCRATCH/err" || fail "no loss is told"
lost=$(counts lost csv | sed -n 's/^lost //p')
same "hits and losses" "$((lost + $(sed -n 's/^loop:nop //p' "$SCRATCH/lost.counts")))" 2000000
same "losses of trace-event" "$(number lost lost)" "$lost"

# ---- What fails ----------------------------------------------------------------------------

failing 2 "no format given" "$SCRATCH/pairs"
failing 2 "--format 'xml': use json" --format xml "$SCRATCH/pairs"
failing 2 "give one record" --format csv
failing 2 "--key and --match" --format csv --key arg0 "$SCRATCH/pairs"
failing 2 "'1' is not a key" --format folded --key 1 "$SCRATCH/pairs"
failing 2 "give one record" --format csv ""
failing 1 "there is no such folder" --format csv "$SCRATCH/nothing"
failing 1 "there is no record in it" --format csv "$TARGETS"
failing 1 "there is no end of one" --format folded "$SCRATCH/parts"
failing 1 "matches no hit" --format csv "$SCRATCH/pairs" 'pairs:*' nobody:nothing
failing 1 "cannot create" --format csv -o "$SCRATCH/nothing/file" "$SCRATCH/pairs"
for format in json csv folded flamegraph trace-event; do
	failing 1 "No space left on device" --format "$format" -o /dev/full "$SCRATCH/pairs"
	"$PROBECTL" export --format "$format" "$SCRATCH/pairs" 2>"$SCRATCH/err" | head -c 1 >/dev/null
	same "$format to a pipe that is closed" "${PIPESTATUS[0]}$(cat "$SCRATCH/err")" 0
done
(
	ulimit -f 8
	"$PROBECTL" export --format json -o "$SCRATCH/limit" "$SCRATCH/parts" 2>"$SCRATCH/err"
	[ $? = 1 ] && grep -q 'File too large' "$SCRATCH/err"
) || fail "a file that may not grow: $(cat "$SCRATCH/err")"
echo '{"hits":1}' >"$SCRATCH/table"
"$PROBECTL" export --format csv - <"$SCRATCH/table" >/dev/null 2>"$SCRATCH/err"
same "status for other JSON" "$?" 1
grep -q 'standard input, line 1: this is not a hit' "$SCRATCH/err" || fail "JSON: $(cat "$SCRATCH/err")"

# If the record could not be read, nothing is reported about pairs.
echo nonsense | "$PROBECTL" export --format folded - >"$SCRATCH/out" 2>"$SCRATCH/err"
same "status of nonsense" "${PIPESTATUS[1]}" 1
same "lines about nonsense" "$(wc -l <"$SCRATCH/err")" 1
grep -q 'standard input, line 1: this is not JSON' "$SCRATCH/err" || fail "nonsense: $(cat "$SCRATCH/err")"

# A part without its end: everything else is exported, then an error says what was not read.
cp -r "$SCRATCH/parts" "$SCRATCH/cut"
for stream in "$SCRATCH"/cut/000002/stream*; do truncate -s -100 "$stream"; done
"$PROBECTL" export --format json "$SCRATCH/cut" >"$SCRATCH/cut.json" 2>"$SCRATCH/err"
same "status of a damaged record" "$?" 1
grep -q 'cut/000002/stream_[0-9_cpu]*: the last packet is cut off: [0-9]* bytes of the record were not' \
	"$SCRATCH/err" || fail "damage: $(cat "$SCRATCH/err")"
for part in "$SCRATCH"/cut/0*; do
	"$PROBECTL" export --format json "$part" 2>/dev/null
	same "status of ${part##*/}" "$?" "$([ "${part##*/}" = 000002 ] && echo 1 || echo 0)"
done >"$SCRATCH/parts.json"
same "hits around the damage" "$(grep -c '"name"' "$SCRATCH/cut.json")" \
	"$(grep -c '"name"' "$SCRATCH/parts.json")"
[ "$(grep -c '"name"' "$SCRATCH/cut.json")" -gt \
	"$(babeltrace2 "$SCRATCH/parts/000001" | grep -vc ' probectl:')" ] || fail "nothing behind the damage"

# ---- PostgreSQL ----------------------------------------------------------------------------

pg_start
pg_bench_init 1
record_start pg --keep-going --follow -s 64 -b 8M 'postgresql:*' -p "$pg_pid"
wait_on "$pg_pid" postgresql:query__start
pg_as_user env PGHOST="$PGHOST" PGUSER="$PGUSER" PGDATABASE="$PGDATABASE" \
	"$pg_bin/pgbench" -n -c 2 -t 100 >"$SCRATCH/bench" 2>&1 || fail "pgbench: $(tail -2 "$SCRATCH/bench")"
record_stop pg
check_counts pg
# pgbench's script has seven queries; it runs some more before it begins.
queries=$(sed -n 's/^postgresql:query__start //p' "$SCRATCH/pg.counts")
[ "$queries" -ge 1400 ] || fail "there are $queries queries"
[ "$(number pg slices)" -gt "$queries" ] || fail "few slices: $(number pg slices)"
export_as pg folded
grep -q '^postgres.*;postgresql:transaction;.*postgresql:query-execute\|;postgresql:query.*;postgresql:' \
	"$SCRATCH/pg.folded" || fail "no query in a stack: $(head -3 "$SCRATCH/pg.folded")"
finish
