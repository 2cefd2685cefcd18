/* SPDX-License-Identifier: MIT */
/*
 * Tables of keys (arch/layout.h): finding a key's cell.
 *
 * In a CPU's own table, the search is in the sequence that changes the cell. A new entry's tag is
 * stored last; then the sequence restarts and finds it. In the table of threads without rseq, a
 * thread claims an entry by its tag.
 *
 * Memory order: a thread that finds a tag must find the key. So FORM_PUBLISH stores the tag after
 * the key and, where threads share the table, a search acquires the tag. In a CPU's table, threads
 * see each other's writes, because the kernel orders their work. A claim (TABLE_TAG_FILLING) says
 * nothing about the key, which no thread reads before the tag changes again. Entries are never
 * freed.
 *
 * The hash multiplies by 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming,
 * volume 3, 6.4) and folds the upper half into the lower.
 */
#include <string.h>

#include "arch/layout.h"
#include "arch/norm.h"
#include "arch/stub/plan.h"

/* ==== Table =================================================================================== */

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

enum { AT_TAG = 0, AT_OWNER = 8, AT_WORDS = 16, WORD = sizeof(uint64_t) };

static const struct arch_key *key_of(const struct stub_plan *p, int k)
{
	return &p->at->action->gather.keys[k];
}

static int32_t bytes_at(const struct stub_plan *p)
{
	return AT_WORDS + WORD * p->at->action->gather.key_count;
}

/* FROM = a prepared capture's text; SCRATCH = its length. */
static void form_load_text(struct form *f, const struct stub_plan *p, int capture)
{
	int pair = p->temp[capture];

	form_load(f, FORM_FROM, form_temp(pair), WORD, false);
	form_load(f, FORM_SCRATCH, form_temp(pair + 1), sizeof(uint32_t), false);
	form_two_const(f, FORM_AND, false, FORM_SCRATCH, RING_STRING_LENGTH);
}

/* FROM = string `k` of the key, or its normal form; SCRATCH = the length. */
static void load_string(struct form *f, const struct stub_plan *p, int k)
{
	if (!key_of(p, k)->is_norm) {
		form_load_text(f, p, key_of(p, k)->string);
		return;
	}
	form_compute(f, FORM_FROM, form_temp(p->at->text_temp[k]));
	form_load(f, FORM_SCRATCH, form_temp(p->at->key_temp[k]), sizeof(uint32_t), false);
	form_two_const(f, FORM_AND, false, FORM_SCRATCH, RING_STRING_LENGTH);
}

/* ---- The hash ------------------------------------------------------------------------ */

/* VALUE *= RIGHT, and folds its upper half into the lower; changes `scratch`. */
static void mix(struct form *f, int scratch)
{
	form_two(f, FORM_MUL, true, FORM_VALUE, FORM_RIGHT);
	form_move(f, scratch, FORM_VALUE);
	form_two_const(f, FORM_SHR, true, scratch, 32);
	form_two(f, FORM_XOR, true, FORM_VALUE, scratch);
}

/* Adds SCRATCH bytes at FROM to the hash in VALUE; changes POINTER, NEXT, SPARE. */
void form_hash_subroutine(struct form *f, const struct stub_plan *p)
{
	int words = form_label(f), few = form_label(f), done = form_label(f);

	form_place(f, p->hash);
	form_const(f, FORM_NEXT, 0);
	form_jump_if_const(f, false, FORM_SCRATCH, FORM_BELOW, WORD, few);
	form_compute(f, FORM_SPARE, form_at(FORM_SCRATCH, -WORD));
	form_place(f, words);
	form_two_at(f, FORM_XOR, FORM_VALUE, form_indexed(FORM_FROM, FORM_NEXT, 0));
	mix(f, FORM_POINTER);
	form_two_const(f, FORM_ADD, true, FORM_NEXT, WORD);
	form_jump_if(f, true, FORM_NEXT, FORM_BELOW, FORM_SPARE, words);
	form_two_at(f, FORM_XOR, FORM_VALUE, form_indexed(FORM_FROM, FORM_SPARE, 0));
	form_jump(f, done);
	form_place(f, few);
	form_jump_if(f, false, FORM_NEXT, FORM_NOT_BELOW, FORM_SCRATCH, done);
	form_load(f, FORM_POINTER, form_indexed(FORM_FROM, FORM_NEXT, 0), 1, false);
	form_two(f, FORM_XOR, true, FORM_VALUE, FORM_POINTER);
	form_two(f, FORM_MUL, true, FORM_VALUE, FORM_RIGHT);
	form_two_const(f, FORM_ADD, false, FORM_NEXT, 1);
	form_jump(f, few);
	form_place(f, done);
	mix(f, FORM_POINTER);
	FORM(f, .op = FORM_RETURN);
}

