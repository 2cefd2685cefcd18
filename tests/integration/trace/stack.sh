#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Call stacks: a known tree of calls, with and without frame pointers; recursion, a signal,
# frames beyond the copy; C++ exceptions; PostgreSQL, where gdb must see the same.
. tests/integration/lib.sh
need_attach

rounds=50

# stacks_of FILE PROBE: the JSON stacks of one probe, as "COUNT END inner,...,main", sorted;
# frames outside main, those of the C library, and the kernel's code are left out
stacks_of()
{
	"$python" - "$1" "$2" <<'PYTHON'
import json, sys
sums = {}
for line in open(sys.argv[1], encoding="utf-8"):
    item = json.loads(line)
    if "frames" not in item or f"{item['provider']}:{item['name']}" != sys.argv[2]:
        continue
    names = []
    for frame in item["frames"]:
        if "libc.so" not in frame["module"] and frame["module"] != "[vdso]":
            names.append(frame["symbol"])
        if frame["symbol"] == "main":
            break
    key = item["end"] + " " + ",".join(map(str, names))
    sums[key] = sums.get(key, 0) + item["count"]
print("\n".join(sorted(f"{count} {key}" for key, count in sums.items())))
PYTHON
}

# trace_stacks NAME TARGET ARGS…: all stacks of a run, as JSON in $SCRATCH/NAME.json
trace_stacks()
{
	local name=$1 target=$2
	shift 2
	printf '\n\n' | "$PROBECTL" trace --json -o "$SCRATCH/$name.json" "$@" -- \
		"$TARGETS/$target" "$rounds" >"$SCRATCH/$name.stdout" 2>"$SCRATCH/$name.err" ||
		fail "$name: status $?: $(head -3 "$SCRATCH/$name.err")"
	same "$name: the program" "$(grep -c '^hits ' "$SCRATCH/$name.stdout")" 1
}

# ---- A known tree -------------------------------------------------------------------

calls="$((2 * rounds)) whole leaf,middle,right,calls,main
$rounds whole leaf,left,calls,main"
recursion="1 whole bottom,recurse,recurse,recurse,recurse,recurse,main"

# On aarch64 a function saves its return address below its variables.
big="1 truncated behind_big,big"
[ "$(uname -m)" != aarch64 ] || big=$big,main

# By unwind rules, in code with and without frame pointers, and with signed addresses.
for target in stacks stacks_frames stacks_signed; do
	trace_stacks "$target" "$target" -t stack 'stacks:*'
	out=$SCRATCH/$target.json
	same "$target: calls" "$(stacks_of "$out" stacks:call)" "$calls"
	same "$target: a recursion" "$(stacks_of "$out" stacks:recursion)" "$recursion"
	same "$target: a signal" "$(stacks_of "$out" stacks:signal)" \
		"1 whole on_signal,on_illegal,interrupted,main"
	# 20,000 bytes lie between the end of the copy and the caller.
	same "$target: a big frame" "$(stacks_of "$out" stacks:big)" "$big"
	deep=$(stacks_of "$out" stacks:deep)
	same "$target: no more than 127 frames" "$(tr ',' '\n' <<<"$deep" | grep -c .)" 127
	case $deep in
	'1 truncated bottom,deep,deep,'*) ;;
	*) fail "$target: too many frames: ${deep:0:80}" ;;
	esac
	grep -q 'warning: the stacks of 2 hits are longer' "$SCRATCH/$target.err" ||
		fail "$target: cut stacks are not told: $(cat "$SCRATCH/$target.err")"
done
trace_stacks all stacks -t stack,bytes=32768 stacks:big
same "a big frame in a big copy" "$(stacks_of "$SCRATCH/all.json" stacks:big)" \
	"1 whole behind_big,big,main"

# By frame pointers.
trace_stacks frames stacks_frames -t stack,frames 'stacks:*'
out=$SCRATCH/frames.json
same "frame pointers: calls" "$(stacks_of "$out" stacks:call)" "$calls"
same "frame pointers: a recursion" "$(stacks_of "$out" stacks:recursion)" "$recursion"
same "frame pointers: a big frame" "$(stacks_of "$out" stacks:big)" "1 whole behind_big,big,main"
case $(stacks_of "$out" stacks:deep) in
'1 truncated bottom,deep,deep,'*) ;;
*) fail "frame pointers: too many frames: $(stacks_of "$out" stacks:deep)" ;;
esac

