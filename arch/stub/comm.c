/* SPDX-License-Identifier: MIT */
/*
 * Captures of the thread's name.
 *
 * Only the kernel has it: prctl(2), PR_GET_NAME, copies 16 bytes with a NUL among them, and fails
 * for no other reason than the address (kernel/sys.c of Linux). The C library keeps no copy, and
 * anybody may give the thread another name (/proc/PID/task/TID/comm), so it is asked for at each
 * hit. So a hit has the name that its thread had then, and no controller has to look at a thread
 * before it ends.
 */
#include <linux/prctl.h>

#include "arch/arch.h"
#include "arch/stub/plan.h"

/*
 *	POINTER	where the name goes
 *	VALUE	its length
 */
void form_prepare_comm(struct form *f, const struct stub_plan *p, int i)
{
	int next = form_label(f), end = form_label(f);

	form_store_const(f, form_temp(p->spill[i]), sizeof(uint64_t), 0);
	form_store_const(f, form_temp(p->spill[i] + 1), sizeof(uint64_t), 0);
	form_compute(f, FORM_POINTER, form_temp(p->spill[i]));
	form_move(f, FORM_FROM, FORM_POINTER);
	form_const(f, FORM_SET, PR_GET_NAME);
	form_kernel(f, FORM_CALL_PRCTL);
	form_const(f, FORM_VALUE, 0);
	form_place(f, next);
	form_load(f, FORM_SCRATCH, form_indexed(FORM_POINTER, FORM_VALUE, 0), 1, false);
	form_jump_if_const(f, false, FORM_SCRATCH, FORM_EQ, 0, end);
	form_two_const(f, FORM_ADD, false, FORM_VALUE, 1);
	form_jump_if_const(f, false, FORM_VALUE, FORM_BELOW, ARCH_COMM_MAX, next);
	form_place(f, end);
	form_store_pair(f, p->temp[i], FORM_POINTER);
}
