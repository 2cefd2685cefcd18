/* SPDX-License-Identifier: MIT */
/*
 * Stubs: the code that runs in the target at a hit.
 *
 * A jump at a site enters the stub in the middle of a function of the program, and the stub
 * must leave no trace there:
 *
 *   lea -128(%rsp),%rsp       step over the red zone (System V ABI, 3.2.2)
 *   push %rax
 *   [lahf; seto %al; push %rax    flags: popf costs 6 ns more; not if the code after the
 *                                 site overwrites them: decode/flags.c]
 *   [clear other flags  alignment.c]
 *   [guard == 0: a forked child that does not count: leave]
 *   [disabled: leave]
 *   [a filter that needs no more than this: false: leave]
 *   push ...                  the other registers
 *   [pointers: check that they are readable; measure the strings]
 *   [a filter that needs them]
 *   [sampling                 sample.c]
 *   the action                record.c, gather.c, flights.c, gate.c, call.c
 *   out:
 *   pop ...
 *   small_out:
 *   pop ...; [pop %rax; add $0x7f,%al; sahf]; pop %rax; lea 128(%rsp),%rsp
 *   jmp next
 *
 *   the slow parts of the action
 *   data of restartable sequences      sequence.c
 *   subroutines               readable.c, strings.c, table.c
 *
 * Sources: Intel SDM volume 2, LAHF, SETcc.
 */
#include <assert.h>

#include "arch/x86/stub/stub.h"
#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/x86/emit.h"
#include "arch/x86/stub/plan.h"

enum {
	RED_ZONE = 128,
	SYS_GETPID = 39,
	SYS_GETTID = 186,
	RING_BYTES_MAX = 1 << 30, /* as an immediate operand */
	TABLE_BYTES_MAX = 1 << 30
};

static const struct stub_isa x86_64_isa = {
	.stack_pointer = RSP,
	.frame_pointer = RBP,
	.first_argument = RDI,
	.has_cpu_hint = true,
	.registers = 16,
	.vectors = 16, /* more need AVX-512 */
	.red_zone = RED_ZONE,
};

/* ---- Frame -------------------------------------------------------------- */

/* A smaller frame (fewer registers, no temporaries) is a prefix of a larger one. */
static void frame_layout(struct frame *f, int skipped, int flags, int registers, int temps)
{
	static const int regs[] = {RCX, RDX, RDI, RSI, R8, R9, R10, R11};

	f->order_count = registers;
	f->temps = temps;
	for (int i = 0; i < FRAME_REGISTERS; i++)
		f->saved[i] = -1;
	for (int i = 0; i < f->order_count; i++)
		f->order[i] = regs[i];
	f->size = skipped + 8 * (1 + flags + f->order_count + f->temps);
	f->saved[RAX] = 8 * (flags + f->order_count + f->temps);
	for (int i = 0; i < f->order_count; i++)
		f->saved[f->order[i]] = 8 * (f->temps + f->order_count - 1 - i);
}

/* The red zone, and behind it the words of a wait: so nothing more has to be done for them. */
static int skipped_bytes(const struct stub_plan *p)
{
	return RED_ZONE + (p->stub->room ? 8 * WAIT_WORDS : 0);
}

static void emit_enter(struct emit *e, const struct stub_plan *p)
{
	const struct frame *small = &p->small;

	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -skipped_bytes(p)));
	emit_push(e, RAX);
	if (p->keeps_flags) {
		emit_bytes(e, "\x9f\x0f\x90\xc0", 4); /* lahf; seto %al */
		emit_push(e, RAX);
	}
	emit_alignment_enter(e, p);
	for (int i = 0; i < small->order_count; i++)
		emit_push(e, small->order[i]);
}

static void emit_grow(struct emit *e, const struct frame *small, const struct frame *f)
{
	for (int i = small->order_count; i < f->order_count; i++)
		emit_push(e, f->order[i]);
	if (f->temps)
		emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -8 * f->temps));
}

static void emit_shrink(struct emit *e, const struct frame *small, const struct frame *f)
{
	if (f->temps)
		emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, 8 * f->temps));
	for (int i = f->order_count - 1; i >= small->order_count; i--)
		emit_pop(e, f->order[i]);
}

