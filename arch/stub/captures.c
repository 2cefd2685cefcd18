/* SPDX-License-Identifier: MIT */
/*
 * How a stub reads a probe's arguments.
 *
 * Some memory operands, and every string, are behind a pointer that the program itself may never
 * follow, so the stub checks it first. Operands on the stack or in static storage need no check;
 * nor does an address slightly above the stack pointer whose base is the frame pointer, because it
 * is in a stack frame. Bits of a pointer that the processor ignores are cleared first, but not in a
 * recorded number.
 */
#include <linux/prctl.h>

#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/stub/plan.h"

/* ==== Values ================================================================================== */

/* Values of operands without a check (constants, registers, memory), of pairs, and of the time. */

/* Is a scalar's value sign-extended? */
static bool value_is_signed(const struct arch_arg *arg)
{
	return arg->is_signed && !arg->is_float;
}

/* Returns the constant, truncated to its size and extended by its type. */
static uint64_t value_of_immediate(const struct arch_arg *arg)
{
	unsigned int bits = arg->size * 8;
	uint64_t value = (uint64_t)arg->disp;

	if (bits >= 64)
		return value;
	value &= (UINT64_C(1) << bits) - 1;
	if (value_is_signed(arg) && value >> (bits - 1))
		value |= ~UINT64_C(0) << bits;
	return value;
}

void form_original(struct form *f, int a, int reg)
{
	f->put(f, &(struct form_insn){.op = FORM_ORIGINAL,
			  .a = (int8_t)a,
			  .b = (int8_t)reg,
			  .bytes = sizeof(uint64_t)});
}

void form_operand_address(struct form *f, int a, const struct arch_arg *arg)
{
	bool far = arg->disp != (int32_t)arg->disp;
	bool based = arg->base >= 0;
	struct form_mem mem = form_at(a, far || !based ? 0 : (int32_t)arg->disp);

	if (based)
		form_original(f, a, arg->base);
	else
		form_address(f, a, (uint64_t)arg->disp);
	if (arg->index >= 0) {
		form_original(f, FORM_SCRATCH, arg->index);
		mem.index = FORM_SCRATCH;
		mem.scale = arg->scale ? (uint8_t)arg->scale : 1;
	}
	if (mem.index != FORM_NONE || mem.disp)
		form_compute(f, a, mem);
	if (based && far) {
		form_const(f, FORM_SCRATCH, (uint64_t)arg->disp);
		form_two(f, FORM_ADD, true, a, FORM_SCRATCH);
	}
}

/* a = a scalar that needs no check; changes FORM_SCRATCH. */
static void form_operand(struct form *f, int a, const struct arch_arg *arg)
{
	bool is_signed = value_is_signed(arg);
	uint32_t in_register = arg->size < arg->width ? arg->size : arg->width;

	switch (arg->kind) {
	case ARCH_ARG_IMMEDIATE:
		form_const(f, a, value_of_immediate(arg));
		break;
	case ARCH_ARG_REGISTER:
		f->put(f, &(struct form_insn){.op = FORM_ORIGINAL,
				  .a = (int8_t)a,
				  .b = (int8_t)arg->base,
				  .bytes = (uint8_t)in_register,
				  .shift = arg->shift,
				  .is_signed = is_signed});
		break;
	case ARCH_ARG_FP_REGISTER:
		f->put(f, &(struct form_insn){.op = FORM_VECTOR,
				  .a = (int8_t)a,
				  .b = (int8_t)arg->base,
				  .bytes = (uint8_t)arg->size});
		break;
	case ARCH_ARG_MEMORY:
		form_operand_address(f, a, arg);
		form_load(f, a, form_at(a, 0), (uint8_t)arg->size, is_signed);
		break;
	case ARCH_ARG_ADDRESS:
		form_operand_address(f, a, arg);
		break;
	case ARCH_ARG_UNKNOWN:
		break;
	}
}

/* Stores a scalar that needs no check into packed data; changes FORM_VALUE and FORM_SCRATCH. */
static void form_store_operand(
	struct form *f, const struct arch_arg *arg, struct form_mem mem, uint8_t bytes)
{
	uint32_t in_register = arg->size < arg->width ? arg->size : arg->width;
	bool is_constant = arg->kind == ARCH_ARG_IMMEDIATE && bytes >= sizeof(uint32_t);

	if (arg->kind == ARCH_ARG_REGISTER && bytes <= in_register) {
		FORM(f, .op = FORM_STORE_ORIGINAL, .b = arg->base, .shift = arg->shift, .mem = mem,
			.bytes = bytes);
		return;
	}
	if (!is_constant) {
		form_operand(f, FORM_VALUE, arg);
		form_store_packed(f, FORM_VALUE, mem, bytes);
	}
	for (int at = 0; is_constant && at < bytes; at += 4, mem.disp += 4)
		form_store_const(f, mem, 4, (int32_t)(value_of_immediate(arg) >> 8 * at));
}

