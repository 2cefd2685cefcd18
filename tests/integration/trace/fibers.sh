#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Pairs of fibers that take turns in one thread, and so do not nest, beside what the programs say of
# themselves: user contexts and Boost.Context, where a file of the user names what begins and ends
# share; Ruby's fibers and Python's greenlets, of which the catalogue knows it. In the stub, by
# spans, and from records.
. tests/integration/lib.sh
need_attach
need jq

export XDG_CONFIG_HOME=$SCRATCH/config
mkdir -p "$XDG_CONFIG_HOME/probectl/probes.d"
cat >"$XDG_CONFIG_HOME/probectl/probes.d/fibers.probes" <<'P'
provider fibers
probe work__start name:string id
same name
probe work__done name:string id
P

# between WHAT TRUTH ROWS: of each name that the program tells of, ROWS has one line
# NAME COUNT SUM, as often as the program says; its times are between those that the program took
# inside and around the probes.
between()
{
	"$python" - "$@" <<'PYTHON' || fail "$1"
import json, sys
what, truth, rows = sys.argv[1], json.load(open(sys.argv[2])), {}
for line in open(sys.argv[3]):
    name, count, total = line.split()
    if name in truth:
        if name in rows:
            sys.exit(f"{what}: two rows for {name}")
        rows[name] = int(count), int(total)
for name, told in truth.items():
    count, total = rows.get(name, (0, 0))
    # Each of our times is a whole number of nanoseconds, from ticks.
    slack = 1000 * told["count"]
    if count != told["count"] or not told["inner"] - slack <= total <= told["outer"] + slack:
        sys.exit(f"{what}: {name}: {count} in {total} ns; the program says {told}")
PYTHON
}

# checked KIND KEY STRAY BEGIN END PROGRAM…: times of pairs by KEY, of a program that prints its own
# as JSON. STRAY: how many ends have no begin.
checked()
{
	local kind=$1 key=$2 stray=$3 probes=("$4" "$5")
	shift 5
	"$PROBECTL" trace -t latency --json -k "$key" -o "$SCRATCH/$kind.latency" "${probes[@]}" \
		-- "$@" >"$SCRATCH/$kind.truth" 2>"$SCRATCH/err" ||
		fail "$kind: latency: $(head -3 "$SCRATCH/err")"
	jq -r '"\(.keys[0]) \(.count) \(.sum)"' "$SCRATCH/$kind.latency" >"$SCRATCH/$kind.rows"
	between "$kind: latency" "$SCRATCH/$kind.truth" "$SCRATCH/$kind.rows"
	"$PROBECTL" trace -t latency --json -o "$SCRATCH/$kind.latency" "${probes[@]}" \
		-- "$@" >"$SCRATCH/$kind.truth" 2>"$SCRATCH/err" ||
		fail "$kind: latency: $(head -3 "$SCRATCH/err")"
	same "$kind: ends without a begin" "$(jq -s 'map(.unmatched) | add' "$SCRATCH/$kind.latency")" "$stray"

	"$PROBECTL" trace -t span --json -o "$SCRATCH/$kind.span" "${probes[@]}" \
		-- "$@" >"$SCRATCH/$kind.truth" 2>"$SCRATCH/err" ||
		fail "$kind: spans: $(head -3 "$SCRATCH/err")"
	grep -qE ", $stray ends? without a begin" "$SCRATCH/err" || fail "$kind: spans: $(cat "$SCRATCH/err")"
	same "$kind: spans of two" "$(jq -c --arg key "$key" \
		'select(.duration and .named[$key] != .begin.named[$key])' "$SCRATCH/$kind.span")" ""
	jq -rs --arg key "$key" 'map(select(.duration)) | group_by(.named[$key])[] |
		"\(.[0].named[$key]) \(length) \(map(.duration) | add)"' "$SCRATCH/$kind.span" >"$SCRATCH/$kind.rows"
	between "$kind: spans" "$SCRATCH/$kind.truth" "$SCRATCH/$kind.rows"

	"$PROBECTL" record -o "$SCRATCH/$kind.record" "${probes[@]}" \
		-- "$@" >"$SCRATCH/$kind.truth" 2>"$SCRATCH/err" ||
		fail "$kind: record: $(head -3 "$SCRATCH/err")"
	"$PROBECTL" report --json --pairs -k "$key" --top 0 "$SCRATCH/$kind.record" >"$SCRATCH/$kind.report" 2>"$SCRATCH/err" ||
		fail "$kind: report: $(head -3 "$SCRATCH/err")"
	jq -r 'select(.type == "pair_key") | "\(.value) \(.count) \(.sum)"' "$SCRATCH/$kind.report" >"$SCRATCH/$kind.rows"
	between "$kind: report" "$SCRATCH/$kind.truth" "$SCRATCH/$kind.rows"
	same "$kind: ends without a begin in the report" \
		"$(jq 'select(.type == "pair") | .unmatched' "$SCRATCH/$kind.report")" "$stray"
	"$PROBECTL" export -F perfetto "$SCRATCH/$kind.record" >"$SCRATCH/$kind.perfetto" 2>"$SCRATCH/err" ||
		fail "$kind: export: $(head -3 "$SCRATCH/err")"
	# What does not nest has a begin and an end of its own, b and e.
	jq -r '(.traceEvents[] | select(.ph == "X") | .dur * 1000 | round),
		(.traceEvents | map(select(.ph == "b" or .ph == "e")) | group_by(.id)[] | sort_by(.ts) |
			(.[1].ts * 1000 | round) - (.[0].ts * 1000 | round))' "$SCRATCH/$kind.perfetto" |
		sort -n >"$SCRATCH/$kind.exported"
	same "$kind: times in the export" "$(jq -s 'add' "$SCRATCH/$kind.exported")" \
		"$(jq 'select(.type == "pair") | .sum' "$SCRATCH/$kind.report")"
	same "$kind: the longest in the export" "$(tail -1 "$SCRATCH/$kind.exported")" \
		"$(jq 'select(.type == "pair") | .max' "$SCRATCH/$kind.report")"
}

