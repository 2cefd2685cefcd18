#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Which exit ends which entry: after longjmp(3), exceptions and switches of stacks, by way of tail
# calls, and in generated programs, whose figures are compared (tests/torture/functions.py).
. tests/integration/lib.sh

python3=$(command -v python3) || skip "there is no python3"
root=$PWD
cd "$SCRATCH" || die "no folder"

# ---- Tail calls ----------------------------------------------------------------------

cat >tails.c <<'C'
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf env;
volatile long sink;
long (*volatile any)(long);

__attribute__((noipa)) long third(long n, long how)
{
	sink += n;
	if (how == 1)
		longjmp(env, 1);
	return n * 3;
}

__attribute__((noipa)) long second(long n, long how)
{
	sink ^= n;
	return how == 2 ? n : third(n + 1, how);
}

__attribute__((noipa)) long first(long n, long how)
{
	sink += 2;
	return second(n + 1, how);
}

__attribute__((noipa)) long pointer(long n)
{
	sink += 3;
	return any(n);
}

__attribute__((noipa)) long outside(const char *text)
{
	sink += 4;
	return atol(text);
}

__attribute__((noipa)) long around(long n);
__attribute__((noipa)) long there(long n)
{
	sink += 5;
	return n ? around(n - 1) : 1;
}
__attribute__((noipa)) long around(long n)
{
	sink += 6;
	return n ? there(n - 1) : 2;
}

/*
 * Behind elog(ERROR) of PostgreSQL, a part that gcc has split off jumps to the end of its function,
 * which is the start of the next one.
 */
#ifdef __x86_64__
long split_end(long n);
__asm__(".pushsection .text.unlikely\n"
	"split.cold: call nothing\n"
	"	jmp split_end\n"
	".type split.cold, @function; .size split.cold, . - split.cold\n"
	".popsection; .pushsection .text; .globl split, split_end; .p2align 4\n"
	"split:	sub $8, %rsp; test %rdi, %rdi; js split.cold\n"
	"	lea 1(%rdi), %rax; add $8, %rsp; ret\n"
	".type split, @function; .size split, . - split\n"
	"split_end: mov %rdi, %rax; nop; nop; nop; jmp split\n"
	".type split_end, @function; .size split_end, . - split_end\n"
	".popsection\n");
#else
#define split_end(n) 0
#endif
__attribute__((noipa)) void nothing(void)
{
	sink++;
}

__attribute__((noipa)) void never(void)
{
	longjmp(env, 2);
}

int main(void)
{
	any = there;
	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < 100; i++) {
		if (!setjmp(env))
			first(i, i % 3);
		sink += second(i, 2) + third(i, 0) + pointer(i) + outside("12") + split_end(i);
		if (!setjmp(env))
			never();
	}
	puts("end");
	fflush(stdout);
	getchar();
	return 0;
}
C
cc -O2 -o tails tails.c || die "cannot build the program"
mkfifo in
./tails <in >out &
pid=$!
exec 3>in
while ! grep -q ready out; do pause; done
# begin NAME ARGS…: traces in the background; $! is the process
begin()
{
	"$PROBECTL" trace -p $pid "${@:2}" >"$1" 2>"$1.err" &
	while ! grep -qs "tracing" "$1.err"; do pause; done
}
begin counts -c fn:tails:{first:return,second,second:return,third,third:return,outside:return}
counts=$!
[ "$(uname -m)" != x86_64 ] || begin splits -c fn:tails:split{,_end}:return
splits=$!
begin pairs -t latency --json fn:tails:first
pairs=$!
begin values 'fn:tails:first:return(retval)'
values=$!
echo >&3
while ! grep -q end out; do pause; done
kill -INT $counts $values $pairs $splits
wait $counts $values $pairs $splits
[ "$(uname -m)" != x86_64 ] ||
	same "returns of split parts" "$(awk '/:return/ {print $2}' splits | xargs)" "100 100"
# 33 of the 100 calls of first() leave by longjmp(3).
same "returns of first()" "$(awk '/first:return/ {print $2}' counts)" 67
same "calls of second() and third()" "$(awk '/second |third / {print $2}' counts | xargs)" "200 167"
same "returns of second()" "$(awk '/second:return/ {print $2}' counts)" 167
same "returns of third()" "$(awk '/third:return/ {print $2}' counts)" 134
same "ends of outside()" "$(awk '/outside:return/ {print $2}' counts)" 100
same "values of first()" "$(grep -o 'retval=[0-9]*' values | md5sum)" \
	"$(for ((i = 0; i < 100; i++)); do
		((i % 3 == 0)) && echo "retval=$(((i + 2) * 3))"
		((i % 3 == 2)) && echo "retval=$((i + 1))"
	done | md5sum)"
grep -q '"count":67,.*"in_flight":33,"unmatched":0' pairs || fail "pairs of first(): $(cat pairs)"

# refused FUNCTION REASON
refused()
{
	"$PROBECTL" trace -c -p $pid "fn:tails:$1:return" >/dev/null 2>err && fail "$1: no error"
	grep -q "$2" err || fail "$1: $(cat err)"
	"$PROBECTL" trace -c -d 0.1 -p $pid "fn:tails:$1" >/dev/null 2>err || fail "$1: $(cat err)"
}
refused pointer "one of its jumps may lead to any function"
refused around "its tail calls lead back to it"
refused never "it does not return, by its code"
# What a process's list says of ends is what its file's says, though `enable` cannot notice them.
same "ends in the list" "$("$PROBECTL" list --functions -p $pid fn:tails:first | awk '$1 ~ /^fn/ {print $(NF - 1)}')" \
	"$("$PROBECTL" list --functions tails first | awk '$1 ~ /^fn/ {print $(NF - 1)}')"
# Naming the exits, too, names the same pair.
"$PROBECTL" trace -q -t latency 'fn:libc:malloc(arg0)' fn:libc:malloc:return -- ls / >pair 2>err ||
	fail "a pair that is named twice: $(cat err)"
grep -q "ends without a begin 0" pair || fail "a pair that is named twice: $(cat pair)"
"$PROBECTL" trace -q -t self -d 0.1 -p $pid fn:tails:first >self 2>err || fail "self: $(cat err)"
grep -q "no call has ended; if hits were lost, add --full=wait or" self || fail "self: $(cat self)"
"$PROBECTL" enable -p $pid fn:tails:first:return 2>err && fail "enable: no error"
grep -q "it returns in another function, which only tracers notice" err || fail "enable: $(cat err)"
"$PROBECTL" trace -t latency --match arg0 -p $pid fn:tails:first 2>err && fail "--match: no error"
grep -q "which cannot be noticed if begins are matched" err || fail "--match: $(cat err)"
echo >&3
wait $pid || fail "the program has failed"

# ---- Generated programs --------------------------------------------------------------

seeds=3
in_all && seeds=40
"$python3" "$root/tests/torture/functions.py" "$PROBECTL" . ${FUNCTIONS_SEED:-1} $seeds >log 2>&1 ||
	fail "$(cat log)"
finish
