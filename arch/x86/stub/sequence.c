/* SPDX-License-Identifier: MIT */
/*
 * What x86-64 alone has of restartable sequences (arch/stub/sequence.c): the code that the kernel
 * resumes at, with up to TRIES_MASK more tries, and the descriptors. And the CPU's number, as a
 * hint; and the time.
 *
 * Sources: include/uapi/linux/rseq.h and kernel/rseq.c of Linux; Intel SDM volume 2, RDTSC,
 * LSL.
 */
#include "arch/x86/stub/plan.h"

enum {
	TRIES_MASK = 7,
	SYS_CLOCK_GETTIME = 228,
	MONOTONIC = 1, /* CLOCK_MONOTONIC */
	TIMESPEC_BYTES = 16,
	/* GDT_ENTRY_CPUNODE * 8 + 3: a segment whose limit is node << 12 | cpu */
	CPU_SEGMENT = 0x7b
};

/* The number of tries left is not initialised: any number will do. */
static void emit_try_again(struct emit *e, const struct stub_plan *plan, int retry)
{
	struct emit_mem tries = temp_at(plan->tries_temp);

	emit_imm_mem(e, false, IMM_AND, tries, TRIES_MASK);
	emit_imm_mem(e, false, IMM_SUB, tries, 1);
	emit_jump_label(e, CC_AE, retry);
}

/* The kernel requires the signature in the four bytes before the abort handler. */
void emit_sequence_aborts(struct emit *e, const struct stub_plan *plan)
{
	for (int i = 0; i < plan->sequence_count; i++) {
		emit_u32(e, plan->stub->thread.rseq_signature);
		emit_place(e, plan->sequences[i].abort);
		if (plan->stub->gather.key_count)
			emit_try_again(e, plan, plan->sequences[i].retry);
		emit_jump_label(e, -1, plan->sequences[i].aborted);
	}
}

/* struct rseq_cs, at the end of the stub: no short jump may cross the padding. */
void emit_sequence_descriptors(struct emit *e, const struct stub_plan *plan)
{
	for (int i = 0; i < plan->sequence_count; i++) {
		const struct sequence *q = &plan->sequences[i];

		emit_align(e, 32);
		emit_place(e, q->descriptor);
		emit_u32(e, 0); /* version */
		emit_u32(e, 0); /* flags */
		emit_u64(e, e->at + e->labels[q->start]);
		emit_u64(e, e->labels[q->end] - e->labels[q->start]);
		emit_u64(e, e->at + e->labels[q->abort]);
	}
}

/*
 * lsl reads the number from a segment that Linux keeps for its vDSO
 * (arch/x86/include/asm/segment.h); without such a segment, it leaves the register unchanged.
 */
void emit_cpu_hint(struct emit *e, int reg)
{
	emit_const(e, reg, CPU_SEGMENT);
	emit_reg(e, false, OP_LSL, reg, reg);
	emit_imm(e, false, IMM_AND, reg, 0xfff);
}

void emit_time(struct emit *e, const struct stub_plan *plan)
{
	if (plan->stub->thread.no_counter) {
		emit_call_label(e, plan->time);
		return;
	}
	emit_bytes(e, "\x0f\x31", 2); /* rdtsc: edx:eax */
	emit_shift(e, true, true, RDX, 32);
	emit_reg(e, true, OP_OR, RAX, RDX);
}

/* %rax = CLOCK_MONOTONIC in nanoseconds; 0 if a filter forbids the call. */
void emit_time_subroutine(struct emit *e, const struct stub_plan *plan)
{
	static const int changed[] = {RCX, RSI, RDI, R11};
	enum { CHANGED = sizeof(changed) / sizeof(*changed), SECONDS = 0, NANOSECONDS = 8 };

	if (!plan->stub->thread.no_counter)
		return;
	emit_place(e, plan->time);
	for (int i = 0; i < CHANGED; i++)
		emit_push(e, changed[i]);
	emit_bytes(e, "\x6a\x00\x6a\x00", 4); /* push $0; push $0: struct timespec */
	emit_const(e, RAX, SYS_CLOCK_GETTIME);
	emit_const(e, RDI, MONOTONIC);
	emit_reg(e, true, OP_MOV_LOAD, RSI, RSP);
	emit_bytes(e, "\x0f\x05", 2); /* syscall */
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_at(RSP, SECONDS));
	emit_multiply(e, RAX, RAX, 1000000000);
	emit_mem(e, true, OP_ADD, RAX, mem_at(RSP, NANOSECONDS));
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, TIMESPEC_BYTES));
	for (int i = CHANGED; i-- > 0;)
		emit_pop(e, changed[i]);
	emit_u8(e, 0xc3); /* ret */
}
