/* SPDX-License-Identifier: MIT */
/*
 * Parts of functions that no symbol names. GCC moves what rarely runs out of a function, into a
 * part of its own (NAME.cold), which a stripped file still describes in .eh_frame:
 *
 *	function	...
 *			jz part + 8	a jump to another part, or a tail call?
 *			...
 *	part		...		ends with jumps back, a return, or a call of abort(3)
 *
 * A range is a part of a function if it is entered only by jumps of that function: the function
 * counts its jumps (function_code.c), and here are all references of the file, found in the bytes
 * at any offset (arch.scan), also calls, constants and addresses in data. Equal numbers are a
 * proof; bytes that look like a reference by chance make them differ. Short branches are not
 * counted: the code around is decoded instead.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/query/query.h"

enum { WINDOW = UINT8_MAX };

/* Counts what refers to parts. */
struct counting {
	struct splits *splits;
	struct arch_windows windows;
	uint64_t *sites;
	size_t count;
	bool starts_only;
};

static void count(struct splits *splits, uint64_t target, bool starts_only)
{
	struct split *part = splits_at(splits, target);

	if (!part)
		return;
	part->references += !starts_only;
	if (target == part->range.start)
		*(starts_only ? &part->taken : &part->entered) += 1;
}

static void on_reference(void *data, size_t site, uint64_t target)
{
	const struct counting *c = data;

	/* A site is itself the last byte of the window before. */
	if (target != c->sites[site])
		count(c->splits, target, c->starts_only);
}

/* Finds the next function that is not empty. */
static bool next(struct object *object, uint64_t address, struct object_function *ret)
{
	while (object_next_function(object, address, ret)) {
		if (ret->range.end > ret->range.start)
			return true;
		address = ret->range.start + 1;
	}
	return false;
}

/* Returns the bytes of a range; NULL if they are not all in one segment, and in the file. */
static const uint8_t *bytes_of(const struct object *object, struct object_range range,
	const uint8_t *file, size_t file_size)
{
	const struct object_segment *segment = object_segment_of(object, range.start);
	uint64_t size = range.end - range.start, offset;

	return segment && size <= segment->file_size - (range.start - segment->address) &&
			       object_offset_of(object, range.start, &offset) &&
			       size <= file_size - offset
		       ? file + offset
		       : NULL;
}

static struct probe_error *count_code(struct object *object, const struct arch *arch,
	struct splits *splits, bool starts_only, const uint8_t *file, size_t file_size)
{
	AUTO_FREE struct counting *c = calloc(1, sizeof(*c));
	struct arch_scan scan = {
		.position_dependent = starts_only, .data = c, .reference = on_reference};
	const struct object_segment *segments;
	struct object_function function;
	bool ok = c != NULL;
	size_t segment_count;
	uint64_t at = 0; /* where the last window ends, and the next may begin */

	for (size_t i = 0; i < splits->count && ok; i++) {
		const struct object_range range = splits->items[i].range;
		bool more = bytes_of(object, range, file, file_size) != NULL;

		for (at = at > range.start - 1 && !starts_only ? at : range.start - 1;
			more && at + 1 < range.end && ok; at += WINDOW - 1) {
			ok = ARRAY_ROOM(c->sites, c->count);
			if (ok)
				c->sites[c->count++] = at;
			more = !starts_only;
		}
	}
	if (ok) {
		c->splits = splits;
		c->starts_only = starts_only;
		scan.windows = &c->windows;
		arch_windows_init(&c->windows, c->sites, c->count, starts_only ? 2 : WINDOW);
	}
	segments = object_segments(object, &segment_count);
	for (size_t i = 0; i < segment_count && ok; i++)
		if (segments[i].executable && segments[i].offset <= file_size &&
			segments[i].file_size <= file_size - segments[i].offset)
			arch->scan(file + segments[i].offset, segments[i].file_size,
				segments[i].address, &scan);
	for (at = 1; ok && arch->scan_function && next(object, at, &function);
		at = function.range.end) {
		const uint8_t *bytes = bytes_of(object, function.range, file, file_size);

		if (bytes)
			arch->scan_function(bytes, function.range.end - function.range.start,
				function.range.start, &scan);
	}
	if (c)
		free(c->sites);
	return ok ? NULL : probe_error_no_memory();
}

/* Counts the addresses of parts among the words of all segments. */
static void count_words(
	struct object *object, struct splits *splits, const uint8_t *file, size_t file_size)
{
	size_t count;
	const struct object_segment *segments = object_segments(object, &count);

	for (size_t i = 0; i < count; i++) {
		size_t skip = -segments[i].address & 7;

		if (segments[i].offset > file_size ||
			segments[i].file_size > file_size - segments[i].offset)
			continue;
		for (size_t at = skip; at + 8 <= segments[i].file_size; at += 8) {
			struct split *part;
			uint64_t word;

			memcpy(&word, file + segments[i].offset + at, sizeof(word));
			part = splits_at(splits, word);
			if (part && word == part->range.start)
				part->references++;
		}
	}
}

/* Is there a function symbol in a range? */
static bool is_named(struct object *object, struct object_range range)
{
	uint64_t start;

	return (object_symbol_at(object, range.start, &start) && start >= range.start) ||
	       object_function_starts(object, (struct object_range){range.start + 1, range.end});
}

struct probe_error *splits_read(struct object *object, const struct arch *arch, struct splits *ret)
{
	struct object_function function;
	struct probe_error *error;
	const struct sdt_guard *guards;
	const uint8_t *file;
	size_t file_size, guard_count;

	ret->known = true;
	error = object_load(object, &file, &file_size);
	if (error)
		return error;
	for (uint64_t at = 1; next(object, at, &function); at = function.range.end) {
		if (function.range.end - function.range.start < 2 ||
			is_named(object, function.range))
			continue;
		if (!ARRAY_ADD(ret->items, ret->count, (struct split){.range = function.range}))
			return probe_error_no_memory();
	}
	error = count_code(object, arch, ret, false, file, file_size);
	if (!error && object_type(object) == ET_EXEC)
		error = count_code(object, arch, ret, true, file, file_size);
	count_words(object, ret, file, file_size);
	guards = sdt_guards(object, &guard_count);
	for (size_t i = 0; i < guard_count; i++)
		count(ret, guards[i].label, false);
	for (size_t i = 0; i < ret->count; i++)
		if (ret->items[i].taken > ret->items[i].entered)
			ret->items[i].references += ret->items[i].taken - ret->items[i].entered;
	return error;
}

struct split *splits_at(const struct splits *splits, uint64_t address)
{
	size_t above = ARRAY_SEARCH_ABOVE(splits->items, splits->count, range.start, address);

	return above && address < splits->items[above - 1].range.end ? &splits->items[above - 1]
								     : NULL;
}

void splits_deinit(struct splits *splits)
{
	free(splits->items);
	*splits = (struct splits){0};
}
