/* SPDX-License-Identifier: MIT */
/*
 * Captures of the stack: its bytes, or return addresses.
 *
 * Memory above the stack pointer's page may be unmapped, or no stack, so each page is checked
 * before it is read (captures.c).
 *
 * A C library puts a thread's control block, where the thread pointer leads, above all frames of a
 * stack that it allocates; nothing is read beyond. If the block lies within the bytes to copy, they
 * are one stack, whose pages are checked like pointers. Otherwise the copy ends at the first page
 * that is not in memory: unused, swapped out, or in a large variable.
 *
 * Code without frame pointers may keep any number in the register, so a walk ends at a frame
 * pointer that is not above the previous one, is far away, or is unreadable. If the site's function
 * has saved its caller's frame pointer, the walk begins with that one. A frame pointer points to
 * the caller's frame pointer, and the return address is in the next word.
 */
#include <string.h>

#include "arch/layout.h"
#include "arch/stub/plan.h"

/* ==== Bytes and return addresses ============================================================== */

enum { FRAME_BYTES_MAX = 1 << 20 };

/* FROM = the page after that of POINTER, the stack pointer. */
static void first_page(struct form *f, const struct stub_plan *p)
{
	form_compute(f, FORM_FROM, form_at(FORM_POINTER, (int32_t)p->stub->page_bytes));
	form_page_of(f, p, FORM_FROM);
}

/*
 * Jumps to `own` if POINTER is in the main thread's stack, or if the thread pointer is in [POINTER,
 * NEXT): then NEXT becomes the thread pointer. Changes VALUE.
 */
static void if_own(struct form *f, const struct stub_plan *p, int own)
{
	const struct arch_extent *stack = &p->stub->safe.stack;
	int other = form_label(f), any = form_label(f);

	if (stack->size) {
		form_address(f, FORM_VALUE, stack->start);
		form_jump_if(f, true, FORM_POINTER, FORM_BELOW, FORM_VALUE, other);
		form_address(f, FORM_VALUE, stack->start + stack->size);
		form_jump_if(f, true, FORM_POINTER, FORM_BELOW, FORM_VALUE, own);
	}
	form_place(f, other);
	if (p->stub->thread.has_tp) {
		form_compute(f, FORM_VALUE, form_at(FORM_THREAD, 0));
		form_jump_if(f, true, FORM_VALUE, FORM_BELOW, FORM_POINTER, any);
		form_jump_if(f, true, FORM_VALUE, FORM_NOT_BELOW, FORM_NEXT, any);
		form_move(f, FORM_NEXT, FORM_VALUE);
		form_jump(f, own);
	}
	form_place(f, any);
}

/*
 * If a page between POINTER and NEXT is not in memory, NEXT = the first such page. mincore(2) fills
 * a byte for each page; the bytes stay 0 if it fails. Keeps POINTER.
 */
static void end_of_resident(struct form *f, const struct stub_plan *p, int i)
{
	int next = form_label(f), cut = form_label(f), done = form_label(f);

	first_page(f, p);
	form_jump_if(f, true, FORM_FROM, FORM_NOT_BELOW, FORM_NEXT, done);
	if (p->stub->may_call_kernel && p->stub->may_ask_stack) {
		for (int k = 0; k < RESIDENT_TEMPS; k++)
			form_store_const(f, form_temp(p->spill[i] + k), sizeof(uint64_t), 0);
		form_move(f, FORM_SET, FORM_FROM);
		form_move(f, FORM_FROM, FORM_NEXT);
		form_two(f, FORM_SUB, true, FORM_FROM, FORM_SET);
		form_compute(f, FORM_SCRATCH, form_temp(p->spill[i]));
		FORM(f, .op = FORM_KERNEL, .value = FORM_CALL_MINCORE);
		first_page(f, p);
		form_compute(f, FORM_SCRATCH, form_temp(p->spill[i]));
		form_place(f, next);
		form_load(f, FORM_VALUE, form_at(FORM_SCRATCH, 0), 1, false);
		form_two_const(f, FORM_AND, true, FORM_VALUE, 1);
		form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, cut);
		form_two_const(f, FORM_ADD, true, FORM_SCRATCH, 1);
		form_two_const(f, FORM_ADD, true, FORM_FROM, (int32_t)p->stub->page_bytes);
		form_jump_if(f, true, FORM_FROM, FORM_BELOW, FORM_NEXT, next);
		form_jump(f, done);
	}
	form_place(f, cut);
	form_move(f, FORM_NEXT, FORM_FROM);
	form_place(f, done);
}

