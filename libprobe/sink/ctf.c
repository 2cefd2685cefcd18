/* SPDX-License-Identifier: MIT */
/*
 * A record: its folder, its streams, and the classes of its events.
 *
 * Metadata is replaced (rename(2)) before the first packet is written that needs
 * what is new in it. So a reader finds a description of every event, whenever we
 * are killed.
 *
 * Time stamps count from the start of the record. What the session's clock says
 * is interpolated anew at each poll, and may go back by some nanoseconds from one
 * to the next, or by more if somebody sets the system's clock; within a stream it
 * must not.
 */
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/session_internal.h"
#include "libprobe/sink/ctf.h"

enum {
	CACHE_ENTRIES = 1024, /* a power of two */
	NSEC_PER_SEC = 1000000000,
	CLOCK_MARGIN_S = 1, /* hits before the record's begin, by the clock's error */
	PART_NAME_BYTES = 24
};

/* What the last hits of a site were like. */
struct ctf_site {
	uint64_t pc;
	uint32_t id; /* of the class */
	struct ctf_class class;
};

struct probe_ctf {
	struct probe_ctf_options options;
	char *path; /* of the part that is being written, for messages */
	int root, folder;
	unsigned int part;
	uint8_t uuid[CTF_UUID_BYTES];
	uint64_t base_ns, next_part_ns;
	uint64_t written; /* in this part */
	struct ctf_stream *streams;
	size_t stream_count;
	size_t last; /* stream of the last hit */
	struct ctf_class *classes;
	size_t class_count;
	struct buffer descriptions;
	size_t described; /* bytes of them that are in the metadata */
	struct ctf_site *sites;
	uint8_t *event;
	bool failed;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

/* ---- Folders and metadata ------------------------------------------------------ */

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

static struct probe_error *write_metadata(struct probe_ctf *ctf)
{
	static const char draft[] = ".metadata.new";
	struct probe_error *error;
	struct buffer text;
	int fd;

	if (ctf->descriptions.no_memory || !buffer_init(&text))
		return probe_error_no_memory();
	ctf_describe_trace(&text, ctf->uuid, ctf->base_ns / NSEC_PER_SEC);
	buffer_bytes(&text, ctf->descriptions.data, ctf->descriptions.length);
	fd = openat(ctf->folder, draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (text.no_memory)
		error = probe_error_no_memory();
	else if (fd < 0)
		error = probe_error_system(errno, "cannot create the metadata");
	else
		error = write_all(fd, text.data, text.length);
	if (fd >= 0 && close(fd) != 0 && !error)
		error = probe_error_system(errno, "cannot write the metadata");
	if (!error && renameat(ctf->folder, draft, ctf->folder, "metadata") != 0)
		error = probe_error_system(errno, "cannot name the metadata");
	if (error && fd >= 0)
		unlinkat(ctf->folder, draft, 0);
	if (!error)
		ctf->described = ctf->descriptions.length;
	buffer_deinit(&text);
	return error;
}

static void part_close(struct probe_ctf *ctf)
{
	for (size_t i = 0; i < ctf->stream_count; i++) {
		struct ctf_stream *stream = &ctf->streams[i];

		if (stream->fd >= 0)
			close(stream->fd);
		stream->fd = -1;
		stream->begun = false;
		stream->discarded = stream->sequence = 0;
		stream->written = 0;
	}
	if (ctf->folder >= 0 && ctf->folder != ctf->root)
		close(ctf->folder);
	ctf->folder = -1;
}

static bool rotates(const struct probe_ctf *ctf)
{
	return ctf->options.rotate_bytes || ctf->options.rotate_ns;
}

/* Begins a part: the whole record, where it is not divided. */
static struct probe_error *part_open(struct probe_ctf *ctf)
{
	char name[PART_NAME_BYTES];

	ctf->written = 0;
	if (ctf->options.rotate_ns)
		ctf->next_part_ns = now_ns() + ctf->options.rotate_ns;
	if (getrandom(ctf->uuid, sizeof(ctf->uuid), 0) != sizeof(ctf->uuid))
		return probe_error_system(errno, "cannot make a number for the record");
	/* RFC 9562, 5.4: version 4 of the variant that it defines. */
	ctf->uuid[6] = (uint8_t)((ctf->uuid[6] & 0x0f) | 0x40);
	ctf->uuid[8] = (uint8_t)((ctf->uuid[8] & 0x3f) | 0x80);
	if (!rotates(ctf)) {
		ctf->folder = ctf->root;
		return write_metadata(ctf);
	}
	snprintf(name, sizeof(name), "%06u", ++ctf->part);
	if (mkdirat(ctf->root, name, 0777) != 0)
		return probe_error_system(errno, "cannot create the folder %s", name);
	ctf->folder = openat(ctf->root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ctf->folder < 0)
		return probe_error_system(errno, "cannot open the folder %s", name);
	return write_metadata(ctf);
}

/* A folder that holds nothing yet. */
static struct probe_error *root_open(const char *path, int *ret)
{
	struct dirent *entry;
	bool empty = true;
	DIR *folder;

