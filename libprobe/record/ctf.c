/* SPDX-License-Identifier: MIT */
/*
 * A record: its parts and its events.
 *
 * Time stamps count from an hour before the record's beginning, or before its oldest hit. The
 * session's clock is interpolated again at each poll, and may go back by some nanoseconds from one
 * poll to the next, or by more if the system's clock is set; within a stream, time must not go
 * back.
 *
 * Parts follow each other in time. The hits of several sessions are not quite in order, because
 * each session is read up to a different instant. So hits that are older than the current part
 * go into the previous one, which stays open until all of them have come.
 */
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/session/session.h"
#include "libprobe/record/record.h"

enum {
	NSEC_PER_SEC = 1000000000,
	/* Hits may be older than the record: sessions may, and clocks have errors. */
	CLOCK_MARGIN_S = 3600,
	LATE_FLUSHES = 2, /* one per second; after these, nothing is late any more */
	EVENT_ROOM = 40,  /* size of an event without name, arguments and addresses */
	ARG_ROOM = 16,	  /* size of an argument without bytes */
	ROUNDING_NS = 4
};

/* ---- Parts ------------------------------------------------------------------------- */

/* Opens an empty folder. */
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

static bool rotates(const struct probe_ctf *ctf)
{
	return ctf->options.rotate_bytes || ctf->options.rotate_ns;
}

static struct probe_error *begin_part(
	struct probe_ctf *ctf, const struct ctf_instant from[CTF_CLOCKS])
{
	char name[CTF_PART_NAME_BYTES] = ".";

	ctf->flushes = 0;
	ctf->end_ns = 0;
	if (rotates(ctf))
		ctf_part_name(name, ++ctf->part_count);
	return ctf_part_open(&ctf->part, ctf->root, name, &ctf->description, from);
}

struct probe_error *ctf_checked(struct probe_ctf *ctf, struct probe_error *error)
{
	if (error && !ctf->failed) {
		error = probe_error_first(error, ctf_direct_give_up(ctf));
		ctf_tell_losses(ctf);
	}
	ctf->failed |= error != NULL;
	return probe_error_prefix(error, "%s", ctf->path);
}

/*
 * The counter of a machine that has slept may begin again. Nothing is learned from it then: what
 * was recorded before keeps its times.
 */
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
 * A part lasts from its first hit on, which is not older than the part. It ends by a clock that
 * cannot be set.
 */
void ctf_part_begins(struct probe_ctf *ctf, uint64_t time_ns)
{
	uint64_t now_ns = clock_now_ns();

	if (!ctf->options.rotate_ns || ctf->end_ns)
		return;
	if (time_ns < ctf->begin_ns)
		time_ns = ctf->begin_ns;
	ctf->end_ns = clock_monotonic_ns() + ctf->options.rotate_ns;
	if (time_ns < now_ns)
		ctf->end_ns -= now_ns - time_ns;
}

uint64_t ctf_part_end(const struct probe_ctf *ctf)
{
	return ctf->end_ns ? clock_now_ns() + (ctf->end_ns - clock_monotonic_ns()) : UINT64_MAX;
}

bool ctf_is_part_full(const struct probe_ctf *ctf, uint64_t time_ns)
{
	bool is_full =
		(ctf->options.rotate_bytes && ctf->part.written >= ctf->options.rotate_bytes) ||
		time_ns >= ctf_part_end(ctf);

	return is_full && ctf_take_is_settled(ctf);
}

/* Where the clocks of stubs go on: behind what was written, and where the part before ends. */
static void cut_clocks(struct probe_ctf *ctf, uint64_t time_ns, struct ctf_instant from[CTF_CLOCKS])
{
	for (size_t i = 0; i < CTF_CLOCKS; i++) {
		if (!ctf->description.has_clock[i])
			continue;
		ctf->cuts[i] = ctf_clock_stamp_at(&ctf->description.clocks[i], time_ns);
		if (ctf->cuts[i] <= ctf->newest[i])
			ctf->cuts[i] = ctf->newest[i] + 1;
		/* Readers round times down, one of them more than the other. */
		from[i] = (struct ctf_instant){
			ctf->cuts[i], ctf_line_ns(&ctf->part.lines[i], ctf->cuts[i]) + ROUNDING_NS};
	}
}