void form_captured(struct form *f, int a, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];

	if (c->begun) {
		form_load(f, a, form_temp(p->at->kept_temp), sizeof(uint64_t), false);
		form_load(f, a, form_at(a, c->begun + 8), sizeof(uint64_t), false);
	} else if (p->checked >> i & 1) {
		form_load(f, a, form_temp(p->temp[i]), sizeof(uint64_t), false);
	} else {
		form_operand(f, a, &c->arg);
	}
}

void form_now(struct form *f, const struct stub_plan *p)
{
	if (p->stub->thread.no_counter)
		form_call(f, p->time);
	else
		FORM(f, .op = FORM_TIME);
}

void form_store_now(struct form *f, const struct stub_plan *p, struct form_mem mem)
{
	if (p->stub->thread.no_counter) {
		form_now(f, p);
		form_store_packed(f, FORM_VALUE, mem, sizeof(uint64_t));
	} else {
		FORM(f, .op = FORM_STORE_TIME, .mem = mem);
	}
}

void form_store_pair(struct form *f, int temp, int pointer)
{
	form_store(f, pointer, form_temp(temp));
	form_store(f, FORM_VALUE, form_temp(temp + 1));
}

/* ==== Readable pages ========================================================================== */

/*
 * How a stub finds out whether a page is readable.
 *
 * It asks the kernel: rt_sigprocmask(2) with an invalid `how` copies eight bytes from the address,
 * and fails with EINVAL, or with EFAULT if they are unreadable (kernel/signal.c of Linux), changing
 * nothing. If another thread unmaps the page before the stub reads it, the read faults, as the
 * program's own would.
 *
 * The call costs ten times the rest of a hit, so the stub makes it only if need be. The page of the
 * site's stack pointer is readable, and so is arch_stub.safe. A hit asks once for a page, for all
 * fields and strings in it: a second answer would be no better, because the data is read later
 * anyway. It remembers two pages, for structures that point to strings.
 *
 * If memory has tags, the kernel may check a pointer's. The stub asks without the tag first, as for
 * a program that has not enabled tagged addresses (Linux, tagged-address-abi.rst), then with it.
 *
 * A copy of a stack, or a walk through its frames, reaches addresses that the program may never
 * touch. If a page there is not in memory, and a program serves its faults (userfaultfd(2)),
 * rt_sigprocmask waits for that, perhaps forever. So mincore(2), which never waits, is asked first.
 *
 * No hit uses another's answers: any thread may unmap or protect a page in between, unnoticed. So
 * the stub asks for all memory that is not known to be readable, as docs/ring.md says.
 */

enum { MINUS_EINVAL = -22, NO_PAGE = 1, WORD_BYTES = 8 };

void form_prepare_none(struct form *f, const struct stub_plan *p)
{
	if (p->checked)
		form_store_const(f, form_temp(p->mask_temp), sizeof(uint32_t),
			(int32_t)((UINT64_C(1) << p->stub->capture_count) - 1));
	if (p->asks_tagged)
		form_store_const(f, form_temp(p->tag_of_temp), sizeof(uint64_t), 0);
	if (!p->keeps_pages)
		return;
	for (int i = 0; i < KEPT_PAGES; i++)
		form_store_const(f, form_temp(p->pages_temp + i), sizeof(uint64_t), NO_PAGE);
}

/* Removes the tag from the pointer in POINTER, so that it can be checked and followed. */
static void form_untag(struct form *f, const struct stub_plan *p)
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
	FORM(f, .op = FORM_ASK, .label = p->check, .no = no);
}

void form_check_stack(struct form *f, const struct stub_plan *p, int temp, int no)
{
	form_store_const(f, form_temp(temp), sizeof(uint64_t), 0);
	form_compute(f, FORM_SET, form_temp(temp));
	FORM(f, .op = FORM_ASK, .label = p->check_stack, .no = no);
}

void form_page_of(struct form *f, const struct stub_plan *p, int a)
{
	form_two_const(f, FORM_AND, true, a, -(int32_t)p->stub->page_bytes);
}

/* a = 0 if a and b are on one page. */
static void form_compare_pages(struct form *f, const struct stub_plan *p, int a, int b)
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

/*
 * Jumps to `no` unless the page of FROM is in memory. mincore(2) writes its answer to the byte at
 * SET, which is 0 before the call, and stays 0 if nothing is mapped.
 */
