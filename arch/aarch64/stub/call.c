/* SPDX-License-Identifier: MIT */
/*
 * Calling a function of the program from the middle of another one.
 *
 * The stub has already saved the registers it uses. What a function may change besides these are
 * six, which are saved here, and the vector and floating-point registers, which the callee saves
 * (arch/aarch64/enter.c). The first two words are a frame record, as any function has one:
 *
 *	site's sp --------->	+----------------------------+
 *				| x16, x17, x8 ... flags     |  always at the same distance
 *				| x0 ... x30                 |
 *				| temporaries                |
 *	stub's sp --------->	+----------------------------+
 *				| x15, x13, x14, x6, x7, x18 |
 *				| site's sp                  |  CFA: *(sp + 16)
 *				| site's address             |
 *	sp, x29 at the call ->	| site's x29                 |
 *				+----------------------------+
 *
 * Sources: AAPCS64, 6.1.1 (registers), 6.4.6 (frame records); DWARF for the Arm 64-bit
 * Architecture (register numbers); gcc, config/aarch64/aarch64.h (DWARF_ALT_FRAME_RETURN_COLUMN).
 */
#include "arch/aarch64/stub/lower.h"
#include "arch/aarch64/stub/stub.h"
#include "arch/stub/plan.h"
#include "arch/stub/unwind.h"

enum { FRAME = 29, SITE_PC = 8, SITE_SP = 16, CALL_FRAME = 80 };

/* Register pairs, the stack pointer's word with the first one; zero fills up. */
static const int8_t kept[][3] = {{A64_STEP, 18, SITE_SP}, {6, 7, 32}, {13, 14, 48}, {15, 31, 64}};

enum { KEPT = sizeof(kept) / sizeof(*kept) };

void a64_call_function(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	struct a64 *e = ((struct a64_lowering *)f)->e;

	a64_check_tags(e, p);
	a64_add_disp(e, 0, A64_SP, 8 * p->call_temp);
	a64_add_disp(e, A64_STEP, A64_SP, p->frame.size);
	a64_const(e, A64_STEP_2, s->pc);
	a64_push_pair(e, FRAME, A64_STEP_2, CALL_FRAME);
	for (int i = 0; i < KEPT; i++)
		a64_store_pair(e, kept[i][0], kept[i][1], kept[i][2]);
	a64_add_disp(e, FRAME, A64_SP, 0);
	a64_const(e, 1, s->call_data);
	a64_const(e, A64_STEP, s->call);
	a64_call_register(e, A64_STEP);
	for (int i = 0; i < KEPT; i++)
		a64_load_pair(e, kept[i][0], kept[i][1], kept[i][2]);
	a64_pop_pair(e, FRAME, A64_STEP_2, CALL_FRAME);
	a64_check_no_tags(e, p);
}

/* ---- Unwinding ------------------------------------------------------------------------ */

enum {
	/*
	 * libgcc's for signal frames: x30 is another register at a site. Its tables have no program
	 * counter (32).
	 */
	RETURN_COLUMN = 96,
	SP_BASE = UNWIND_OP_BREG + A64_SP
};

/* A register is at sp + offset, which is 63 at most: a signed LEB128 of one byte. */
#define AT(reg, offset) UNWIND_EXPRESSION, reg, 2, SP_BASE, offset
#define BELOW(reg, distance) UNWIND_OFFSET | (reg), (distance) / 8

static const uint8_t cie[] = UNWIND_CIE(RETURN_COLUMN, /* clang-format off */
	UNWIND_DEF_CFA_EXPRESSION, 3, SP_BASE, SITE_SP, UNWIND_OP_DEREF,
	AT(RETURN_COLUMN, SITE_PC), AT(FRAME, 0), AT(18, SITE_SP + 8),
	AT(6, 32), AT(7, 40), AT(13, 48), AT(14, 56),
	UNWIND_EXPRESSION, 15, 3, SP_BASE, 64 | 0x80, 0,
	BELOW(16, 64), BELOW(17, 56), BELOW(8, 48), BELOW(9, 40), BELOW(10, 32), BELOW(2, 24),
	BELOW(0, 128), BELOW(1, 120), BELOW(4, 112), BELOW(5, 104), BELOW(3, 96), BELOW(11, 88),
	BELOW(12, 80), BELOW(30, 72),
	0, 0, 0, 0 /* pads to a multiple of 8, including the length */
	/* clang-format on */);
_Static_assert((sizeof(cie) + 4) % 8 == 0, "entries are aligned");

size_t aarch64_call_unwind(const struct arch_extent *stubs, size_t count, uint8_t *out, size_t room)
{
	return unwind_section(cie, sizeof(cie), stubs, count, out, room);
}