struct probe_error *ctf_rotate(struct probe_ctf *ctf, uint64_t time_ns)
{
	struct probe_error *error = ctf_direct_settle(ctf, true);
	struct ctf_instant from[CTF_CLOCKS] = {{0}};

	if (!error)
		error = ctf_part_flush(&ctf->before);
	if (error)
		return error;
	close_before(ctf);
	ctf_sync_clocks(ctf);
	/* No packet may follow that tells of the losses so far. */
	error = ctf_take_flush(ctf);
	error = probe_error_first(error, ctf_part_describe(&ctf->part));
	ctf->part.over = true;
	if (!error)
		cut_clocks(ctf, time_ns, from);
	ctf->before = ctf->part;
	ctf->part = (struct ctf_part){.folder = -1};
	ctf->begin_ns = time_ns;
	return error ? error : begin_part(ctf, from);
}

/* The part that a hit belongs to; may start a new one. */
static struct probe_error *part_of(struct probe_ctf *ctf, uint64_t time_ns, struct ctf_part **ret)
{
	struct probe_error *error = NULL;

	*ret = time_ns < ctf->begin_ns && ctf->before.folder >= 0 ? &ctf->before : &ctf->part;
	if (*ret == &ctf->before)
		return NULL;
	if (ctf_is_part_full(ctf, time_ns))
		error = ctf_rotate(ctf, time_ns);
	ctf_part_begins(ctf, time_ns);
	return error;
}

/* ---- The record -------------------------------------------------------------------- */

/* The clock's 0: whole, and older than all hits. */
static uint64_t base_of(uint64_t now, uint64_t oldest_ns)
{
	const uint64_t margin_ns = CLOCK_MARGIN_S * (uint64_t)NSEC_PER_SEC;
	uint64_t first_ns = oldest_ns && oldest_ns < now ? oldest_ns : now;

	return first_ns > margin_ns ? first_ns - margin_ns : 0;
}

