/* SPDX-License-Identifier: MIT */
/*
 * The begins that an entry of the table holds (struct probe_flight): a stack of times, and next to
 * each of them what the end needs of the begin (struct probe_begun): arguments that its
 * expressions ask for, and, if it leaves a record (a span), what the begin has captured.
 *
 * The latter is a record as a ring would have it (record.c). What is kept is written where the next
 * begin belongs, and the depth publishes it. Without a sequence a signal handler may use the same
 * place before that, so it is written once more afterwards: before, in case the handler never
 * returns, and after, because the handler may have written there.
 *
 * A begin whose end never comes stays on the stack of times: the program has left it by longjmp(3),
 * as PostgreSQL leaves a query that fails. So the stack is a ring, which never fills up with these:
 * a begin takes the place of the oldest one. An end clears the time of its begin. So an end whose
 * begin has lost its place finds no time there: whatever took the place has ended before.
 *
 * An end that needs what its begin has kept holds the begin until the hit is done: it is still
 * counted, and nobody else writes there (except signal handlers that begin as much as there is room
 * for, all at once). If entries are found by key, the whole entry stays taken meanwhile.
 */
#include "arch/layout.h"
#include "arch/x86/stub/flights.h"
#include "arch/x86/stub/stub.h"

/* ---- Places ------------------------------------------------------------------------- */

/* Where the first begin is kept in an entry. */
static int32_t kept_offset(const struct stub_plan *p)
{
	return (int32_t)(sizeof(struct probe_flight) + 8 * p->stub->flights.depth);
}

static struct emit_mem time_of(int place)
{
	return (struct emit_mem){.base = RCX,
		.index = place,
		.scale = 8,
		.disp = offsetof(struct probe_flight, times)};
}

void emit_keep_entry(struct emit *e, const struct stub_plan *p)
{
	if (stub_keeps_begins(p->stub))
		emit_mem(e, true, OP_MOV_STORE, RCX, temp_at(p->entry_temp));
}

/* ---- Arguments for expressions of the end ------------------------------------------- */

/* A word in what is kept; REG_RECORD is at the record, if there is one, else at the start. */
static struct emit_mem kept_word(const struct stub_plan *p, uint32_t offset)
{
	return mem_at(REG_RECORD, (int32_t)(offset - p->stub->flights.record));
}

/* At most as many bytes as there is room for. */
static void emit_keep_string(struct emit *e, const struct stub_plan *p, const struct arch_kept *k)
{
	int temp = p->temp[k->capture], fits = emit_label(e);

	emit_mem(e, true, OP_MOV_LOAD, RAX, temp_at(temp + 1));
	emit_reg(e, false, OP_MOV_LOAD, RDX, RAX);
	emit_imm(e, false, IMM_AND, RDX, RING_STRING_LENGTH);
	emit_imm(e, false, IMM_CMP, RDX, k->bytes);
	emit_jump_label(e, CC_BE, fits);
	emit_const(e, RAX, k->bytes | UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	emit_const(e, RDX, k->bytes);
	emit_place(e, fits);
	emit_mem(e, true, OP_MOV_STORE, RAX, kept_word(p, k->offset));
	emit_mem(e, true, OP_MOV_LOAD, RSI, temp_at(temp));
	emit_mem(e, true, OP_LEA, REG_OUT, kept_word(p, k->offset + 8));
	emit_copy(e);
}

static void emit_keep_number(struct emit *e, const struct stub_plan *p, const struct arch_kept *k)
{
	const struct arch_capture *c = &p->stub->captures[k->capture];
	int written = emit_label(e);

	emit_store_imm(e, true, kept_word(p, k->offset), 0);
	if (capture_is_checked(p->isa, c)) {
		emit_mem(e, false, OP_MOV_LOAD, RAX, temp_at(p->mask_temp));
		emit_imm(e, false, IMM_AND, RAX, (int32_t)(UINT32_C(1) << k->capture));
		emit_jump_label(e, CC_NE, written);
		emit_const(e, RAX, UINT64_C(1) << RING_STRING_NULL_BIT);
		emit_mem(e, true, OP_MOV_STORE, RAX, kept_word(p, k->offset));
	}
	emit_place(e, written);
	emit_captured(e, p, &p->frame, k->capture);
	/* What is in a vector register was not extended. */
	if (c->arg.kind == ARCH_ARG_FP_REGISTER && c->arg.size == 4 && c->arg.is_signed)
		emit_reg(e, true, OP_MOVSX32, RAX, RAX);
	emit_mem(e, true, OP_MOV_STORE, RAX, kept_word(p, k->offset + 8));
}

static void emit_keep_arguments(struct emit *e, const struct stub_plan *p)
{
	const struct arch_flights *f = &p->stub->flights;

	for (int i = 0; i < f->kept_count; i++) {
		if (f->kept[i].bytes)
			emit_keep_string(e, p, &f->kept[i]);
		else
			emit_keep_number(e, p, &f->kept[i]);
	}
}

void emit_prepare_begun(struct emit *e, const struct stub_plan *p)
{
	for (int i = 0; i < p->stub->capture_count; i++) {
		const struct arch_capture *c = &p->stub->captures[i];

		if (!c->begun || !c->is_string)
			continue;
		emit_mem(e, true, OP_MOV_LOAD, RDX, temp_at(p->kept_temp));
		emit_mem(e, true, OP_MOV_LOAD, RAX, mem_at(RDX, c->begun));
		emit_mem(e, true, OP_LEA, R8, mem_at(RDX, c->begun + 8));
		emit_store_pair(e, p->temp[i], R8);
		/* The program may have overwritten it. */
		emit_imm(e, false, IMM_AND, RAX, RING_STRING_LENGTH);
		emit_imm(e, false, IMM_CMP, RAX, c->bytes_max);
		emit_jump_label(e, CC_A, p->lost);
	}
}

/* ---- Begins ------------------------------------------------------------------------- */

/*
 * Writes number %edi of what the entry at %rcx keeps, a record with no time until it is whole; %rax
 * = the time. Changes all registers but these.
 *
 * An end that copies what is kept knows by the time that nobody has written there meanwhile. So
 * each time in a place is later than the one before. The clock alone does not see to that: in a
 * virtual machine it moves in steps of up to 80 ticks, and a processor reads it ahead.
 */
static void emit_kept_record(struct emit *e, const struct stub_plan *p)
{
	struct emit_mem time = mem_at(REG_RECORD, offsetof(struct ring_record, time));
	int later = emit_label(e);

	emit_mem(e, true, OP_MOV_LOAD, RAX, time);
	emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->last_temp));
	emit_store_imm(e, true, time, 0);
	emit_keep_arguments(e, p);
	emit_record_body(e, p);
	emit_reg(e, true, OP_SUB, REG_OUT, REG_RECORD);
	emit_mem(
		e, false, OP_MOV_STORE, REG_OUT, kept_word(p, offsetof(struct probe_begun, bytes)));
	emit_time(e, p);
	emit_mem(e, true, OP_MOV_LOAD, RDX, temp_at(p->last_temp));
	emit_reg(e, true, OP_CMP, RAX, RDX);
	emit_jump_label(e, CC_A, later);
	emit_mem(e, true, OP_LEA, RAX, mem_at(RDX, 1));
	emit_place(e, later);
	emit_mem(e, true, OP_MOV_STORE, RAX, time);
}

