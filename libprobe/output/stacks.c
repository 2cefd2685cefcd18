/* SPDX-License-Identifier: MIT */
/*
 * Stacks as people and flame graphs see them: functions, not addresses. Two calls
 * from different lines of one function are one frame, as with other tools, unless lines are shown.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/output/output.h"
#include "libprobe/base/frame_text.h"

size_t stacks_depth(const struct probe_stacks_row *row)
{
	return row->stack.count + (row->stack.end != PROBE_STACK_WHOLE);
}

/* The frame at a depth, from the outermost on; NULL: the mark of a truncated stack. */
static const struct probe_frame *frame_at(const struct probe_stacks_row *row, size_t depth)
{
	if (row->stack.end != PROBE_STACK_WHOLE && depth-- == 0)
		return NULL;
	return row->stack.frames[row->stack.count - 1 - depth];
}

/* NULL is before all texts. */
static int compare_texts(const char *a, const char *b)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	return strcmp(a, b);
}

static int compare_frames(const struct probe_frame *a, const struct probe_frame *b)
{
	int order;

	if (a == b)
		return 0;
	order = compare_texts(a->symbol, b->symbol);
	if (!order)
		order = compare_texts(a->module, b->module);
	if (!order)
		order = compare_texts(a->file, b->file);
	if (!order && a->line != b->line)
		order = a->line < b->line ? -1 : 1;
	if (!order && !a->symbol && frame_text_place(a) != frame_text_place(b))
		order = frame_text_place(a) < frame_text_place(b) ? -1 : 1;
	return order;
}

int stacks_compare_at(
	const struct probe_stacks_row *a, const struct probe_stacks_row *b, size_t depth)
{
	bool a_ends = depth >= stacks_depth(a), b_ends = depth >= stacks_depth(b);
	const struct probe_frame *left, *right;

	if (a_ends || b_ends)
		return (int)b_ends - (int)a_ends;
	left = frame_at(a, depth);
	right = frame_at(b, depth);
	if (!left && !right)
		return (int)a->stack.end - (int)b->stack.end;
	if (!left || !right)
		return (left != NULL) - (right != NULL);
	return compare_frames(left, right);
}

int stacks_compare(const struct probe_stacks_row *a, const struct probe_stacks_row *b)
{
	size_t a_depth = stacks_depth(a), b_depth = stacks_depth(b);
	size_t deepest = a_depth > b_depth ? a_depth : b_depth;
	int order = 0;

	for (size_t depth = 0; depth < deepest && !order; depth++)
		order = stacks_compare_at(a, b, depth);
	return order;
}

void stacks_frame_label(
	struct buffer *out, const struct probe_frame *frame, enum probe_stack_end end)
{
	if (frame)
		frame_text(out, frame);
	else
		buffer_string(out, frame_text_end(end));
}

void stacks_label(struct buffer *out, const struct probe_stacks_row *row, size_t depth)
{
	stacks_frame_label(out, frame_at(row, depth), row->stack.end);
}

void text_hit_stack(struct buffer *out, const struct probe_stack *stack)
{
	for (size_t i = 0; i < stack->count + (stack->end != PROBE_STACK_WHOLE); i++) {
		buffer_char(out, '\t');
		stacks_frame_label(out, i < stack->count ? stack->frames[i] : NULL, stack->end);
		buffer_char(out, '\n');
	}
}

/* ---- Folded lines ------------------------------------------------------------------- */

/*
 *	comm;outermost;...;innermost COUNT
 *
 * (of a heap, BYTES) as flamegraph.pl and speedscope read it. Rows are in the order of
 * folded_compare(); with several probes the innermost frame is the probe.
 */
static void folded_line(
	struct buffer *out, const struct probe_stacks_row *row, uint64_t count, bool many)
{
	frame_text_put(out, row->comm ? row->comm : "?");
	for (size_t i = 0; i < stacks_depth(row); i++) {
		buffer_char(out, ';');
		stacks_label(out, row, i);
	}
	if (many) {
		buffer_char(out, ';');
		frame_text_put(out, row->provider);
		buffer_char(out, ':');
		frame_text_put(out, row->name);
	}
	buffer_char(out, ' ');
	buffer_unsigned(out, count);
	buffer_char(out, '\n');
}

static int compare_probes(const struct probe_stacks_row *a, const struct probe_stacks_row *b)
{
	int order = strcmp(a->provider, b->provider);

	return order ? order : strcmp(a->name, b->name);
}

static int folded_compare(const void *a, const void *b)
{
	const struct probe_stacks_row *const *left = a, *const *right = b;
	int order = compare_texts((*left)->comm, (*right)->comm);

	if (!order)
		order = stacks_compare(*left, *right);
	return order ? order : compare_probes(*left, *right);
}

void folded_stacks(struct buffer *out, const struct probe_stacks_row *rows, size_t count)
{
	const struct probe_stacks_row **order = calloc(count + 1, sizeof(*order));
	uint64_t sum = 0;
	bool many = false;

	if (!order) {
		out->no_memory = true;
		return;
	}
	for (size_t i = 0; i < count; i++) {
		order[i] = &rows[i];
		many |= compare_probes(&rows[i], &rows[0]) != 0;
	}
	qsort(order, count, sizeof(*order), folded_compare);
	for (size_t i = 0; i < count; i++) {
		sum += order[i]->count;
		if (i + 1 < count && !folded_compare(&order[i], &order[i + 1]))
			continue;
		/* Of a heap: all is freed. */
		if (sum)
			folded_line(out, order[i], sum, many);
		sum = 0;
	}
	free(order);
}

/* No label holds the end of a line, and the weight is behind the last blank of each. */
void flamegraph_stacks(struct buffer *out, const struct probe_stacks_row *rows, size_t count)
{
	struct flame_stack *stacks = calloc(count + 1, sizeof(*stacks));
	struct buffer lines = {0};
	size_t used = 0;

	folded_stacks(&lines, rows, count);
	for (char *line = lines.data, *end;
		stacks && !lines.no_memory && line < lines.data + lines.length; line = end + 1) {
		char *space;

		end = memchr(line, '\n', (size_t)(lines.data + lines.length - line));
		space = memrchr(line, ' ', (size_t)(end - line));
		*space = '\0';
		stacks[used++] = (struct flame_stack){line, strtoull(space + 1, NULL, 10)};
	}
	if (stacks && !lines.no_memory)
		flame_graph(out, stacks, used, count && rows->is_heap ? FLAME_BYTES : FLAME_HITS);
	else
		out->no_memory = true;
	free(stacks);
	buffer_deinit(&lines);
}
