/* SPDX-License-Identifier: MIT */
/*
 * A sink writes a format's output to a descriptor.
 *
 * Writing must not wait for a reader (probe/sink.h says why), but O_NONBLOCK is forbidden: the
 * shell and the traced program share the file description of standard output. So we poll(2) before
 * each write, and write so little that it does not block: POLLOUT on a pipe means that PIPE_BUF
 * bytes fit (pipe(7)); regular files take everything. But a terminal may have room for one byte,
 * and the program may fill a pipe before our write. So terminals and pipes are opened again, for us
 * alone and non-blocking. Sockets take a flag with each call.
 *
 * The traced program often writes to the same pipe or terminal. Bytes of one write(2) are never
 * mixed with its output, so each write ends at the end of a line; only a line longer than PIPE_BUF
 * is written in pieces.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "libprobe/output/output.h"

enum {
	SINK_FULL_BYTES = 256 << 10,
	SINK_IDLE_ROOM = 1 << 20 /* a larger buffer is freed when it is empty */
};

struct probe_sink {
	const struct format *format;
	struct format_context context;
	int fd;
	char *name;
	int own; /* descriptor of the same terminal or pipe, opened again for us alone; or -1 */
	bool regular; /* a regular file, which never blocks */
	bool socket;
	bool failed; /* output is discarded after a failed write */
};

struct probe_error *sink_create(
	const struct format *format, int fd, const char *name, struct probe_sink **ret)
{
	int flags = fcntl(fd, F_GETFL);
	struct probe_sink *sink;
	struct stat st;

	if (flags < 0 || fstat(fd, &st) < 0)
		return probe_error_system(errno, "%s", name);
	/* Report an unwritable descriptor now, not at the first hit. */
	if ((flags & O_ACCMODE) == O_RDONLY)
		return probe_error_system(EBADF, "%s", name);
	sink = calloc(1, sizeof(*sink));
	if (!sink)
		return probe_error_no_memory();
	sink->format = format;
	sink->context.clock.second = -1;
	sink->fd = fd;
	sink->regular = S_ISREG(st.st_mode);
	sink->socket = S_ISSOCK(st.st_mode);
	sink->own = file_reopen(fd);
	/* Another user's terminal or pipe cannot be opened again: use the descriptor. */
	if (sink->own >= 0)
		sink->fd = sink->own;
	sink->name = strdup(name);
	if (!sink->name) {
		probe_sink_free(sink);
		return probe_error_no_memory();
	}
	*ret = sink;
	return NULL;
}

struct probe_error *probe_sink_create(
	enum probe_sink_format format, int fd, const char *name, struct probe_sink **ret)
{
	static const struct format *const formats[] = {
		[PROBE_SINK_TEXT] = &format_text, [PROBE_SINK_JSON] = &format_json};

	if ((size_t)format >= sizeof(formats) / sizeof(formats[0]))
		return probe_error_new(PROBE_ERROR_USAGE, "no output format %d", (int)format);
	return sink_create(formats[format], fd, name, ret);
}

struct format_context *sink_context(struct probe_sink *sink)
{
	return &sink->context;
}

void probe_sink_free(struct probe_sink *sink)
{
	if (!sink)
		return;
	buffer_deinit(&sink->context.out);
	cleanup_fd(&sink->own);
	free(sink->name);
	free(sink);
}

void probe_sink_begin(struct probe_sink *sink, bool header)
{
	if (sink->format->begin)
		sink->format->begin(&sink->context, header);
}

void probe_sink_begin_spans(struct probe_sink *sink, bool header)
{
	if (sink->format->begin_spans)
		sink->format->begin_spans(&sink->context, header);
}

/* Defines a function that calls an operation of the format, unless it has none. */
#define CALLS(function, operation, parameters, ...)                                                \
	void function parameters                                                                   \
	{                                                                                          \
		if (!sink->failed && sink->format->operation)                                      \
			sink->format->operation(&sink->context, ##__VA_ARGS__);                    \
	}

/* clang-format off */
CALLS(probe_sink_hit, hit, (struct probe_sink *sink, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm), hit, probe, comm)
CALLS(probe_sink_span, span, (struct probe_sink *sink, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *comm), hit, begin, end, comm)
CALLS(probe_sink_lost, lost, (struct probe_sink *sink, const struct probe_session_probe *probe,
	uint64_t lost), probe, lost)
CALLS(probe_sink_waited, waited, (struct probe_sink *sink, uint64_t hits, uint64_t ns), hits, ns)
CALLS(probe_sink_site, site, (struct probe_sink *sink, pid_t pid,
	const struct probe_site_news *news), pid, news)
CALLS(probe_sink_table, table, (struct probe_sink *sink, const struct probe_table *table,
	const struct probe_view *view), table, view)
CALLS(probe_sink_stacks, stacks, (struct probe_sink *sink, const struct probe_stacks_row *rows,
	size_t count, const struct probe_view *view), rows, count, view)
CALLS(probe_sink_calls, calls, (struct probe_sink *sink, const struct probe_calls_row *rows,
	size_t count, const struct probe_view *view), rows, count, view)
CALLS(probe_sink_end, end, (struct probe_sink *sink))
/* clang-format on */

size_t probe_sink_pending(const struct probe_sink *sink)
{
	return sink->context.out.length - sink->context.out.start;
}

bool probe_sink_full(const struct probe_sink *sink)
{
	return probe_sink_pending(sink) >= SINK_FULL_BYTES;
}

static void sink_rewind(struct probe_sink *sink)
{
	struct buffer *out = &sink->context.out;

	out->start = out->length = 0;
	if (out->room > SINK_IDLE_ROOM) {
		free(out->data);
		out->data = NULL;
		out->room = 0;
	}
}

static struct probe_error *sink_fail(struct probe_sink *sink, struct probe_error *error)
{
	sink->failed = true;
	sink_rewind(sink);
	return error;
}

/* Returns true if a write of PIPE_BUF bytes will not block, whether it succeeds or fails. */
static bool sink_ready(const struct probe_sink *sink)
{
	struct pollfd pfd = {.fd = sink->fd, .events = POLLOUT};

	return sink->regular || poll(&pfd, 1, 0) > 0;
}

static size_t next_length(const struct probe_sink *sink)
{
	const struct buffer *out = &sink->context.out;
	size_t length = out->length - out->start;
	const char *line_end;

	if (sink->regular || length <= PIPE_BUF)
		return length; /* take all bytes, which end at the end of a line */
	line_end = memrchr(out->data + out->start, '\n', PIPE_BUF);
	return line_end ? (size_t)(line_end + 1 - (out->data + out->start)) : PIPE_BUF;
}

struct probe_error *probe_sink_flush(struct probe_sink *sink)
{
	struct buffer *out = &sink->context.out;

	if (!sink->failed && out->no_memory)
		return sink_fail(sink, probe_error_no_memory());
	while (out->start < out->length && sink_ready(sink)) {
		const char *from = out->data + out->start;
		ssize_t written = sink->socket ? send(sink->fd, from, next_length(sink),
							 MSG_DONTWAIT | MSG_NOSIGNAL)
					       : write(sink->fd, from, next_length(sink));

		if (written >= 0) {
			out->start += (size_t)written;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN)
			return NULL;
		return sink_fail(sink, probe_error_system(errno, "cannot write to %s", sink->name));
	}
	if (out->start == out->length)
		sink_rewind(sink);
	return NULL;
}

/* A format that writes nothing, for sinks whose owner fills the buffer. */
const struct format format_silent = {0};
