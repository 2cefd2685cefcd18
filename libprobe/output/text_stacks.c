/* SPDX-License-Identifier: MIT */
/*
 * Stacks as a tree, callers above what they call:
 *
 *	postgresql:lwlock__acquire: 1234 hits, 2 stacks
 *	        HITS        %  FRAME
 *	        1234  100.0 %  _start
 *	        1234  100.0 %  main
 *	         900   72.9 %  - exec_simple_query
 *	         900   72.9 %    PortalRun
 *	         334   27.1 %  - exec_execute_message
 *
 * What is called from one place only stays below it; where calls part, each branch
 * begins with a dash, and what it calls is one further to the right. Of a heap (probe/heap.h),
 * bytes stand for hits:
 *
 *	otel_memory:alloc: 40960 bytes allocated (10 allocations), 12288 bytes live (3
 *	allocations), 2 stacks
 *	       BYTES        %  FRAME
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/output/output.h"

enum { COUNT_WIDTH = 12 };

struct tree {
	struct buffer *out;
	const struct probe_stacks_row **rows; /* in the order of stacks_compare() */
	uint64_t total;
};

/* Rows that show the same function at some depth. */
struct branch {
	size_t first, end;
	uint64_t count;
};

static void print_frame(const struct tree *tree, const struct branch *branch, size_t depth,
	size_t indent, bool dash)
{
	double percent = 100.0 * (double)branch->count / (double)tree->total;
	char figures[64];

	snprintf(figures, sizeof(figures), "%*llu  %3u.%u %%  ", COUNT_WIDTH,
		(unsigned long long)branch->count, (unsigned int)(percent + 0.05),
		(unsigned int)((percent + 0.05) * 10) % 10);
	buffer_string(tree->out, figures);
	for (size_t i = 0; i < indent; i++)
		buffer_string(tree->out, "  ");
	if (dash)
		buffer_string(tree->out, "- ");
	stacks_label(tree->out, tree->rows[branch->first], depth);
	buffer_char(tree->out, '\n');
}

static int compare_branches(const void *a, const void *b)
{
	const struct branch *left = a, *right = b;

	if (left->count != right->count)
		return left->count > right->count ? -1 : 1;
	return left->first < right->first ? -1 : left->first > right->first;
}

/* Parts rows by their function at a depth; those that end before it come first, and are none. */
static size_t part(
	const struct tree *tree, const struct branch *whole, size_t depth, struct branch *ret)
{
	size_t count = 0, at = whole->first;

	while (at < whole->end && stacks_depth(tree->rows[at]) <= depth)
		at++;
	for (; at < whole->end; at++) {
		if (!count ||
			stacks_compare_at(tree->rows[ret[count - 1].first], tree->rows[at], depth))
			ret[count++] = (struct branch){at, at, 0};
		ret[count - 1].end = at + 1;
		ret[count - 1].count += tree->rows[at]->count;
	}
	qsort(ret, count, sizeof(*ret), compare_branches);
	return count;
}

static void print_branch(
	const struct tree *tree, const struct branch *whole, size_t depth, size_t indent)
{
	struct branch *branches = malloc((whole->end - whole->first + 1) * sizeof(*branches));
	size_t count;

	if (!branches) {
		tree->out->no_memory = true;
		return;
	}
	count = part(tree, whole, depth, branches);
	for (size_t i = 0; i < count; i++) {
		print_frame(tree, &branches[i], depth, indent, count > 1);
		print_branch(tree, &branches[i], depth + 1, indent + (count > 1));
	}
	free(branches);
}

static int compare_rows(const void *a, const void *b)
{
	const struct probe_stacks_row *const *left = a, *const *right = b;

	return stacks_compare(*left, *right);
}

static void count_text(struct buffer *out, uint64_t count, const char *one, const char *many)
{
	buffer_unsigned(out, count);
	buffer_string(out, count == 1 ? one : many);
}

