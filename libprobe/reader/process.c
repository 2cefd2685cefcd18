/* SPDX-License-Identifier: MIT */
/*
 * Hits as JSON are read in a child process: without memory, json-c crashes. In a child that is an
 * ordinary error, so the library is loaded only there.
 *
 * Both ends are the same program, so frames are not packed. Lengths are checked all the same,
 * because a process that is about to abort may send anything.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"
#include "libprobe/base/worker.h"
#include "libprobe/reader/reader.h"
#include "libprobe/base/event.h"

enum {
	END_NS = 1000000000,   /* for a process that has closed its pipe to end */
	WRITE_BYTES = 1 << 16, /* frames written at once */
	READ_BYTES = 1 << 18,  /* room for them */
	PIPE_BYTES = 1 << 20,  /* capacity of the pipe, if the kernel allows it */
	FRAME_BYTES_MAX = 1 << 28,
	ALIGN = sizeof(uint64_t),
	EXIT_NO_MEMORY = 3 /* the child's exit status if it lacks the memory for an error */
};
/* How much the child may allocate on top of what we have. */
#define DATA_BYTES_MAX (1ULL << 30)

enum frame_type {
	FRAME_EVENT,
	FRAME_OPENED, /* the first frame, unless that is an error */
	FRAME_ERROR,  /* the last frame */
	FRAME_END     /* the last frame, after the last event */
};

/* Header of each frame. In an event's, the packed event follows (libprobe/base/event.h). */
struct frame {
	uint32_t length; /* of the whole frame; a multiple of ALIGN */
	uint32_t type;
};

/* The message follows. */
struct frame_error {
	struct frame frame;
	enum probe_error_code code;
	int err;
};

/* ---- In the child ---------------------------------------------------------------------- */

static void put_text(struct buffer *out, const char *text)
{
	if (text)
		buffer_bytes(out, text, strlen(text) + 1);
}

/* Completes the frame that began at `start`. */
static void put_length(struct buffer *out, size_t start)
{
	static const char padding[ALIGN];
	size_t over = (out->length - start) % ALIGN;
	uint32_t length;

	buffer_bytes(out, padding, over ? ALIGN - over : 0);
	if (out->no_memory)
		return;
	length = (uint32_t)(out->length - start);
	memcpy(out->data + start, &length, sizeof(length));
}

static void put_event(struct buffer *out, const struct probe_event *event)
{
	size_t size = event_packed_size(event);
	struct frame frame = {.length = (uint32_t)(sizeof(frame) + size), .type = FRAME_EVENT};
	char *block;

	buffer_bytes(out, &frame, sizeof(frame));
	block = buffer_reserve(out, size);
	if (!block)
		return;
	event_pack(event, block);
	out->length += size;
}

static void put_error(struct buffer *out, const struct probe_error *error)
{
	const struct frame_error frame = {
		.frame.type = FRAME_ERROR, .code = error->code, .err = error->err};
	size_t start = out->length;

	buffer_bytes(out, &frame, sizeof(frame));
	put_text(out, error->message);
	put_length(out, start);
}

static void put_frame(struct buffer *out, enum frame_type type)
{
	const struct frame frame = {.type = type};
	size_t start = out->length;

	buffer_bytes(out, &frame, sizeof(frame));
	put_length(out, start);
}

static void write_out(struct buffer *out, int fd)
{
	if (out->no_memory)
		_exit(EXIT_NO_MEMORY);
	while (out->start < out->length) {
		ssize_t n = write(fd, out->data + out->start, out->length - out->start);

		/* The reader is gone: SIGPIPE ends us. */
		if (n < 0 && errno != EINTR)
			_exit(EXIT_FAILURE);
		if (n > 0)
			out->start += (size_t)n;
	}
	out->start = out->length = 0;
}

/*
 * Limits memory to what we have plus DATA_BYTES_MAX, and disables core dumps: aborts are
 * expected.
 */
static void limit_process(void)
{
	const struct rlimit none = {0};
	unsigned long pages[6] = {0}; /* proc(5), statm: size resident shared text lib data */
	struct rlimit data;
	FILE *file = fopen("/proc/self/statm", "re");

	if (file &&
		fscanf(file, "%lu %lu %lu %lu %lu %lu", &pages[0], &pages[1], &pages[2], &pages[3],
			&pages[4], &pages[5]) == 6 &&
		getrlimit(RLIMIT_DATA, &data) == 0) {
		rlim_t most = pages[5] * (rlim_t)sysconf(_SC_PAGESIZE) + DATA_BYTES_MAX;

		if (data.rlim_cur > most) {
			data.rlim_cur = most;
			setrlimit(RLIMIT_DATA, &data);
		}
	}
	if (file)
		fclose(file);
	setrlimit(RLIMIT_CORE, &none);
}

