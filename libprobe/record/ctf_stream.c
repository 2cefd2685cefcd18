/* SPDX-License-Identifier: MIT */
/* CTF packets and their files: clocks, parts, and the thread for large packets. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "libprobe/process/process.h"
#include "libprobe/record/record.h"
#include "libprobe/session/session.h"

/* ==== Packets ================================================================================= */

enum { BITS = 8, MAGIC_BYTES = 4 };
static const uint32_t magic = 0xc1fc1fc1;

static size_t whole_pages(size_t bytes)
{
	return (bytes + CTF_PACKET_BYTES - 1) / CTF_PACKET_BYTES * CTF_PACKET_BYTES;
}

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
	return ctf_put(at, &value, sizeof(value));
}

static size_t ctf_header_bytes(const struct ctf_stream *stream)
{
	return stream->kind ? CTF_TAKEN_HEADER_BYTES : CTF_HEADER_BYTES;
}

static void ctf_put_header(struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES],
	const struct ctf_packet *packet, uint8_t *at)
{
	uint32_t cpu = (uint32_t)stream->cpu;

	at = ctf_put(at, &magic, MAGIC_BYTES);
	at = ctf_put(at, uuid, CTF_UUID_BYTES);
	at = ctf_put(at, &stream->kind, sizeof(stream->kind));
	at = put_u64(at, packet->begin);
	at = put_u64(at, packet->end);
	at = put_u64(at, BITS * packet->content);
	at = put_u64(at, BITS * packet->size);
	at = put_u64(at, stream->sequence++);
	at = put_u64(at, stream->discarded);
	at = ctf_put(at, &cpu, sizeof(cpu));
	if (stream->kind)
		ctf_put(at, &stream->pid, sizeof(stream->pid));
	stream->owes = false;
}

void ctf_stream_close(struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES])
{
	uint8_t *at = stream->buffer + stream->packet;
	size_t content = stream->length - stream->packet;
	size_t size = whole_pages(content);
	const struct ctf_packet packet = {stream->begin, stream->last, content, size};

	if (!stream->is_open)
		return;
	memset(at + content, 0, size - content);
	ctf_put_header(stream, uuid, &packet, at);
	stream->packet += size;
	stream->is_open = false;
}

/* Starts a packet with room for `length` bytes of events. Returns false if the buffer is full. */
static bool packet_open(struct ctf_stream *stream, size_t length)
{
	if (stream->packet + whole_pages(ctf_header_bytes(stream) + length) > CTF_BATCH_BYTES)
		return false;
	stream->length = stream->packet + ctf_header_bytes(stream);
	stream->begin = stream->last;
	stream->is_open = stream->begun = true;
	return true;
}

/*
 * Returns the place for an event of up to `room` bytes at stream->last; the caller adds its size to
 * stream->length. NULL if the buffer is full and must be written first.
 */
static uint8_t *ctf_stream_room(
	struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES], size_t room)
{
	size_t at = stream->length;

	/* Ring records are aligned, and so are the events between them. */
	if (stream->kind && stream->is_open)
		at = ring_padded(at, RING_ALIGN);
	if (stream->is_open && at + room > stream->packet + CTF_PACKET_BYTES)
		ctf_stream_close(stream, uuid);
	if (!stream->is_open) {
		if (!packet_open(stream, room))
			return NULL;
		at = stream->length;
	}
	memset(stream->buffer + stream->length, 0, at - stream->length);
	return stream->buffer + at;
}

bool ctf_stream_discard(
	struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES], uint64_t count)
{
	/*
	 * Readers subtract the previous packet's count, so the first packet cannot report losses:
	 * begin with an empty one.
	 */
	if (!stream->begun) {
		if (!packet_open(stream, 0))
			return false;
		ctf_stream_close(stream, uuid);
	}
	if (stream->is_open && stream->sequence == 0)
		ctf_stream_close(stream, uuid);
	if (!stream->is_open && !packet_open(stream, 0))
		return false;
	stream->discarded += count;
	return true;
}

