/* SPDX-License-Identifier: MIT */
/*
 * A record: its parts, its classes of events, its sources and its losses. A source is a session
 * whose rings are moved into the record as whole blocks of bytes.
 *
 * Time stamps count from an hour before the record's start or its oldest hit. Each poll estimates
 * the session's clock again, so between polls times may go back by nanoseconds, or by more if the
 * system's clock is set. Within a stream the writer raises a time that goes back.
 *
 * Parts follow each other in time. Sessions are read up to different instants, so hits older than
 * the current part go into the previous part, which stays open until all its hits have been read.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/record/record.h"
#include "libprobe/session/session.h"

/* ==== Sources ================================================================================= */

/* ---- Sources ----------------------------------------------------------------------- */

static struct ctf_source *find_source(struct probe_ctf *ctf, const struct probe_session *session)
{
	for (size_t i = 0; i < ctf->source_count; i++)
		if (ctf->sources[i].session == session)
			return &ctf->sources[i];
	return NULL;
}

struct ctf_source *ctf_source_of(struct probe_ctf *ctf, struct probe_session *session)
{
	struct ctf_source *source = find_source(ctf, session);
	uint64_t *heads;

	if (source)
		return source;
	heads = calloc(session->data.rings.count + 1, sizeof(*heads));
	if (!heads || !ARRAY_ROOM(ctf->sources, ctf->source_count)) {
		free(heads);
		return NULL;
	}
	source = &ctf->sources[ctf->source_count++];
	*source = (struct ctf_source){
		.session = session, .heads = heads, .looked_ns = session->clock.first_steady_ns};
	return source;
}

static void source_deinit(struct ctf_source *source)
{
	free(source->hits);
	free(source->heads);
}

void ctf_note_moved(struct taking *t)
{
	t->moved = true;
	t->source->ring = t->number;
	if (t->stream->last > t->ctf->newest[t->clock])
		t->ctf->newest[t->clock] = t->stream->last;
}

/* ---- Parts ------------------------------------------------------------------------- */

uint64_t ctf_first_time(const struct rings *rings, const struct ring *ring)
{
	uint64_t time;

	memcpy(&time, rings_first(rings, ring), sizeof(time));
	return time;
}

/* Returns the time of the oldest hit in rings that is of the previous part, or of this one. */
static uint64_t oldest_in_rings(const struct probe_ctf *ctf, bool previous)
{
	uint64_t ret = UINT64_MAX;

	for (size_t i = 0; i < ctf->source_count; i++) {
		const struct probe_session *s = ctf->sources[i].session;
		size_t clock = ctf_clock_of(&s->clock);

		for (size_t k = 0; k < s->data.rings.count && !ctf->sources[i].never; k++) {
			const struct ring *ring = &s->data.rings.rings[k];
			uint64_t time, time_ns;

			if (rings_head(ring) == ring->tail)
				continue;
			time = ctf_first_time(&s->data.rings, ring);
			time_ns = clock_realtime_ns(&ctf->description.clocks[clock], time);
			if ((time < ctf->cuts[clock]) == previous && time_ns < ret)
				ret = time_ns;
		}
	}
	return ret;
}

/* Returns true if the previous part is closed, or if no ring holds a hit of it. */
static bool ctf_take_is_settled(const struct probe_ctf *ctf)
{
	return ctf->before.folder < 0 || oldest_in_rings(ctf, true) == UINT64_MAX;
}

struct probe_error *ctf_present_stream(struct probe_ctf *ctf, const struct ctf_source *source,
	unsigned int ring, struct ctf_stream **ret)
{
	enum ctf_clock_id clock = ctf->kinds.kinds[source->kind - 1].clock;
	struct probe_error *error = ctf_part_ring_stream(&ctf->part, source, ring, ret);

	if (!error && (*ret)->last < ctf->cuts[clock])
		(*ret)->last = ctf->cuts[clock];
	return error;
}

