/* SPDX-License-Identifier: MIT */
/*
 * The kernel, the number of the CPU, and the time.
 *
 * Source: Linux, include/uapi/asm-generic/unistd.h.
 */
#include <assert.h>

#include "arch/aarch64/stub/lower.h"
#include "arch/arch.h"
#include "arch/stub/plan.h"

enum { MINUS_EFAULT = -14, MONOTONIC = 1, PAIR_BYTES = 16 };

/* The number of the CPU is in what the kernel keeps for restartable sequences. */
static void cpu(const struct a64_lowering *l, int rd)
{
	assert(l->thread->has_rseq);
	a64_lower_load(l->e, rd, form_at(FORM_THREAD, l->thread->rseq_offset + RSEQ_CPU_ID),
		sizeof(uint32_t), false);
}

/*
 * A call would end the streaming mode, and clear its vectors: it is not made there, which looks as
 * if it had failed. By its first look, a thread gets from Linux what it needs for FEAT_SME.
 */
static void unless_streaming(struct a64 *e, int streaming)
{
	a64_const(e, a64_register(FORM_VALUE), (uint64_t)MINUS_EFAULT);
	a64_streaming(e, A64_STEP);
	a64_jump_zero(e, true, false, A64_STEP, streaming);
}

static void ask_kernel(const struct a64_lowering *l, enum form_call call)
{
	static const uint16_t calls[FORM_CALLS] = {
		[FORM_CALL_CLOCK_GETTIME] = 113,
		[FORM_CALL_FUTEX] = 98,
		[FORM_CALL_GETCPU] = 168,
		[FORM_CALL_GETPID] = 172,
		[FORM_CALL_GETTID] = 178,
		[FORM_CALL_MINCORE] = 232,
		[FORM_CALL_PRCTL] = 167,
		[FORM_CALL_SIGPROCMASK] = 135,
	};
	struct a64 *e = l->e;
	int set = a64_register(FORM_SET); /* the answer is there, too */
	int streaming = a64_label(e);

	if (l->thread->has_modes)
		unless_streaming(e, streaming);
	if (l->thread->loses_vectors)
		a64_keep_vectors(e);
	a64_move(e, A64_STEP, set);
	a64_const(e, A64_STATUS, calls[call]); /* x8 */
	a64_call_kernel(e);
	a64_move(e, a64_register(FORM_VALUE), set);
	a64_move(e, set, A64_STEP);
	if (l->thread->loses_vectors)
		a64_restore_vectors(e);
	a64_place(e, streaming);
}

/* Two registers are saved; above them is a struct timespec, which stays 0 if the call is refused.
 */
void a64_time_subroutine(struct form *f, const struct stub_plan *plan)
{
	const struct a64_lowering *l = (const struct a64_lowering *)f;
	int clock = a64_register(FORM_SET), where = a64_register(FORM_FROM); /* x0, x1 */
	int value = a64_register(FORM_VALUE);
	struct a64 *e = l->e;

	a64_place(e, plan->time);
	a64_push_pair(e, clock, where, 2 * PAIR_BYTES);
	a64_store_pair(e, A64_ZERO, A64_ZERO, PAIR_BYTES);
	a64_const(e, clock, MONOTONIC);
	a64_op_const(e, true, A64_ADD, where, A64_SP, PAIR_BYTES);
	ask_kernel(l, FORM_CALL_CLOCK_GETTIME);
	a64_load_pair(e, A64_STEP, value, PAIR_BYTES);
	a64_const(e, A64_STEP_2, (uint64_t)-1000000000);
	a64_msub(e, true, value, A64_STEP, A64_STEP_2, value);
	a64_pop_pair(e, clock, where, 2 * PAIR_BYTES);
	a64_return(e, A64_LINK);
}

void a64_lower_system(const struct a64_lowering *l, const struct form_insn *i)
{
	struct a64 *e = l->e;
	int value = a64_register(FORM_VALUE);

	switch (i->op) {
	case FORM_CPU:
		cpu(l, a64_register(i->a));
		break;
	case FORM_TIME:
		a64_time(e, value);
		break;
	case FORM_STORE_TIME:
		a64_time(e, value);
		a64_lower_store(e, value, i->mem, sizeof(uint64_t));
		break;
	case FORM_KERNEL:
		ask_kernel(l, (enum form_call)i->value);
		break;
	case FORM_FENCE:
		a64_put(e, 0xd5033fdf); /* isb: barriers of memory do not order the counter */
		break;
	default:			/* FORM_YIELD */
		a64_put(e, 0xd503203f); /* yield */
		break;
	}
}
