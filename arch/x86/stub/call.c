/* SPDX-License-Identifier: MIT */
/*
 * Calling a function of the program from the middle of another one.
 *
 * The stub has already saved the registers it uses. These are exactly the ones that a function
 * may change, except the vector and floating-point registers, which the callee saves
 * (libprobe/self/enter.c). What remains is to align the stack as functions expect, so that
 * unwinders still find the way back:
 *
 *	site's %rsp ------>	+----------------------------+
 *				| red zone, 128 bytes        |
 *				| %rax, flags, %rflags,      |  always at the same distance
 *				| %rcx ... %r11              |
 *				| temporaries                |
 *	stub's %rsp ------>	+----------------------------+
 *				| (to be a multiple of 16)   |
 *				| site's address             |
 *				| site's %rsp                |  CFA: *(%rsp + 8)
 *	%rsp at the call ->	| stub's %rsp                |
 *				+----------------------------+
 *				| return address: the stub   |
 *
 * For an unwinder, the stub is a signal frame (augmentation `S`): it interrupted the function
 * at the site, which is not a call, so the rules for that very address apply.
 *
 * Sources: DWARF 5, 6.4 (call frame information), figure 3.36 of the System V ABI, AMD64
 * supplement (register numbers); Linux Standard Base 5, 10.6.1 (.eh_frame).
 */
#include <string.h>

#include "arch/x86/stub/frame.h"
#include "arch/x86/stub/lower.h"
#include "arch/x86/stub/stub.h"

enum { CALL_FRAME = 32, CALL_STUB_SP = 0, CALL_SITE_SP = 8, CALL_SITE_PC = 16 };

/* ---- The call ----------------------------------------------------------------------- */

void x86_64_call(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	struct emit *e = lowering_emit(f);

	emit_mem(e, true, OP_LEA, RDI, temp_at(p->call_temp));
	emit_const(e, RSI, s->call_data);
	emit_mem(e, true, OP_LEA, RDX, mem_at(RSP, p->frame.size));
	emit_const(e, RCX, s->pc);
	emit_const(e, R11, s->call);
	emit_reg(e, true, OP_MOV_LOAD, RAX, RSP);
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -CALL_FRAME));
	emit_imm(e, true, IMM_AND, RSP, -16);
	emit_mem(e, true, OP_MOV_STORE, RAX, mem_at(RSP, CALL_STUB_SP));
	emit_mem(e, true, OP_MOV_STORE, RDX, mem_at(RSP, CALL_SITE_SP));
	emit_mem(e, true, OP_MOV_STORE, RCX, mem_at(RSP, CALL_SITE_PC));
	emit_bytes(e, "\x41\xff\xd3", 3); /* call *%r11 */
	emit_mem(e, true, OP_MOV_LOAD, RSP, mem_at(RSP, CALL_STUB_SP));
}

/* ---- Unwinding ------------------------------------------------------------------------ */

enum {
	CFA_OFFSET = 0x80, /* | register; DW_CFA_* and DW_OP_* of <dwarf.h> */
	CFA_DEF_CFA_EXPRESSION = 0x0f,
	CFA_EXPRESSION = 0x10,
	OP_BREG_RSP = 0x77,
	OP_DEREF = 0x06,
	DWARF_RA = 16,
	DATA_ALIGN = 0x78 /* -8 as SLEB128 */
};

/* The CIE, after its length. For each saved register: its number, and -distance / 8. */
static const uint8_t cie[] = {
	/* clang-format off */
	0, 0, 0, 0, 1, 'z', 'R', 'S', 0, 1, DATA_ALIGN, DWARF_RA,
	1, 0, /* addresses of code are plain 8 bytes */
	CFA_DEF_CFA_EXPRESSION, 3, OP_BREG_RSP, CALL_SITE_SP, OP_DEREF,
	CFA_EXPRESSION, DWARF_RA, 2, OP_BREG_RSP, CALL_SITE_PC,
	CFA_OFFSET | 0, 17,  /* rax */
	CFA_OFFSET | 2, 20,  /* the flags lie in between, twice */
	CFA_OFFSET | 1, 21,  /* rdx */
	CFA_OFFSET | 5, 22,  /* rdi */
	CFA_OFFSET | 4, 23,  /* rsi */
	CFA_OFFSET | 8, 24, CFA_OFFSET | 9, 25, CFA_OFFSET | 10, 26, CFA_OFFSET | 11, 27,
	0, 0 /* pads to a multiple of 8, including the length */
	/* clang-format on */
};
_Static_assert((sizeof(cie) + 4) % 8 == 0, "entries are aligned");

/* An FDE, after its length. */
struct fde {
	uint32_t length;
	uint32_t cie; /* distance from here back to the CIE */
	uint64_t start, size;
	uint8_t augmentation, nops[7];
};
_Static_assert(sizeof(struct fde) == 32, "entries are aligned");

size_t x86_64_call_unwind(const struct arch_extent *stubs, size_t count, uint8_t *out, size_t room)
{
	uint32_t length = sizeof(cie);
	size_t at = sizeof(length) + sizeof(cie);
	size_t all = at + count * sizeof(struct fde) + sizeof(length);

	if (room < all)
		return all;
	memcpy(out, &length, sizeof(length));
	memcpy(out + sizeof(length), cie, sizeof(cie));
	for (size_t i = 0; i < count; i++, at += sizeof(struct fde)) {
		struct fde fde = {.length = sizeof(fde) - sizeof(fde.length),
			.cie = (uint32_t)(at + sizeof(fde.length)),
			.start = stubs[i].start,
			.size = stubs[i].size};

		memcpy(out + at, &fde, sizeof(fde));
	}
	memset(out + at, 0, sizeof(length)); /* the end */
	return all;
}