static void emit_leave(struct emit *e, const struct stub_plan *p)
{
	for (int i = p->small.order_count - 1; i >= 0; i--)
		emit_pop(e, p->small.order[i]);
	emit_alignment_leave(e, p);
	if (p->keeps_flags) {
		emit_pop(e, RAX);
		emit_bytes(e, "\x04\x7f\x9e", 3); /* add $0x7f,%al (sets OF as it was); sahf */
	}
	emit_pop(e, RAX);
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, skipped_bytes(p)));
}

/* ---- Planning -------------------------------------------------------------- */

static int take_temps(struct stub_plan *p, int count)
{
	int first = p->frame.temps;

	p->frame.temps += count;
	return first;
}

enum { EXPRESSIONS_MAX = 4 + ARCH_KEYS_MAX };

/* All expressions of a stub. */
static int expressions(const struct arch_stub *s, const struct arch_expr *ret[EXPRESSIONS_MAX])
{
	int count = 0;

	ret[count++] = s->filter;
	ret[count++] = s->gather.value;
	ret[count++] = s->flights.match;
	ret[count++] = s->flights.filter;
	for (int k = 0; k < s->gather.key_count; k++)
		ret[count++] = s->gather.keys[k].number;
	return count;
}

/* Does it ask for what is known once an end has found its begin? */
static bool asks_of_pair(const struct arch_stub *s, const struct arch_expr *expr)
{
	uint32_t used = expr_captures(expr);

	for (int i = 0; i < s->capture_count; i++)
		if (used >> i & 1 && s->captures[i].begun)
			return true;
	return expr_has(expr, ARCH_EXPR_DURATION);
}

static bool may_ask_of_pair(const struct arch_stub *s, const struct arch_expr *expr)
{
	return s->flights.table && s->kind != ARCH_STUB_BEGIN && expr != s->filter &&
	       expr != s->gather.value && expr != s->flights.match;
}

static bool plan_expressions(struct stub_plan *p)
{
	const struct arch_expr *all[EXPRESSIONS_MAX];
	int count = expressions(p->stub, all), temps = 0;

	for (int i = 0; i < count; i++) {
		if (!all[i])
			continue;
		if (!expr_is_possible(p->stub, all[i]))
			return false;
		if (asks_of_pair(p->stub, all[i]) && !may_ask_of_pair(p->stub, all[i]))
			return false;
		p->has_duration |= expr_has(all[i], ARCH_EXPR_DURATION);
		if (expr_temps(all[i]) > temps)
			temps = expr_temps(all[i]);
		p->kernel_tid |= expr_has(all[i], ARCH_EXPR_TID) && !p->stub->thread.has_tid;
		p->kernel_pid |= expr_has(all[i], ARCH_EXPR_PID) && !p->stub->pid;
	}
	p->expr_temp = take_temps(p, temps);
	return true;
}

/* Only an end that has found its begin knows what that has kept. */
static bool may_be_begun(const struct arch_stub *s, int capture)
{
	return stub_keeps_begins(s) && s->kind != ARCH_STUB_BEGIN && capture >= s->recorded;
}

/* Only these actions prepare what they take of the stack. */
static bool may_take_stack(const struct arch_stub *s)
{
	return s->kind == ARCH_STUB_RECORD || s->kind == ARCH_STUB_GATHER;
}

