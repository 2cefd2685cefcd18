/* SPDX-License-Identifier: MIT */
/*
 * Calling a function of the program from the middle of another one.
 *
 * The stub has already saved the registers it uses. These are exactly the ones that a function
 * may change, except the vector and floating-point registers, which the callee saves
 * (arch/x86/enter.c). What remains is to align the stack as functions expect, so that
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
 * Source: figure 3.36 of the System V ABI, AMD64 supplement (register numbers).
 */
#include "arch/stub/unwind.h"
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

enum { DWARF_RA = 16, SP_BASE = UNWIND_OP_BREG + 7 };

/* For each saved register: its number, and its distance below the CFA / 8. */
static const uint8_t cie[] = UNWIND_CIE(DWARF_RA, /* clang-format off */
	UNWIND_DEF_CFA_EXPRESSION, 3, SP_BASE, CALL_SITE_SP, UNWIND_OP_DEREF,
	UNWIND_EXPRESSION, DWARF_RA, 2, SP_BASE, CALL_SITE_PC,
	UNWIND_OFFSET | 0, 17,  /* rax */
	UNWIND_OFFSET | 2, 20,  /* the flags lie in between, twice */
	UNWIND_OFFSET | 1, 21,  /* rdx */
	UNWIND_OFFSET | 5, 22,  /* rdi */
	UNWIND_OFFSET | 4, 23,  /* rsi */
	UNWIND_OFFSET | 8, 24, UNWIND_OFFSET | 9, 25, UNWIND_OFFSET | 10, 26, UNWIND_OFFSET | 11, 27,
	0, 0 /* pads to a multiple of 8, including the length */
	/* clang-format on */);
_Static_assert((sizeof(cie) + 4) % 8 == 0, "entries are aligned");

size_t x86_64_call_unwind(const struct arch_extent *stubs, size_t count, uint8_t *out, size_t room)
{
	return unwind_section(cie, sizeof(cie), stubs, count, out, room);
}