void ctf_stream_empty(struct ctf_stream *stream, size_t kept)
{
	for (size_t i = kept / CTF_PACKET_BYTES; i < CTF_BATCH_BYTES / CTF_PACKET_BYTES; i++)
		stream->dropped += stream->hits[i];
	memset(stream->hits, 0, sizeof(stream->hits));
	stream->packet = 0;
	stream->is_open = false;
}

/* Returns the end of the last whole packet in `written` bytes, and notes its start for last_at. */
static size_t whole_packets(struct ctf_stream *stream, size_t written)
{
	size_t at = 0;

	while (at < written) {
		uint64_t bits;

		memcpy(&bits, stream->buffer + at + CTF_SIZE_AT, sizeof(bits));
		if (at + bits / BITS > written)
			break;
		stream->last_at = stream->written + (off_t)at;
		at += bits / BITS;
	}
	return at;
}

/*
 * Appends all closed packets. After an error, the file ends with the last whole packet.
 * stream->written is its size.
 */
static struct probe_error *ctf_stream_write(struct ctf_stream *stream, int fd)
{
	size_t done = 0, whole;
	int err = 0;

	while (done < stream->packet && !err) {
		ssize_t n = write(fd, stream->buffer + done, stream->packet - done);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0)
			err = ENOSPC;
		else if (errno != EINTR)
			err = errno;
	}
	whole = whole_packets(stream, done);
	stream->written += (off_t)whole;
	/* No packet is open, so the buffer holds only closed packets. */
	ctf_stream_empty(stream, whole);
	if (!err)
		return NULL;
	if (whole < done && ftruncate(fd, stream->written) != 0)
		return probe_error_system(err, "cannot write the record (and its last packet stays "
					       "incomplete)");
	return probe_error_system(err, "cannot write more of the record, which is whole so far");
}

/* ==== Clocks ================================================================================== */

/*
 * The clocks of stubs in the metadata: a frequency and the offset to 1970, which are estimates.
 * When they have improved, the metadata is replaced. A part starts where the previous part's
 * metadata says that it ends.
 */

enum { SETTLED_NS = 500000000 };
#define NS_PER_S UINT64_C(1000000000)

/* Returns the line from stamps to times through `from` and the clock's last reading. */
static struct ctf_line ctf_line_of(const struct clock *clock, const struct ctf_instant *from)
{
	double tick_ns = clock->counter ? clock_tick_ns(clock) : 1;
	uint64_t stamps = clock->last_steady_stamp - clock->first_stamp;
	/* The last reading, with its time as if CLOCK_REALTIME had never been set. */
	struct ctf_instant now = {
		clock->last_steady_stamp, clock->first_ns + (uint64_t)((double)stamps * tick_ns)};
	struct ctf_line line;
	__int128 base;

	/*
	 * `from` may be from the previous part's clock, so compute the frequency from both points.
	 */
	if (clock->counter && now.stamp > from->stamp && now.ns > from->ns + SETTLED_NS)
		tick_ns = (double)(now.ns - from->ns) / (double)(now.stamp - from->stamp);
	line.frequency = (uint64_t)(1e9 / tick_ns + 0.5);
	line.frequency += line.frequency == 0;
	base = (__int128)from->ns - (__int128)from->stamp * NS_PER_S / line.frequency;
	line.offset_s = (int64_t)(base / (__int128)NS_PER_S) - (base % (__int128)NS_PER_S < 0);
	base -= (__int128)line.offset_s * NS_PER_S;
	line.offset = (uint64_t)(base * line.frequency / NS_PER_S);
	return line;
}

uint64_t ctf_line_ns(const struct ctf_line *line, uint64_t stamp)
{
	unsigned __int128 stamps = (unsigned __int128)stamp + line->offset;

	return (uint64_t)line->offset_s * NS_PER_S +
	       (uint64_t)(stamps * NS_PER_S / line->frequency);
}

uint64_t ctf_clock_stamp_at(const struct clock *clock, uint64_t ns)
{
	double tick_ns = clock->counter ? clock_tick_ns(clock) : 1;

	return clock->last_stamp +
	       (uint64_t)(int64_t)((double)(int64_t)(ns - clock->last_ns) / tick_ns);
}

/* ==== Parts =================================================================================== */

