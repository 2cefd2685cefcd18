/* SPDX-License-Identifier: MIT */
/*
 * Streams of the calling process. A process cannot ptrace(2) itself, so a copy of it
 * (helper_copy()) has the stream and traces the process, for as long as the stream exists:
 *
 *	process                                copy
 *	probe_stream_create()  -- fork(2) -->  probe_stream_create() for its parent
 *	probe_stream_start()   -- socket --->  probe_stream_start()
 *	probe_stream_next()    -- socket --->  takes events from the rings
 *	                       <-------------  their types and the events, packed
 *
 * The process has a struct probe_stream with the attributes, the types and a queue of events. A
 * request is a struct request and the operation's input; the copy answers with a reply (error,
 * report, output), and a message with new types and events. Between requests, the copy polls its
 * stream. It ends with the stream, or with the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/self/helper/helper.h"
#include "libprobe/stream/stream.h"

struct stream_copy {
	struct helper_copy copy;
	pid_t owner; /* the process that made it: a forked child cannot use it */
	bool ended;
};

struct request {
	uint32_t op;	/* enum copy_op */
	uint32_t known; /* the process knows all types below this number */
	uint64_t out_bytes;
};

/* The arguments of probe_stream_create(), in the memory of which the copy has a copy, too. */
struct creation {
	pid_t pid;
	const struct probe_request *request;
	const struct probe_stream_options *options;
};

enum {
	POLL_MS = 20,	    /* between polls of the copy */
	REPLY_SECONDS = 60, /* limit of an operation, after which the copy is killed */
	OUT_MAX = sizeof(struct probe_stream_set) + sizeof(struct probe_stream_attributes),
	COPY_SOCKET = STDERR_FILENO + 1
};

/* ---- The copy -------------------------------------------------------------------------------- */

/* Sends the types from `known` on, and the events in the queue, which it empties. */
static void send_news(int socket, struct probe_stream *stream, uint32_t known)
{
	uint32_t next = stream ? stream->index.types->next : 0;
	AUTO(buffer_deinit) struct buffer news = {0};

	buffer_bytes(&news, &next, sizeof(next));
	for (uint32_t type = known; type < next; type++)
		message_add_text(&news, stream->index.types->types[type].text);
	if (stream) {
		buffer_bytes(&news, stream->queue.data + stream->queue.start,
			stream_queue_bytes(&stream->queue));
		stream_queue_clear(&stream->queue);
	}
	message_send(socket, MESSAGE_REPLY, &news);
}

static struct probe_error *perform(
	struct probe_stream *stream, enum copy_op op, struct message *request, void *out)
{
	struct stream_filtering filtering;
	uint32_t type;

	switch (op) {
	case COPY_START:
		return probe_stream_start(stream);
	case COPY_STOP:
		return probe_stream_stop(stream);
	case COPY_CLEAR:
		return probe_stream_clear(stream);
	case COPY_FLUSH:
		return probe_stream_flush(stream);
	case COPY_SHUTDOWN:
		return probe_stream_shutdown(stream);
	case COPY_SET_FILTER:
		message_read(request, &filtering, sizeof(filtering));
		return probe_stream_set_filter(stream, &filtering.set, filtering.how);
	case COPY_GET_FILTER:
		return probe_stream_get_filter(stream, out);
	case COPY_STATUS:
		return probe_stream_get_status(stream, out);
	case COPY_TYPE:
		return probe_stream_type_open(stream, message_text(request), &type);
	case COPY_TAKE:
		return stream_find_event(stream, out);
	}
	return controller_bad_request();
}

/* Answers a request. Ends the stream after the last one, and sets it to NULL. */
static void answer(int socket, struct probe_stream **stream)
{
	_Alignas(max_align_t) char out[OUT_MAX] = {0};
	struct probe_report report = {0};
	AUTO(message_deinit) struct message message = {0};
	struct request request = {.op = COPY_SHUTDOWN};
	struct probe_error *error;

	if (message_receive(socket, -1, 0, &message) == MESSAGE_GOT)
		message_read(&message, &request, sizeof(request));
	if (message.is_bad || request.out_bytes > sizeof(out))
		request = (struct request){.op = COPY_SHUTDOWN};
	error = perform(*stream, request.op, &message, out);
	if (request.op == COPY_SHUTDOWN)
		*stream = NULL;
	reply_send(socket, error, &report, out, request.out_bytes);
	send_news(socket, *stream, request.known);
	probe_error_free(error);
}

/* Takes the socket, and no other descriptor of the program: pipes must not stay open. */
static int keep_socket(int socket)
{
	int nothing;

	if (socket != COPY_SOCKET)
		dup2(socket, COPY_SOCKET);
	syscall(SYS_close_range, COPY_SOCKET + 1, ~0U, 0);
	nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = STDIN_FILENO; nothing >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(nothing, fd);
	return COPY_SOCKET;
}

