/* SPDX-License-Identifier: MIT */
/*
 * The kernel, the number of the CPU, and the time; and the time where a program may not read the
 * counter.
 *
 * Sources: Intel SDM volume 2, LSL, RDTSC; clock_gettime(2).
 */
#include "arch/x86/stub/frame.h"
#include "arch/x86/stub/lower.h"

enum {
	MONOTONIC = 1, /* CLOCK_MONOTONIC */
	TIMESPEC_BYTES = 16,
	/* GDT_ENTRY_CPUNODE * 8 + 3: a segment whose limit is node << 12 | cpu */
	CPU_SEGMENT = 0x7b
};

/*
 * lsl reads the number from a segment that Linux keeps for its vDSO
 * (arch/x86/include/asm/segment.h); without such a segment, it leaves the register unchanged.
 */
static void emit_cpu_hint(struct emit *e, int reg)
{
	emit_const(e, reg, CPU_SEGMENT);
	emit_reg(e, false, OP_LSL, reg, reg);
	emit_imm(e, false, IMM_AND, reg, 0xfff);
}

/* %edx:%eax = the counter. */
static void emit_rdtsc(struct emit *e)
{
	emit_bytes(e, "\x0f\x31", 2);
}

static void emit_syscall(struct emit *e)
{
	emit_bytes(e, "\x0f\x05", 2);
}

static void ask_kernel(struct emit *e, uint64_t call)
{
	static const uint16_t calls[FORM_CALLS] = {
		[FORM_CALL_CLOCK_GETTIME] = 228,
		[FORM_CALL_FUTEX] = 202,
		[FORM_CALL_GETCPU] = 309,
		[FORM_CALL_GETPID] = 39,
		[FORM_CALL_GETTID] = 186,
		[FORM_CALL_MINCORE] = 27,
		[FORM_CALL_PRCTL] = 157,
		[FORM_CALL_SIGPROCMASK] = 14,
	};

	/* The form's registers are those that Linux wants. */
	emit_const(e, RAX, calls[call]);
	emit_syscall(e);
}

void lower_system(const struct lowering *l, const struct form_insn *i)
{
	struct emit *e = l->e;
	struct emit_mem m;

	switch (i->op) {
	case FORM_CPU:
		emit_cpu_hint(e, lower_register(i->a));
		break;
	case FORM_TIME:
		emit_rdtsc(e);
		emit_shift(e, true, true, RDX, 32);
		emit_reg(e, true, OP_OR, RAX, RDX);
		break;
	case FORM_STORE_TIME: /* in halves, as FORM_STORE_HALVES does */
		m = lower_mem(i->mem);
		emit_rdtsc(e);
		emit_mem(e, false, OP_MOV_STORE, RAX, m);
		m.disp += 4;
		emit_mem(e, false, OP_MOV_STORE, RDX, m);
		break;
	case FORM_KERNEL:
		ask_kernel(e, i->value);
		break;
	case FORM_FENCE:
		emit_bytes(e, "\x0f\xae\xe8", 3); /* lfence */
		break;
	default:			      /* FORM_YIELD */
		emit_bytes(e, "\xf3\x90", 2); /* pause */
		break;
	}
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
	emit_const(e, RDI, MONOTONIC);
	emit_reg(e, true, OP_MOV_LOAD, RSI, RSP);
	ask_kernel(e, FORM_CALL_CLOCK_GETTIME);
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_at(RSP, SECONDS));
	emit_multiply(e, RAX, RAX, 1000000000);
	emit_mem(e, true, OP_ADD, RAX, mem_at(RSP, NANOSECONDS));
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, TIMESPEC_BYTES));
	for (int i = CHANGED; i-- > 0;)
		emit_pop(e, changed[i]);
	emit_u8(e, 0xc3); /* ret */
}