# The innermost return address may be in a register, and signed; and so may be those of a key.
if [ "$(uname -m)" = aarch64 ]; then
	trace_stacks signed stacks_signed -t stack,frames stacks:call
	same "signed addresses" "$(stacks_of "$SCRATCH/signed.json" stacks:call | sed 's/,[^,]*libc.*//' |
		cut -d, -f1,2 | sort)" "$((2 * rounds)) whole leaf,middle
$rounds whole leaf,left"
	printf '\n\n' | "$PROBECTL" trace --json -c -k ustack -o "$SCRATCH/key" stacks:call -- \
		"$TARGETS/stacks_signed" "$rounds" >"$SCRATCH/stdout" 2>"$SCRATCH/err" ||
		fail "a key: $(cat "$SCRATCH/err")"
	same "signed addresses in a key" "$("$python" -c 'import json, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    if "keys" in row:
        print(row["hits"], *row["keys"][0][:2])' "$SCRATCH/key" | sort -n)" "$rounds leaf left
$((2 * rounds)) leaf middle"
fi

# ---- What is printed ----------------------------------------------------------------

# Lines for flame graphs, and nothing else.
printf '\n\n' | "$PROBECTL" trace -t stack,folded -o "$SCRATCH/folded" stacks:call -- \
	"$TARGETS/stacks" "$rounds" >"$SCRATCH/stdout" 2>"$SCRATCH/err" ||
	fail "folded: $(head -3 "$SCRATCH/err")"
same "folded lines" "$(sed 's/^stacks;.*;main;/main;/' "$SCRATCH/folded")" \
	"main;calls;left;leaf $rounds
main;calls;right;middle;leaf $((2 * rounds))"

# With -v, frames have their lines.
sources=$(cat tests/targets/*/stacks.c | grep -n 'STAP_PROBE1(stacks, call' | cut -d: -f1)
for how in '' --json; do
	# shellcheck disable=SC2086 # perhaps no option
	printf '\n\n' | "$PROBECTL" trace -v $how -t stack -o "$SCRATCH/lines" stacks:call -- \
		"$TARGETS/stacks" "$rounds" >"$SCRATCH/stdout" 2>"$SCRATCH/err" ||
		fail "lines: $(head -3 "$SCRATCH/err")"
	line="leaf (stacks.c:$sources)\$"
	[ -z "$how" ] || line="\"symbol\":\"leaf\",\"offset\":\"0x[0-9a-f]*\",\"file\":\"[^\"]*/stacks.c\",\"line\":$sources}"
	grep -q "$line" "$SCRATCH/lines" || fail "no $line: $(cat "$SCRATCH/lines")"
done

# The same, drawn.
printf '\n\n' | "$PROBECTL" trace -t stack,flamegraph -o "$SCRATCH/svg" stacks:call -- \
	"$TARGETS/stacks" "$rounds" >"$SCRATCH/stdout" 2>"$SCRATCH/err" ||
	fail "flamegraph: $(head -3 "$SCRATCH/err")"
"$python" - "$SCRATCH/svg" >"$SCRATCH/boxes" <<'PYTHON' || fail "no XML: $(head -3 "$SCRATCH/svg")"
import sys, xml.etree.ElementTree as tree
svg = "{http://www.w3.org/2000/svg}"
for box in tree.parse(sys.argv[1]).getroot().iter(svg + "g"):
    print(box.find(svg + "title").text)
PYTHON
for box in "leaf (50 hits, 33.3 %)" "leaf (100 hits, 66.7 %)" "left (50 hits, 33.3 %)" \
	"right (100 hits, 66.7 %)" "calls (150 hits, 100 %)" "all (150 hits, 100 %)"; do
	grep -qxF "$box" "$SCRATCH/boxes" || fail "no box $box: $(cat "$SCRATCH/boxes")"
done

# A tree, callers on top.
printf '\n\n' | "$PROBECTL" trace -t stack -o "$SCRATCH/tree" stacks:call -- \
	"$TARGETS/stacks" "$rounds" >"$SCRATCH/stdout" 2>"$SCRATCH/err" ||
	fail "tree: $(head -3 "$SCRATCH/err")"
same "the tree" "$(sed -n '1,2p; / main$/,$p' "$SCRATCH/tree")" \
	"stacks:call: 150 hits, 3 stacks
        HITS        %  FRAME
         150  100.0 %  main
         150  100.0 %  calls
         100   66.7 %  - right
         100   66.7 %    middle
         100   66.7 %    leaf
          50   33.3 %  - left
          50   33.3 %    leaf"
printf '\n\n' | "$PROBECTL" trace -t stack --top 1 -o "$SCRATCH/top" stacks:call -- \
	"$TARGETS/stacks" "$rounds" >"$SCRATCH/stdout" 2>"$SCRATCH/err" ||
	fail "top: $(head -3 "$SCRATCH/err")"
same "what --top leaves out" "$(tail -1 "$SCRATCH/top")" "... 2 more stacks (--top), 100 hits"

# Names of C++, as they were written.
printf '\n\n' | "$PROBECTL" trace -t stack,folded -o "$SCRATCH/cxx" cxx:enter -- \
	"$TARGETS/throw" 9 >"$SCRATCH/stdout" 2>"$SCRATCH/err" || fail "throw: $(cat "$SCRATCH/err")"
grep -q ';catcher(int);.*;thrower(int) 9$' "$SCRATCH/cxx" || fail "C++: $(cat "$SCRATCH/cxx")"

# usage WANTED ARGS…
usage()
{
	local wanted=$1 message status
	shift
	message=$("$PROBECTL" trace "$@" -p $$ stacks:call 2>&1 >/dev/null)
	status=$?
	same "$*: status" "$status" 2
	case $message in
	*"$wanted"*) ;;
	*) fail "$*: '$message' lacks '$wanted'" ;;
	esac
}
usage "has no option 'bytess'" -t stack,bytess
usage 'between 512 and 32768 bytes' -t stack,bytes=40000
usage 'between 512 and 32768 bytes' -t stack,bytes=
usage 'one of folded, flamegraph and pprof' -t stack,folded,flamegraph
usage 'a file of its own' -t stack,flamegraph -i 1
usage 'a file of its own' -t stack,flamegraph -t count
usage 'either frames' -t stack,frames,bytes=4096
usage "tracer 'stack' has no rows" -t stack -k tid
usage "tracer 'stack' has no rows: -c -k ustack counts by stack" -t stack,frames -k tid
usage 'records nothing, so -b does not apply' -t stack,frames -b 1M

