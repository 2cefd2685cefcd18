#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tracers compared with what real programs report: PostgreSQL's queries with pgbench's count,
# pauses of a JVM with its log, Python functions with its profiler, Ruby methods with
# TracePoint, exceptions of a C++ program.
. tests/integration/lib.sh
need jq

# rows FILE FILTER
rows()
{
	jq -r "$2" "$SCRATCH/$1.out"
}

# ---- Python --------------------------------------------------------------------------

interpreter=/usr/bin/python3.11
python_functions()
{
	[ -x "$interpreter" ] || {
		echo "note: $interpreter is not installed"
		return
	}
	cat >"$SCRATCH/calls.py" <<'PYTHON'
import collections, sys

calls = collections.Counter()


def profile(frame, event, argument):
    # A generator's yield is a return, too, in both.
    if event == "return":
        calls[frame.f_code.co_name] += 1


def leaf(n):
    return n


def walk(depth):
    return 1 + walk(depth - 1) if depth else leaf(0)


def count(n):
    yield from range(n)


def work():
    return sum(leaf(i) for i in range(500)) + sum(walk(i) for i in range(30)) + sum(count(40))


sys.setprofile(profile)
work()
sys.setprofile(None)
with open(sys.argv[1], "w") as out:
    for name, number in sorted(calls.items()):
        print(name, number, file=out)
PYTHON
	"$PROBECTL" trace -c -k 'str(arg1)' --json -f "str(arg0) == \"$SCRATCH/calls.py\"" \
		-o "$SCRATCH/python.out" python:function__return -- \
		"$interpreter" -I -S "$SCRATCH/calls.py" "$SCRATCH/profile" 2>"$SCRATCH/err" ||
		fail "python: status $?: $(head -3 "$SCRATCH/err")"
	# Besides work(), only the profiler itself and the module are called.
	rows python '"\(.keys[0]) \(.hits)"' | grep -v '^profile \|^<module> ' | sort >"$SCRATCH/functions"
	diff "$SCRATCH/profile" "$SCRATCH/functions" >"$SCRATCH/diff" ||
		fail "Python's functions (< profiler, > probes): $(head -5 "$SCRATCH/diff")"
	grep -q '^leaf 530$' "$SCRATCH/functions" || fail "leaf: $(grep leaf "$SCRATCH/functions")"
}
python_functions

# ---- Ruby ----------------------------------------------------------------------------

ruby_methods()
{
	command -v ruby >/dev/null || {
		echo "note: ruby is not installed"
		return
	}
	cat >"$SCRATCH/calls.rb" <<'RUBY'
class Shop
  def total(n); (1..n).sum { |i| price(i) }; end
  def price(item) = item * 3
end
def deep(n) = n > 0 ? deep(n - 1) + 1 : 0
def work; Shop.new.total(200) + (0..20).sum { |n| deep(n) }; end

calls = Hash.new(0)
trace = TracePoint.new(:call) do |point|
  calls["#{point.defined_class} #{point.method_id}"] += 1 if point.path == __FILE__
end
trace.enable
work
trace.disable
File.write(ARGV[0], calls.map { |name, number| "#{name} #{number}\n" }.sort.join)
RUBY
	"$PROBECTL" trace -c -k 'str(arg0)' -k 'str(arg1)' --json -f "str(arg2) == \"$SCRATCH/calls.rb\"" \
		-o "$SCRATCH/ruby.out" ruby:method__entry -- ruby --disable-all "$SCRATCH/calls.rb" \
		"$SCRATCH/points" 2>"$SCRATCH/err" || fail "ruby: status $?: $(head -3 "$SCRATCH/err")"
	rows ruby '"\(.keys[0]) \(.keys[1]) \(.hits)"' | sort >"$SCRATCH/methods"
	LC_ALL=C sort "$SCRATCH/points" >"$SCRATCH/points.sorted"
	LC_ALL=C sort "$SCRATCH/methods" | diff "$SCRATCH/points.sorted" - >"$SCRATCH/diff" ||
		fail "Ruby's methods (< TracePoint, > probes): $(head -5 "$SCRATCH/diff")"
}
ruby_methods

# ---- A JVM ---------------------------------------------------------------------------

# Its own log has the length of each collection; the probes are around it.
jvm_pauses()
{
	local collections
	command -v java >/dev/null && command -v javac >/dev/null || {
		echo "note: no JDK is installed"
		return
	}
	java_class
	"$PROBECTL" trace -t latency --json -o "$SCRATCH/jvm.out" hotspot:gc__begin hotspot:gc__end -- \
		java -XX:+UseSerialGC -Xmx64m -Xmn8m -Xlog:gc:file="$SCRATCH/gc.log" \
		-XX:+ExtendedDTraceProbes -cp "$SCRATCH" Busy work 3 >/dev/null 2>"$SCRATCH/err" ||
		fail "java: status $?: $(head -3 "$SCRATCH/err")"
	collections=$(grep -c 'Pause' "$SCRATCH/gc.log")
	[ "$collections" -gt 0 ] || fail "the JVM collected nothing: $(tail -2 "$SCRATCH/gc.log")"
	same "collections" "$(rows jvm .count)" "$collections"
	sed -n 's/.*Pause.* \([0-9.]*\)ms$/\1/p' "$SCRATCH/gc.log" >"$SCRATCH/pauses"
	# The log has three decimals. A thread may lose its CPU between a probe and the clock.
	rows jvm '"\(.sum) \(.max)"' | "$python" -c '
import sys
sum_ns, max_ns = map(float, sys.stdin.read().split())
pauses = [float(line) * 1e6 for line in open(sys.argv[1])]
lost = 5e9
if not 0.999 * sum(pauses) - 1000 * len(pauses) <= sum_ns <= sum(pauses) + lost:
    sys.exit(f"in all {sum_ns / 1e6} ms, in the log {sum(pauses) / 1e6} ms")
if not 0.999 * max(pauses) - 1000 <= max_ns <= max(pauses) + lost:
    sys.exit(f"longest {max_ns / 1e6} ms, in the log {max(pauses) / 1e6} ms")' "$SCRATCH/pauses" ||
		fail "the times of the pauses"
}
jvm_pauses

