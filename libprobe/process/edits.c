/* SPDX-License-Identifier: MIT */
/*
 * Reads and writes many places of a target's memory. One system call per site would stop a target
 * with thousands of sites for a long time. So places are read with as few calls as possible
 * (process_vm_readv(2) takes many). The places of a page are read in one piece, because the kernel
 * takes longer to find a page than to copy it. Adjacent places are written together. Bytes between
 * two places are never written, because they may have changed since they were read: the kernel and
 * debuggers set and remove breakpoints even while all threads are stopped.
 *
 * /proc/PID/mem is written page by page, so a controller that is killed leaves each page either old
 * or new (fs/proc/base.c, mem_rw(); each page is copied in one step). So no write crosses a page
 * boundary.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/process/process.h"

enum { PAGE = 4096 }; /* real pages may be larger, which does no harm */

struct edit *edits_add(struct edits *edits, uint64_t address, size_t length)
{
	if (!ARRAY_ROOM(edits->items, edits->count))
		return NULL;
	edits->items[edits->count] = (struct edit){.address = address, .length = length};
	return &edits->items[edits->count++];
}

void edits_deinit(struct edits *edits)
{
	free(edits->items);
	free(edits->order);
	free(edits->spans);
	free(edits->before);
	free(edits->after);
	free(edits->pieces);
	free(edits->noted);
	*edits = (struct edits){0};
}

/* ---- Preparing --------------------------------------------------------------------- */

static int compare_items(const void *a, const void *b, void *data)
{
	const struct edit *items = data;
	const struct edit *x = &items[*(const uint32_t *)a], *y = &items[*(const uint32_t *)b];

	return ORDER(x->address, y->address);
}

