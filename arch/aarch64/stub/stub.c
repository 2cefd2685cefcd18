/* SPDX-License-Identifier: MIT */
/* Stubs for aarch64 (arch/stub/stub.c). */
#include "arch/aarch64/stub/stub.h"
#include "arch/aarch64/emit.h"
#include "arch/aarch64/stub/lower.h"
#include "arch/stub/plan.h"

static const struct stub_isa aarch64_isa = {
	.stack_pointer = A64_SP,
	.frame_pointer = 29,
	.first_argument = 0,
	.registers = 32,
	.vectors = 32,
	.lay_out = a64_lay_out,
	.enter = a64_enter,
	.grow = a64_grow,
	.shrink = a64_shrink,
	.leave = a64_leave,
	.call = a64_call_function,
	.time_subroutine = a64_time_subroutine,
};

bool aarch64_capturable(const struct arch_arg *arg)
{
	return operand_is_possible(&aarch64_isa, arg);
}

bool aarch64_capture_checked(const struct arch_capture *capture)
{
	return capture_is_checked(&aarch64_isa, capture);
}

enum arch_stub_status aarch64_stub(const struct arch_stub *stub, uint64_t at, uint8_t *out,
	size_t room, struct arch_stub_code *ret)
{
	struct a64 e = {.out = out, .room = room, .at = at};
	struct a64_lowering l;
	struct stub_plan p;

	if (!plan_stub(&p, stub, &aarch64_isa))
		return ARCH_STUB_UNSUPPORTED;
	a64_lowering_init(&l, &e, NULL, &stub->thread);
	form_stub(&l.form, &p);
	if (!a64_finish(&e))
		return ARCH_STUB_NO_ROOM;
	plan_answer(&p, ret);
	ret->next_jump = l.next_jump;
	ret->length = e.length;
	return l.reaches ? ARCH_STUB_OK : ARCH_STUB_OUT_OF_REACH;
}
