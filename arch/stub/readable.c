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
 * Where memory may have tags that an address must have, too, the kernel may look at them. It is
 * asked without the tag first, because that is how it wants addresses of a program that has not
 * said that it uses tags (Linux, tagged-address-abi.rst); and then with it.
 *
 * A copy of a stack, or a walk through its frames, goes to addresses that the program may never
 * touch, because the end of a stack is unknown. If a program serves the page faults there
 * (userfaultfd(2)) and the page is not in memory, rt_sigprocmask waits for that program, perhaps
 * forever. So mincore(2) is called first: it tells whether the page is in memory, and never waits.
 *
 * None is kept for the next hit: any thread may unmap or protect a page meanwhile, and nothing in
 * user space tells. For the same reason all other memory is asked for, as docs/ring.md says.
 */
#include "arch/arch.h"
#include "arch/stub/plan.h"

enum { MINUS_EINVAL = -22, NO_PAGE = 1, WORD_BYTES = 8 };

void form_checks_begin(struct form *f, const struct stub_plan *p)
{
	if (p->asks_tagged)
		form_store_const(f, form_temp(p->tag_of_temp), sizeof(uint64_t), 0);
	if (!p->keeps_pages)
		return;
	for (int i = 0; i < KEPT_PAGES; i++)
		form_store_const(f, form_temp(p->pages_temp + i), sizeof(uint64_t), NO_PAGE);
}

void form_untag(struct form *f, const struct stub_plan *p)
{
	if (p->asks_tagged)
		form_store(f, FORM_POINTER, form_temp(p->tag_of_temp));
	form_one(f, FORM_UNTAG, true, FORM_POINTER);
}

void form_check(struct form *f, const struct stub_plan *p, int frame, int no)
{
	if (p->asks_tagged)
		form_load(
			f, FORM_RIGHT, form_at(frame, 8 * p->tag_of_temp), sizeof(uint64_t), false);
	if (p->keeps_pages)
		form_compute(f, FORM_SET, form_at(frame, 8 * p->pages_temp));
	form_ask(f, p->check, no);
}

void form_check_stack(struct form *f, const struct stub_plan *p, int temp, int no)
{
	form_store_const(f, form_temp(temp), sizeof(uint64_t), 0);
	form_compute(f, FORM_SET, form_temp(temp));
	form_ask(f, p->check_stack, no);
}

void form_page_of(struct form *f, const struct stub_plan *p, int a)
{
	form_two_const(f, FORM_AND, true, a, -(int32_t)p->stub->page_bytes);
}

void form_compare_pages(struct form *f, const struct stub_plan *p, int a, int b)
{
	form_two(f, FORM_XOR, true, a, b);
	form_two_const(f, FORM_SHR, true, a, __builtin_ctz(p->stub->page_bytes));
}

/* VALUE = the page of FROM. */
static void page(struct form *f, const struct stub_plan *p)
{
	form_move(f, FORM_VALUE, FORM_FROM);
	form_page_of(f, p, FORM_VALUE);
}

/* Answers yes if it is one of the pages at SET. */
static void if_kept(struct form *f, const struct stub_plan *p)
{
	page(f, p);
	for (int i = 0; i < KEPT_PAGES; i++)
		form_yes_if_at(f, FORM_VALUE, form_at(FORM_SET, 8 * i));
}

static void keep_page(struct form *f, const struct stub_plan *p)
{
	for (int i = KEPT_PAGES - 1; i > 0; i--) {
		form_load(f, FORM_VALUE, form_at(FORM_SET, 8 * (i - 1)), sizeof(uint64_t), false);
		form_store(f, FORM_VALUE, form_at(FORM_SET, 8 * i));
	}
	page(f, p);
	form_store(f, FORM_VALUE, form_at(FORM_SET, 0));
}

/*
 * Jumps to `no` unless the page of FROM is in memory. SET points to a byte that is 0: mincore(2)
 * leaves that byte unchanged where nothing is mapped.
 */
static void ask_resident(struct form *f, const struct stub_plan *p, int no)
{
	form_stack(f, FORM_PUSH, FORM_FROM);
	form_stack(f, FORM_PUSH, FORM_SET);
	form_move(f, FORM_SCRATCH, FORM_SET);
	form_move(f, FORM_SET, FORM_FROM);
	form_page_of(f, p, FORM_SET);
	form_const(f, FORM_FROM, 1);
	form_kernel(f, FORM_CALL_MINCORE);
	form_stack(f, FORM_POP, FORM_SET);
	form_stack(f, FORM_POP, FORM_FROM);
	form_load(f, FORM_VALUE, form_at(FORM_SET, 0), sizeof(uint64_t), false);
	form_two_const(f, FORM_AND, true, FORM_VALUE, 1);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, no);
}

/* VALUE = the answer, about FROM; keeps SET. */
static void ask_once(struct form *f, const struct stub_plan *p)
{
	if (p->keeps_pages)
		form_stack(f, FORM_PUSH, FORM_SET);
	form_const(f, FORM_SET, UINT32_MAX);
	form_const(f, FORM_SCRATCH, 0);
	form_const(f, FORM_SPARE, WORD_BYTES);
	form_kernel(f, FORM_CALL_SIGPROCMASK);
	if (p->keeps_pages)
		form_stack(f, FORM_POP, FORM_SET);
}

