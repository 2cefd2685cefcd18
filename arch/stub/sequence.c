/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences, and the per-CPU data that they change.
 *
 *   retry:
 *   thread's rseq_cs = descriptor   from here on, a preemption, a migration or a
 *   start:                          signal makes the kernel resume at `abort`
 *     cpu = thread's cpu_id; if there is none, go to `slow`
 *     ...
 *     a store                       the last instruction of the sequence publishes its result
 *   end:
 *   thread's rseq_cs = 0            rseq_cs must not point into memory that we unmap
 *
 *   signature, abort: jump to `aborted`
 *   descriptor (struct rseq_cs)
 *
 * After an abort, a hit does not go back to `retry`. It takes the path of threads without rseq,
 * which uses locked instructions. If a debugger single-steps through the stub, or the program sets
 * its own trap flag, each instruction causes an abort, and a hit that always retried would never
 * finish. But on that path, a stub with keys uses a table that all threads share and that may
 * become full. So a stub with keys retries a few times before it takes that path. A sequence may
 * therefore run more than once: it changes only data that is not published yet, or that may be
 * changed twice.
 *
 * Sources: include/uapi/linux/rseq.h and kernel/rseq.c of Linux.
 */

#include "arch/layout.h"
#include "arch/stub/plan.h"

enum { TRIES_MASK = 7, DESCRIPTOR_ALIGN = 32 };

static struct form_mem field_of_rseq(const struct stub_plan *plan, int32_t offset)
{
	return form_at(FORM_THREAD, plan->stub->thread.rseq_offset + offset);
}

const struct sequence *form_sequence_begin(
	struct form *f, struct stub_plan *plan, int scratch, int aborted)
{
	struct sequence *q = &plan->sequences[plan->sequence_count++];

	*q = (struct sequence){form_label(f), form_label(f), form_label(f), form_label(f),
		form_label(f), aborted, scratch,
		plan->at->action->gather.key_count ? plan->at->tries_temp : -1};
	form_place(f, q->retry);
	FORM(f, .op = FORM_LABEL, .a = scratch, .label = q->descriptor);
	form_store(f, scratch, field_of_rseq(plan, RSEQ_CS));
	FORM(f, .op = FORM_MARK, .label = q->start);
	return q;
}

void form_sequence_end(struct form *f, const struct stub_plan *plan, const struct sequence *q)
{
	FORM(f, .op = FORM_MARK, .label = q->end);
	form_sequence_leave(f, plan);
}

void form_sequence_leave(struct form *f, const struct stub_plan *plan)
{
	if (plan->stub->thread.has_rseq)
		form_store_const(f, field_of_rseq(plan, RSEQ_CS), sizeof(uint64_t), 0);
}

void form_sequence_aborts(struct form *f, const struct stub_plan *plan)
{
	for (int i = 0; i < plan->sequence_count; i++) {
		const struct sequence *q = &plan->sequences[i];

		form_word(f, sizeof(uint32_t), plan->stub->thread.rseq_signature);
		form_place(f, q->abort);
		if (q->tries_temp >= 0) {
			/* Go back to `retry` a few times. The counter may start at any number. */
			form_load(f, q->scratch, form_temp(q->tries_temp), sizeof(uint64_t), false);
			form_two_const(f, FORM_AND, true, q->scratch, TRIES_MASK);
			form_jump_if_const(f, true, q->scratch, FORM_EQ, 0, q->aborted);
			form_two_const(f, FORM_SUB, true, q->scratch, 1);
			form_store(f, q->scratch, form_temp(q->tries_temp));
			form_jump(f, q->retry);
		} else {
			form_jump(f, q->aborted);
		}
	}
}

void form_sequence_descriptors(struct form *f, const struct stub_plan *plan)
{
	for (int i = 0; i < plan->sequence_count; i++) {
		const struct sequence *q = &plan->sequences[i];

		FORM(f, .op = FORM_ALIGN, .value = DESCRIPTOR_ALIGN);
		form_place(f, q->descriptor);
		form_word(f, sizeof(uint64_t), 0); /* version and flags */
		FORM(f, .op = FORM_LABEL_WORD, .label = q->start, .from = FORM_NONE);
		FORM(f, .op = FORM_LABEL_WORD, .label = q->end, .from = q->start);
		FORM(f, .op = FORM_LABEL_WORD, .label = q->abort, .from = FORM_NONE);
	}
}

/* ---- Per-CPU data ----------------------------------------------------------------------- */

void form_cpu_set(
	struct form *f, const struct stub_plan *plan, int a, uint8_t shift, uint64_t sets, int slow)
{
	form_load(f, a, field_of_rseq(plan, RSEQ_CPU_ID), sizeof(uint32_t), false);
	form_address(f, FORM_VALUE, sets);
	form_jump_if_const(f, false, a, FORM_NOT_BELOW, (int32_t)plan->stub->cpus, slow);
	form_two_const(f, FORM_SHL, true, a, shift);
}

void form_shared_set(struct form *f, const struct stub_plan *plan, int a, uint32_t offset)
{
	const struct arch_action *action = plan->at->action;
	uint64_t shared = (uint64_t)plan->stub->cpus << action->slots_shift;

	form_address(f, a, action->slots + shared + offset);
}

void form_shared_inc(struct form *f, const struct stub_plan *plan, size_t field)
{
	form_shared_set(f, plan, FORM_VALUE, plan->at->action->slot_offset + (uint32_t)field);
	form_change(f, FORM_COUNT_SHARED, form_at(FORM_VALUE, 0));
}

void form_cpu_inc(struct form *f, struct stub_plan *plan, size_t field, int slow)
{
	const struct arch_action *action = plan->at->action;
	const struct sequence *q;

	if (!plan->stub->thread.has_rseq) {
		form_shared_inc(f, plan, field);
		return;
	}
	q = form_sequence_begin(f, plan, FORM_RIGHT, slow);
	form_cpu_set(f, plan, FORM_RIGHT, action->slots_shift, action->slots + action->slot_offset,
		slow);
	form_change(f, FORM_COUNT, form_indexed(FORM_VALUE, FORM_RIGHT, (int32_t)field));
	form_sequence_end(f, plan, q);
}