static void ask_resident(struct form *f, const struct stub_plan *p, int no)
{
	form_one(f, FORM_PUSH, true, FORM_FROM);
	form_one(f, FORM_PUSH, true, FORM_SET);
	form_move(f, FORM_SCRATCH, FORM_SET);
	form_move(f, FORM_SET, FORM_FROM);
	form_page_of(f, p, FORM_SET);
	form_const(f, FORM_FROM, 1);
	FORM(f, .op = FORM_KERNEL, .value = FORM_CALL_MINCORE);
	form_one(f, FORM_POP, true, FORM_SET);
	form_one(f, FORM_POP, true, FORM_FROM);
	form_load(f, FORM_VALUE, form_at(FORM_SET, 0), sizeof(uint64_t), false);
	form_two_const(f, FORM_AND, true, FORM_VALUE, 1);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, no);
}

/* VALUE = the result of rt_sigprocmask(2) for FROM; keeps SET. */
static void ask_once(struct form *f, const struct stub_plan *p)
{
	if (p->keeps_pages)
		form_one(f, FORM_PUSH, true, FORM_SET);
	form_const(f, FORM_SET, UINT32_MAX);
	form_const(f, FORM_SCRATCH, 0);
	form_const(f, FORM_SPARE, WORD_BYTES);
	FORM(f, .op = FORM_KERNEL, .value = FORM_CALL_SIGPROCMASK);
	if (p->keeps_pages)
		form_one(f, FORM_POP, true, FORM_SET);
}

/* If VALUE does not say that FROM is readable, and RIGHT has a tag, asks again with the tag. */
static void ask_tagged(struct form *f, const struct stub_plan *p)
{
	int known = form_label(f);

	form_one(f, FORM_POP, true, FORM_RIGHT);
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

	/*
	 * rt_sigprocmask(2) accepts a null pointer, so reject the first page here: nothing is
	 * mapped in it.
	 */
	form_jump_if_const(f, true, FORM_FROM, FORM_BELOW, (int32_t)p->stub->page_bytes, no);
	form_two_const(f, FORM_AND, true, FORM_FROM, -WORD_BYTES);
	if (p->asks_tagged)
		form_one(f, FORM_PUSH, true, FORM_RIGHT);
	ask_once(f, p);
	if (p->asks_tagged)
		ask_tagged(f, p);
	if (p->keeps_pages) {
		form_jump_if_const(f, true, FORM_VALUE, FORM_NE, MINUS_EINVAL, no);
		for (int i = KEPT_PAGES - 1; i > 0; i--) {
			form_load(f, FORM_VALUE, form_at(FORM_SET, 8 * (i - 1)), sizeof(uint64_t),
				false);
			form_store(f, FORM_VALUE, form_at(FORM_SET, 8 * i));
		}
		page(f, p);
		form_store(f, FORM_VALUE, form_at(FORM_SET, 0));
		FORM(f, .op = FORM_YES);
	} else {
		FORM(f, .op = FORM_YES_IF, .wide = true, .a = FORM_VALUE, .is_constant = true,
			.value = (uint64_t)MINUS_EINVAL);
	}
	form_place(f, no);
	FORM(f, .op = FORM_NO);
}

/*
 * Makes the subroutine answer yes if FROM is in the main thread's stack, above the stack pointer.
 */
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
	FORM(f, .op = FORM_YES);
	form_place(f, other);
}

/*
 * Makes the subroutine answer yes if FROM needs no check. The stack pointer may be too low by some
 * words, for pushed return addresses, which are on the same stack.
 */
static void if_known(struct form *f, const struct stub_plan *p)
{
	for (size_t i = 0; i < p->stub->safe.count; i++) {
		const struct arch_extent *safe = &p->stub->safe.pages[i];
		int other = form_label(f);

		form_address(f, FORM_VALUE, safe->start);
		form_move(f, FORM_SCRATCH, FORM_FROM);
		form_two(f, FORM_SUB, true, FORM_SCRATCH, FORM_VALUE);
		form_const(f, FORM_VALUE, safe->size);
		form_jump_if(f, true, FORM_SCRATCH, FORM_NOT_BELOW, FORM_VALUE, other);
		FORM(f, .op = FORM_YES);
		form_place(f, other);
	}
	/* yes if FROM is in the page of the site's stack pointer */
	form_original(f, FORM_VALUE, p->isa->stack_pointer);
	form_compare_pages(f, p, FORM_VALUE, FORM_FROM);
	FORM(f, .op = FORM_YES_IF, .wide = true, .a = FORM_VALUE, .is_constant = true,
		.value = (uint64_t)(0));
	if_above(f, p);
}

static void check_subroutine(struct form *f, const struct stub_plan *p)
{
	form_place(f, p->check);
	if_known(f, p);
	if (!p->stub->may_call_kernel) {
		FORM(f, .op = FORM_NO);
		return;
	}
	if (p->keeps_pages) {
		page(f, p);
		for (int i = 0; i < KEPT_PAGES; i++)
			FORM(f, .op = FORM_YES_IF, .wide = true, .a = FORM_VALUE, .is_memory = true,
				.mem = form_at(FORM_SET, 8 * i), .bytes = sizeof(uint64_t));
	}
	ask(f, p);
}