/* The child ends with its parent, and ignores signals meant for the parent. */
static void set_up_process(pid_t parent)
{
	static const int ignored[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM};
	static const int ending[] = {SIGPIPE, SIGABRT, SIGTRAP, SIGSEGV, SIGBUS, SIGFPE};
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	sigset_t nothing;

	/* A file may keep it busy forever. The parent may already have been killed. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		signal(ending[i], SIG_DFL);
	sigemptyset(&nothing);
	sigprocmask(SIG_SETMASK, &nothing, NULL);
	/* Hide the output of failed assertions. */
	if (null >= 0)
		dup2(null, STDERR_FILENO);
	limit_process();
}

/* If our program has no standard error, the pipe may have got its number. */
static int away_from_stderr(int fd)
{
	return fd == STDERR_FILENO ? fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : fd;
}

/*
 * Closes inherited pipes, so that a pipe that the program closes really ends while a record is
 * read. Files stay open: the path may lead through /proc/self/fd.
 */
static void close_pipes(int kept, int also)
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;
	struct stat status;

	while (folder && (entry = readdir(folder))) {
		int fd = atoi(entry->d_name);

		if (fd > STDERR_FILENO && fd != kept && fd != also && fstat(fd, &status) == 0 &&
			(S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)))
			close(fd);
	}
	if (folder)
		closedir(folder);
}

/* Before the child waits for more input, it writes what it has read. */
static bool would_wait(int json)
{
	struct pollfd input = {.fd = json, .events = POLLIN};

	return json >= 0 && poll(&input, 1, 0) == 0;
}

/* `json`: a descriptor to read JSON from. */
static _Noreturn void serve(const char *path, int json, int fd, pid_t parent)
{
	const struct reader_ops *ops = &reader_json;
	struct probe_event event;
	struct probe_error *error;
	struct buffer out;
	bool there = true;
	void *source;

	fd = away_from_stderr(fd);
	set_up_process(parent);
	close_pipes(fd, json);
	if (fd < 0 || !buffer_init(&out))
		_exit(EXIT_NO_MEMORY);
	error = reader_json_open(json, path, &source);
	if (!error) {
		put_frame(&out, FRAME_OPENED);
		write_out(&out, fd);
	}
	while (!error && there) {
		error = ops->next(source, &event, &there);
		if (!error && there)
			put_event(&out, &event);
		if (out.length >= WRITE_BYTES || would_wait(json))
			write_out(&out, fd);
	}
	if (error)
		put_error(&out, error);
	else
		put_frame(&out, FRAME_END);
	write_out(&out, fd);
	_exit(EXIT_SUCCESS);
}

/* ---- In the parent --------------------------------------------------------------------- */

struct process_reader {
	char *path;
	pid_t pid;
	int fd;
	char *data; /* received but not yet processed: [start, end) */
	size_t start, end, room;
	bool over; /* nothing follows */
};

/* Waits for the end of the process. Returns its wait status; 0 if it is unknown. */
static int reap(struct process_reader *reader, uint64_t patience_ns)
{
	int status = 0;
	bool ended;

	if (reader->fd >= 0)
		close(reader->fd);
	reader->fd = -1;
	if (!reader->pid)
		return 0;
	ended = worker_end_child(reader->pid, patience_ns, &status);
	reader->pid = 0;
	return ended ? status : 0;
}

static void process_close(void *source)
{
	struct process_reader *reader = source;

	if (!reader)
		return;
	reap(reader, 0);
	free(reader->data);
	free(reader->path);
	free(reader);
}

static struct probe_error *gave_up(struct process_reader *reader)
{
	int status = reap(reader, END_NS);

	reader->over = true;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_MEMORY)
		return probe_error_no_memory();
	return probe_error_new(PROBE_ERROR_FORMAT,
		"%s: json-c cannot read it (%s): it is damaged, or there is not enough memory",
		reader->path,
		WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "its process ended");
}

/* Makes room for a frame of `wanted` bytes and reads what there is of it. */
static struct probe_error *read_more(struct process_reader *reader, size_t wanted)
{
	size_t length = reader->end - reader->start;
	char *data;
	ssize_t n;

