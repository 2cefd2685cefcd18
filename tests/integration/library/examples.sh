#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The examples of the library work, and together they use each of its functions.
. tests/integration/lib.sh
. tests/integration/metrics/lib_metrics.sh
need_attach
need cc nm

examples=docs/examples/library
export LD_LIBRARY_PATH=$BUILD

mkdir "$SCRATCH/bin"
for source in "$examples"/*.c; do
	name=${source##*/}
	cc -std=gnu11 -O2 -Wall -Wextra -Werror -Ilibprobe/include "$source" \
		-o "$SCRATCH/bin/${name%.c}" -L"$BUILD" -lprobe || fail "$source"
done

# Only names that begin with `probe_`; those of POSIX and PCP have other examples.
nm -D --defined-only "$BUILD/libprobe.so" |
	awk '$2 == "T" && $3 ~ /^probe_/ { sub(/@.*/, "", $3); print $3 }' >"$SCRATCH/functions"
[ -s "$SCRATCH/functions" ] || die "no functions in $BUILD/libprobe.so"
while read -r function; do
	grep -rqw "$function" docs/examples || fail "no example uses $function()"
done <"$SCRATCH/functions"

# example NAME ARGS…: its output
example()
{
	local name=$1
	shift
	timeout "$TEST_SECONDS" "$SCRATCH/bin/$name" "$@" 2>"$SCRATCH/err" || fail "$name $*: $(head -3 "$SCRATCH/err")"
}

# behind OUTPUT NAME ARGS…: the same next to the target, whose input it must not hold open
behind()
{
	local output=$1
	shift
	{
		exec {target_in}>&- {target_out}<&-
		eval "exec ${TARGET[1]-9}>&- ${TARGET[0]-9}<&-" 2>/dev/null
		example "$@" >"$output"
	} &
	reader=$!
}

# ---- Files ---------------------------------------------------------------------------

same "version" "$(example version)" "libprobe $("$PROBECTL" --version | cut -d' ' -f2)
bad probe 'a:b(', column 4: the arguments, as in (arg0), must come last (usage)"
same "demangle" "$(example demangle _ZN4shop6ordersEi _RNvCs1234_7mycrate3foo main | paste -sd,)" \
	"shop::orders(int),mycrate::foo,main"
same "names" "$(example names "$TARGETS/hits" | head -1)" hits:work
example names "$TARGETS/hits" hits:work >"$SCRATCH/out"
grep -q '^hits:work 0x.* in work.*: behind arg0=.*32.* arg2=' "$SCRATCH/out" ||
	fail "names: $(cat "$SCRATCH/out")"
"$SCRATCH/bin/names" "$TARGETS/hits" hits:wrok >/dev/null 2>"$SCRATCH/err" && fail "hits:wrok is found"
grep -q "the nearest: hits:work" "$SCRATCH/err" || fail "names: $(cat "$SCRATCH/err")"
"$SCRATCH/bin/names" "$TARGETS/hits" 'hits:work(arg9)' >/dev/null 2>"$SCRATCH/err" &&
	fail "hits:work has no arg9"
grep -q "there is no arg9" "$SCRATCH/err" || fail "names: $(cat "$SCRATCH/err")"

cat >"$SCRATCH/hits.probes" <<'P'
provider hits
words Kind 1=small
probe work kind:Kind length address:pointer
P
same "meaning" "$(example meaning "$TARGETS/hits" 'hits:work(length)' "$SCRATCH/hits.probes")" \
	"hits:work kind(1 is small) length address
hits:work(length) is hits:work(arg1)"
"$SCRATCH/bin/meaning" "$TARGETS/hits" 'hits:work(width)' "$SCRATCH/hits.probes" >/dev/null 2>"$SCRATCH/err" &&
	fail "hits:work has a width"
grep -q "there is no argument 'width', the probe has kind, length, address" "$SCRATCH/err" ||
	fail "meaning: $(cat "$SCRATCH/err")"

# ---- A process -------------------------------------------------------------------------

start "$TARGETS/pairs" 2 1000
save_state "$target_pid"
example states "$target_pid" "$TARGETS/pairs" >"$SCRATCH/out"
grep -qx "$target_pid runs $(realpath "$TARGETS/pairs")" "$SCRATCH/out" ||
	fail "states: $(cat "$SCRATCH/out")"
grep -qx 'pairs:step__start off, count 0, 0 of 1 sites patched' "$SCRATCH/out" ||
	fail "states: $(cat "$SCRATCH/out")"
grep -qx '0 of [1-9][0-9]* sites are on' "$SCRATCH/out" || fail "states: $(cat "$SCRATCH/out")"
"$SCRATCH/bin/states" "$target_pid" "$TARGETS/hits" 2>"$SCRATCH/err" && fail "another program is this one"
grep -q "does not run $TARGETS/hits but" "$SCRATCH/err" || fail "states: $(cat "$SCRATCH/err")"