/* ==== Strings ================================================================================= */

/*
 * Measure the data behind a pointer.
 *
 * The end of a string is searched in aligned words, which never cross a page. If (w - 0x01..01) &
 * ~w & 0x80..80 is not 0, the word w has a zero byte, the first at its lowest set bit (Lamport,
 * "Multiple byte processing with full-word instructions", CACM 18:8, 1975).
 *
 * Bytes whose number another argument states are not read before they are copied; only their pages
 * are checked.
 */

enum { STRINGS_WORD_BYTES = 8, WORD_SHIFT = 3 };

/*
 * Loads a page's first word, at FROM, and jumps to `look`. If the string begins inside the word,
 * makes the bytes before it nonzero.
 */
static void first_word(struct form *f, int look)
{
	struct form_mem bits = {.base = FORM_NONE, .index = FORM_POINTER, .scale = 1 << WORD_SHIFT};

	form_load(f, FORM_VALUE, form_at(FORM_FROM, 0), sizeof(uint64_t), false);
	form_jump_if(f, true, FORM_FROM, FORM_NOT_BELOW, FORM_POINTER, look);
	form_compute(f, FORM_RIGHT, bits); /* shifts take this modulo 64 */
	form_const(f, FORM_SPARE_2, UINT64_MAX);
	form_two(f, FORM_SHL, true, FORM_SPARE_2, FORM_RIGHT);
	form_one(f, FORM_COMPLEMENT, true, FORM_SPARE_2);
	form_two(f, FORM_OR, true, FORM_VALUE, FORM_SPARE_2);
	form_jump(f, look);
}

/* SCRATCH = the end of the page of FROM, or NEXT if lower. */
static void end_of_page(struct form *f, const struct stub_plan *p)
{
	int within = form_label(f);

	form_compute(f, FORM_SCRATCH, form_at(FORM_FROM, (int32_t)p->stub->page_bytes));
	form_page_of(f, p, FORM_SCRATCH);
	form_jump_if(f, true, FORM_SCRATCH, FORM_BELOW, FORM_NEXT, within);
	form_move(f, FORM_SCRATCH, FORM_NEXT);
	form_place(f, within);
}

/* Ends a subroutine: VALUE = the distance from POINTER to `end`, with flags. */
static void return_length(struct form *f, int end, uint64_t flags)
{
	if (flags) {
		form_const(f, FORM_VALUE, flags);
		form_two(f, FORM_ADD, true, FORM_VALUE, end);
	} else if (end != FORM_VALUE) {
		form_move(f, FORM_VALUE, end);
	}
	form_two(f, FORM_SUB, true, FORM_VALUE, FORM_POINTER);
	FORM(f, .op = FORM_RETURN_NESTED);
}

static void return_null(struct form *f)
{
	form_const(f, FORM_VALUE, UINT64_C(1) << RING_STRING_NULL_BIT);
	FORM(f, .op = FORM_RETURN_NESTED);
}

/*
 * The subroutine that measures the string at POINTER, of which at most NEXT bytes are read: VALUE =
 * the string's length and the flag bits, as in a record. Registers:
 *
 *	FROM	the current word, aligned
 *	SCRATCH	the end of the words that are readable and wanted
 *	NEXT	the address of the first byte that is not wanted
 *	SET, SPARE	the constants of the search
 */
static void form_measure_subroutine(struct form *f, const struct stub_plan *p)
{
	int page = form_label(f), word = form_label(f), found = form_label(f);
	int cut = form_label(f), fault = form_label(f), null = form_label(f);
	int look = form_label(f);

	form_place(f, p->measure);
	FORM(f, .op = FORM_NEST);
	form_two(f, FORM_ADD, true, FORM_NEXT, FORM_POINTER);
	form_move(f, FORM_FROM, FORM_POINTER);
	form_two_const(f, FORM_AND, true, FORM_FROM, -STRINGS_WORD_BYTES);
	form_place(f, page);
	form_check(f, p, FORM_CALLER, fault);
	end_of_page(f, p);
	form_const(f, FORM_SET, UINT64_C(0) - UINT64_C(0x0101010101010101));
	form_const(f, FORM_SPARE, UINT64_C(0x8080808080808080));
	first_word(f, look);

	form_place(f, word);
	form_load(f, FORM_VALUE, form_at(FORM_FROM, 0), sizeof(uint64_t), false);
	form_place(f, look);
	form_compute(f, FORM_SPARE_2, form_indexed(FORM_VALUE, FORM_SET, 0));
	form_one(f, FORM_COMPLEMENT, true, FORM_VALUE);
	form_two(f, FORM_AND, true, FORM_VALUE, FORM_SPARE_2);
	form_two(f, FORM_AND, true, FORM_VALUE, FORM_SPARE);
	form_jump_if_const(f, true, FORM_VALUE, FORM_NE, 0, found);
	form_two_const(f, FORM_ADD, true, FORM_FROM, STRINGS_WORD_BYTES);
	form_jump_if(f, true, FORM_FROM, FORM_BELOW, FORM_SCRATCH, word);
	form_jump_if(f, true, FORM_FROM, FORM_BELOW, FORM_NEXT, page);
	form_jump(f, cut);

	/* The lowest bit is bit 7 of the NUL: its number >> 3 is the index of the byte. */
	form_place(f, found);
	form_two(f, FORM_LOWEST, true, FORM_VALUE, FORM_VALUE);
	form_two_const(f, FORM_SHR, false, FORM_VALUE, WORD_SHIFT);
	form_two(f, FORM_ADD, true, FORM_VALUE, FORM_FROM);
	form_jump_if(f, true, FORM_VALUE, FORM_NOT_BELOW, FORM_NEXT, cut);
	return_length(f, FORM_VALUE, 0);

	form_place(f, fault); /* return the bytes before the unreadable page, if any */
	form_jump_if(f, true, FORM_FROM, FORM_NOT_ABOVE, FORM_POINTER, null);
	form_compute(f, FORM_NEXT, form_at(FORM_FROM, 1));
	form_place(f, cut);
	return_length(f, FORM_NEXT, (UINT64_C(1) << RING_STRING_TRUNCATED_BIT) - 1);
	form_place(f, null);
	return_null(f);
}

