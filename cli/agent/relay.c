/* SPDX-License-Identifier: MIT */
/*
 * Our own output may be stopped (a terminal, a pipe that nobody reads). The agent must go on
 * then: it stops to read the pipe, and the session waits as it would have for that output.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cli/agent/relay.h"
#include "cli/cli.h"
#include "cli/loop.h"

enum { READS = 64 };

struct probe_error *relay_open(struct relay *relay, int *write_ret)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return probe_error_system(errno, "cannot make a pipe");
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	relay->fd = ends[0];
	relay->ended = relay->failed = false;
	relay->length = 0;
	*write_ret = ends[1];
	return NULL;
}

void relay_close(struct relay *relay)
{
	if (relay->fd >= 0)
		close(relay->fd);
	relay->fd = -1;
}

/* The length of the next line to be passed on, without its newline; false: it is not whole yet. */
static bool next_line(const struct relay *relay, size_t *length_ret)
{
	const char *end = memchr(relay->bytes, '\n', relay->length);

	*length_ret = end ? (size_t)(end - relay->bytes) : relay->length;
	return end || relay->length == sizeof(relay->bytes) || (relay->ended && relay->length);
}

static bool is_writable(int fd)
{
	struct pollfd output = {.fd = fd, .events = POLLOUT};

	return poll(&output, 1, 0) == 1;
}

static void write_line(struct relay *relay, const char *name, size_t length)
{
	size_t kept = length < sizeof(relay->last) ? length : sizeof(relay->last) - 1;
	size_t used = length < relay->length && relay->bytes[length] == '\n' ? length + 1 : length;
	struct iovec parts[] = {
		{(void *)name, strlen(name)}, {": ", 2}, {relay->bytes, length}, {"\n", 1}};

	if (writev(relay->to, parts, 4) < 0) {
		if (errno == EINTR || errno == EAGAIN)
			return;
		if (!relay->failed)
			report_warning(
				"[%s] lines are lost, as our own output cannot be written: %s",
				name, strerror(errno));
		relay->failed = true;
	}
	memcpy(relay->last, relay->bytes, kept);
	relay->last[kept] = '\0';
	relay->length -= used;
	memmove(relay->bytes, relay->bytes + used, relay->length);
}

static bool read_more(struct relay *relay, bool over)
{
	ssize_t got =
		read(relay->fd, relay->bytes + relay->length, sizeof(relay->bytes) - relay->length);

	if (got > 0)
		relay->length += (size_t)got;
	else if (got == 0 || (errno != EAGAIN && errno != EINTR) || over)
		relay->ended = true;
	return got > 0;
}

void relay_pass(struct relay *relay, const char *name, bool over)
{
	bool more = true;
	size_t length;

	if (relay->fd < 0)
		return;
	/* Others have their turn, too. */
	for (int reads = 0; reads < READS && more; reads++) {
		while (next_line(relay, &length)) {
			if (!is_writable(relay->to))
				return;
			write_line(relay, name, length);
		}
		more = !relay->ended && (read_more(relay, over) || relay->ended);
	}
	if (relay->ended && !relay->length)
		relay_close(relay);
}

void relay_watch(const struct relay *relay, struct loop *loop)
{
	size_t length;

	if (relay->fd < 0)
		return;
	if (next_line(relay, &length))
		loop_watch(loop, relay->to, POLLOUT, NULL);
	else
		loop_watch(loop, relay->fd, POLLIN, NULL);
}
