#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# -t heap: a known tree of allocations in several threads, exact to the byte; samples and their
# weights; attached to a process that has allocated already; a forked child; probes of another
# provider, whose arguments come in another order; frees that are not seen; losses; mistakes.
. tests/integration/lib.sh
need_attach
need jq objdump readelf

# Where a copy of a stack takes long, three threads on two processors might find each ring locked by
# one that was preempted, and lose a hit (docs/ring.md).
rounds=200 threads=2

# heap_run NAME ARGS…: a whole run of the target, whose hits all have room
heap_run()
{
	local name=$1
	shift
	printf '\n\n' | "$PROBECTL" trace -o "$SCRATCH/$name.out" -b 64M "$@" -- "$TARGETS/heap" \
		"$rounds" "$threads" "${forks-}" >"$SCRATCH/$name.stdout" 2>"$SCRATCH/$name.err" ||
		fail "$name: status $?: $(head -3 "$SCRATCH/$name.err")"
	same "$name: the program" "$(grep -c '^done' "$SCRATCH/$name.stdout")" 1
}

# sums_of NAME: per function that asked for memory, "FUNCTION TOTAL/N LIVE/N"
sums_of()
{
	jq -rs 'map(select(.total_bytes != null) | .by = (if .frames[0].symbol == "sample"
		then .frames[1].symbol else "again" end)) | group_by(.by)[] |
		"\(.[0].by) \(map(.total_bytes) | add)/\(map(.total_count) | add)" +
		" \(map(.live_bytes) | add)/\(map(.live_count) | add)"' "$SCRATCH/$1.out"
}

n=$((rounds * threads))
again="again 20/1 20/1"
churn="churn $((2000 * n))/$n 0/0"
early="early 3500/7 0/0"
keep="keep $((1000 * n))/$n $((1000 * n))/$n"
swap="swap $((3000 * n))/$n $((3000 * threads))/$threads"
twice="twice 10/1 0/0"
all="$again
$churn
$early
$keep
$swap
$twice"

# ---- A whole run -------------------------------------------------------------------------

for how in heap heap,total heap,bytes=16384; do
	heap_run json --json -t "$how" 'otel_memory:*'
	same "$how" "$(sums_of json)" "$all"
	grep -q 'warning: 1 free was not seen: memory was allocated again' "$SCRATCH/json.err" ||
		fail "$how: $(cat "$SCRATCH/json.err")"
	same "$how: warnings" "$(grep -c warning "$SCRATCH/json.err")" 1
done
heap_run frames --json -t heap,frames otel_memory:alloc otel_memory:free
same "frame pointers: what is live" "$(jq -s 'map(.live_bytes // 0) | add' "$SCRATCH/frames.out")" \
	$((1000 * n + 3000 * threads + 20))

heap_run text -t heap 'otel_memory:*'
# Stacks are apart by the names of threads, which are unknown of those that have ended by then.
by_name()
{
	awk '{ n[$1] += $2 } END { for (name in n) print name, n[name] }' | sort
}
same "text" "$(head -2 "$SCRATCH/text.out" | sed 's/, [0-9]* stacks$//')" \
	"otel_memory:alloc: $((6000 * n + 3530)) bytes allocated ($((3 * n + 9)) allocations), $((1000 * n + 3000 * threads + 20)) bytes live ($((n + threads + 1)) allocations)
       BYTES        %  FRAME"
same "the tree" "$(sed -n 's/^ *\([0-9]*\) .*- \(keep\|swap\)$/\2 \1/p' "$SCRATCH/text.out" | by_name)" \
	"keep $((1000 * n))
swap $((3000 * threads))"

# Without the C library's frames.
heap_run folded -t heap,folded 'otel_memory:*'
same "folded" "$(sed 's/^?;/heap;/; s/;libc[^;]*//g; s/;_start.*main;/;main;/' "$SCRATCH/folded.out" | by_name)" \
	"heap;main;twice 20
heap;work;keep;sample $((1000 * n))
heap;work;swap;sample $((3000 * threads))"
heap_run total -t heap,total,folded 'otel_memory:*'
same "folded, all" "$(awk '{ n += $NF } END { print n }' "$SCRATCH/total.out")" $((6000 * n + 3530))
heap_run graph -t heap,flamegraph 'otel_memory:*'
grep -q "<title>all ($((1000 * n + 3000 * threads + 20)) bytes, 100 %)</title>" "$SCRATCH/graph.out" ||
	fail "flamegraph: $(grep '<title>all' "$SCRATCH/graph.out")"

