/* SPDX-License-Identifier: MIT */
/*
 * Reads CTF records: merges a record's streams by time. The stream with the next event is on top of
 * a heap; usually it is the same stream as before, because a thread stays on its CPU.
 *
 * A record's parts (`--rotate`) follow each other in time, so one is open at a time.
 */
#include <dirent.h>
#include <errno.h>
#include <unistd.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/record/record.h"

/* ==== Call stacks ============================================================================= */

/*
 * Call stacks of a record: addresses in an event's context, which earlier events of the stream have
 * named (ctf_kinds.c). A frame without a name has only its address.
 */

struct known_frame {
	struct probe_frame frame; /* the frame; its strings are in `text` */
	char *text;
};

/* ---- Names of frames ----------------------------------------------------------------- */

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static const char *next_text(char **at, const char *text)
{
	char *to = *at;

	if (!text)
		return NULL;
	*at = stpcpy(to, text) + 1;
	return to;
}

/*
 * Names an address for a stream's later events. `stream` is only used as a key. Returns false if
 * out of memory.
 */
static bool reader_stacks_name(
	struct reader_stacks *stacks, const void *stream, const struct probe_frame *frame)
{
	char *at = malloc(
		1 + text_size(frame->module) + text_size(frame->symbol) + text_size(frame->file));
	struct known_frame *known = at ? map_add(&stacks->known, sizeof(*known),
						 MAP_KEY(MAP_OBJECT(stream), MAP_OBJECT(frame->ip)))
				       : NULL;

	if (!known) {
		free(at);
		return false;
	}
	free(known->text);
	known->text = at;
	known->frame = *frame;
	known->frame.module = next_text(&at, frame->module);
	known->frame.symbol = next_text(&at, frame->symbol);
	known->frame.file = next_text(&at, frame->file);
	return true;
}

/* ---- Stacks -------------------------------------------------------------------------- */

/*
 * Returns the stack of an event: the first PROBE_FRAMES_MAX of `count` addresses of 8 bytes. `how`
 * says how it ends, if valid (enum probe_stack_end). Valid until the next call.
 */
static const struct probe_stack *reader_stacks_take(struct reader_stacks *stacks,
	const void *stream, const uint8_t *addresses, uint64_t count, uint64_t how)
{
	size_t i = 0;

	for (; i < count && i < PROBE_FRAMES_MAX; i++) {
		const struct known_frame *known;
		uint64_t ip;

		memcpy(&ip, addresses + i * sizeof(ip), sizeof(ip));
		known = map_find(&stacks->known, MAP_KEY(MAP_OBJECT(stream), MAP_OBJECT(ip)));
		if (!known)
			stacks->unnamed[i] = (struct probe_frame){.ip = ip, .offset = ip};
		stacks->frames[i] = known ? &known->frame : &stacks->unnamed[i];
	}
	stacks->stack = (struct probe_stack){.frames = stacks->frames,
		.count = i,
		.end = how <= PROBE_STACK_LOST ? (enum probe_stack_end)how : PROBE_STACK_LOST};
	if (i < count)
		stacks->stack.end = PROBE_STACK_TRUNCATED;
	return &stacks->stack;
}

/* ==== Merging streams ========================================================================= */

/* Keeps functions off the fast path from being inlined into it. */
#define RARE __attribute__((noinline))

enum {
	/* The memory of all blocks. Each block is large enough for the disk's full speed. */
	BLOCKS_BYTES = 1 << 26,
	BLOCK_BYTES_MIN = 1 << 14,
	BLOCK_BYTES_MAX = 1 << 18,
	CTF2_SEPARATOR = 0x1e /* first byte of CTF 2's metadata: RFC 7464, 2.2 */
};

/* A stream in the heap, and its next item's time. */
struct turn {
	uint64_t time_ns;
	struct own_stream *stream;
};

struct own_reader {
	const struct reader_folder *folder;
	size_t opened; /* number of the folder's records that were opened so far */

	/* The open part, or all records of a folder without parts: */
	struct own_trace *traces;
	size_t trace_count;
	struct own_stream *streams;
	size_t stream_count;
	struct turn *heap;
	size_t turn_count;
	uint64_t second_ns; /* earliest time in the heap below the top */
	bool taken;	    /* the current item of the stream on top has been returned */
	struct step_result result;
	struct reader_stacks stacks;
	/*
	 * Events with the same nonzero `texts` have strings that are valid together. Random at
	 * first, and incremented when strings become invalid. 0 without a random number.
	 */
	uint64_t texts;