void form_key(struct form *f, const struct stub_plan *p)
{
	const struct arch_gather *g = &p->at->action->gather;

	for (int k = 0; k < g->key_count; k++) {
		if (g->keys[k].is_norm)
			form_norm_key(f, p, k);
		if (!g->keys[k].number)
			continue;
		form_expr(f, p, g->keys[k].number, p->at->lost);
		form_store(f, FORM_VALUE, form_temp(p->at->key_temp[k]));
	}
	form_const(f, FORM_RIGHT, GOLDEN);
	form_const(f, FORM_VALUE, g->owner);
	for (int k = 0; k < g->key_count; k++) {
		form_two_at(f, FORM_XOR, FORM_VALUE, form_temp(p->at->key_temp[k]));
		mix(f, FORM_SCRATCH);
		if (g->keys[k].number)
			continue;
		load_string(f, p, k);
		form_call(f, p->hash);
	}
	form_two_const(f, FORM_OR, true, FORM_VALUE, 1);
	form_store(f, FORM_VALUE, form_temp(p->at->tag_temp));
}

void form_hash_text(struct form *f, const struct stub_plan *p, uint32_t seed, int capture)
{
	form_const(f, FORM_RIGHT, GOLDEN);
	form_const(f, FORM_VALUE, seed);
	form_two_at(f, FORM_XOR, FORM_VALUE, form_temp(p->temp[capture] + 1));
	mix(f, FORM_SCRATCH);
	form_load_text(f, p, capture);
	form_call(f, p->hash);
}

/* ---- Identities ----------------------------------------------------------------------- */

/* Adds a capture to the hash in VALUE; jumps to `unknown` if it is unreadable. */
static void hash_same(struct form *f, const struct stub_plan *p, int capture, int unknown)
{
	int fits = form_label(f);

	if (!arch_capture_has_bytes(&p->stub->captures[capture])) {
		if (p->checked >> capture & 1)
			form_jump_if_bits(f, form_temp(p->mask_temp), UINT32_C(1) << capture,
				FORM_EQ, unknown);
		form_captured(f, FORM_POINTER, p, capture);
		form_two(f, FORM_XOR, true, FORM_VALUE, FORM_POINTER);
		mix(f, FORM_POINTER);
		return;
	}
	form_jump_if_bits(f, form_temp(p->temp[capture] + 1), UINT32_C(1) << RING_STRING_NULL_BIT,
		FORM_NE, unknown);
	form_load_text(f, p, capture);
	form_jump_if_const(f, false, FORM_SCRATCH, FORM_NOT_ABOVE, FLIGHT_IDENTITY_BYTES, fits);
	form_const(f, FORM_SCRATCH, FLIGHT_IDENTITY_BYTES);
	form_place(f, fits);
	form_two(f, FORM_XOR, true, FORM_VALUE, FORM_SCRATCH);
	mix(f, FORM_POINTER);
	form_call(f, p->hash);
}

void form_identity(struct form *f, const struct stub_plan *p)
{
	const struct arch_flights *flights = &p->at->action->flights;
	int unknown = form_label(f), known = form_label(f);

	if (flights_by_frame(flights)) {
		form_operand_address(f, FORM_VALUE, &flights->frame);
		form_store(f, FORM_VALUE, form_temp(p->at->same_temp));
		return;
	}
	form_const(f, FORM_VALUE, 1);
	form_const(f, FORM_RIGHT, GOLDEN);
	for (int i = 0; i < flights->same_count; i++)
		hash_same(f, p, flights->same[i], unknown);
	if (flights->same_count) {
		form_two_const(f, FORM_OR, true, FORM_VALUE, 1);
		form_jump(f, known);
	}
	form_place(f, unknown);
	form_const(f, FORM_VALUE, 0);
	form_place(f, known);
	form_store(f, FORM_VALUE, form_temp(p->at->same_temp));
}