/* The copy's life: stay() of helper_copy(). */
static void serve(int socket, void *data)
{
	const struct creation *c = data;
	struct probe_stream_attributes attributes = {0};
	struct probe_report report = {0};
	struct probe_stream *stream = NULL;
	struct message may_trace = {0};
	struct probe_target *target;
	struct probe_error *error;
	struct pollfd fds[] = {{.events = POLLIN}, {.events = POLLIN}, {.events = POLLIN}};

	fds[0].fd = keep_socket(socket);
	fds[1].fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	message_receive(fds[0].fd, -1, 0, &may_trace);
	message_deinit(&may_trace);
	error = probe_target_open(c->pid, NULL, &target)
			?: probe_stream_create(target, c->request, c->options, &report, &stream);
	if (stream)
		attributes = stream->index.attributes;
	reply_send(fds[0].fd, error, &report, &attributes, sizeof(attributes));
	send_news(fds[0].fd, stream, PROBE_STREAM_UNNAMED + 1);
	while (stream) {
		fds[2].fd = probe_stream_fd(stream);
		poll(fds, sizeof(fds) / sizeof(*fds), POLL_MS);
		if (fds[0].revents)
			answer(fds[0].fd, &stream);
		else if (!fds[1].revents)
			probe_error_free(probe_stream_poll(stream, NULL));
		if (stream && fds[1].revents) {
			probe_error_free(probe_stream_shutdown(stream));
			stream = NULL;
		}
	}
	/* exit(3) would run the program's exit handlers. */
	syscall(SYS_exit_group, 0);
	__builtin_unreachable();
}

/* ---- The process ----------------------------------------------------------------------------- */

static struct probe_error *has_ended(struct stream_copy *copy)
{
	if (copy->copy.process >= 0 && !copy->ended)
		syscall(SYS_pidfd_send_signal, copy->copy.process, SIGKILL, NULL, 0);
	copy->ended = true;
	return probe_error_new(PROBE_ERROR_STATE,
		"the process %d, which traces this one for the stream, has ended or does not "
		"answer",
		copy->copy.pid);
}

/* Takes over new types and events. Returns false if memory is short. */
static bool take_news(struct probe_stream *stream, struct message *news)
{
	struct probe_error *error = NULL;
	uint32_t next, type;

	stream->queue.no_memory = false;
	message_read(news, &next, sizeof(next));
	while (!error && !news->is_bad && stream->index.types->next < next)
		error = stream_types_of_name(stream->index.types, message_text(news), &type);
	if (!error && !news->is_bad)
		buffer_bytes(&stream->queue, news->bytes + news->at, news->length - news->at);
	probe_error_free(error);
	return !error && !stream->queue.no_memory;
}

static struct probe_error *take_reply(
	struct probe_stream *stream, struct probe_report *report, void *out, size_t out_bytes)
{
	uint64_t end_ns = clock_monotonic_ns() + REPLY_SECONDS * UINT64_C(1000000000);
	const struct helper_copy *copy = &stream->copy->copy;
	AUTO(message_deinit) struct message reply = {0}, news = {0};
	struct probe_error *error = NULL;

	if (message_receive(copy->socket, copy->process, end_ns, &reply) != MESSAGE_GOT ||
		!reply_take(&reply, &error, report, out, out_bytes) ||
		message_receive(copy->socket, copy->process, end_ns, &news) != MESSAGE_GOT)
		error = probe_error_first(error, has_ended(stream->copy));
	else if (!take_news(stream, &news))
		error = probe_error_first(error, probe_error_no_memory());
	return error;
}

struct probe_error *stream_copy_call(struct probe_stream *stream, enum copy_op op, const void *in,
	size_t in_bytes, void *out, size_t out_bytes)
{
	const struct request request = {
		.op = op, .known = stream->index.types->next, .out_bytes = out_bytes};
	struct stream_copy *copy = stream->copy;
	AUTO(probe_report_deinit) struct probe_report report = {0};
	AUTO(buffer_deinit) struct buffer bytes = {0};

	if (copy->owner != getpid())
		return error_numbered(PROBE_ERROR_STATE, EINVAL,
			"the stream belongs to the parent of this process");
	if (op == COPY_SHUTDOWN)
		helper_allow(copy->copy.pid);
	buffer_bytes(&bytes, &request, sizeof(request));
	buffer_bytes(&bytes, in, in_bytes);
	if (copy->ended || !message_send(copy->copy.socket, MESSAGE_WORK, &bytes))
		return has_ended(copy);
	return take_reply(stream, &report, out, out_bytes);
}

struct probe_error *stream_copy_create(struct probe_stream *stream,
	const struct probe_request *request, const struct probe_stream_options *options,
	struct probe_report *report)
{
	struct probe_stream_attributes *a = &stream->index.attributes, made;
	struct creation creation = {getpid(), request, options};
	struct stream_copy *copy = calloc(1, sizeof(*copy));
	struct probe_error *error;

	if (!copy)
		return probe_error_no_memory();
	stream->copy = copy;
	copy->owner = creation.pid;
	error = helper_copy(serve, &creation, &copy->copy)
			?: take_reply(stream, report, &made, sizeof(made));
	if (error)
		return error;
	a->options.stream_bytes = made.options.stream_bytes;
	a->created_ns = made.created_ns;
	a->clock_resolution_ns = made.clock_resolution_ns;
	a->user_event_bytes = made.user_event_bytes;
	a->system_event_bytes = made.system_event_bytes;
	return NULL;
}

void stream_copy_free(struct stream_copy *copy)
{
	if (copy)
		helper_leave_copy(&copy->copy);
	free(copy);
}