/*
 * The subroutine that checks the pages from POINTER to NEXT: VALUE = how many bytes are readable,
 * with flags, as in a record.
 */
static void form_extent_subroutine(struct form *f, const struct stub_plan *p)
{
	int page = form_label(f), all = form_label(f), fault = form_label(f);
	int null = form_label(f);

	form_place(f, p->extent);
	FORM(f, .op = FORM_NEST);
	form_jump_if(f, true, FORM_POINTER, FORM_EQ, FORM_NEXT, all);
	form_move(f, FORM_FROM, FORM_POINTER);
	form_place(f, page);
	form_check(f, p, FORM_CALLER, fault);
	form_two_const(f, FORM_ADD, true, FORM_FROM, (int32_t)p->stub->page_bytes);
	form_page_of(f, p, FORM_FROM);
	form_jump_if(f, true, FORM_FROM, FORM_BELOW, FORM_NEXT, page);

	form_place(f, all);
	return_length(f, FORM_NEXT, 0);

	form_place(f, fault); /* return the bytes before the unreadable page, if any */
	form_jump_if(f, true, FORM_FROM, FORM_NOT_ABOVE, FORM_POINTER, null);
	return_length(f, FORM_FROM, UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	form_place(f, null);
	return_null(f);
}

/* ==== Captures ================================================================================ */

/* This many bytes above the stack pointer are certainly in stack frames. */
enum { STACK_NEAR = 2 * PAGE_BYTES };

/* ---- Checked pointers -------------------------------------------------------------- */

/* Jumps to `bad` unless the bytes at POINTER are readable; else to `good`, or falls through. */
static void check_bytes(struct form *f, const struct stub_plan *p, uint32_t size, int good, int bad)
{
	form_untag(f, p);
	form_move(f, FORM_FROM, FORM_POINTER);
	form_check(f, p, FORM_FRAME, bad);
	if (size == 1)
		return;
	/* The last byte may be in another page. */
	form_compute(f, FORM_FROM, form_at(FORM_POINTER, (int32_t)size - 1));
	form_move(f, FORM_VALUE, FORM_FROM);
	form_compare_pages(f, p, FORM_VALUE, FORM_POINTER);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, good);
	form_check(f, p, FORM_FRAME, bad);
}

/* POINTER = a memory operand's address; jumps to `bad` if it is unreadable. */
static void pointer(struct form *f, const struct stub_plan *p, const struct arch_arg *arg,
	bool is_static, int bad)
{
	int32_t near = STACK_NEAR - (int32_t)arg->size;
	int good;

	form_operand_address(f, FORM_POINTER, arg);
	if (!operand_is_checked(p->isa, arg, is_static))
		return;
	good = form_label(f);
	if (arg->base == p->isa->frame_pointer) {
		form_compute(f, FORM_VALUE, form_at(FORM_FRAME, near - 1));
		form_two(f, FORM_SUB, true, FORM_VALUE, FORM_POINTER);
		form_jump_if_const(f, true, FORM_VALUE, FORM_BELOW, near, good);
	}
	check_bytes(f, p, arg->size, good, bad);
	form_place(f, good);
}

/* ---- Steps, and bytes of a stated length --------------------------------------------- */

/* VALUE = a scalar; changes POINTER. Jumps to `bad` if it is unreadable. */
static void checked_value(struct form *f, const struct stub_plan *p, const struct arch_arg *arg,
	bool is_static, int bad)
{
	if (!operand_is_checked(p->isa, arg, is_static)) {
		form_operand(f, FORM_VALUE, arg);
		return;
	}
	pointer(f, p, arg, is_static, bad);
	form_load(
		f, FORM_VALUE, form_at(FORM_POINTER, 0), (uint8_t)arg->size, value_is_signed(arg));
}

