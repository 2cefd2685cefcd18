/* SPDX-License-Identifier: MIT */
/*
 * The number of the CPU, as a hint; and the time, where a program may not read the counter.
 *
 * Sources: Intel SDM volume 2, LSL; clock_gettime(2).
 */
#include "arch/x86/stub/lower.h"
#include "arch/x86/stub/plan.h"

enum {
	SYS_CLOCK_GETTIME = 228,
	MONOTONIC = 1, /* CLOCK_MONOTONIC */
	TIMESPEC_BYTES = 16,
	/* GDT_ENTRY_CPUNODE * 8 + 3: a segment whose limit is node << 12 | cpu */
	CPU_SEGMENT = 0x7b
};

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

void x86_64_time_subroutine(struct form *f, const struct stub_plan *plan)
{
	static const int changed[] = {RCX, RSI, RDI, R11};
	enum { CHANGED = sizeof(changed) / sizeof(*changed), SECONDS = 0, NANOSECONDS = 8 };
	struct emit *e = lowering_emit(f);

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
