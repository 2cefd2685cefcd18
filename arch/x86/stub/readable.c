/* SPDX-License-Identifier: MIT */
/*
 * Whether a page can be read.
 *
 * Before following a pointer, the stub asks the kernel: rt_sigprocmask(2) with an invalid `how`
 * copies eight bytes from the given address and then fails with EINVAL, or with EFAULT if the
 * address is not readable (kernel/signal.c of Linux). It changes nothing in either case. If another
 * thread unmaps the page between the check and the read, the read still faults, as a read by the
 * program itself would.
 *
 * Asking costs ten times what the rest of a hit does, so it is done only where nothing else tells.
 * The page of the site's stack pointer is readable, and so is what arch_stub.safe names (who sets
 * it says why). A page is asked for once in a hit, whatever lies in it: fields of a structure, or
 * several strings. A second answer would be no better than the first, because what lies there is
 * read a moment later anyway. Two pages are kept, for structures that point to strings.
 *
 * None is kept for the next hit: any thread may unmap or protect a page meanwhile, and nothing in
 * user space tells. For the same reason all other memory is asked for, as docs/ring.md says.
 */
#include "arch/arch.h"
#include "arch/x86/emit.h"
#include "arch/x86/stub/plan.h"

enum { SYS_RT_SIGPROCMASK = 14, MINUS_EINVAL = -22, NO_PAGE = 1 };

void plan_checks(struct stub_plan *p)
{
	int checks = 0;

	for (int i = 0; i < p->stub->capture_count; i++)
		checks += capture_checks(&p->stub->captures[i]);
	p->keeps_pages = checks > 1 && p->stub->may_call_kernel;
}

void emit_checks_begin(struct emit *e, const struct stub_plan *p)
{
	if (!p->keeps_pages)
		return;
	for (int i = 0; i < KEPT_PAGES; i++)
		emit_store_imm(e, true, temp_at(p->pages_temp + i), NO_PAGE);
}

void emit_check(struct emit *e, const struct stub_plan *p, int depth)
{
	if (p->keeps_pages)
		emit_mem(e, true, OP_LEA, RDI, temp_at(p->pages_temp + depth));
	emit_call_label(e, p->check);
}

/* %rax = the page of %rsi. */
static void emit_page(struct emit *e)
{
	emit_reg(e, true, OP_MOV_LOAD, RAX, RSI);
	emit_imm(e, true, IMM_AND, RAX, -PAGE_BYTES);
}

/* Jumps to `out` if it is one of the pages at %rdi. */
static void emit_if_kept(struct emit *e, int out)
{
	emit_page(e);
	for (int i = 0; i < KEPT_PAGES; i++) {
		emit_mem(e, true, OP_CMP, RAX, mem_at(RDI, 8 * i));
		emit_jump_label(e, CC_E, out);
	}
}

/* Sets ZF. */
static void emit_keep_page(struct emit *e)
{
	for (int i = KEPT_PAGES - 1; i > 0; i--) {
		emit_mem(e, true, OP_MOV_LOAD, RAX, mem_at(RDI, 8 * (i - 1)));
		emit_mem(e, true, OP_MOV_STORE, RAX, mem_at(RDI, 8 * i));
	}
	emit_page(e);
	emit_mem(e, true, OP_MOV_STORE, RAX, mem_at(RDI, 0));
	emit_reg(e, true, OP_CMP, RAX, RAX);
}

static void emit_ask(struct emit *e, const struct stub_plan *p, int out)
{
	/* A null set is not an error; nothing is mapped in the first page. */
	emit_imm(e, true, IMM_CMP, RSI, PAGE_BYTES);
	emit_jump_label(e, CC_B, out); /* below: not equal */
	if (p->keeps_pages)
		emit_push(e, RDI);
	emit_const(e, RDI, UINT32_MAX);
	emit_const(e, RDX, 0);
	emit_const(e, R10, 8);
	emit_const(e, RAX, SYS_RT_SIGPROCMASK);
	emit_bytes(e, "\x0f\x05", 2); /* syscall */
	if (p->keeps_pages)
		emit_pop(e, RDI);
	emit_imm(e, true, IMM_CMP, RAX, MINUS_EINVAL);
	if (!p->keeps_pages)
		return;
	emit_jump_label(e, CC_NE, out);
	emit_keep_page(e);
}

/* %rdi, %rsi: not changed. Jumps to `out` with ZF if %rsi is in one of the extents. */
static void emit_if_safe(struct emit *e, const struct stub_plan *p, int out)
{
	for (size_t i = 0; i < p->stub->safe.count; i++) {
		const struct arch_extent *safe = &p->stub->safe.pages[i];
		int other = emit_label(e);

		emit_lea_to(e, RAX, safe->start);
		emit_reg(e, true, OP_MOV_LOAD, RDX, RSI);
		emit_reg(e, true, OP_SUB, RDX, RAX);
		emit_const(e, RAX, safe->size);
		emit_reg(e, true, OP_CMP, RDX, RAX);
		emit_jump_label(e, CC_AE, other);
		emit_reg(e, true, OP_CMP, RAX, RAX);
		emit_jump_label(e, -1, out);
		emit_place(e, other);
	}
}

/* The same for the main thread's stack, from %rax, the site's stack pointer, on. */
static void emit_if_above(struct emit *e, const struct stub_plan *p, int out)
{
	const struct arch_extent *stack = &p->stub->safe.stack;
	int other = emit_label(e);

	if (!stack->size)
		return;
	emit_lea_to(e, RDX, stack->start);
	emit_reg(e, true, OP_CMP, RAX, RDX);
	emit_jump_label(e, CC_B, other);
	emit_reg(e, true, OP_CMP, RSI, RAX);
	emit_jump_label(e, CC_B, other);
	emit_lea_to(e, RDX, stack->start + stack->size);
	emit_reg(e, true, OP_CMP, RSI, RDX);
	emit_jump_label(e, CC_AE, other);
	emit_reg(e, true, OP_CMP, RAX, RAX);
	emit_jump_label(e, -1, out);
	emit_place(e, other);
}

void emit_check_subroutine(struct emit *e, const struct stub_plan *p)
{
	/* The pushed return addresses make no difference. */
	struct emit_mem site_stack = mem_at(RSP, p->frame.size);
	int out = emit_label(e);

	emit_place(e, p->check);
	emit_imm(e, true, IMM_AND, RSI, -8);
	emit_if_safe(e, p, out);
	/* Is it the page of the site's stack pointer? */
	emit_mem(e, true, OP_LEA, RAX, site_stack);
	emit_reg(e, true, OP_XOR, RAX, RSI);
	emit_shift(e, true, false, RAX, 12);
	emit_jump_label(e, CC_E, out);
	emit_mem(e, true, OP_LEA, RAX, site_stack);
	emit_if_above(e, p, out);
	if (p->stub->may_call_kernel) {
		if (p->keeps_pages)
			emit_if_kept(e, out);
		emit_ask(e, p, out);
	} else {
		emit_reg(e, true, OP_TEST, RSP, RSP); /* not zero: no */
	}
	emit_place(e, out);
	emit_u8(e, 0xc3); /* ret */
}