/* VALUE = the argument, or what its steps lead to; may change temporary `temp`. */
static void found_value(
	struct form *f, const struct stub_plan *p, const struct arch_capture *c, int temp, int bad)
{
	checked_value(f, p, &c->arg, c->is_static, bad);
	for (int i = 0; i < c->step_count; i++) {
		const struct arch_step *step = &c->steps[i];
		int good;

		if (step->scale) {
			form_store(f, FORM_VALUE, form_temp(temp));
			checked_value(f, p, &c->index, c->index_is_static, bad);
			form_multiply(f, FORM_VALUE, FORM_VALUE, step->scale);
			form_two_at(f, FORM_ADD, FORM_VALUE, form_temp(temp));
		}
		if (!step->size) {
			form_compute(f, FORM_VALUE, form_at(FORM_VALUE, step->offset));
			continue;
		}
		good = form_label(f);
		form_compute(f, FORM_POINTER, form_at(FORM_VALUE, step->offset));
		check_bytes(f, p, step->size, good, bad);
		form_place(f, good);
		form_load(f, FORM_VALUE, form_at(FORM_POINTER, 0), step->size, step->is_signed);
	}
}

/* POINTER = the pointer in VALUE without its tag. */
static void follow(struct form *f, const struct stub_plan *p)
{
	form_move(f, FORM_POINTER, FORM_VALUE);
	form_untag(f, p);
}

/*
 * VALUE = a record's word for the string at POINTER, of at most NEXT bytes. Temporary `temp` holds
 * the length that an argument states, which may be larger.
 */
