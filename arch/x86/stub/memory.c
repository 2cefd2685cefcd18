/* SPDX-License-Identifier: MIT */
/*
 * Loads and stores. The processor keeps the order of loads, and that of stores: plain ones acquire
 * and publish.
 */
#include "arch/stub/plan.h"
#include "arch/x86/stub/lower.h"

/* Stores the low `bytes` bytes of a register. */
static void emit_store_part(struct emit *e, int reg, struct emit_mem m, unsigned int bytes)
{
	if (bytes == 2)
		emit_u8(e, 0x66);
	emit_mem(e, bytes == 8, bytes == 1 ? OP_MOV_STORE8 : OP_MOV_STORE, reg, m);
}

/*
 * Stores eight, at a multiple of four, and changes the register. The whole may be misaligned, and
 * in two cache lines.
 */
static void emit_store_halves(struct emit *e, int reg, struct emit_mem m)
{
	emit_store_part(e, reg, m, 4);
	m.disp += 4;
	emit_shift(e, true, false, reg, 32);
	emit_store_part(e, reg, m, 4);
}

/* A register that is as it was at the site is stored without a copy. */
static void store_original(const struct lowering *l, const struct form_insn *i)
{
	struct emit_mem m = lower_mem(i->mem);
	bool is_live = i->b != RSP && l->frame->saved[i->b] < 0 && !i->shift;

	if (is_live && i->bytes < sizeof(uint64_t)) {
		emit_store_part(l->e, i->b, m, i->bytes);
		return;
	}
	lower_original(l, i, RAX);
	if (i->bytes == sizeof(uint64_t))
		emit_store_halves(l->e, RAX, m);
	else
		emit_store_part(l->e, RAX, m, i->bytes);
}

void lower_memory(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;
	struct emit_mem m = lower_mem(i->mem);

	switch (i->op) {
	case FORM_LOAD:
	case FORM_ACQUIRE:
		emit_load(e, m, i->bytes, i->is_signed, lower_register(i->a));
		break;
	case FORM_STORE:
	case FORM_PUBLISH:
		if (i->is_constant)
			emit_store_imm(e, i->bytes == sizeof(uint64_t), m, (int32_t)i->value);
		else
			emit_store_part(e, lower_register(i->a), m, i->bytes);
		break;
	case FORM_STORE_HALVES:
		emit_store_halves(e, lower_register(i->a), m);
		break;
	case FORM_STORE_ORIGINAL:
		store_original(l, i);
		break;
	case FORM_STORE_VECTOR: /* 16 bytes, aligned or not */
		emit_mem(e, false, OP_MOVU_STORE, i->b, m);
		break;
	default: /* FORM_COMPUTE */
		/* The thread pointer points to itself (System V ABI, TLS). */
		emit_mem(e, true, m.fs ? OP_MOV_LOAD : OP_LEA, lower_register(i->a), m);
		break;
	}
}