/* ---- Losses ------------------------------------------------------------------------ */

/*
 * Adds empty packets that report `count` more losses. Readers subtract the counters of two packets,
 * so an empty packet is enough.
 */
static struct probe_error *put_losses(
	struct probe_ctf *ctf, struct ctf_part *part, struct ctf_stream *stream, uint64_t count)
{
	struct probe_error *error = NULL;

	stream->buffer = ctf->packets;
	if (!ctf_stream_discard(stream, part->uuid, count))
		error = probe_error_new(PROBE_ERROR_FORMAT, "a loss fits into no packet");
	return ctf_end_packets(part, stream, error);
}

/* Writes the losses that no packet reports yet. */
static struct probe_error *ctf_take_flush(struct probe_ctf *ctf)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < ctf->part.stream_count && !error; i++) {
		struct ctf_stream *stream = &ctf->part.streams[i];

		/* A stream that waits for the disk reports its losses later. */
		if (stream->owes && !ctf_direct_waits(ctf, &ctf->part, stream))
			error = put_losses(ctf, &ctf->part, stream, 0);
	}
	return error;
}

/* ==== Classes of events ======================================================================= */

/*
 * The classes of events that are added one by one: a probe's names and its arguments' types. A
 * cache holds the class of each site's last hit.
 */

enum { CACHE_ENTRIES = 1024 /* number of cache entries, a power of two */ };

static void free_names(struct ctf_class *class)
{
	free((void *)class->provider);
	free((void *)class->name);
	free((void *)class->path);
	free((void *)class->labels);
}

static uint8_t code_of(const struct probe_value *value, uint8_t size)
{
	uint8_t truncated = value->truncated ? CTF_TRUNCATED : 0;
	uint8_t number = (uint8_t)(size << CTF_SIZE_SHIFT);

	switch (value->kind) {
	case PROBE_VALUE_SIGNED:
		return (uint8_t)(CTF_SIGNED | number);
	case PROBE_VALUE_UNSIGNED:
		return (uint8_t)(CTF_UNSIGNED | number);
	case PROBE_VALUE_FLOAT:
		return (uint8_t)(CTF_FLOAT | number);
	case PROBE_VALUE_STRING:
		return (uint8_t)(CTF_STRING | truncated);
	case PROBE_VALUE_TEXT:
		return (uint8_t)((value->known ? CTF_KNOWN : CTF_TEXT) | number | truncated);
	case PROBE_VALUE_BYTES:
		return (uint8_t)(CTF_BYTES | truncated);
	case PROBE_VALUE_OTHER:
	case PROBE_VALUE_STACK: /* a stack is the value of a table's key, never an argument */
	case PROBE_VALUE_NULL:
		break;
	}
	return CTF_UNREADABLE;
}

/* The strings are copied, because the record may outlive the session. */
static struct probe_error *add_class(struct probe_ctf *ctf, const struct ctf_class *class)
{
	struct ctf_class copy = *class;

	copy.provider = strdup(class->provider);
	copy.name = strdup(class->name);
	copy.path = strdup(class->path);
	copy.labels = strdup(class->labels);
	if (!copy.provider || !copy.name || !copy.path || !copy.labels ||
		!ARRAY_ROOM(ctf->classes, ctf->class_count)) {
		free_names(&copy);
		return probe_error_no_memory();
	}
	ctf->classes[ctf->class_count] = copy;
	ctf_describe_class(&ctf->description.classes, &copy, (uint32_t)ctf->class_count++);
	return NULL;
}

/* Finds or adds a class, which several processes may share. *ret is its number. */
static struct probe_error *find_class(
	struct probe_ctf *ctf, const struct ctf_class *class, uint32_t *ret)
{
	size_t i = 0;