static void sized_string(struct form *f, const struct stub_plan *p, int temp)
{
	int done = form_label(f);

	form_const(f, FORM_VALUE, 0);
	form_jump_if_const(f, true, FORM_NEXT, FORM_EQ, 0, done);
	form_store(f, FORM_NEXT, form_temp(temp + 1));
	form_two_const(f, FORM_ADD, true, FORM_NEXT, 1);
	FORM(f, .op = FORM_CALL_NEST, .label = p->measure);
	form_const(f, FORM_RIGHT, UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	form_two_at(f, FORM_ADD, FORM_RIGHT, form_temp(temp + 1));
	form_jump_if(f, true, FORM_VALUE, FORM_NE, FORM_RIGHT, done);
	form_load(f, FORM_RIGHT, form_temp(temp + 1), sizeof(uint64_t), false);
	form_jump_if_at(f, sizeof(uint64_t), FORM_RIGHT, FORM_NE, form_temp(temp), done);
	/* the string has all bytes of the stated length, and no NUL */
	form_move(f, FORM_VALUE, FORM_RIGHT);
	form_place(f, done);
}

/*
 * Stores the pair (pointer and length) for bytes, or a string, whose length an argument states.
 * Jumps to `bad` if the length or the pointer is unreadable.
 */
static void prepare_bytes(
	struct form *f, const struct stub_plan *p, const struct arch_capture *c, int temp, int bad)
{
	int positive = form_label(f), all = form_label(f);

	checked_value(f, p, &c->length, c->length_is_static, bad);
	if (value_is_signed(&c->length)) {
		form_jump_if_const(f, true, FORM_VALUE, FORM_GE, 0, positive);
		form_const(f, FORM_VALUE, 0);
	}
	form_place(f, positive);
	form_store(f, FORM_VALUE, form_temp(temp));
	found_value(f, p, c, temp + 1, bad);
	follow(f, p);
	/* the stated length, at most bytes_max */
	form_const(f, FORM_NEXT, c->bytes_max);
	form_jump_if_at(f, sizeof(uint64_t), FORM_NEXT, FORM_NOT_ABOVE, form_temp(temp), all);
	form_load(f, FORM_NEXT, form_temp(temp), sizeof(uint64_t), false);
	form_place(f, all);
	if (c->is_string) {
		sized_string(f, p, temp);
	} else {
		int kept = form_label(f);

		form_two(f, FORM_ADD, true, FORM_NEXT, FORM_POINTER);
		FORM(f, .op = FORM_CALL_NEST, .label = p->extent);
		form_const(f, FORM_NEXT, c->bytes_max);
		form_jump_if_at(
			f, sizeof(uint64_t), FORM_NEXT, FORM_NOT_BELOW, form_temp(temp), kept);
		form_const(f, FORM_NEXT, UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
		form_two(f, FORM_OR, true, FORM_VALUE, FORM_NEXT);
		form_place(f, kept);
	}
	form_store_pair(f, temp, FORM_POINTER);
}

void form_capture_subroutines(struct form *f, const struct stub_plan *p)
{
	int no;

	if (p->strings)
		form_measure_subroutine(f, p);
	if (p->extents)
		form_extent_subroutine(f, p);
	if (p->strings || p->extents || p->checked || p->stacks)
		check_subroutine(f, p);
	if (p->stacks) {
		form_place(f, p->check_stack);
		if_known(f, p);
		no = form_label(f);
		if (p->stub->may_call_kernel && p->stub->may_ask_stack) {
			form_jump_if_const(
				f, true, FORM_FROM, FORM_BELOW, (int32_t)p->stub->page_bytes, no);
			form_two_const(f, FORM_AND, true, FORM_FROM, -WORD_BYTES);
			ask_resident(f, p, no);
			ask_once(f, p);
			FORM(f, .op = FORM_YES_IF, .wide = true, .a = FORM_VALUE,
				.is_constant = true, .value = (uint64_t)MINUS_EINVAL);
		}
		form_place(f, no);
		FORM(f, .op = FORM_NO);
	}
}

/* ---- Before the sequence -------------------------------------------------------------- */

/*
 * Prepares the thread's name. Only the kernel has this name: prctl(2), PR_GET_NAME, copies 16 bytes
 * with a NUL among them, and fails only for a bad address (kernel/sys.c of Linux). The C library
 * keeps no copy, and any process may change the name (/proc/PID/task/TID/comm). So the stub asks at
 * each hit. This way a hit has the name that its thread had at that time, and no controller has to
 * read the name before the thread ends.
 *
 *	POINTER	where the name goes
 *	VALUE	the name's length
 */
static void prepare_comm(struct form *f, const struct stub_plan *p, int i)
{
	int next = form_label(f), end = form_label(f);

	form_store_const(f, form_temp(p->spill[i]), sizeof(uint64_t), 0);
	form_store_const(f, form_temp(p->spill[i] + 1), sizeof(uint64_t), 0);
	form_compute(f, FORM_POINTER, form_temp(p->spill[i]));
	form_move(f, FORM_FROM, FORM_POINTER);
	form_const(f, FORM_SET, PR_GET_NAME);
	FORM(f, .op = FORM_KERNEL, .value = FORM_CALL_PRCTL);
	form_const(f, FORM_VALUE, 0);
	form_place(f, next);
	form_load(f, FORM_SCRATCH, form_indexed(FORM_POINTER, FORM_VALUE, 0), 1, false);
	form_jump_if_const(f, false, FORM_SCRATCH, FORM_EQ, 0, end);
	form_two_const(f, FORM_ADD, false, FORM_VALUE, 1);
	form_jump_if_const(f, false, FORM_VALUE, FORM_BELOW, ARCH_COMM_MAX, next);
	form_place(f, end);
	form_store_pair(f, p->temp[i], FORM_POINTER);
}

static void keep_string(struct form *f, const struct stub_plan *p, int i)
{
	form_const(f, FORM_NEXT, p->stub->captures[i].bytes_max + 1);
	FORM(f, .op = FORM_CALL_NEST, .label = p->measure);
	form_store_pair(f, p->temp[i], FORM_POINTER);
}

/*
 * Stores the result of a capture. VALUE is the scalar, or the string's address; POINTER is the
 * address of the bytes.
 */
static void keep(struct form *f, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	uint64_t cut = c->arg.size > capture_bytes(c);

	if (c->is_string) {
		follow(f, p);
		keep_string(f, p, i);
	} else if (arch_capture_has_bytes(c)) {
		form_const(f, FORM_VALUE, capture_bytes(c) | cut << RING_STRING_TRUNCATED_BIT);
		form_store_pair(f, p->temp[i], FORM_POINTER);
	} else {
		form_store(f, FORM_VALUE, form_temp(p->temp[i]));
	}
}

/* Prepares a capture without a check. */
static void prepare_operand(struct form *f, const struct stub_plan *p, int i)
{
	const struct arch_arg *arg = &p->stub->captures[i].arg;

	if (p->stub->captures[i].is_string) {
		form_operand(f, FORM_POINTER, arg);
		form_untag(f, p);
		keep_string(f, p, i);
		return;
	}
	form_operand(f, FORM_VALUE, arg);
	if (operand_is_half(arg)) {
		form_store(f, FORM_VALUE, form_temp(p->spill[i]));
		form_compute(f, FORM_POINTER, form_temp(p->spill[i]));
	}
	keep(f, p, i);
}

static void prepare_followed(struct form *f, const struct stub_plan *p, int i, int bad)
{
	const struct arch_capture *c = &p->stub->captures[i];

	if (c->has_length) {
		prepare_bytes(f, p, c, p->temp[i], bad);
		return;
	}
	if (c->step_count) {
		found_value(f, p, c, p->temp[i], bad);
	} else {
		pointer(f, p, &c->arg, c->is_static, bad);
		if (c->is_string || !arch_capture_has_bytes(c))
			form_load(f, FORM_VALUE, form_at(FORM_POINTER, 0), (uint8_t)c->arg.size,
				value_is_signed(&c->arg));
	}
	keep(f, p, i);
}

static void prepare_capture(struct form *f, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	bool checked = capture_is_checked(p->isa, c);
	int bad, done;

	if (c->begun || c->stack || (!checked && !arch_capture_has_bytes(c)))
		return;
	if (c->is_comm) {
		prepare_comm(f, p, i);
	} else if (c->arg.kind == ARCH_ARG_FP_REGISTER) {
		form_compute(f, FORM_POINTER, form_temp(p->spill[i]));
		FORM(f, .op = FORM_STORE_VECTOR, .b = p->stub->captures[i].arg.base,
			.mem = form_at(FORM_POINTER, 0));
		form_const(f, FORM_VALUE, VECTOR_BYTES);
		form_store_pair(f, p->temp[i], FORM_POINTER);
	} else if (c->arg.kind != ARCH_ARG_MEMORY && !c->has_length && !c->step_count) {
		prepare_operand(f, p, i);
	} else {
		bad = form_label(f);
		done = form_label(f);
		prepare_followed(f, p, i, bad);
		if (checked)
			form_jump(f, done);
		form_place(f, bad);
		if (checked) {
			/* Mark it as unreadable: subtraction clears its bit, which is set. */
			form_memory_const(f, FORM_COUNT, form_temp(p->mask_temp), sizeof(uint32_t),
				(int32_t) - (UINT32_C(1) << i));
			form_store_const(f, form_temp(p->temp[i]), sizeof(uint64_t), 0);
			if (arch_capture_has_bytes(&p->stub->captures[i])) {
				form_const(f, FORM_VALUE, UINT64_C(1) << RING_STRING_NULL_BIT);
				form_store(f, FORM_VALUE, form_temp(p->temp[i] + 1));
			}
		}
		form_place(f, done);
	}
}

void form_prepare(struct form *f, const struct stub_plan *p, uint32_t captures)
{
	for (int i = 0; i < p->stub->capture_count; i++)
		if (captures >> i & 1)
			prepare_capture(f, p, i);
}

/* ---- Within the sequence ----------------------------------------------------------------- */

void form_captured_word(struct form *f, const struct stub_plan *p, int i)
{
	if (arch_capture_has_bytes(&p->stub->captures[i]))
		form_load(f, FORM_VALUE, form_temp(p->temp[i] + 1), sizeof(uint64_t), false);
	else
		form_captured(f, FORM_VALUE, p, i);
}

void form_capture(struct form *f, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	struct form_mem place = form_at(FORM_RECORD, p->record_at[i]);
	uint8_t bytes = (uint8_t)arch_capture_fixed(c);

	if (arch_capture_has_bytes(c) || p->checked >> i & 1) {
		form_captured_word(f, p, i);
		form_store_packed(f, FORM_VALUE, place, bytes);
	} else {
		form_store_operand(f, &c->arg, place, bytes);
	}
}

/* Copies bytes from FROM + index + disp to POINTER + index + disp. */
static void copy_part(struct form *f, int index, int32_t disp, uint8_t bytes)
{
	form_load(f, FORM_VALUE, form_indexed(FORM_FROM, index, disp), bytes, false);
	form_memory(f, FORM_STORE, FORM_VALUE, form_indexed(FORM_POINTER, index, disp), bytes);
}

void form_copy(struct form *f)
{
	int words = form_label(f), few = form_label(f), bytes = form_label(f);
	int done = form_label(f);

	form_compute(f, FORM_SPARE, form_at(FORM_SCRATCH, -8));
	form_const(f, FORM_NEXT, 0);
	form_jump_if_const(f, false, FORM_SCRATCH, FORM_BELOW, 8, few);
	form_place(f, words);
	copy_part(f, FORM_NEXT, 0, 8);
	form_two_const(f, FORM_ADD, true, FORM_NEXT, 8);
	form_jump_if(f, true, FORM_NEXT, FORM_BELOW, FORM_SPARE, words);
	copy_part(f, FORM_SPARE, 0, 8);
	form_jump(f, done);

	form_place(f, few);
	form_jump_if_const(f, false, FORM_SCRATCH, FORM_BELOW, 4, bytes);
	copy_part(f, FORM_NONE, 0, 4);
	copy_part(f, FORM_SCRATCH, -4, 4);
	form_jump(f, done);

	form_place(f, bytes);
	form_jump_if(f, false, FORM_NEXT, FORM_NOT_BELOW, FORM_SCRATCH, done);
	copy_part(f, FORM_NEXT, 0, 1);
	form_two_const(f, FORM_ADD, false, FORM_NEXT, 1);
	form_jump(f, bytes);
	form_place(f, done);
}
