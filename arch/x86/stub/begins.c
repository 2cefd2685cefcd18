/* SPDX-License-Identifier: MIT */
/*
 * The begins that an entry of the table holds (struct probe_flight): a stack of times, and, if the
 * end leaves a record (a span), what the begin has captured next to each of them (struct
 * probe_begun).
 *
 * What is kept is a record as a ring would have it (record.c). It is written where the next begin
 * belongs, and the depth publishes it. Without a sequence a signal handler may use the same place
 * before that, so it is written once more afterwards: before, in case the handler never returns,
 * and after, because the handler may have written there.
 *
 * A begin whose end never comes stays on the stack of times: the program has left it by longjmp(3),
 * as PostgreSQL leaves a query that fails. For spans the stack is a ring, so that it never fills up
 * with these: a begin takes the place of the oldest one, and `floor` is the number of the oldest
 * that is left. An end whose begin has gone that way has none. (Times alone need so little memory
 * that there is room for a thousand.)
 */
#include "arch/layout.h"
#include "arch/x86/stub/flights.h"

/* Where the first begin is kept in an entry. */
static int32_t kept_offset(const struct stub_plan *p)
{
	return (int32_t)(sizeof(struct probe_flight) + 8 * p->stub->flights.depth);
}

static struct emit_mem time_of(int index, int32_t disp)
{
	return (struct emit_mem){.base = RCX,
		.index = index,
		.scale = 8,
		.disp = (int32_t)offsetof(struct probe_flight, times) + disp};
}

void emit_keep_entry(struct emit *e, const struct stub_plan *p)
{
	if (stub_has_spans(p->stub))
		emit_mem(e, true, OP_MOV_STORE, RCX, temp_at(p->entry_temp));
}

/*
 * Writes number %edi of what the entry at %rcx keeps, with no time until it is whole; %rax = the
 * time. Changes all registers but these.
 *
 * An end that copies what is kept knows by the time that nobody has written there meanwhile. So
 * each time in a place is later than the one before. The clock alone does not see to that: in a
 * virtual machine it moves in steps of up to 80 ticks, and a processor reads it ahead.
 */
static void emit_kept_begin(struct emit *e, const struct stub_plan *p)
{
	struct emit_mem time = mem_at(REG_RECORD, offsetof(struct ring_record, time));
	int later = emit_label(e);

	emit_multiply(e, RAX, RDI, (int32_t)p->stub->flights.keep);
	emit_mem(e, true, OP_LEA, REG_RECORD,
		mem_indexed(
			RCX, RAX, kept_offset(p) + (int32_t)offsetof(struct probe_begun, record)));
	emit_mem(e, true, OP_MOV_LOAD, RAX, time);
	emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->last_temp));
	emit_store_imm(e, true, time, 0);
	emit_record_body(e, p);
	emit_reg(e, true, OP_SUB, REG_OUT, REG_RECORD);
	emit_mem(e, false, OP_MOV_STORE, REG_OUT,
		mem_at(REG_RECORD, -(int32_t)offsetof(struct probe_begun, record)));
	emit_time(e, p);
	emit_mem(e, true, OP_MOV_LOAD, RDX, temp_at(p->last_temp));
	emit_reg(e, true, OP_CMP, RAX, RDX);
	emit_jump_label(e, CC_A, later);
	emit_mem(e, true, OP_LEA, RAX, mem_at(RDX, 1));
	emit_place(e, later);
	emit_mem(e, true, OP_MOV_STORE, RAX, time);
	emit_mem(e, true, OP_MOV_LOAD, RCX, temp_at(p->entry_temp));
}

/*
 * %edi = the place of the next begin. For spans, the floor is set before the depth counts it:
 *
 *	the depth is below it	nothing that is left is below the new begin
 *	by so many above	the new begin takes the place of the one at the floor
 *
 * Changes %rax and %rdx.
 */