/* ---- Searching -------------------------------------------------------------------------- */

/* Jumps to `differ` unless SCRATCH bytes at FROM and POINTER are equal; changes VALUE, NEXT. */
static void compare_string(struct form *f, int differ)
{
	int words = form_label(f), few = form_label(f), done = form_label(f);

	form_const(f, FORM_NEXT, 0);
	form_jump_if_const(f, false, FORM_SCRATCH, FORM_BELOW, WORD, few);
	form_place(f, words);
	form_load(f, FORM_VALUE, form_indexed(FORM_FROM, FORM_NEXT, 0), WORD, false);
	form_jump_if_at(
		f, WORD, FORM_VALUE, FORM_NE, form_indexed(FORM_POINTER, FORM_NEXT, 0), differ);
	form_two_const(f, FORM_ADD, true, FORM_NEXT, WORD);
	form_compute(f, FORM_VALUE, form_at(FORM_SCRATCH, -WORD));
	form_jump_if(f, true, FORM_NEXT, FORM_BELOW, FORM_VALUE, words);
	form_load(f, FORM_VALUE, form_indexed(FORM_FROM, FORM_SCRATCH, -WORD), WORD, false);
	form_jump_if_at(f, WORD, FORM_VALUE, FORM_NE,
		form_indexed(FORM_POINTER, FORM_SCRATCH, -WORD), differ);
	form_jump(f, done);
	form_place(f, few);
	form_jump_if(f, false, FORM_NEXT, FORM_NOT_BELOW, FORM_SCRATCH, done);
	form_load(f, FORM_VALUE, form_indexed(FORM_FROM, FORM_NEXT, 0), 1, false);
	form_jump_if_at(
		f, 1, FORM_VALUE, FORM_NE, form_indexed(FORM_POINTER, FORM_NEXT, 0), differ);
	form_two_const(f, FORM_ADD, false, FORM_NEXT, 1);
	form_jump(f, few);
	form_place(f, done);
}

void form_compare_text(
	struct form *f, const struct stub_plan *p, int capture, int32_t offset, int differ)
{
	form_load(f, FORM_VALUE, form_temp(p->temp[capture] + 1), WORD, false);
	form_jump_if_at(f, WORD, FORM_VALUE, FORM_NE, form_at(FORM_RIGHT, offset), differ);
	form_compute(f, FORM_POINTER, form_at(FORM_RIGHT, offset + WORD));
	form_load_text(f, p, capture);
	compare_string(f, differ);
}

void form_write_text(struct form *f, const struct stub_plan *p, int capture, int32_t offset)
{
	form_load(f, FORM_VALUE, form_temp(p->temp[capture] + 1), WORD, false);
	form_store(f, FORM_VALUE, form_at(FORM_RIGHT, offset));
	form_compute(f, FORM_POINTER, form_at(FORM_RIGHT, offset + WORD));
	form_load_text(f, p, capture);
	form_copy(f);
}

/* Advances POINTER past a string of SCRATCH bytes, padded to 8. */
static void next_string(struct form *f)
{
	form_two_const(f, FORM_ADD, true, FORM_SCRATCH, WORD - 1);
	form_two_const(f, FORM_AND, true, FORM_SCRATCH, -WORD);
	form_two(f, FORM_ADD, true, FORM_POINTER, FORM_SCRATCH);
}

/* Jumps to `differ` unless the entry at RIGHT has this hit's key. */
static void match(struct form *f, const struct stub_plan *p, int differ)
{
	const struct arch_gather *g = &p->at->action->gather;

	form_jump_if_at_const(f, sizeof(g->owner), form_at(FORM_RIGHT, AT_OWNER), FORM_NE,
		(int32_t)g->owner, differ);
	for (int k = 0; k < g->key_count; k++) {
		form_load(f, FORM_VALUE, form_temp(p->at->key_temp[k]), WORD, false);
		form_jump_if_at(f, WORD, FORM_VALUE, FORM_NE,
			form_at(FORM_RIGHT, AT_WORDS + WORD * k), differ);
	}
	form_compute(f, FORM_POINTER, form_at(FORM_RIGHT, bytes_at(p)));
	for (int k = 0; k < g->key_count; k++) {
		if (g->keys[k].number)
			continue;
		load_string(f, p, k);
		compare_string(f, differ);
		next_string(f);
	}
}