# Without libdw the command fails at once: callers would be missing without notice.
mkdir "$SCRATCH/no_libdw"
: >"$SCRATCH/no_libdw/libdw.so.1"
for how in stack stack,frames; do
	message=$(LD_LIBRARY_PATH=$SCRATCH/no_libdw "$PROBECTL" trace -t "$how" stacks:call -- \
		"$TARGETS/stacks" "$rounds" 2>&1 >/dev/null </dev/null)
	same "$how without libdw: status" "$?" 1
	case $message in
	'probectl: unwinding stacks needs libdw (elfutils), which cannot be loaded:'*) ;;
	*) fail "$how without libdw: '$message'" ;;
	esac
done

# The new hits of all intervals add up to the total; the target is as before.
for how in stack stack,frames; do
	start "$TARGETS/stacks_frames" 20000
	save_state "$target_pid"
	trace_start "$how" --json -t "$how" -i 0.05 -p "$target_pid" stacks:call
	wait_on "$target_pid" stacks:call
	ask go
	sleep 0.3
	trace_stop "$how"
	same_state "$target_pid"
	tell bye
	end_target 0
	same "$how: intervals, and all" "$("$python" - "$SCRATCH/$how.out" <<'PYTHON'
import json, sys
intervals = whole = lost = 0
for line in open(sys.argv[1], encoding="utf-8"):
    item = json.loads(line)
    lost += item.get("lost", 0)
    if "interval" in item:
        intervals += item["count"]
    elif "frames" in item:
        whole += item["count"]
# Hits after the last full interval make one more.
print(intervals == whole and intervals > 0, whole + lost)
PYTHON
	)" "True 60000"
done

# A process that takes another name keeps its row, so that intervals add up.
start "$TARGETS/nicknames"
trace_start named --json -t stack,frames -i 0.1 -p "$target_pid" nicknames:hit
wait_tracing named
in_intervals()
{
	jq -s 'map(select(.interval) | .count) | add // 0' "$SCRATCH/named.out" 2>"$SCRATCH/null"
}
for name in first second; do
	ask "main $name"
	sleep 0.2 # a name that was read a tenth of a second ago is read again
	ask "thread 10 left"
	until [ "$(in_intervals)" -ge "${expected:=10}" ]; do
		pause
	done
	expected=20
