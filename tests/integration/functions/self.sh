#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Self time: the calls, callers and callees of a program that counts its own, live and in a record;
# total time is self time and that of the callees. The same for the functions of a Python script.
. tests/integration/lib.sh
need cc jq

cd "$SCRATCH" || die "no folder"
cat >nest.c <<'C'
#include <setjmp.h>
#include <stdio.h>

#define OWN __attribute__((noinline, noclone))

static volatile int spins;
static jmp_buf back;

static void spin(int times)
{
	for (spins = 0; spins < times; spins++)
		;
}

OWN int leaf(int x) { spin(30); return x + spins; }
OWN int middle(int x) { spin(20); x += leaf(x); x += leaf(x + 1); spin(5); return x + spins; }
OWN int again(int x) { spin(10); x = x > 1 ? again(x - 1) + leaf(x) : leaf(x); spin(3); return x + spins; }
OWN int left(int x) { spin(5); x = leaf(x); if (x) longjmp(back, 1); spin(9); return x + spins; }
OWN int catches(int x) { spin(5); if (!setjmp(back)) x += left(x); spin(5); return x + spins; }
OWN int top(int x)
{
	spin(10);
	x += middle(x);
	x += middle(x + 1);
	x += again(5);
	x += catches(x);
	spin(10);
	return x + spins;
}

int main(void)
{
	int sum = 0;

	for (int i = 0; i < 200; i++)
		sum += top(i);
	return sum == 1;
}
C
cc -O1 -fno-optimize-sibling-calls -o nest nest.c || die "cannot build the program"
names=(leaf middle again left catches top)
functions=("${names[@]/#/fn:nest:}")

# The calls of each function, and its callers with theirs. `left` never returns: a jump ends it, so
# it has no time, and is not known to be a function.
cat >wanted <<'W'
again 1000 again=800,top=200
catches 200 top=200
leaf 2000 =200,again=1000,middle=800
middle 400 top=400
top 200 =200
W

# calls FILE: the same of the rows in FILE
calls()
{
	jq -r 'select(.function) | "\(.name) \(.count) " + ([.callers[] |
		"\(.function // "" | sub(".*:"; ""))=\(.count)"] | sort | join(","))' "$1" | sort
}

# adds_up FILE: is a function's total its self time and what its callees took? Not if it calls
# itself, and not if a jump leaves what it calls.
adds_up()
{
	jq -e -s 'map(select(.function)) | map({key: .name, value: .}) | from_entries |
		([.top, .middle] | all(.total == .self + ([.callees[].total] | add))) and
		.leaf.total == .leaf.self and .again.total >= .again.self and
		.top.total >= ([.middle.total, .again.total, .catches.total] | add) and
		([.[] | .self] | add) == .top.total' "$1" >/dev/null ||
		fail "$1 does not add up: $(cat "$1")"
}

"$PROBECTL" trace -t self --json -b 8M -o live "${functions[@]}" -- ./nest 2>live.err ||
	fail "trace: $(cat live.err)"
same "the calls" "$(calls live)" "$(cat wanted)"
adds_up live
grep -q '200 begins without an end, 0 ends without a begin' live.err || fail "not told: $(cat live.err)"
same "lines that are no rows" "$(jq -c 'select(.function | not)' live)" ""

returns=("${functions[@]/%/:return}")
"$PROBECTL" record -b 8M -o record "${functions[@]}" "${returns[@]}" -- ./nest 2>record.err ||
	fail "record: $(cat record.err)"
"$PROBECTL" report --self --json record >reported 2>report.err || fail "report: $(cat report.err)"
same "the calls in a record" "$(calls reported)" "$(cat wanted)"
adds_up reported
"$PROBECTL" report --self record >text 2>/dev/null
grep -Eq '^  <- fn:nest:top +400 ' text && grep -Eq '^  -> fn:nest:leaf +800 ' text ||
	fail "the text has no callers and callees: $(cat text)"
"$PROBECTL" export -F folded record 2>/dev/null | grep -q '^nest;fn:nest:top;fn:nest:middle;fn:nest:leaf [0-9]*$' ||
	fail "the stacks have no functions"

# A tail call's caller ends at the exit of what it called, after it, whatever their names are.
cat >tails.c <<'C'
static volatile long sink;