	if (mkdir(path, 0777) != 0 && errno != EEXIST)
		return probe_error_system(errno, "cannot create the folder");
	folder = opendir(path);
	if (!folder)
		return probe_error_system(errno, "cannot open the folder");
	while ((entry = readdir(folder)))
		empty &= strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
	*ret = fcntl(dirfd(folder), F_DUPFD_CLOEXEC, 0);
	closedir(folder);
	if (!empty)
		return probe_error_new(PROBE_ERROR_STATE,
			"the folder is not empty; give one that is, or is not there yet");
	return *ret < 0 ? probe_error_system(errno, "cannot open the folder") : NULL;
}

struct probe_error *probe_ctf_create(
	const char *directory, const struct probe_ctf_options *options, struct probe_ctf **ret)
{
	struct probe_ctf *ctf = calloc(1, sizeof(*ctf));
	struct probe_error *error;

	if (!ctf)
		return probe_error_no_memory();
	ctf->root = ctf->folder = -1;
	if (options)
		ctf->options = *options;
	ctf->base_ns = (now_ns() / NSEC_PER_SEC - CLOCK_MARGIN_S) * NSEC_PER_SEC;
	ctf->path = strdup(directory);
	ctf->sites = calloc(CACHE_ENTRIES, sizeof(*ctf->sites));
	ctf->event = malloc(CTF_EVENT_BYTES_MAX);
	if (!ctf->path || !ctf->sites || !ctf->event || !buffer_init(&ctf->descriptions)) {
		probe_ctf_free(ctf);
		return probe_error_no_memory();
	}
	error = root_open(directory, &ctf->root);
	if (!error)
		error = part_open(ctf);
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
	part_close(ctf);
	for (size_t i = 0; i < ctf->stream_count; i++)
		free(ctf->streams[i].buffer);
	if (ctf->root >= 0)
		close(ctf->root);
	if (ctf->descriptions.c_locale)
		buffer_deinit(&ctf->descriptions);
	free(ctf->streams);
	free(ctf->classes);
	free(ctf->sites);
	free(ctf->event);
	free(ctf->path);
	free(ctf);
}

/* ---- Streams ---------------------------------------------------------------------- */

static struct probe_error *stream_open(struct probe_ctf *ctf, size_t index)
{
	struct ctf_stream *stream = &ctf->streams[index];
	char name[64];

	/* Sessions have their numbers in the order of their first hits. */
	snprintf(name, sizeof(name), "stream_%zu_cpu%d", index, stream->cpu);
	stream->fd = openat(ctf->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	return stream->fd < 0 ? probe_error_system(errno, "cannot create %s", name) : NULL;
}

/* Writes the closed packets of a stream, behind the description of what is in them. */
static struct probe_error *stream_write(struct probe_ctf *ctf, size_t index)
{
	struct ctf_stream *stream = &ctf->streams[index];
	off_t before = stream->written;
	struct probe_error *error = NULL;

	if (!stream->packet)
		return NULL;
	if (ctf->described != ctf->descriptions.length || ctf->descriptions.no_memory)
		error = write_metadata(ctf);
	if (!error && stream->fd < 0)
		error = stream_open(ctf, index);
	if (!error)
		error = ctf_stream_write(stream);
	ctf->written += (uint64_t)(stream->written - before);
	ctf->failed = error != NULL;
	return probe_error_prefix(error, "%s", ctf->path);
}

static struct probe_error *find_stream(
	struct probe_ctf *ctf, const struct probe_session *session, int cpu)
{
	struct ctf_stream *streams;
	size_t i = ctf->last;