/*
 * Captures the bytes of the stack.
 *
 *	POINTER	the stack pointer
 *	NEXT	the end of the wanted bytes; at last, the end of the readable bytes
 *	FROM	the page to check
 */
static void bytes_of_stack(struct form *f, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	int next = form_label(f), all = form_label(f), cut = form_label(f), done = form_label(f);
	int own = form_label(f);
	int32_t page = (int32_t)p->stub->page_bytes;

	form_original(f, FORM_POINTER, p->isa->stack_pointer);
	form_compute(f, FORM_NEXT, form_at(FORM_POINTER, c->bytes_max));
	if_own(f, p, own);
	end_of_resident(f, p, i);
	form_place(f, own);
	first_page(f, p);
	form_place(f, next);
	form_jump_if(f, true, FORM_FROM, FORM_NOT_BELOW, FORM_NEXT, all);
	form_check(f, p, FORM_FRAME, cut);
	form_two_const(f, FORM_ADD, true, FORM_FROM, page);
	form_jump(f, next);
	form_place(f, cut);
	form_move(f, FORM_NEXT, FORM_FROM);
	form_place(f, all);
	form_move(f, FORM_VALUE, FORM_NEXT);
	form_two(f, FORM_SUB, true, FORM_VALUE, FORM_POINTER);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, (int32_t)c->bytes_max, done);
	form_two_const(f, FORM_OR, true, FORM_VALUE, 1 << RING_STRING_TRUNCATED_BIT);
	form_place(f, done);
	form_store_pair(f, p->temp[i], FORM_POINTER);
}

/*
 * Jumps to `end` unless the word at NEXT + offset is readable. Temporary `page` holds the last
 * readable page. Keeps POINTER and NEXT.
 */
static void readable(
	struct form *f, const struct stub_plan *p, int page, int temp, int32_t offset, int end)
{
	int known = form_label(f);

	form_compute(f, FORM_FROM, form_at(FORM_NEXT, offset));
	form_move(f, FORM_VALUE, FORM_FROM);
	form_page_of(f, p, FORM_VALUE);
	form_jump_if_at(f, sizeof(uint64_t), FORM_VALUE, FORM_EQ, form_temp(page), known);
	form_check_stack(f, p, temp, end);
	form_page_of(f, p, FORM_FROM);
	form_store(f, FORM_FROM, form_temp(page));
	form_place(f, known);
}

/*
 * Captures the return addresses by a walk through the stack frames.
 *
 *	POINTER	where the addresses go
 *	NEXT	the current frame pointer
 */
