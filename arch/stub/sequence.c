/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences, and the memory of the CPU that they run on.
 *
 *   retry:
 *   thread's rseq_cs = descriptor   from here on a preemption, a migration or a
 *   start:                          signal makes the kernel resume at `abort`
 *     cpu = thread's cpu_id; none: go to `slow`
 *     ...
 *     a store                  the last instruction of the sequence publishes it
 *   end:
 *   thread's rseq_cs = 0            nothing may point into memory that we unmap
 *
 *   signature, abort: jump to `aborted`
 *   descriptor (struct rseq_cs)
 *
 * A hit whose sequence was aborted takes the path of threads without rseq, with locked
 * instructions, and does not go back to `retry`: under a debugger that steps through a stub,
 * and in a program that sets its own trap flag, each instruction is an abort, and the hit would
 * never finish. If that path may run out of room, in the table of keys that all threads share,
 * it is taken only after some more tries. So a sequence changes only data that is not published
 * yet, or that may be changed twice.
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
		form_label(f), aborted, scratch};
	form_place(f, q->retry);
	form_label_address(f, scratch, q->descriptor);
	form_store(f, scratch, field_of_rseq(plan, RSEQ_CS));
	form_mark(f, q->start);
	return q;
}

void form_sequence_end(struct form *f, const struct stub_plan *plan, const struct sequence *q)
{
	form_mark(f, q->end);
	form_sequence_leave(f, plan);
}

void form_sequence_leave(struct form *f, const struct stub_plan *plan)
{
	if (plan->stub->thread.has_rseq)
		form_store_const(f, field_of_rseq(plan, RSEQ_CS), sizeof(uint64_t), 0);
}

/* The number of tries left is not initialised: any number will do. */
static void form_try_again(struct form *f, const struct stub_plan *plan, const struct sequence *q)
{
	int scratch = q->scratch;
	struct form_mem tries = form_temp(plan->tries_temp);

	form_load(f, scratch, tries, sizeof(uint64_t), false);
	form_two_const(f, FORM_AND, true, scratch, TRIES_MASK);
	form_jump_if_const(f, true, scratch, FORM_EQ, 0, q->aborted);
	form_two_const(f, FORM_SUB, true, scratch, 1);
	form_store(f, scratch, tries);
	form_jump(f, q->retry);
}

/* The kernel requires the signature in the four bytes before the abort handler. */
void form_sequence_aborts(struct form *f, const struct stub_plan *plan)
{
	for (int i = 0; i < plan->sequence_count; i++) {
		const struct sequence *q = &plan->sequences[i];

		form_word(f, sizeof(uint32_t), plan->stub->thread.rseq_signature);
		form_place(f, q->abort);
		if (plan->stub->gather.key_count)
			form_try_again(f, plan, q);
		else
			form_jump(f, q->aborted);
	}
}

/* struct rseq_cs, at the end of the stub. */
void form_sequence_descriptors(struct form *f, const struct stub_plan *plan)
{
	for (int i = 0; i < plan->sequence_count; i++) {
		const struct sequence *q = &plan->sequences[i];

		form_align(f, DESCRIPTOR_ALIGN);
		form_place(f, q->descriptor);
		form_word(f, sizeof(uint64_t), 0); /* version and flags */
		form_label_word(f, q->start, FORM_NONE);
		form_label_word(f, q->end, q->start);
		form_label_word(f, q->abort, FORM_NONE);
	}
}

/* ---- The memory of a CPU ---------------------------------------------------------------- */

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
	const struct arch_stub *s = plan->stub;

	form_address(f, a, s->slots + ((uint64_t)s->cpus << s->slots_shift) + offset);
}

void form_shared_inc(struct form *f, const struct stub_plan *plan, size_t field)
{
	form_shared_set(f, plan, FORM_VALUE, plan->stub->slot_offset + (uint32_t)field);
	form_change(f, FORM_COUNT_SHARED, form_at(FORM_VALUE, 0));
}

void form_cpu_inc(struct form *f, struct stub_plan *plan, size_t field, int slow)
{
	const struct arch_stub *s = plan->stub;
	const struct sequence *q;

	if (!s->thread.has_rseq) {
		form_shared_inc(f, plan, field);
		return;
	}
	q = form_sequence_begin(f, plan, FORM_RIGHT, slow);
	form_cpu_set(f, plan, FORM_RIGHT, s->slots_shift, s->slots + s->slot_offset, slow);
	form_change(f, FORM_COUNT, form_indexed(FORM_VALUE, FORM_RIGHT, (int32_t)field));
	form_sequence_end(f, plan, q);
}
