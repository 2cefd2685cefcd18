/* SPDX-License-Identifier: MIT */
/*
 * Code by which a thread makes a system call for a controller, and returns:
 *
 *   call       mov x8, #number; svc #0; ret      getpid(), getuid() ...; the vDSO. Entered at the
 *                                                svc, with another number. A thread never
 *                                                sleeps there, as it may at the one svc that all
 *                                                calls of a libc share.
 *   sigreturn  mov x8, #139; svc #0              the vDSO; musl
 *   leave      mov sp, x29                       the end of a function with an array of variable
 *              ldp x19, x20, [sp, #16] ...       length. How far x29 is below the stack pointer
 *              ldp x29, x30, [sp], #above        that it leaves behind differs from one to the
 *              ret                               next.
 *
 * A function that checks the return address which it has signed (autiasp) is no such end: nobody
 * can sign one for it from outside.
 */
#include <string.h>

#include "arch/aarch64/process/frame.h"

enum {
	WORD = 4,
	RT_SIGRETURN = 139,
	X8 = 8,
	LEAVE_WORDS = AARCH64_LEAVE_BYTES / WORD,
	ABOVE_MIN = 16
};
#define RET UINT32_C(0xd65f03c0)
#define MOV_SP_X29 UINT32_C(0x910003bf)
#define LDP_X29_X30_SP UINT32_C(0xa8c07bfd) /* ldp x29, x30, [sp], #... */
#define LDP_PAIR_MASK UINT32_C(0xffc07fff)  /* all but the number */

static uint32_t word_at(const uint8_t *code)
{
	uint32_t word;

	memcpy(&word, code, sizeof(word));
	return word;
}

/* `mov x8, #number`, or w8; a negative number: none. */
static int number_of(uint32_t insn)
{
	if ((insn & 0x7fe0001f) != (UINT32_C(0x52800000) | X8))
		return -1;
	return insn >> 5 & 0xffff;
}

/* Does it load callee-saved registers from the stack, at or above its pointer? */
static bool is_reload(uint32_t insn)
{
	uint32_t first = insn & 31, second = insn >> 10 & 31;

	if ((insn & 0xffe003e0) == 0xa94003e0) /* ldp x, x, [sp, #0 to 504] */
		return first < WORD_X29 && second < WORD_X29 && first != second;
	/* ldr x, [sp, #0 to 504] */
	return (insn & 0xffff03e0) == 0xf94003e0 && first < WORD_X29;
}

/* mov x, x or w, w: the result of the function. */
static bool is_move(uint32_t insn)
{
	return (insn & 0x7fe0ffe0) == 0x2a0003e0 && (insn & 31) < WORD_X29;
}

/* How far above x29 the stack pointer is after LEAVE_WORDS of code; 0: it is other code. */
static uint16_t leave_above(const uint8_t *code)
{
	size_t i = 1;
	uint32_t above;

	while (i < LEAVE_WORDS &&
		(is_reload(word_at(code + i * WORD)) || is_move(word_at(code + i * WORD))))
		i++;
	if (i + 2 > LEAVE_WORDS || (word_at(code + i * WORD) & LDP_PAIR_MASK) != LDP_X29_X30_SP ||
		word_at(code + (i + 1) * WORD) != RET)
		return 0;
	above = (word_at(code + i * WORD) >> 15 & 0x7f) * 8;
	return above >= ABOVE_MIN && above <= AARCH64_FRAME_KERNEL ? (uint16_t)above : 0;
}

void aarch64_find_gadgets(
	const uint8_t *code, size_t size, uint64_t address, struct arch_gadgets *gadgets)
{
	for (size_t at = -address & (WORD - 1); at + WORD <= size; at += WORD) {
		size_t words = (size - at) / WORD;
		uint32_t insn = word_at(code + at);
		int number = number_of(insn);

		if (number >= 0 && words >= 2 && word_at(code + at + WORD) == AARCH64_SVC) {
			if (number == RT_SIGRETURN && !gadgets->sigreturn)
				gadgets->sigreturn = address + at;
			else if (!gadgets->call && words >= 3 &&
				 word_at(code + at + 2 * WORD) == RET)
				gadgets->call = address + at;
		}
		if (insn == MOV_SP_X29 && !gadgets->leave && words >= LEAVE_WORDS) {
			gadgets->leave_above = leave_above(code + at);
			if (gadgets->leave_above)
				gadgets->leave = address + at;
		}
	}
}
