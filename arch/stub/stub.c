/* SPDX-License-Identifier: MIT */
/*
 * Stubs: the code that runs in the target at a hit.
 *
 * A jump at a site enters the stub in the middle of a function of the program, and the stub
 * must leave no trace there:
 *
 *   enter: save what is needed first, the flags too
 *   [guard == 0: a forked child that does not count: leave]
 *   [disabled: leave]
 *   [a filter that needs no more than this: false: leave]
 *   grow: save the other registers
 *   [pointers: check that they are readable; measure the strings]
 *   [a filter that needs them]
 *   [sampling                 sample.c]
 *   the action
 *   out:
 *   shrink
 *   small_out:
 *   leave: restore everything, and jump to the next stub
 *
 *   the slow parts of the action
 *   data of restartable sequences      sequence.c
 *   subroutines
 */
#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/stub/plan.h"

/* ---- What comes before the action ---------------------------------------------- */

/* VALUE is an id, or the kernel was not asked: in a mode that a call would end. The hit is lost. */
static void form_if_answered(struct form *f, const struct stub_plan *p)
{
	enum arch_stub_kind kind = p->stub->kind;
	bool counts_losses =
		kind == ARCH_STUB_RECORD || kind == ARCH_STUB_GATHER || kind == ARCH_STUB_BEGIN;

	if (p->stub->thread.has_modes)
		form_jump_if_const(
			f, false, FORM_VALUE, FORM_LT, 0, counts_losses ? p->lost : p->out);
}

static void form_id(struct form *f, const struct stub_plan *p, enum form_call call, int temp)
{
	form_kernel(f, call);
	form_if_answered(f, p);
	form_store(f, FORM_VALUE, form_temp(temp));
}

/* getcpu(2) writes it there. */
static void form_cpu_id(struct form *f, const struct stub_plan *p)
{
	form_store_const(f, form_temp(p->cpu_temp), sizeof(uint64_t), 0);
	form_compute(f, FORM_SET, form_temp(p->cpu_temp));
	form_const(f, FORM_FROM, 0);
	form_const(f, FORM_SCRATCH, 0);
	form_kernel(f, FORM_CALL_GETCPU);
	form_if_answered(f, p);
}

static void form_prepare(struct form *f, const struct stub_plan *p, uint32_t captures)
{
	for (int i = 0; i < p->stub->capture_count; i++)
		if (captures >> i & 1)
			form_prepare_capture(f, p, i);
}

static uint32_t all_captures(const struct stub_plan *p)
{
	return (uint32_t)((UINT64_C(1) << p->stub->capture_count) - 1);
}

/* None is prepared: all that are checked could be read so far, and no page is known to be there. */
static void form_prepare_none(struct form *f, const struct stub_plan *p)
{
	if (p->checked)
		form_store_const(
			f, form_temp(p->mask_temp), sizeof(uint32_t), (int32_t)all_captures(p));
	form_checks_begin(f, p);
}

/* What must be known before the action; first what the filter needs. */
static void form_preparations(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	uint32_t first = s->filter && !p->is_early ? expr_captures(s->filter) : 0;

	if (p->kernel_tid)
		form_id(f, p, FORM_CALL_GETTID, p->tid_temp);
	if (p->kernel_pid)
		form_id(f, p, FORM_CALL_GETPID, p->pid_temp);
	if (p->kernel_cpu)
		form_cpu_id(f, p);
	form_prepare_none(f, p);
	form_prepare(f, p, first);
	if (s->filter && !p->is_early)
		form_filter(f, p, s->filter, p->out);
	form_prepare(f, p, all_captures(p) & ~first);
}

void form_prepare_again(struct form *f, const struct stub_plan *p)
{
	form_prepare_none(f, p);
	form_prepare(f, p, all_captures(p));
	form_prepare_stacks(f, p);
}

/* ---- Counting -------------------------------------------------------------------- */

static void form_count(struct form *f, struct stub_plan *p)
{
	form_cpu_inc(f, p, offsetof(struct probe_slot, hits), p->slow);
}

static void form_count_slow(struct form *f, const struct stub_plan *p)
{
	if (!p->stub->thread.has_rseq)
		return;
	form_place(f, p->slow);
	form_sequence_leave(f, p);
	form_shared_inc(f, p, offsetof(struct probe_slot, hits));
	form_jump(f, p->out);
}

/* ---- Whole stubs ------------------------------------------------------------------- */

