/* SPDX-License-Identifier: MIT */
/*
 * The controller's functions of <trace.h> (IEEE Std 1003.1-2017, options TRC, TEF, TIN, TRI, TRL),
 * on probe/stream.h. The user events of a process are its probes posix_trace:NAME.
 *
 * A trace_id_t is the number of a slot and how often the slot was used before, so an old one is
 * EINVAL. A call holds a slot while it uses the stream, but not while it waits.
 * posix_trace_shutdown() waits for these calls. A thread polls each stream of another process, as
 * no function of the standard does; the copy of probe/stream.h polls that of the calling process.
 *
 * A trace_event_id_t is the number that posix_trace_eventid_open() gives the name in this process,
 * so the process can use its own ones for a stream of its own. Types of streams are translated by
 * their names.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/runtime/events/image.h"
#include "probe/pattern.h"
#include "probe/standard/trace.h"
#include "probe/stream.h"

enum {
	FIRST_SYSTEM = 2, /* the identifier of PROBE_STREAM_ERROR, which the others follow */
	IDS = 64 * sizeof(((trace_event_set_t *)0)->words) / sizeof(uint64_t),
	ATTRIBUTES = 0x74726163, /* marks an initialised trace_attr_t */
	DATA_MAX = 8192,
	LOG_MIN = 1 << 20,
	POLL_MS = 20,
	NSEC_PER_SEC = 1000000000
};
_Static_assert(IDS % 64 == 0 && IDS > (int)PROBE_STREAM_TYPES_END, "sets have whole words");

static const char provider[] = "posix_trace:";

/* ==== Errors ================================================================================== */

/* Returns the number of an error, and frees it. */
static int number_of(struct probe_error *error)
{
	static const int numbers[] = {[PROBE_ERROR_MEMORY] = ENOMEM,
		[PROBE_ERROR_USAGE] = EINVAL,
		[PROBE_ERROR_FORMAT] = EINVAL,
		[PROBE_ERROR_NOT_FOUND] = ESRCH,
		[PROBE_ERROR_PERMISSION] = EPERM};
	size_t count = sizeof(numbers) / sizeof(*numbers);
	int number = 0;

	if (error && error->code != PROBE_ERROR_PERMISSION)
		number = error->err;
	if (error && !number)
		number =
			error->code < count && numbers[error->code] ? numbers[error->code] : EAGAIN;
	probe_error_free(error);
	return number;
}

/* ==== Attributes ============================================================================== */

int posix_trace_attr_init(trace_attr_t *attr)
{
	*attr = (trace_attr_t){.mark = ATTRIBUTES,
		.stream_policy = -1,
		.log_policy = POSIX_TRACE_LOOP,
		.inherited = POSIX_TRACE_CLOSE_FOR_CHILD,
		.max_data_size = 1024,
		.stream_size = 4 << 20,
		.log_size = 64 << 20,
		.clock_resolution = {.tv_nsec = 1},
		.version = "probectl " PROBE_VERSION};
	return 0;
}

int posix_trace_attr_destroy(trace_attr_t *attr)
{
	if (attr->mark != ATTRIBUTES)
		return EINVAL;
	attr->mark = 0;
	return 0;
}

/* Defines a function that gets a member, and one that sets it to a value that is `valid`. */
#define GET(what, type, member)                                                                    \
	int posix_trace_attr_get##what(const trace_attr_t *__restrict attr, type *__restrict ret)  \
	{                                                                                          \
		if (attr->mark != ATTRIBUTES)                                                      \
			return EINVAL;                                                             \
		*ret = attr->member;                                                               \
		return 0;                                                                          \
	}
#define SET(what, type, member, valid)                                                             \
	int posix_trace_attr_set##what(trace_attr_t *attr, type value)                             \
	{                                                                                          \
		if (attr->mark != ATTRIBUTES || !(valid))                                          \
			return EINVAL;                                                             \
		attr->member = value;                                                              \
		return 0;                                                                          \
	}
#define GET_AND_SET(what, type, member, valid)                                                     \
	GET(what, type, member)                                                                    \
	SET(what, type, member, valid)

GET(clockres, struct timespec, clock_resolution)
GET(createtime, struct timespec, created)
GET_AND_SET(inherited, int, inherited,
	value == POSIX_TRACE_CLOSE_FOR_CHILD || value == POSIX_TRACE_INHERITED)
