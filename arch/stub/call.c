/* SPDX-License-Identifier: MIT */
/*
 * Calls of a function of the program, with the captures as its arguments (arch_stub.call).
 *
 * While a thread is between the two counts, this stub and the code after it must stay until the
 * thread returns; see libprobe/patch/busy.c.
 */
#include "arch/layout.h"
#include "arch/stub/plan.h"

/* What the function is given. */
static void form_words(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	for (int i = 0; i < s->recorded; i++) {
		form_captured_word(f, p, i);
		form_store(f, FORM_VALUE, form_temp(p->call_temp + i));
	}
	if (p->checked) {
		form_load(f, FORM_VALUE, form_temp(p->mask_temp), sizeof(uint32_t), false);
		form_store(f, FORM_VALUE, form_temp(p->call_temp + s->recorded));
	} else {
		form_store_const(f, form_temp(p->call_temp + s->recorded), sizeof(uint64_t), -1);
	}
	for (int i = 0; i < s->recorded; i++) {
		if (!arch_capture_has_bytes(&s->captures[i]))
			continue;
		form_load(f, FORM_VALUE, form_temp(p->temp[i]), sizeof(uint64_t), false);
		form_store(f, FORM_VALUE, form_temp(p->call_temp + s->recorded + 1 + i));
	}
}

void form_call_function(struct form *f, struct stub_plan *p)
{
	form_cpu_inc(f, p, offsetof(struct probe_slot, hits), p->slow);
	form_place(f, p->entered);
	form_words(f, p);
	p->isa->call(f, p);
	form_cpu_inc(f, p, offsetof(struct probe_slot, seen), p->slow_leave);
}

/* The paths of threads without rseq. */
void form_call_function_slow(struct form *f, const struct stub_plan *p)
{
	if (!p->stub->thread.has_rseq)
		return;
	form_place(f, p->slow);
	form_sequence_leave(f, p);
	form_shared_inc(f, p, offsetof(struct probe_slot, hits));
	form_jump(f, p->entered);
	form_place(f, p->slow_leave);
	form_sequence_leave(f, p);
	form_shared_inc(f, p, offsetof(struct probe_slot, seen));
	form_jump(f, p->out);
}