	if (i < ctf->stream_count && ctf->streams[i].session == session &&
		ctf->streams[i].cpu == cpu)
		return NULL;
	for (i = 0; i < ctf->stream_count; i++)
		if (ctf->streams[i].session == session && ctf->streams[i].cpu == cpu)
			break;
	ctf->last = i;
	if (i < ctf->stream_count)
		return NULL;
	streams = reallocarray(ctf->streams, i + 1, sizeof(*streams));
	if (!streams)
		return probe_error_no_memory();
	ctf->streams = streams;
	streams[i] = (struct ctf_stream){
		.session = session, .cpu = cpu, .fd = -1, .buffer = malloc(CTF_BATCH_BYTES)};
	if (!streams[i].buffer)
		return probe_error_no_memory();
	ctf->stream_count++;
	return NULL;
}

static void stream_time(struct probe_ctf *ctf, struct ctf_stream *stream, uint64_t time_ns)
{
	uint64_t since = time_ns > ctf->base_ns ? time_ns - ctf->base_ns : 0;

	if (since > stream->last_ns)
		stream->last_ns = since;
}

/* ---- Classes of events ------------------------------------------------------------- */

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
		return (uint8_t)(CTF_TEXT | number | truncated);
	case PROBE_VALUE_BYTES:
		return (uint8_t)(CTF_BYTES | truncated);
	case PROBE_VALUE_NULL:
		break;
	}
	return CTF_UNREADABLE;
}

/* The size in bytes of a number, as its site's note declares it. */
static uint8_t size_of(const struct session_site *site, size_t arg)
{
	uint8_t size = site && arg < site->layout.arg_count ? site->layout.args[arg].size : 8;

	return size == 1 || size == 2 || size == 4 ? size : 8;
}

static const struct session_site *find_site(
	const struct probe_session *session, const struct probe_hit *hit)
{
	for (size_t i = 0; i < session->site_count; i++)
		if (session->sites[i].pc == hit->pc && session->sites[i].probe == hit->probe)
			return &session->sites[i];
	return NULL;
}

static struct probe_error *find_class(
	struct probe_ctf *ctf, const struct ctf_class *class, uint32_t *ret)
{
	struct ctf_class *classes;
	size_t i = 0;

	while (i < ctf->class_count && memcmp(&ctf->classes[i], class, sizeof(*class)) != 0)
		i++;
	*ret = (uint32_t)i;
	if (i < ctf->class_count)
		return NULL;
	classes = reallocarray(ctf->classes, i + 1, sizeof(*classes));
	if (!classes)
		return probe_error_no_memory();
	ctf->classes = classes;
	memcpy(&classes[i], class, sizeof(*class));
	ctf->class_count++;
	ctf_describe_class(
		&ctf->descriptions, class, (uint32_t)i, &class->session->probes[class->probe]);
	return NULL;
}

/* Do the arguments stand as they did when the site was last seen? */
static bool same_codes(const struct ctf_class *class, const struct probe_hit *hit)
{
	for (size_t i = 0; i < hit->arg_count; i++)
		if (class->codes[i] != code_of(&hit->args[i], class->codes[i] >> CTF_SIZE_SHIFT))
			return false;
	return true;
}

static struct probe_error *class_of(struct probe_ctf *ctf, const struct probe_session *session,
	const struct probe_hit *hit, const struct ctf_site **ret)
{
	struct ctf_site *seen = &ctf->sites[(hit->pc ^ hit->pc >> 10) % CACHE_ENTRIES];
	const struct session_site *site;

	*ret = seen;
	if (seen->pc == hit->pc && seen->class.session == session &&
		seen->class.probe == hit->probe && seen->class.arg_count == hit->arg_count &&
		same_codes(&seen->class, hit))
		return NULL;
	site = find_site(session, hit);
	/* Padding is compared, too. */
	memset(seen, 0, sizeof(*seen));
	seen->pc = hit->pc;
	seen->class.session = session;
	seen->class.probe = hit->probe;
	seen->class.arg_count = (uint8_t)hit->arg_count;
	for (size_t i = 0; i < hit->arg_count; i++)
		seen->class.codes[i] = code_of(&hit->args[i], size_of(site, i));
	return find_class(ctf, &seen->class, &seen->id);
}

/* ---- Events ------------------------------------------------------------------------ */

static uint8_t *put(uint8_t *at, const void *bytes, size_t length)
{
	memcpy(at, bytes, length);
	return at + length;
}

/* CTF's strings end at the first NUL, which one that was changed meanwhile may hold. */
static uint8_t *put_string(uint8_t *at, const char *bytes, size_t length)
{
	at = put(at, bytes, strnlen(bytes, length));
	*at = '\0';
	return at + 1;
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
		at = put(at, &value->u, size);
		break;
	case CTF_FLOAT:
		at = size == sizeof(single) ? put(at, &single, size) : put(at, &value->f, size);
		break;
	case CTF_TEXT:
		at = put(at, &value->u, size);
		at = put_string(at, value->bytes, value->length);
		break;
	case CTF_STRING:
		at = put_string(at, value->bytes, value->length);
		break;
	case CTF_BYTES:
		at = put(at, &length, sizeof(length));
		at = put(at, value->bytes, value->length);
		break;
	}
	if (code & CTF_TRUNCATED)
		*at++ = 1;
	return at;
}