same "switch" "$(example switch "$target_pid" pairs:step__start pairs:step__done)" \
	"the pair is on: 2 probes, 2 sites
the end is on twice: 1 probe, 1 site
the start is off: 2 probes, 2 sites
the start is on, the end off: 2 probes, 2 sites
both are off, however often they were on: 1 probe, 1 site
short names: 1 probe, 1 site
short names: 1 probe, 1 site"
same "switch, by a plan that the sites do not allow" \
	"$(example switch "$target_pid" pairs:step__start pairs:step__done toggle | grep -m 1 short)" \
	"short names: 0 probes, 0 sites"
same "steps, on" "$(example steps "$target_pid" pairs:step__start pairs:step__done)" \
	"pairs:step__start is on"
same "steps, the other way" "$(example steps "$target_pid" pairs:step__done pairs:step__start)" \
	"pairs:step__done is on"
"$PROBECTL" disable -q -p "$target_pid" pairs:step__done || fail "it cannot be disabled"
same_state "$target_pid"

# The first process is locked until the probe is on in the second.
mkfifo "$SCRATCH/fifo"
"$TARGETS/pairs" 2 1000 <>"$SCRATCH/fifo" >"$SCRATCH/second" &
second=$!
on_exit "end_process $second"
until [ -s "$SCRATCH/second" ]; do sleep 0.05; done
hold_lock "$target_pid"
{
	wait_on "$second" pairs:step__start
	kill "$holder_pid"
} &
same "several" "$(example several pairs:step__start "$target_pid" "$second")" "$second: 1 sites
$target_pid: 1 sites"
"$PROBECTL" disable -q -p "$target_pid,$second" pairs:step__start || fail "they cannot be disabled"
end_process "$second"
same_state "$target_pid"

behind "$SCRATCH/kept" keep "$target_pid" pairs:request__start arg2 2
wait_on "$target_pid" pairs:request__start
ask go
wait "$reader"
said=$answer
same "keep" "$(cat "$SCRATCH/kept")" "2002 hits, sum $(jq .sizes <<<"$said")"
same_state "$target_pid"
tell leave
end_target

start "$TARGETS/pairs" 2 1000
save_state "$target_pid"
behind "$SCRATCH/selected" select "$target_pid" 'pairs:*' 3000 4
wait_on "$target_pid" pairs:step__done
ask go
wait "$reader"
same "select" "$(sort "$SCRATCH/selected")" \
	"pairs:step__done is out, after $(jq .steps <<<"$answer") hits
pairs:step__start is out, after $(jq .steps <<<"$answer") hits"
same_state "$target_pid"
tell leave
end_target

# ---- Hits ----------------------------------------------------------------------------------

start "$TARGETS/hits" 1
save_state "$target_pid"
behind "$SCRATCH/hits" hits "$target_pid" 'hits:work(arg1)' 1000 json
wait_on "$target_pid" hits:work
ask 1000
wait "$reader"
same "hits" "$(jq -s 'map(.args[0]) | add' "$SCRATCH/hits")" 499500
same_state "$target_pid"
behind "$SCRATCH/gathered" gather "$target_pid" hist,arg1 hits:work
wait_on "$target_pid" hits:work
ask 1000
wait "$reader"
grep -q '^hits:work 1000, half of them up to \(49\|50\)[0-9] ns' "$SCRATCH/gathered" ||
	fail "gather: $(tail -3 "$SCRATCH/gathered")"
example gather | grep -q '^latency' || fail "gather does not name the tracers"
behind "$SCRATCH/loaded" loaded "$target_pid" hits:work "$TARGETS/libtracer.so"
wait_on "$target_pid" hits:work
ask 10
end_target
wait "$reader"
[ -s "$SCRATCH/loaded" ] || fail "the loaded tracer printed nothing: $(cat "$SCRATCH/err")"

start "$TARGETS/hits" 1
remains=$(mktemp -u /dev/shm/test.XXXXXX.probectl)
on_exit "rm -f '$remains'"
"$PROBECTL" enable -q -t ring -b 128k --file "$remains" -p "$target_pid" hits:work || fail "enable -t ring --file"
ask 100
end_target 0
same "what remains" "$(example remains "$remains")" "hits:work 100"

start "$TARGETS/hits" 1
behind "$SCRATCH/flight" flight "$target_pid" hits:work
wait_on "$target_pid" hits:work
ask 100
end_target
wait "$reader"
same "flight" "$(sed 's/[0-9]*$//' "$SCRATCH/flight" | paste -sd,)" \
	"recording,work by thread ,work by thread ,work by thread "

