/* SPDX-License-Identifier: MIT */
/*
 * Captures of the thread's name.
 *
 * Only the kernel has it: prctl(2), PR_GET_NAME, copies 16 bytes with a NUL among them, and fails
 * for no other reason than the address (kernel/sys.c of Linux). The C library keeps no copy, and
 * anybody may give the thread another name (/proc/PID/task/TID/comm), so it is asked for at each
 * hit. So a hit has the name that its thread had then, and no controller has to look at a thread
 * before it ends.
 */
#include <linux/prctl.h>

#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/x86/emit.h"
#include "arch/x86/stub/plan.h"

enum { SYS_PRCTL = 157 };

/*
 *	r8	where the name goes
 *	rax	its length
 */
void emit_prepare_comm(struct emit *e, const struct stub_plan *p, int i)
{
	int next = emit_label(e), end = emit_label(e);

	emit_store_imm(e, true, temp_at(p->spill[i]), 0);
	emit_store_imm(e, true, temp_at(p->spill[i] + 1), 0);
	emit_mem(e, true, OP_LEA, R8, temp_at(p->spill[i]));
	emit_reg(e, true, OP_MOV_LOAD, RSI, R8);
	emit_const(e, RDI, PR_GET_NAME);
	emit_const(e, RAX, SYS_PRCTL);
	emit_bytes(e, "\x0f\x05", 2); /* syscall */
	emit_const(e, RAX, 0);
	emit_place(e, next);
	emit_mem(e, false, OP_MOVZX8, RDX, mem_indexed(R8, RAX, 0));
	emit_reg(e, false, OP_TEST, RDX, RDX);
	emit_jump_label(e, CC_E, end);
	emit_imm(e, false, IMM_ADD, RAX, 1);
	emit_imm(e, false, IMM_CMP, RAX, ARCH_COMM_MAX);
	emit_jump_label(e, CC_B, next);
	emit_place(e, end);
	emit_store_pair(e, p->temp[i], R8);
}
