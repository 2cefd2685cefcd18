/* SPDX-License-Identifier: MIT */
/* In assembly, so that nothing else uses registers. */
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

#include "tests/unit/ptrace/keep_registers.h"

#if defined(__x86_64__)

/* clang-format off */
__asm__("	.text\n"
	"	.globl keep_registers\n"
	"keep_registers:\n"          /* rdi: where rounds are counted; ends with what is wrong */
	"	push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"	mov $0x1111111111, %rax\n movq %rax, %xmm0\n"
	"	mov $0x2222222222, %rbx\n movq %rbx, %xmm15\n"
	"	mov $0x3333333333, %rcx\n"
	"	mov $0x4444444444, %rdx\n"
	"	mov $0x5555555555, %rsi\n"
	"	mov $0x6666666666, %rbp\n"
	"	mov $0x7777777777, %r8\n"
	"	mov $0x8888888888, %r9\n"
	"	mov $0x9999999999, %r10\n"
	"	mov $0xaaaaaaaaaa, %r11\n"
	"	mov $0xbbbbbbbbbb, %r12\n"
	"	mov $0xcccccccccc, %r13\n"
	"	mov $0xdddddddddd, %r14\n"
	"	mov $0xeeeeeeeeee, %r15\n"
	"	mov %r15, -8(%rsp)\n"
	"	mov %r14, -128(%rsp)\n"
	"	stc\n"
	"1:	jnc 9f\n"            /* the carry survives the round */
	"	lea 1(%rdi), %rdi\n lea -1(%rdi), %rdi\n"
	"	jnc 9f\n"
	"	cmp %r15, -8(%rsp)\n jne 9f\n"
	"	cmp %r14, -128(%rsp)\n jne 9f\n"
	"	movq %xmm0, %r15\n cmp %rax, %r15\n jne 9f\n"
	"	movq %xmm15, %r15\n cmp %rbx, %r15\n jne 9f\n"
	"	mov -8(%rsp), %r15\n"
	"	lock incq (%rdi)\n"
	"	mov $0x1111111111, %r15\n cmp %rax, %r15\n jne 9f\n"
	"	mov $0x2222222222, %r15\n cmp %rbx, %r15\n jne 9f\n"
	"	mov $0x3333333333, %r15\n cmp %rcx, %r15\n jne 9f\n"
	"	mov $0x4444444444, %r15\n cmp %rdx, %r15\n jne 9f\n"
	"	mov $0x5555555555, %r15\n cmp %rsi, %r15\n jne 9f\n"
	"	mov $0x6666666666, %r15\n cmp %rbp, %r15\n jne 9f\n"
	"	mov $0x7777777777, %r15\n cmp %r8, %r15\n jne 9f\n"
	"	mov $0x8888888888, %r15\n cmp %r9, %r15\n jne 9f\n"
	"	mov $0x9999999999, %r15\n cmp %r10, %r15\n jne 9f\n"
	"	mov $0xaaaaaaaaaa, %r15\n cmp %r11, %r15\n jne 9f\n"
	"	mov $0xbbbbbbbbbb, %r15\n cmp %r12, %r15\n jne 9f\n"
	"	mov $0xcccccccccc, %r15\n cmp %r13, %r15\n jne 9f\n"
	"	mov $0xdddddddddd, %r15\n cmp %r14, %r15\n jne 9f\n"
	"	mov $0xeeeeeeeeee, %r15\n"
	"	stc\n"
	"	jmp 1b\n"
	"9:	pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
	"	ret\n");
/* clang-format on */

bool keep_vectors_possible(unsigned int bytes)
{
	return bytes == 32 && __builtin_cpu_supports("avx");
}

/*
 * The upper halves of vector registers, which a thread gets back from its frame only if the
 * kernel finds that as large as it should be.
 */
__attribute__((target("avx"))) void keep_vectors(_Atomic uint64_t *rounds, unsigned int bytes)
{
	static const uint64_t pattern[4] __attribute__((aligned(32))) = {
		0x1111111111, 0x2222222222, 0x3333333333, 0x4444444444};

	(void)bytes;
	__asm__ volatile("vmovaps (%1), %%ymm15\n"
			 "1: lock incq (%0)\n"
			 "vxorps (%1), %%ymm15, %%ymm14\n"
			 "vptest %%ymm14, %%ymm14\n"
			 "jz 1b\n"
			 :
			 : "r"(rounds), "r"(pattern)
			 : "memory", "cc", "xmm14", "xmm15");
}

#elif defined(__aarch64__)

enum { HAS_SVE = 1 << 22, SET_VL = 50, VECTORS = 32, PREDICATES = 16, VL_MAX = 256 };

