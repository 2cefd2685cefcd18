/* SPDX-License-Identifier: MIT */
/*
 * Keys that are normal forms: written into the frame before the hash is made, as norm_text() does
 * (arch/norm.c). So a table has an entry for each normal form, and not for each text.
 *
 * The text is read where it was measured, without a further check, as other strings of keys are. It
 * may change meanwhile: then the result is some text, but never longer, nor later.
 */
#include <string.h>

#include "arch/layout.h"
#include "arch/norm.h"
#include "arch/stub/plan.h"

enum { TEMP_MARK, TEMP_PIECE, TEMP_TAG, WORD = sizeof(uint64_t) };
_Static_assert(TEMP_TAG + 1 == NORM_TEMPS, "there are as many as are planned");
_Static_assert(sizeof(norm_tables) % WORD == 0, "the tables are words");

/* The first step that does what is in the table from there on. */
static int32_t first_of(enum norm_action action)
{
	return (int32_t)action << NORM_STATE_BITS;
}

static struct form_mem noted(const struct stub_plan *p, int temp)
{
	return form_temp(p->norm_temp + temp);
}

/*
 * All but PUT, which ends at `put`, with its byte in VALUE; the others go on at `skip` with the
 * next byte, or at `next`. RIGHT is the step.
 */
static void other_steps(struct form *f, const struct stub_plan *p, int put, int skip, int next)
{
	int literal = form_label(f), digits = form_label(f), restart = form_label(f);
	int open = form_label(f), match = form_label(f), differs = form_label(f);

	form_jump_if_const(f, false, FORM_RIGHT, FORM_BELOW, first_of(NORM_SKIP + 1), skip);
	form_jump_if_const(f, false, FORM_RIGHT, FORM_BELOW, first_of(NORM_AGAIN + 1), next);
	form_jump_if_const(f, false, FORM_RIGHT, FORM_BELOW, first_of(NORM_LITERAL + 1), literal);
	form_jump_if_const(f, false, FORM_RIGHT, FORM_BELOW, first_of(NORM_DIGITS + 1), digits);
	form_jump_if_const(f, false, FORM_RIGHT, FORM_BELOW, first_of(NORM_RESTART + 1), restart);
	form_jump_if_const(f, false, FORM_RIGHT, FORM_BELOW, first_of(NORM_OPEN + 1), open);

	form_place(f, match);
	form_load(f, FORM_RIGHT, noted(p, TEMP_TAG), WORD, false);
	form_load(f, FORM_RIGHT, form_indexed(FORM_FROM, FORM_RIGHT, 0), 1, false);
	form_jump_if(f, false, FORM_VALUE, FORM_NE, FORM_RIGHT, differs);
	form_change(f, FORM_COUNT, noted(p, TEMP_TAG));
	form_jump(f, skip);
	form_place(f, differs);
	form_const(f, FORM_SPARE_2, NORM_BODY);
	form_jump(f, next);

	form_place(f, open);
	form_load(f, FORM_RIGHT, noted(p, TEMP_PIECE), WORD, false);
	form_two_const(f, FORM_ADD, true, FORM_RIGHT, 1);
	form_store(f, FORM_RIGHT, noted(p, TEMP_TAG));
	form_jump(f, skip);

	form_place(f, restart);
	form_const(f, FORM_NEXT, 0);
	form_jump(f, next);

	form_place(f, digits);
	form_const(f, FORM_VALUE, 'N');
	form_jump(f, put);

	form_place(f, literal);
	form_load(f, FORM_SPARE, noted(p, TEMP_MARK), WORD, false);
	form_const(f, FORM_VALUE, '?');
	form_jump(f, put);
}

/*
 *	FROM, SCRATCH	the text, and its length
 *	NEXT		the byte looked at
 *	POINTER, SPARE	where the normal form goes, and its length so far
 *	SPARE_2		the state
 *	SET		the tables
 */