/* Merges places into spans that are adjacent, or begin in the page where the span begins. */
static void make_spans(struct edits *e)
{
	struct edit_span *span = NULL;

	for (size_t i = 0; i < e->count; i++) {
		struct edit *item = &e->items[e->order[i]];
		uint64_t end = item->address + item->length;

		if (!span || (item->address - span->address > span->length &&
				     item->address / PAGE != span->address / PAGE)) {
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

struct probe_error *edits_prepare(struct edits *edits)
{
	edits->order = calloc(edits->count + 1, sizeof(*edits->order));
	edits->spans = calloc(edits->count + 1, sizeof(*edits->spans));
	edits->pieces = calloc(edits->count + 1, sizeof(*edits->pieces));
	if (!edits->order || !edits->spans || !edits->pieces)
		return probe_error_no_memory();
	for (size_t i = 0; i < edits->count; i++)
		edits->order[i] = i;
	qsort_r(edits->order, edits->count, sizeof(*edits->order), compare_items, edits->items);
	make_spans(edits);
	edits->before = array_resident(edits->size + 1);
	edits->after = array_resident(edits->size + 1);
	return edits->before && edits->after ? NULL : probe_error_no_memory();
}

/* ---- Reading ------------------------------------------------------------------------- */

bool edits_is_due(const struct edits *edits, size_t i)
{
	return edits->turn == EDITS_ALL || edits->turn == edits->items[i].turn;
}

/* Lists the spans that have places of the present turn. Returns their number. */
static size_t take_pieces(struct edits *e)
{
	size_t count = 0;

	for (size_t i = 0; i < e->span_count; i++)
		e->spans[i].is_due = false;
	for (size_t i = 0; i < e->count; i++)
		e->spans[e->items[i].span].is_due |= edits_is_due(e, i);
	for (size_t i = 0; i < e->span_count; i++)
		if (e->spans[i].is_due)
			e->pieces[count++] = (struct memory_piece){e->spans[i].address,
				e->before + e->spans[i].offset, e->spans[i].length};
	return count;
}

/* Fails if a write would wait for the program to lift a protection (memory.c). */
static struct probe_error *check_writable(const struct edits *edits, pid_t pid)
{
	AUTO(served_end) struct served served = served_of(pid);

	served.looks_ahead = true;
	for (size_t i = 0; i < edits->count; i++) {
		const struct edit *item = &edits->items[edits->order[i]];
		uint64_t last = item->address + item->length - 1;

		if (!item->is_write || !edits_is_due(edits, edits->order[i]) ||
			!edits->spans[item->span].readable ||
			(served_writable(&served, item->address) && served_writable(&served, last)))
			continue;
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d protects the page at %#jx from writing (userfaultfd(2)): its "
			"bytes cannot be changed until it has ended that",
			pid, (uintmax_t)item->address);
	}
	return NULL;
}

struct probe_error *edits_read(struct edits *edits, pid_t pid)
{
	struct probe_error *error = memory_read_pieces(pid, edits->pieces, take_pieces(edits));
	bool all = !error;

	/* A place is not mapped any more, because a library was unloaded. */
	if (error && error->code != PROBE_ERROR_FORMAT)
		return error;
	probe_error_free(error);
	for (size_t i = 0; i < edits->span_count; i++) {
		struct edit_span *span = &edits->spans[i];

		if (!span->is_due)
			continue;
		span->readable =
			all || memory_read(pid, span->address, edits->before + span->offset,
				       span->length) == span->length;
	}
	return check_writable(edits, pid);
}

const uint8_t *edits_found(const struct edits *edits, size_t i)
{
	const struct edit *item = &edits->items[i];
	const struct edit_span *span = &edits->spans[item->span];

	return span->readable ? edits->before + span->offset + (item->address - span->address)
			      : NULL;
}

static bool all_readable(const struct edits *edits)
{
	for (size_t i = 0; i < edits->span_count; i++)
		if (!edits->spans[i].readable)
			return false;
	return true;
}

struct probe_error *edits_note(struct edits *edits)
{
	free(edits->noted);
	edits->noted = NULL;
	if (!all_readable(edits))
		return NULL;
	edits->noted = array_resident(edits->size + 1);
	if (!edits->noted)
		return probe_error_no_memory();
	memcpy(edits->noted, edits->before, edits->size);
	return NULL;
}

bool edits_are_as_noted(const struct edits *edits)
{
	return edits->noted && all_readable(edits) &&
	       memcmp(edits->noted, edits->before, edits->size) == 0;
}

/* ---- Writing -------------------------------------------------------------------------- */

struct probe_error *edits_pretouch(const struct edits *edits, int mem)
{
	struct probe_error *error = NULL;
	uint64_t last = UINT64_MAX;

	for (size_t i = 0; i < edits->count && !error; i++) {
		const struct edit *item = &edits->items[i];
		const uint8_t *found = edits_found(edits, i);

		if (!item->is_write || item->is_private || !found || item->address / PAGE == last)
			continue;
		error = memory_write_code(mem, item->address, found, 1);
		last = item->address / PAGE;
	}
	return error;
}

/* Writes the part of a span in [at, end); no write crosses a page boundary. */
static struct probe_error *write_piece(
	const struct edit_span *span, uint64_t at, uint64_t end, const uint8_t *buffer, int mem)
{
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

static bool is_written(const struct edits *e, const struct edit *item)
{
	return item->is_write && e->spans[item->span].readable &&
	       edits_is_due(e, (size_t)(item - e->items));
}

/*
 * Writes the first `count` places, in the order of addresses, except read-only ones. Stores the
 * number of places handled.
 */
static struct probe_error *write_places(
	const struct edits *e, const uint8_t *buffer, int mem, size_t *count)
{
	struct probe_error *error = NULL;
	size_t i = 0;

	while (i < *count && !error) {
		const struct edit *item = &e->items[e->order[i++]];
		uint64_t end = item->address + item->length;

		if (!is_written(e, item))
			continue;
		/* Extend the write over adjacent places, past read-only ones. */
		for (; i < *count && e->items[e->order[i]].address <= end; i++) {
			const struct edit *next = &e->items[e->order[i]];

			if (is_written(e, next) && next->address + next->length > end)
				end = next->address + next->length;
		}
		error = write_piece(&e->spans[item->span], item->address, end, buffer, mem);
	}
	*count = i;
	return error;
}

struct probe_error *edits_write(struct edits *edits, int mem)
{
	struct probe_error *error;
	size_t count = edits->count;

	for (size_t i = 0; i < edits->count; i++) {
		const struct edit *item = &edits->items[i];
		const struct edit_span *span = &edits->spans[item->span];

		if (is_written(edits, item))
			memcpy(edits->after + span->offset + (item->address - span->address),
				item->bytes, item->length);
	}
	error = write_places(edits, edits->after, mem, &count);
	if (error)
		probe_error_free(write_places(edits, edits->before, mem, &count));
	return error;
}

void edits_revert(const struct edits *edits, int mem)
{
	size_t count = edits->count;

	probe_error_free(write_places(edits, edits->before, mem, &count));
}