__attribute__((noipa)) long inner(long n) { return n + 1; }
__attribute__((noipa)) long outer(long n) { sink++; return inner(n); }
__attribute__((noipa)) long utmost(long n) { sink++; return outer(n); }

int main(void)
{
	for (int i = 0; i < 100; i++)
		sink += utmost(i) + outer(i) + inner(i);
}
C
cc -O2 -o tails tails.c || die "cannot build the program"
"$PROBECTL" trace -t self --json -o tails.out 'fn:tails:/^(inner|outer|utmost)$/' -- ./tails 2>tails.err ||
	fail "trace: $(cat tails.err)"
same "the calls of tail calls" "$(calls tails.out)" \
	"$(printf '%s\n' "inner 300 =100,outer=200" "outer 200 =100,utmost=100" "utmost 100 =100")"
grep -q 'without' tails.err && fail "tail calls have no end: $(cat tails.err)"

# A loop that never returns is where a failed query jumps back to. What was left is no caller of what
# comes later, and its times are nobody else's, live and in records of each kind.
cat >loop.c <<'C'
#include <setjmp.h>

static jmp_buf back;
static volatile int spins;

__attribute__((noipa)) void step(int fails) { for (spins = 0; spins < 30; spins++); if (fails) longjmp(back, 1); }
__attribute__((noipa)) int plan(int fails, int depth)
{
	if (depth)
		return plan(fails, depth - 1) + spins;
	step(fails);
	return spins;
}
__attribute__((noipa)) int query(int fails) { return plan(fails, 2) + spins; }
__attribute__((noipa)) int idle(void) { for (spins = 0; spins < 30; spins++); return spins; }

int main(void)
{
	for (volatile int i = 0; i < 50; i++) {
		if (!setjmp(back))
			query(i % 5 == 4);
		idle();
	}
	_Exit(0);
}
C
sed -i '1i #include <stdlib.h>' loop.c
cc -O1 -fno-optimize-sibling-calls -o loop loop.c || die "cannot build the program"
names=(fn:loop:{query,plan,step,idle})
cat >wanted <<'W'
idle 50 =50
plan 120 plan=80,query=40
query 40 =40
step 40 plan=40
W
"$PROBECTL" trace -t self --json -o loop.live "${names[@]}" -- ./loop 2>loop.err || fail "trace: $(cat loop.err)"
same "the calls beside jumps" "$(calls loop.live)" "$(cat wanted)"
grep -q '50 begins without an end, 0 ends' loop.err || fail "not told: $(cat loop.err)"
for options in --full=flush --full=wait --full=loop --stack; do
	rm -rf loop.record
	"$PROBECTL" record -q $options -o loop.record "${names[@]}" "${names[@]/%/:return}" -- ./loop ||
		fail "record $options"
	"$PROBECTL" report --self --json loop.record 2>/dev/null >loop.report || fail "report $options"
	same "the calls in a record with $options" "$(calls loop.report)" "$(cat wanted)"
done
# The frame is no argument of the function.
"$PROBECTL" export -F json loop.record >loop.events || fail "export"
same "the arguments" "$(jq -c 'select(.name == "idle").args' loop.events | sort -u)" "[]"

# An exit ends the call whose frame it has, not an inner one that was left.
cat >inner.c <<'C'
#include <setjmp.h>
#include <unistd.h>

static jmp_buf back;

__attribute__((noipa)) int retry(int again)
{
	if (!again)
		longjmp(back, 1);
	usleep(2000);
	if (!setjmp(back))
		retry(0);
	return again;
}

int main(void)
{
	for (int i = 0; i < 10; i++)
		retry(1);
}
C
cc -O1 -o inner inner.c || die "cannot build the program"
"$PROBECTL" record -q -o inner.record fn:inner:retry fn:inner:retry:return -- ./inner || fail "record"
"$PROBECTL" report --json inner.record >inner.report || fail "report"
same "pairs, those without an end, and whether they took 2 ms" \
	"$(jq -c 'select(.type == "pair") | [.count, .in_flight, .min >= 2000000]' inner.report)" "[10,10,true]"

# Two tracers share the stubs; the copy of an exit stays while memory is taken and given back.
cat >moved.c <<'C'
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static volatile int last;

__attribute__((noinline, noclone)) uint64_t leaf(uint64_t x)
{
	last = 1;
	last = 2;
	__asm__ volatile("nop; nop; nop; nop" ::: "memory");
	return x * 3 + last;
}

