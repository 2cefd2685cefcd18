/* SPDX-License-Identifier: MIT */
/*
 * Stubs: the generated code that runs in the target at a hit.
 *
 * A jump at a site enters the stub in the middle of a function of the program. The stub must leave
 * the registers and the flags as they were. In order, its code is:
 *
 *   enter: save the few registers that the next steps use, and the flags
 *   [guard == 0, in a forked child that does not count: leave]
 *   [session disabled: leave]
 *   [early filter, if it needs only those registers: leave if false]
 *   grow: save the other registers
 *   [pointers: check that they are readable; measure the strings]
 *   [filter, if it needs captures]
 *   [sampling]
 *   the actions, one after the other
 *   out:
 *   shrink
 *   small_out:
 *   leave: restore everything, and jump to the next stub
 *
 *   the slow parts of each action
 *   abort handlers of restartable sequences
 *   subroutines
 *   descriptors of restartable sequences, which are data
 */

#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/stub/plan.h"

/* ==== Gathering =============================================================================== */

/*
 * A hit adds its value to a cell (struct probe_cell).
 *
 * A sequence publishes with one store, so a hit runs two: the first stores what may be stored twice
 * (extremes, last value) and then the sum; the second the count or bucket. Each is exact on any
 * CPU.
 *
 * In a cell of threads without rseq, each word changes atomically. No word is inferred from
 * another, so memory order matters only for a cell's key (table.c).
 *
 * A sum of doubles may need a vector register, which is saved before the sequence, and restored
 * whenever it is left.
 */

#define FIELD(name) form_at(FORM_SET, offsetof(struct probe_cell, name))

/* Returns true if the hit changes more of the cell than the count or the buckets. */
static bool has_values(const struct stub_plan *p)
{
	return p->at->action->gather.parts & ~(unsigned int)ARCH_GATHER_BUCKETS;
}

static void load_value(struct form *f, const struct stub_plan *p, int a)
{
	form_load(f, a, form_temp(p->at->value_temp), sizeof(uint64_t), false);
}

/* ---- Doubles ---------------------------------------------------------------------- */

static bool adds_doubles(const struct stub_plan *p)
{
	return p->at->action->gather.is_double && p->at->action->gather.parts & ARCH_GATHER_SUM;
}