/* What the rows hold: all that was allocated, and what of it is live. */
static void heap_text(struct buffer *out, const struct probe_stacks_row **rows, size_t count)
{
	struct probe_stacks_row sum = {0};

	for (size_t i = 0; i < count; i++) {
		sum.total_bytes += rows[i]->total_bytes;
		sum.total_count += rows[i]->total_count;
		sum.live_bytes += rows[i]->live_bytes;
		sum.live_count += rows[i]->live_count;
	}
	count_text(out, sum.total_bytes, " byte allocated (", " bytes allocated (");
	count_text(out, sum.total_count, " allocation), ", " allocations), ");
	count_text(out, sum.live_bytes, " byte live (", " bytes live (");
	count_text(out, sum.live_count, " allocation), ", " allocations), ");
}

/* The stacks of one probe, the `top` most frequent ones; 0: all. */
static void print_probe(
	struct buffer *out, const struct probe_stacks_row **rows, size_t count, size_t top)
{
	size_t shown, known = count;
	struct tree tree = {out, rows, 0};
	bool heap = rows[0]->is_heap;
	uint64_t hidden = 0;
	struct branch whole;

	/* The last ones may have nothing that is live. */
	while (count && !rows[count - 1]->count)
		count--;
	shown = top && top < count ? top : count;
	whole = (struct branch){0, shown, 0};
	for (size_t i = 0; i < count; i++) {
		tree.total += rows[i]->count;
		if (i >= shown)
			hidden += rows[i]->count;
	}
	text_probe(out, rows[0]->provider, rows[0]->name);
	buffer_string(out, ": ");
	if (heap)
		heap_text(out, rows, known);
	else
		count_text(out, tree.total, " hit, ", " hits, ");
	count_text(out, count, " stack\n", " stacks\n");
	buffer_string(
		out, heap ? "       BYTES        %  FRAME\n" : "        HITS        %  FRAME\n");
	qsort(rows, shown, sizeof(*rows), compare_rows);
	print_branch(&tree, &whole, 0, 0);
	if (count > shown) {
		buffer_string(out, "... ");
		count_text(out, count - shown, " more stack (--top), ", " more stacks (--top), ");
		count_text(out, hidden, heap ? " byte\n" : " hit\n", heap ? " bytes\n" : " hits\n");
	}
}

static bool same_probe(const struct probe_stacks_row *a, const struct probe_stacks_row *b)
{
	return !strcmp(a->name, b->name) && !strcmp(a->provider, b->provider);
}

/* Rows of the first probe that is left are moved to `its`; the others stay, in their order. */
static size_t take_probe(
	const struct probe_stacks_row **rows, size_t *count, const struct probe_stacks_row **its)
{
	const struct probe_stacks_row *first = rows[0];
	size_t taken = 0, kept = 0;

	for (size_t i = 0; i < *count; i++) {
		if (same_probe(rows[i], first))
			its[taken++] = rows[i];
		else
			rows[kept++] = rows[i];
	}
	*count = kept;
	return taken;
}

void text_stack_trees(
	struct buffer *out, const struct probe_stacks_row *rows, size_t count, size_t top)
{
	const struct probe_stacks_row **left = calloc(2 * count + 1, sizeof(*left));
	const struct probe_stacks_row **its;
	bool any = false;

	if (!left) {
		out->no_memory = true;
		return;
	}
	its = left + count;
	for (size_t i = 0; i < count; i++)
		left[i] = &rows[i];
	while (count) {
		size_t taken = take_probe(left, &count, its);

		if (any)
			buffer_char(out, '\n');
		print_probe(out, its, taken, top);
		any = true;
	}
	free(left);
}

void text_stacks(struct format_context *context, const struct probe_stacks_row *rows, size_t count,
	const struct probe_view *view)
{
	if (view->flamegraph) {
		flamegraph_stacks(&context->out, rows, count);
		return;
	}
	if (view->pprof) {
		pprof_stacks(&context->out, rows, count, view);
		return;
	}
	text_heading(context, view);
	if (view->folded)
		folded_stacks(&context->out, rows, count);
	else
		text_stack_trees(&context->out, rows, count, view->top);
}
