/* SPDX-License-Identifier: MIT */
/*
 * Stubs: what runs in the target at a hit.
 *
 * A stub is entered by a jump from a site, in the middle of somebody else's
 * function, and must leave no trace there:
 *
 *   lea -128(%rsp),%rsp       step over the red zone (System V ABI, 3.2.2)
 *   push %rax; lahf; seto %al; push %rax ...    flags: popf costs 6 ns more
 *   [guard == 0: a forked child that does not count: leave]
 *   [pointers: may they be followed? measure the strings]
 *   retry:
 *   %fs:rseq_cs = descriptor   from here on a preemption, a migration or a
 *   start:                     signal makes the kernel resume at `abort`
 *     cpu = %fs:cpu_id; none: go to `slow`
 *     write the record behind head; no room: go to `full`
 *     add size, head           the last instruction of the sequence publishes it
 *   end:
 *   %fs:rseq_cs = 0            nothing may point into memory that we unmap
 *   out:
 *   pop ...; add $0x7f,%al; sahf; pop %rax; lea 128(%rsp),%rsp
 *   jmp next
 *
 *   slow:                      a thread without rseq: a locked increment, or
 *                              a ring whose lock is free
 *   full, lost:                the hit is counted as lost
 *   signature, abort: jmp retry
 *   subroutines               stub_captures.c
 *   descriptor (struct rseq_cs)
 *
 * The time is read inside the sequence, or with the lock held, so the records
 * of one ring are in the order of time. A sequence starts from scratch after an
 * abort: it changes nothing that it reads but the ring's unpublished part.
 *
 * Sources: include/uapi/linux/rseq.h and kernel/rseq.c of Linux; Intel SDM
 * volume 2, LAHF, SETcc, RDTSC, LSL.
 */
#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/x86/emit.h"
#include "arch/x86/stub.h"
#include "arch/x86/stub_plan.h"

enum {
	RED_ZONE = 128,
	SYS_GETTID = 186,
	SYS_FUTEX = 202,
	FUTEX_OP_WAIT = 0, /* shared: the controller waits for the same words */
	FUTEX_OP_WAKE = 1,
	MINUS_ETIMEDOUT = -110,
	RSEQ_CPU_ID = 4, /* offsets in struct rseq */
	RSEQ_CS = 8,
	RING_BYTES_MAX = 1 << 30, /* as an immediate operand */
	/* GDT_ENTRY_CPUNODE * 8 + 3: a segment whose limit is node << 12 | cpu */
	CPU_SEGMENT = 0x7b
};

/* ---- Frame -------------------------------------------------------------- */

static void frame_layout(struct frame *f, bool record, bool full)
{
	static const int regs[] = {RCX, RDX, RDI, RSI, R8, R9, R10, R11};

	f->order_count = !record ? 1 : full ? 8 : 3;
	for (int i = 0; i < 16; i++)
		f->saved[i] = -1;
	for (int i = 0; i < f->order_count; i++)
		f->order[i] = regs[i];
	f->size = RED_ZONE + 8 * (2 + f->order_count + f->temps);
	f->saved[RAX] = 8 * (1 + f->order_count + f->temps);
	for (int i = 0; i < f->order_count; i++)
		f->saved[f->order[i]] = 8 * (f->temps + f->order_count - 1 - i);
}

static void emit_enter(struct emit *e, const struct frame *f)
{
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -RED_ZONE));
	emit_push(e, RAX);
	emit_bytes(e, "\x9f\x0f\x90\xc0", 4); /* lahf; seto %al */
	emit_push(e, RAX);
	for (int i = 0; i < f->order_count; i++)
		emit_push(e, f->order[i]);
	if (f->temps)
		emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -8 * f->temps));
}

static void emit_leave(struct emit *e, const struct frame *f)
{
	if (f->temps)
		emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, 8 * f->temps));
	for (int i = f->order_count - 1; i >= 0; i--)
		emit_pop(e, f->order[i]);
	emit_pop(e, RAX);
	emit_bytes(e, "\x04\x7f\x9e", 3); /* add $0x7f,%al (sets OF as it was); sahf */
	emit_pop(e, RAX);
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, RED_ZONE));
}