/* Pairs come first, then values read through pointers, and copies of registers. */
static bool plan_captures(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	for (int i = 0; i < s->capture_count; i++) {
		const struct arch_capture *c = &s->captures[i];

		if (!capture_is_possible(c) || (c->begun && !may_be_begun(s, i)) ||
			(c->stack && !may_take_stack(s)))
			return false;
		p->checked |= (uint32_t)x86_64_capture_checked(c) << i;
		p->records_mask |= i < s->recorded && x86_64_capture_checked(c);
		p->strings |= c->is_string && !c->begun;
		p->extents |= c->has_length && !c->is_string;
		p->stacks |= c->stack != ARCH_STACK_NOT;
		p->names |= c->is_comm;
		if (!arch_capture_has_bytes(c))
			continue;
		p->temp[i] = take_temps(p, 2);
		p->pairs++;
		if (i < s->recorded) {
			p->recorded_pairs++;
			p->max_bytes += capture_bytes(c);
		}
	}
	for (int i = 0; i < s->capture_count; i++) {
		const struct arch_capture *c = &s->captures[i];

		if (!arch_capture_has_bytes(c) && x86_64_capture_checked(c))
			p->temp[i] = take_temps(p, 1);
		else
			p->spill[i] = take_temps(p, capture_spill_temps(c));
	}
	return true;
}

/* What a record takes, or what is kept of a begin. */
static void plan_record_body(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	p->fixed_bytes = sizeof(struct ring_record);
	for (int i = 0; i < s->recorded; i++) {
		p->record_at[i] = (int32_t)p->fixed_bytes;
		p->fixed_bytes += arch_capture_fixed(&s->captures[i]);
	}
	p->record_mask_at = (int32_t)p->fixed_bytes;
	if (p->records_mask)
		p->fixed_bytes += ring_mask_bytes(s->recorded);
	p->record_align = s->overwrite ? RING_BACK_BYTES : RING_ALIGN;
	p->max_bytes = (uint32_t)ring_padded(p->max_bytes + p->fixed_bytes, p->record_align);
	if (!p->recorded_pairs)
		p->fixed_bytes = p->max_bytes;
	p->kernel_tid |= !s->thread.has_tid && s->may_call_kernel;
}

static bool plan_record(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	uint32_t room = RING_RECORD_MAX - (s->overwrite ? RING_BACK_BYTES : 0);

	plan_record_body(p);
	/* An end holds its begin: others might have to wait for that. */
	if (s->room && (s->overwrite || stub_has_spans(s)))
		return false;
	if (stub_has_spans(s)) /* and the duration */
		p->max_bytes += 8 + s->flights.keep - s->flights.record;
	return p->max_bytes <= room && p->max_bytes <= s->ring_bytes &&
	       s->ring_bytes <= RING_BYTES_MAX && !(s->ring_bytes & (s->ring_bytes - 1));
}

static bool is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

static bool plan_gather(struct stub_plan *p)
{
	const struct arch_gather *g = &p->stub->gather;

	p->value_temp = take_temps(p, 1);
	p->time_temp = take_temps(p, 1);
	if (g->is_double && g->parts & ARCH_GATHER_SUM)
		p->double_temp = take_temps(p, FORM_VECTOR_TEMPS + 1);
	if (!g->key_count)
		return true;
	p->tag_temp = take_temps(p, 1);
	p->tries_temp = take_temps(p, 1);
	if (g->key_count > ARCH_KEYS_MAX || !is_power_of_two(g->entries) ||
		g->entries > TABLE_BYTES_MAX || g->entry_bytes > TABLE_BYTES_MAX)
		return false;
	for (int k = 0; k < g->key_count; k++) {
		uint8_t string = g->keys[k].string;

		if (!g->keys[k].number &&
			(string >= p->stub->capture_count ||
				!arch_capture_has_bytes(&p->stub->captures[string])))
			return false;
		p->key_temp[k] = g->keys[k].number ? take_temps(p, 1) : p->temp[string] + 1;
	}
	return true;
}

static bool plan_begin(struct stub_plan *p)
{
	const struct arch_flights *f = &p->stub->flights;

	p->pass_temp = take_temps(p, 1);
	p->last_temp = take_temps(p, 1);
	if (!f->record)
		return true;
	plan_record_body(p);
	return p->max_bytes <= f->keep - f->record;
}

/* What an end needs of its begin. */
static bool plan_begun(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	p->kept_temp = take_temps(p, 1);
	if (!s->flights.record)
		return s->kind == ARCH_STUB_GATHER;
	p->has_duration = true;
	p->value_temp = take_temps(p, 1);
	p->time_temp = take_temps(p, 1);
	p->begin_temp = take_temps(p, 1);
	return s->kind == ARCH_STUB_RECORD && !s->overwrite;
}

