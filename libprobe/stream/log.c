/* SPDX-License-Identifier: MIT */
/*
 * The log of a stream: a record (libprobe/record/ctf.c) that is kept below a size limit.
 *
 * Packets are whole pages, and each CPU has packets of its own. So the size of the files is known
 * only after the packets were written. Until then, the log adds up estimates of the size, which are
 * never too small. When the sum reaches the size of a chunk, the log writes the packets and
 * measures the files. Below the limit there is always room for one chunk and two pages of each
 * file.
 *
 *	UNTIL_FULL	one part; the log ends at the limit
 *	LOOP		each part is an eighth of the limit; the oldest part is removed
 *
 * The stream's own events are recorded as hits of a dummy session with the provider posix_trace.
 * They have a file of their own.
 *
 * A log may also write to a record of the caller's (probe_stream_flush_to()), which may hold
 * several streams. This record has no size limit, and stays when a stream ends. In this record, the
 * stream's own events carry the pid of the target.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "libprobe/record/record.h"
#include "libprobe/session/session.h"
#include "libprobe/stream/stream.h"

/* ==== Log ===================================================================================== */

enum {
	PARTS = 8,
	CHUNKS = 64,
	PAGE_BYTES = 4096,
	EVENT_BYTES = 64, /* estimate for the fixed fields of an event */
	ARG_BYTES = 16
};

struct stream_log {
	const struct probe_stream_options *options; /* options of the stream, borrowed */
	struct probe_ctf *ctf;
	struct probe_ctf *borrowed; /* `ctf`, if it belongs to the caller */
	pid_t pid; /* pid in the stream's own events; 0 if the record has only this stream */
	struct probe_session own; /* dummy session of the stream's own events */
	struct probe_session_probe own_probes[PROBE_STREAM_SYSTEM_TYPES];
	uint64_t hits;
	uint64_t added; /* estimated bytes that were added since the files were measured */
	bool full, overrun, failed;
};

/* ---- Files ----------------------------------------------------------------------------------- */

/* The files of a log's folder and its parts. */
struct usage {
	uint64_t bytes, files;
	unsigned int parts, oldest; /* number of parts, and the lowest part number */
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
		AUTO_DIR DIR *part = NULL;

		if (!ctf_part_number(entry->d_name, &number))
			continue;
		part = open_folder(dirfd(folder), entry->d_name);
		if (!part)
			continue;
		measure_part(part, usage);
		/* A folder without stream files is no part. */
		if (usage->files != before && (!usage->parts++ || number < usage->oldest))
			usage->oldest = number;
	}
}

/* Removes a part's files, then its folder. Other files stay. */
static struct probe_error *remove_part(int at, const char *name)
{
	AUTO_DIR DIR *part = open_folder(at, name);
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
	if (strcmp(name, ".") != 0)
		unlinkat(at, name, AT_REMOVEDIR);
	return error;
}

/* ---- The limit ------------------------------------------------------------------------------- */

static bool has_limit(const struct stream_log *log)
{
	return !log->borrowed && log->options->log_policy != PROBE_STREAM_LOG_APPEND;
}

static uint64_t chunk_of(const struct stream_log *log)
{
	return log->options->log_bytes / CHUNKS;
}

/* Opens the log's folder to remove parts, without following links of other users. */
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

/* Removes the oldest parts until `need` bytes fit below the limit, or sets log->full. */
static struct probe_error *keep_limit(struct stream_log *log, uint64_t need)
{
	for (;;) {
		struct usage usage = {0};
		char name[CTF_PART_NAME_BYTES];
		AUTO_DIR DIR *folder = NULL;
		struct probe_error *error = open_log(log, &folder);

		if (error)
			return error;
		measure(folder, &usage);
		need += 2 * usage.files * PAGE_BYTES;
		if (usage.bytes + need <= log->options->log_bytes)
			return NULL;
		log->full = true;
		if (log->options->log_policy != PROBE_STREAM_LOG_LOOP || usage.parts < 2)
			return NULL;
		log->overrun = true;
		ctf_part_name(name, usage.oldest);
		error = remove_part(dirfd(folder), name);
		if (error)
			return error;
		need -= 2 * usage.files * PAGE_BYTES;
	}
}