checked contexts name 1 fibers:work__start fibers:work__done "$TARGETS/fibers"

# ---- Boost.Context ---------------------------------------------------------------

cat >"$SCRATCH/boost.cc" <<'C'
#include <boost/context/fiber.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <sys/sdt.h>
#include <thread>

using boost::context::fiber;
static long now()
{
	return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}
static void nap(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
struct work {
	const char *name;
	long around, inside, count, inner, outer;
	char begun[16], ended[16];
	__attribute__((noinline)) void start(long id)
	{
		strcpy(begun, name);
		around = now();
		STAP_PROBE2(fibers, work__start, begun, id);
		inside = now();
	}
	__attribute__((noinline)) void done(long id)
	{
		long end = now();
		strcpy(ended, name);
		STAP_PROBE2(fibers, work__done, ended, id);
		outer += now() - around;
		inner += end - inside;
		count++;
	}
	void print(const char *after)
	{
		printf("\"%s\": {\"count\": %ld, \"inner\": %ld, \"outer\": %ld}%s", name, count, inner, outer, after);
	}
};
int main()
{
	work outer{"outer"}, inner{"inner"};
	for (long id = 0; id < 5; id++) {
		fiber other([&inner, id](fiber &&main) {
			inner.start(id);
			main = std::move(main).resume();
			inner.done(id);
			return std::move(main);
		});
		outer.start(id);
		nap(40);
		other = std::move(other).resume();
		nap(4);
		outer.done(id);
		nap(4);
		other = std::move(other).resume();
	}
	printf("{");
	outer.print(", ");
	inner.print("}\n");
}
C
if ! command -v c++ >/dev/null || ! [ -e /usr/include/boost/context/fiber.hpp ]; then
	echo "note: without a compiler and libboost-context-dev, no Boost.Context"
elif c++ -O1 -w -o "$SCRATCH/boost" "$SCRATCH/boost.cc" -lboost_context -pthread >"$SCRATCH/err" 2>&1; then
	checked boost name 0 fibers:work__start fibers:work__done "$SCRATCH/boost"
else
	fail "Boost.Context: $(head -3 "$SCRATCH/err")"
fi

# ---- Languages -------------------------------------------------------------------

cat >"$SCRATCH/fibers.rb" <<'RUBY'
def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
$told = Hash.new { |told, name| told[name] = {count: 0, inner: 0, outer: 0} }
def tell(name, around, start, done)
  $told[name][:outer] += now - around
  $told[name][:inner] += done - start
  $told[name][:count] += 1
end
def outer_work
  start = now
  sleep 0.04
  $fiber.resume
  sleep 0.004
  [start, now]
end
def inner_work
  start = now
  Fiber.yield
  [start, now]
end
trace = TracePoint.new(:call, :return) {}
trace.enable
5.times do
  $fiber = Fiber.new { around = now; tell("inner_work", around, *inner_work) }
  around = now
  tell("outer_work", around, *outer_work)
  sleep 0.004
  $fiber.resume
end
trace.disable
puts "{" + $told.map { |name, its| "\"#{name}\": {" + its.map { |key, value| "\"#{key}\": #{value}" }.join(", ") + "}" }.join(", ") + "}"
RUBY
if ! command -v ruby >/dev/null || [ -z "$(/sbin/ldconfig -p | grep 'libruby-3\.1\.so')" ]; then
	echo "note: Ruby 3.1 is not installed"
else
	checked ruby method 0 ruby:method__entry ruby:method__return "$(command -v ruby)" \
		--disable-all "$SCRATCH/fibers.rb"
fi

cat >"$SCRATCH/fibers.py" <<'PYTHON'
import json, time
from greenlet import getcurrent, greenlet
now = time.monotonic_ns
told = {}

def tell(name, around, start, done):
    its = told.setdefault(name, {"count": 0, "inner": 0, "outer": 0})
    its["count"] += 1
    its["inner"] += done - start
    its["outer"] += now() - around

def outer_work(other):
    start = now()
    time.sleep(.04)
    other.switch()
    time.sleep(.004)
    return start, now()

def inner_work(main):
    start = now()
    main.switch()
    return start, now()

def run():
    around = now()
    tell("inner_work", around, *inner_work(main))

main = getcurrent()
for i in range(5):
    other = greenlet(run)
    around = now()
    tell("outer_work", around, *outer_work(other))
    time.sleep(.004)
    other.switch()
print(json.dumps(told))
PYTHON
if ! has_probes /usr/bin/python3.11 || ! /usr/bin/python3.11 -c 'import greenlet' 2>/dev/null; then
	echo "note: Python 3.11 with probes and greenlet is not installed"
else
	checked greenlet function 0 python:function__entry python:function__return \
		/usr/bin/python3.11 "$SCRATCH/fibers.py"
fi

# ---- Without the file ------------------------------------------------------------

# The newest begin is taken: this is what the file is for.
rm "$XDG_CONFIG_HOME/probectl/probes.d/fibers.probes"
"$PROBECTL" trace -t span --json -o "$SCRATCH/blind" 'fibers:work__start(str(arg0))' \
	'fibers:work__done(str(arg0))' -- "$TARGETS/fibers" 1 >/dev/null 2>"$SCRATCH/err"
same "spans without the file" "$(jq -c 'select(.duration) | [.begin.args[0], .args[0]]' "$SCRATCH/blind" | paste -sd' ')" \
	'["inner","outer"] ["outer","inner"]'
finish