/* The same once more if the answer is not yes, and RIGHT has a tag. */
static void ask_tagged(struct form *f, const struct stub_plan *p)
{
	int known = form_label(f);

	form_stack(f, FORM_POP, FORM_RIGHT);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, MINUS_EINVAL, known);
	form_move(f, FORM_SCRATCH, FORM_RIGHT);
	form_one(f, FORM_UNTAG, true, FORM_SCRATCH);
	form_two(f, FORM_XOR, true, FORM_RIGHT, FORM_SCRATCH);
	form_jump_if_const(f, true, FORM_RIGHT, FORM_EQ, 0, known);
	form_two(f, FORM_OR, true, FORM_FROM, FORM_RIGHT);
	ask_once(f, p);
	form_one(f, FORM_UNTAG, true, FORM_FROM);
	form_place(f, known);
}

static void ask(struct form *f, const struct stub_plan *p)
{
	int no = form_label(f);

	/* A null set is not an error; nothing is mapped in the first page. */
	form_jump_if_const(f, true, FORM_FROM, FORM_BELOW, (int32_t)p->stub->page_bytes, no);
	form_two_const(f, FORM_AND, true, FORM_FROM, -WORD_BYTES);
	if (p->asks_tagged)
		form_stack(f, FORM_PUSH, FORM_RIGHT);
	ask_once(f, p);
	if (p->asks_tagged)
		ask_tagged(f, p);
	if (p->keeps_pages) {
		form_jump_if_const(f, true, FORM_VALUE, FORM_NE, MINUS_EINVAL, no);
		keep_page(f, p);
		form_alone(f, FORM_YES);
	} else {
		form_yes_if_const(f, FORM_VALUE, MINUS_EINVAL);
	}
	form_place(f, no);
	form_alone(f, FORM_NO);
}

static void ask_stack(struct form *f, const struct stub_plan *p)
{
	int no = form_label(f);

	form_jump_if_const(f, true, FORM_FROM, FORM_BELOW, (int32_t)p->stub->page_bytes, no);
	form_two_const(f, FORM_AND, true, FORM_FROM, -WORD_BYTES);
	ask_resident(f, p, no);
	ask_once(f, p);
	form_yes_if_const(f, FORM_VALUE, MINUS_EINVAL);
	form_place(f, no);
	form_alone(f, FORM_NO);
}

/* Answers yes if FROM is in one of the extents. */
static void if_safe(struct form *f, const struct stub_plan *p)
{
	for (size_t i = 0; i < p->stub->safe.count; i++) {
		const struct arch_extent *safe = &p->stub->safe.pages[i];
		int other = form_label(f);

		form_address(f, FORM_VALUE, safe->start);
		form_move(f, FORM_SCRATCH, FORM_FROM);
		form_two(f, FORM_SUB, true, FORM_SCRATCH, FORM_VALUE);
		form_const(f, FORM_VALUE, safe->size);
		form_jump_if(f, true, FORM_SCRATCH, FORM_NOT_BELOW, FORM_VALUE, other);
		form_alone(f, FORM_YES);
		form_place(f, other);
	}
}

/* The same for the main thread's stack, from the site's stack pointer on. */
static void if_above(struct form *f, const struct stub_plan *p)
{
	const struct arch_extent *stack = &p->stub->safe.stack;
	int other = form_label(f);

	if (!stack->size)
		return;
	form_original(f, FORM_VALUE, p->isa->stack_pointer);
	form_address(f, FORM_SCRATCH, stack->start);
	form_jump_if(f, true, FORM_VALUE, FORM_BELOW, FORM_SCRATCH, other);
	form_jump_if(f, true, FORM_FROM, FORM_BELOW, FORM_VALUE, other);
	form_address(f, FORM_SCRATCH, stack->start + stack->size);
	form_jump_if(f, true, FORM_FROM, FORM_NOT_BELOW, FORM_SCRATCH, other);
	form_alone(f, FORM_YES);
	form_place(f, other);
}

/*
 * The site's stack pointer may seem to be some words lower here, if return addresses have been
 * pushed: these words are on its stack, too.
 */
static void if_known(struct form *f, const struct stub_plan *p)
{
	if_safe(f, p);
	/* Is it the page of the site's stack pointer? */
	form_original(f, FORM_VALUE, p->isa->stack_pointer);
	form_compare_pages(f, p, FORM_VALUE, FORM_FROM);
	form_yes_if_const(f, FORM_VALUE, 0);
	if_above(f, p);
}

static void check_subroutine(struct form *f, const struct stub_plan *p)
{
	form_place(f, p->check);
	if_known(f, p);
	if (!p->stub->may_call_kernel) {
		form_alone(f, FORM_NO);
		return;
	}
	if (p->keeps_pages)
		if_kept(f, p);
	ask(f, p);
}

static void check_stack_subroutine(struct form *f, const struct stub_plan *p)
{
	form_place(f, p->check_stack);
	if_known(f, p);
	if (p->stub->may_call_kernel && p->stub->may_ask_stack)
		ask_stack(f, p);
	else
		form_alone(f, FORM_NO);
}

void form_check_subroutines(struct form *f, const struct stub_plan *p)
{
	if (p->strings || p->extents || p->checked || p->stacks)
		check_subroutine(f, p);
	if (p->stacks)
		check_stack_subroutine(f, p);
}
