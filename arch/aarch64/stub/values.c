/* SPDX-License-Identifier: MIT */
/* Values: constants, addresses, and what registers had at the site. */
#include "arch/aarch64/stub/lower.h"
#include "arch/stub/plan.h"

void a64_original(const struct a64_lowering *l, const struct form_insn *i, int to)
{
	unsigned int bits = 8U * i->bytes;
	int saved = i->b == A64_SP ? -1 : l->frame->saved[i->b], from = i->b;

	if (saved >= 0) {
		a64_lower_load(l->e, to, form_at(FORM_FRAME, saved + i->shift / 8), i->bytes,
			i->is_signed);
		return;
	}
	if (i->b == A64_SP) {
		a64_add_disp(l->e, to, A64_SP, l->frame->size);
		from = to;
	}
	if (bits == 64 && from != to)
		a64_move(l->e, to, from);
	else if (bits < 64)
		a64_extract(l->e, to, from, i->shift, bits, i->is_signed);
}

void a64_lower_value(const struct a64_lowering *l, const struct form_insn *i)
{
	struct a64 *e = l->e;
	int a = a64_register(i->a);

	switch (i->op) {
	case FORM_CONST:
		a64_const(e, a, i->value);
		break;
	case FORM_ADDRESS:
		a64_address(e, a, i->value);
		break;
	case FORM_LABEL:
		a64_label_address(e, a, i->label);
		break;
	case FORM_MOVE:
		if (i->bytes < sizeof(uint64_t))
			a64_extract(e, a, a64_register(i->b), 0, 8U * i->bytes, i->is_signed);
		else
			a64_move(e, a, a64_register(i->b));
		break;
	case FORM_ORIGINAL:
		a64_original(l, i, a);
		break;
	default: /* FORM_VECTOR */
		a64_vector(e, a, i->b, i->bytes);
		break;
	}
}