/* The time of begin number %edi of the entry at %rcx, in %rax, and what is kept of it. */
static void emit_kept_begin(struct emit *e, const struct stub_plan *p)
{
	if (!stub_keeps_begins(p->stub)) {
		emit_time(e, p);
		return;
	}
	emit_multiply(e, RAX, RDI, (int32_t)p->stub->flights.keep);
	emit_mem(e, true, OP_LEA, REG_RECORD,
		mem_indexed(RCX, RAX, kept_offset(p) + (int32_t)p->stub->flights.record));
	if (stub_has_spans(p->stub)) {
		emit_kept_record(e, p);
	} else {
		emit_keep_arguments(e, p);
		emit_time(e, p);
	}
	emit_mem(e, true, OP_MOV_LOAD, RCX, temp_at(p->entry_temp));
}

/* %edi = the place of the next begin. */
static void emit_next_place(struct emit *e, const struct stub_plan *p)
{
	emit_mem(e, false, OP_MOV_LOAD, RDI, FIELD(depth));
	emit_imm(e, false, IMM_AND, RDI, (int32_t)p->stub->flights.depth - 1);
}

void emit_push_begin(struct emit *e, const struct stub_plan *p)
{
	emit_next_place(e, p);
	emit_kept_begin(e, p);
	emit_mem(e, true, OP_MOV_STORE, RAX, time_of(RDI));
	emit_inc(e, false, FIELD(depth));
}

void emit_push_begin_again(struct emit *e, const struct stub_plan *p)
{
	int once_more = emit_label(e), done = emit_label(e);

	if (!stub_keeps_begins(p->stub)) {
		emit_push_begin(e, p);
		emit_mem(e, true, OP_MOV_STORE, RAX, time_of(RDI));
		return;
	}
	emit_next_place(e, p);
	emit_store_imm(e, false, temp_at(p->pass_temp), 0);
	emit_place(e, once_more);
	emit_kept_begin(e, p);
	emit_mem(e, true, OP_MOV_STORE, RAX, time_of(RDI));
	emit_imm_mem(e, false, IMM_CMP, temp_at(p->pass_temp), 0);
	emit_jump_label(e, CC_NE, done);
	emit_inc(e, false, FIELD(depth));
	emit_store_imm(e, false, temp_at(p->pass_temp), 1);
	emit_jump_label(e, -1, once_more);
	emit_place(e, done);
}

void emit_newest_place(struct emit *e, const struct stub_plan *p, int empty)
{
	emit_mem(e, false, OP_MOV_LOAD, RDI, FIELD(depth));
	emit_reg(e, false, OP_TEST, RDI, RDI);
	emit_jump_label(e, CC_E, empty);
	emit_imm(e, false, IMM_SUB, RDI, 1);
	emit_imm(e, false, IMM_AND, RDI, (int32_t)p->stub->flights.depth - 1);
}

void emit_newest_begin(struct emit *e, const struct stub_plan *p, int empty, int gone)
{
	emit_newest_place(e, p, empty);
	emit_mem(e, true, OP_MOV_LOAD, RAX, time_of(RDI));
	emit_reg(e, true, OP_TEST, RAX, RAX);
	emit_jump_label(e, CC_E, gone);
}

void emit_drop_begin(struct emit *e)
{
	emit_store_imm(e, true, time_of(RDI), 0);
	emit_dec(e, false, FIELD(depth));
}

void emit_note_kept(struct emit *e, const struct stub_plan *p)
{
	if (stub_has_spans(p->stub))
		emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->begin_temp));
	emit_multiply(e, RDX, RDI, (int32_t)p->stub->flights.keep);
	emit_mem(e, true, OP_LEA, RDX, mem_indexed(RCX, RDX, kept_offset(p)));
	emit_mem(e, true, OP_MOV_STORE, RDX, temp_at(p->kept_temp));
}
