/* SPDX-License-Identifier: MIT */
/*
 * A part of a record, or the whole if it is not divided: a folder with metadata and one file
 * per stream.
 *
 * Metadata is replaced (rename(2)) before the first packet that needs the new version is
 * written. So a reader finds a description of every event, even if we are killed.
 *
 * The folder may belong to another user that plants links in it: we create every file
 * ourselves.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/file.h"
#include "libprobe/record/record.h"
#include "libprobe/session/session.h"

enum { LINE_ERROR_NS = 1000 /* by which clocks in the metadata may be off */ };

/* ---- Metadata ------------------------------------------------------------------ */

static struct probe_error *write_all(int fd, const char *data, size_t length)
{
	while (length) {
		ssize_t n = write(fd, data, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return probe_error_system(n ? errno : ENOSPC, "cannot write the metadata");
		data += n;
		length -= (size_t)n;
	}
	return NULL;
}

static struct probe_error *write_metadata(struct ctf_part *part)
{
	static const char draft[] = ".metadata.new";
	const struct buffer *classes = &part->description->classes;
	struct probe_error *error = NULL;
	struct buffer text;
	int fd;

	if (classes->no_memory || !buffer_init(&text))
		return probe_error_no_memory();
	ctf_describe_trace(&text, part->uuid, part->description, part->lines);
	buffer_bytes(&text, classes->data, classes->length);
	unlinkat(part->folder, draft, 0);
	fd = openat(part->folder, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	if (text.no_memory)
		error = probe_error_no_memory();
	else if (fd < 0)
		error = probe_error_system(errno, "cannot create the metadata");
	else
		error = write_all(fd, text.data, text.length);
	if (fd >= 0 && close(fd) != 0 && !error)
		error = probe_error_system(errno, "cannot write the metadata");
	if (!error && renameat(part->folder, draft, part->folder, "metadata") != 0)
		error = probe_error_system(errno, "cannot name the metadata");
	if (error && fd >= 0)
		unlinkat(part->folder, draft, 0);
	if (!error)
		part->described = classes->length;
	buffer_deinit(&text);
	return error;
}

/* Sets the lines of the clocks in use. Has one moved so far that it should be written? */
static bool renew_lines(struct ctf_part *part)
{
	bool moved = false;

	for (size_t i = 0; i < CTF_CLOCKS; i++) {
		const struct clock *clock = &part->description->clocks[i];
		struct ctf_line *line = &part->lines[i], new;
		uint64_t is, was;

		if (!part->description->has_clock[i] || (part->over && line->frequency))
			continue;
		if (!part->from[i].ns)
			part->from[i] = (struct ctf_instant){clock->first_stamp, clock->first_ns};
		new = ctf_line_of(clock, &part->from[i]);
		is = ctf_line_ns(&new, clock->last_stamp);
		was = line->frequency ? ctf_line_ns(line, clock->last_stamp) : 0;
		if (is - was + LINE_ERROR_NS <= 2 * LINE_ERROR_NS)
			continue;
		*line = new;
		moved = true;
	}
	return moved;
}

struct probe_error *ctf_part_describe(struct ctf_part *part)
{
	const struct buffer *classes = &part->description->classes;

	if (part->folder < 0)
		return NULL;
	return renew_lines(part) || part->described != classes->length || classes->no_memory
		       ? write_metadata(part)
		       : NULL;
}

/* ---- The folder ----------------------------------------------------------------- */

void ctf_part_name(char ret[CTF_PART_NAME_BYTES], unsigned int number)
{
	snprintf(ret, CTF_PART_NAME_BYTES, "%06u", number);
}

bool ctf_part_number(const char *name, unsigned int *ret)
{
	char again[CTF_PART_NAME_BYTES];

	*ret = (unsigned int)strtoul(name, NULL, 10);
	ctf_part_name(again, *ret);
	return strcmp(name, again) == 0;
}

struct probe_error *ctf_part_open(struct ctf_part *part, int root, const char *name,
	const struct ctf_description *description, const struct ctf_instant from[CTF_CLOCKS])
{
	*part = (struct ctf_part){.folder = -1, .description = description};
	memcpy(part->from, from, sizeof(part->from));
	if (getrandom(part->uuid, sizeof(part->uuid), 0) != sizeof(part->uuid))
		return probe_error_system(errno, "cannot make an identifier for the record");
	/* RFC 9562, 5.4: version 4 of the variant that it defines. */
	part->uuid[6] = (uint8_t)((part->uuid[6] & 0x0f) | 0x40);
	part->uuid[8] = (uint8_t)((part->uuid[8] & 0x3f) | 0x80);
	if (name[0] != '.' && mkdirat(root, name, FOLDER_MODE) != 0)
		return probe_error_system(errno, "cannot create the folder %s", name);
	part->folder = openat(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (part->folder < 0)
		return probe_error_system(errno, "cannot open the folder %s", name);
	renew_lines(part);
	return write_metadata(part);
}

void ctf_part_close(struct ctf_part *part)
{
	for (size_t i = 0; i < part->stream_count; i++) {
		free(part->streams[i].buffer);
		free(part->streams[i].frames.slots);
		ctf_threads_deinit(&part->streams[i].threads);
	}
	free(part->streams);
	if (part->folder >= 0)
		close(part->folder);
	*part = (struct ctf_part){.folder = -1};
}

/* ---- Streams ---------------------------------------------------------------------- */

void ctf_stream_name(char ret[CTF_STREAM_NAME_BYTES], const struct ctf_part *part,
	const struct ctf_stream *stream)
{
	/* Sessions are numbered in the order of their first hits. */
	snprintf(ret, CTF_STREAM_NAME_BYTES, "stream_%zu_cpu%d", (size_t)(stream - part->streams),
		stream->cpu);
}

int ctf_stream_open(const struct ctf_part *part, struct ctf_stream *stream, int flags)
{
	char name[CTF_STREAM_NAME_BYTES];
	struct stat st;
	int fd;

	ctf_stream_name(name, part, stream);
	flags |= O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
	fd = openat(
		part->folder, name, stream->created ? flags : flags | O_CREAT | O_EXCL, FILE_MODE);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) ||
		(stream->created && (st.st_dev != stream->dev || st.st_ino != stream->ino))) {
		close(fd);
		errno = ESTALE;
		return -1;
	}
	stream->created = true;
	stream->dev = st.st_dev;
	stream->ino = st.st_ino;
	return fd;
}

struct probe_error *ctf_part_file(
	const struct ctf_part *part, struct ctf_stream *stream, int more_flags, int *ret)
{
	const char *what = stream->created ? "open" : "create";
	char name[CTF_STREAM_NAME_BYTES];

	*ret = ctf_stream_open(part, stream, O_APPEND | more_flags);
	if (*ret >= 0)
		return NULL;
	ctf_stream_name(name, part, stream);
	return probe_error_system(errno, "cannot %s %s", what, name);
}

struct probe_error *ctf_part_write(struct ctf_part *part, struct ctf_stream *stream)
{
	off_t before = stream->written;
	struct probe_error *error;
	int fd = -1;