/* Bytes that an event may take at most. */
static size_t event_room(const struct probe_hit *hit, size_t comm_length)
{
	size_t room = 32 + comm_length;

	for (size_t i = 0; i < hit->arg_count; i++)
		room += 16 + (hit->args[i].kind >= PROBE_VALUE_STRING ? hit->args[i].length : 0);
	return room;
}

/* Adds an event to the stream of ctf->last, which is written as often as it is full. */
static struct probe_error *add_event(struct probe_ctf *ctf, const struct probe_hit *hit,
	const struct ctf_site *site, const char *comm, size_t comm_length)
{
	struct ctf_stream *stream = &ctf->streams[ctf->last];
	struct probe_error *error;
	uint8_t *at = ctf->event;
	size_t length;

	stream_time(ctf, stream, hit->time_ns);
	at = put(at, &site->id, sizeof(site->id));
	at = put(at, &stream->last_ns, sizeof(stream->last_ns));
	at = put(at, &hit->pid, sizeof(int32_t));
	at = put(at, &hit->tid, sizeof(int32_t));
	at = put_string(at, comm, comm_length);
	for (size_t i = 0; i < hit->arg_count; i++)
		at = put_arg(at, &hit->args[i], site->class.codes[i]);
	length = (size_t)(at - ctf->event);
	if (ctf_stream_add(stream, ctf->uuid, ctf->event, length))
		return NULL;
	error = stream_write(ctf, ctf->last);
	if (!error && !ctf_stream_add(stream, ctf->uuid, ctf->event, length))
		error = probe_error_new(
			PROBE_ERROR_FORMAT, "an event of %zu bytes fits into no packet", length);
	return error;
}

/* Begins a new part, where it is time for one. */
static struct probe_error *rotate(struct probe_ctf *ctf, uint64_t time_ns)
{
	struct probe_error *error;

	if (!(ctf->options.rotate_bytes && ctf->written >= ctf->options.rotate_bytes) &&
		!(ctf->options.rotate_ns && time_ns >= ctf->next_part_ns))
		return NULL;
	error = probe_ctf_flush(ctf);
	if (error)
		return error;
	part_close(ctf);
	error = part_open(ctf);
	ctf->failed = error != NULL;
	return probe_error_prefix(error, "%s", ctf->path);
}

struct probe_error *probe_ctf_hit(struct probe_ctf *ctf, const struct probe_session *session,
	const struct probe_hit *hit, const char *comm)
{
	size_t comm_length = comm ? strlen(comm) : 0;
	const struct ctf_site *site;
	struct probe_error *error;

	if (ctf->failed)
		return NULL;
	if (hit->arg_count > ARCH_ARGS_MAX || event_room(hit, comm_length) > CTF_EVENT_BYTES_MAX)
		return probe_error_new(PROBE_ERROR_FORMAT, "a hit is larger than any can be");
	error = rotate(ctf, hit->time_ns);
	if (!error)
		error = find_stream(ctf, session, hit->cpu);
	if (!error)
		error = class_of(ctf, session, hit, &site);
	if (!error)
		error = add_event(ctf, hit, site, comm ? comm : "", comm_length);
	return error;
}

struct probe_error *probe_ctf_discarded(
	struct probe_ctf *ctf, const struct probe_session *session, uint64_t count)
{
	struct probe_error *error = NULL;
	struct ctf_stream *stream;

	if (ctf->failed || !count)
		return NULL;
	/* Nobody knows on which CPU they were: it is told where the last hit was. */
	if (ctf->last >= ctf->stream_count || ctf->streams[ctf->last].session != session)
		error = find_stream(ctf, session, 0);
	if (error)
		return error;
	stream = &ctf->streams[ctf->last];
	stream_time(ctf, stream, now_ns());
	if (ctf_stream_discard(stream, ctf->uuid, count))
		return NULL;
	error = stream_write(ctf, ctf->last);
	if (!error && !ctf_stream_discard(stream, ctf->uuid, count))
		error = probe_error_new(PROBE_ERROR_FORMAT, "a loss fits into no packet");
	return error;
}

struct probe_error *probe_ctf_flush(struct probe_ctf *ctf)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < ctf->stream_count && !error && !ctf->failed; i++) {
		ctf_stream_close(&ctf->streams[i], ctf->uuid);
		error = stream_write(ctf, i);
	}
	return error;
}