struct probe_error *probe_ctf_create(
	const char *directory, const struct probe_ctf_options *options, struct probe_ctf **ret)
{
	static const struct ctf_instant none[CTF_CLOCKS];
	struct probe_ctf *ctf = calloc(1, sizeof(*ctf));
	struct probe_error *error;

	if (!ctf)
		return probe_error_no_memory();
	ctf->root = ctf->part.folder = ctf->before.folder = -1;
	if (options)
		ctf->options = *options;
	ctf->begin_ns = ctf->last_ns = clock_now_ns();
	ctf->description.stacks = ctf->options.stacks;
	ctf->description.base_s = base_of(ctf->last_ns, ctf->options.oldest_ns) / NSEC_PER_SEC;
	ctf->path = strdup(directory);
	if (!ctf->path || !ctf_classes_init(ctf)) {
		probe_ctf_free(ctf);
		return probe_error_no_memory();
	}
	error = root_open(directory, &ctf->root);
	if (!error)
		error = begin_part(ctf, none);
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
	ctf_take_deinit(ctf);
	if (ctf->root >= 0)
		close(ctf->root);
	ctf_classes_deinit(ctf);
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

/* The low `size` bytes of a number; EVENT_ROOM leaves room for 8. */
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

/* CTF strings end at the first NUL; one that changed during the copy may contain a NUL. */
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

/* The most bytes that an event takes, plus some that the next one overwrites. */
static size_t event_room(const struct probe_hit *hit, size_t comm_length)
{
	size_t room = EVENT_ROOM + comm_length + (hit->stack ? 8 * hit->stack->count : 0);

	for (size_t i = 0; i < hit->arg_count; i++)
		room += ARG_ROOM +
			(hit->args[i].kind >= PROBE_VALUE_STRING ? hit->args[i].length : 0);
	return room;
}

static uint8_t *put_event(uint8_t *at, const struct ctf_stream *stream, const struct probe_hit *hit,
	const struct ctf_site *site, const char *comm, size_t comm_length, bool stacks)
{
	at = ctf_put(at, &site->id, sizeof(site->id));
	at = ctf_put(at, &stream->last, sizeof(stream->last));
	at = ctf_put(at, &hit->pid, sizeof(int32_t));
	at = ctf_put(at, &hit->tid, sizeof(int32_t));
	at = put_string(at, comm, comm_length);
	if (stacks)
		at = ctf_put_stack(at, hit->stack);
	for (size_t i = 0; i < hit->arg_count; i++)
		at = put_arg(at, &hit->args[i], site->class.codes[i]);
	return at;
}

/* Adds an event to a stream; writes the stream when it is full. */
static struct probe_error *add_event(struct probe_ctf *ctf, struct ctf_part *part,
	struct ctf_stream *stream, const struct probe_hit *hit, const struct ctf_site *site,
	const char *comm)
{
	bool stacks = ctf->description.stacks;
	size_t comm_length = strlen(comm);
	struct probe_error *error = NULL;
	uint8_t *at;

	stream_time(ctf, stream, hit->time_ns);
	if (stacks && hit->stack)
		error = ctf_name_frames(part, stream, hit, comm);
	if (!error)
		error = ctf_part_room(part, stream, event_room(hit, comm_length), &at);
	if (error)
		return error;
	at = put_event(at, stream, hit, site, comm, comm_length, stacks);
	stream->length = (size_t)(at - stream->buffer);
	ctf_stream_note_hit(stream);
	return NULL;
}

struct probe_error *probe_ctf_hit(struct probe_ctf *ctf, const struct probe_session *session,
	const struct probe_hit *hit, const char *comm)
{
	const struct ctf_site *site;
	struct ctf_stream *stream;
	struct probe_error *error;
	struct ctf_part *part;

	if (ctf->failed)
		return NULL;
	if (hit->arg_count > ARCH_ARGS_MAX)
		return probe_error_new(PROBE_ERROR_FORMAT, "a hit is larger than any can be");
	error = part_of(ctf, hit->time_ns, &part);
	if (!error)
		error = ctf_part_stream(part, session, hit->cpu, &stream);
	if (!error)
		error = ctf_class_of(ctf, session, hit, &site);
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
	const struct ctf_source *source = ctf_take_source(ctf, session);
	struct ctf_part *part = &ctf->part;
	struct ctf_stream *stream;
	struct probe_error *error;

	if (ctf->failed)
		ctf_discard_late(ctf, count);
	if (ctf->failed || !count)
		return NULL;
	if (source)
		return ctf_checked(ctf, ctf_take_discarded(ctf, source, count));
	/* Their CPU is unknown: use that of the last hit. */
	error = ctf_part_stream(part, session, ctf->last_cpu, &stream);
	if (error)
		return ctf_checked(ctf, error);
	/* Their time is unknown: use one not later than any hit still to come. */
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
	struct probe_error *error;

	ctf_classes_forget(ctf, session);
	if (ctf->failed)
		return NULL;
	error = ctf_direct_settle(ctf, true);
	/* Not before: it leaves out streams that have packets to be settled. */
	error = probe_error_first(error, ctf_take_flush(ctf));
	ctf_take_forget(ctf, session);
	error = probe_error_first(error, ctf_part_forget(&ctf->before, session));
	error = probe_error_first(error, ctf_part_forget(&ctf->part, session));
	return error ? ctf_checked(ctf, error) : NULL;
}

struct probe_error *probe_ctf_flush(struct probe_ctf *ctf)
{
	struct probe_error *error;

	if (ctf->failed)
		return NULL;
	error = ctf_part_flush(&ctf->before);
	if (!error)
		error = ctf_part_flush(&ctf->part);
	if (!error)
		error = ctf_take_flush(ctf);
	ctf_sync_clocks(ctf);
	if (!error)
		error = ctf_part_describe(&ctf->part);
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
