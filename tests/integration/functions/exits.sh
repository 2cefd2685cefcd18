#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Exits at the address of the entry: those of a function that a conditional jump leaves are refused,
# and not taken for the entry, whose address they are listed at; a single jump is both. Of two
# functions that share an exit, one may have it although the other may not. A function that runs on
# into the next one ends there, too, so its exits are refused.
. tests/integration/lib.sh
need cc jq

cd "$SCRATCH" || die "no folder"
cat >exits.c <<'C'
#include <stdio.h>

__asm__(".text\n"
	".globl leaves\n.type leaves, %function\n"
	"leaves:\n"
#ifdef __x86_64__
	"test %edi, %edi\njs target\nlea 1(%rdi), %eax\nmov %eax, %eax\nmov %eax, %eax\nret\n"
#else
	"cmp w0, #0\nb.lt target\nadd w0, w0, #1\nmov w0, w0\nmov w0, w0\nret\n"
#endif
	".size leaves, . - leaves\n.balign 16\n"
	".globl jumps\n.type jumps, %function\n"
	"jumps:\n"
#ifdef __x86_64__
	".byte 0xe9\n.long target-1f\n1:\n"
#else
	"b target\n"
#endif
	".size jumps, . - jumps\n.balign 16\n"
	".globl target\n.type target, %function\n"
	"target:\n"
#ifdef __x86_64__
	"lea 2(%rdi), %eax\n.rept 8\nmov %eax, %eax\n.endr\nret\n"
#else
	"add w0, w0, #2\n.rept 8\nmov w0, w0\n.endr\nret\n"
#endif
	".size target, . - target\n.balign 16\n"
	".globl shared, within\n.type shared, %function\n.type within, %function\n"
	"shared:\n"
#ifdef __x86_64__
	"mov %edi, %eax\njmp 2f\n1: ret\n2: test %edi, %edi\njs 1b\n"
	"within: lea 1(%rdi), %eax\n.rept 8\nmov %eax, %eax\n.endr\nret\n"
#else
	"within: add w0, w0, #1\nret\n"
#endif
	".size shared, . - shared\n.size within, . - within\n.balign 16\n"
	".globl runs, next\n.type runs, %function\n.type next, %function\n"
	"runs:\n"
#ifdef __x86_64__
	"lea 3(%rdi), %eax\nmov %eax, %eax\nmov %eax, %eax\ntest %edi, %edi\njs 1f\nret\n.balign 16\n1: inc %eax\n"
	".size runs, . - runs\nnext: .rept 8\ninc %eax\n.endr\nret\n"
#else
	"add w8, w0, #3\ncmp w0, #0\nmov w0, w8\nb.lt 1f\nret\n.balign 16\n1: add w0, w0, #1\n"
	".size runs, . - runs\nnext: .rept 8\nadd w0, w0, #1\n.endr\nret\n"
#endif
	".size next, . - next\n");

int leaves(int x);
int jumps(int x);
int shared(int x);
int runs(int x);

int main(void)
{
	int sum = 0;

	for (int i = -5; i < 5; i++)
		sum += leaves(i) + jumps(i) + shared(i) + runs(i);
	return sum == 1;
}
C
cc -O1 -o exits exits.c || die "cannot build the program"

# hits FILE: how often each probe was hit, by name
hits()
{
	jq -r 'select(.args) | .name' "$1" | sort | uniq -c | awk '{print $2 "=" $1}' | tr '\n' ' '
}

"$PROBECTL" trace -q --json --keep-going -o each fn:exits:leaves fn:exits:leaves:return fn:exits:jumps \
	fn:exits:jumps:return fn:exits:target fn:exits:target:return -- ./exits 2>each.err ||
	fail "trace: $(cat each.err)"
[[ $(hits each) != *leaves:return* ]] || fail "refused exits were hit: $(hits each)"
grep -q 'refused fn:exits:leaves:return .*: not all exits' each.err || fail "not told: $(cat each.err)"
# A function that is a single jump is entered before it is left.
same "a jump" "$(jq -r 'select(.args and (.name | startswith("jumps"))) | .name' each | head -2 | tr '\n' ' ')" \
	"jumps jumps:return "

"$PROBECTL" trace -q --json --keep-going -o shared fn:exits:shared:return fn:exits:within:return \
	-- ./exits 2>shared.err || fail "trace: $(cat shared.err)"
if [ "$(uname -m)" = x86_64 ]; then
	same "a shared exit" "$(hits shared)" "within:return=5 "
fi

! "$PROBECTL" trace -c fn:exits:runs:return -- ./exits 2>runs.err >&2 || fail "half of the exits are traced"
grep -q "runs on into what is behind it" runs.err || fail "not told: $(cat runs.err)"

# In pairs, both are refused.
"$PROBECTL" trace -q --json --keep-going -t self -o both fn:exits:leaves fn:exits:jumps fn:exits:target \
	-- ./exits 2>both.err || fail "trace: $(cat both.err)"
same "calls" "$(jq -r 'select(.function) | "\(.name)=\(.count)"' both | sort | tr '\n' ' ')" "jumps=10 target=15 "
finish
