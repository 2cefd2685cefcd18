/* SPDX-License-Identifier: MIT */
/*
 * The log of a stream: a record (libprobe/record/ctf.c), whose size is kept below a limit.
 *
 * What the files take is only known once packets have been written: whole pages, of
 * each CPU. So what is added is estimated, from above; where that comes to a chunk,
 * it is written and measured. Below the limit there is always room for a chunk, and two
 * pages of each file.
 *
 *	UNTIL_FULL	one part, which ends there
 *	LOOP		parts of an eighth of the limit; the oldest is removed
 *
 * The stream's own events are hits of a session that there is not, with the provider
 * posix_trace; they have a file of their own.
 *
 * A record of the caller's (probe_stream_flush_to()) may have several streams. It has no limit, and
 * stays when the stream ends; the stream's own events then tell its process.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/file.h"
#include "libprobe/record/record.h"
#include "libprobe/session/session.h"
#include "libprobe/stream/stream.h"

enum {
	PARTS = 8,
	CHUNKS = 64,
	PAGE_BYTES = 4096,
	EVENT_BYTES = 64, /* of what every event has */
	ARG_BYTES = 16
};

struct stream_log {
	const struct probe_stream_options *options; /* the stream's */
	struct probe_ctf *ctf;
	bool borrowed;		  /* the caller's */
	pid_t pid;		  /* of the stream's own events; 0: there is only one stream */
	struct probe_session own; /* of the stream's own events */
	struct probe_session_probe own_probes[PROBE_STREAM_SYSTEM_TYPES];
	uint64_t hits;
	uint64_t added; /* bytes that have not been measured, estimated */
	bool full, overrun, failed;
};

/* ---- Files ----------------------------------------------------------------------------------- */

/* The size of the files in a folder and in its parts. */
struct usage {
	uint64_t bytes, files;
	unsigned int parts, oldest; /* parts, and the number of the first */
};

static bool is_stream(const char *name)
{
	return strncmp(name, "stream_", 7) == 0;
}

static DIR *open_folder(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;

	if (fd >= 0 && !folder)
		close(fd);
	return folder;
}

