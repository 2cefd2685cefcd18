/* SPDX-License-Identifier: MIT */
/*
 * Subroutines of a stub that measure what a pointer points to.
 *
 * The end of a string is searched in aligned words, which never cross a page: a byte of w is
 * zero where (w - 0x01..01) & ~w & 0x80..80 has a bit, and the lowest such bit is always right
 * (Lamport, "Multiple byte processing with full-word instructions", CACM 18:8, 1975).
 *
 * Bytes whose length another argument states are not read before they are copied; only their
 * pages are checked.
 */
#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/stub/plan.h"

enum { WORD_BYTES = 8, WORD_SHIFT = 3 };

static void load_word(struct form *f)
{
	form_load(f, FORM_VALUE, form_at(FORM_FROM, 0), sizeof(uint64_t), false);
}

/*
 * Goes to `look` with the first word at FROM of a page; of the string's first one, bytes before the
 * string count as nonzero.
 */
static void first_word(struct form *f, int look)
{
	struct form_mem bits = {.base = FORM_NONE, .index = FORM_POINTER, .scale = 1 << WORD_SHIFT};

	load_word(f);
	form_jump_if(f, true, FORM_FROM, FORM_NOT_BELOW, FORM_POINTER, look);
	form_compute(f, FORM_RIGHT, bits); /* modulo 64 */
	form_const(f, FORM_SPARE_2, UINT64_MAX);
	form_shift_by_right(f, FORM_SHL, FORM_SPARE_2);
	form_one(f, FORM_COMPLEMENT, true, FORM_SPARE_2);
	form_two(f, FORM_OR, true, FORM_VALUE, FORM_SPARE_2);
	form_jump(f, look);
}

/* SCRATCH = the end of the page of FROM, or of what is of interest, if that comes first. */
static void end_of_page(struct form *f, const struct stub_plan *p)
{
	int within = form_label(f);

	form_compute(f, FORM_SCRATCH, form_at(FORM_FROM, (int32_t)p->stub->page_bytes));
	form_page_of(f, p, FORM_SCRATCH);
	form_jump_if(f, true, FORM_SCRATCH, FORM_BELOW, FORM_NEXT, within);
	form_move(f, FORM_SCRATCH, FORM_NEXT);
	form_place(f, within);
}

/* The end of a subroutine: VALUE = how far `end` is behind POINTER, and flag bits. */
static void return_length(struct form *f, int end, uint64_t flags)
{
	if (flags) {
		form_const(f, FORM_VALUE, flags);
		form_two(f, FORM_ADD, true, FORM_VALUE, end);
	} else if (end != FORM_VALUE) {
		form_move(f, FORM_VALUE, end);
	}
	form_two(f, FORM_SUB, true, FORM_VALUE, FORM_POINTER);
	form_alone(f, FORM_RETURN_NESTED);
}

static void return_null(struct form *f)
{
	form_const(f, FORM_VALUE, UINT64_C(1) << RING_STRING_NULL_BIT);
	form_alone(f, FORM_RETURN_NESTED);
}

/*
 * The subroutine that measures the string at POINTER up to NEXT bytes: VALUE = its length and the
 * flag bits, as in the record.
 *
 *	FROM	the word looked at, aligned
 *	SCRATCH	words below it can be read, and are of interest
 *	NEXT	the first byte that is of no interest
 *	SET, SPARE	the constants of the search
 */
void form_measure_subroutine(struct form *f, const struct stub_plan *p)
{
	int page = form_label(f), word = form_label(f), found = form_label(f);
	int cut = form_label(f), fault = form_label(f), null = form_label(f);
	int look = form_label(f);

	form_place(f, p->measure);
	form_alone(f, FORM_NEST);
	form_two(f, FORM_ADD, true, FORM_NEXT, FORM_POINTER);
	form_move(f, FORM_FROM, FORM_POINTER);
	form_two_const(f, FORM_AND, true, FORM_FROM, -WORD_BYTES);
	form_place(f, page);
	form_check(f, p, FORM_CALLER, fault);
	end_of_page(f, p);
	form_const(f, FORM_SET, UINT64_C(0) - UINT64_C(0x0101010101010101));
	form_const(f, FORM_SPARE, UINT64_C(0x8080808080808080));
	first_word(f, look);

	form_place(f, word);
	load_word(f);
	form_place(f, look);
	form_compute(f, FORM_SPARE_2, form_indexed(FORM_VALUE, FORM_SET, 0));
	form_one(f, FORM_COMPLEMENT, true, FORM_VALUE);
	form_two(f, FORM_AND, true, FORM_VALUE, FORM_SPARE_2);
	form_two(f, FORM_AND, true, FORM_VALUE, FORM_SPARE);
	form_jump_if_const(f, true, FORM_VALUE, FORM_NE, 0, found);
	form_two_const(f, FORM_ADD, true, FORM_FROM, WORD_BYTES);
	form_jump_if(f, true, FORM_FROM, FORM_BELOW, FORM_SCRATCH, word);
	form_jump_if(f, true, FORM_FROM, FORM_BELOW, FORM_NEXT, page);
	form_jump(f, cut);

	form_place(f, found); /* by its bit 7: shifted, the byte's number */
	form_lowest(f, FORM_VALUE, FORM_VALUE);
	form_two_const(f, FORM_SHR, false, FORM_VALUE, WORD_SHIFT);
	form_two(f, FORM_ADD, true, FORM_VALUE, FORM_FROM);
	form_jump_if(f, true, FORM_VALUE, FORM_NOT_BELOW, FORM_NEXT, cut);
	return_length(f, FORM_VALUE, 0);

	form_place(f, fault); /* show what came before it, if anything */
	form_jump_if(f, true, FORM_FROM, FORM_NOT_ABOVE, FORM_POINTER, null);
	form_compute(f, FORM_NEXT, form_at(FORM_FROM, 1));
	form_place(f, cut);
	return_length(f, FORM_NEXT, (UINT64_C(1) << RING_STRING_TRUNCATED_BIT) - 1);
	form_place(f, null);
	return_null(f);
}

/*
 * The subroutine that checks the pages from POINTER to NEXT: VALUE = the number of readable bytes
 * and the flag bits, as in the record.
 */
void form_extent_subroutine(struct form *f, const struct stub_plan *p)
{
	int page = form_label(f), all = form_label(f), fault = form_label(f);
	int null = form_label(f);

	form_place(f, p->extent);
	form_alone(f, FORM_NEST);
	form_jump_if(f, true, FORM_POINTER, FORM_EQ, FORM_NEXT, all);
	form_move(f, FORM_FROM, FORM_POINTER);
	form_place(f, page);
	form_check(f, p, FORM_CALLER, fault);
	form_two_const(f, FORM_ADD, true, FORM_FROM, (int32_t)p->stub->page_bytes);
	form_page_of(f, p, FORM_FROM);
	form_jump_if(f, true, FORM_FROM, FORM_BELOW, FORM_NEXT, page);

	form_place(f, all);
	return_length(f, FORM_NEXT, 0);

	form_place(f, fault); /* show what comes before that page, if anything */
	form_jump_if(f, true, FORM_FROM, FORM_NOT_ABOVE, FORM_POINTER, null);
	return_length(f, FORM_FROM, UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	form_place(f, null);
	return_null(f);
}