/*
 * A part of a record, or the whole record: a folder with the metadata and a file for each stream.
 *
 * New metadata replaces the old (rename(2)) before the first packet that needs it, so every event
 * is described, even if we are killed.
 *
 * Another user may plant links in the folder, so we create every file ourselves.
 */

enum { LINE_ERROR_NS = 1000 /* a clock in the metadata may be wrong by this many nanoseconds */ };

/* ---- Metadata ------------------------------------------------------------------ */

static struct probe_error *write_metadata(struct ctf_part *part)
{
	static const char draft[] = ".metadata.new";
	const struct buffer *classes = &part->description->classes;
	struct probe_error *error = NULL;
	AUTO(buffer_deinit) struct buffer text = {0};
	int fd;

	if (classes->no_memory)
		return probe_error_no_memory();
	ctf_describe_trace(&text, part->uuid, part->description, part->lines);
	buffer_bytes(&text, classes->data, classes->length);
	unlinkat(part->folder, draft, 0);
	fd = openat(part->folder, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	if (text.no_memory)
		error = probe_error_no_memory();
	else if (fd < 0)
		error = probe_error_system(errno, "cannot create the metadata");
	else if (!file_write(fd, text.data, text.length))
		error = probe_error_system(errno, "cannot write the metadata");
	if (fd >= 0 && close(fd) != 0 && !error)
		error = probe_error_system(errno, "cannot write the metadata");
	if (!error && renameat(part->folder, draft, part->folder, "metadata") != 0)
		error = probe_error_system(errno, "cannot name the metadata");
	if (error && fd >= 0)
		unlinkat(part->folder, draft, 0);
	if (!error)
		part->described = classes->length;
	return error;
}

/*
 * Computes the lines of the used clocks. Returns true if a line has changed enough to be written.
 */
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
	/* RFC 9562, 5.4: a UUID of version 4 */
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
		map_clear(&part->streams[i].frames);
		map_clear(&part->streams[i].threads);
	}
	free(part->streams);
	cleanup_fd(&part->folder);
	*part = (struct ctf_part){.folder = -1};
}

/* ---- Streams ---------------------------------------------------------------------- */

static void ctf_stream_name(char ret[CTF_STREAM_NAME_BYTES], const struct ctf_part *part,
	const struct ctf_stream *stream)
{
	/* Streams are numbered in the order of their first hits. */
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

/* Like ctf_stream_open(), for appending. Close it at once: files may be too many. */
static struct probe_error *ctf_part_file(
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
	error = ctf_part_describe(part)
		?: ctf_part_file(part, stream, 0, &fd)
		?: ctf_stream_write(stream, fd);
	/* Some file systems report a full disk only on close(). */
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
	/* After a write, the buffer is empty and has room. */
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
		error = error ?: ctf_part_write(part, stream);
		ctf_stream_empty(stream, 0);
		free(stream->buffer);
		map_clear(&stream->frames);
		map_clear(&stream->threads);
		stream->buffer = NULL;
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

/*
 * Finds or adds a stream like `wanted` in session, kind, ring and CPU. Looks in recent[] first,
 * because hits come from a few CPUs in turn.
 */
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
		.cpu = (int)(ring % session->data.rings.layout.cpus),
		.pid = session->processes.root,
		/* Records are never older than their session. */
		.last = session->clock.first_stamp};

	return find_stream(part, &wanted, ret);
}

/* ==== Writer thread =========================================================================== */

enum { HUGE_PAGE_BYTES = 2 << 20 };

/* Does the next job. The caller holds the lock; it is released while the job is written. */
static void do_next(struct ctf_writer *writer)
{
	struct ctf_job *job = &writer->jobs[writer->finished % CTF_JOBS];
	bool done = false;

	if (!writer->failed) {
		pthread_mutex_unlock(&writer->lock);
		done = file_write(job->fd, job->bytes, job->size);
		pthread_mutex_lock(&writer->lock);
	}
	job->done = done;
	writer->failed |= !done;
	writer->finished++;
	pthread_cond_broadcast(&writer->changed);
}

