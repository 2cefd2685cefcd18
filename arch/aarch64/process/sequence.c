/* SPDX-License-Identifier: MIT */
/* Sources: include/uapi/linux/rseq.h of Linux; <sys/rseq.h> of glibc, for the signature. */
#ifdef __aarch64__
#include "arch/aarch64/process/sequence.h"

enum arch_sequence aarch64_sequence(
	void *area, uint32_t *begun, const uint32_t *told, uint64_t rounds)
{
	uint64_t ended;

	__asm__ volatile(
		/* struct rseq_cs: version, flags, start, length, where an abort leads */
		".pushsection .data.rel.ro, \"aw\"\n\t"
		".balign 32\n"
		"1:\t.word 0, 0\n\t"
		".quad 2f, 4f - 2f, 5f\n\t"
		".popsection\n\t"
		"adrp x9, 1b\n\t"
		"add x9, x9, :lo12:1b\n\t"
		"mov w10, #1\n\t"
		"str x9, [%[area], #8]\n"
		"2:\tstr w10, [%[begun]]\n"
		"3:\tldr w9, [%[told]]\n\t"
		"cbnz w9, 4f\n\t"
		"subs %[rounds], %[rounds], #1\n\t"
		"b.ne 3b\n"
		"4:\tmov w9, w9\n\t"
		"mov %[ended], x9\n\t"
		"b 6f\n\t"
		".inst 0xd428bc00\n" /* the signature */
		"5:\tmov %[ended], #2\n"
		"6:\tstr xzr, [%[area], #8]\n"
		: [ended] "=&r"(ended), [rounds] "+&r"(rounds)
		: [area] "r"(area), [begun] "r"(begun), [told] "r"(told)
		: "x9", "x10", "cc", "memory");
	return (enum arch_sequence)ended;
}
#endif