/* Writes this hit's key, then its tag, into the entry at RIGHT; keeps RIGHT and SET. */
static void fill(struct form *f, const struct stub_plan *p)
{
	const struct arch_gather *g = &p->at->action->gather;

	form_const(f, FORM_VALUE, g->owner);
	form_store(f, FORM_VALUE, form_at(FORM_RIGHT, AT_OWNER));
	for (int k = 0; k < g->key_count; k++) {
		form_load(f, FORM_VALUE, form_temp(p->at->key_temp[k]), WORD, false);
		form_store(f, FORM_VALUE, form_at(FORM_RIGHT, AT_WORDS + WORD * k));
	}
	form_compute(f, FORM_POINTER, form_at(FORM_RIGHT, bytes_at(p)));
	for (int k = 0; k < g->key_count; k++) {
		if (g->keys[k].number)
			continue;
		load_string(f, p, k);
		form_copy(f);
		next_string(f);
	}
	form_load(f, FORM_VALUE, form_temp(p->at->tag_temp), WORD, false);
	form_memory(f, FORM_PUBLISH, FORM_VALUE, form_at(FORM_RIGHT, AT_TAG), WORD);
}

/*
 * Registers:
 *
 *	set	the table
 *	right	the current entry, number `spare`
 *	spare_2	the number of entries still to look at
 */
void form_lookup(struct form *f, const struct stub_plan *p, int again)
{
	const struct arch_gather *g = &p->at->action->gather;
	struct form_mem tag = form_at(FORM_RIGHT, AT_TAG), our_tag = form_temp(p->at->tag_temp);
	int next = form_label(f), same = form_label(f), free_entry = form_label(f);
	int advance = form_label(f), found = form_label(f);
	bool shared = again < 0;

	form_load(f, FORM_SPARE, our_tag, WORD, false);
	form_two_const(f, FORM_SHR, true, FORM_SPARE, 32);
	form_two_const(f, FORM_AND, false, FORM_SPARE, (int32_t)g->entries - 1);
	form_const(f, FORM_SPARE_2, TABLE_PROBES_MAX);
	form_place(f, next);
	form_multiply(f, FORM_RIGHT, FORM_SPARE, (int32_t)g->entry_bytes);
	form_two(f, FORM_ADD, true, FORM_RIGHT, FORM_SET);
	if (shared)
		form_acquire(f, FORM_VALUE, tag, WORD);
	else
		form_load(f, FORM_VALUE, tag, WORD, false);
	form_jump_if_at(f, WORD, FORM_VALUE, FORM_EQ, our_tag, same);
	form_jump_if_const(f, true, FORM_VALUE, FORM_EQ, 0, free_entry);
	form_place(f, advance);
	form_two_const(f, FORM_ADD, false, FORM_SPARE, 1);
	form_two_const(f, FORM_AND, false, FORM_SPARE, (int32_t)g->entries - 1);
	form_sub_jump_if_const(f, false, FORM_SPARE_2, FORM_NE, 1, next);
	form_const(f, FORM_SPARE, (uint64_t)g->entries + g->owner);
	form_multiply(f, FORM_RIGHT, FORM_SPARE, (int32_t)g->entry_bytes);
	form_two(f, FORM_ADD, true, FORM_RIGHT, FORM_SET);
	form_jump(f, found);

	form_place(f, free_entry);
	if (shared) { /* VALUE is 0, the tag of a free entry */
		form_const(f, FORM_SCRATCH, TABLE_TAG_FILLING);
		form_cas(f, tag, WORD, FORM_SCRATCH, FORM_NE, next);
	}
	fill(f, p);
	form_jump(f, shared ? found : again);

	form_place(f, same);
	match(f, p, advance);
	form_place(f, found);
	form_compute(f, FORM_SET, form_at(FORM_RIGHT, (int32_t)g->entry_cell));
}

