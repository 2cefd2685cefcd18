/* SPDX-License-Identifier: MIT */
/* Gates: a thread waits for the controller (struct probe_gate). Source: futex(2). */
#include "arch/layout.h"
#include "arch/x86/stub_plan.h"

enum {
	SYS_FUTEX = 202,
	FUTEX_OP_WAIT = 0, /* shared: the controller waits for the same words */
	FUTEX_OP_WAKE = 1,
	MINUS_ETIMEDOUT = -110
};

/* futex(uaddr, op, value, timeout): %rdi and %edx are set; changes %rax, %rcx, %r11. */
static void emit_futex(struct emit *e, uint32_t op)
{
	emit_const(e, RSI, op);
	emit_const(e, RAX, SYS_FUTEX);
	emit_bytes(e, "\x0f\x05", 2); /* syscall */
}

/* See struct probe_gate. */
void emit_gate(struct emit *e, const struct stub_plan *plan)
{
	enum { SECONDS, NANOSECONDS, NUMBER };
	const struct arch_stub *s = plan->stub;
	int hold = emit_label(e), wait = emit_label(e), out = plan->out;

	if (s->gate_unless) {
		emit_const(e, RCX, s->gate_unless);
		emit_imm_mem(e, false, IMM_CMP, mem_at(RCX, 0), 0);
		emit_jump_label(e, CC_NE, out);
	}
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
	emit_mem(e, false, OP_MOV_LOAD, RDX, mem_at(R8, offsetof(struct probe_gate, released)));
	emit_reg(e, false, OP_MOV_LOAD, RAX, RDX);
	emit_mem(e, false, OP_SUB, RAX, temp_at(NUMBER));
	emit_jump_label(e, CC_NS, out); /* released - number >= 0, even after wrapping */
	emit_mem(e, true, OP_LEA, RDI, mem_at(R8, offsetof(struct probe_gate, released)));
	emit_mem(e, true, OP_LEA, R10, temp_at(SECONDS));
	emit_futex(e, FUTEX_OP_WAIT);
	emit_imm(e, true, IMM_CMP, RAX, MINUS_ETIMEDOUT);
	emit_jump_label(e, CC_NE, wait);
	emit_store_imm(e, false, mem_at(R8, offsetof(struct probe_gate, armed)), 0);
}