static bool plan_keeping(struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (!stub_may_keep_begins(s))
		return false;
	p->entry_temp = take_temps(p, 1);
	return s->kind == ARCH_STUB_BEGIN ? plan_begin(p) : plan_begun(p);
}

static bool plan_flights(struct stub_plan *p)
{
	const struct arch_flights *f = &p->stub->flights;

	p->kernel_tid |= !f->match && !p->stub->thread.has_tp;
	if (f->process)
		p->process_temp = take_temps(p, 1);
	/* By key, an entry is less than the table away from its place: emit_free(). */
	return is_power_of_two(f->entries) && (!f->match || f->entries >= FLIGHT_PROBES_MAX) &&
	       is_power_of_two(f->depth) && f->depth < 1 << 20 &&
	       (f->keep ? plan_keeping(p) : p->stub->kind != ARCH_STUB_RECORD);
}

/* Whether the filter can run before anything else is saved or prepared. */
static bool is_early(const struct stub_plan *p)
{
	const struct arch_expr *filter = p->stub->filter;
	uint32_t used = expr_captures(filter);

	if (!filter || expr_temps(filter) || p->kernel_tid || p->kernel_pid)
		return false;
	for (int i = 0; i < p->stub->capture_count; i++)
		if (used >> i & 1 && (arch_capture_has_bytes(&p->stub->captures[i]) ||
					     x86_64_capture_checked(&p->stub->captures[i])))
			return false;
	return true;
}

/* How many registers the whole stub needs; see frame_layout(). */
static int registers_of(const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;

	if (s->kind == ARCH_STUB_COUNT && !p->frame.temps && !s->rate)
		return s->filter || s->every > 1 ? 2 : 1;
	return s->kind == ARCH_STUB_RECORD && !p->frame.temps && !s->rate && !s->overwrite ? 3 : 8;
}

static bool plan_stub(struct stub_plan *p, const struct arch_stub *s)
{
	int registers, flags;

	*p = (struct stub_plan){.stub = s, .isa = &x86_64_isa};
	if (s->capture_count > ARCH_ARGS_MAX || s->recorded > s->capture_count ||
		s->every > INT32_MAX || s->rate > INT32_MAX)
		return false;
	if (s->thread.no_counter && (s->thread.has_rseq || !s->may_ask_time))
		return false;
	if (!plan_captures(p) || !plan_expressions(p) || (p->names && !s->may_ask_name))
		return false;
	if (s->kind == ARCH_STUB_RECORD && !plan_record(p))
		return false;
	if (s->kind == ARCH_STUB_GATHER && !plan_gather(p))
		return false;
	if (s->flights.table && !plan_flights(p))
		return false;
	if (p->has_duration)
		p->duration_temp = take_temps(p, 1);
	if (s->kind == ARCH_STUB_GATE)
		take_temps(p, GATE_TEMPS);
	if (s->kind == ARCH_STUB_CALL)
		p->call_temp = take_temps(p, call_temps(s));
	if ((p->kernel_tid || p->kernel_pid) && !s->may_call_kernel)
		return false;
	if (p->checked)
		p->mask_temp = take_temps(p, 1);
	plan_checks(p);
	if (p->keeps_pages)
		p->pages_temp = take_temps(p, KEPT_PAGES);
	if (p->kernel_tid)
		p->tid_temp = take_temps(p, 1);
	if (p->kernel_pid)
		p->pid_temp = take_temps(p, 1);
	p->is_early = is_early(p);
	registers = registers_of(p);
	p->is_aligned = stub_is_aligned(p);
	/* Unwinders know where a function's frame has the registers (call.c). */
	p->keeps_flags = !s->frees_flags || s->kind == ARCH_STUB_CALL;
	flags = p->keeps_flags + !p->is_aligned;
	frame_layout(&p->frame, skipped_bytes(p), flags, registers, p->frame.temps);
	frame_layout(&p->small, skipped_bytes(p), flags, registers < 2 ? registers : 2, 0);
	p->wait_temp = (p->frame.size - skipped_bytes(p)) / 8;
	assert(s->kind != ARCH_STUB_GATE || p->frame.saved[RDI] == GATE_ARGUMENT);
	return true;
}