# pprof, decoded by its schema (github.com/google/pprof/proto/profile.proto): all references lead
# somewhere, and the sums by the first function outside `sample` are those above.
# decode FILE MODE: `sums`, or `types`, `mapping` of the program, `locations` (its names)
decode()
{
	"$python" - "$1" "$2" <<'PYTHON'
import collections, sys

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at

def fields(data):
    """{field: [values]}: numbers, and bytes."""
    found, at = collections.defaultdict(list), 0
    while at < len(data):
        tag, at = varint(data, at)
        assert tag & 7 in (0, 2), tag
        value, at = varint(data, at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
            assert at <= len(data)
        found[tag >> 3].append(value)
    return found

def packed(data):
    numbers, at = [], 0
    while at < len(data):
        number, at = varint(data, at)
        numbers.append(number)
    return numbers

profile = fields(open(sys.argv[1], "rb").read())
strings = [text.decode("utf-8") for text in profile[6]]
assert strings[0] == "" and len(set(strings)) == len(strings)
one = lambda message, field: (message[field] or [0])[0]
by_id = lambda field: {one(m, 1): m for m in map(fields, profile[field])}
mappings, locations, functions = by_id(3), by_id(4), by_id(5)
for kind, field in (mappings, 3), (locations, 4), (functions, 5):
    assert len(kind) == len(profile[field]) and 0 not in kind
types = [[strings[one(fields(t), n)] for n in (1, 2)] for t in profile[1]]

def name(location):
    line = fields(one(locations[location], 4))
    mapping = one(locations[location], 2)
    assert not mapping or mapping in mappings
    return strings[one(functions[one(line, 1)], 2)]

sums = {}
for sample in map(fields, profile[2]):
    names = [name(l) for l in packed(one(sample, 1))]
    values = packed(one(sample, 2))
    assert len(values) == len(types)
    by = names[1] if names[0] == "sample" else "again" if names[0] == "twice" else names[0]
    sums[by] = [a + b for a, b in zip(sums.get(by, [0] * len(types)), values)]
    labels = {strings[one(fields(l), 1)]: strings[one(fields(l), 2)] for l in sample[3]}
    assert labels.keys() in ({"comm", "probe"}, {"probe"}), labels
if sys.argv[2] == "sums":
    for by, (count, size, live_count, live) in sorted(sums.items()):
        print(f"{by} {size}/{count} {live}/{live_count}")
elif sys.argv[2] == "types":
    print(*("/".join(t) for t in types), strings[one(profile, 14)], one(profile, 9) > 1 << 60)
elif sys.argv[2] == "mapping":
    print(*(strings[one(m, 6)] for m in mappings.values() if strings[one(m, 5)].endswith("/heap")))
elif sys.argv[2] == "locations":
    for number, location in locations.items():
        line = fields(one(location, 4))
        if name(number) == "keep":
            print(f"{one(location, 3):#x} {one(line, 2)}", strings[one(functions[one(line, 1)], 4)])
else:
    print(*sorted(f"{by} {v}" for by, (v,) in sums.items()))
PYTHON
}
for how in heap,pprof heap,total,frames,pprof; do
	heap_run pprof -v -t "$how" 'otel_memory:*'
	same "$how" "$(decode "$SCRATCH/pprof.out" sums)" "$all"
done
same "pprof: types" "$(decode "$SCRATCH/pprof.out" types)" \
	"alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes alloc_space True"
same "pprof: the build id" "$(decode "$SCRATCH/pprof.out" mapping)" \
	"$(readelf -n "$TARGETS/heap" | sed -n 's/.*Build ID: //p')"
# The address is the one behind the call of sample() in the file.
read -r address line file < <(decode "$SCRATCH/pprof.out" locations)
objdump -d "$TARGETS/heap" | grep -B1 "^ *${address#0x}:" |
	grep -Eq '(call|bl)[[:space:]].*<sample' || fail "pprof: there is no call before $address"
sed -n "${line}p" "$file" | grep -q 'sample(100, 1000)\|KEEP(user)' ||
	fail "pprof: the call is not in $file:$line"
heap_run hits -t stack,pprof otel_memory:alloc
same "the hits of stacks" "$(decode "$SCRATCH/hits.out" hits)" \
	"again 1 churn $n early 7 keep $n swap $n twice 1"

# Without a weight, bytes are those that were asked for; a list puts arguments into order.
heap_run own --json -t heap 'own:get(arg1, arg0)' own:put
same "another provider" "$(sums_of own | tr '\n' ' ')" \
	"churn $((200 * n))/$n 0/0 early 350/7 0/0 keep $((100 * n))/$n $((100 * n))/$n swap $((300 * n))/$n $((300 * threads))/$threads twice 64/1 64/1 "

# A child frees what it has inherited, which is its parent's.
forks=fork
heap_run fork --json -t heap --follow 'otel_memory:*'
forks=
m=$((n + rounds)) k=$((threads + 1))
same "a forked child" "$(sums_of fork)" "$again
churn $((2000 * m))/$m 0/0
$early
keep $((1000 * m))/$m $((1000 * m))/$m
swap $((3000 * m))/$m $((3000 * k))/$k
$twice"
grep -q 'warning: 1 free was of memory that was allocated before the trace' "$SCRATCH/fork.err" ||
	fail "a child's free: $(cat "$SCRATCH/fork.err")"

# ---- A process that runs -------------------------------------------------------------------

start "$TARGETS/heap" "$rounds" "$threads"
save_state "$target_pid"
trace_start attached --json -b 64M -t heap -i 0.2 -p "$target_pid" 'otel_memory:*'
wait_tracing attached
ask go
in_intervals()
{
	jq -s 'map(select(.interval) | .total_bytes) | add' "$SCRATCH/attached.out" 2>"$SCRATCH/null"
}
while [ "$(in_intervals)" != $((6000 * n + 30)) ]; do
	pause
done
trace_stop attached
same_state "$target_pid"
jq -c 'select(.total_bytes != null and .interval == null)' "$SCRATCH/attached.out" >"$SCRATCH/end.out"
same "attached" "$(sums_of end)" "$(echo "$all" | grep -v early)"
grep -q 'warning: 7 frees were of memory that was allocated before the trace$' "$SCRATCH/attached.err" ||
	fail "attached: $(cat "$SCRATCH/attached.err")"
same "intervals add up" "$(in_intervals)" $((6000 * n + 30))
same "what is live, in the last interval" "$(jq -s 'map(select(.interval)) | (map(.ts) | max) as $last |
	map(select(.ts == $last) | .live_bytes) | add' "$SCRATCH/attached.out")" \
	$((1000 * n + 3000 * threads + 20))
tell bye
end_target 0

# Two programs at once: each has pointers of its own.
start "$TARGETS/heap" "$rounds" "$threads"
first=$target_pid first_in=$target_in first_out=$target_out
start "$TARGETS/heap" "$rounds" 1 2>"$SCRATCH/null" # that there are two
trace_start both --json -b 64M -t heap -p "$first,$target_pid" 'otel_memory:*'
wait_tracing both
echo go >&"$first_in"
ask go
IFS= read -r -t 60 -u "$first_out" answer || fail "the first program said nothing"
trace_stop both
m=$((n + rounds)) k=$((threads + 1))
same "two programs" "$(sums_of both)" "again 40/2 40/2
churn $((2000 * m))/$m 0/0
keep $((1000 * m))/$m $((1000 * m))/$m
swap $((3000 * m))/$m $((3000 * k))/$k
twice 20/2 0/0"
end_process "$first"
end_process "$target_pid"

# A copy that ends before its stack does.
heap_run cut -t heap,bytes=512 'otel_memory:*'
grep -q "warning: the stacks of [0-9]* hits are longer than what was copied; -t heap,bytes=N copies more" \
	"$SCRATCH/cut.err" || fail "a short copy: $(cat "$SCRATCH/cut.err")"

# ---- Losses ------------------------------------------------------------------------------

# A ring has room for few copies, and is not read while the tracer stands still.
start "$TARGETS/heap" 5000 1
trace_start full -t heap -b 64k -p "$target_pid" 'otel_memory:*'
wait_tracing full
kill -STOP "$tracer_pid"
ask go
kill -CONT "$tracer_pid"
trace_stop full
grep -q 'warning: [0-9]* allocations were lost:' "$SCRATCH/full.err" ||
	fail "losses: $(cat "$SCRATCH/full.err")"
grep -q 'what is live is an upper bound; larger rings (-b) help$' "$SCRATCH/full.err" ||
	fail "lost frees: $(cat "$SCRATCH/full.err")"
tell bye
end_target 0

# ---- Mistakes ----------------------------------------------------------------------------

# usage WANTED ARGS…
usage()
{
	local wanted=$1
	shift
	"$PROBECTL" trace "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "$*: status" "$?" 2
	grep -qF -e "$wanted" "$SCRATCH/err" || fail "$*: $(cat "$SCRATCH/err") lacks $wanted"
}
usage "-f: tracer 'heap' needs each free" -t heap -f 'arg0 > 1' -p $$ 'otel_memory:*'
usage "pairs cannot be sampled" -t heap --every 10 'otel_memory:*' -- "$TARGETS/heap"
usage "--stack: tracer 'heap' takes stacks by itself" -t heap --stack -p $$ 'otel_memory:*'
usage "-t heap,flamegraph is a file of its own" -t heap,flamegraph -i 1 -p $$ 'otel_memory:*'
usage "-t heap,pprof is a file of its own" -t heap,pprof -o "$SCRATCH/x" -i 1 -p $$ 'otel_memory:*'
usage "-t heap,pprof is not text: name a file, -o heap.pb" -t heap,pprof -p $$ 'otel_memory:*'
usage "-t stack,pprof and --json are two formats" -t stack,pprof --json -o "$SCRATCH/x" -p $$ own:get
usage "-k makes a row for each key" -t heap -k arg1 -p $$ 'otel_memory:*'

# Arguments in another order, or too few: said, not guessed.
heap_run odd -t heap own:put own:get
grep -q 'hits have arguments that are not (pointer, bytes\[, weight\])' "$SCRATCH/odd.err" ||
	fail "odd arguments: $(cat "$SCRATCH/odd.err")"
finish