/* The packets in one folder. */
static void measure_part(DIR *part, struct usage *usage)
{
	struct dirent *entry;
	struct stat status;

	while ((entry = readdir(part))) {
		if (!is_stream(entry->d_name) ||
			fstatat(dirfd(part), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
			!S_ISREG(status.st_mode))
			continue;
		usage->bytes += (uint64_t)status.st_size;
		usage->files++;
	}
}

static void measure(DIR *folder, struct usage *usage)
{
	struct dirent *entry;

	measure_part(folder, usage);
	rewinddir(folder);
	while ((entry = readdir(folder))) {
		uint64_t before = usage->files;
		unsigned int number;
		DIR *part;

		if (!ctf_part_number(entry->d_name, &number))
			continue;
		part = open_folder(dirfd(folder), entry->d_name);
		if (!part)
			continue;
		measure_part(part, usage);
		closedir(part);
		/* A folder that is left because it holds other files is no part. */
		if (usage->files != before && (!usage->parts++ || number < usage->oldest))
			usage->oldest = number;
	}
}

/* Removes what a part consists of, and it itself; others' files stay. */
static struct probe_error *remove_part(int at, const char *name)
{
	DIR *part = open_folder(at, name);
	struct probe_error *error = NULL;
	struct dirent *entry;

	if (!part)
		return probe_error_system(errno, "cannot open %s", name);
	while ((entry = readdir(part))) {
		if (strcmp(entry->d_name, "metadata") == 0 ||
			strcmp(entry->d_name, ".metadata.new") == 0)
			unlinkat(dirfd(part), entry->d_name, 0);
		else if (is_stream(entry->d_name) && !error &&
			 unlinkat(dirfd(part), entry->d_name, 0) != 0 && errno != EISDIR)
			error = probe_error_system(
				errno, "cannot remove %s/%s", name, entry->d_name);
	}
	closedir(part);
	if (strcmp(name, ".") != 0)
		unlinkat(at, name, AT_REMOVEDIR);
	return error;
}

/* All of the log. */
static struct probe_error *remove_all(DIR *folder)
{
	struct probe_error *error = remove_part(dirfd(folder), ".");
	struct dirent *entry;
	unsigned int number;

	while (!error && (entry = readdir(folder)))
		if (ctf_part_number(entry->d_name, &number))
			error = remove_part(dirfd(folder), entry->d_name);
	unlinkat(dirfd(folder), stream_index_name, 0);
	return error;
}

/* ---- The limit ---------------------------------------------------------------------------------
 */

static bool has_limit(const struct stream_log *log)
{
	return !log->borrowed && log->options->log_policy != PROBE_STREAM_LOG_APPEND;
}

static uint64_t chunk_of(const struct stream_log *log)
{
	return log->options->log_bytes / CHUNKS;
}

/*
 * Opens the folder again to delete parts of the log. The path may lead elsewhere by now, so no link
 * of another user is followed.
 */
static struct probe_error *open_log(const struct stream_log *log, DIR **ret)
{
	int fd;
	struct probe_error *error = file_folder(log->options->log, false, &fd);

	if (error)
		return probe_error_prefix(error, "%s", log->options->log);
	*ret = fdopendir(fd);
	if (*ret)
		return NULL;
	error = probe_error_system(errno, "cannot open %s", log->options->log);
	close(fd);
	return error;
}

/* Makes room for this many bytes, or finds the log full. */
static struct probe_error *keep_limit(struct stream_log *log, uint64_t need)
{
	for (;;) {
		struct usage usage = {0};
		char name[CTF_PART_NAME_BYTES];
		struct probe_error *error;
		DIR *folder;

		error = open_log(log, &folder);
		if (error)
			return error;
		measure(folder, &usage);
		need += 2 * usage.files * PAGE_BYTES;
		if (usage.bytes + need <= log->options->log_bytes) {
			closedir(folder);
			return NULL;
		}
		log->full = true;
		if (log->options->log_policy != PROBE_STREAM_LOG_LOOP || usage.parts < 2) {
			closedir(folder);
			return NULL;
		}
		log->overrun = true;
		ctf_part_name(name, usage.oldest);
		error = remove_part(dirfd(folder), name);
		closedir(folder);
		if (error)
			return error;
		need -= 2 * usage.files * PAGE_BYTES;
	}
}

/* May an event be added? First writes and measures, if it is time to. */
static struct probe_error *admit(struct stream_log *log, uint64_t bytes, bool *ret)
{
	uint64_t chunk = chunk_of(log);
	struct probe_error *error = NULL;
	bool ends = has_limit(log) && log->options->log_policy == PROBE_STREAM_LOG_UNTIL_FULL;

	*ret = false;
	if (log->failed || (ends && log->full)) {
		log->overrun = true;
		return NULL;
	}
	if (has_limit(log) && log->added + bytes > chunk) {
		error = probe_ctf_flush(log->ctf);
		log->added = 0;
		if (!error)
			error = keep_limit(log, bytes > chunk ? bytes : chunk);
		if (error || (ends && log->full)) {
			log->failed = error != NULL;
			log->overrun = true;
			return error;
		}
	}
	log->added += bytes;
	*ret = true;
	return NULL;
}

/* ---- Adding --------------------------------------------------------------------- */

static uint64_t size_of(const struct probe_hit *hit, const char *comm)
{
	uint64_t bytes = EVENT_BYTES + (comm ? strlen(comm) : 0);

	for (size_t i = 0; i < hit->arg_count; i++)
		bytes += ARG_BYTES +
			 (hit->args[i].kind >= PROBE_VALUE_STRING ? hit->args[i].length : 0);
	return bytes;
}

static struct probe_error *note_failure(struct stream_log *log, struct probe_error *error)
{
	log->failed |= error != NULL;
	log->overrun |= error != NULL;
	return error;
}

struct probe_error *stream_log_hit(struct stream_log *log, const struct probe_session *session,
	const struct probe_hit *hit, const char *comm)
{
	bool may = true;
	struct probe_error *error = admit(log, size_of(hit, comm), &may);

	if (error || !may)
		return error;
	log->hits += session != &log->own;
	return note_failure(log, probe_ctf_hit(log->ctf, session, hit, comm));
}

static struct probe_hit own_hit(
	const struct stream_log *log, uint32_t type, const struct probe_event *event)
{
	return (struct probe_hit){.time_ns = event->time_ns,
		.pid = log->pid,
		.probe = type,
		.pc = type + 1, /* the writer remembers sites by it */
		.args = event->args,
		.arg_count = event->arg_count};
}

struct probe_error *stream_log_own(
	struct stream_log *log, uint32_t type, const struct probe_event *event)
{
	struct probe_hit hit = own_hit(log, type, event);

	return stream_log_hit(log, &log->own, &hit, NULL);
}

struct probe_error *stream_log_last(
	struct stream_log *log, uint32_t type, const struct probe_event *event)
{
	struct probe_hit hit = own_hit(log, type, event);
	struct probe_error *error = probe_ctf_hit(log->ctf, &log->own, &hit, NULL);

	if (!error)
		error = probe_ctf_flush(log->ctf);
	return note_failure(log, error);
}

struct probe_error *stream_log_lost(
	struct stream_log *log, const struct probe_session *session, uint64_t count)
{
	bool may = true;
	struct probe_error *error = admit(log, PAGE_BYTES, &may);

	if (error || !may)
		return error;
	return note_failure(log, probe_ctf_discarded(log->ctf, session, count));
}

struct probe_error *stream_log_flush(struct stream_log *log)
{
	struct probe_error *error = log->failed ? NULL : probe_ctf_flush(log->ctf);

	log->added = 0;
	if (!error && !log->failed && has_limit(log))
		error = keep_limit(log, chunk_of(log));
	return note_failure(log, error);
}

/* ---- Its life ------------------------------------------------------------------- */

static struct probe_error *begin(struct stream_log *log)
{
	struct probe_ctf_options options = log->options->log_parts;

	if (log->options->log_policy == PROBE_STREAM_LOG_LOOP)
		options.rotate_bytes = log->options->log_bytes / PARTS;
	return probe_ctf_create(log->options->log, &options, &log->ctf);
}

/* Without a record. */
static struct stream_log *log_alloc(const struct probe_stream_options *options)
{
	struct stream_log *log = calloc(1, sizeof(*log));

	if (!log)
		return NULL;
	log->options = options;
	log->own.probes = log->own_probes;
	log->own.probe_count = PROBE_STREAM_SYSTEM_TYPES;
	for (uint32_t i = 0; i < PROBE_STREAM_SYSTEM_TYPES; i++)
		log->own_probes[i] = (struct probe_session_probe){.provider = system_event_provider,
			.name = system_event_names[i],
			.path = "libprobe"};
	return log;
}

struct probe_error *stream_log_create(
	const struct probe_stream_options *options, struct stream_log **ret)
{
	struct stream_log *log = log_alloc(options);
	struct probe_error *error = log ? begin(log) : probe_error_no_memory();

	if (error) {
		stream_log_free(log);
		return error;
	}
	*ret = log;
	return NULL;
}

struct probe_error *stream_log_borrow(const struct probe_stream_options *options,
	struct probe_ctf *record, pid_t pid, struct stream_log **ret)
{
	*ret = log_alloc(options);
	if (!*ret)
		return probe_error_no_memory();
	(*ret)->ctf = record;
	(*ret)->borrowed = true;
	(*ret)->pid = pid;
	return NULL;
}

bool stream_log_is_borrowed(const struct stream_log *log)
{
	return log->borrowed;
}

bool stream_log_is_of(const struct stream_log *log, const struct probe_ctf *record)
{
	return log->borrowed && log->ctf == record;
}

struct probe_error *stream_log_leave(struct stream_log *log, const struct probe_session *session)
{
	return probe_error_first(
		probe_ctf_forget(log->ctf, session), probe_ctf_forget(log->ctf, &log->own));
}

void stream_log_free(struct stream_log *log)
{
	if (!log)
		return;
	if (!log->borrowed)
		probe_ctf_free(log->ctf);
	free(log);
}

struct probe_error *stream_log_clear(struct stream_log *log)
{
	DIR *folder;
	struct probe_error *error = open_log(log, &folder);

	if (error)
		return error;
	probe_ctf_free(log->ctf);
	log->ctf = NULL;
	error = remove_all(folder);
	closedir(folder);
	log->full = log->overrun = log->failed = false;
	log->added = log->hits = 0;
	return note_failure(log, error ? error : begin(log));
}

bool stream_log_is_full(const struct stream_log *log)
{
	return log->full;
}

bool stream_log_take_overrun(struct stream_log *log)
{
	bool overrun = log->overrun;

	log->overrun = false;
	return overrun;
}

uint64_t stream_log_hits(const struct stream_log *log)
{
	return log->hits;
}