GET_AND_SET(logfullpolicy, int, log_policy,
	value == POSIX_TRACE_LOOP || value == POSIX_TRACE_UNTIL_FULL || value == POSIX_TRACE_APPEND)
GET_AND_SET(logsize, size_t, log_size, true)
GET_AND_SET(maxdatasize, size_t, max_data_size, true)
GET_AND_SET(streamsize, size_t, stream_size, true)
GET(maxsystemeventsize, size_t, system_event_size)
SET(streamfullpolicy, int, stream_policy, value >= POSIX_TRACE_LOOP && value <= POSIX_TRACE_FLUSH)

int posix_trace_attr_getstreamfullpolicy(const trace_attr_t *__restrict attr, int *__restrict ret)
{
	if (attr->mark != ATTRIBUTES)
		return EINVAL;
	/* The default depends on whether there will be a log. */
	*ret = attr->stream_policy < 0 ? POSIX_TRACE_LOOP : attr->stream_policy;
	return 0;
}

int posix_trace_attr_getmaxusereventsize(
	const trace_attr_t *__restrict attr, size_t data_len, size_t *__restrict ret)
{
	enum { HEAD = 64 }; /* more than a record takes beside the data */

	if (attr->mark != ATTRIBUTES)
		return EINVAL;
	if (data_len > attr->max_data_size)
		data_len = attr->max_data_size;
	*ret = attr->user_event_size ? attr->user_event_size : HEAD + data_len;
	return 0;
}

int posix_trace_attr_getgenversion(const trace_attr_t *attr, char *genversion)
{
	if (attr->mark != ATTRIBUTES)
		return EINVAL;
	strcpy(genversion, attr->version);
	return 0;
}

int posix_trace_attr_getname(const trace_attr_t *attr, char *tracename)
{
	if (attr->mark != ATTRIBUTES)
		return EINVAL;
	strcpy(tracename, attr->name);
	return 0;
}

int posix_trace_attr_setname(trace_attr_t *attr, const char *tracename)
{
	if (attr->mark != ATTRIBUTES)
		return EINVAL;
	if (strlen(tracename) >= sizeof(attr->name))
		return ENAMETOOLONG;
	strcpy(attr->name, tracename);
	return 0;
}

/* ==== Streams ================================================================================= */

struct slot {
	struct probe_stream *stream; /* NULL if the slot is free */
	struct probe_target *target; /* NULL for a pre-recorded stream */
	struct probe_pattern *pattern;
	unsigned int uses; /* how often the slot was taken */
	unsigned int users;
	bool closing;
	pid_t owner;	 /* the process that has the stream; its children do not */
	uint32_t listed; /* posix_trace_eventtypelist_getnext_id(): the next type */
	bool has_poller;
	pthread_t poller;
	trace_event_id_t ids[PROBE_STREAM_TYPES_END]; /* of types; 0 if not yet known */
};

static struct slot *slots[TRACE_SYS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER; /* a user has left a slot */

/* A forked child has the lock free, whatever other threads did. */
static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

/* Finds the slot of a stream and keeps it. Returns NULL if there is no such stream (EINVAL). */
static struct slot *enter(trace_id_t trid)
{
	struct slot *slot;

	pthread_mutex_lock(&lock);
	slot = slots[trid % TRACE_SYS_MAX];
	if (slot && slot->stream && !slot->closing && slot->uses == trid / TRACE_SYS_MAX &&
		slot->owner == getpid())
		slot->users++;
	else
		slot = NULL;
	pthread_mutex_unlock(&lock);
	return slot;
}

static int leave(struct slot *slot, struct probe_error *error)
{
	pthread_mutex_lock(&lock);
	slot->users--;
	pthread_cond_broadcast(&left);
	pthread_mutex_unlock(&lock);
	return number_of(error);
}

/* Takes a free slot. Returns NULL if there is none. While the stream is made, it is closing. */
static struct slot *take_slot(trace_id_t *trid_ret)
{
	struct slot *taken = NULL;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < TRACE_SYS_MAX && !taken; i++) {
		struct slot *slot = slots[i] ? slots[i] : calloc(1, sizeof(*slot));

		slots[i] = slot;
		if (!slot || slot->closing || (slot->stream && slot->owner == getpid()))
			continue;
		*slot = (struct slot){.uses = slot->uses + 1, .closing = true, .owner = getpid()};
		*trid_ret = slot->uses * TRACE_SYS_MAX + i;
		taken = slot;
	}
	pthread_mutex_unlock(&lock);
	return taken;
}