/* ==== Normal forms ============================================================================ */

/*
 * Keys with normal forms. Before it hashes the key, the stub writes the normal form into its frame,
 * like norm_text() (arch/norm.c), so a table has an entry for each form.
 *
 * The text was checked when it was measured, and may change afterwards: then the form is that of
 * another text, but no longer than planned.
 */

enum { TEMP_MARK, TEMP_PIECE, TEMP_TAG, NORM_BYTES = sizeof(uint64_t) };
_Static_assert(TEMP_TAG + 1 == NORM_TEMPS, "there are as many as are planned");
_Static_assert(sizeof(norm_tables) % NORM_BYTES == 0, "the tables are words");

/* Returns the first step with this action; steps are sorted by actions. */
static int32_t first_of(enum norm_action action)
{
	return (int32_t)action << NORM_STATE_BITS;
}

static struct form_mem noted(const struct stub_plan *p, int temp)
{
	return form_temp(p->at->norm_temp + temp);
}

/*
 * Executes the step in RIGHT, other than PUT. Jumps to `put` to write VALUE, `skip` to go to the
 * next byte, or `next` to look at the same byte again.
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
	form_load(f, FORM_RIGHT, noted(p, TEMP_TAG), NORM_BYTES, false);
	form_load(f, FORM_RIGHT, form_indexed(FORM_FROM, FORM_RIGHT, 0), 1, false);
	form_jump_if(f, false, FORM_VALUE, FORM_NE, FORM_RIGHT, differs);
	form_change(f, FORM_COUNT, noted(p, TEMP_TAG));
	form_jump(f, skip);
	form_place(f, differs);
	form_const(f, FORM_SPARE_2, NORM_BODY);
	form_jump(f, next);

	form_place(f, open);
	form_load(f, FORM_RIGHT, noted(p, TEMP_PIECE), NORM_BYTES, false);
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
	form_load(f, FORM_SPARE, noted(p, TEMP_MARK), NORM_BYTES, false);
	form_const(f, FORM_VALUE, '?');
	form_jump(f, put);
}

/*
 * Makes the normal form of a text. Registers:
 *
 *	FROM, SCRATCH	the text, and its length
 *	NEXT		the number of the current byte
 *	POINTER, SPARE	where the normal form goes, and its length so far
 *	SPARE_2		the state
 *	SET		the tables
 */
static void form_norm(struct form *f, const struct stub_plan *p)
{
	int next = form_label(f), piece = form_label(f), other = form_label(f);
	int put = form_label(f), skip = form_label(f), end = form_label(f);
	int path = form_label(f), done = form_label(f);

	FORM(f, .op = FORM_LABEL, .a = FORM_SET, .label = p->norm);
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
	form_memory(f, FORM_STORE, FORM_VALUE, form_indexed(FORM_POINTER, FORM_SPARE, 0), 1);
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
	int capture = p->at->action->gather.keys[k].string;

	form_load_text(f, p, capture);
	form_compute(f, FORM_POINTER, form_temp(p->at->text_temp[k]));
	form_norm(f, p);
	/* the text's word, with the normal form's length */
	form_load(f, FORM_VALUE, form_temp(p->temp[capture] + 1), NORM_BYTES, false);
	form_two(f, FORM_SUB, true, FORM_VALUE, FORM_SCRATCH);
	form_two(f, FORM_ADD, true, FORM_VALUE, FORM_SPARE);
	form_store(f, FORM_VALUE, form_temp(p->at->key_temp[k]));
}

void form_norm_tables(struct form *f, const struct stub_plan *p)
{
	const uint8_t *bytes = (const uint8_t *)&norm_tables;

	FORM(f, .op = FORM_ALIGN, .value = NORM_BYTES);
	form_place(f, p->norm);
	for (size_t i = 0; i < sizeof(norm_tables); i += NORM_BYTES) {
		uint64_t word;

		memcpy(&word, bytes + i, NORM_BYTES);
		form_word(f, NORM_BYTES, word);
	}
}