	while (i < ctf->class_count &&
		!(ctf->classes[i].arg_count == class->arg_count &&
			memcmp(ctf->classes[i].codes, class->codes, class->arg_count) == 0 &&
			memcmp(ctf->classes[i].numbers, class->numbers, class->arg_count) == 0 &&
			strcmp(ctf->classes[i].name, class->name) == 0 &&
			strcmp(ctf->classes[i].provider, class->provider) == 0 &&
			strcmp(ctf->classes[i].path, class->path) == 0 &&
			strcmp(ctf->classes[i].labels, class->labels) == 0))
		i++;
	*ret = (uint32_t)i;
	return i < ctf->class_count ? NULL : add_class(ctf, class);
}

/* Finds or adds a hit's class; *ret is valid until the next call. Errors: PROBE_ERROR_MEMORY. */
static struct probe_error *ctf_class_of(struct probe_ctf *ctf, const struct probe_session *session,
	const struct probe_hit *hit, const struct ctf_site **ret)
{
	struct ctf_site *seen = &ctf->sites[(hit->pc ^ hit->pc >> 10) % CACHE_ENTRIES];
	const struct probe_session_probe *probe = &session->probes[hit->probe];
	const struct record_layout *layout = NULL;
	AUTO_FREE char *labels = NULL;
	struct ctf_class class;
	bool is_same = seen->pc == hit->pc && seen->session == session &&
		       seen->probe == hit->probe && seen->class.arg_count == hit->arg_count;

	*ret = seen;
	for (size_t i = 0; is_same && i < hit->arg_count; i++)
		is_same = seen->class.codes[i] ==
			  code_of(&hit->args[i], seen->class.codes[i] >> CTF_SIZE_SHIFT);
	if (is_same)
		return NULL;
	for (size_t i = 0; i < session->site_count && !layout; i++)
		if (session->sites[i].pc == hit->pc && session->sites[i].probe == hit->probe)
			layout = &session->sites[i].layout;
	labels = ctf_labels(probe, hit->arg_count);
	if (!labels)
		return probe_error_no_memory();
	*seen = (struct ctf_site){.pc = hit->pc,
		.session = session,
		.probe = hit->probe,
		.class = {.provider = probe->provider,
			.name = probe->name,
			.path = probe->path,
			.arg_count = (uint8_t)hit->arg_count}};
	for (size_t i = 0; i < hit->arg_count; i++) {
		const struct record_layout_arg *arg =
			layout && i < layout->arg_count ? &layout->args[i] : NULL;
		uint8_t size = arg ? arg->size : 8;

		size = size == 1 || size == 2 || size == 4 ? size : 8;
		seen->class.codes[i] = code_of(&hit->args[i], size);
		/* Not the index if the session records only some arguments. */
		seen->class.numbers[i] = hit->args[i].number == RECORD_LAYOUT_FRAME
						 ? RECORD_LAYOUT_FRAME
					 : arg ? arg->number
					       : (uint8_t)i;
	}
	class = seen->class;
	class.labels = labels;
	return find_class(ctf, &class, &seen->id);
}

/* ==== Losses after a write error ============================================================== */

/*
 * After writing has failed, as on a full disk, losses are reported by increasing the counter in the
 * header of a file's last packet, which needs no space. (File systems that never overwrite data
 * need space even for that; there, losses are only reported to the user.)
 */

/* Returns the stream with the largest file, or NULL if all are empty. */
static struct ctf_stream *longest_of(const struct ctf_part *part)
{
	struct ctf_stream *longest = NULL;

	for (size_t i = 0; i < part->stream_count; i++)
		if (part->streams[i].written > (longest ? longest->written : 0))
			longest = &part->streams[i];
	return longest;
}

/* Writes the losses of a stream into the last packet of its file. */
static void tell(const struct ctf_part *part, struct ctf_stream *stream)
{
	const off_t at = stream->last_at + CTF_DISCARDED_AT;
	ssize_t written;
	/* Open the file without O_APPEND, with which pwrite(2) would ignore the offset. */
	int fd = ctf_stream_open(part, stream, 0);

	if (fd < 0)
		return;
	written = pwrite(fd, &stream->discarded, sizeof(stream->discarded), at);
	(void)written;
	close(fd);
}