	if (!stream->packet)
		return NULL;
	error = ctf_part_describe(part);
	if (!error)
		error = ctf_part_file(part, stream, 0, &fd);
	if (!error)
		error = ctf_stream_write(stream, fd);
	/* Some file systems report only now that the disk is full. */
	if (fd >= 0 && close(fd) != 0 && !error)
		error = probe_error_system(errno, "cannot write the record");
	part->written += (uint64_t)(stream->written - before);
	return error;
}

struct probe_error *ctf_part_room(
	struct ctf_part *part, struct ctf_stream *stream, size_t room, uint8_t **ret)
{
	struct probe_error *error;

	if (room > CTF_EVENT_BYTES_MAX)
		return probe_error_new(PROBE_ERROR_FORMAT, "a hit is larger than any can be");
	*ret = ctf_stream_room(stream, part->uuid, room);
	if (*ret)
		return NULL;
	error = ctf_part_write(part, stream);
	/* It has room: it is empty. */
	*ret = ctf_stream_room(stream, part->uuid, room);
	return error;
}

struct probe_error *ctf_part_forget(struct ctf_part *part, const struct probe_session *session)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < part->stream_count; i++) {
		struct ctf_stream *stream = &part->streams[i];

		if (stream->session != session)
			continue;
		ctf_stream_close(stream, part->uuid);
		error = error ? error : ctf_part_write(part, stream);
		ctf_stream_empty(stream, 0);
		free(stream->buffer);
		free(stream->frames.slots);
		ctf_threads_deinit(&stream->threads);
		stream->buffer = NULL;
		stream->frames = (struct ctf_frames){0};
		stream->session = NULL;
	}
	return error;
}

struct probe_error *ctf_part_flush(struct ctf_part *part)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < part->stream_count && !error; i++) {
		if (!part->streams[i].session)
			continue;
		ctf_stream_close(&part->streams[i], part->uuid);
		error = ctf_part_write(part, &part->streams[i]);
	}
	return error;
}

static bool is_stream_of(const struct ctf_part *part, size_t i, const struct ctf_stream *wanted)
{
	const struct ctf_stream *stream = &part->streams[i];

	return i < part->stream_count && stream->session == wanted->session &&
	       stream->kind == wanted->kind && stream->ring == wanted->ring &&
	       stream->cpu == wanted->cpu;
}

/* Finds a stream, or adds one as `wanted`. Hits come from a few CPUs in turn. */
static struct probe_error *find_stream(
	struct ctf_part *part, const struct ctf_stream *wanted, struct ctf_stream **ret)
{
	size_t *recent = &part->recent[(unsigned int)wanted->cpu % CTF_RECENT], i = *recent;

	if (!is_stream_of(part, i, wanted))
		for (i = 0; i < part->stream_count && !is_stream_of(part, i, wanted);)
			i++;
	*recent = i;
	if (i == part->stream_count) {
		if (!ARRAY_ROOM(part->streams, i))
			return probe_error_no_memory();
		part->streams[i] = *wanted;
		if (!wanted->kind)
			part->streams[i].buffer = malloc(CTF_BATCH_BYTES);
		if (!wanted->kind && !part->streams[i].buffer)
			return probe_error_no_memory();
		part->stream_count++;
	}
	*ret = &part->streams[i];
	return NULL;
}

struct probe_error *ctf_part_stream(struct ctf_part *part, const struct probe_session *session,
	int cpu, struct ctf_stream **ret)
{
	const struct ctf_stream wanted = {.session = session, .cpu = cpu};

	return find_stream(part, &wanted, ret);
}

struct probe_error *ctf_part_ring_stream(struct ctf_part *part, const struct ctf_source *source,
	unsigned int ring, struct ctf_stream **ret)
{
	const struct probe_session *session = source->session;
	const struct ctf_stream wanted = {.session = session,
		.kind = source->kind,
		.ring = ring,
		.cpu = (int)(ring % session->rings.layout.cpus),
		.pid = session->processes.root,
		/* No record is older than its session. */
		.last = session->clock.first_stamp};

	return find_stream(part, &wanted, ret);
}