/* Goes on to the next stub; false where that is out of reach. */
static bool emit_out(struct emit *e, const struct arch_stub *s, const struct frame *f, int out,
	size_t *next_jump)
{
	emit_place(e, out);
	emit_leave(e, f);
	*next_jump = e->length;
	return emit_jump(e, s->next);
}

/* ---- Restartable sequences ---------------------------------------------------- */

struct sequence {
	int retry, start, end, abort, descriptor;
};

static void emit_sequence_enter(
	struct emit *e, const struct arch_stub *s, struct sequence *q, int scratch)
{
	*q = (struct sequence){
		emit_label(e), emit_label(e), emit_label(e), emit_label(e), emit_label(e)};
	emit_place(e, q->retry);
	emit_lea_label(e, scratch, q->descriptor);
	emit_mem(e, true, OP_MOV_STORE, scratch, mem_fs(s->thread.rseq_offset + RSEQ_CS));
	emit_place(e, q->start);
}

/* Outside a sequence the thread must not point to its descriptor. */
static void emit_sequence_leave(struct emit *e, const struct arch_stub *s)
{
	if (s->thread.has_rseq)
		emit_store_imm(e, true, mem_fs(s->thread.rseq_offset + RSEQ_CS), 0);
}

/*
 * The kernel wants the signature in the four bytes before the abort handler, to
 * be sure that it is one.
 */
static void emit_sequence_abort(struct emit *e, const struct arch_stub *s, const struct sequence *q)
{
	emit_u32(e, s->thread.rseq_signature);
	emit_place(e, q->abort);
	emit_jump_label(e, -1, q->retry);
}

/* struct rseq_cs. At the end of the stub: no short jump may cross the padding. */
static void emit_sequence_descriptor(struct emit *e, const struct sequence *q)
{
	emit_align(e, 32);
	emit_place(e, q->descriptor);
	emit_u32(e, 0); /* version */
	emit_u32(e, 0); /* flags */
	emit_u64(e, e->at + e->labels[q->start]);
	emit_u64(e, e->labels[q->end] - e->labels[q->start]);
	emit_u64(e, e->at + e->labels[q->abort]);
}

/*
 * reg = sets_of_cpu_0 + (cpu << shift), if the CPU has sets of its own; else a
 * jump to `slow`: threads that are not registered have a negative number.
 * Changes %rax, which is sets_of_cpu_0 afterwards.
 */
static void emit_cpu_set(
	struct emit *e, const struct arch_stub *s, int reg, uint8_t shift, uint64_t sets, int slow)
{
	emit_mem(e, false, OP_MOV_LOAD, reg, mem_fs(s->thread.rseq_offset + RSEQ_CPU_ID));
	emit_lea_to(e, RAX, sets);
	emit_imm(e, false, IMM_CMP, reg, s->cpus);
	emit_jump_label(e, CC_AE, slow);
	emit_shift(e, true, true, reg, shift);
}

/* A locked increment in the set that all CPUs share; uses %rax. */
static void emit_shared_inc(struct emit *e, const struct arch_stub *s, size_t field)
{
	emit_lea_to(
		e, RAX, s->slots + ((uint64_t)s->cpus << s->slots_shift) + s->slot_offset + field);
	emit_inc(e, true, mem_at(RAX, 0));
}

/* ---- Counting -------------------------------------------------------------------- */