/* Adds losses to the longest file of a record that cannot grow. */
static void ctf_discard_late(struct probe_ctf *ctf, uint64_t count)
{
	const struct ctf_part *part = &ctf->part;
	struct ctf_stream *stream = longest_of(part);

	if (!stream) {
		part = &ctf->before;
		stream = longest_of(part);
	}
	if (!stream || !count)
		return;
	stream->discarded += count;
	tell(part, stream);
}

/* Writes each stream's losses into its file. Returns the losses of streams without a packet. */
static uint64_t tell_part(struct probe_ctf *ctf, struct ctf_part *part)
{
	uint64_t rest = 0;

	for (size_t i = 0; i < part->stream_count; i++) {
		struct ctf_stream *stream = &part->streams[i];

		ctf_stream_empty(stream, 0);
		ctf->unwritten += stream->dropped;
		stream->discarded += stream->dropped;
		if (!stream->written)
			rest += stream->discarded;
		else if (stream->discarded)
			tell(part, stream);
	}
	return rest;
}

/* ==== The record ============================================================================== */

enum {
	NSEC_PER_SEC = 1000000000,
	/*
	 * Hits may be older than the record: the session started earlier, or clocks are inaccurate.
	 */
	CLOCK_MARGIN_S = 3600,
	/* For this number of flushes, one a second, the previous part stays open for late hits. */
	LATE_FLUSHES = 2,
	/* maximum size in bytes of an event without thread name, arguments and addresses */
	EVENT_ROOM = 40,
	ARG_ROOM = 16, /* maximum size in bytes of an argument without its string or aggregate */
	ROUNDING_NS = 4
};

/* ---- Parts ------------------------------------------------------------------------- */

/* Opens the folder, which must be empty, or creates it. */
static struct probe_error *root_open(const char *path, int *ret)
{
	struct dirent *entry;
	bool empty = true;
	DIR *folder;
	int fd;
	struct probe_error *error = file_folder(path, true, &fd);

	if (error)
		return error;
	folder = fdopendir(fd);
	if (!folder) {
		error = probe_error_system(errno, "cannot open the folder");
		close(fd);
		return error;
	}
	while ((entry = readdir(folder)))
		empty &= strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
	*ret = fcntl(dirfd(folder), F_DUPFD_CLOEXEC, 0);
	closedir(folder);
	if (!empty)
		return probe_error_new(PROBE_ERROR_STATE, "the folder is not empty; give an empty "
							  "one, or one that does not exist yet");
	return *ret < 0 ? probe_error_system(errno, "cannot open the folder") : NULL;
}

static struct probe_error *begin_part(
	struct probe_ctf *ctf, const struct ctf_instant from[CTF_CLOCKS])
{
	char name[CTF_PART_NAME_BYTES] = ".";

	ctf->flushes = 0;
	ctf->end_ns = 0;
	if (ctf->options.rotate_bytes || ctf->options.rotate_ns)
		ctf_part_name(name, ++ctf->part_count);
	return ctf_part_open(&ctf->part, ctf->root, name, &ctf->description, from);
}

struct probe_error *ctf_checked(struct probe_ctf *ctf, struct probe_error *error)
{
	uint64_t rest;

	if (error && !ctf->failed) {
		error = probe_error_first(error, ctf_direct_give_up(ctf));
		/* Count dropped hits as losses, and put all losses into existing packets. */
		rest = tell_part(ctf, &ctf->part);
		rest += tell_part(ctf, &ctf->before);
		ctf_discard_late(ctf, rest);
	}
	ctf->failed |= error != NULL;
	return probe_error_prefix(error, "%s", ctf->path);
}