static void form_norm(struct form *f, const struct stub_plan *p)
{
	int next = form_label(f), piece = form_label(f), other = form_label(f);
	int put = form_label(f), skip = form_label(f), end = form_label(f);
	int path = form_label(f), done = form_label(f);

	form_label_address(f, FORM_SET, p->norm);
	form_const(f, FORM_NEXT, 0);
	form_const(f, FORM_SPARE, 0);
	form_const(f, FORM_SPARE_2, NORM_SCAN);

	form_place(f, next);
	form_jump_if_const(f, false, FORM_SPARE_2, FORM_ABOVE, NORM_TOP_SIGN, piece);
	form_store(f, FORM_SPARE, noted(p, TEMP_MARK));
	form_store(f, FORM_NEXT, noted(p, TEMP_PIECE));
	form_place(f, piece);
	form_jump_if(f, false, FORM_NEXT, FORM_NOT_BELOW, FORM_SCRATCH, end);
	form_load(f, FORM_VALUE, form_indexed(FORM_FROM, FORM_NEXT, 0), 1, false);
	form_load(f, FORM_RIGHT,
		form_indexed(FORM_SET, FORM_VALUE, offsetof(struct norm_tables, classes)), 1,
		false);
	form_multiply(f, FORM_SPARE_2, FORM_SPARE_2, NORM_CLASSES);
	form_two(f, FORM_ADD, true, FORM_RIGHT, FORM_SPARE_2);
	form_load(f, FORM_RIGHT,
		form_indexed(FORM_SET, FORM_RIGHT, offsetof(struct norm_tables, steps)), 1, false);
	form_move(f, FORM_SPARE_2, FORM_RIGHT);
	form_two_const(f, FORM_AND, false, FORM_SPARE_2, NORM_STATE_MASK);
	form_jump_if_const(f, false, FORM_RIGHT, FORM_NOT_BELOW, first_of(NORM_PUT + 1), other);
	form_place(f, put);
	form_store_part(f, FORM_VALUE, form_indexed(FORM_POINTER, FORM_SPARE, 0), 1);
	form_two_const(f, FORM_ADD, true, FORM_SPARE, 1);
	form_place(f, skip);
	form_two_const(f, FORM_ADD, true, FORM_NEXT, 1);
	form_jump(f, next);

	form_place(f, other);
	other_steps(f, p, put, skip, next);

	form_place(f, end);
	form_const(f, FORM_NEXT, 0);
	form_jump_if_const(f, false, FORM_SPARE_2, FORM_EQ, NORM_SCAN_SLASH, path);
	form_jump_if_const(f, false, FORM_SPARE_2, FORM_NE, NORM_SCAN, done);
	form_const(f, FORM_SPARE_2, NORM_TOP);
	form_jump(f, next);
	form_place(f, path);
	form_const(f, FORM_SPARE_2, NORM_PATH);
	form_jump(f, next);
	form_place(f, done);
}

void form_norm_key(struct form *f, const struct stub_plan *p, int k)
{
	int capture = p->stub->gather.keys[k].string;

	form_load_text(f, p, capture);
	form_compute(f, FORM_POINTER, form_temp(p->text_temp[k]));
	form_norm(f, p);
	/* The word of the text, with the new length. */
	form_load(f, FORM_VALUE, form_temp(p->temp[capture] + 1), WORD, false);
	form_two(f, FORM_SUB, true, FORM_VALUE, FORM_SCRATCH);
	form_two(f, FORM_ADD, true, FORM_VALUE, FORM_SPARE);
	form_store(f, FORM_VALUE, form_temp(p->key_temp[k]));
}

void form_norm_tables(struct form *f, const struct stub_plan *p)
{
	const uint8_t *bytes = (const uint8_t *)&norm_tables;

	form_align(f, WORD);
	form_place(f, p->norm);
	for (size_t i = 0; i < sizeof(norm_tables); i += WORD) {
		uint64_t word;

		memcpy(&word, bytes + i, WORD);
		form_word(f, WORD, word);
	}
}