	memmove(reader->data, reader->data + reader->start, length);
	reader->start = 0;
	reader->end = length;
	if (wanted > reader->room) {
		data = realloc(reader->data, wanted);
		if (!data)
			return probe_error_no_memory();
		reader->data = data;
		reader->room = wanted;
	}
	do {
		n = read(reader->fd, reader->data + length, reader->room - length);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return probe_error_system(errno, "cannot read the events of %s", reader->path);
	if (n == 0)
		return gave_up(reader);
	reader->end += (size_t)n;
	return NULL;
}

/* The next frame; it stays in the buffer until the next call. */
static struct probe_error *next_frame(struct process_reader *reader, struct frame **ret)
{
	struct probe_error *error;
	struct frame head;
	size_t wanted = sizeof(head);

	for (;;) {
		if (reader->end - reader->start >= sizeof(head)) {
			memcpy(&head, reader->data + reader->start, sizeof(head));
			if (head.length < sizeof(head) || head.length > FRAME_BYTES_MAX ||
				head.length % ALIGN)
				return gave_up(reader);
			wanted = head.length;
		}
		if (reader->end - reader->start >= wanted)
			break;
		error = read_more(reader, wanted);
		if (error)
			return error;
	}
	*ret = (struct frame *)(reader->data + reader->start);
	reader->start += wanted;
	return NULL;
}

static bool take_event(struct frame *frame, struct probe_event *ret)
{
	const struct probe_event *event = event_unpack(frame + 1, frame->length - sizeof(*frame));

	if (!event || (event->kind == PROBE_EVENT_HIT && (!event->provider || !event->name)))
		return false;
	*ret = *event;
	return true;
}

static struct probe_error *take_error(struct process_reader *reader, struct frame *frame)
{
	const struct frame_error *sent = (const struct frame_error *)frame;
	const char *message = (const char *)(sent + 1);

	if (frame->length <= sizeof(*sent) || !memchr(message, '\0', frame->length - sizeof(*sent)))
		return gave_up(reader);
	reader->over = true;
	return error_numbered(sent->code, sent->err, "%s", message);
}

static struct probe_error *process_next(void *source, struct probe_event *ret, bool *there_ret)
{
	struct process_reader *reader = source;
	struct probe_error *error;
	struct frame *frame;

	*there_ret = false;
	if (reader->over)
		return NULL;
	error = next_frame(reader, &frame);
	if (error)
		return error;
	switch (frame->type) {
	case FRAME_EVENT:
		*there_ret = true;
		return take_event(frame, ret) ? NULL : gave_up(reader);
	case FRAME_ERROR:
		return take_error(reader, frame);
	case FRAME_END:
		reader->over = true;
		return NULL;
	default:
		return gave_up(reader);
	}
}

static struct probe_error *start(struct process_reader *reader, int json)
{
	pid_t parent = getpid();
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return probe_error_system(errno, "cannot read %s", reader->path);
	fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES);
	reader->fd = fds[0];
	reader->pid = fork();
	if (reader->pid == 0) {
		close(fds[0]);
		serve(reader->path, json, fds[1], parent);
	}
	close(fds[1]);
	if (reader->pid < 0) {
		reader->pid = 0;
		return probe_error_system(errno, "cannot read %s", reader->path);
	}
	return NULL;
}

static struct probe_error *wait_until_open(struct process_reader *reader)
{
	struct frame *frame;
	struct probe_error *error = next_frame(reader, &frame);

	if (error || frame->type == FRAME_OPENED)
		return error;
	return frame->type == FRAME_ERROR ? take_error(reader, frame) : gave_up(reader);
}

struct probe_error *reader_process_open_json(int fd, const char *name, void **ret)
{
	struct process_reader *reader = calloc(1, sizeof(*reader));
	struct probe_error *error;

	if (!reader)
		return probe_error_no_memory();
	reader->fd = -1;
	reader->room = READ_BYTES;
	reader->data = malloc(reader->room);
	reader->path = strdup(name);
	error = reader->data && reader->path ? NULL : probe_error_no_memory();
	if (!error)
		error = start(reader, fd);
	if (!error)
		error = wait_until_open(reader);
	if (error) {
		process_close(reader);
		return error;
	}
	*ret = reader;
	return NULL;
}

const struct reader_ops reader_process = {
	.next = process_next,
	.close = process_close,
};