/* Adds the value in RIGHT to the cell's sum. */
static void sum_of_doubles(struct form *f, const struct stub_plan *p, bool shared)
{
	struct form_mem old_sum = form_temp(p->at->double_temp + FORM_VECTOR_TEMPS);
	int again = form_label(f);

	if (!shared) {
		FORM(f, .op = FORM_ADD_DOUBLE, .mem = FIELD(sum),
			.value = (uint64_t)p->at->double_temp);
		form_store(f, FORM_RIGHT, FIELD(sum));
		return;
	}
	form_place(f, again);
	form_load(f, FORM_VALUE, FIELD(sum), sizeof(uint64_t), false);
	form_store(f, FORM_VALUE, old_sum);
	load_value(f, p, FORM_RIGHT);
	FORM(f, .op = FORM_ADD_DOUBLE, .mem = old_sum, .value = (uint64_t)p->at->double_temp);
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

/* ---- The parts of the cell at SET ------------------------------------------------- */

/* Stores the larger of SCRATCH and a word of the cell in that word. */
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

/* Changes the cell except count and buckets; changes the sum last. */
static void gather_values(struct form *f, const struct stub_plan *p, bool shared)
{
	const struct arch_gather *g = &p->at->action->gather;

	load_value(f, p, FORM_RIGHT);
	if (g->parts & ARCH_GATHER_EXTREMES) {
		if (g->is_double)
			form_order_of_double(f);
		else
			form_move(f, FORM_SCRATCH, FORM_RIGHT);
		if (g->is_signed)
			FORM(f, .op = FORM_FLIP, .a = FORM_SCRATCH, .shift = 63);
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
		form_memory(f, shared ? FORM_COUNT_SHARED : FORM_COUNT, FORM_RIGHT, FIELD(sum),
			sizeof(uint64_t));
}

/* RIGHT = the bucket of the integer in VALUE, which is not negative; changes VALUE and SCRATCH. */
static void bucket_of_number(struct form *f)
{
	form_move(f, FORM_SCRATCH, FORM_VALUE);
	form_two_const(f, FORM_OR, true, FORM_SCRATCH, 1 << CELL_SUB_BITS);
	form_two(f, FORM_HIGHEST, true, FORM_RIGHT, FORM_SCRATCH);
	form_two_const(f, FORM_SUB, false, FORM_RIGHT, CELL_SUB_BITS);
	form_by_right(f, FORM_SHR, true, false);
	form_two_const(f, FORM_SHL, false, FORM_RIGHT, CELL_SUB_BITS);
	form_two(f, FORM_ADD, true, FORM_RIGHT, FORM_VALUE);
}

/* Counts the hit in its value's bucket (see CELL_SUB_BITS), or in `count`. */
static void count_value(struct form *f, const struct stub_plan *p, bool shared)
{
	const struct arch_gather *g = &p->at->action->gather;
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

/* ---- The address of the cell -------------------------------------------------------- */

static const struct sequence *own_cell(struct form *f, struct stub_plan *p, int slow)
{
	const struct arch_action *action = p->at->action;
	const struct sequence *q = form_sequence_begin(f, p, FORM_SET, slow);

	form_cpu_set(
		f, p, FORM_SET, action->slots_shift, action->slots + action->gather.cell, slow);
	form_two(f, FORM_ADD, true, FORM_SET, FORM_VALUE);
	if (action->gather.key_count)
		form_lookup(f, p, q->retry);
	return q;
}

static void shared_cell(struct form *f, const struct stub_plan *p)
{
	form_shared_set(f, p, FORM_SET, p->at->action->gather.cell);
	if (p->at->action->gather.key_count)
		form_lookup(f, p, -1);
}

/* ---- The action ------------------------------------------------------------------------ */

void form_gather(struct form *f, struct stub_plan *p)
{
	const struct arch_gather *g = &p->at->action->gather;
	const struct sequence *q;

	form_prepare_stacks(f, p);
	if (g->value) {
		form_expr(f, p, g->value, p->at->lost);
		form_store(f, FORM_VALUE, form_temp(p->at->value_temp));
	} else if (p->at->action->flights.table) {
		form_end(f, p);
	}
	if (g->key_count)
		form_key(f, p);
	if (adds_doubles(p))
		FORM(f, .op = FORM_KEEP_VECTOR, .value = (uint64_t)p->at->double_temp);
	if (!p->stub->thread.has_rseq) {
		form_jump(f, p->at->slow);
		return;
	}
	if (has_values(p)) {
		q = own_cell(f, p, p->at->slow);
		gather_values(f, p, false);
		form_sequence_end(f, p, q);
	}
	q = own_cell(f, p, p->at->slow_update);
	count_value(f, p, false);
	form_sequence_end(f, p, q);
}

void form_gather_slow(struct form *f, const struct stub_plan *p)
{
	form_place(f, p->at->slow);
	if (has_values(p)) {
		form_sequence_leave(f, p);
		if (adds_doubles(p))
			FORM(f, .op = FORM_RESTORE_VECTOR, .value = (uint64_t)p->at->double_temp);
		shared_cell(f, p);
		gather_values(f, p, true);
	}
	form_place(f, p->at->slow_update);
	form_sequence_leave(f, p);
	shared_cell(f, p);
	count_value(f, p, true);
	form_jump(f, p->at->done);
}

/* ==== Sampling ================================================================================ */

/*
 * Sampling: one hit in N, counted on each CPU, and at most a given number per window of time, in
 * the whole session. One word holds the window's number and its hits, so that both change at once.
 */

/* FORM_SCRATCH = the hits on this CPU since the last sampled one; 0: sample this one. */
static void form_every(struct form *f, struct stub_plan *p)
{
	const struct arch_action *action = p->at->action;
	struct form_mem seen =
		form_indexed(FORM_VALUE, FORM_RIGHT, offsetof(struct probe_slot, seen));
	const struct sequence *q;
	int keep = form_label(f);

	q = form_sequence_begin(f, p, FORM_RIGHT, p->slow_sample);
	form_cpu_set(f, p, FORM_RIGHT, action->slots_shift, action->slots + action->slot_offset,
		p->slow_sample);
	form_load(f, FORM_SCRATCH, seen, sizeof(uint64_t), false);
	form_two_const(f, FORM_ADD, true, FORM_SCRATCH, 1);
	form_jump_if_const(f, true, FORM_SCRATCH, FORM_BELOW, (int32_t)p->stub->every, keep);
	form_const(f, FORM_SCRATCH, 0);
	form_place(f, keep);
	form_store(f, FORM_SCRATCH, seen);
	form_sequence_end(f, p, q);
}

/*
 * Counts the hit in its window. FORM_SET = the window's number << 32, FORM_VALUE = the old word,
 * FORM_SCRATCH = the new one. Jumps to the exit if the window has had all its hits.
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
	/* If the count is more than any rate, the word belongs to another window. */
	form_jump_if_const(f, true, FORM_RIGHT, FORM_NOT_ABOVE, INT32_MAX, same);
	form_compute(f, FORM_SCRATCH, form_at(FORM_SET, 1));
	form_jump(f, change);
	form_place(f, same);
	form_jump_if_const(f, false, FORM_VALUE, FORM_NOT_BELOW, (int32_t)s->rate, p->out);
	form_compute(f, FORM_SCRATCH, form_at(FORM_VALUE, 1));
	form_place(f, change);
	form_cas(f, word, sizeof(uint64_t), FORM_SCRATCH, FORM_NE, again);
}

/* Jumps to the exit if the hit is not sampled. */
static void form_sample(struct form *f, struct stub_plan *p)
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

/* Without rseq: counts modulo N in the shared set. */
static void form_sample_slow(struct form *f, const struct stub_plan *p)
{
	if (p->stub->every <= 1)
		return;
	form_place(f, p->slow_sample);
	form_sequence_leave(f, p);
	form_shared_set(
		f, p, FORM_RIGHT, p->at->action->slot_offset + offsetof(struct probe_slot, seen));
	form_const(f, FORM_VALUE, 1);
	form_memory(f, FORM_FETCH_ADD, FORM_VALUE, form_at(FORM_RIGHT, 0), sizeof(uint64_t));
	form_two_const(f, FORM_ADD, true, FORM_VALUE, 1);
	form_const(f, FORM_RIGHT, p->stub->every);
	form_by_right(f, FORM_MOD, true, false);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, p->sampled);
	form_jump(f, p->out);
}

/* ==== Calls of functions of the program ======================================================= */

/*
 * Calls a function of the program with the captures (arch_stub.call). Calls and returns are
 * counted: in between, this stub and those behind must not be unmapped
 * (libprobe/patch/uninstall.c).
 */

static void form_call_function(struct form *f, struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	form_cpu_inc(f, p, offsetof(struct probe_slot, hits), p->at->slow);
	form_place(f, p->at->entered);
	/* The function's frame: words, mask, pointers (see arch_stub.call). */
	for (int i = 0; i < s->recorded; i++) {
		form_captured_word(f, p, i);
		form_store(f, FORM_VALUE, form_temp(p->at->call_temp + i));
	}
	if (p->checked) {
		form_load(f, FORM_VALUE, form_temp(p->mask_temp), sizeof(uint32_t), false);
		form_store(f, FORM_VALUE, form_temp(p->at->call_temp + s->recorded));
	} else {
		form_store_const(
			f, form_temp(p->at->call_temp + s->recorded), sizeof(uint64_t), -1);
	}
	for (int i = 0; i < s->recorded; i++) {
		if (!arch_capture_has_bytes(&s->captures[i]))
			continue;
		form_load(f, FORM_VALUE, form_temp(p->temp[i]), sizeof(uint64_t), false);
		form_store(f, FORM_VALUE, form_temp(p->at->call_temp + s->recorded + 1 + i));
	}
	p->isa->call(f, p);
	form_cpu_inc(f, p, offsetof(struct probe_slot, seen), p->at->slow_leave);
}

/* Counts in the shared set at the place of a thread without rseq, then continues at `next`. */
static void form_slow_inc(
	struct form *f, const struct stub_plan *p, int place, size_t field, int next)
{
	form_place(f, place);
	form_sequence_leave(f, p);
	form_shared_inc(f, p, field);
	form_jump(f, next);
}

/* ==== The whole stub ========================================================================== */

/* ---- Before the action --------------------------------------------------------- */

static bool counts_losses(const struct arch_action *action)
{
	return action->kind == ARCH_ACTION_RECORD || action->kind == ARCH_ACTION_GATHER ||
	       action->kind == ARCH_ACTION_BEGIN;
}

/*
 * If VALUE is negative, all actions lose the hit: the stub has not asked the kernel, because a
 * system call would have ended a processor mode of the thread.
 */
static void form_if_answered(struct form *f, const struct stub_plan *p)
{
	if (p->stub->thread.has_modes)
		form_jump_if_const(f, false, FORM_VALUE, FORM_LT, 0, p->unanswered);
}

static void form_id(struct form *f, const struct stub_plan *p, enum form_call call, int temp)
{
	FORM(f, .op = FORM_KERNEL, .value = call);
	form_if_answered(f, p);
	form_store(f, FORM_VALUE, form_temp(temp));
}

/* The code before the action: first the filter, with the few registers that it needs. */
static void form_preparations(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	uint32_t first = s->filter && !p->is_early ? expr_captures(s->filter) : 0;

	if (p->kernel_tid)
		form_id(f, p, FORM_CALL_GETTID, p->tid_temp);
	if (p->kernel_pid)
		form_id(f, p, FORM_CALL_GETPID, p->pid_temp);
	if (p->kernel_cpu) {
		/* getcpu(2) writes the CPU's number to cpu_temp. */
		form_store_const(f, form_temp(p->cpu_temp), sizeof(uint64_t), 0);
		form_compute(f, FORM_SET, form_temp(p->cpu_temp));
		form_const(f, FORM_FROM, 0);
		form_const(f, FORM_SCRATCH, 0);
		FORM(f, .op = FORM_KERNEL, .value = FORM_CALL_GETCPU);
		form_if_answered(f, p);
	}
	if (action_is_tail(p->at->action))
		form_tail(f, p);
	form_prepare_none(f, p);
	form_prepare(f, p, first);
	if (s->filter && !p->is_early)
		form_filter(f, p, s->filter, p->out);
	form_prepare(f, p, ~first);
}

/* ---- Whole stubs ------------------------------------------------------------------- */

static void form_action(struct form *f, struct stub_plan *p)
{
	switch (p->at->action->kind) {
	case ARCH_ACTION_COUNT:
		form_cpu_inc(f, p, offsetof(struct probe_slot, hits), p->at->slow);
		break;
	case ARCH_ACTION_GATE:
		form_gate(f, p);
		break;
	case ARCH_ACTION_RECORD:
		if (action_has_spans(p->at->action))
			form_end(f, p);
		form_record(f, p);
		break;
	case ARCH_ACTION_GATHER:
		form_gather(f, p);
		break;
	case ARCH_ACTION_BEGIN:
		form_begin(f, p);
		break;
	case ARCH_ACTION_TAIL_ENTRY:
	case ARCH_ACTION_TAIL_JUMP:
	case ARCH_ACTION_TAIL_RETURN:
		break; /* form_preparations() */
	default:       /* ARCH_ACTION_CALL */
		form_call_function(f, p);
		break;
	}
	form_place(f, p->at->done);
}

/* Code for hits that are only counted, as lost or unmatched. */
static void form_failures(struct form *f, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	form_place(f, p->at->unmatched);
	if (action_is_tail(p->at->action)) {
		form_jump(f, p->out);
	} else if (p->at->action->flights.table) {
		form_sequence_leave(f, p);
		form_shared_inc(f, p, offsetof(struct probe_slot, unmatched));
		form_jump(f, p->at->done);
	}
	form_place(f, p->at->lost);
	if (!counts_losses(p->at->action))
		return;
	form_shared_inc(f, p, offsetof(struct probe_slot, lost));
	if (s->on_until_full && p->at->action->kind != ARCH_ACTION_GATHER) {
		form_address(f, FORM_VALUE, s->on);
		form_store_const(f, form_at(FORM_VALUE, sizeof(uint32_t)), sizeof(uint32_t), 1);
	}
	form_jump(f, p->at->done);
}

/*
 * Ends a hit in a processor mode that forbids system calls (form_if_answered()). Actions that only
 * count do without the kernel's answer; the others lose the hit.
 */
static void form_unanswered(struct form *f, struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	bool takes_all = !s->filter && s->every <= 1 && !s->rate;

	if (s->action_count == 1 || !s->thread.has_modes)
		return;
	form_place(f, p->unanswered);
	for (p->at = p->actions; p->at < p->actions + s->action_count; p->at++) {
		if (counts_losses(p->at->action))
			form_shared_inc(f, p, offsetof(struct probe_slot, lost));
		else if (takes_all && !action_is_tail(p->at->action))
			form_shared_inc(f, p, offsetof(struct probe_slot, hits));
	}
	form_jump(f, p->out);
}

static void form_action_slow(struct form *f, struct stub_plan *p)
{
	const struct action_plan *at = p->at;
	bool is_call = at->action->kind == ARCH_ACTION_CALL;

	if (at->action->kind == ARCH_ACTION_RECORD)
		form_record_slow(f, p);
	else if (at->action->kind == ARCH_ACTION_GATHER)
		form_gather_slow(f, p);
	else if (p->stub->thread.has_rseq && (is_call || at->action->kind == ARCH_ACTION_COUNT))
		form_slow_inc(f, p, at->slow, offsetof(struct probe_slot, hits),
			is_call ? at->entered : at->done);
	if (p->stub->thread.has_rseq && is_call)
		form_slow_inc(f, p, at->slow_leave, offsetof(struct probe_slot, seen), at->done);
	if (p->at == p->actions)
		form_sample_slow(f, p);
	form_flights_slow(f, p);
	form_failures(f, p);
}

static void form_slow_parts(struct form *f, struct stub_plan *p)
{
	bool hashes = false, norms = false;

	for (p->at = p->actions; p->at < p->actions + p->stub->action_count; p->at++) {
		const struct arch_action *action = p->at->action;

		form_action_slow(f, p);
		hashes |= action->gather.key_count || action->flights.text ||
			  action->flights.same_count;
		norms |= action_has_norm(action);
	}
	form_unanswered(f, p);
	if (p->isa->late)
		p->isa->late(f, p);
	form_sequence_aborts(f, p);
	form_capture_subroutines(f, p);
	if (hashes)
		form_hash_subroutine(f, p);
	if (p->stub->thread.no_counter)
		p->isa->time_subroutine(f, p);
	form_sequence_descriptors(f, p);
	if (norms)
		form_norm_tables(f, p);
}

static void make_action_labels(struct form *f, struct action_plan *a)
{
	int *const labels[] = {&a->done, &a->slow, &a->full, &a->lost, &a->unmatched,
		&a->slow_update, &a->gone, &a->slow_flight, &a->timed, &a->entered, &a->slow_leave,
		&a->number, &a->numbered, &a->slow_again, &a->wait_first, &a->wait, &a->wait_over,
		&a->wait_done, &a->wait_lost};

	for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++)
		*labels[i] = form_label(f);
}

