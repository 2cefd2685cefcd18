/* SPDX-License-Identifier: MIT */
/*
 * A system call for every site would make a target with thousands of them stand
 * still for long. Places are read with as few calls as possible
 * (process_vm_readv(2) takes many), and neighbours are written together: all
 * sites of a page cost one write, with the bytes between them as they were read
 * a moment before.
 *
 * /proc/PID/mem is written page by page, and a controller that is killed leaves
 * a page either as it was or as it is to be (fs/proc/base.c, mem_rw(); each
 * page is copied in one step). So no write crosses a page's end.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/array.h"
#include "libprobe/edits.h"
#include "libprobe/memory.h"

enum { PAGE = 4096 };

struct edit *edits_add(struct edits *edits, uint64_t address, size_t length)
{
	struct edit *items = array_grow(edits->items, edits->count, sizeof(*items));

	if (!items)
		return NULL;
	edits->items = items;
	items[edits->count] = (struct edit){.address = address, .length = length};
	return &items[edits->count++];
}

void edits_deinit(struct edits *edits)
{
	free(edits->items);
	free(edits->spans);
	free(edits->before);
	free(edits->after);
	free(edits->pieces);
	*edits = (struct edits){0};
}

/* ---- Preparing --------------------------------------------------------------------- */

static int compare_items(const void *a, const void *b, void *data)
{
	const struct edit *items = data;
	const struct edit *x = &items[*(const uint32_t *)a], *y = &items[*(const uint32_t *)b];

	return x->address < y->address ? -1 : x->address > y->address;
}

/* The indices of the places by address; NULL without memory. */
static uint32_t *sorted(const struct edits *e)
{
	uint32_t *order = reallocarray(NULL, e->count + 1, sizeof(*order));

	if (!order)
		return NULL;
	for (size_t i = 0; i < e->count; i++)
		order[i] = i;
	qsort_r(order, e->count, sizeof(*order), compare_items, e->items);
	return order;
}

/* Puts neighbours into one span. */
static void make_spans(struct edits *e, const uint32_t *order, size_t gap)
{
	struct edit_span *span = NULL;

	for (size_t i = 0; i < e->count; i++) {
		struct edit *item = &e->items[order[i]];
		uint64_t end = item->address + item->length;

		if (!span || item->address - span->address > span->length + gap) {
			if (span)
				e->size += span->length;
			span = &e->spans[e->span_count++];
			*span = (struct edit_span){.address = item->address, .offset = e->size};
		}
		item->span = span - e->spans;
		if (end - span->address > span->length)
			span->length = end - span->address;
	}
	if (span)
		e->size += span->length;
}

struct probe_error *edits_prepare(struct edits *edits, size_t gap)
{
	uint32_t *order = sorted(edits);

	edits->spans = calloc(edits->count + 1, sizeof(*edits->spans));
	edits->pieces = calloc(edits->count + 1, sizeof(*edits->pieces));
	if (!order || !edits->spans || !edits->pieces) {
		free(order);
		return probe_error_no_memory();
	}
	make_spans(edits, order, gap);
	free(order);
	edits->before = malloc(edits->size + 1);
	edits->after = malloc(edits->size + 1);
	if (!edits->before || !edits->after)
		return probe_error_no_memory();
	/* So that no page fault is left for the stop. */
	memset(edits->before, 0, edits->size + 1);
	memset(edits->after, 0, edits->size + 1);
	for (size_t i = 0; i < edits->span_count; i++)
		edits->pieces[i] = (struct memory_piece){edits->spans[i].address,
			edits->before + edits->spans[i].offset, edits->spans[i].length};
	return NULL;
}

/* ---- Reading ------------------------------------------------------------------------- */

struct probe_error *edits_read(struct edits *edits, pid_t pid)
{
	struct probe_error *error = memory_read_pieces(pid, edits->pieces, edits->span_count);
	bool all = !error;

	/* Some place is not there: a library was closed. */
	if (error && error->code != PROBE_ERROR_FORMAT)
		return error;
	probe_error_free(error);
	for (size_t i = 0; i < edits->span_count; i++) {
		struct edit_span *span = &edits->spans[i];

		span->readable =
			all || memory_read(pid, span->address, edits->before + span->offset,
				       span->length) == span->length;
	}
	return NULL;
}

const uint8_t *edits_found(const struct edits *edits, size_t i)
{
	const struct edit *item = &edits->items[i];
	const struct edit_span *span = &edits->spans[item->span];

	return span->readable ? edits->before + span->offset + (item->address - span->address)
			      : NULL;
}

/* ---- Writing -------------------------------------------------------------------------- */

struct probe_error *edits_pretouch(const struct edits *edits, int mem)
{
	struct probe_error *error = NULL;
	uint64_t last = UINT64_MAX;

	for (size_t i = 0; i < edits->count && !error; i++) {
		const struct edit *item = &edits->items[i];
		const uint8_t *found = edits_found(edits, i);

		if (!item->is_write || !found || item->address / PAGE == last)
			continue;
		error = memory_write_code(mem, item->address, found, 1);
		last = item->address / PAGE;
	}
	return error;
}

/* Writes the changed part of a span from a buffer, none of its pieces across two pages. */
static struct probe_error *write_span(const struct edit_span *span, const uint8_t *buffer, int mem)
{
	uint64_t at = span->address + span->dirty_start, end = span->address + span->dirty_end;
	struct probe_error *error = NULL;

	while (at < end && !error) {
		uint64_t page_end = (at | (PAGE - 1)) + 1;
		size_t size = (end < page_end ? end : page_end) - at;

		error = memory_write_code(
			mem, at, buffer + span->offset + (at - span->address), size);
		at += size;
	}
	return error;
}

/* What each span will hold. */
static void compose(struct edits *e)
{
	memcpy(e->after, e->before, e->size);
	for (size_t i = 0; i < e->span_count; i++) {
		e->spans[i].dirty_start = 0;
		e->spans[i].dirty_end = 0;
	}
	for (size_t i = 0; i < e->count; i++) {
		const struct edit *item = &e->items[i];
		struct edit_span *span = &e->spans[item->span];
		size_t start = item->address - span->address, end = start + item->length;

		if (!item->is_write || !span->readable)
			continue;
		memcpy(e->after + span->offset + start, item->bytes, item->length);
		if (!span->dirty_end || start < span->dirty_start)
			span->dirty_start = start;
		if (end > span->dirty_end)
			span->dirty_end = end;
	}
}

struct probe_error *edits_write(struct edits *edits, int mem)
{
	struct probe_error *error = NULL;
	size_t i;

	compose(edits);
	for (i = 0; i < edits->span_count && !error; i++)
		error = write_span(&edits->spans[i], edits->after, mem);
	while (error && i-- > 0)
		probe_error_free(write_span(&edits->spans[i], edits->before, mem));
	return error;
}

void edits_revert(const struct edits *edits, int mem)
{
	for (size_t i = edits->span_count; i-- > 0;)
		probe_error_free(write_span(&edits->spans[i], edits->before, mem));
}
