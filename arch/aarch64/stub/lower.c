/* SPDX-License-Identifier: MIT */
/*
 * The form as machine code. Six of its registers are those of a system call's arguments, in the
 * order that x86-64 has its own, so that nothing is moved for a call of the kernel; x8, that of its
 * number, x16 and x17 have what an instruction of the form needs in between. So a stub saves these
 * twelve at most before it runs.
 */
#include "arch/aarch64/stub/lower.h"
#include "arch/stub/plan.h"

int a64_register(int form_register)
{
	static const uint8_t registers[FORM_REGISTERS] = {
		[FORM_VALUE] = 9,
		[FORM_RIGHT] = 10,
		[FORM_SCRATCH] = 2,
		[FORM_POINTER] = 4,
		[FORM_NEXT] = 5,
		[FORM_SET] = 0,
		[FORM_FROM] = 1,
		[FORM_SPARE] = 3,
		[FORM_SPARE_2] = 11,
	};

	return registers[form_register];
}

/*
 * Does an instruction leave it to those who change A64_STEP to say so? All of memory.c do, and
 * these change it at most by way of that.
 */
static bool tells_of_step(const struct form_insn *i)
{
	switch (i->op) {
	case FORM_MARK:
	case FORM_LABEL:
	case FORM_CONST:
	case FORM_ADDRESS:
	case FORM_MOVE:
	case FORM_ORIGINAL:
	case FORM_TIME:
	case FORM_STORE_TIME:
	case FORM_COUNT:
	case FORM_PUBLISH_ADD:
		return true;
	case FORM_JUMP_IF:
	case FORM_SUB_JUMP_IF:
		return !i->is_memory || !i->is_constant;
	default:
		return form_subject(i->op) == FORM_MEMORY ||
		       (form_subject(i->op) == FORM_OPERATORS && i->op <= FORM_SHR &&
			       !i->is_memory);
	}
}

static void lower(struct form *form, const struct form_insn *i)
{
	const struct a64_lowering *l = (const struct a64_lowering *)form;

	switch (form_subject(i->op)) {
	case FORM_CONTROL:
		a64_lower_control(l, i);
		break;
	case FORM_VALUES:
		a64_lower_value(l, i);
		break;
	case FORM_MEMORY:
		a64_lower_memory(l, i);
		break;
	case FORM_CHANGES:
		a64_lower_change(l, i);
		break;
	case FORM_SYSTEM:
		a64_lower_system(l, i);
		break;
	case FORM_DOUBLES: /* no vector register is used, so none is kept */
		if (i->op == FORM_ADD_DOUBLE)
			form_add_double_plainly(form, i->mem);
		break;
	case FORM_OPERATORS:
		a64_lower_operator(l, i);
		break;
	}
}

static void put(struct form *form, const struct form_insn *i)
{
	lower(form, i);
	if (!tells_of_step(i))
		((struct a64_lowering *)form)->e->has_thread = false;
}

static int new_label(struct form *form)
{
	return a64_label(((struct a64_lowering *)form)->e);
}

void a64_lowering_init(struct a64_lowering *l, struct a64 *e, const struct frame *frame,
	const struct arch_thread *thread)
{
	*l = (struct a64_lowering){
		.form = {put, new_label}, .e = e, .frame = frame, .thread = thread};
}
