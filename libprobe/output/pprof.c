/* SPDX-License-Identifier: MIT */
/*
 * Stacks as a profile that pprof and what knows its format read:
 * github.com/google/pprof/proto/profile.proto. It is not compressed, which readers accept.
 *
 *	sample    values; locations, the innermost first; labels
 *	location  address in the file -> mapping, function, line
 *	mapping   a file and its build id
 *	function  name, source file
 *
 * Each is written when a row first needs it, and has the next number of its kind from 1 on; strings
 * have one from 0 on, and string 0 is empty. What a message is known by is kept in a tree. Fields
 * may come in any order, except that strings are numbered by theirs.
 *
 * Addresses are those in the file, so the same function of several processes is one location.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/output/output.h"
#include "libprobe/base/frame_text.h"

/* Fields of the messages. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING_TABLE = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14,
	VALUE_TYPE_TYPE = 1,
	VALUE_TYPE_UNIT = 2,
	SAMPLE_LOCATION_ID = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,
	LABEL_KEY = 1,
	LABEL_STR = 2,
	MAPPING_ID = 1,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	LOCATION_ID = 1,
	LOCATION_MAPPING_ID = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,
	LINE_FUNCTION_ID = 1,
	LINE_LINE = 2,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_FILENAME = 4
};

/* ---- Numbers of what was written ---------------------------------------------------- */

struct numbered {
	uint64_t number;
	size_t length;
	char key[]; /* what it is known by */
};

struct numbers {
	void *tree; /* of struct numbered */
	uint64_t next;
};

static int compare_numbered(const void *a, const void *b)
{
	const struct numbered *left = a, *right = b;

	if (left->length != right->length)
		return left->length < right->length ? -1 : 1;
	return memcmp(left->key, right->key, left->length);
}

struct pprof {
	struct buffer *out;
	struct buffer text, message, part;
	struct numbers strings, locations, mappings, functions;
};

/* The number of a key; *is_new: it has none yet, so that its message must be written. */
static uint64_t number_of(
	struct pprof *pprof, struct numbers *numbers, const void *key, size_t length, bool *is_new)
{
	struct numbered *wanted = malloc(sizeof(*wanted) + length), **found;

	*is_new = false;
	if (wanted) {
		*wanted = (struct numbered){.number = numbers->next, .length = length};
		memcpy(wanted->key, key, length);
	}
	found = wanted ? tsearch(wanted, &numbers->tree, compare_numbered) : NULL;
	if (!found) {
		free(wanted);
		pprof->out->no_memory = true;
		return 0;
	}
	*is_new = *found == wanted;
	if (*is_new)
		numbers->next++;
	else
		free(wanted);
	return (*found)->number;
}

static uint64_t string_number(struct pprof *pprof, const char *text, size_t length)
{
	bool is_new;
	uint64_t number = number_of(pprof, &pprof->strings, text, length, &is_new);

	if (is_new)
		protobuf_bytes(pprof->out, PROFILE_STRING_TABLE, text, length);
	return number;
}

static uint64_t string_of(struct pprof *pprof, const char *text)
{
	pprof->text.length = 0;
	frame_text_put(&pprof->text, text ? text : "");
	return string_number(pprof, pprof->text.data, pprof->text.length);
}

/* ---- Locations ---------------------------------------------------------------------- */

static uint64_t mapping_of(struct pprof *pprof, const struct probe_frame *frame)
{
	uint64_t key[2] = {string_of(pprof, frame->module), string_of(pprof, frame->build_id)};
	bool is_new;
	uint64_t number = number_of(pprof, &pprof->mappings, key, sizeof(key), &is_new);

	if (!is_new)
		return number;
	protobuf_unsigned(&pprof->message, MAPPING_ID, number);
	protobuf_unsigned(&pprof->message, MAPPING_FILENAME, key[0]);
	protobuf_unsigned(&pprof->message, MAPPING_BUILD_ID, key[1]);
	protobuf_unsigned(&pprof->message, MAPPING_HAS_FUNCTIONS, 1);
	protobuf_message(pprof->out, PROFILE_MAPPING, &pprof->message);
	return number;
}

/* Without its source line, which a location has. */
static uint64_t name_of(
	struct pprof *pprof, const struct probe_frame *frame, enum probe_stack_end end)
{
	struct probe_frame bare;

	if (!frame)
		return string_of(pprof, frame_text_end(end));
	bare = *frame;
	bare.file = NULL;
	pprof->text.length = 0;
	frame_text(&pprof->text, &bare);
	return string_number(pprof, pprof->text.data, pprof->text.length);
}

static uint64_t function_of(
	struct pprof *pprof, const struct probe_frame *frame, enum probe_stack_end end)
{
	uint64_t key[2] = {
		name_of(pprof, frame, end), string_of(pprof, frame ? frame->file : NULL)};
	bool is_new;
	uint64_t number = number_of(pprof, &pprof->functions, key, sizeof(key), &is_new);

	if (!is_new)
		return number;
	protobuf_unsigned(&pprof->message, FUNCTION_ID, number);
	protobuf_unsigned(&pprof->message, FUNCTION_NAME, key[0]);
	protobuf_unsigned(&pprof->message, FUNCTION_FILENAME, key[1]);
	protobuf_message(pprof->out, PROFILE_FUNCTION, &pprof->message);
	return number;
}