static void *do_jobs(void *data)
{
	struct ctf_writer *writer = data;

	pthread_mutex_lock(&writer->lock);
	while (writer->finished != writer->given || !writer->over) {
		if (writer->finished != writer->given)
			do_next(writer);
		else
			pthread_cond_wait(&writer->changed, &writer->lock);
	}
	pthread_mutex_unlock(&writer->lock);
	return NULL;
}

struct ctf_writer *ctf_writer_create(void)
{
	struct ctf_writer *writer = calloc(1, sizeof(*writer));
	size_t size = CTF_JOBS * (size_t)CTF_JOB_BYTES;
	uint8_t *memory = writer ? aligned_alloc(HUGE_PAGE_BYTES, size) : NULL;

	if (!memory) {
		free(writer);
		return NULL;
	}
	/* Use huge pages, because the kernel has fewer pages to handle when it writes them. */
	if (seccomp_may_call(SECCOMP_OWN_REMOVE))
		madvise(memory, size, MADV_HUGEPAGE);
	for (size_t i = 0; i < CTF_JOBS; i++)
		writer->jobs[i].memory = memory + i * CTF_JOB_BYTES;
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->changed, NULL);
	writer->has_thread = worker_start(&writer->worker, do_jobs, writer) == 0;
	return writer;
}

void ctf_writer_free(struct ctf_writer *writer)
{
	if (!writer)
		return;
	pthread_mutex_lock(&writer->lock);
	writer->over = true;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	if (writer->has_thread)
		worker_join(&writer->worker);
	pthread_cond_destroy(&writer->changed);
	pthread_mutex_destroy(&writer->lock);
	free(writer->jobs[0].memory);
	free(writer);
}

struct ctf_job *ctf_writer_next(struct ctf_writer *writer)
{
	bool is_full = writer->given - writer->settled == CTF_JOBS;

	return is_full ? NULL : &writer->jobs[writer->given % CTF_JOBS];
}

struct ctf_job *ctf_writer_waiting(struct ctf_writer *writer, size_t i)
{
	bool is_there = i < writer->given - writer->settled;

	return is_there ? &writer->jobs[(writer->settled + i) % CTF_JOBS] : NULL;
}

void ctf_writer_give(struct ctf_writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	writer->given++;
	if (!writer->has_thread)
		do_next(writer);
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
}

size_t ctf_writer_finished(struct ctf_writer *writer, bool wait)
{
	size_t count;

	pthread_mutex_lock(&writer->lock);
	while (wait && writer->finished != writer->given)
		pthread_cond_wait(&writer->changed, &writer->lock);
	count = writer->finished - writer->settled;
	pthread_mutex_unlock(&writer->lock);
	return count;
}

void ctf_writer_settle(struct ctf_writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	if (++writer->settled == writer->given)
		writer->failed = false;
	pthread_mutex_unlock(&writer->lock);
}

/* ==== Writes past the page cache ============================================================== */

/*
 * Large packets are written by a thread, past the page cache (O_DIRECT), which takes little
 * processor time. While a job is unsettled, its bytes count as written, but its hits do not.
 *
 * This is done only on file systems that state their requirements (STATX_DIOALIGN, Linux 6.1),
 * because these write a packet as a whole even if we are killed. On other file systems, packets are
 * one page. A large packet that could not be written is split into pages, of which some may still
 * fit on the disk.
 */

/* The block size for direct writes to a file; 0 if they are not possible. */
static size_t blocks_of(int fd)
{
#ifdef STATX_DIOALIGN
	struct statx status;
	size_t block;

	if (!seccomp_may_call(SECCOMP_OWN_DIRECT) ||
		statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) != 0 ||
		!(status.stx_mask & STATX_DIOALIGN))
		return 0;
	block = status.stx_dio_offset_align > status.stx_dio_mem_align ? status.stx_dio_offset_align
								       : status.stx_dio_mem_align;
	/* Blocks must divide a packet, which is whole pages. */
	if (block && CTF_PACKET_BYTES % block == 0)
		return block;
#else
	(void)fd;
#endif
	return 0;
}

struct probe_error *ctf_direct_ask(struct ctf_part *part, struct ctf_stream *stream)
{
	struct probe_error *error;
	int fd;