/* Leaves out a clock whose counter has restarted (sleep): earlier hits' times would change. */
void ctf_sync_clocks(struct probe_ctf *ctf)
{
	for (size_t i = 0; i < CTF_CLOCKS; i++) {
		struct clock *clock = &ctf->description.clocks[i];

		if (ctf->description.has_clock[i] && clock_stamp(clock) >= clock->last_stamp)
			clock_sync(clock);
	}
}

static void close_before(struct probe_ctf *ctf)
{
	ctf->closed_bytes += ctf->before.written;
	ctf_part_close(&ctf->before);
}

/*
 * Computes the end of a part from its first hit's time, or from its start if that is later. Each
 * CPU has a ring: the first hit to be read need not be the first. The end is in CLOCK_MONOTONIC,
 * which cannot be set.
 */
void ctf_part_begins(struct probe_ctf *ctf, uint64_t time_ns)
{
	uint64_t now_ns, oldest_ns, end_ns;

	if (!ctf->options.rotate_ns)
		return;
	now_ns = clock_monotonic_ns();
	oldest_ns = ctf->end_ns ? UINT64_MAX : oldest_in_rings(ctf, false);
	if (oldest_ns < time_ns)
		time_ns = oldest_ns;
	if (time_ns < ctf->begin_ns)
		time_ns = ctf->begin_ns;
	time_ns -= clock_now_offset_ns();
	end_ns = (time_ns < now_ns ? time_ns : now_ns) + ctf->options.rotate_ns;
	if (!ctf->end_ns || end_ns < ctf->end_ns)
		ctf->end_ns = end_ns;
}

uint64_t ctf_part_end(const struct probe_ctf *ctf)
{
	return ctf->end_ns ? ctf->end_ns + clock_now_offset_ns() : UINT64_MAX;
}

bool ctf_is_too_early(const struct probe_ctf *ctf, uint64_t time_ns)
{
	return (!ctf->end_ns || time_ns >= ctf_part_end(ctf)) && !ctf_take_is_settled(ctf);
}

bool ctf_is_part_full(const struct probe_ctf *ctf, uint64_t time_ns)
{
	bool is_full =
		(ctf->options.rotate_bytes && ctf->part.written >= ctf->options.rotate_bytes) ||
		time_ns >= ctf_part_end(ctf);

	return is_full && ctf_take_is_settled(ctf);
}

struct probe_error *ctf_rotate(struct probe_ctf *ctf, uint64_t time_ns)
{
	struct probe_error *error = ctf_direct_settle(ctf, true);
	struct ctf_instant from[CTF_CLOCKS] = {{0}};

	error = error ?: ctf_part_flush(&ctf->before);
	if (error)
		return error;
	close_before(ctf);
	ctf_sync_clocks(ctf);
	/* Write the losses now, because the stream may get no more packets in this part. */
	error = ctf_take_flush(ctf);
	error = probe_error_first(error, ctf_part_describe(&ctf->part));
	ctf->part.over = true;
	/*
	 * For each clock, the next part starts above all written stamps, at the time at which the
	 * previous part ends.
	 */
	for (size_t i = 0; i < CTF_CLOCKS && !error; i++) {
		if (!ctf->description.has_clock[i])
			continue;
		ctf->cuts[i] = ctf_clock_stamp_at(&ctf->description.clocks[i], time_ns);
		if (ctf->cuts[i] <= ctf->newest[i])
			ctf->cuts[i] = ctf->newest[i] + 1;
		/* Readers round times down in different ways, so add the largest difference. */
		from[i] = (struct ctf_instant){
			ctf->cuts[i], ctf_line_ns(&ctf->part.lines[i], ctf->cuts[i]) + ROUNDING_NS};
	}
	ctf->before = ctf->part;
	ctf->part = (struct ctf_part){.folder = -1};
	ctf->begin_ns = time_ns;
	return error ?: begin_part(ctf, from);
}

/* ---- The record -------------------------------------------------------------------- */

