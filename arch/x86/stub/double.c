/* SPDX-License-Identifier: MIT */
/*
 * Sums of doubles.
 *
 * The processor's rules for rounding and exceptions are the program's: they are in %mxcsr, which is
 * kept, as is half of %xmm0. Exceptions are masked meanwhile, and rounding is to the nearest.
 */
#include "arch/x86/stub/frame.h"
#include "arch/x86/stub/lower.h"

enum { MXCSR_DEFAULT = 0x1f80, PREFIX_DOUBLE = 0x66, PREFIX_SCALAR = 0xf2, XMM0 = 0 };

enum { KEPT_XMM, KEPT_MXCSR, OUR_MXCSR, OPERAND };
_Static_assert((int)OPERAND < FORM_VECTOR_TEMPS, "temporaries of the form");

static struct emit_mem kept(const struct form_insn *i, int which)
{
	return temp_at((int)i->value + which);
}

/* An instruction of the low half of %xmm0. */
static void emit_double(struct emit *e, uint8_t prefix, enum emit_op op, struct emit_mem mem)
{
	emit_u8(e, prefix);
	emit_mem(e, false, op, XMM0, mem);
}

static void keep_vector(struct emit *e, const struct form_insn *i)
{
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_STORE, kept(i, KEPT_XMM));
	emit_mem(e, false, OP_MXCSR, MXCSR_STORE, kept(i, KEPT_MXCSR));
	emit_store_imm(e, false, kept(i, OUR_MXCSR), MXCSR_DEFAULT);
}

static void restore_vector(struct emit *e, const struct form_insn *i)
{
	emit_mem(e, false, OP_MXCSR, MXCSR_LOAD, kept(i, KEPT_MXCSR));
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_LOAD, kept(i, KEPT_XMM));
}

static void add_double(struct emit *e, const struct form_insn *i)
{
	emit_mem(e, true, OP_MOV_STORE, RCX, kept(i, OPERAND));
	emit_mem(e, false, OP_MXCSR, MXCSR_LOAD, kept(i, OUR_MXCSR));
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_LOAD, kept(i, OPERAND));
	emit_double(e, PREFIX_SCALAR, OP_ADDS, lower_mem(i->mem));
	emit_double(e, PREFIX_DOUBLE, OP_MOVLP_STORE, kept(i, OPERAND));
	restore_vector(e, i);
	emit_mem(e, true, OP_MOV_LOAD, RCX, kept(i, OPERAND));
}

void lower_double(const struct lowering *l, const struct form_insn *i)
{
	switch (i->op) {
	case FORM_KEEP_VECTOR:
		keep_vector(l->e, i);
		break;
	case FORM_RESTORE_VECTOR:
		restore_vector(l->e, i);
		break;
	default: /* FORM_ADD_DOUBLE */
		add_double(l->e, i);
		break;
	}
}
