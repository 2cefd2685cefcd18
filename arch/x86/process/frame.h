/* SPDX-License-Identifier: MIT */
/* Signal frames of x86-64: see arch/process.h. */
#ifndef ARCH_X86_PROCESS_FRAME_H
#define ARCH_X86_PROCESS_FRAME_H

#include "arch/process.h"

/* The general registers as ptrace(2) orders them (struct user_regs_struct of <sys/user.h>). */
enum {
	WORD_R15,
	WORD_R14,
	WORD_R13,
	WORD_R12,
	WORD_RBP,
	WORD_RBX,
	WORD_R11,
	WORD_R10,
	WORD_R9,
	WORD_R8,
	WORD_RAX,
	WORD_RCX,
	WORD_RDX,
	WORD_RSI,
	WORD_RDI,
	WORD_ORIG_RAX,
	WORD_RIP,
	WORD_CS,
	WORD_FLAGS,
	WORD_RSP,
	WORD_SS,
	WORD_FS_BASE,
	WORD_GS_BASE,
	WORD_DS,
	WORD_ES,
	WORD_FS,
	WORD_GS,
	WORDS
};

enum {
	X86_64_FRAME_BYTES = 368, /* size of x86_64_make_frame()'s frame; then offsets in it */
	X86_64_FRAME_MARK = 320,
	X86_64_FRAME_TEXT = 336,
	X86_64_STATE_SOFTWARE = 464, /* offset of struct _fpx_sw_bytes in an XSAVE area */
	X86_64_STATE_MARK = 488,     /* in that struct, after the members that are in use */
	X86_64_STATE_HEAD = X86_64_STATE_SOFTWARE + 24
};
#define X86_64_STATE_MAGIC1 UINT32_C(0x46505853)
#define X86_64_STATE_MAGIC2 UINT32_C(0x46505845)

extern const struct arch_frame_layout x86_64_frame_layout;

#endif