/* Lets threads use a slot whose stream is made. */
static void open_slot(struct slot *slot)
{
	pthread_mutex_lock(&lock);
	slot->closing = false;
	pthread_mutex_unlock(&lock);
}

static void free_slot(struct slot *slot)
{
	probe_target_close(slot->target);
	probe_pattern_free(slot->pattern);
	pthread_mutex_lock(&lock);
	*slot = (struct slot){.uses = slot->uses};
	pthread_mutex_unlock(&lock);
}

/* Serves a stream of another process. */
static void *poll_stream(void *data)
{
	struct slot *slot = data;
	struct pollfd fd = {.fd = probe_stream_fd(slot->stream), .events = POLLIN};
	bool closing = false, more;

	while (!closing) {
		more = false;
		probe_error_free(probe_stream_poll(slot->stream, &more));
		if (!more)
			poll(&fd, 1, POLL_MS);
		pthread_mutex_lock(&lock);
		closing = slot->closing;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static int start_poller(struct slot *slot)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&slot->poller, NULL, poll_stream, slot);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	slot->has_poller = !err;
	return err;
}

static size_t between(size_t least, size_t value, size_t most)
{
	return value < least ? least : value > most ? most : value;
}

/* Creates a stream in a slot. `log` is a folder, or NULL. */
static int create(struct slot *slot, pid_t pid, const trace_attr_t *attr, const char *log)
{
	static const enum probe_stream_policy policies[] = {[POSIX_TRACE_LOOP] = PROBE_STREAM_LOOP,
		[POSIX_TRACE_UNTIL_FULL] = PROBE_STREAM_UNTIL_FULL,
		[POSIX_TRACE_FLUSH] = PROBE_STREAM_FLUSH};
	const struct probe_stream_options options = {.name = attr->name,
		.stream_bytes = attr->stream_size,
		.data_bytes = between(8, attr->max_data_size, DATA_MAX),
		.policy = attr->stream_policy < 0 ? PROBE_STREAM_DEFAULT
						  : policies[attr->stream_policy],
		.inherit = attr->inherited == POSIX_TRACE_INHERITED,
		.follow_libraries = true,
		.log = log,
		.log_policy = attr->log_policy == POSIX_TRACE_APPEND ? PROBE_STREAM_LOG_APPEND
			      : attr->log_policy == POSIX_TRACE_LOOP ? PROBE_STREAM_LOG_LOOP
								     : PROBE_STREAM_LOG_UNTIL_FULL,
		.log_bytes = between(LOG_MIN, attr->log_size, SIZE_MAX)};
	struct probe_report report = {0};
	struct probe_request request = {.pattern_count = 1};
	struct probe_error *error =
		probe_target_open(pid, NULL, &slot->target)
			?: probe_pattern_parse("posix_trace:*(bytes(arg0,arg1))", &slot->pattern);

	request.patterns = (const struct probe_pattern *const *)&slot->pattern;
	if (!error)
		error = probe_stream_create(
			slot->target, &request, &options, &report, &slot->stream);
	probe_report_deinit(&report);
	return number_of(error);
}

static int end_stream(trace_id_t trid, bool is_active);

static int create_any(pid_t pid, const trace_attr_t *attr, const char *log, trace_id_t *trid_ret)
{
	trace_attr_t defaults;
	struct slot *slot;
	trace_id_t trid;
	int err;

	posix_trace_attr_init(&defaults);
	attr = attr ? attr : &defaults;
	pid = pid ? pid : getpid();
	if (attr->mark != ATTRIBUTES || pid < 0)
		return EINVAL;
	slot = take_slot(&trid);
	if (!slot)
		return EAGAIN;
	err = create(slot, pid, attr, log);
	if (err) {
		free_slot(slot);
		return err;
	}
	open_slot(slot);
	if (pid != getpid())
		err = start_poller(slot);
	if (err)
		end_stream(trid, true);
	else
		*trid_ret = trid;
	return err;
}

int posix_trace_create(pid_t pid, const trace_attr_t *__restrict attr, trace_id_t *__restrict trid)
{
	return create_any(pid, attr, NULL, trid);
}

/* ---- Logs ------------------------------------------------------------------------------------ */

/*
 * A log is a folder (probe/stream.h). The program's file gets a line that names the folder, which
 * is beside it. A program may pass the folder itself, too.
 */

static const char log_line[] = "probectl-stream-log ";

