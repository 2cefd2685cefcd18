/* SPDX-License-Identifier: MIT */
/*
 * Gathering: a hit's value is added to a cell (struct probe_cell).
 *
 * A restartable sequence publishes with one store, so a cell takes two sequences. One stores
 * the sum, and before it whatever may safely be done twice (the extremes, the last value); the
 * other stores the count or the value's bucket. Each is exact by itself, on whichever CPU it
 * runs.
 *
 * On a cell that threads without rseq share, each of its words is changed by itself, too, by one
 * instruction or by one that compares and swaps. Nobody concludes from one word of a cell what
 * another one is: so what is left to the order of memory is only that a cell has its key (table.c).
 *
 * The sum of doubles may need the processor's vector unit, whose state is the program's: it is kept
 * before the sequence, and put back whenever the sequence is left.
 */
#include "arch/layout.h"
#include "arch/stub/plan.h"

static struct form_mem field(size_t offset)
{
	return form_at(FORM_SET, (int32_t)offset);
}

#define FIELD(name) field(offsetof(struct probe_cell, name))

/* Whether there is anything besides the count. */
static bool has_values(const struct stub_plan *p)
{
	return p->stub->gather.parts & ~(unsigned int)ARCH_GATHER_BUCKETS;
}

static void load_value(struct form *f, const struct stub_plan *p, int a)
{
	form_load(f, a, form_temp(p->value_temp), sizeof(uint64_t), false);
}

/* ---- Doubles ---------------------------------------------------------------------- */

static bool adds_doubles(const struct stub_plan *p)
{
	return p->stub->gather.is_double && p->stub->gather.parts & ARCH_GATHER_SUM;
}

static void keep_vector(struct form *f, const struct stub_plan *p)
{
	if (adds_doubles(p))
		form_vector(f, FORM_KEEP_VECTOR, p->double_temp);
}

static void restore_vector(struct form *f, const struct stub_plan *p)
{
	if (adds_doubles(p))
		form_vector(f, FORM_RESTORE_VECTOR, p->double_temp);
}

/* Adds the value, which is in RIGHT. */
static void sum_of_doubles(struct form *f, const struct stub_plan *p, bool shared)
{
	struct form_mem old_sum = form_temp(p->double_temp + FORM_VECTOR_TEMPS);
	int again = form_label(f);

	if (!shared) {
		form_add_double(f, FIELD(sum), p->double_temp);
		form_store(f, FORM_RIGHT, FIELD(sum));
		return;
	}
	form_place(f, again);
	form_load(f, FORM_VALUE, FIELD(sum), sizeof(uint64_t), false);
	form_store(f, FORM_VALUE, old_sum);
	load_value(f, p, FORM_RIGHT);
	form_add_double(f, old_sum, p->double_temp);
	form_cas(f, FIELD(sum), sizeof(uint64_t), FORM_RIGHT, FORM_NE, again);
}

/* RIGHT = the bucket of the double in VALUE, which is not negative; changes VALUE. */
static void bucket_of_double(struct form *f)
{
	int done = form_label(f);

	form_const(f, FORM_RIGHT, 0);
	form_two_const(f, FORM_SHR, true, FORM_VALUE, CELL_DOUBLE_SHIFT);
	form_sub_jump_if_const(f, true, FORM_VALUE, FORM_BELOW, CELL_DOUBLE_FIRST, done);
	form_const(f, FORM_RIGHT, CELL_NEGATIVE - 1);
	form_jump_if(f, true, FORM_VALUE, FORM_NOT_BELOW, FORM_RIGHT, done);
	form_move(f, FORM_RIGHT, FORM_VALUE);
	form_place(f, done);
}

/* ---- With the CPU's own cell at SET ----------------------------------------------- */

/* A word keeps the largest SCRATCH it has seen. */
static void keep_largest(struct form *f, struct form_mem word, bool shared)
{
	int done = form_label(f), again = form_label(f);

	if (!shared) {
		form_jump_if_at(f, sizeof(uint64_t), FORM_SCRATCH, FORM_NOT_ABOVE, word, done);
		form_store(f, FORM_SCRATCH, word);
	} else {
		form_load(f, FORM_VALUE, word, sizeof(uint64_t), false);
		form_place(f, again);
		form_jump_if(f, true, FORM_SCRATCH, FORM_NOT_ABOVE, FORM_VALUE, done);
		form_cas(f, word, sizeof(uint64_t), FORM_SCRATCH, FORM_NE, again);
	}
	form_place(f, done);
}

