/* SPDX-License-Identifier: MIT */
/*
 * The parts of the reader: records (own.h), and hits as JSON (json.c, which json_parser.h parses).
 */
#ifndef LIBPROBE_RECORD_READER_H
#define LIBPROBE_RECORD_READER_H

#include "libprobe/base/error.h"
#include "probe/reader.h"

/* Operations of one kind of source. */
struct reader_ops {
	struct probe_error *(*next)(void *source, struct probe_event *ret, bool *there_ret);
	uint64_t (*read)(void *source); /* how many bytes; NULL: not known */
	/* No hit has more arguments. NULL, and SIZE_MAX: not known. */
	size_t (*args_max)(const void *source);
	void (*close)(void *source);
};

/* ---- Folders of records (folder.c) ------------------------------------------------ */

struct reader_folder {
	const char *path; /* as the user gave it, borrowed */
	char **records;	  /* folders, in order */
	size_t count;
	bool parts; /* they are parts of one record, and are read one after the other */
};

/* Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_FORMAT, PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *reader_folder_find(
	const char *path, struct reader_folder *ret);
void reader_folder_deinit(struct reader_folder *folder);
/* How many bytes the files of a folder's records have, without their metadata. */
uint64_t reader_folder_bytes(const struct reader_folder *folder);

/* The metadata of a record, which the caller frees. */
PROBE_MUST_CHECK struct probe_error *reader_metadata(
	const char *record, char **text_ret, size_t *length_ret);

/* ---- Records (own.c) ---------------------------------------------------------------- */

extern const struct reader_ops reader_own;
/* The folder is borrowed. */
PROBE_MUST_CHECK struct probe_error *reader_own_open(
	const struct reader_folder *folder, void **ret);

/* ---- JSON -------------------------------------------------------------------------- */

extern const struct reader_ops reader_json;
/* JSON from a borrowed descriptor, called `name` in messages. Error: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *reader_json_open(int fd, const char *name, void **ret);

/* ---- Call stacks of records (stacks.c) ----------------------------------------------- */

/* What addresses mean, by stream, and the stack of the last event read. */
struct reader_stacks {
	void *tree; /* tsearch(3): struct known_frame */
	struct probe_stack stack;
	const struct probe_frame *frames[PROBE_FRAMES_MAX];
	struct probe_frame unnamed[PROBE_FRAMES_MAX];
};

/* From here on, the address of this frame means this. `stream` is only compared. False without
 * memory. */
bool reader_stacks_name(
	struct reader_stacks *stacks, const void *stream, const struct probe_frame *frame);
/*
 * The stack of an event: `count` addresses of 8 bytes, of which PROBE_FRAMES_MAX are read, and how
 * it ends (enum probe_stack_end, if it is one). *result is valid until the next call.
 */
const struct probe_stack *reader_stacks_take(struct reader_stacks *stacks, const void *stream,
	const uint8_t *addresses, uint64_t count, uint64_t how);
void reader_stacks_deinit(struct reader_stacks *stacks);

#endif