struct probe_error *probe_ctf_create(
	const char *directory, const struct probe_ctf_options *options, struct probe_ctf **ret)
{
	static const struct ctf_instant none[CTF_CLOCKS];
	struct probe_ctf *ctf = calloc(1, sizeof(*ctf));
	struct probe_error *error;
	uint64_t first_ns;

	if (!ctf)
		return probe_error_no_memory();
	ctf->root = ctf->part.folder = ctf->before.folder = -1;
	if (options)
		ctf->options = *options;
	ctf->begin_ns = ctf->last_ns = clock_now_ns();
	ctf->description.stacks = ctf->options.stacks;
	/* The zero of the record's clock is before all hits. */
	first_ns = ctf->options.oldest_ns && ctf->options.oldest_ns < ctf->last_ns
			   ? ctf->options.oldest_ns
			   : ctf->last_ns;
	ctf->description.base_s = first_ns / NSEC_PER_SEC;
	ctf->description.base_s -=
		ctf->description.base_s > CLOCK_MARGIN_S ? CLOCK_MARGIN_S : ctf->description.base_s;
	ctf->path = strdup(directory);
	ctf->sites = calloc(CACHE_ENTRIES, sizeof(*ctf->sites));
	if (!ctf->path || !ctf->sites) {
		probe_ctf_free(ctf);
		return probe_error_no_memory();
	}
	error = root_open(directory, &ctf->root) ?: begin_part(ctf, none);
	if (error) {
		probe_ctf_free(ctf);
		return probe_error_prefix(error, "%s", directory);
	}
	*ret = ctf;
	return NULL;
}

void probe_ctf_free(struct probe_ctf *ctf)
{
	if (!ctf)
		return;
	ctf_part_close(&ctf->part);
	ctf_part_close(&ctf->before);
	for (size_t i = 0; i < ctf->source_count; i++)
		source_deinit(&ctf->sources[i]);
	free(ctf->sources);
	ctf_direct_deinit(ctf);
	free(ctf->copy);
	free(ctf->packets);
	ctf_kinds_deinit(&ctf->kinds);
	cleanup_fd(&ctf->root);
	buffer_deinit(&ctf->description.classes);
	for (size_t i = 0; i < ctf->class_count; i++)
		free_names(&ctf->classes[i]);
	free(ctf->classes);
	free(ctf->sites);
	free(ctf->path);
	free(ctf);
}

static void stream_time(const struct probe_ctf *ctf, struct ctf_stream *stream, uint64_t time_ns)
{
	uint64_t base_ns = ctf->description.base_s * NSEC_PER_SEC;
	uint64_t since = time_ns > base_ns ? time_ns - base_ns : 0;

	if (since > stream->last)
		stream->last = since;
}

/* ---- Events ------------------------------------------------------------------------ */

/* Writes the low bytes of a number. Stores 8 bytes in any case; EVENT_ROOM has room for that. */
static uint8_t *put_number(uint8_t *at, uint64_t number, size_t size)
{
	memcpy(at, &number, sizeof(number));
	return at + size;
}

static uint8_t *put_string(uint8_t *at, const char *bytes, size_t length)
{
	at = ctf_put(at, bytes, length);
	*at = '\0';
	return at + 1;
}

/* CTF strings end at the first NUL, which a string that changed while it was copied may contain. */
static uint8_t *put_text(uint8_t *at, const struct probe_value *value)
{
	return put_string(at, value->bytes, strnlen(value->bytes, value->length));
}