/*
 * Sets *ret if an event may be added. If a chunk is complete, first writes and measures the files.
 */
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

static struct probe_error *note_failure(struct stream_log *log, struct probe_error *error)
{
	log->failed |= error != NULL;
	log->overrun |= error != NULL;
	return error;
}

struct probe_error *stream_log_hit(struct stream_log *log, const struct probe_session *session,
	const struct probe_hit *hit, const char *comm)
{
	uint64_t bytes = EVENT_BYTES + (comm ? strlen(comm) : 0);
	struct probe_error *error;
	bool may;

	for (size_t i = 0; i < hit->arg_count; i++)
		bytes += ARG_BYTES +
			 (hit->args[i].kind >= PROBE_VALUE_STRING ? hit->args[i].length : 0);
	error = admit(log, bytes, &may);
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
		.pc = type + 1, /* any nonzero address; the CTF writer looks up its sites by pc */
		.args = event->args,
		.arg_count = event->arg_count};
}

struct probe_error *stream_log_own(
	struct stream_log *log, uint32_t type, const struct probe_event *event)
{
	struct probe_hit hit = own_hit(log, type, event);

	return stream_log_hit(log, &log->own, &hit, NULL);
}

struct probe_error *stream_log_last(struct stream_log *log, const struct probe_event *event)
{
	struct probe_hit hit = own_hit(log, PROBE_STREAM_STOP, event);
	struct probe_error *error =
		probe_ctf_hit(log->ctf, &log->own, &hit, NULL) ?: probe_ctf_flush(log->ctf);

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

/* ---- Creating and clearing --------------------------------------------------------- */

static struct probe_error *begin(struct stream_log *log)
{
	struct probe_ctf_options options = log->options->log_parts;

	if (log->options->log_policy == PROBE_STREAM_LOG_LOOP)
		options.rotate_bytes = log->options->log_bytes / PARTS;
	return probe_ctf_create(log->options->log, &options, &log->ctf);
}

struct probe_error *stream_log_create(const struct probe_stream_options *options,
	struct probe_ctf *record, pid_t pid, struct stream_log **ret)
{
	struct stream_log *log = calloc(1, sizeof(*log));
	struct probe_error *error;

	if (!log)
		return probe_error_no_memory();
	log->options = options;
	log->own.probes = log->own_probes;
	log->own.probe_count = PROBE_STREAM_SYSTEM_TYPES;
	for (uint32_t i = 0; i < PROBE_STREAM_SYSTEM_TYPES; i++)
		log->own_probes[i] = (struct probe_session_probe){.provider = system_event_provider,
			.name = system_event_names[i],
			.path = "libprobe"};
	log->pid = pid;
	log->ctf = log->borrowed = record;
	error = record ? NULL : begin(log);
	if (error) {
		stream_log_free(log);
		return error;
	}
	*ret = log;
	return NULL;
}

struct probe_ctf *stream_log_borrowed(const struct stream_log *log)
{
	return log->borrowed;
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
	struct dirent *entry;
	unsigned int number;
	AUTO_DIR DIR *folder = NULL;
	struct probe_error *error = open_log(log, &folder);

	if (error)
		return error;
	probe_ctf_free(log->ctf);
	log->ctf = NULL;
	error = remove_part(dirfd(folder), ".");
	while (!error && (entry = readdir(folder)))
		if (ctf_part_number(entry->d_name, &number))
			error = remove_part(dirfd(folder), entry->d_name);
	unlinkat(dirfd(folder), stream_index_name, 0);
	log->full = log->overrun = log->failed = false;
	log->added = log->hits = 0;
	return note_failure(log, error ?: begin(log));
}

bool stream_log_is_full(const struct stream_log *log)
{
	return log->full;
}

void stream_log_status(struct stream_log *log, struct probe_stream_status *ret)
{
	ret->log_full = log->full;
	ret->log_overrun = log->overrun;
	ret->flushed = log->hits;
	log->overrun = false;
}