static void frames(struct form *f, const struct stub_plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	int page = p->spill[i] + STACK_PAGE;
	struct form_mem last = form_temp(p->spill[i] + STACK_LAST),
			count = form_temp(p->spill[i] + STACK_COUNT);
	struct form_mem place = {.base = FORM_POINTER, .index = FORM_SCRATCH, .scale = 8};
	int next = form_label(f), end = form_label(f);

	form_compute(f, FORM_POINTER, form_temp(p->spill[i] + STACK_TEMPS));
	form_original(f, FORM_VALUE, p->isa->stack_pointer);
	form_store(f, FORM_VALUE, last);
	/* So far, no page is known to be readable. */
	form_store_const(f, form_temp(page), sizeof(uint64_t), 1);
	form_store_const(f, count, sizeof(uint64_t), 0);
	if (c->arg.kind == ARCH_ARG_MEMORY) {
		form_operand_address(f, FORM_NEXT, &c->arg);
		form_load(f, FORM_NEXT, form_at(FORM_NEXT, 0), sizeof(uint64_t), false);
	} else {
		form_original(f, FORM_NEXT, p->isa->frame_pointer);
	}
	form_place(f, next);
	form_move(f, FORM_VALUE, FORM_NEXT);
	form_two_const(f, FORM_AND, true, FORM_VALUE, 7);
	form_jump_if_const(f, true, FORM_VALUE, FORM_NE, 0, end);
	form_move(f, FORM_VALUE, FORM_NEXT);
	form_two_at(f, FORM_SUB, FORM_VALUE, last);
	/* Unsigned comparison: a frame pointer below the last one is far away, too. */
	form_jump_if_const(f, true, FORM_VALUE, FORM_NOT_BELOW, FRAME_BYTES_MAX, end);
	if (p->stub->thread.has_tp) {
		form_compute(f, FORM_FROM, form_at(FORM_THREAD, 0));
		form_two_at(f, FORM_SUB, FORM_FROM, last);
		form_jump_if(f, true, FORM_FROM, FORM_NOT_ABOVE, FORM_VALUE, end);
	}
	readable(f, p, page, p->temp[i], 0, end);
	readable(f, p, page, p->temp[i], 8, end);
	form_load(f, FORM_SCRATCH, count, sizeof(uint64_t), false);
	form_load(f, FORM_VALUE, form_at(FORM_NEXT, 8), sizeof(uint64_t), false);
	form_one(f, FORM_UNSIGN, true, FORM_VALUE);
	form_store(f, FORM_VALUE, place);
	form_two_const(f, FORM_ADD, true, FORM_SCRATCH, 1);
	form_store(f, FORM_SCRATCH, count);
	form_jump_if_const(f, true, FORM_SCRATCH, FORM_NOT_BELOW, (int32_t)c->bytes_max / 8, end);
	form_compute(f, FORM_VALUE, form_at(FORM_NEXT, 8));
	form_store(f, FORM_VALUE, last);
	form_load(f, FORM_NEXT, form_at(FORM_NEXT, 0), sizeof(uint64_t), false);
	form_jump(f, next);
	form_place(f, end);
	form_load(f, FORM_VALUE, count, sizeof(uint64_t), false);
	form_two_const(f, FORM_SHL, true, FORM_VALUE, 3);
	form_store_pair(f, p->temp[i], FORM_POINTER);
}

/* Returns one bit for each capture of the stack that the action uses. */
static uint32_t action_stacks(const struct arch_stub *s, const struct arch_action *a)
{
	uint32_t used = 0, stacks = 0;

	if (a->kind == ARCH_ACTION_RECORD)
		used = (uint32_t)((UINT64_C(1) << s->recorded) - 1);
	for (int k = 0; k < a->gather.key_count; k++)
		if (!a->gather.keys[k].number)
			used |= UINT32_C(1) << a->gather.keys[k].string;
	for (int i = 0; i < s->capture_count; i++)
		stacks |= (uint32_t)(s->captures[i].stack != ARCH_STACK_NOT) << i;
	return used & stacks;
}

void form_prepare_stacks(struct form *f, const struct stub_plan *p)
{
	uint32_t wanted = action_stacks(p->stub, p->at->action);

	for (int i = 0; i < p->stub->capture_count; i++) {
		if (!(wanted >> i & 1))
			continue;
		if (p->stub->captures[i].stack == ARCH_STACK_BYTES)
			bytes_of_stack(f, p, i);
		else
			frames(f, p, i);
	}
}

/* ==== Unwinding =============================================================================== */

struct fde {
	uint32_t length;
	uint32_t cie; /* distance from this field back to the CIE, in bytes */
	uint64_t start, size;
	uint8_t augmentation, nops[7];
};
_Static_assert(sizeof(struct fde) == 32, "entries are aligned");

size_t arch_call_unwind(const struct arch *arch, const struct arch_extent *stubs, size_t count,
	uint8_t *out, size_t room)
{
	uint32_t cie_bytes = arch->stubs->cie_bytes;
	size_t at = sizeof(cie_bytes) + cie_bytes;
	size_t all = at + count * sizeof(struct fde) + sizeof(uint32_t);

	if (room < all)
		return all;
	memcpy(out, &cie_bytes, sizeof(cie_bytes));
	memcpy(out + sizeof(cie_bytes), arch->stubs->cie, cie_bytes);
	for (size_t i = 0; i < count; i++, at += sizeof(struct fde)) {
		struct fde fde = {.length = sizeof(fde) - sizeof(fde.length),
			.cie = (uint32_t)(at + sizeof(fde.length)),
			.start = stubs[i].start,
			.size = stubs[i].size};

		memcpy(out + at, &fde, sizeof(fde));
	}
	memset(out + at, 0, sizeof(uint32_t)); /* the terminator */
	return all;
}