int main(void)
{
	uint64_t sum = 0;

	puts("ready");
	fflush(stdout);
	for (;;) {
		for (int i = 0; i < 1000; i++)
			sum += leaf(sum);
		usleep(1000);
	}
}
C
cc -O2 -o moved moved.c || die "cannot build the program"
start ./moved
"$PROBECTL" trace -q -t self -t latency --json -d 0.3 -o several -p "$target_pid" fn:moved:leaf 2>several.err ||
	fail "two tracers: $(cat several.err)"
[ "$(jq -r 'select(.tracer == "self") | .count' several)" -gt 0 ] || fail "self beside latency has no calls"
kill -0 "$target_pid" 2>/dev/null || fail "the program has ended"

# A flight recorder has frames, too, which are no arguments.
"$PROBECTL" enable -t ring -p "$target_pid" fn:moved:leaf fn:moved:leaf:return >/dev/null || fail "enable"
pause
"$PROBECTL" read --json -p "$target_pid" >held || fail "read"
same "the arguments in a flight recorder" "$(jq -c .args held | sort -u | grep -Ev '^\[-?[0-9]+\]$')" "[]"
"$PROBECTL" read -o held.record -p "$target_pid" 2>/dev/null || fail "read -o"
grep -q ' frame;' held.record/metadata || fail "there are no frames: $(cat held.record/metadata)"
"$PROBECTL" disable -p "$target_pid" fn:moved:leaf fn:moved:leaf:return >/dev/null || fail "disable"

# A program that executes itself leaves a call, which does not call those of the second program.
cat >replaced.c <<'C'
#include <unistd.h>

static volatile int spins;

__attribute__((noinline, noclone)) int leaf(int x)
{
	for (spins = 0; spins < 30; spins++)
		;
	return x + spins;
}

__attribute__((noinline, noclone)) int replaces(int argc, char **argv)
{
	for (spins = 0; spins < 30; spins++)
		;
	if (argc == 1 && leaf(argc))
		execl(argv[0], argv[0], "again", (char *)NULL);
	return leaf(argc) + spins;
}

int main(int argc, char **argv)
{
	int sum = 0;

	for (int i = 0; i < 3; i++)
		sum += replaces(argc, argv);
	return sum == 1;
}
C
cc -O1 -o replaced replaced.c || die "cannot build the program"
"$PROBECTL" trace -q -t self --json -o twice fn:replaced:leaf fn:replaced:replaces -- ./replaced 2>twice.err ||
	fail "a program that executes itself: $(cat twice.err)"
same "the calls of two programs" "$(calls twice)" "leaf 4 replaces=4
replaces 3 =3"

# Text without -v, and what cannot be asked.
"$PROBECTL" trace -t self -q -b 8M -o plain "${functions[@]}" -- ./nest || fail "trace -q"
same "the functions" "$(awk 'NR > 1 {print $1}' plain | sort | tr '\n' ' ')" \
	"fn:nest:again fn:nest:catches fn:nest:leaf fn:nest:middle fn:nest:top "
"$PROBECTL" trace -t self -f 'arg0 > 1' "${functions[@]}" -- ./nest 2>said && fail "-f is taken"
grep -q "tracer 'self' needs each begin and end" said || fail "not told: $(cat said)"
"$PROBECTL" report --self --pairs record 2>said && fail "--pairs is taken"

# ---- Python ------------------------------------------------------------------------------

interpreter=/usr/bin/python3.11
[ -x "$interpreter" ] && has_probes "$interpreter" && need setarch || finish
cat >calls.py <<'P'
def inner(n):
    return n * 2

def outer(n):
    return sum(inner(i) for i in range(n)) + inner(n)

for i in range(50):
    outer(10)
P
"$PROBECTL" trace -t self --json -b 8M -o python 'python:function__*' -- \
	setarch -R "$interpreter" -S -E calls.py 2>python.err || fail "python: $(cat python.err)"
same "Python's calls" "$(jq -r 'select(.function == "inner" or .function == "outer") |
	"\(.function) \(.count) " + ([.callers[] | "\(.function)=\(.count)"] | sort | join(","))' python | sort)" \
	"inner 550 <genexpr>=500,outer=50
outer 50 <module>=50"
finish