start "$TARGETS/hits" 1
mkfifo "$SCRATCH/idle"
"$TARGETS/hits" 1 <>"$SCRATCH/idle" >/dev/null &
second=$!
on_exit "end_process $second"
first=$target_pid
behind "$SCRATCH/flights" flights hits:work "$first" "$second"
until grep -q recording "$SCRATCH/flights"; do
	pause
done
ask 100
end_target
end_process "$second"
wait "$reader"
same "flights" "$(sort "$SCRATCH/flights" | uniq -c | sed 's/^ *//' | paste -sd,)" \
	"100 $first work,1 recording,4 work is traced,1 work: 100 hits"

# ---- Stacks ----------------------------------------------------------------------------------

for how in "" frames; do
	start "$TARGETS/stacks_frames"
	# shellcheck disable=SC2086 # one argument, or none
	example stacks "$target_pid" stacks:call $how >"$SCRATCH/stacks" &
	reader=$!
	wait_on "$target_pid" stacks:call
	ask go
	wait "$reader"
	grep -q ';main;.*leaf [0-9]*$' "$SCRATCH/stacks" || fail "stacks $how: $(cat "$SCRATCH/stacks")"
	tell end
	end_target
done

start "$TARGETS/heap"
example heap "$target_pid" >"$SCRATCH/heap" &
reader=$!
wait_on "$target_pid" otel_memory:alloc
ask go
wait "$reader"
same "memory" "$(grep -cxE 'keep: 100000 bytes more, 100000 live|swap: 300000 bytes more, 3000 live|7 frees of older memory' \
	"$SCRATCH/heap")" 3
tell end
end_target

# ---- Metrics ---------------------------------------------------------------------------------

# In a private folder; tests/integration/pcp/pcp.sh checks what pmcd(1) shows of it.
start "$TARGETS/hits" 1
save_state "$target_pid"
mkdir -p "$SCRATCH/pcp/mmv"
PCP_TMP_DIR=$SCRATCH/pcp behind "$SCRATCH/metrics" metrics "$target_pid" hits:work 3
wait_on "$target_pid" hits:work
found=
for _ in $(seq 50); do
	found=$(ls "$SCRATCH/pcp/mmv")
	[ -z "$found" ] || break
	sleep 0.1
done
[ -n "$found" ] || fail "there is no file of metrics: $(cat "$SCRATCH/metrics" "$SCRATCH/err")"
wait "$reader"
same "metrics" "$(sort -u "$SCRATCH/metrics")" "mmv.probectl.count, 0 left out"
same "what is left of them" "$(ls "$SCRATCH/pcp/mmv")" ""
same_state "$target_pid"
end_target

start "$TARGETS/hits" 1
behind "$SCRATCH/metrics" serve "$target_pid" hits:work 3 127.0.0.1:0
wait_on "$target_pid" hits:work
ask 1000
"$python" - "$(sed -n 's/^http/&/p' "$SCRATCH/err")" >"$SCRATCH/served" <<'PYTHON'
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())
PYTHON
grep -q '^# TYPE probectl_count_hits_total counter$' "$SCRATCH/served" ||
	fail "served: $(cat "$SCRATCH/served" "$SCRATCH/err")"
wait "$reader"
grep -q '^probectl_count_hits_total{.*probe="work"} 1000$' "$SCRATCH/metrics" ||
	fail "the last metrics: $(cat "$SCRATCH/metrics")"
end_target

# ---- Programs ----------------------------------------------------------------------------------

echo 500 | example launch "$TARGETS/hits" 2 >"$SCRATCH/launched"
grep -qx 'hits:work 1000' "$SCRATCH/launched" || fail "launch: $(cat "$SCRATCH/launched")"
echo 500 | example record "$SCRATCH/record" hits:work "$TARGETS/hits" 2 >"$SCRATCH/recorded"
grep -qx "0 hits not written" "$SCRATCH/recorded" || fail "record: $(cat "$SCRATCH/recorded")"
same "bytes of the record" "$(sed -n 's/^\([0-9]*\) bytes$/\1/p' "$SCRATCH/recorded")" \
	"$(cat "$SCRATCH"/record/*/stream_* "$SCRATCH"/record/stream_* 2>/dev/null | wc -c)"
same "recorded" "$(example read "$SCRATCH/record")" "1000 hits, 0 lost; 1000 with arg0"
same "recorded, without such an argument" "$(example read "$SCRATCH/record" 9)" "1000 hits, 0 lost; 0 with arg9"
same "and it is known before" "$(cat "$SCRATCH/err")" "no hit can have arg9"
echo 500 | "$PROBECTL" trace -q --json -o "$SCRATCH/json" hits:work -- "$TARGETS/hits" 2 >"$SCRATCH/out"
same "read as JSON" "$(example read <"$SCRATCH/json")" "1000 hits, 0 lost; 1000 with arg0"
same "rows of CSV" "$(example convert "$SCRATCH/record" csv | wc -l)" 1001
grep -q '^1000 hits' "$SCRATCH/err" || fail "convert: $(cat "$SCRATCH/err")"
same "pairs" "$(tail -1 "$SCRATCH/err")" "0 pairs"
same "from a record to itself" \
	"$(example compare "$SCRATCH/record" "$SCRATCH/record" | awk '/^hits:work  / { print $2, $3, $6 }')" "1000 1000 +0.0%"