	uint64_t closed_bytes;	    /* bytes read from parts that are closed */
	uint64_t unread;	    /* bytes that were invalid and not read */
	struct probe_error *damage; /* the first damage; NULL if there was no damage */
};

/* ---- Opening --------------------------------------------------------------------------------- */

/* Rejects the metadata of other tools and formats before parsing it. */
static struct probe_error *check_maker(const char *record, const char *text, size_t length)
{
	/* Strings of the metadata cannot contain this text: their quotes have backslashes. */
	static const char env[] = "tracer_name = \"probectl\";";

	if (length && text[0] == CTF2_SEPARATOR)
		return probe_error_new(PROBE_ERROR_FORMAT,
			"%s: this is a record in CTF 2, and probectl reads CTF 1.8; babeltrace2 "
			"reads "
			"both from its version 2.1 on",
			record);
	if (!memmem(text, length, env, sizeof(env) - 1))
		return probe_error_new(PROBE_ERROR_FORMAT,
			"%s: its metadata does not say that probectl has made this record; "
			"babeltrace2 reads records of other tools",
			record);
	return NULL;
}

/* Adds to an error that another version of probectl may have made the record. */
static struct probe_error *explain(const char *record, const char *version, struct probe_error *why)
{
	const char *who = version ? version : "of a version that it does not say";
	struct probe_error *error;

	if (version && strcmp(version, PROBE_VERSION) == 0)
		error = probe_error_new(PROBE_ERROR_FORMAT,
			"%s/metadata: %s (it was made by probectl %s, as this is: it has been "
			"changed, or cut off)",
			record, why->message, who);
	else
		error = probe_error_new(PROBE_ERROR_FORMAT,
			"%s/metadata: %s (it was made by probectl %s, and this is %s; babeltrace2 "
			"may be able to read it)",
			record, why->message, who, PROBE_VERSION);
	probe_error_free(why);
	return error;
}

enum { METADATA_BYTES_MAX = 1 << 26 };

static struct probe_error *read_metadata(const char *record, char **text_ret, size_t *length_ret)
{
	AUTO_FREE char *path = NULL, *text = NULL;
	AUTO_FD int fd = -1;
	struct stat status;
	size_t length = 0;
	ssize_t n;

	if (asprintf(&path, "%s/metadata", record) < 0) {
		path = NULL;
		return probe_error_no_memory();
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return probe_error_system(errno, "%s: cannot be opened", path);
	if (fstat(fd, &status) != 0)
		return probe_error_system(errno, "%s: cannot be read", path);
	if (!S_ISREG(status.st_mode) || status.st_size > METADATA_BYTES_MAX)
		return probe_error_new(PROBE_ERROR_FORMAT, "%s: is no file of at most %d bytes",
			path, METADATA_BYTES_MAX);
	text = malloc((size_t)status.st_size + 1);
	if (!text)
		return probe_error_no_memory();
	do {
		n = read(fd, text + length, (size_t)status.st_size - length);
		length += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0)
		return probe_error_system(errno, "%s: cannot be read", path);
	*text_ret = text;
	*length_ret = length;
	text = NULL;
	return NULL;
}

static struct probe_error *read_trace(const char *record, struct own_trace *ret)
{
	struct probe_error *error;
	struct tsdl tsdl;
	AUTO_FREE char *text = NULL;
	size_t length = 0;

	error = read_metadata(record, &text, &length) ?: check_maker(record, text, length);
	if (error)
		return error;
	error = tsdl_parse(text, length, &tsdl) ?: own_trace_compile(&tsdl, ret);
	if (error && error->code == PROBE_ERROR_FORMAT)
		error = explain(record, tsdl.tracer_version, error);
	tsdl_free(&tsdl);
	return error;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

/* Prepares a stream whose `size` and `room` the caller has set. Returns false if out of memory. */
static bool own_stream_init(struct own_stream *stream, const struct own_trace *trace,
	const char *folder, const char *name)
{
	*stream = (struct own_stream){.trace = trace};
	if (asprintf(&stream->path, "%s/%s", folder, name) < 0)
		stream->path = NULL;
	return stream->path != NULL;
}

static struct probe_error *add_stream(struct own_reader *reader, const struct own_trace *trace,
	const char *record, const char *name)
{
	struct own_stream stream;
	struct stat status;

	if (name[0] == '.' || strcmp(name, "metadata") == 0)
		return NULL;
	if (!own_stream_init(&stream, trace, record, name) ||
		!ARRAY_ROOM(reader->streams, reader->stream_count)) {
		own_stream_deinit(&stream);
		return probe_error_no_memory();
	}
	if (lstat(stream.path, &status) != 0 || !S_ISREG(status.st_mode)) {
		own_stream_deinit(&stream);
		return NULL;
	}
	stream.size = (uint64_t)status.st_size;
	reader->streams[reader->stream_count++] = stream;
	return NULL;
}

/*
 * Opens a record. The sizes of the files are read before the metadata, so that the metadata
 * describes all events within these sizes.
 */
static struct probe_error *open_record(
	struct own_reader *reader, const char *record, struct own_trace *trace)
{
	struct probe_error *error = NULL;
	AUTO_FREE struct dirent **names = NULL;
	int count = scandir(record, &names, NULL, by_name);

