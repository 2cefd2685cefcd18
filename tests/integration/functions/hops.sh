#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A return that is entered by a branch, with too little padding behind it for a jump: a short jump
# leads to unused bytes near by, but not to those that another jump needs. Where nothing is unused
# behind the return, the short jump takes the place of the instructions before it.
. tests/integration/lib.sh

need_short_nops
cd "$SCRATCH" || die "no folder"
cat >program.c <<'C'
#include <stdio.h>

int early(int x);
int late(int x);
int popped(int x);

int main(void)
{
	int sum = 0;

	for (int i = 0; i < 1000; i++)
		sum += early(i) + late(i) + popped(i);
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
	.globl popped
	.type popped, @function
popped:	.cfi_startproc
	push %rbx
	mov %edi, %ebx
	lea 3(%rdi), %rax
	test $1, %edi
	jnz 5f
	imul $5, %rax, %rax
	lea 1(%rbx, %rax), %rax
5:	pop %rbx
	ret
	.cfi_endproc
	.size popped, . - popped
	.globl late
	.type late, @function
late:	.cfi_startproc
	lea 3(%rdi), %rax
	test $1, %edi
	jnz 4f
	imul $5, %rax, %rax
4:	ret
	.cfi_endproc
	.size late, . - late
	.skip 7, 0xcc
	.type other, @function
other:	.cfi_startproc
	ret
	.cfi_endproc
	.size other, . - other
	.skip 16, 0xcc
	.section .note.GNU-stack, "", @progbits
S
cc -O2 -rdynamic -o program program.c early.S || die "cannot build the program"
sum=$(./program)
"$PROBECTL" list -vv --functions ./program early:return late:return popped:return >plans
grep -q " hop" plans || fail "no short jump at the return: $(cat plans)"
grep -q " before" plans || fail "no short jump before the return: $(cat plans)"
! grep together plans || fail "not together: $(cat plans)"
names='/^(early|late|popped)$/'
"$PROBECTL" trace -c "fn:program:$names" "fn:program:$names:return" -- ./program >counts 2>err || fail "cannot trace: $(cat err)"
for name in early early:return late late:return popped popped:return; do
	same "$name" "$(awk -v name="fn:program:$name" '$1 == name {print $2}' counts)" 1000
done
same "the program's result" "$(head -1 counts)" "$sum"
finish