/* ---- What comes before the action ---------------------------------------------- */

static void emit_id(struct emit *e, uint32_t call, int temp)
{
	emit_const(e, RAX, call);
	emit_bytes(e, "\x0f\x05", 2); /* syscall */
	emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(temp));
}

static void emit_prepare(struct emit *e, const struct stub_plan *p, uint32_t captures)
{
	for (int i = 0; i < p->stub->capture_count; i++)
		if (captures >> i & 1)
			emit_prepare_capture(e, p, i);
}

static uint32_t all_captures(const struct stub_plan *p)
{
	return (uint32_t)((UINT64_C(1) << p->stub->capture_count) - 1);
}

/* None is prepared: all that are checked could be read so far, and no page is known to be there. */
static void emit_prepare_none(struct emit *e, const struct stub_plan *p)
{
	if (p->checked)
		emit_store_imm(e, false, temp_at(p->mask_temp), (int32_t)all_captures(p));
	emit_checks_begin(e, p);
}

/* What must be known before the action; first what the filter needs. */
static void emit_preparations(struct emit *e, const struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	uint32_t first = s->filter && !p->is_early ? expr_captures(s->filter) : 0;

	if (p->kernel_tid)
		emit_id(e, SYS_GETTID, p->tid_temp);
	if (p->kernel_pid)
		emit_id(e, SYS_GETPID, p->pid_temp);
	emit_prepare_none(e, p);
	emit_prepare(e, p, first);
	if (s->filter && !p->is_early)
		emit_filter(e, p, &p->frame, s->filter, p->out);
	emit_prepare(e, p, all_captures(p) & ~first);
}

void emit_prepare_again(struct emit *e, const struct stub_plan *p)
{
	emit_prepare_none(e, p);
	emit_prepare(e, p, all_captures(p));
	emit_prepare_stacks(e, p);
}

/* ---- Counting -------------------------------------------------------------------- */

static void emit_count(struct emit *e, struct stub_plan *p)
{
	emit_cpu_inc(e, p, offsetof(struct probe_slot, hits), p->slow);
}

static void emit_count_slow(struct emit *e, const struct stub_plan *p)
{
	if (!p->stub->thread.has_rseq)
		return;
	emit_place(e, p->slow);
	emit_sequence_leave(e, p);
	emit_shared_inc(e, p, offsetof(struct probe_slot, hits));
	emit_jump_label(e, -1, p->out);
}

/* ---- Whole stubs ------------------------------------------------------------------- */

static void emit_action(struct emit *e, struct stub_plan *p)
{
	switch (p->stub->kind) {
	case ARCH_STUB_COUNT:
		emit_count(e, p);
		break;
	case ARCH_STUB_GATE:
		emit_gate(e, p);
		break;
	case ARCH_STUB_RECORD:
		emit_record(e, p);
		break;
	case ARCH_STUB_GATHER:
		emit_gather(e, p);
		break;
	case ARCH_STUB_BEGIN:
		emit_begin(e, p);
		break;
	case ARCH_STUB_CALL:
		emit_call(e, p);
		break;
	}
}

/* Hits that are only counted as lost or unmatched. */
static void emit_failures(struct emit *e, const struct stub_plan *p)
{
	emit_place(e, p->unmatched);
	if (p->stub->flights.table) {
		emit_sequence_leave(e, p);
		emit_shared_inc(e, p, offsetof(struct probe_slot, unmatched));
		emit_jump_label(e, -1, p->out);
	}
	emit_place(e, p->lost);
	if (p->stub->kind != ARCH_STUB_COUNT && p->stub->kind != ARCH_STUB_GATE &&
		p->stub->kind != ARCH_STUB_CALL) {
		emit_shared_inc(e, p, offsetof(struct probe_slot, lost));
		if (p->stub->on_until_full) {
			emit_lea_to(e, RAX, p->stub->on);
			emit_store_imm(e, false, mem_at(RAX, 0), 0);
		}
		emit_jump_label(e, -1, p->out);
	}
}