	if (count < 0)
		return probe_error_system(errno, "%s: cannot read the folder", record);
	for (int i = 0; i < count; i++) {
		error = error ?: add_stream(reader, trace, record, names[i]->d_name);
		free(names[i]);
	}
	return error ?: read_trace(record, trace);
}

/* ---- The heap -------------------------------------------------------------------------------- */

/* Streams at the same time are ordered by name. */
static bool is_before(const struct turn *a, const struct turn *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->stream < b->stream;
}

/* Moves heap[at], whose time has increased, down. */
static void sink(struct own_reader *reader, size_t at)
{
	struct turn *heap = reader->heap, turn = heap[at];

	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < reader->turn_count && is_before(&heap[child + 1], &heap[child]))
			child++;
		if (child >= reader->turn_count || is_before(&turn, &heap[child]))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = turn;
}

static RARE void sink_top(struct own_reader *reader)
{
	const struct turn *heap = reader->heap;

	sink(reader, 0);
	reader->second_ns = UINT64_MAX;
	for (size_t i = 1; i < 3 && i < reader->turn_count; i++)
		if (heap[i].time_ns < reader->second_ns)
			reader->second_ns = heap[i].time_ns;
}

/* Strings of earlier events may have been freed or overwritten, so make them invalid. */
static void forget_texts(struct own_reader *reader)
{
	reader->texts += reader->texts != 0;
}

/* Ends a stream, and adds up its damage. */
static RARE void end_stream(struct own_reader *reader, const struct own_stream *stream)
{
	forget_texts(reader);
	if (!stream->why)
		return;
	reader->unread += stream->unread;
	if (!reader->damage)
		reader->damage =
			probe_error_new(PROBE_ERROR_FORMAT, "%s: %s", stream->path, stream->why);
}

/* Reorders the heap after the top stream has advanced. */
static void take_turns(struct own_reader *reader)
{
	struct turn *top = &reader->heap[0];

	top->time_ns = top->stream->time_ns;
	if (top->time_ns >= reader->second_ns)
		sink_top(reader);
}

/* Finds the top stream's next item, and reorders the heap. */
static RARE struct probe_error *advance(struct own_reader *reader)
{
	struct turn *top = &reader->heap[0];
	struct probe_error *error = own_stream_advance(top->stream, &reader->result);

	if (error)
		return error;
	if (top->stream->item == OWN_ITEM_NONE) {
		end_stream(reader, top->stream);
		*top = reader->heap[--reader->turn_count];
		sink_top(reader);
	} else {
		take_turns(reader);
	}
	return NULL;
}

static struct probe_error *make_heap(struct own_reader *reader)
{
	size_t room = BLOCKS_BYTES / (reader->stream_count + 1);
	struct probe_error *error = NULL;