	if (part->direct_known)
		return NULL;
	error = ctf_part_describe(part) ?: ctf_part_file(part, stream, 0, &fd);
	if (error)
		return error;
	part->direct = blocks_of(fd);
	part->direct_known = true;
	close(fd);
	if (!part->direct)
		return NULL;
	error = ctf_part_file(part, stream, O_DIRECT, &fd);
	if (!error) {
		close(fd);
	} else if (error->err == EINVAL) {
		part->direct = 0;
		probe_error_free(error);
		error = NULL;
	}
	return error;
}

/* ---- Giving jobs to the thread ----------------------------------------------------- */

/* The large packet of a job, behind the room for packets that name threads. */
static uint8_t *packet_of(const struct ctf_job *job)
{
	return job->memory + CTF_NAMES_BYTES;
}

uint8_t *ctf_direct_records(const struct ctf_job *job)
{
	return packet_of(job) + CTF_TAKEN_HEADER_BYTES;
}

struct probe_error *ctf_direct_give(struct taking *t, struct ctf_job *job)
{
	uint64_t *hits = calloc(t->source->agreed + 1, sizeof(*hits));
	struct ctf_packet *packet = &job->packet;
	struct ctf_stream *stream = t->stream;
	struct probe_error *error;

	if (!hits)
		return probe_error_no_memory();
	error = ctf_part_file(t->part, stream, O_DIRECT, &job->fd);
	if (error) {
		free(hits);
		return error;
	}
	job->part = t->part;
	job->stream = (size_t)(stream - t->part->streams);
	job->session = t->source->session;
	job->hits = t->source->hits;
	job->hit_count = t->source->agreed;
	job->paged = 0;
	t->source->hits = hits;
	/* Move the packets that name threads to the job. */
	job->names = stream->packet;
	job->bytes = packet_of(job) - job->names;
	memcpy(job->bytes, stream->buffer, job->names);
	stream->packet = 0;
	stream->buffer = NULL;
	job->sequence = stream->sequence - job->names / CTF_PACKET_BYTES;
	memset(packet_of(job) + packet->content, 0, packet->size - packet->content);
	ctf_put_header(stream, t->part->uuid, packet, packet_of(job));
	job->size = job->names + packet->size;
	job->last_at = stream->written + (off_t)job->names;
	stream->written += (off_t)job->size;
	t->part->written += job->size;
	stream->last = packet->end;
	stream->begun = true;
	ctf_writer_give(t->ctf->writer);
	return NULL;
}

/* ---- Settling ---------------------------------------------------------------------- */

static void free_job(struct probe_ctf *ctf, struct ctf_job *job)
{
	close(job->fd);
	free(job->hits);
	ctf_writer_settle(ctf->writer);
}

static void end_job(struct probe_ctf *ctf, struct ctf_job *job, bool is_written)
{
	struct ctf_stream *stream = &job->part->streams[job->stream];

	if (job->done)
		stream->last_at = job->last_at;
	if (is_written)
		ctf_count_hits(ctf, job->session, job->hits, job->hit_count);
	else
		stream->dropped += ctf_sum_hits(job->hits, job->hit_count) - job->paged;
	free_job(ctf, job);
}

/* Undoes a job's changes to its stream and file. */
static struct probe_error *take_back(struct ctf_job *job)
{
	struct ctf_stream *stream = &job->part->streams[job->stream];
	struct stat status;

	stream->written -= (off_t)job->size;
	stream->sequence = job->sequence;
	job->part->written -= job->size;
	job->part->direct = 0;
	/* If the job was not tried, the file may be shorter: ftruncate(2) would extend it. */
	if (fstat(job->fd, &status) == 0 && status.st_size <= stream->written)
		return NULL;
	return ftruncate(job->fd, stream->written) == 0
		       ? NULL
		       : probe_error_system(errno, "cannot write the record (and its last packet "
						   "stays incomplete)");
}

/* Writes a job's records again, as packets of one page. */
static struct probe_error *write_pages(struct probe_ctf *ctf, struct ctf_job *job)
{
	struct ctf_stream *stream = &job->part->streams[job->stream];
	const struct ring_forms forms = {ctf->kinds.kinds[stream->kind - 1].forms, job->hit_count};
	size_t size = job->packet.content - CTF_TAKEN_HEADER_BYTES, length;
	const uint8_t *records = ctf_direct_records(job);
	struct probe_error *error = NULL;
	uint8_t *at;