static uint64_t address_of(const struct probe_frame *frame)
{
	return frame->symbol ? frame->function + frame->offset : frame->offset;
}

/* `frame` is NULL of what is not known of a stack that ends like this. */
static uint64_t location_of(
	struct pprof *pprof, const struct probe_frame *frame, enum probe_stack_end end)
{
	uint64_t key[4] = {
		frame && frame->module ? mapping_of(pprof, frame) : 0,
		frame ? address_of(frame) : 0,
		function_of(pprof, frame, end),
		frame && frame->file ? (uint64_t)frame->line : 0,
	};
	bool is_new;
	uint64_t number = number_of(pprof, &pprof->locations, key, sizeof(key), &is_new);

	if (!is_new)
		return number;
	protobuf_unsigned(&pprof->part, LINE_FUNCTION_ID, key[2]);
	protobuf_unsigned(&pprof->part, LINE_LINE, key[3]);
	protobuf_unsigned(&pprof->message, LOCATION_ID, number);
	protobuf_unsigned(&pprof->message, LOCATION_MAPPING_ID, key[0]);
	protobuf_unsigned(&pprof->message, LOCATION_ADDRESS, key[1]);
	protobuf_message(&pprof->message, LOCATION_LINE, &pprof->part);
	protobuf_message(pprof->out, PROFILE_LOCATION, &pprof->message);
	return number;
}

/* ---- Samples ------------------------------------------------------------------------ */

/* All values that a row has, in the order of sample_types(). */
static void put_values(struct buffer *out, const struct probe_stacks_row *row)
{
	if (!row->is_heap) {
		protobuf_varint(out, row->count);
		return;
	}
	protobuf_varint(out, row->total_count);
	protobuf_varint(out, row->total_bytes);
	protobuf_varint(out, row->live_count);
	protobuf_varint(out, row->live_bytes);
}

static void put_label(struct pprof *pprof, struct buffer *sample, const char *key, uint64_t text)
{
	protobuf_unsigned(&pprof->part, LABEL_KEY, string_of(pprof, key));
	protobuf_unsigned(&pprof->part, LABEL_STR, text);
	protobuf_message(sample, SAMPLE_LABEL, &pprof->part);
}

static void put_sample(struct pprof *pprof, const struct probe_stacks_row *row)
{
	struct buffer sample = {0}, list = {0};
	size_t count = row->stack.count;

	for (size_t i = 0; i < stacks_depth(row); i++)
		protobuf_varint(&list, location_of(pprof, i < count ? row->stack.frames[i] : NULL,
					       row->stack.end));
	protobuf_message(&sample, SAMPLE_LOCATION_ID, &list);
	put_values(&list, row);
	protobuf_message(&sample, SAMPLE_VALUE, &list);
	if (row->comm)
		put_label(pprof, &sample, "comm", string_of(pprof, row->comm));
	pprof->text.length = 0;
	frame_text_put(&pprof->text, row->provider);
	buffer_char(&pprof->text, ':');
	frame_text_put(&pprof->text, row->name);
	put_label(pprof, &sample, "probe",
		string_number(pprof, pprof->text.data, pprof->text.length));
	protobuf_message(pprof->out, PROFILE_SAMPLE, &sample);
	buffer_deinit(&sample);
	buffer_deinit(&list);
}

/* ---- The profile -------------------------------------------------------------------- */

static void put_type(struct pprof *pprof, const char *type, const char *unit)
{
	protobuf_unsigned(&pprof->message, VALUE_TYPE_TYPE, string_of(pprof, type));
	protobuf_unsigned(&pprof->message, VALUE_TYPE_UNIT, string_of(pprof, unit));
	protobuf_message(pprof->out, PROFILE_SAMPLE_TYPE, &pprof->message);
}

/* With the names that Go's heap profiles have. */
static void sample_types(struct pprof *pprof, const struct probe_view *view)
{
	if (!view->heap) {
		put_type(pprof, "hits", "count");
		return;
	}
	put_type(pprof, "alloc_objects", "count");
	put_type(pprof, "alloc_space", "bytes");
	put_type(pprof, "inuse_objects", "count");
	put_type(pprof, "inuse_space", "bytes");
	protobuf_unsigned(pprof->out, PROFILE_DEFAULT_SAMPLE_TYPE,
		string_of(pprof, view->live ? "inuse_space" : "alloc_space"));
}

void pprof_stacks(struct buffer *out, const struct probe_stacks_row *rows, size_t count,
	const struct probe_view *view)
{
	struct pprof pprof = {
		.out = out, .locations.next = 1, .mappings.next = 1, .functions.next = 1};

	string_of(&pprof, "");
	sample_types(&pprof, view);
	protobuf_unsigned(out, PROFILE_TIME_NANOS, view->time_ns);
	protobuf_unsigned(out, PROFILE_DURATION_NANOS, view->elapsed_ns);
	for (size_t i = 0; i < count; i++)
		put_sample(&pprof, &rows[i]);
	out->no_memory |= pprof.text.no_memory;
	buffer_deinit(&pprof.text);
	buffer_deinit(&pprof.message);
	buffer_deinit(&pprof.part);
	tdestroy(pprof.strings.tree, free);
	tdestroy(pprof.locations.tree, free);
	tdestroy(pprof.mappings.tree, free);
	tdestroy(pprof.functions.tree, free);
}