/* Finds the path of a descriptor. */
static int path_of(int fd, char *path, size_t size)
{
	char link[64];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, size - 1);
	if (length <= 0 || path[0] != '/')
		return EINVAL;
	path[length] = '\0';
	return 0;
}

/* Checks a descriptor's mode, and finds its path. */
static int open_log(int fd, int not_mode, struct stat *status, char *path, size_t size)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || (flags & O_ACCMODE) == not_mode || fstat(fd, status) < 0)
		return EBADF;
	/* Nothing can be put beside a file that was removed. */
	if (!status->st_nlink || !(S_ISREG(status->st_mode) || S_ISDIR(status->st_mode)))
		return EINVAL;
	return path_of(fd, path, size);
}

int posix_trace_create_withlog(
	pid_t pid, const trace_attr_t *__restrict attr, int file_desc, trace_id_t *__restrict trid)
{
	char path[4096 + sizeof(".XXXXXX")], line[4096 + sizeof(log_line)];
	bool is_file;
	struct stat status;
	trace_id_t made;
	/* Folders cannot be opened for writing. */
	int length = 0, err = open_log(file_desc, -1, &status, path, 4096);

	is_file = !err && S_ISREG(status.st_mode);
	if (is_file && (fcntl(file_desc, F_GETFL) & O_ACCMODE) == O_RDONLY)
		return EBADF;
	if (is_file && !mkdtemp(strcat(path, ".XXXXXX")))
		err = errno == ENOENT ? EINVAL : errno;
	if (err)
		return err;
	err = create_any(pid, attr, path, &made);
	if (!err && is_file) {
		length = snprintf(line, sizeof(line), "%s%s\n", log_line, strrchr(path, '/') + 1);
		if (ftruncate(file_desc, 0) < 0 ||
			pwrite(file_desc, line, (size_t)length, 0) != length)
			err = errno ? errno : ENOSPC;
		if (err)
			end_stream(made, true);
	}
	if (err && is_file)
		rmdir(path);
	if (!err)
		*trid = made;
	return err;
}

int posix_trace_open(int file_desc, trace_id_t *trid)
{
	char path[2 * 4096], line[4096], *name = line + sizeof(log_line) - 1;
	struct stat status;
	struct slot *slot;
	ssize_t length = 0;
	trace_id_t made;
	int err = open_log(file_desc, O_WRONLY, &status, path, 4096);

	if (err)
		return err;
	if (S_ISREG(status.st_mode)) {
		length = pread(file_desc, line, sizeof(line) - 1, 0);
		line[length > 0 ? length : 0] = '\0';
		if (strncmp(line, log_line, sizeof(log_line) - 1) != 0 || strchr(name, '/') ||
			length < 2 || line[length - 1] != '\n')
			return EINVAL;
		line[length - 1] = '\0';
		strcpy(strrchr(path, '/') + 1, name);
	}
	slot = take_slot(&made);
	if (!slot)
		return EAGAIN;
	err = number_of(probe_stream_open(path, &slot->stream));
	if (err) {
		free_slot(slot);
		return err == ENOENT ? EINVAL : err;
	}
	open_slot(slot);
	*trid = made;
	return 0;
}

/* ---- Ending ---------------------------------------------------------------------------------- */

static int end_stream(trace_id_t trid, bool is_active)
{
	struct slot *slot = enter(trid);
	struct probe_error *error;
	bool is_ended; /* another thread is ending it */

	if (!slot)
		return EINVAL;
	if (is_active != (slot->target != NULL))
		return leave(slot, NULL), EINVAL;
	pthread_mutex_lock(&lock);
	is_ended = slot->closing;
	slot->closing = true;
	while (!is_ended && slot->users > 1)
		pthread_cond_wait(&left, &lock);
	pthread_mutex_unlock(&lock);
	if (is_ended)
		return leave(slot, NULL), EINVAL;
	if (slot->has_poller)
		pthread_join(slot->poller, NULL);
	error = is_active ? probe_stream_shutdown(slot->stream) : probe_stream_close(slot->stream);
	free_slot(slot);
	return number_of(error);
}

int posix_trace_shutdown(trace_id_t trid)
{
	return end_stream(trid, true);
}

int posix_trace_close(trace_id_t trid)
{
	return end_stream(trid, false);
}

/* ---- Operations ------------------------------------------------------------------------------ */

