/* SPDX-License-Identifier: MIT */
/* Makes a thread wait for the controller (struct probe_gate). Source: futex(2). */
#include "arch/layout.h"
#include "arch/runtime.h"
#include "arch/stub/plan.h"

enum {
	FUTEX_OP_WAIT = 0, /* not private: the controller waits on the same words */
	FUTEX_OP_WAKE = 1,
	MINUS_EINTR = -4,
	MINUS_EAGAIN = -11
};

/* Temporaries of a struct timespec. */
enum { SECONDS, NANOSECONDS };
_Static_assert((int)NANOSECONDS < (int)GATE_TEMPS, "the plan has room for it");
_Static_assert(!(GATE_TURNS & (GATE_TURNS - 1)), "a number's turn is its low bits");

void form_futex_wait(struct form *f, int timespec)
{
	form_compute(f, FORM_SPARE, form_temp(timespec));
	form_const(f, FORM_FROM, FUTEX_OP_WAIT);
	FORM(f, .op = FORM_KERNEL, .value = FORM_CALL_FUTEX);
}

void form_futex_wake(struct form *f)
{
	form_const(f, FORM_SCRATCH, INT32_MAX);
	form_const(f, FORM_FROM, FUTEX_OP_WAKE);
	FORM(f, .op = FORM_KERNEL, .value = FORM_CALL_FUTEX);
}

static struct form_mem word(size_t offset)
{
	return form_at(FORM_POINTER, (int32_t)offset);
}

/* Jumps to `out` if the thread whose number is in NEXT is released; changes VALUE. */
static void leave_if_released(struct form *f, int out)
{
	form_acquire(f, FORM_VALUE, word(offsetof(struct probe_gate, released)), sizeof(uint32_t));
	form_two(f, FORM_SUB, false, FORM_VALUE, FORM_NEXT);
	/* the difference is not negative, even after the counters wrap */
	form_jump_if_const(f, false, FORM_VALUE, FORM_GE, 0, out);
}

/*
 * Sleeps once on the turn word for the thread's number; SET = the word's address. Jumps to `out` if
 * the thread was released, to `dead` if the controller has died. The thread reads the turn's owner
 * before `released`, and the controller writes `released` before it flips the owner, so no release
 * is missed.
 */
static void sleep_once(struct form *f, int out, int dead)
{
	struct form_mem turn = {.base = FORM_POINTER,
		.index = FORM_VALUE,
		.scale = sizeof(uint64_t),
		.disp = offsetof(struct probe_gate, turns)};

	form_move(f, FORM_VALUE, FORM_NEXT);
	form_two_const(f, FORM_AND, false, FORM_VALUE, GATE_TURNS - 1);
	form_compute(f, FORM_SET, turn);
	form_acquire(f, FORM_SCRATCH, form_at(FORM_SET, 0), sizeof(uint32_t));
	leave_if_released(f, out);
	form_move(f, FORM_VALUE, FORM_SCRATCH);
	form_two_const(f, FORM_AND, false, FORM_VALUE, GATE_OWNER);
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, dead);
	form_futex_wait(f, SECONDS);
}

/* Jumps to the exit if the gate is not armed, or this thread may pass once. */
static void form_pass(struct form *f, const struct stub_plan *plan)
{
	const struct arch_gate *gate = &plan->at->action->gate;
	int hold = form_label(f), called = form_label(f);

	if (gate->unless) {
		form_original(f, FORM_VALUE, plan->isa->first_argument);
		form_const(f, FORM_RIGHT, ARCH_GATE_CALLER);
		form_jump_if(f, true, FORM_VALUE, FORM_EQ, FORM_RIGHT, called);
		form_jump_if_word(f, FORM_RIGHT, gate->unless, FORM_NE, plan->at->done);
	}
	form_place(f, called);
	form_const(f, FORM_POINTER, gate->address);
	form_load(f, FORM_VALUE, word(offsetof(struct probe_gate, armed)), sizeof(uint32_t), false);
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, plan->at->done);
	form_load(f, FORM_VALUE, word(offsetof(struct probe_gate, pass)), sizeof(uint32_t), false);
	form_jump_if_const(f, false, FORM_VALUE, FORM_EQ, 0, hold);
	form_store_const(f, word(offsetof(struct probe_gate, pass)), sizeof(uint32_t), 0);
	form_jump(f, plan->at->done);
	form_place(f, hold);
}

/* The whole action: see struct probe_gate. */
void form_gate(struct form *f, const struct stub_plan *plan)
{
	int wait = form_label(f), dead = form_label(f), out = plan->at->done;

	form_pass(f, plan);
	form_const(f, FORM_NEXT, 1);
	form_memory(f, FORM_FETCH_ADD, FORM_NEXT, word(offsetof(struct probe_gate, arrived)),
		sizeof(uint32_t));
	form_two_const(f, FORM_ADD, false, FORM_NEXT, 1);
	form_store_const(f, form_temp(SECONDS), sizeof(uint64_t), GATE_TIMEOUT_S);
	form_store_const(f, form_temp(NANOSECONDS), sizeof(uint64_t), 0);
	form_compute(f, FORM_SET, word(offsetof(struct probe_gate, arrived)));
	form_futex_wake(f);

	form_place(f, wait);
	sleep_once(f, out, dead);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, wait);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, MINUS_EAGAIN, wait);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, MINUS_EINTR, wait);
	/* The sleep timed out; the wake-up may have been missed. */
	leave_if_released(f, out);

	form_place(f, dead);
	form_store_const(f, word(offsetof(struct probe_gate, armed)), sizeof(uint32_t), 0);
	form_futex_wake(f);
}