static void form_action(struct form *f, struct stub_plan *p)
{
	switch (p->stub->kind) {
	case ARCH_STUB_COUNT:
		form_count(f, p);
		break;
	case ARCH_STUB_GATE:
		form_gate(f, p);
		break;
	case ARCH_STUB_RECORD:
		form_record(f, p);
		break;
	case ARCH_STUB_GATHER:
		form_gather(f, p);
		break;
	case ARCH_STUB_BEGIN:
		form_begin(f, p);
		break;
	default: /* ARCH_STUB_CALL */
		form_call_function(f, p);
		break;
	}
}

/* Hits that are only counted as lost or unmatched. */
static void form_failures(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	form_place(f, p->unmatched);
	if (s->flights.table) {
		form_sequence_leave(f, p);
		form_shared_inc(f, p, offsetof(struct probe_slot, unmatched));
		form_jump(f, p->out);
	}
	form_place(f, p->lost);
	if (s->kind == ARCH_STUB_COUNT || s->kind == ARCH_STUB_GATE || s->kind == ARCH_STUB_CALL)
		return;
	form_shared_inc(f, p, offsetof(struct probe_slot, lost));
	if (s->on_until_full) {
		form_address(f, FORM_VALUE, s->on);
		form_store_const(f, form_at(FORM_VALUE, sizeof(uint32_t)), sizeof(uint32_t), 1);
	}
	form_jump(f, p->out);
}

static void form_slow_parts(struct form *f, struct stub_plan *p)
{
	if (p->stub->kind == ARCH_STUB_COUNT)
		form_count_slow(f, p);
	else if (p->stub->kind == ARCH_STUB_RECORD)
		form_record_slow(f, p);
	else if (p->stub->kind == ARCH_STUB_GATHER)
		form_gather_slow(f, p);
	else if (p->stub->kind == ARCH_STUB_CALL)
		form_call_function_slow(f, p);
	form_sample_slow(f, p);
	form_flights_slow(f, p);
	form_failures(f, p);
	if (p->isa->late)
		p->isa->late(f, p);
	form_sequence_aborts(f, p);
	form_capture_subroutines(f, p);
	if (p->stub->gather.key_count || p->stub->flights.text || p->stub->flights.same_count)
		form_hash_subroutine(f, p);
	if (p->stub->thread.no_counter)
		p->isa->time_subroutine(f, p);
	form_sequence_descriptors(f, p);
	if (stub_has_norm(p->stub))
		form_norm_tables(f, p);
}

static void make_labels(struct form *f, struct stub_plan *p)
{
	int *const labels[] = {&p->check, &p->check_stack, &p->measure, &p->extent, &p->hash,
		&p->norm, &p->time, &p->out, &p->small_out, &p->slow, &p->full, &p->lost,
		&p->unmatched, &p->slow_sample, &p->sampled, &p->slow_update, &p->gone,
		&p->slow_flight, &p->timed, &p->entered, &p->slow_leave, &p->number, &p->numbered,
		&p->slow_again, &p->wait_first, &p->wait, &p->wait_over, &p->wait_done,
		&p->wait_lost};

	for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++)
		*labels[i] = form_label(f);
	p->sequence_count = 0;
}

static void form_switches(struct form *f, const struct stub_plan *p)
{
	form_jump_if_word(f, FORM_RIGHT, p->stub->guard, FORM_EQ, p->small_out);
	if (p->stub->on)
		form_jump_if_word(f, FORM_RIGHT, p->stub->on, FORM_EQ, p->small_out);
	if (p->stub->off)
		form_jump_if_word(f, FORM_RIGHT, p->stub->off, FORM_NE, p->small_out);
}

/*
 * Reads a word of each page of a frame that has more than one, from above: where the stack ends,
 * there may be one page that cannot be read, and below it memory that is none of the thread's.
 */
static void form_touch(struct form *f, const struct stub_plan *p)
{
	for (int at = p->frame.size - PAGE_BYTES; at > 0; at -= PAGE_BYTES)
		form_load(f, FORM_VALUE, form_at(FORM_FRAME, at & -8), sizeof(uint64_t), false);
}

void form_stub(struct form *f, struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	make_labels(f, p);
	p->isa->enter(f, p);
	form_switches(f, p);
	if (p->is_early)
		form_filter(f, p, s->filter, p->small_out);
	p->isa->grow(f, p);
	form_touch(f, p);
	form_hold_none(f, p);
	form_preparations(f, p);
	form_sample(f, p);
	form_action(f, p);
	form_place(f, p->out);
	form_release(f, p);
	p->isa->shrink(f, p);
	form_place(f, p->small_out);
	p->isa->leave(f, p);
	form_slow_parts(f, p);
}