	reader->heap = calloc(reader->stream_count + 1, sizeof(*reader->heap));
	if (!reader->heap)
		return probe_error_no_memory();
	room = room > BLOCK_BYTES_MAX ? BLOCK_BYTES_MAX : room;
	room = room < BLOCK_BYTES_MIN ? BLOCK_BYTES_MIN : room;
	for (size_t i = 0; i < reader->stream_count && !error; i++) {
		struct own_stream *stream = &reader->streams[i];

		stream->room = stream->size < room ? (size_t)stream->size + 1 : room;
		error = own_stream_advance(stream, &reader->result);
		if (error)
			break;
		if (stream->item == OWN_ITEM_NONE)
			end_stream(reader, stream);
		else
			reader->heap[reader->turn_count++] = (struct turn){stream->time_ns, stream};
	}
	for (size_t i = reader->turn_count / 2; i-- > 1;)
		sink(reader, i);
	sink_top(reader);
	return error;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static void close_part(struct own_reader *reader)
{
	struct map *known = &reader->stacks.known;
	const struct known_frame *frame;

	forget_texts(reader);
	for (size_t i = 0; i < reader->stream_count; i++) {
		reader->closed_bytes += reader->streams[i].read;
		own_stream_deinit(&reader->streams[i]);
	}
	for (size_t i = 0; i < reader->trace_count; i++)
		own_trace_free(&reader->traces[i]);
	free(reader->streams);
	free(reader->traces);
	free(reader->heap);
	for (size_t i = 0; (frame = map_next(known, &i));)
		free(frame->text);
	map_clear(known);
	reader->streams = NULL;
	reader->traces = NULL;
	reader->heap = NULL;
	reader->stream_count = reader->trace_count = reader->turn_count = 0;
	reader->taken = false;
}

/* Opens the next part, or all records of a folder without parts. */
static RARE struct probe_error *open_part(struct own_reader *reader)
{
	size_t count = reader->folder->parts ? 1 : reader->folder->count;
	struct probe_error *error = NULL;

	close_part(reader);
	reader->traces = calloc(count, sizeof(*reader->traces));
	if (!reader->traces)
		return probe_error_no_memory();
	reader->trace_count = count;
	for (size_t i = 0; i < count && !error; i++)
		error = open_record(
			reader, reader->folder->records[reader->opened++], &reader->traces[i]);
	return error ?: make_heap(reader);
}

static void own_close(void *source)
{
	struct own_reader *reader = source;

	if (!reader)
		return;
	close_part(reader);
	probe_error_free(reader->damage);
	free(reader);
}

struct probe_error *reader_own_open(const struct reader_folder *folder, void **ret)
{
	struct own_reader *reader = calloc(1, sizeof(*reader));
	struct probe_error *error;

	if (!reader)
		return probe_error_no_memory();
	reader->folder = folder;
	if (getrandom(&reader->texts, sizeof(reader->texts), 0) != sizeof(reader->texts))
		reader->texts = 0;
	error = open_part(reader);
	if (error)
		own_close(reader);
	else
		*ret = reader;
	return error;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static uint32_t word_of(const struct step_result *result)
{
	return (uint32_t)result->numbers[OWN_TID] | (uint32_t)result->numbers[OWN_CHILD] << 31;
}

/* Sets the thread of a hit that has only a word for it. */
static void find_thread(
	struct own_stream *stream, const struct step_result *result, struct probe_event *ret)
{
	uint32_t word = word_of(result);
	const struct own_thread *thread = stream->last_thread;

	if (!thread || stream->last_word != word)
		thread = map_find(&stream->threads, MAP_KEY(MAP_OBJECT(word)));
	stream->last_thread = thread;
	stream->last_word = word;
	if (thread) {
		ret->pid = thread->pid;
		ret->tid = thread->tid;
		ret->comm = thread->comm;
		return;
	}
	ret->pid = stream->pid;
	ret->tid = (pid_t)(word & INT32_MAX);
	if (!ret->tid)
		ret->tid = ret->pid;
}

static inline void fill_hit(
	struct own_reader *reader, struct own_stream *stream, struct probe_event *ret)
{
	const struct step_result *result = &reader->result;
	uint32_t has = stream->class->has;

	*ret = stream->event->event;
	ret->time_ns = stream->time_ns;
	ret->cpu = stream->cpu;
	if (ret->frame)
		ret->frame = result->numbers[OWN_CALL];
	if (OWN_HAS(has, OWN_PID)) {
		ret->pid = (pid_t)result->numbers[OWN_PID];
		ret->tid = (pid_t)result->numbers[OWN_TID];
		ret->comm = ctf_known(result->comm);
	} else {
		find_thread(stream, result, ret);
		ret->texts = reader->texts;
	}
	if (result->frames)
		ret->stack =
			reader_stacks_take(&reader->stacks, stream, result->stack, result->frames,
				OWN_HAS(has, OWN_STACK_END) ? result->numbers[OWN_STACK_END]
							    : PROBE_STACK_WHOLE);
}

/* Takes a frame (OWN_FRAME), or a thread's values pid, tid, comm (OWN_THREAD). */
static RARE struct probe_error *take_name(struct own_reader *reader, struct own_stream *stream)
{
	const struct probe_value *values = reader->result.values;
	const uint32_t word = word_of(&reader->result);
	struct own_thread *thread;
	const char *comm;
	bool named = true;
	char *copy;

	if (stream->event->meaning == OWN_FRAME) {
		named = reader_stacks_name(&reader->stacks, stream,
			&(struct probe_frame){.ip = values[0].u,
				.module = ctf_known(values[1].bytes),
				.symbol = ctf_known(values[2].bytes),
				.offset = values[3].u,
				.function = values[4].u,
				.file = ctf_known(values[5].bytes),
				.line = (int)values[6].u});
	} else if (stream->event->meaning == OWN_THREAD) {
		forget_texts(reader);
		stream->last_thread = NULL;
		comm = ctf_known(values[2].bytes);
		copy = comm ? strdup(comm) : NULL;
		thread = copy || !comm ? map_add(&stream->threads, sizeof(*thread),
						 MAP_KEY(MAP_OBJECT(word)))
				       : NULL;
		named = thread != NULL;
		if (thread) {
			free(thread->comm);
			*thread = (struct own_thread){(pid_t)values[0].i, (pid_t)values[1].i, copy};
		} else {
			free(copy);
		}
	}
	return named ? NULL : probe_error_no_memory();
}

/* Takes the top stream's item. *is_event_ret is true if *ret is an event for the caller. */
static struct probe_error *take(
	struct own_reader *reader, struct probe_event *ret, bool *is_event_ret)
{
	struct own_stream *stream = reader->heap[0].stream;
	struct probe_error *error;
	bool taken;