echo 500 | example follow hits:work "$TARGETS/launch" fork "$TARGETS/hits" 2 >"$SCRATCH/followed"
grep -qx 'program 2: 1000 hits' "$SCRATCH/followed" || fail "follow: $(cat "$SCRATCH/followed")"

# Processes of a program that others start.
example seek "$TARGETS/comer" comer:hit 3 >"$SCRATCH/sought" &
seeker=$!
until grep -q seeking "$SCRATCH/sought"; do
	pause
done
for ((i = 0; i < 2; i++)); do
	"$TARGETS/comer" 8 200000 alone >/dev/null </dev/null || fail "comer: $?"
done
wait "$seeker"
same "processes that were sought" "$(grep -c '^process [12]: [1-8] hits' "$SCRATCH/sought")" 2

example every "$TARGETS/comer" comer:hit 4 >"$SCRATCH/every" &
seeker=$!
until grep -q waiting "$SCRATCH/every"; do
	pause
done
"$TARGETS/comer" 20 100000 alone >/dev/null </dev/null || fail "comer: $?"
wait "$seeker"
same "hits of each process that runs a program" "$(grep -c '^[0-9]* hit$' "$SCRATCH/every")" 4

start "$TARGETS/naps" 8
collector_start send
behind "$SCRATCH/sent" send "$target_pid" naps:nap__start naps:nap__done 3 "$collector"
wait_on "$target_pid" naps:nap__start
ask go
wait "$reader"
# Hits of both, what is lost, and rows without room.
same "sent" "$(cat "$SCRATCH/sent")" "3 spans and 4 points sent, 0 and 0 lost"
same "spans that a collector got" "$(wc -l <"$collected/spans")" 3
[ ! -e "$collected/errors" ] || fail "sent: $(cat "$collected/errors")"
tell end
end_target

# ---- Functions -------------------------------------------------------------------------

cat >"$SCRATCH/nested.c" <<'C'
#include <unistd.h>
__attribute__((noipa)) int inner(int n) { volatile int x[4] = {n, 1, 2, n}; return x[0] + x[1] + x[2] + x[3] * n; }
__attribute__((noipa)) int outer(int n) { return inner(n) + inner(n + 1) * 5; }
int main(void) { for (int i = 0;; i++) { outer(i); usleep(1000); } }
C
cc -O2 "$SCRATCH/nested.c" -o "$SCRATCH/nested" || die "cannot build nested"
"$SCRATCH/nested" &
nested=$!
on_exit "end_process $nested"
until [ "$(readlink "/proc/$nested/exe")" = "$SCRATCH/nested" ]; do pause; done
example functions "$nested" 'fn:nested:/^(inner|outer)$/' >"$SCRATCH/nest"
same "functions" "$(sed -n 's/ has [1-9][0-9]* bytes$//p' "$SCRATCH/nest")" \
	"fn:nested:inner"$'\n'"fn:nested:outer"
same "seconds" "$(grep -c '^FUNCTION' "$SCRATCH/nest")" 2
awk '$1 == "fn:nested:outer" { calls[NR > 8] = $2 }
	$1 == "->" { if ($2 != "fn:nested:inner" || $3 != 2 * calls[NR > 8]) exit 1; n++ }
	END { exit n < 2 }' "$SCRATCH/nest" || fail "calls: $(cat "$SCRATCH/nest")"
end_process "$nested"

# ---- Spans -----------------------------------------------------------------------------

start "$TARGETS/naps" 8
behind "$SCRATCH/spans" spans "$target_pid" 8000000 2 'naps:nap__start(arg0)' naps:nap__done
wait_on "$target_pid" naps:nap__start
ask go
wait "$reader"
same "spans" "$(grep -cE '^[0-9:.]+ .* [1-9][0-9.]*m?s +naps:nap__start..nap__done  ([1-7]) -> \1 (2|4|6|8|10|12|14)$' \
	"$SCRATCH/spans")" 2
same "stacks of spans" "$(grep -cx '	nap' "$SCRATCH/spans")" 2
grep -q '^TIME .* DURATION  PAIR ' "$SCRATCH/spans" || fail "spans: $(cat "$SCRATCH/spans")"
tell bye
end_target
finish