# ---- C++ -----------------------------------------------------------------------------

# Exceptions by the place that threw, as many as libstdc++ reports.
cxx_throws()
{
	"$PROBECTL" trace -c --json -o "$SCRATCH/cxx.out" libstdcxx:throw libstdcxx:catch -- \
		"$TARGETS/throw" </dev/null >"$SCRATCH/throw.stdout" 2>"$SCRATCH/err"
	[ "$(rows cxx 'select(.name == "throw").hits')" -gt 0 ] || fail "nothing was thrown: $(cat "$SCRATCH/err")"
	same "thrown and caught" "$(rows cxx 'select(.name == "throw").hits')" \
		"$(rows cxx 'select(.name == "catch").hits')"
}
cxx_throws

# ---- PostgreSQL ----------------------------------------------------------------------

need_attach
pg_start
pg_bench_init 1
"$pg_bin/psql" -XAtqc "select pg_advisory_lock(42); select pg_sleep(600)" >/dev/null 2>&1 &
holder=$!
on_exit "stop_process $holder"
while :; do
	[ "$("$pg_bin/psql" -XAtc "select count(*) from pg_locks where locktype = 'advisory' and granted")" = 1 ] && break
	pause
done
cat >"$SCRATCH/bench.sql" <<'SQL'
\if :first
select pg_advisory_lock_shared(42);
\set first 0
\endif
select abalance from pgbench_accounts where aid = 17;
select 'second';
begin;
update pgbench_branches set bbalance = bbalance + 1 where bid = 1;
rollback;
SQL
transactions=300
"$pg_bin/pgbench" -n -c 1 -t "$transactions" -D first=1 -f "$SCRATCH/bench.sql" >"$SCRATCH/pgbench.out" 2>&1 &
bench_pid=$!
on_exit "stop_process $bench_pid"
while :; do
	backend=$("$pg_bin/psql" -XAtc "select pid from pg_locks where locktype = 'advisory' and not granted")
	[ -n "$backend" ] && break
	pause
done
save_state "$backend"
trace_start query --json -t latency -k 'str(arg0)' -p "$backend" postgresql:query__start postgresql:query__done
query_pid=$tracer_pid
trace_start transaction --json -t transaction -p "$backend" postgresql:transaction__start \
	postgresql:transaction__commit postgresql:transaction__abort
wait_tracing query "$query_pid"
wait_tracing transaction
kill "$holder"
"$pg_bin/psql" -XAtqc "select pg_terminate_backend(pid) from pg_locks
	where locktype = 'advisory' and granted and mode = 'ExclusiveLock'" >/dev/null
wait "$bench_pid" || fail "pgbench: $(tail -2 "$SCRATCH/pgbench.out")"
wait "$query_pid"
same "the trace of queries" "$?" 0
wait "$tracer_pid"
same "the trace of transactions" "$?" 0
same "pgbench's own count" "$(sed -n 's/.*actually processed: \([0-9]*\).*/\1/p' "$SCRATCH/pgbench.out")" "$transactions"
for text in "select 'second';" 'begin;' 'rollback;' \
	'select abalance from pgbench_accounts where aid = 17;'; do
	same "$text" "$(jq --arg text "$text" 'select(.keys[0] == $text).count' "$SCRATCH/query.out")" "$transactions"
done
same "aborted" "$(rows transaction 'select(.outcome == "aborted").count')" "$transactions"
# One query of its own for each of the first two, and the one that took the lock.
committed=$(rows transaction 'select(.outcome == "done").count')
[ "$committed" -ge $((2 * transactions)) ] && [ "$committed" -le $((2 * transactions + 3)) ] ||
	fail "committed: $committed of $((2 * transactions))"
# pgbench waits for every query: the times it measures are longer.
jq -s --argjson transactions "$transactions" 'map(select(.keys[0] | startswith("select pg_advisory") | not).sum) |
	add / $transactions / 1e6' "$SCRATCH/query.out" >"$SCRATCH/query.ms"
"$python" - "$SCRATCH/query.ms" "$SCRATCH/pgbench.out" <<'PYTHON' >"$SCRATCH/diff" || fail "$(cat "$SCRATCH/diff")"
import re, sys
ours = float(open(sys.argv[1]).read())
theirs = float(re.search(r"latency average = ([0-9.]+) ms", open(sys.argv[2]).read()).group(1))
print(f"queries took {ours} ms a transaction, pgbench says {theirs} ms")
sys.exit(not 0 < ours <= theirs * 1.001)
PYTHON
finish