static void make_labels(struct form *f, struct stub_plan *p)
{
	int *const labels[] = {&p->check, &p->check_stack, &p->measure, &p->extent, &p->hash,
		&p->norm, &p->time, &p->out, &p->small_out, &p->slow_sample, &p->sampled,
		&p->unanswered};

	for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++)
		*labels[i] = form_label(f);
	for (int i = 0; i < p->stub->action_count; i++)
		make_action_labels(f, &p->actions[i]);
	if (p->stub->action_count == 1)
		p->unanswered = counts_losses(&p->stub->actions[0]) ? p->actions[0].lost : p->out;
	p->sequence_count = 0;
}

void form_stub(struct form *f, struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	make_labels(f, p);
	p->isa->enter(f, p);
	form_jump_if_word(f, FORM_RIGHT, p->stub->guard, FORM_EQ, p->small_out);
	if (p->stub->on)
		form_jump_if_word(f, FORM_RIGHT, p->stub->on, FORM_EQ, p->small_out);
	if (p->stub->off)
		form_jump_if_word(f, FORM_RIGHT, p->stub->off, FORM_NE, p->small_out);
	if (action_is_tail(&s->actions[0]))
		form_jump_if_word(
			f, FORM_RIGHT, s->actions[0].flights.marks, FORM_EQ, p->small_out);
	if (p->is_early)
		form_filter(f, p, s->filter, p->small_out);
	p->isa->grow(f, p);
	/*
	 * Read a word in each page of a frame larger than a page, from the highest page on, so that
	 * an overflow hits the guard page and does not skip it to change other memory.
	 */
	for (int at = p->frame.size - PAGE_BYTES; at > 0; at -= PAGE_BYTES)
		form_load(f, FORM_VALUE, form_at(FORM_FRAME, at & -8), sizeof(uint64_t), false);
	for (p->at = p->actions; p->at < p->actions + s->action_count; p->at++)
		form_hold_none(f, p);
	p->at = p->actions;
	form_preparations(f, p);
	form_sample(f, p);
	for (; p->at < p->actions + s->action_count; p->at++)
		form_action(f, p);
	form_place(f, p->out);
	for (p->at = p->actions; p->at < p->actions + s->action_count; p->at++)
		form_release(f, p);
	p->isa->shrink(f, p);
	form_place(f, p->small_out);
	p->isa->leave(f, p);
	form_slow_parts(f, p);
}

enum arch_stub_status arch_make_stub(const struct arch *arch, const struct arch_stub *stub,
	uint64_t at, uint8_t *out, size_t room, struct arch_stub_code *ret)
{
	struct stub_plan p;

	if (!plan_stub(&p, stub, arch->stubs))
		return ARCH_STUB_UNSUPPORTED;
	*ret = (struct arch_stub_code){
		.asks = p.strings || p.extents || p.checked || p.stacks || p.kernel_tid ||
			p.kernel_pid,
		.asks_name = p.names,
		.asks_cpu = p.kernel_cpu,
		.asks_stack = p.stacks,
	};
	return arch->stubs->write(&p, at, out, room, ret);
}