done
trace_stop named
same "intervals of a renamed process" "$(in_intervals)" 20
end_target

# ---- C++ exceptions -----------------------------------------------------------------

# By frame pointers: libstdc++ may have none, and then the stack does not look whole.
if printf '\n\n' | "$PROBECTL" trace --json -t stack,frames -o "$SCRATCH/throw.frames" libstdcxx:throw -- \
	"$TARGETS/throw" 300 >"$SCRATCH/stdout" 2>"$SCRATCH/err"; then
	same "stacks without main, but whole" "$("$python" - "$SCRATCH/throw.frames" <<'PYTHON'
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    item = json.loads(line)
    names = [frame["symbol"] for frame in item.get("frames", [])]
    if names and item["end"] == "whole" and "main" not in names:
        print(names)
PYTHON
	)" ""
fi

throw_stacks()
{
	printf '\n\n' | "$PROBECTL" trace --json -t stack -o "$SCRATCH/throw.json" libstdcxx:throw -- \
		"$TARGETS/throw" 300 >"$SCRATCH/stdout" 2>"$SCRATCH/err"
}
if throw_stacks; then
	same "throws" "$("$python" - "$SCRATCH/throw.json" <<'PYTHON'
import json, sys
count, chains = 0, set()
for line in open(sys.argv[1], encoding="utf-8"):
    item = json.loads(line)
    if "frames" not in item:
        continue
    # The compiler splits and clones functions: f() [clone .isra.0].
    names = [str(frame["symbol"]).split(" [clone")[0] for frame in item["frames"]]
    chain = [name for name in names[:names.index("main") + 1] if "::" not in name]
    chains.add(" ".join(chain))
    count += item["count"]
    assert item["end"] == "whole", item
print(count, *sorted(chains), sep="|")
PYTHON
	)" "200|__cxa_throw thrower(int) around(int) catcher(int) main"
else
	fail "throws: $(head -3 "$SCRATCH/err")"
fi

# ---- PostgreSQL: the same as gdb ----------------------------------------------------

if ! command -v gdb >/dev/null; then
	finish
fi
pg_start

# Every query runs with the same plan, from the same place.
coproc PSQL { exec "$pg_bin/psql" -XAtq; }
# shellcheck disable=SC2153 # set by coproc
psql_pid=$PSQL_PID
exec {psql_out}<&"${PSQL[0]}" {psql_in}>&"${PSQL[1]}"
on_exit "end_process $psql_pid"
query()
{
	echo "$1" >&"$psql_in"
	IFS= read -r -t 60 -u "$psql_out" answer || die "psql says nothing to '$1'"
}
query 'select pg_backend_pid();'
backend=$answer
query 'select 1;'

trace_start pg --json -t stack -p "$backend" postgresql:query__start
wait_on "$backend" postgresql:query__start
query 'select 1;'
trace_stop pg
"$python" -c 'import json, sys
[print(frame["ip"]) for line in open(sys.argv[1]) for frame in json.loads(line)["frames"]]' \
	"$SCRATCH/pg.out" >"$SCRATCH/ours"

gdb -nx -batch -p "$backend" -ex 'set pagination off' -ex 'set backtrace past-main on' \
	-ex 'break -probe-stap postgresql:query__start' -ex "shell touch '$SCRATCH/there'" -ex 'continue' -ex 'bt' -ex 'detach' \
	>"$SCRATCH/gdb.out" 2>&1 </dev/null &
gdb_pid=$!
# It may end before, if it may not attach.
until [ -e "$SCRATCH/there" ] || ! kill -0 "$gdb_pid" 2>/dev/null; do
	pause
done
query 'select 1;'
wait "$gdb_pid"
# The first frame is the breakpoint; the others are return addresses.
sed -n 's/^#[0-9]* *\(0x[0-9a-f]*\) in .*/\1/p' "$SCRATCH/gdb.out" |
	"$python" -c 'import sys
[print(hex(int(line, 16))) for line in sys.stdin]' >"$SCRATCH/theirs"
if [ ! -s "$SCRATCH/theirs" ]; then
	echo "note: gdb shows no stack: $(tail -3 "$SCRATCH/gdb.out")"
else
	same "frames of a query, as gdb has them" "$(cat "$SCRATCH/ours")" "$(cat "$SCRATCH/theirs")"
fi
check_alive "$backend"
finish