static bool emit_count(struct emit *e, const struct arch_stub *s, size_t *next_jump)
{
	struct frame f = {.temps = 0};
	struct sequence q = {0};
	int out = emit_label(e), slow = emit_label(e);
	bool reached;

	frame_layout(&f, false, false);
	emit_enter(e, &f);
	emit_test_u32(e, s->guard, RCX);
	emit_jump_label(e, CC_E, out);
	if (s->thread.has_rseq) {
		emit_sequence_enter(e, s, &q, RCX);
		emit_cpu_set(e, s, RCX, s->slots_shift, s->slots + s->slot_offset, slow);
		emit_inc(e, false, mem_indexed(RAX, RCX, offsetof(struct probe_slot, hits)));
		emit_place(e, q.end);
		emit_sequence_leave(e, s);
	} else {
		emit_shared_inc(e, s, offsetof(struct probe_slot, hits));
	}
	reached = emit_out(e, s, &f, out, next_jump);
	if (s->thread.has_rseq) {
		emit_place(e, slow);
		emit_sequence_leave(e, s);
		emit_shared_inc(e, s, offsetof(struct probe_slot, hits));
		emit_jump_label(e, -1, out);
		emit_sequence_abort(e, s, &q);
		emit_sequence_descriptor(e, &q);
	}
	return reached;
}

/* ---- Recording ------------------------------------------------------------------- */

/* %rax = the time. */
static void emit_time(struct emit *e)
{
	emit_bytes(e, "\x0f\x31", 2); /* rdtsc: edx:eax */
	emit_shift(e, true, true, RDX, 32);
	emit_reg(e, true, OP_OR, RAX, RDX);
}

/*
 * Writes a record into the ring at REG_RING and publishes it; no room: jumps to
 * `full`. The last instruction is the one that publishes. Before it, nothing
 * is changed that a second try, or another hit, would miss.
 *
 * The store to `head` pairs with the consumer's acquiring load of it, and the
 * load of `tail` with its releasing store: on x86, plain moves are enough.
 */
static void emit_record(struct emit *e, const struct plan *p, int full)
{
	const struct arch_stub *s = p->stub;
	struct emit_mem head = mem_at(REG_RING, offsetof(struct ring_header, head));

	emit_mem(e, true, OP_MOV_LOAD, REG_RECORD, head);
	emit_mem(e, true, OP_LEA, RAX, mem_at(REG_RECORD, p->max_bytes));
	emit_mem(e, true, OP_SUB, RAX, mem_at(REG_RING, offsetof(struct ring_header, tail)));
	emit_imm(e, true, IMM_CMP, RAX, s->ring_bytes);
	emit_jump_label(e, CC_A, full);
	emit_imm(e, false, IMM_AND, REG_RECORD, s->ring_bytes - 1);
	emit_mem(e, true, OP_LEA, REG_RECORD,
		mem_indexed(REG_RING, REG_RECORD, sizeof(struct ring_header)));
	emit_time(e);
	emit_mem(
		e, true, OP_MOV_STORE, RAX, mem_at(REG_RECORD, offsetof(struct ring_record, time)));
	if (s->thread.has_tid)
		emit_mem(e, false, OP_MOV_LOAD, RAX, mem_fs(s->thread.tid_offset));
	else if (p->kernel_tid)
		emit_mem(e, false, OP_MOV_LOAD, RAX, temp_at(p->tid_temp));
	else
		emit_const(e, RAX, 0);
	emit_mem(
		e, false, OP_MOV_STORE, RAX, mem_at(REG_RECORD, offsetof(struct ring_record, tid)));
	emit_store_imm(e, false, mem_at(REG_RECORD, offsetof(struct ring_record, site)), s->site);
	for (int i = 0; i < s->capture_count; i++)
		emit_capture(e, p, i);
	if (p->checked) {
		emit_mem(e, false, OP_MOV_LOAD, RAX, temp_at(p->mask_temp));
		emit_mem(e, true, OP_MOV_STORE, RAX,
			mem_at(REG_RECORD, sizeof(struct ring_record) + 8 * s->capture_count));
	}
	if (!p->pairs) {
		emit_imm_mem(e, true, IMM_ADD, head, p->fixed_bytes);
		return;
	}
	emit_mem(e, true, OP_LEA, REG_OUT, mem_at(REG_RECORD, p->fixed_bytes));
	emit_copy_pairs(e, p);
	emit_reg(e, true, OP_SUB, REG_OUT, REG_RECORD);
	emit_mem(e, true, OP_ADD_TO, REG_OUT, head);
}

