/* SPDX-License-Identifier: MIT */
/*
 * Sampling: one hit in N, and at most so many per unit of time.
 *
 * One in N is counted on each CPU separately. A rate applies to the session, across all CPUs,
 * in windows of time; one word holds the window's number and its hits, so both change at once.
 */
#include "arch/layout.h"
#include "arch/stub/plan.h"

/* FORM_SCRATCH = the updated number of hits since the last sampled one; 0: sample this one. */
static void form_every(struct form *f, struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	struct form_mem seen =
		form_indexed(FORM_VALUE, FORM_RIGHT, offsetof(struct probe_slot, seen));
	const struct sequence *q;
	int keep = form_label(f);

	q = form_sequence_begin(f, p, FORM_RIGHT, p->slow_sample);
	form_cpu_set(f, p, FORM_RIGHT, s->slots_shift, s->slots + s->slot_offset, p->slow_sample);
	form_load(f, FORM_SCRATCH, seen, sizeof(uint64_t), false);
	form_two_const(f, FORM_ADD, true, FORM_SCRATCH, 1);
	form_jump_if_const(f, true, FORM_SCRATCH, FORM_BELOW, (int32_t)s->every, keep);
	form_const(f, FORM_SCRATCH, 0);
	form_place(f, keep);
	form_store(f, FORM_SCRATCH, seen);
	form_sequence_end(f, p, q);
}

/*
 * FORM_SET = the window's number, shifted left by 32. FORM_VALUE = the old word; FORM_SCRATCH = the
 * new one: one hit more, or the first hit of a new window.
 */
static void form_rate(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	int again = form_label(f), same = form_label(f), change = form_label(f);
	struct form_mem word = form_at(FORM_FROM, 0);

	form_now(f, p);
	form_const(f, FORM_RIGHT, s->rate_ticks);
	form_by_right(f, FORM_DIV, true, false);
	form_two_const(f, FORM_SHL, true, FORM_VALUE, 32);
	form_move(f, FORM_SET, FORM_VALUE);
	form_address(f, FORM_FROM, s->rate_word);
	form_place(f, again);
	form_load(f, FORM_VALUE, word, sizeof(uint64_t), false);
	form_move(f, FORM_RIGHT, FORM_VALUE);
	form_two(f, FORM_XOR, true, FORM_RIGHT, FORM_SET);
	form_jump_if_const(f, true, FORM_RIGHT, FORM_NOT_ABOVE, INT32_MAX, same); /* no rate is */
	form_compute(f, FORM_SCRATCH, form_at(FORM_SET, 1));
	form_jump(f, change);
	form_place(f, same);
	form_jump_if_const(f, false, FORM_VALUE, FORM_NOT_BELOW, (int32_t)s->rate, p->out);
	form_compute(f, FORM_SCRATCH, form_at(FORM_VALUE, 1));
	form_place(f, change);
	form_cas(f, word, sizeof(uint64_t), FORM_SCRATCH, FORM_NE, again);
}

void form_sample(struct form *f, struct stub_plan *p)
{
	if (p->stub->every > 1) {
		if (p->stub->thread.has_rseq) {
			form_every(f, p);
			form_jump_if_const(f, true, FORM_SCRATCH, FORM_NE, 0, p->out);
		} else {
			form_jump(f, p->slow_sample);
		}
	}
	form_place(f, p->sampled);
	if (p->stub->rate)
		form_rate(f, p);
}

/* A thread without rseq: counts modulo N in the set that all share. */
void form_sample_slow(struct form *f, const struct stub_plan *p)
{
	if (p->stub->every <= 1)
		return;
	form_place(f, p->slow_sample);
	form_sequence_leave(f, p);
	form_shared_set(f, p, FORM_RIGHT, p->stub->slot_offset + offsetof(struct probe_slot, seen));
	form_const(f, FORM_VALUE, 1);
	form_fetch_add(f, FORM_VALUE, form_at(FORM_RIGHT, 0), sizeof(uint64_t));
	form_two_const(f, FORM_ADD, true, FORM_VALUE, 1);
	form_const(f, FORM_RIGHT, p->stub->every);
	form_by_right(f, FORM_MOD, true, false);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, p->sampled);
	form_jump(f, p->out);
}