static uint8_t *put_arg(uint8_t *at, const struct probe_value *value, uint8_t code)
{
	size_t size = code >> CTF_SIZE_SHIFT;
	uint32_t length = (uint32_t)value->length;
	float single = (float)value->f;

	switch (code & 7) {
	case CTF_UNREADABLE:
		*at++ = 0;
		break;
	case CTF_SIGNED:
	case CTF_UNSIGNED:
		at = put_number(at, value->u, size);
		break;
	case CTF_FLOAT:
		at = size == sizeof(single) ? ctf_put(at, &single, sizeof(single))
					    : ctf_put(at, &value->f, sizeof(value->f));
		break;
	case CTF_TEXT:
	case CTF_KNOWN:
		at = put_number(at, value->u, size);
		at = put_text(at, value);
		break;
	case CTF_STRING:
		at = put_text(at, value);
		break;
	case CTF_BYTES:
		at = ctf_put(at, &length, sizeof(length));
		at = ctf_put(at, value->bytes, value->length);
		break;
	}
	if (code & CTF_TRUNCATED)
		*at++ = 1;
	return at;
}

/* Adds an event to a stream, and writes the stream when it is full. */
static struct probe_error *add_event(struct probe_ctf *ctf, struct ctf_part *part,
	struct ctf_stream *stream, const struct probe_hit *hit, const struct ctf_site *site,
	const char *comm)
{
	bool stacks = ctf->description.stacks;
	size_t comm_length = strlen(comm);
	/* The maximum, including the bytes that put_number() writes beyond a number. */
	size_t room = EVENT_ROOM + comm_length + (hit->stack ? 8 * hit->stack->count : 0);
	struct probe_error *error = NULL;
	uint8_t *at;

	for (size_t i = 0; i < hit->arg_count; i++)
		room += ARG_ROOM +
			(hit->args[i].kind >= PROBE_VALUE_STRING ? hit->args[i].length : 0);
	stream_time(ctf, stream, hit->time_ns);
	if (stacks && hit->stack)
		error = ctf_name_frames(part, stream, hit, comm);
	error = error ?: ctf_part_room(part, stream, room, &at);
	if (error)
		return error;
	at = ctf_put(at, &site->id, sizeof(site->id));
	at = ctf_put(at, &stream->last, sizeof(stream->last));
	at = ctf_put(at, &hit->pid, sizeof(int32_t));
	at = ctf_put(at, &hit->tid, sizeof(int32_t));
	at = put_string(at, comm, comm_length);
	if (stacks)
		at = ctf_put_stack(at, hit->stack);
	for (size_t i = 0; i < hit->arg_count; i++)
		at = put_arg(at, &hit->args[i], site->class.codes[i]);
	stream->length = (size_t)(at - stream->buffer);
	ctf_stream_note_hit(stream);
	return NULL;
}

struct probe_error *probe_ctf_hit(struct probe_ctf *ctf, const struct probe_session *session,
	const struct probe_hit *hit, const char *comm)
{
	struct probe_value args[ARCH_ARGS_MAX];
	struct probe_hit framed = *hit;
	const struct ctf_site *site;
	struct ctf_stream *stream;
	struct probe_error *error = NULL;
	struct ctf_part *part;

	if (ctf->failed)
		return NULL;
	if (hit->arg_count > ARCH_ARGS_MAX)
		return probe_error_new(PROBE_ERROR_FORMAT, "a hit is larger than any can be");
	if (hit->frame && hit->arg_count < ARCH_ARGS_MAX) {
		/* In the record it is the last argument, as in rings. */
		if (hit->arg_count)
			memcpy(args, hit->args, hit->arg_count * sizeof(*args));
		args[hit->arg_count] = (struct probe_value){.kind = PROBE_VALUE_UNSIGNED,
			.number = RECORD_LAYOUT_FRAME,
			.u = hit->frame};
		framed.args = args;
		framed.arg_count++;
		hit = &framed;
	}
	part = hit->time_ns < ctf->begin_ns && ctf->before.folder >= 0 ? &ctf->before : &ctf->part;
	if (part == &ctf->part) { /* it may be full: then this is a new part */
		if (ctf_is_part_full(ctf, hit->time_ns))
			error = ctf_rotate(ctf, hit->time_ns);
		ctf_part_begins(ctf, hit->time_ns);
	}
	error = error ?: ctf_part_stream(part, session, hit->cpu, &stream)
		?: ctf_class_of(ctf, session, hit, &site);
	if (!error)
		error = add_event(ctf, part, stream, hit, site, comm && *comm ? comm : CTF_UNKNOWN);
	ctf->last_cpu = hit->cpu;
	ctf->last_ns = hit->time_ns;
	if (!error)
		return NULL;
	error = ctf_checked(ctf, error);
	ctf->unwritten++;
	ctf_discard_late(ctf, 1);
	return error;
}