	stream->buffer = ctf->packets;
	/* Move the packets that name threads back, with new sequence numbers. */
	memcpy(stream->buffer, job->bytes, job->names);
	for (; stream->packet < job->names; stream->packet += CTF_PACKET_BYTES) {
		ctf_put(stream->buffer + stream->packet + CTF_SEQUENCE_AT, &stream->sequence,
			sizeof(stream->sequence));
		stream->sequence++;
	}
	for (size_t i = 0; i < size; i += ring_padded(length, RING_ALIGN)) {
		length = ring_record_length(&forms, records + i, size - i);
		memcpy(&stream->last, records + i, sizeof(stream->last));
		error = ctf_part_room(job->part, stream, length, &at);
		if (error)
			break;
		stream->length = (size_t)(ctf_put(at, records + i, length) - stream->buffer);
		ctf_stream_note_hit(stream);
		job->paged++;
	}
	return ctf_end_packets(job->part, stream, error);
}

/* Settles jobs after a job has failed. Jobs after it were not tried. */
static struct probe_error *settle_failed(struct probe_ctf *ctf)
{
	size_t count = ctf_writer_finished(ctf->writer, true);
	struct probe_error *error = NULL;
	struct ctf_job *job;

	for (size_t i = count; i--;)
		error = probe_error_first(error, take_back(ctf_writer_waiting(ctf->writer, i)));
	while ((job = ctf_writer_waiting(ctf->writer, 0))) {
		error = error ?: write_pages(ctf, job);
		end_job(ctf, job, !error);
	}
	return error;
}

void ctf_count_hits(
	struct probe_ctf *ctf, struct probe_session *session, uint64_t *hits, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		session->known[session->sites[i].probe].consumed += hits[i];
		ctf->counted += hits[i];
		hits[i] = 0;
	}
}

uint64_t ctf_sum_hits(const uint64_t *hits, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += hits[i];
	return sum;
}

struct probe_error *ctf_direct_settle(struct probe_ctf *ctf, bool wait)
{
	size_t count = ctf->writer ? ctf_writer_finished(ctf->writer, wait) : 0;

	for (; count; count--) {
		struct ctf_job *job = ctf_writer_waiting(ctf->writer, 0);

		if (!job->done)
			return settle_failed(ctf);
		end_job(ctf, job, true);
	}
	return NULL;
}

struct probe_error *ctf_direct_give_up(struct probe_ctf *ctf)
{
	size_t count = ctf->writer ? ctf_writer_finished(ctf->writer, true) : 0;
	struct probe_error *error = NULL;
	struct ctf_job *job;

	for (size_t i = count; i--;) {
		job = ctf_writer_waiting(ctf->writer, i);
		if (!job->done)
			error = probe_error_first(error, take_back(job));
	}
	while (count && (job = ctf_writer_waiting(ctf->writer, 0)))
		end_job(ctf, job, job->done);
	return error;
}

bool ctf_direct_waits(
	struct probe_ctf *ctf, const struct ctf_part *part, const struct ctf_stream *stream)
{
	const struct ctf_job *job;

	for (size_t i = 0; ctf->writer && (job = ctf_writer_waiting(ctf->writer, i)); i++)
		if (job->part == part && &part->streams[job->stream] == stream)
			return true;
	return false;
}

void ctf_direct_deinit(struct probe_ctf *ctf)
{
	struct ctf_job *job;

	if (!ctf->writer)
		return;
	ctf_writer_finished(ctf->writer, true);
	while ((job = ctf_writer_waiting(ctf->writer, 0)))
		free_job(ctf, job);
	ctf_writer_free(ctf->writer);
}

struct probe_error *ctf_end_packets(
	struct ctf_part *part, struct ctf_stream *stream, struct probe_error *error)
{
	if (!error) {
		ctf_stream_close(stream, part->uuid);
		error = ctf_part_write(part, stream);
	}
	ctf_stream_empty(stream, 0);
	stream->buffer = NULL;
	return error;
}