	reader->taken = true;
	if (stream->item == OWN_ITEM_LOST) {
		*ret = (struct probe_event){.kind = PROBE_EVENT_LOST,
			.time_ns = stream->time_ns,
			.lost = stream->lost,
			.cpu = -1};
		*is_event_ret = true;
		return NULL;
	}
	error = own_stream_take(stream, &reader->result, &taken);
	if (error || !taken)
		return error;
	if (stream->event->meaning != OWN_HIT)
		return take_name(reader, stream);
	fill_hit(reader, stream, ret);
	*is_event_ret = true;
	return NULL;
}

/* Finds the next event off the fast path. */
static RARE struct probe_error *next_item(
	struct own_reader *reader, struct probe_event *ret, bool *there_ret)
{
	struct probe_error *error = NULL, *damage;

	while (!error && !*there_ret) {
		damage = reader->damage;
		if (reader->taken) {
			reader->taken = false;
			error = advance(reader);
		} else if (reader->turn_count) {
			error = take(reader, ret, there_ret);
		} else if (reader->opened < reader->folder->count) {
			error = open_part(reader);
		} else {
			if (!damage)
				return NULL;
			/* Everything else was read. */
			error = probe_error_new(PROBE_ERROR_FORMAT,
				"%s: %ju bytes of the record were not read; all others were",
				damage->message, (uintmax_t)reader->unread);
			reader->damage = NULL;
			probe_error_free(damage);
			return error;
		}
	}
	if (error) { /* nothing is read after an error */
		reader->opened = reader->folder->count;
		close_part(reader);
	}
	return error;
}

static struct probe_error *own_next(void *source, struct probe_event *ret, bool *there_ret)
{
	struct own_reader *reader = source;
	struct own_stream *stream;

	/* Fast path, because the next item is usually a hit that is completely in memory. */
	if (reader->taken && reader->turn_count && own_stream_next(reader->heap[0].stream)) {
		reader->taken = false;
		take_turns(reader);
	}
	*there_ret = false;
	if (reader->taken || !reader->turn_count)
		return next_item(reader, ret, there_ret);
	stream = reader->heap[0].stream;
	if (stream->item != OWN_ITEM_EVENT || stream->event->meaning != OWN_HIT ||
		!own_stream_decode(stream, &reader->result))
		return next_item(reader, ret, there_ret);
	fill_hit(reader, stream, ret);
	*there_ret = reader->taken = true;
	return NULL;
}

static uint64_t own_read(void *source)
{
	const struct own_reader *reader = source;
	uint64_t bytes = reader->closed_bytes;

	for (size_t i = 0; i < reader->stream_count; i++)
		bytes += reader->streams[i].read;
	return bytes;
}

/* Returns the maximum number of arguments; SIZE_MAX until all parts were opened. */
static size_t own_args_max(const void *source)
{
	const struct own_reader *reader = source;
	size_t max = 0;

	if (reader->opened < reader->folder->count)
		return SIZE_MAX;
	for (size_t i = 0; i < reader->trace_count; i++)
		for (size_t k = 0; k < reader->traces[i].stream_count; k++) {
			const struct own_stream_class *stream = &reader->traces[i].streams[k];

			for (size_t n = 0; n < stream->class_count; n++)
				if (stream->classes[n].meaning == OWN_HIT &&
					stream->classes[n].event.arg_count > max)
					max = stream->classes[n].event.arg_count;
		}
	return max;
}

const struct reader_ops reader_own = {
	.next = own_next,
	.read = own_read,
	.args_max = own_args_max,
	.close = own_close,
};