/*
 * REG_RING = a ring of the sets [cpus, 2 * cpus), locked; none free: a jump to
 * `lost`. The search starts at the CPU's own number, which lsl reads from a
 * segment that Linux keeps for its vDSO (arch/x86/include/asm/segment.h); where
 * there is no such segment, the number is left as it was, and is only a hint.
 */
static void emit_lock_ring(struct emit *e, const struct arch_stub *s, int lost)
{
	int in_range = emit_label(e), next = emit_label(e), got = emit_label(e);
	int wrapped = emit_label(e);

	emit_const(e, RCX, CPU_SEGMENT);
	emit_reg(e, false, OP_LSL, RCX, RCX);
	emit_imm(e, false, IMM_AND, RCX, 0xfff);
	emit_imm(e, false, IMM_CMP, RCX, s->cpus);
	emit_jump_label(e, CC_B, in_range);
	emit_const(e, RCX, 0);
	emit_place(e, in_range);
	emit_const(e, RDX, s->cpus);
	emit_place(e, next);
	emit_mem(e, true, OP_LEA, REG_RING, mem_at(RCX, s->cpus));
	emit_shift(e, true, true, REG_RING, s->rings_shift);
	emit_lea_to(e, RAX, s->rings);
	emit_reg(e, true, OP_ADD, REG_RING, RAX);
	emit_const(e, RAX, 1);
	emit_mem(e, false, OP_XCHG, RAX, mem_at(REG_RING, offsetof(struct ring_header, lock)));
	emit_reg(e, false, OP_TEST, RAX, RAX);
	emit_jump_label(e, CC_E, got);
	emit_mem(e, false, OP_LEA, RCX, mem_at(RCX, 1));
	emit_imm(e, false, IMM_CMP, RCX, s->cpus);
	emit_jump_label(e, CC_B, wrapped);
	emit_const(e, RCX, 0);
	emit_place(e, wrapped);
	emit_imm(e, false, IMM_SUB, RDX, 1);
	emit_jump_label(e, CC_NE, next);
	emit_jump_label(e, -1, lost);
	emit_place(e, got);
	/* The time must not be read ahead, while another thread had the lock. */
	emit_bytes(e, "\x0f\xae\xe8", 3); /* lfence */
}

static void emit_unlock_ring(struct emit *e)
{
	emit_store_imm(e, false, mem_at(REG_RING, offsetof(struct ring_header, lock)), 0);
}

static bool plan_captures(struct plan *p)
{
	const struct arch_stub *s = p->stub;
	int temps;

	for (int i = 0; i < s->capture_count; i++) {
		const struct arch_capture *c = &s->captures[i];

		if (!capture_is_possible(c))
			return false;
		p->checked |= x86_64_capture_checked(c);
		p->strings |= c->is_string;
		if (capture_is_variable(c)) {
			p->temp[i] = 2 * p->pairs++;
			p->max_bytes += (capture_bytes(c) + 7) & ~7u;
		}
	}
	temps = 2 * p->pairs;
	for (int i = 0; i < s->capture_count; i++) {
		const struct arch_capture *c = &s->captures[i];

		if (!capture_is_variable(c) && x86_64_capture_checked(c)) {
			p->temp[i] = temps++;
		} else if (capture_is_variable(c) && c->arg.kind == ARCH_ARG_FP_REGISTER) {
			p->spill[i] = temps;
			temps += XMM_BYTES / 8;
		}
	}
	p->frame.temps = temps;
	return true;
}

