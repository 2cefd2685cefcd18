/* SPDX-License-Identifier: MIT */
/*
 * A test program may have hundreds of sites one after the other, and a proof for each of them, of
 * all bytes up to the jump, would be one search of the file for each length:
 *
 *	site 1		nop
 *	site 2		nop	nothing may enter here, or site 1 cannot share the jump,
 *	site 3		nop	nor here, or neither can site 2, nor site 1 before it
 *	site 3 + 1	jump	the proof of site 3, as if it were alone
 *
 * So only the last site of a row is planned, and one search answers for the others; their plans are
 * those of the last one, seen from further away.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/patch/patch.h"

static bool is_plain(const struct sdt_note *note)
{
	return note->provider != plan_entry_provider && !plan_is_ocaml(note->provider);
}

/* ---- Finding -------------------------------------------------------------------------- */

static bool list_notes(struct rows *rows, const struct sdt_notes *all)
{
	rows->all = calloc(all->count + 1, sizeof(*rows->all));
	if (!rows->all)
		return false;
	for (; rows->all_count < all->count; rows->all_count++) {
		const struct sdt_note *note = &all->notes[rows->all_count];

		rows->all[rows->all_count] = (struct row_note){note->pc, note};
	}
	ARRAY_SORT(rows->all, rows->all_count, pc);
	return true;
}

static bool list_sites(struct rows *rows)
{
	rows->sites = calloc(rows->all_count + 1, sizeof(*rows->sites));
	if (!rows->sites)
		return false;
	for (size_t i = 0; i < rows->all_count; i++) {
		struct row_site *before = rows->count ? &rows->sites[rows->count - 1] : NULL;
		const struct sdt_note *note = rows->all[i].note;

		if (before && before->pc == note->pc)
			before->is_plain = before->is_plain && is_plain(note);
		else
			rows->sites[rows->count++] = (struct row_site){.pc = note->pc,
				.note = note,
				.is_plain = is_plain(note),
				.planned = SIZE_MAX};
	}
	return true;
}

static bool is_short_nop(struct object *object, const struct arch *arch, uint64_t pc)
{
	const struct object_segment *segment = object_segment_of(object, pc);
	uint8_t bytes[ARCH_INSN_MAX];
	size_t size =
		segment && segment->executable ? object_read(object, pc, bytes, sizeof(bytes)) : 0;

	return arch->site_nop < arch->jump_length &&
	       arch->nop_length(bytes, size) == arch->site_nop;
}

/* A row that is too long is several, and only the last of them comes to its jump. */
static void find_rows(struct rows *rows, struct object *object, const struct arch *arch)
{
	for (size_t i = rows->count; i-- > 0;) {
		struct row_site *site = &rows->sites[i], *next = site + 1;

		site->last = i;
		if (i + 1 < rows->count && next->pc - site->pc == arch->site_nop &&
			site->is_plain && next->is_plain &&
			rows->sites[next->last].pc - site->pc < PLAN_ROW_MAX &&
			is_short_nop(object, arch, site->pc) &&
			is_short_nop(object, arch, next->pc))
			site->last = next->last;
	}
}

static size_t find_site(const struct rows *rows, uint64_t pc)
{
	size_t i = ARRAY_SEARCH(rows->sites, rows->count, pc, pc);

	return i < rows->count && rows->sites[i].pc == pc ? i : SIZE_MAX;
}

/* Lists what is to be planned for a note, unless it is listed already. */
static size_t list_note(struct rows *rows, const struct sdt_note *note)
{
	size_t i = is_plain(note) ? find_site(rows, note->pc) : SIZE_MAX;
	struct row_site *last;

	if (i == SIZE_MAX || !rows->sites[i].is_plain) {
		rows->notes[rows->note_count] = note;
		return rows->note_count++;
	}
	last = &rows->sites[rows->sites[i].last];
	if (last->planned == SIZE_MAX) {
		last->planned = rows->note_count;
		rows->notes[rows->note_count++] = last->note;
	}
	return last->planned;
}

struct probe_error *rows_init(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, const struct sdt_note *const *notes, size_t count,
	struct rows *ret)
{
	*ret = (struct rows){.notes = calloc(count + 1, sizeof(*ret->notes)),
		.planned = calloc(count + 1, sizeof(*ret->planned))};
	if (!ret->notes || !ret->planned || !list_notes(ret, all) || !list_sites(ret))
		return probe_error_no_memory();
	find_rows(ret, object, arch);
	for (size_t i = 0; i < count; i++)
		ret->planned[i] = list_note(ret, notes[i]);
	return NULL;
}

