/* SPDX-License-Identifier: MIT */
/*
 * Lines wait in memory until standard error accepts them. If the memory is full, new lines are
 * dropped and counted; once the waiting lines have been written, another line tells how many.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/print/messages.h"
#include "libprobe/base/file.h"

enum {
	WAITING_BYTES = 64 << 10,
	END_MS = 500 /* without progress */
};

/* Static, because a message may report that the heap has no memory left. */
static struct messages {
	pid_t owner;
	FILE *before; /* the original `stderr` */
	int fd;
	bool is_socket;
	char text[WAITING_BYTES]; /* [0, whole): lines that wait; [whole, length): the next one */
	size_t whole, length;
	bool is_cut; /* the next line does not fit */
	uint64_t dropped;
} messages = {.fd = -1};

/* Writes at most PIPE_BUF bytes: if poll(2) reports room, a pipe takes them without blocking. */
static ssize_t write_some(const struct messages *m)
{
	struct pollfd output = {.fd = m->fd, .events = POLLOUT};
	size_t length = m->whole;
	const char *line_end;

	if (length > PIPE_BUF) {
		line_end = memrchr(m->text, '\n', PIPE_BUF);
		length = line_end ? (size_t)(line_end + 1 - m->text) : PIPE_BUF;
	}
	errno = EAGAIN;
	if (poll(&output, 1, 0) <= 0)
		return -1;
	return m->is_socket ? send(m->fd, m->text, length, MSG_DONTWAIT | MSG_NOSIGNAL)
			    : write(m->fd, m->text, length);
}

/* Queues the line about dropped messages. Called when nothing else is waiting. */
static void tell_dropped(struct messages *m)
{
	char line[128];
	size_t length = (size_t)snprintf(line, sizeof(line),
		"probectl: %" PRIu64 " message%s dropped, as nobody read standard error\n",
		m->dropped, m->dropped == 1 ? " was" : "s were");

	if (m->length + length > sizeof(m->text))
		return;
	memmove(m->text + length, m->text, m->length);
	memcpy(m->text, line, length);
	m->whole = length;
	m->length += length;
	m->dropped = 0;
}

static void pass_on(struct messages *m)
{
	for (;;) {
		ssize_t written;

		if (!m->whole && m->dropped)
			tell_dropped(m);
		if (!m->whole)
			return;
		written = write_some(m);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0 && errno == EAGAIN)
			return;
		/* A write error is final (the reader has closed the pipe): discard the lines. */
		if (written < 0)
			written = (ssize_t)m->whole;
		m->whole -= (size_t)written;
		m->length -= (size_t)written;
		memmove(m->text, m->text + written, m->length);
	}
}

/* A line of progress ends with a carriage return, and is erased by a sequence of its own. */
static bool ends_message(const struct messages *m, char c)
{
	static const char erase[] = {'\33', '[', 'K'};

	return c == '\n' || c == '\r' ||
	       (c == 'K' && m->length >= sizeof(erase) &&
		       !memcmp(m->text + m->length - sizeof(erase), erase, sizeof(erase)));
}

static void add(struct messages *m, char c)
{
	if (m->length < sizeof(m->text))
		m->text[m->length++] = c;
	else
		m->is_cut = true;
	if (!ends_message(m, c))
		return;
	if (m->is_cut) {
		m->length = m->whole;
		m->dropped++;
	}
	m->is_cut = false;
	m->whole = m->length;
}

static ssize_t take(void *cookie, const char *text, size_t size)
{
	struct messages *m = cookie;

	/*
	 * A child that we forked, such as the host of a loaded tracer, must not print our queued
	 * lines.
	 */
	if (getpid() != m->owner)
		return write(STDERR_FILENO, text, size);
	for (size_t i = 0; i < size; i++)
		add(m, text[i]);
	pass_on(m);
	return (ssize_t)size;
}

void messages_begin(void)
{
	const cookie_io_functions_t functions = {.write = take};
	FILE *stream = fopencookie(&messages, "w", functions);
	struct stat st;

	if (!stream)
		return;
	setvbuf(stream, NULL, _IONBF, 0);
	messages.owner = getpid();
	messages.before = stderr;
	messages.fd = file_reopen(STDERR_FILENO);
	if (messages.fd < 0)
		messages.fd = STDERR_FILENO;
	messages.is_socket = fstat(messages.fd, &st) == 0 && S_ISSOCK(st.st_mode);
	stderr = stream;
}

void messages_retry(void)
{
	if (messages.before)
		pass_on(&messages);
}

void messages_end(void)
{
	struct pollfd output = {.fd = messages.fd, .events = POLLOUT};

	if (!messages.before)
		return;
	/* A message may be left without the end of a line. */
	messages.whole = messages.length;
	pass_on(&messages);
	while (messages.whole && poll(&output, 1, END_MS) > 0)
		pass_on(&messages);
}
