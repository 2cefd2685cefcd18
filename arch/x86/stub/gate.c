/* SPDX-License-Identifier: MIT */
/* Gates: a thread waits for the controller (struct probe_gate). Source: futex(2). */
#include "arch/layout.h"
#include "arch/runtime.h"
#include "arch/x86/stub/plan.h"

enum {
	SYS_FUTEX = 202,
	FUTEX_OP_WAIT = 0, /* shared: the controller waits for the same words */
	FUTEX_OP_WAKE = 1,
	MINUS_EINTR = -4,
	MINUS_EAGAIN = -11
};

enum { SECONDS, NANOSECONDS, NUMBER }; /* temporaries */
_Static_assert(!(GATE_TURNS & (GATE_TURNS - 1)), "a number's turn is its low bits");

/* futex(uaddr, op, value, timeout): %rdi and %edx are set; changes %rax, %rcx, %r11. */
static void emit_futex(struct emit *e, uint32_t op)
{
	emit_const(e, RSI, op);
	emit_const(e, RAX, SYS_FUTEX);
	emit_bytes(e, "\x0f\x05", 2); /* syscall */
}

/* Leaves the gate if the number is released; changes %eax. */
static void emit_released(struct emit *e, int out)
{
	emit_mem(e, false, OP_MOV_LOAD, RAX, mem_at(R8, offsetof(struct probe_gate, released)));
	emit_mem(e, false, OP_SUB, RAX, temp_at(NUMBER));
	emit_jump_label(e, CC_NS, out); /* released - number >= 0, even after wrapping */
}

/*
 * Sleeps once in the number's turn, with %rdi its address. The owner is read before `released`,
 * which the controller writes before it flips the owner: no release is missed.
 */
static void emit_sleep(struct emit *e, int out, int dead)
{
	struct emit_mem turn = {.base = R8, .index = RAX, .scale = sizeof(uint64_t)};

	turn.disp = offsetof(struct probe_gate, turns);
	emit_mem(e, false, OP_MOV_LOAD, RAX, temp_at(NUMBER));
	emit_imm(e, false, IMM_AND, RAX, GATE_TURNS - 1);
	emit_mem(e, true, OP_LEA, RDI, turn);
	emit_mem(e, false, OP_MOV_LOAD, RDX, mem_at(RDI, 0));
	emit_released(e, out);
	emit_reg(e, false, OP_MOV_LOAD, RAX, RDX);
	emit_imm(e, false, IMM_AND, RAX, GATE_OWNER);
	emit_jump_label(e, CC_E, dead);
	emit_mem(e, true, OP_LEA, R10, temp_at(SECONDS));
	emit_futex(e, FUTEX_OP_WAIT);
}

/* See struct probe_gate. */
void emit_gate(struct emit *e, const struct stub_plan *plan)
{
	const struct arch_stub *s = plan->stub;
	int hold = emit_label(e), wait = emit_label(e), dead = emit_label(e), out = plan->out;
	int called = emit_label(e);

	if (s->gate_unless) {
		emit_const(e, RCX, ARCH_GATE_CALLER);
		emit_mem(e, true, OP_CMP, RCX, mem_at(RSP, GATE_ARGUMENT));
		emit_jump_label(e, CC_E, called);
		emit_const(e, RCX, s->gate_unless);
		emit_imm_mem(e, false, IMM_CMP, mem_at(RCX, 0), 0);
		emit_jump_label(e, CC_NE, out);
	}
	emit_place(e, called);
	emit_const(e, R8, s->gate);
	emit_imm_mem(e, false, IMM_CMP, mem_at(R8, offsetof(struct probe_gate, armed)), 0);
	emit_jump_label(e, CC_E, out);
	emit_imm_mem(e, false, IMM_CMP, mem_at(R8, offsetof(struct probe_gate, pass)), 0);
	emit_jump_label(e, CC_E, hold);
	emit_store_imm(e, false, mem_at(R8, offsetof(struct probe_gate, pass)), 0);
	emit_jump_label(e, -1, out);

	emit_place(e, hold);
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
	emit_sleep(e, out, dead);
	emit_reg(e, true, OP_TEST, RAX, RAX);
	emit_jump_label(e, CC_E, wait);
	emit_imm(e, true, IMM_CMP, RAX, MINUS_EAGAIN);
	emit_jump_label(e, CC_E, wait);
	emit_imm(e, true, IMM_CMP, RAX, MINUS_EINTR);
	emit_jump_label(e, CC_E, wait);
	emit_released(e, out); /* or a wake-up was missed: not in time */

	emit_place(e, dead);
	emit_store_imm(e, false, mem_at(R8, offsetof(struct probe_gate, armed)), 0);
	emit_const(e, RDX, INT32_MAX);
	emit_futex(e, FUTEX_OP_WAKE);
}
