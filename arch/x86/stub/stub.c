/* SPDX-License-Identifier: MIT */
/* Stubs for x86-64 (arch/stub/stub.c). */
#include "arch/x86/stub/stub.h"
#include "arch/x86/stub/frame.h"
#include "arch/x86/stub/lower.h"

static const struct stub_isa x86_64_isa = {
	.stack_pointer = RSP,
	.frame_pointer = RBP,
	.first_argument = RDI,
	.registers = 16,
	.vectors = 16, /* more need AVX-512 */
	.red_zone = 128,
	.has_cpu_hint = true,
	.lay_out = x86_64_lay_out,
	.enter = x86_64_enter,
	.grow = x86_64_grow,
	.shrink = x86_64_shrink,
	.leave = x86_64_leave,
	.late = x86_64_late,
	.call = x86_64_call,
	.time_subroutine = x86_64_time_subroutine,
};

bool x86_64_capturable(const struct arch_arg *arg)
{
	return operand_is_possible(&x86_64_isa, arg);
}

bool x86_64_capture_checked(const struct arch_capture *capture)
{
	return capture_is_checked(&x86_64_isa, capture);
}

enum arch_stub_status x86_64_stub(const struct arch_stub *stub, uint64_t at, uint8_t *out,
	size_t room, struct arch_stub_code *ret)
{
	struct emit e = {.out = out, .room = room, .at = at};
	struct lowering l;
	struct stub_plan p;

	if (!plan_stub(&p, stub, &x86_64_isa))
		return ARCH_STUB_UNSUPPORTED;
	lowering_init(&l, &e, NULL);
	form_stub(&l.form, &p);
	emit_again(&e);
	form_stub(&l.form, &p);
	if (!emit_finish(&e))
		return ARCH_STUB_NO_ROOM;
	plan_answer(&p, ret);
	ret->next_jump = l.next_jump;
	ret->length = e.length;
	return l.reaches ? ARCH_STUB_OK : ARCH_STUB_OUT_OF_REACH;
}
