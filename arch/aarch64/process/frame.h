/* SPDX-License-Identifier: MIT */
/* Gadgets and signal frames of aarch64: see arch/process.h. */
#ifndef ARCH_AARCH64_PROCESS_FRAME_H
#define ARCH_AARCH64_PROCESS_FRAME_H

#include "arch/process.h"

/*
 * The general registers in the order of ptrace(2) (struct user_pt_regs of <asm/ptrace.h>), and then
 * the words of other regsets.
 */
enum {
	WORD_X0,
	WORD_X8 = 8,
	WORD_X29 = 29,
	WORD_X30,
	WORD_SP,
	WORD_PC,
	WORD_PSTATE,
	WORDS,
	WORD_TLS = WORDS,
	WORD_CALL
};

enum {
	AARCH64_SYSCALL_BYTES = 4,
	/* Sizes of the gadgets, in bytes. */
	AARCH64_CALL_BYTES = 12,
	AARCH64_LEAVE_BYTES = 36,
	AARCH64_SIGRETURN_BYTES = 8,
	/* The size of our signal frame, and offsets in it, in bytes. */
	AARCH64_FRAME_BYTES = 768,
	AARCH64_FRAME_KERNEL = 128, /* where the kernel's frame begins */
	AARCH64_FRAME_MARK = AARCH64_FRAME_KERNEL,
	AARCH64_FRAME_TEXT = AARCH64_FRAME_MARK + ARCH_FRAME_MARK
};
#define AARCH64_SVC UINT32_C(0xd4000001) /* svc #0 */

/* The values are from <linux/elf.h>, which cannot be included together with <elf.h>. Linux 5.19. */
enum { AARCH64_NT_SSVE = 0x40b, AARCH64_NT_ZA = 0x40c };

extern const struct arch_frame_layout aarch64_frame_layout;

#endif