#define OPERATION(name)                                                                            \
	int posix_trace_##name(trace_id_t trid)                                                    \
	{                                                                                          \
		struct slot *slot = enter(trid);                                                   \
                                                                                                   \
		return slot ? leave(slot, probe_stream_##name(slot->stream)) : EINVAL;             \
	}

OPERATION(start)
OPERATION(stop)
OPERATION(clear)
OPERATION(flush)
OPERATION(rewind)

int posix_trace_get_status(trace_id_t trid, struct posix_trace_status_info *statusinfo)
{
	struct slot *slot = enter(trid);
	struct probe_stream_status s;
	struct probe_error *error;

	if (!slot)
		return EINVAL;
	error = probe_stream_get_status(slot->stream, &s);
	if (!error)
		*statusinfo = (struct posix_trace_status_info){.posix_stream_status = s.running,
			.posix_stream_full_status = s.full,
			.posix_stream_overrun_status = s.overrun,
			.posix_stream_flush_status = s.flushing,
			.posix_stream_flush_error = s.flush_error,
			.posix_log_overrun_status = s.log_overrun,
			.posix_log_full_status = s.log_full};
	return leave(slot, error);
}

int posix_trace_get_attr(trace_id_t trid, trace_attr_t *attr)
{
	struct slot *slot = enter(trid);
	struct probe_stream_attributes a;
	struct probe_error *error;

	if (!slot)
		return EINVAL;
	error = probe_stream_get_attributes(slot->stream, &a);
	if (error)
		return leave(slot, error);
	posix_trace_attr_init(attr);
	snprintf(attr->name, sizeof(attr->name), "%s", a.options.name);
	snprintf(attr->version, sizeof(attr->version), "%s", a.version);
	attr->stream_policy = a.options.policy == PROBE_STREAM_FLUSH	    ? POSIX_TRACE_FLUSH
			      : a.options.policy == PROBE_STREAM_UNTIL_FULL ? POSIX_TRACE_UNTIL_FULL
									    : POSIX_TRACE_LOOP;
	attr->log_policy = a.options.log_policy == PROBE_STREAM_LOG_APPEND ? POSIX_TRACE_APPEND
			   : a.options.log_policy == PROBE_STREAM_LOG_LOOP ? POSIX_TRACE_LOOP
									   : POSIX_TRACE_UNTIL_FULL;
	attr->inherited = a.options.inherit;
	attr->max_data_size = a.options.data_bytes;
	attr->stream_size = a.options.stream_bytes;
	attr->log_size = a.options.log_bytes;
	attr->created = (struct timespec){.tv_sec = (time_t)(a.created_ns / NSEC_PER_SEC),
		.tv_nsec = (long)(a.created_ns % NSEC_PER_SEC)};
	attr->clock_resolution.tv_nsec = (long)a.clock_resolution_ns;
	attr->user_event_size = a.user_event_bytes;
	attr->system_event_size = a.system_event_bytes;
	return leave(slot, NULL);
}

/* ==== Types =================================================================================== */

/* Returns the identifier of a type in this process; 0 if the stream has no such type. */
static trace_event_id_t id_of(struct slot *slot, uint32_t type)
{
	const size_t skipped = sizeof(provider) - 1;
	trace_event_id_t id, *known;
	const char *name;

	if (type < PROBE_STREAM_SYSTEM_TYPES)
		return FIRST_SYSTEM + type;
	if (type == PROBE_STREAM_UNNAMED)
		return POSIX_TRACE_UNNAMED_USEREVENT;
	known = &slot->ids[type % PROBE_STREAM_TYPES_END];
	id = __atomic_load_n(known, __ATOMIC_RELAXED);
	if (id)
		return id;
	if (number_of(probe_stream_type_name(slot->stream, type, &name)))
		return 0;
	/* Probes of other providers, in a record of probectl, keep their whole names. */
	if (strncmp(name, provider, skipped) == 0)
		name += skipped;
	if (posix_trace_eventid_open(name, &id))
		id = POSIX_TRACE_UNNAMED_USEREVENT;
	__atomic_store_n(known, id, __ATOMIC_RELAXED);
	return id;
}

/* Finds the next type of the stream from `from` on. */
static bool next_type(struct slot *slot, uint32_t from, uint32_t *ret)
{
	bool there = false;

	return !number_of(probe_stream_type_next(slot->stream, from, ret, &there)) && there;
}

/* Finds the type with an identifier. Returns false if the stream has none. */
static bool type_of(struct slot *slot, trace_event_id_t id, uint32_t *ret)
{
	for (uint32_t from = 0; next_type(slot, from, ret); from = *ret + 1)
		if (id_of(slot, *ret) == id)
			return true;
	return false;
}

static struct probe_error *open_type(struct slot *slot, const char *name, uint32_t *ret)
{
	char text[sizeof(provider) + TRACE_EVENT_NAME_MAX];

	snprintf(text, sizeof(text), "%s%s", provider, name);
	return probe_stream_type_open(slot->stream, text, ret);
}

int posix_trace_trid_eventid_open(
	trace_id_t trid, const char *__restrict event_name, trace_event_id_t *__restrict event)
{
	size_t length = strnlen(event_name, TRACE_EVENT_NAME_MAX + 1);
	struct probe_error *error = NULL;
	struct slot *slot = enter(trid);
	uint32_t type;
	const char *own;

	if (!slot)
		return EINVAL;
	if (length > TRACE_EVENT_NAME_MAX)
		return leave(slot, NULL), ENAMETOOLONG;
	for (type = 0; type <= PROBE_STREAM_UNNAMED; type++) {
		if (number_of(probe_stream_type_name(slot->stream, type, &own)) == 0 &&
			strcmp(own, event_name) == 0)
			break;
	}
	if (type > PROBE_STREAM_UNNAMED || !slot->target)
		error = open_type(slot, event_name, &type);
	if (!error)
		*event = id_of(slot, type);
	return leave(slot, error);
}

int posix_trace_eventid_equal(trace_id_t trid, trace_event_id_t event1, trace_event_id_t event2)
{
	(void)trid;
	return event1 == event2;
}

int posix_trace_eventid_get_name(trace_id_t trid, trace_event_id_t event, char *event_name)
{
	struct slot *slot = enter(trid);
	struct probe_error *error = NULL;
	const char *name;
	uint32_t type;

	if (!slot)
		return EINVAL;
	if (!type_of(slot, event, &type))
		return leave(slot, NULL), EINVAL;
	error = probe_stream_type_name(slot->stream, type, &name);
	if (!error && strncmp(name, provider, sizeof(provider) - 1) == 0)
		name += sizeof(provider) - 1;
	if (!error)
		snprintf(event_name, TRACE_EVENT_NAME_MAX + 1, "%s", name);
	return leave(slot, error);
}

int posix_trace_eventtypelist_getnext_id(
	trace_id_t trid, trace_event_id_t *__restrict event, int *__restrict unavailable)
{
	struct slot *slot = enter(trid);
	uint32_t type;

	if (!slot)
		return EINVAL;
	*unavailable = !next_type(slot, slot->listed, &type);
	if (!*unavailable) {
		*event = id_of(slot, type);
		slot->listed = type + 1;
	}
	return leave(slot, NULL);
}

int posix_trace_eventtypelist_rewind(trace_id_t trid)
{
	struct slot *slot = enter(trid);

	if (!slot)
		return EINVAL;
	slot->listed = 0;
	return leave(slot, NULL);
}

/* ---- Sets ------------------------------------------------------------------------------------ */

static bool has(const trace_event_set_t *set, trace_event_id_t id)
{
	return id < IDS && set->words[id / 64] >> (id % 64) & 1;
}

static void put(trace_event_set_t *set, trace_event_id_t id, bool in)
{
	uint64_t bit = UINT64_C(1) << (id % 64);

	if (id < IDS && in)
		set->words[id / 64] |= bit;
	else if (id < IDS)
		set->words[id / 64] &= ~bit;
}

int posix_trace_eventset_empty(trace_event_set_t *set)
{
	*set = (trace_event_set_t){{0}};
	return 0;
}

int posix_trace_eventset_fill(trace_event_set_t *set, int what)
{
	if (what != POSIX_TRACE_WOPID_EVENTS && what != POSIX_TRACE_SYSTEM_EVENTS &&
		what != POSIX_TRACE_ALL_EVENTS)
		return EINVAL;
	memset(set, what == POSIX_TRACE_ALL_EVENTS ? 0xff : 0, sizeof(*set));
	for (uint32_t i = 0; i < PROBE_STREAM_SYSTEM_TYPES && what == POSIX_TRACE_SYSTEM_EVENTS;
		i++)
		put(set, FIRST_SYSTEM + i, true);
	return 0;
}

int posix_trace_eventset_add(trace_event_id_t event_id, trace_event_set_t *set)
{
	put(set, event_id, true);
	return event_id && event_id < IDS ? 0 : EINVAL;
}

int posix_trace_eventset_del(trace_event_id_t event_id, trace_event_set_t *set)
{
	put(set, event_id, false);
	return event_id && event_id < IDS ? 0 : EINVAL;
}

int posix_trace_eventset_ismember(trace_event_id_t event_id,
	const trace_event_set_t *__restrict set, int *__restrict ismember)
{
	*ismember = has(set, event_id);
	return event_id && event_id < IDS ? 0 : EINVAL;
}

/* The last identifier, which no name has, stands for all names that are not known yet. */
enum { REST = IDS - 1 };

static void set_of_types(
	struct slot *slot, const struct probe_stream_set *types, trace_event_set_t *ret)
{
	bool in = false;
	uint32_t type;

	probe_error_free(probe_stream_set_has(types, PROBE_STREAM_TYPES_END - 1, &in));
	memset(ret, in ? 0xff : 0, sizeof(*ret));
	for (uint32_t from = 0; next_type(slot, from, &type); from = type + 1) {
		probe_error_free(probe_stream_set_has(types, type, &in));
		put(ret, id_of(slot, type), in);
	}
}

/* Gives the stream a type for each name of this process that is not as the unknown ones. */
static struct probe_error *types_of_set(
	struct slot *slot, const trace_event_set_t *set, struct probe_stream_set *ret)
{
	struct probe_error *error = NULL;
	bool rest = has(set, REST);
	const char *name;
	uint32_t type;

	for (trace_event_id_t id = 0; id < IDS && !error; id++)
		if (has(set, id) != rest && (name = event_name(id)))
			error = open_type(slot, name, &type);
	memset(ret, rest ? 0xff : 0, sizeof(*ret));
	for (uint32_t from = 0; !error && next_type(slot, from, &type); from = type + 1)
		error = probe_stream_set_put(ret, type, has(set, id_of(slot, type)));
	return error;
}

int posix_trace_set_filter(trace_id_t trid, const trace_event_set_t *set, int how)
{
	struct slot *slot = enter(trid);
	struct probe_stream_set types;
	struct probe_error *error;

	if (!slot)
		return EINVAL;
	error = types_of_set(slot, set, &types)
			?: probe_stream_set_filter(
				   slot->stream, &types, (enum probe_stream_how)how);
	return leave(slot, error);
}
_Static_assert((int)PROBE_STREAM_FILTER_SET == POSIX_TRACE_SET_EVENTSET &&
		       (int)PROBE_STREAM_FILTER_ADD == POSIX_TRACE_ADD_EVENTSET &&
		       (int)PROBE_STREAM_FILTER_SUB == POSIX_TRACE_SUB_EVENTSET,
	"the same numbers");

int posix_trace_get_filter(trace_id_t trid, trace_event_set_t *set)
{
	struct slot *slot = enter(trid);
	struct probe_stream_set types;
	struct probe_error *error;

	if (!slot)
		return EINVAL;
	error = probe_stream_get_filter(slot->stream, &types);
	if (!error)
		set_of_types(slot, &types, set);
	return leave(slot, error);
}

/* ==== Events ================================================================================== */

/* The program's memory for an event's data. */
struct place {
	char *at;
	size_t room, used;
	bool truncated;
};

static void store(struct place *to, const void *bytes, size_t length)
{
	size_t fits = length < to->room - to->used ? length : to->room - to->used;

	if (fits)
		memcpy(to->at + to->used, bytes, fits);
	to->used += fits;
	to->truncated |= fits < length;
}

/* Stores an argument as the standard has it: bytes, an int, or a set of types. */
static void store_value(struct slot *slot, struct place *to, const struct probe_stream_event *event,
	const struct probe_value *value)
{
	bool is_own = event->type < PROBE_STREAM_SYSTEM_TYPES;
	struct probe_stream_set types;
	trace_event_set_t set;
	int number = (int)value->i;

	if (is_own && value->kind == PROBE_VALUE_BYTES) {
		probe_error_free(probe_stream_set_read(value, &types));
		set_of_types(slot, &types, &set);
		store(to, &set, sizeof(set));
	} else if (value->kind == PROBE_VALUE_BYTES || value->kind == PROBE_VALUE_STRING) {
		store(to, value->bytes, value->length);
	} else if (is_own) {
		store(to, &number, sizeof(number));
	} else if (value->kind != PROBE_VALUE_NULL) {
		store(to, &value->u, sizeof(value->u));
	}
}

/* Gets an event without waiting. *there_ret is false if there is none. */
static struct probe_error *take(struct slot *slot, bool may_wait, struct place *to,
	struct posix_trace_event_info *info, bool *there_ret)
{
	static const struct timespec no_wait;
	enum { BYTES = 1 << 16 }; /* more than the arguments of an event take */
	char *memory = malloc(BYTES);
	struct probe_stream_event e = {0};
	struct probe_error *error;

	if (!memory)
		return probe_stream_next(slot->stream, NULL, 0, &no_wait, &e, there_ret);
	error = probe_stream_next(slot->stream, memory, BYTES,
		may_wait && !slot->target ? NULL : &no_wait, &e, there_ret);
	if (!error && *there_ret) {
		for (size_t i = 0; i < e.event.arg_count; i++)
			store_value(slot, to, &e, &e.event.args[i]);
		*info = (struct posix_trace_event_info){.posix_event_id = id_of(slot, e.type),
			.posix_pid = e.event.pid,
			.posix_prog_address = (void *)(uintptr_t)e.pc,
			.posix_thread_id = (pthread_t)e.event.tid,
			.posix_timestamp = {(time_t)(e.event.time_ns / NSEC_PER_SEC),
				(long)(e.event.time_ns % NSEC_PER_SEC)},
			.posix_truncation_status =
				to->truncated ? POSIX_TRACE_TRUNCATED_READ : (int)e.truncation};
	}
	free(memory);
	return error;
}

/* Waits for at most 20 ms, or until a time of CLOCK_REALTIME. Returns EINTR or ETIMEDOUT. */
static int wait_a_while(unsigned int tries, const struct timespec *until)
{
	struct timespec now, pause = {.tv_nsec = 500000L << (tries < 5 ? tries : 5)};
	int64_t ns;

	if (until) {
		if (until->tv_nsec < 0 || until->tv_nsec >= NSEC_PER_SEC)
			return EINVAL;
		clock_gettime(CLOCK_REALTIME, &now);
		ns = (int64_t)(until->tv_sec - now.tv_sec) * NSEC_PER_SEC + until->tv_nsec -
		     now.tv_nsec;
		if (until->tv_sec < now.tv_sec || ns <= 0)
			return ETIMEDOUT;
		if (until->tv_sec - now.tv_sec <= 1 && ns < pause.tv_nsec)
			pause.tv_nsec = (long)ns;
	}
	return nanosleep(&pause, NULL) == 0 ? 0 : EINTR;
}

static int get_next(trace_id_t trid, struct posix_trace_event_info *info, void *data,
	size_t num_bytes, size_t *data_len, int *unavailable, bool waits,
	const struct timespec *until)
{
	for (unsigned int tries = 0;; tries++) {
		struct place to = {.at = data, .room = data ? num_bytes : 0};
		struct slot *slot = enter(trid);
		bool there = false, over;
		int err;

		if (!slot)
			return EINVAL;
		/* Ask before looking for an event: the last ones come before the end. */
		over = !slot->target || !probe_target_alive(slot->target);
		err = leave(slot, take(slot, waits && !until, &to, info, &there));
		if (err)
			return err;
		if (there || over || !waits) {
			*unavailable = !there;
			*data_len = to.used;
			return 0;
		}
		err = wait_a_while(tries, until);
		if (err)
			return err;
	}
}

int posix_trace_getnext_event(trace_id_t trid, struct posix_trace_event_info *__restrict event,
	void *__restrict data, size_t num_bytes, size_t *__restrict data_len,
	int *__restrict unavailable)
{
	return get_next(trid, event, data, num_bytes, data_len, unavailable, true, NULL);
}

int posix_trace_timedgetnext_event(trace_id_t trid, struct posix_trace_event_info *__restrict event,
	void *__restrict data, size_t num_bytes, size_t *__restrict data_len,
	int *__restrict unavailable, const struct timespec *__restrict abstime)
{
	return get_next(trid, event, data, num_bytes, data_len, unavailable, true, abstime);
}

int posix_trace_trygetnext_event(trace_id_t trid, struct posix_trace_event_info *__restrict event,
	void *__restrict data, size_t num_bytes, size_t *__restrict data_len,
	int *__restrict unavailable)
{
	return get_next(trid, event, data, num_bytes, data_len, unavailable, false, NULL);
}
