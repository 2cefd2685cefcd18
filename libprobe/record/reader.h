/* SPDX-License-Identifier: MIT */
/*
 * The parts of the reader: our own records (own.h); records of other tools in the Common Trace
 * Format (ctf.c), which libbabeltrace2 decodes, and the meaning of their events (classes.c); hits
 * as JSON (json.c); and the child process in which these two are read (process.c).
 */
#ifndef LIBPROBE_RECORD_READER_H
#define LIBPROBE_RECORD_READER_H

#include "libprobe/record/babeltrace.h"
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
PROBE_MUST_CHECK struct probe_error *reader_folder_add(
	struct reader_folder *folder, const char *record);
void reader_folder_deinit(struct reader_folder *folder);
/* How many bytes the files of a folder's records have, without their metadata. */
uint64_t reader_folder_bytes(const struct reader_folder *folder);

/* The metadata of a record, which the caller frees. */
PROBE_MUST_CHECK struct probe_error *reader_metadata(
	const char *record, char **text_ret, size_t *length_ret);

/* ---- Our own records (own.c) ------------------------------------------------------- */

/*
 * Does the metadata of a record say that probectl has made it? Errors: PROBE_ERROR_SYSTEM,
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *reader_is_own(const char *record, bool *ret);
extern const struct reader_ops reader_own;
/* The folder is borrowed. */
PROBE_MUST_CHECK struct probe_error *reader_own_open(
	const struct reader_folder *folder, void **ret);

/* ---- Records of other tools --------------------------------------------------------- */

extern const struct reader_ops reader_ctf;
/* The folder is borrowed. */
PROBE_MUST_CHECK struct probe_error *reader_ctf_open(
	const struct reader_folder *folder, void **ret);

/* ---- JSON -------------------------------------------------------------------------- */

extern const struct reader_ops reader_json;
PROBE_MUST_CHECK struct probe_error *reader_json_open(int fd, const char *name, void **ret);

/* ---- In a child process ------------------------------------------------------------ */

extern const struct reader_ops reader_process;
/* Records of other tools. */
PROBE_MUST_CHECK struct probe_error *reader_process_open(
	const struct reader_folder *folder, void **ret);
/* JSON from a descriptor, called `name` in messages. */
PROBE_MUST_CHECK struct probe_error *reader_process_open_json(int fd, const char *name, void **ret);

/* ---- Two sources at once (merged.c) --------------------------------------------------- */

extern const struct reader_ops reader_merged;
/* Their events in the order of time. Takes ownership of both, even after an error. */
PROBE_MUST_CHECK struct probe_error *reader_merged_open(
	const struct reader_ops *const ops[2], void *const sources[2], void **ret);

/* ---- Readers ------------------------------------------------------------------------------ */

/* Takes ownership of an open source; without memory, closes it. */
PROBE_MUST_CHECK struct probe_error *reader_create(
	const struct reader_ops *ops, void *source, struct probe_reader **ret);

/* ---- Names (naming.c) --------------------------------------------------------------------- */

/*
 * 1 + the number of the probe's argument that a field is, by its name: argN, or argN_I
 * (libprobe/record/ctf_metadata.c). 0 if it is none.
 */
uint8_t reader_arg_number(const char *name);
/*
 * Splits "provider:name" at the first colon; without one, the provider is "". Both are parts of one
 * allocation, which begins with the provider. False without memory.
 */
bool reader_split_name(const char *full, const char **provider_ret, const char **name_ret);

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

/* ---- Events of records -------------------------------------------------------------- */

/* What is known of event classes, and the values of the last event read. */
struct reader_classes {
	const struct babeltrace *bt;
	void *tree; /* tsearch(3): struct event_class by its address in libbabeltrace2 */
	struct probe_value *values; /* room for any class's arguments */
	size_t value_room;
	char *bytes; /* aggregates of the event */
	size_t byte_room;
	struct reader_stacks stacks;
};

void reader_classes_init(struct reader_classes *classes, const struct babeltrace *bt);
/* Drops all classes: their record is about to be closed. */
void reader_classes_deinit(struct reader_classes *classes);

/* Decodes a message about an event. Error: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *reader_classes_event(
	struct reader_classes *classes, const bt_message *message, struct probe_event *ret);

#endif