static void emit_slow_parts(struct emit *e, struct stub_plan *p)
{
	switch (p->stub->kind) {
	case ARCH_STUB_COUNT:
		emit_count_slow(e, p);
		break;
	case ARCH_STUB_GATE:
		break;
	case ARCH_STUB_RECORD:
		emit_record_slow(e, p);
		break;
	case ARCH_STUB_GATHER:
		emit_gather_slow(e, p);
		break;
	case ARCH_STUB_BEGIN: /* emit_flights_slow() */
		break;
	case ARCH_STUB_CALL:
		emit_call_slow(e, p);
		break;
	}
	emit_sample_slow(e, p);
	emit_flights_slow(e, p);
	emit_failures(e, p);
	emit_alignment_slow(e, p);
	emit_sequence_aborts(e, p);
	emit_capture_subroutines(e, p);
	if (p->stub->gather.key_count)
		emit_hash_subroutine(e, p);
	emit_time_subroutine(e, p);
	emit_sequence_descriptors(e, p);
}

static void make_labels(struct emit *e, struct stub_plan *p)
{
	int *const labels[] = {&p->check, &p->measure, &p->extent, &p->hash, &p->time, &p->out,
		&p->small_out, &p->slow, &p->full, &p->lost, &p->unmatched, &p->slow_sample,
		&p->sampled, &p->slow_update, &p->gone, &p->slow_flight, &p->timed, &p->entered,
		&p->slow_leave, &p->clear_check, &p->check_cleared, &p->restore_check,
		&p->check_restored, &p->number, &p->numbered, &p->slow_again, &p->wait_first,
		&p->wait, &p->wait_over, &p->wait_done, &p->wait_lost};

	for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++)
		*labels[i] = emit_label(e);
	p->sequence_count = 0;
}

static void emit_switches(struct emit *e, const struct stub_plan *p)
{
	if (p->stub->on) {
		emit_test_u32(e, p->stub->on, RCX);
		emit_jump_label(e, CC_E, p->small_out);
	}
	if (p->stub->off) {
		emit_test_u32(e, p->stub->off, RCX);
		emit_jump_label(e, CC_NE, p->small_out);
	}
}

/* False if the next stub is out of reach. */
static bool emit_stub(struct emit *e, struct stub_plan *p, size_t *next_jump)
{
	const struct arch_stub *s = p->stub;
	bool reached;

	make_labels(e, p);
	emit_enter(e, p);
	emit_test_u32(e, s->guard, RCX);
	emit_jump_label(e, CC_E, p->small_out);
	emit_switches(e, p);
	if (p->is_early)
		emit_filter(e, p, &p->small, s->filter, p->small_out);
	emit_grow(e, &p->small, &p->frame);
	emit_hold_none(e, p);
	emit_preparations(e, p);
	emit_sample(e, p);
	emit_action(e, p);
	emit_place(e, p->out);
	emit_release(e, p);
	emit_shrink(e, &p->small, &p->frame);
	emit_place(e, p->small_out);
	emit_leave(e, p);
	*next_jump = e->length;
	reached = emit_jump(e, s->next);
	emit_slow_parts(e, p);
	return reached;
}

enum arch_stub_status x86_64_stub(const struct arch_stub *stub, uint64_t at, uint8_t *out,
	size_t room, struct arch_stub_code *ret)
{
	struct emit e = {.out = out, .room = room, .at = at};
	struct stub_plan p;
	bool reached = false;

	if (!plan_stub(&p, stub))
		return ARCH_STUB_UNSUPPORTED;
	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			emit_again(&e);
		reached = emit_stub(&e, &p, &ret->next_jump);
	}
	if (!emit_finish(&e))
		return ARCH_STUB_NO_ROOM;
	ret->asks = p.strings || p.extents || p.checked || p.stacks || p.kernel_tid || p.kernel_pid;
	ret->asks_name = p.names;
	ret->length = e.length;
	return reached ? ARCH_STUB_OK : ARCH_STUB_OUT_OF_REACH;
}
