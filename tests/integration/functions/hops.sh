#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A return that is entered by a branch, with too little padding behind it for a jump: a short jump
# leads to unused bytes near by.
. tests/integration/lib.sh

need_short_nops
cd "$SCRATCH" || die "no folder"
cat >program.c <<'C'
#include <stdio.h>

int early(int x);

int main(void)
{
	int sum = 0;

	for (int i = 0; i < 1000; i++)
		sum += early(i);
	printf("%d\n", sum);
	return 0;
}
C
cat >early.S <<'S'
	.text
	.balign 16, 0xcc
	.globl early
	.type early, @function
early:	.cfi_startproc
	lea 1(%rdi), %rax
	test $1, %edi
	jnz 2f
	lea 1(%rax), %rax
	test $2, %edi
	jz 3f
2:	ret
	nopl (%rax)
3:	imul $3, %rax, %rax
	lea 1(%rax), %rax
	ret
	.cfi_endproc
	.size early, . - early
	.balign 16, 0xcc
	.skip 16, 0xcc
	.section .note.GNU-stack, "", @progbits
S
cc -O2 -rdynamic -o program program.c early.S || die "cannot build the program"
sum=$(./program)
"$PROBECTL" list -vv --functions ./program early:return >plans
grep -q " hop" plans || fail "no short jump at the return: $(cat plans)"
"$PROBECTL" trace -c fn:program:early fn:program:early:return -- ./program >counts 2>err ||
	fail "cannot trace: $(cat err)"
same "entries" "$(awk '$1 == "fn:program:early" {print $2}' counts)" 1000
same "exits" "$(awk '$1 == "fn:program:early:return" {print $2}' counts)" 1000
same "the program's result" "$(head -1 counts)" "$sum"
finish
