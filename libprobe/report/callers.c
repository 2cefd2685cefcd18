/* SPDX-License-Identifier: MIT */
/*
 * Hits by call stack, where a record has stacks. Two stacks are the same if they are shown alike:
 * by functions, whatever their addresses are, which differ from process to process.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/event.h"
#include "libprobe/base/hash.h"
#include "libprobe/output/output.h"
#include "libprobe/base/frame_text.h"
#include "libprobe/report/report.h"

enum { CALLERS_TABLE = 2 * SUMMARY_CALLERS_MAX };

/* Of stacks that stacks_compare() tells apart, few have the same. */
static uint64_t hash_of(size_t probe, const struct probe_stack *stack)
{
	const uint64_t seed[] = {probe, stack->end, stack->count};
	uint64_t hash = hash_bytes(0, seed, sizeof(seed));

	for (size_t i = 0; i < stack->count; i++) {
		const struct probe_frame *frame = stack->frames[i];
		uint64_t place = frame->symbol ? 0 : frame_text_place(frame);

		hash = frame->symbol ? hash_text(hash, frame->symbol) : hash;
		hash = frame->module ? hash_text(hash, frame->module) : hash;
		hash = hash_word(hash, (uint64_t)frame->line);
		hash = hash_word(hash, place);
	}
	return hash;
}

static bool is_row(const struct summary_callers *row, size_t probe, const struct probe_stack *stack,
	uint64_t hash)
{
	const struct probe_stacks_row left = {.stack = *row->stack}, right = {.stack = *stack};

	return row->hash == hash && row->probe == probe && stacks_compare(&left, &right) == 0;
}

/* False without memory. */
static bool add_row(
	struct probe_summary *summary, size_t probe, const struct probe_stack *stack, uint64_t hash)
{
	struct summary_callers row = {.probe = probe, .hash = hash, .count = 1};

	if (!ARRAY_ROOM(summary->callers, summary->callers_count))
		return false;
	row.stack = event_copy_stack(stack, &row.block);
	if (!row.stack)
		return false;
	summary->callers[summary->callers_count++] = row;
	return true;
}

bool callers_add(struct probe_summary *summary, size_t probe, const struct probe_stack *stack)
{
	const struct probe_stack cut = event_cut_stack(stack);
	uint64_t hash = hash_of(probe, &cut);
	size_t at = hash & (CALLERS_TABLE - 1);

	if (!summary->callers_table)
		summary->callers_table = calloc(CALLERS_TABLE, sizeof(*summary->callers_table));
	if (!summary->callers_table)
		return false;
	for (; summary->callers_table[at]; at = (at + 1) & (CALLERS_TABLE - 1)) {
		struct summary_callers *row = &summary->callers[summary->callers_table[at] - 1];

		if (is_row(row, probe, &cut, hash)) {
			row->count++;
			return true;
		}
	}
	if (summary->callers_count == SUMMARY_CALLERS_MAX) {
		summary->other_callers++;
		return true;
	}
	if (!add_row(summary, probe, &cut, hash))
		return false;
	summary->callers_table[at] = (uint16_t)summary->callers_count;
	return true;
}

void callers_deinit(struct probe_summary *summary)
{
	for (size_t i = 0; i < summary->callers_count; i++)
		free(summary->callers[i].block);
	free(summary->callers);
	free(summary->callers_table);
}

static int most_first(const void *a, const void *b)
{
	const struct probe_stacks_row *left = a, *right = b;

	if (left->count != right->count)
		return left->count > right->count ? -1 : 1;
	return stacks_compare(left, right);
}

struct probe_stacks_row *callers_rows(const struct probe_summary *summary)
{
	struct probe_stacks_row *rows = calloc(summary->callers_count + 1, sizeof(*rows));

	for (size_t i = 0; rows && i < summary->callers_count; i++) {
		const struct summary_callers *its = &summary->callers[i];

		rows[i] =
			(struct probe_stacks_row){.provider = summary->probes[its->probe]->provider,
				.name = summary->probes[its->probe]->name,
				.stack = *its->stack,
				.count = its->count};
	}
	if (rows)
		qsort(rows, summary->callers_count, sizeof(*rows), most_first);
	return rows;
}