/* clang-format off */
__asm__("	.text\n"
	"	.macro pattern number\n"    /* x30 = it */
	"	movz x30, #(0x1100 + \\number), lsl 48\n movk x30, #\\number\n"
	"	.endm\n"
	"	.globl keep_registers\n"
	"keep_registers:\n"             /* x0: where rounds are counted */
	"	stp x29, x30, [sp, -160]!\n"
	"	stp x19, x20, [sp, 16]\n stp x21, x22, [sp, 32]\n stp x23, x24, [sp, 48]\n"
	"	stp x25, x26, [sp, 64]\n stp x27, x28, [sp, 80]\n"
	"	stp d8, d9, [sp, 96]\n stp d10, d11, [sp, 112]\n"
	"	stp d12, d13, [sp, 128]\n stp d14, d15, [sp, 144]\n"
	"	mov x1, 0xc00000\n msr fpcr, x1\n mov x1, 9\n msr fpsr, x1\n"
	"	.irp n, 3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,19,20,21,22,23,24,25,26,27,28,29\n"
	"	pattern \\n\n mov x\\n, x30\n dup v\\n\\().2d, x\\n\n"
	"	.endr\n"
	"	mov x1, 0x90000000\n mov x2, x1\n" /* N and V */
	"	mrs x18, tpidr_el0\n"
	"	mov x30, x29\n msr nzcv, x1\n"
	"1:	b.pl 9f\n b.vc 9f\n b.eq 9f\n b.cs 9f\n"
	"	cmp x30, x29\n b.ne 9f\n"
	"	cmp x1, x2\n b.ne 9f\n"
	"	mrs x30, tpidr_el0\n cmp x30, x18\n b.ne 9f\n"
	"	mrs x30, fpcr\n cmp x30, 0xc00000\n b.ne 9f\n"
	"	mrs x30, fpsr\n cmp x30, 9\n b.ne 9f\n"
	"	.irp n, 3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,19,20,21,22,23,24,25,26,27,28,29\n"
	"	pattern \\n\n cmp x\\n, x30\n b.ne 9f\n"
	"	mov x30, v\\n\\().d[0]\n cmp x\\n, x30\n b.ne 9f\n"
	"	mov x30, v\\n\\().d[1]\n cmp x\\n, x30\n b.ne 9f\n"
	"	.endr\n"
	"	ldr x30, [x0]\n add x30, x30, 1\n str x30, [x0]\n"
	"	mov x30, x29\n msr nzcv, x1\n"
	"	b 1b\n"
	"9:	ldp x19, x20, [sp, 16]\n ldp x21, x22, [sp, 32]\n ldp x23, x24, [sp, 48]\n"
	"	ldp x25, x26, [sp, 64]\n ldp x27, x28, [sp, 80]\n"
	"	ldp d8, d9, [sp, 96]\n ldp d10, d11, [sp, 112]\n"
	"	ldp d12, d13, [sp, 128]\n ldp d14, d15, [sp, 144]\n"
	"	ldp x29, x30, [sp], 160\n"
	"	ret\n"
	/*
	 * x0: rounds; x1: patterns for z0 to z31, p0 to p15 and ffr; x2: as much memory; x3: its
	 * length; x4, x5: offsets in it, of p0 and of ffr
	 */
	"	.arch armv8-a+sve\n"
	"keep_sve:\n"
	"	add x6, x1, x4\n add x7, x1, x5\n add x8, x2, x4\n add x9, x2, x5\n"
	"	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
	"	ldr z\\n, [x1, #\\n, mul vl]\n"
	"	.endr\n"
	"	ldr p0, [x7]\n wrffr p0.b\n"
	"	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"	ldr p\\n, [x6, #\\n, mul vl]\n"
	"	.endr\n"
	"1:	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
	"	str z\\n, [x2, #\\n, mul vl]\n"
	"	.endr\n"
	"	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"	str p\\n, [x8, #\\n, mul vl]\n"
	"	.endr\n"
	"	rdffr p0.b\n str p0, [x9]\n ldr p0, [x6]\n"
	"	mov x10, 0\n"
	"2:	ldrh w11, [x1, x10]\n ldrh w12, [x2, x10]\n strh wzr, [x2, x10]\n"
	"	cmp w11, w12\n b.ne 9f\n"
	"	add x10, x10, 2\n cmp x10, x3\n b.lo 2b\n"
	"	ldr x11, [x0]\n add x11, x11, 1\n str x11, [x0]\n"
	"	b 1b\n"
	"9:	ret\n"
	"	.arch armv8-a\n");
/* clang-format on */
void keep_sve(_Atomic uint64_t *rounds, const uint8_t *patterns, uint8_t *memory, size_t bytes,
	size_t predicates, size_t first_fault);

/* PR_SVE_SET_VL chooses the longest one that there is, up to the one that is asked for. */
bool keep_vectors_possible(unsigned int bytes)
{
	return getauxval(AT_HWCAP) & HAS_SVE && bytes >= 16 &&
	       (prctl(SET_VL, bytes) & 0xffff) == (int)bytes;
}

void keep_vectors(_Atomic uint64_t *rounds, unsigned int bytes)
{
	static uint8_t patterns[VECTORS * VL_MAX + (PREDICATES + 1) * VL_MAX / 8];
	static uint8_t memory[sizeof(patterns)];
	size_t predicates = VECTORS * bytes, first_fault = predicates + PREDICATES * bytes / 8;
	size_t all = first_fault + bytes / 8;

	prctl(SET_VL, bytes);
	for (size_t i = 0; i < all; i++)
		patterns[i] = (uint8_t)(i * 37 + i / 251 + 1);
	/* Of FFR, only the first bits may be set. */
	memset(patterns + first_fault, 0, bytes / 8);
	patterns[first_fault] = 0x7f;
	keep_sve(rounds, patterns, memory, all, predicates, first_fault);
}

#endif