static bool plan_record(struct plan *p, const struct arch_stub *s)
{
	*p = (struct plan){.stub = s};
	if (s->capture_count > ARCH_ARGS_MAX || !plan_captures(p))
		return false;
	p->fixed_bytes = sizeof(struct ring_record) + 8 * (s->capture_count + p->checked);
	p->max_bytes += p->fixed_bytes;
	p->kernel_tid = !s->thread.has_tid && s->may_call_kernel;
	if (p->checked)
		p->mask_temp = p->frame.temps++;
	if (p->kernel_tid)
		p->tid_temp = p->frame.temps++;
	frame_layout(&p->frame, true, p->frame.temps > 0);
	return p->max_bytes <= RING_RECORD_MAX && p->max_bytes <= s->ring_bytes &&
	       s->ring_bytes <= RING_BYTES_MAX && !(s->ring_bytes & (s->ring_bytes - 1));
}

/* What has to be known before the sequence. */
static void emit_prepare(struct emit *e, const struct plan *p)
{
	const struct arch_stub *s = p->stub;
	uint64_t all = (UINT64_C(1) << s->capture_count) - 1;

	if (p->kernel_tid) {
		emit_const(e, RAX, SYS_GETTID);
		emit_bytes(e, "\x0f\x05", 2); /* syscall */
		emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->tid_temp));
	}
	if (p->checked)
		emit_store_imm(e, false, temp_at(p->mask_temp), (int32_t)(uint32_t)all);
	for (int i = 0; i < s->capture_count; i++)
		emit_prepare_capture(e, p, i);
}

/* The way of threads without rseq, and of hits that find no room. */
static void emit_record_slow(struct emit *e, const struct plan *p, int slow, int full, int out)
{
	const struct arch_stub *s = p->stub;
	int lost = emit_label(e), locked_full = emit_label(e);

	emit_place(e, slow);
	emit_sequence_leave(e, s);
	emit_lock_ring(e, s, lost);
	emit_record(e, p, locked_full);
	emit_unlock_ring(e);
	emit_jump_label(e, -1, out);
	emit_place(e, locked_full);
	emit_unlock_ring(e);
	emit_jump_label(e, -1, lost);
	emit_place(e, full);
	emit_sequence_leave(e, s);
	emit_place(e, lost);
	emit_shared_inc(e, s, offsetof(struct probe_slot, lost));
	emit_jump_label(e, -1, out);
}

static bool emit_record_stub(struct emit *e, struct plan *p, size_t *next_jump)
{
	const struct arch_stub *s = p->stub;
	struct sequence q = {0};
	int out = emit_label(e), full = emit_label(e), slow = emit_label(e);
	bool reached;

	p->check = emit_label(e);
	p->measure = emit_label(e);
	emit_enter(e, &p->frame);
	emit_test_u32(e, s->guard, RCX);
	emit_jump_label(e, CC_E, out);
	emit_prepare(e, p);
	if (s->thread.has_rseq) {
		emit_sequence_enter(e, s, &q, REG_RING);
		emit_cpu_set(e, s, REG_RING, s->rings_shift, s->rings, slow);
		emit_reg(e, true, OP_ADD, REG_RING, RAX);
		emit_record(e, p, full);
		emit_place(e, q.end);
		emit_sequence_leave(e, s);
	} else {
		emit_jump_label(e, -1, slow);
	}
	reached = emit_out(e, s, &p->frame, out, next_jump);
	emit_record_slow(e, p, slow, full, out);
	if (s->thread.has_rseq)
		emit_sequence_abort(e, s, &q);
	emit_capture_subroutines(e, p);
	if (s->thread.has_rseq)
		emit_sequence_descriptor(e, &q);
	return reached;
}

/* ---- Whole stubs ------------------------------------------------------------------- */

/* ---- Gates -------------------------------------------------------------------- */

/* futex(uaddr, op, value, timeout): %rdi and %edx are set; changes %rax, %rcx, %r11. */
static void emit_futex(struct emit *e, uint32_t op)
{
	emit_const(e, RSI, op);
	emit_const(e, RAX, SYS_FUTEX);
	emit_bytes(e, "\x0f\x05", 2); /* syscall */
}