static void emit_next_place(struct emit *e, const struct stub_plan *p, int full)
{
	int32_t places = (int32_t)p->stub->flights.depth;
	int set = emit_label(e), done = emit_label(e);

	emit_mem(e, false, OP_MOV_LOAD, RDI, FIELD(depth));
	if (!stub_has_spans(p->stub)) {
		emit_imm(e, false, IMM_CMP, RDI, places);
		emit_jump_label(e, CC_AE, full);
		return;
	}
	emit_reg(e, false, OP_MOV_LOAD, RAX, RDI);
	emit_mem(e, false, OP_MOV_LOAD, RDX, FIELD(floor));
	emit_reg(e, false, OP_CMP, RAX, RDX);
	emit_jump_label(e, CC_B, set);
	emit_reg(e, false, OP_SUB, RAX, RDX);
	emit_imm(e, false, IMM_CMP, RAX, places);
	emit_jump_label(e, CC_B, done);
	emit_mem(e, false, OP_LEA, RAX, mem_at(RDI, 1 - places));
	emit_place(e, set);
	emit_mem(e, false, OP_MOV_STORE, RAX, FIELD(floor));
	emit_place(e, done);
	emit_imm(e, false, IMM_AND, RDI, places - 1);
}

void emit_push_begin(struct emit *e, const struct stub_plan *p, int full)
{
	emit_next_place(e, p, full);
	if (stub_has_spans(p->stub))
		emit_kept_begin(e, p);
	else
		emit_time(e, p);
	emit_mem(e, true, OP_MOV_STORE, RAX, time_of(RDI, 0));
	emit_inc(e, false, FIELD(depth));
}

void emit_push_begin_again(struct emit *e, const struct stub_plan *p, int full)
{
	int once_more = emit_label(e), done = emit_label(e);

	if (!stub_has_spans(p->stub)) {
		emit_push_begin(e, p, full);
		emit_mem(e, true, OP_MOV_STORE, RAX, time_of(RDI, 0));
		return;
	}
	emit_next_place(e, p, full);
	emit_store_imm(e, false, temp_at(p->pass_temp), 0);
	emit_place(e, once_more);
	emit_kept_begin(e, p);
	emit_mem(e, true, OP_MOV_STORE, RAX, time_of(RDI, 0));
	emit_imm_mem(e, false, IMM_CMP, temp_at(p->pass_temp), 0);
	emit_jump_label(e, CC_NE, done);
	emit_inc(e, false, FIELD(depth));
	emit_store_imm(e, false, temp_at(p->pass_temp), 1);
	emit_jump_label(e, -1, once_more);
	emit_place(e, done);
}

void emit_pop_time(struct emit *e, const struct stub_plan *p, int empty, int gone)
{
	emit_mem(e, false, OP_MOV_LOAD, RDI, FIELD(depth));
	emit_reg(e, false, OP_TEST, RDI, RDI);
	emit_jump_label(e, CC_E, empty);
	if (stub_has_spans(p->stub)) {
		emit_mem(e, false, OP_CMP, RDI, FIELD(floor));
		emit_jump_label(e, CC_BE, gone);
		emit_imm(e, false, IMM_SUB, RDI, 1);
		emit_imm(e, false, IMM_AND, RDI, (int32_t)p->stub->flights.depth - 1);
		emit_imm(e, false, IMM_ADD, RDI, 1);
	}
	emit_mem(e, true, OP_MOV_LOAD, RAX, time_of(RDI, -8));
	emit_dec(e, false, FIELD(depth));
}

/* A begin in a thread that has too many open begins. */
void emit_begin_slow(struct emit *e, const struct stub_plan *p)
{
	emit_place(e, p->full);
	emit_sequence_leave(e, p);
	emit_jump_label(e, -1, p->lost);
}

void emit_note_kept(struct emit *e, const struct stub_plan *p)
{
	int32_t keep = (int32_t)p->stub->flights.keep;

	emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->begin_temp));
	emit_multiply(e, RDX, RDI, keep);
	emit_mem(e, true, OP_LEA, RDX, mem_indexed(RCX, RDX, kept_offset(p) - keep));
	emit_mem(e, true, OP_MOV_STORE, RDX, temp_at(p->kept_temp));
}