void rows_deinit(struct rows *rows)
{
	free(rows->all);
	free(rows->sites);
	free(rows->notes);
	free(rows->planned);
	*rows = (struct rows){0};
}

size_t rows_first(const struct rows *rows, uint64_t pc)
{
	return ARRAY_SEARCH(rows->all, rows->all_count, pc, pc);
}

bool rows_have_site(const struct rows *rows, uint64_t start, size_t length)
{
	size_t i = rows_first(rows, start);

	return i < rows->all_count && rows->all[i].pc - start < length;
}

bool rows_have_next(const struct rows *rows, uint64_t pc)
{
	size_t i = find_site(rows, pc);

	return i != SIZE_MAX && rows->sites[i].last != i;
}

/* ---- Proving -------------------------------------------------------------------------- */

/* A question about a site that is not the last of its row. */
struct question {
	struct plan plan; /* of which only the address matters */
	struct plan_way move;
	size_t site;
};

/* Whether the next site of a row can be reached with this one passed decides about both. */
static void settle(struct rows *rows)
{
	for (size_t i = rows->count; i-- > 0;) {
		struct row_site *site = &rows->sites[i];

		if (site->last != i && !site->cannot && site->last != i + 1)
			site->cannot = site[1].cannot;
	}
	for (size_t i = 1; i < rows->count; i++) {
		const struct row_site *before = &rows->sites[i - 1];

		if (before->last == rows->sites[i].last && !before->cannot)
			rows->sites[i].lead =
				(uint16_t)(before->lead + rows->sites[i].pc - before->pc);
	}
}

static size_t list_questions(const struct rows *rows, struct question *questions)
{
	size_t count = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct row_site *site = &rows->sites[i];

		if (site->last == i || rows->sites[site->last].planned == SIZE_MAX)
			continue;
		if (questions)
			questions[count] = (struct question){.plan = {.pc = site->pc}, .site = i};
		count++;
	}
	return count;
}

struct probe_error *rows_prove(struct rows *rows, struct object *object, const struct arch *arch,
	const struct sdt_notes *all)
{
	size_t count = list_questions(rows, NULL);
	AUTO_FREE struct question *questions = calloc(count + 1, sizeof(*questions));
	AUTO_FREE struct proof *proofs = calloc(count + 1, sizeof(*proofs));
	struct probe_error *error;

	if (!questions || !proofs)
		return probe_error_no_memory();
	if (!count)
		return NULL;
	list_questions(rows, questions);
	for (size_t i = 0; i < count; i++)
		proofs[i] = (struct proof){.plan = &questions[i].plan,
			.move = &questions[i].move,
			.window = (uint8_t)(arch->site_nop + 1)};
	error = prove(object, arch, all, proofs, count);
	for (size_t i = 0; i < count && !error; i++)
		rows->sites[questions[i].site].cannot = questions[i].move.cannot;
	if (!error)
		settle(rows);
	return error;
}

/* ---- Plans ---------------------------------------------------------------------------- */

/* Sees the move of the last site of a row from another one of it. */
static void see_move(const struct row_site *site, size_t row, struct plan_way *move)
{
	size_t lead = move->lead > row ? move->lead - row : 0; /* of what is before the row */

	move->offset = (int16_t)(move->offset + (int)row);
	if (site->cannot) {
		move->cannot = site->cannot;
		move->length = 0;
	}
	move->lead = lead > site->lead ? lead : site->lead;
	if (!move->length)
		move->lead = 0;
}

struct plan rows_plan(
	const struct rows *rows, const struct plan *planned, const struct sdt_note *note, size_t i)
{
	struct plan plan = planned[rows->planned[i]];
	size_t at = is_plain(note) ? find_site(rows, note->pc) : SIZE_MAX;
	const struct row_site *site = at == SIZE_MAX ? NULL : &rows->sites[at];

	if (!site || !site->is_plain)
		return plan;
	plan.row = (uint16_t)(plan.pc - site->pc);
	plan.pc = site->pc;
	see_move(site, plan.row, &plan.behind);
	see_move(site, plan.row, &plan.hop);
	if (!plan.row)
		return plan;
	plan.is_followed = true;
	plan.pun = (struct plan_way){.cannot = plan_in_distance};
	plan.nop = (struct plan_way){0};
	plan.nop_fixed = 0;
	return plan;
}