/* See struct probe_gate. */
static bool emit_gate(struct emit *e, const struct arch_stub *s, size_t *next_jump)
{
	enum { SECONDS, NANOSECONDS, NUMBER, TEMPS };
	struct frame f = {.temps = TEMPS};
	int out = emit_label(e), wait = emit_label(e);

	frame_layout(&f, true, true);
	emit_enter(e, &f);
	emit_test_u32(e, s->guard, RCX);
	emit_jump_label(e, CC_E, out);
	if (s->gate_unless) {
		emit_const(e, RCX, s->gate_unless);
		emit_imm_mem(e, false, IMM_CMP, mem_at(RCX, 0), 0);
		emit_jump_label(e, CC_NE, out);
	}
	emit_const(e, R8, s->gate);
	emit_imm_mem(e, false, IMM_CMP, mem_at(R8, offsetof(struct probe_gate, armed)), 0);
	emit_jump_label(e, CC_E, out);
	emit_const(e, RAX, 1);
	emit_bytes(e, "\xf0\x41\x0f\xc1\x40", 5); /* lock xadd %eax,arrived(%r8) */
	emit_u8(e, offsetof(struct probe_gate, arrived));
	emit_mem(e, false, OP_LEA, RAX, mem_at(RAX, 1));
	emit_mem(e, false, OP_MOV_STORE, RAX, temp_at(NUMBER));
	emit_store_imm(e, true, temp_at(SECONDS), GATE_TIMEOUT_S);
	emit_store_imm(e, true, temp_at(NANOSECONDS), 0);
	emit_mem(e, true, OP_LEA, RDI, mem_at(R8, offsetof(struct probe_gate, arrived)));
	emit_const(e, RDX, INT32_MAX);
	emit_futex(e, FUTEX_OP_WAKE);

	emit_place(e, wait);
	emit_mem(e, false, OP_MOV_LOAD, RDX, mem_at(R8, offsetof(struct probe_gate, released)));
	emit_reg(e, false, OP_MOV_LOAD, RAX, RDX);
	emit_mem(e, false, OP_SUB, RAX, temp_at(NUMBER));
	emit_jump_label(e, CC_NS, out); /* released - number >= 0, also where both wrapped */
	emit_mem(e, true, OP_LEA, RDI, mem_at(R8, offsetof(struct probe_gate, released)));
	emit_mem(e, true, OP_LEA, R10, temp_at(SECONDS));
	emit_futex(e, FUTEX_OP_WAIT);
	emit_imm(e, true, IMM_CMP, RAX, MINUS_ETIMEDOUT);
	emit_jump_label(e, CC_NE, wait);
	emit_store_imm(e, false, mem_at(R8, offsetof(struct probe_gate, armed)), 0);
	return emit_out(e, s, &f, out, next_jump);
}

static bool emit_stub(struct emit *e, const struct arch_stub *s, struct plan *p, size_t *next_jump)
{
	switch (s->kind) {
	case ARCH_STUB_COUNT:
		return emit_count(e, s, next_jump);
	case ARCH_STUB_GATE:
		return emit_gate(e, s, next_jump);
	case ARCH_STUB_RECORD:
		return emit_record_stub(e, p, next_jump);
	case ARCH_STUB_GATHER:
	case ARCH_STUB_BEGIN:
		break;
	}
	return false;
}

enum arch_stub_status x86_64_stub(const struct arch_stub *stub, uint64_t at, uint8_t *out,
	size_t room, struct arch_stub_code *ret)
{
	struct emit e = {.out = out, .room = room, .at = at};
	struct plan p;
	bool reached = false;

	if (stub->kind == ARCH_STUB_RECORD && !plan_record(&p, stub))
		return ARCH_STUB_UNSUPPORTED;
	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			emit_again(&e);
		reached = emit_stub(&e, stub, &p, &ret->next_jump);
	}
	if (!emit_finish(&e))
		return ARCH_STUB_NO_ROOM;
	ret->length = e.length;
	return reached ? ARCH_STUB_OK : ARCH_STUB_OUT_OF_REACH;
}