struct probe_error *probe_ctf_discarded(
	struct probe_ctf *ctf, const struct probe_session *session, uint64_t count)
{
	const struct ctf_source *source = find_source(ctf, session);
	struct ctf_part *part = &ctf->part;
	struct ctf_stream *stream;
	struct probe_error *error;

	if (ctf->failed)
		ctf_discard_late(ctf, count);
	if (ctf->failed || !count)
		return NULL;
	if (source && source->kind && !source->never) { /* its hits are not added one by one */
		error = ctf_present_stream(ctf, source, source->ring, &stream);
		if (!error && !stream->begun)
			return ctf_checked(ctf, put_losses(ctf, part, stream, count));
		if (error)
			return ctf_checked(ctf, error);
		stream->discarded += count;
		stream->owes = true;
		return NULL;
	}
	/* The CPU of the losses is unknown: use the CPU of the last hit. */
	error = ctf_part_stream(part, session, ctf->last_cpu, &stream);
	if (error)
		return ctf_checked(ctf, error);
	/* The losses' time is unknown, so use a time that no future hit precedes. */
	if (!stream->begun)
		stream_time(ctf, stream, ctf->last_ns);
	if (ctf_stream_discard(stream, part->uuid, count))
		return NULL;
	error = ctf_part_write(part, stream);
	if (!error && !ctf_stream_discard(stream, part->uuid, count))
		error = probe_error_new(PROBE_ERROR_FORMAT, "a loss fits into no packet");
	if (error)
		stream->discarded += count;
	return error ? ctf_checked(ctf, error) : NULL;
}

struct probe_error *probe_ctf_forget(struct probe_ctf *ctf, const struct probe_session *session)
{
	struct ctf_source *source = find_source(ctf, session);
	struct probe_error *error;

	for (size_t i = 0; i < CACHE_ENTRIES; i++)
		if (ctf->sites[i].session == session)
			ctf->sites[i] = (struct ctf_site){0};
	if (ctf->failed)
		return NULL;
	error = ctf_direct_settle(ctf, true);
	/* Do this last, because it skips streams with unsettled packets. */
	error = probe_error_first(error, ctf_take_flush(ctf));
	if (source) {
		source_deinit(source);
		*source = ctf->sources[--ctf->source_count];
	}
	error = probe_error_first(error, ctf_part_forget(&ctf->before, session));
	error = probe_error_first(error, ctf_part_forget(&ctf->part, session));
	return error ? ctf_checked(ctf, error) : NULL;
}

struct probe_error *probe_ctf_flush(struct probe_ctf *ctf)
{
	struct probe_error *error;

	if (ctf->failed)
		return NULL;
	error = ctf_part_flush(&ctf->before) ?: ctf_part_flush(&ctf->part) ?: ctf_take_flush(ctf);
	ctf_sync_clocks(ctf);
	error = error ?: ctf_part_describe(&ctf->part);
	if (++ctf->flushes == LATE_FLUSHES && !error) {
		error = ctf_direct_settle(ctf, true);
		if (!error)
			close_before(ctf);
	}
	return error ? ctf_checked(ctf, error) : NULL;
}

uint64_t probe_ctf_bytes(const struct probe_ctf *ctf)
{
	return ctf->closed_bytes + ctf->before.written + ctf->part.written;
}

uint64_t probe_ctf_unwritten(const struct probe_ctf *ctf)
{
	return ctf->unwritten;
}