/* Everything except the count; the sum comes last. */
static void gather_values(struct form *f, const struct stub_plan *p, bool shared)
{
	const struct arch_gather *g = &p->stub->gather;

	load_value(f, p, FORM_RIGHT);
	if (g->parts & ARCH_GATHER_EXTREMES) {
		if (g->is_double)
			form_order_of_double(f);
		else
			form_move(f, FORM_SCRATCH, FORM_RIGHT);
		if (g->is_signed)
			form_flip(f, FORM_SCRATCH, 63);
		keep_largest(f, FIELD(most), shared);
		form_one(f, FORM_COMPLEMENT, true, FORM_SCRATCH);
		keep_largest(f, FIELD(least), shared);
	}
	if (g->parts & ARCH_GATHER_LAST) {
		form_store(f, FORM_RIGHT, FIELD(last));
		form_now(f, p);
		form_store(f, FORM_VALUE, FIELD(last_time));
	}
	if (adds_doubles(p))
		sum_of_doubles(f, p, shared);
	else if (g->parts & ARCH_GATHER_SUM)
		form_add_to(f, shared ? FORM_COUNT_SHARED : FORM_COUNT, FIELD(sum),
			sizeof(uint64_t), FORM_RIGHT);
}

/* RIGHT = the bucket of the number in VALUE, which is not negative; changes VALUE and SCRATCH. */
static void bucket_of_number(struct form *f)
{
	form_move(f, FORM_SCRATCH, FORM_VALUE);
	form_two_const(f, FORM_OR, true, FORM_SCRATCH, 1 << CELL_SUB_BITS);
	form_highest(f, FORM_RIGHT, FORM_SCRATCH);
	form_two_const(f, FORM_SUB, false, FORM_RIGHT, CELL_SUB_BITS);
	form_by_right(f, FORM_SHR, true, false);
	form_two_const(f, FORM_SHL, false, FORM_RIGHT, CELL_SUB_BITS);
	form_two(f, FORM_ADD, true, FORM_RIGHT, FORM_VALUE);
}

/* Counts the hit: in the bucket of its value (see CELL_SUB_BITS), or in `count`. */
static void count_value(struct form *f, const struct stub_plan *p, bool shared)
{
	const struct arch_gather *g = &p->stub->gather;
	struct form_mem word = FIELD(count);
	int found = form_label(f), plain = form_label(f);

	if (g->parts & ARCH_GATHER_BUCKETS) {
		word = FIELD(buckets);
		word.index = FORM_RIGHT;
		word.scale = sizeof(uint64_t);
		load_value(f, p, FORM_VALUE);
		if (g->is_signed || g->is_double) {
			form_jump_if_const(f, true, FORM_VALUE, FORM_GE, 0, plain);
			form_const(f, FORM_RIGHT, CELL_NEGATIVE);
			form_jump(f, found);
			form_place(f, plain);
		}
		if (g->is_double)
			bucket_of_double(f);
		else
			bucket_of_number(f);
	}
	form_place(f, found);
	form_change(f, shared ? FORM_COUNT_SHARED : FORM_COUNT, word);
}

/* ---- Where the cell is -------------------------------------------------------------- */

static const struct sequence *own_cell(struct form *f, struct stub_plan *p, int slow)
{
	const struct arch_stub *s = p->stub;
	const struct sequence *q = form_sequence_begin(f, p, FORM_SET, slow);

	form_cpu_set(f, p, FORM_SET, s->slots_shift, s->slots + s->gather.cell, slow);
	form_two(f, FORM_ADD, true, FORM_SET, FORM_VALUE);
	if (s->gather.key_count)
		form_lookup(f, p, q->retry);
	return q;
}

static void shared_cell(struct form *f, const struct stub_plan *p)
{
	form_shared_set(f, p, FORM_SET, p->stub->gather.cell);
	if (p->stub->gather.key_count)
		form_lookup(f, p, -1);
}

/* ---- The action ------------------------------------------------------------------------ */

void form_gather(struct form *f, struct stub_plan *p)
{
	const struct arch_gather *g = &p->stub->gather;
	const struct sequence *q;

	form_prepare_stacks(f, p);
	if (g->value) {
		form_expr(f, p, g->value, p->lost);
		form_store(f, FORM_VALUE, form_temp(p->value_temp));
	} else if (p->stub->flights.table) {
		form_end(f, p);
	}
	if (g->key_count)
		form_key(f, p);
	keep_vector(f, p);
	if (!p->stub->thread.has_rseq) {
		form_jump(f, p->slow);
		return;
	}
	if (has_values(p)) {
		q = own_cell(f, p, p->slow);
		gather_values(f, p, false);
		form_sequence_end(f, p, q);
	}
	q = own_cell(f, p, p->slow_update);
	count_value(f, p, false);
	form_sequence_end(f, p, q);
}

void form_gather_slow(struct form *f, const struct stub_plan *p)
{
	form_place(f, p->slow);
	if (has_values(p)) {
		form_sequence_leave(f, p);
		restore_vector(f, p);
		shared_cell(f, p);
		gather_values(f, p, true);
	}
	form_place(f, p->slow_update);
	form_sequence_leave(f, p);
	shared_cell(f, p);
	count_value(f, p, true);
	form_jump(f, p->out);
}
