/* SPDX-License-Identifier: MIT */
/*
 * Both sides are the same build of the library, so numbers and structs are sent as they are in
 * memory, and addresses are those of the program. What is received is checked all the same.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "libprobe/base/clock.h"
#include "libprobe/self/helper/message.h"

#define MESSAGE_MAGIC UINT32_C(0xf2676d70)

enum { LENGTH_MAX = 256 << 20, MS_NS = 1000000 };

struct head {
	uint32_t magic, kind;
	uint64_t length;
};

void message_deinit(struct message *message)
{
	free(message->bytes);
	*message = (struct message){0};
}

/* ---- Sockets ------------------------------------------------------------------------------ */

/* In one call, if possible: the other side then wakes up once. */
bool message_send(int socket, enum message_kind kind, const struct buffer *bytes)
{
	struct head head = {MESSAGE_MAGIC, kind, bytes->length};
	struct iovec parts[2] = {{&head, sizeof(head)}, {bytes->data, bytes->length}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

	while (!bytes->no_memory && message.msg_iovlen) {
		ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return false;
		while (message.msg_iovlen && (size_t)sent >= message.msg_iov->iov_len) {
			sent -= (ssize_t)message.msg_iov->iov_len;
			message.msg_iov++;
			message.msg_iovlen--;
		}
		if (message.msg_iovlen) {
			message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + sent;
			message.msg_iov->iov_len -= (size_t)sent;
		}
	}
	return !bytes->no_memory;
}

/* Waits until there is something to be read (MESSAGE_GOT), or nothing will come any more. */
static enum message_result await(int socket, int process, uint64_t end_ns)
{
	for (;;) {
		struct pollfd fds[] = {
			{.fd = socket, .events = POLLIN}, {.fd = process, .events = POLLIN}};
		uint64_t now = end_ns ? clock_monotonic_ns() : 0;

		if (end_ns && now >= end_ns)
			return MESSAGE_LATE;
		if (poll(fds, 2, end_ns ? (int)((end_ns - now) / MS_NS) + 1 : -1) > 0)
			return fds[0].revents ? MESSAGE_GOT : MESSAGE_ENDED;
	}
}

static enum message_result receive_all(
	int socket, int process, uint64_t end_ns, void *bytes, size_t length)
{
	char *to = bytes;

	while (length) {
		ssize_t got = recv(socket, to, length, MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN) {
			enum message_result result = await(socket, process, end_ns);

			if (result != MESSAGE_GOT)
				return result;
			continue;
		}
		if (got <= 0)
			return MESSAGE_ENDED;
		to += got;
		length -= (size_t)got;
	}
	return MESSAGE_GOT;
}

enum message_result message_receive(int socket, int process, uint64_t end_ns, struct message *ret)
{
	struct head head;
	enum message_result result = receive_all(socket, process, end_ns, &head, sizeof(head));

	message_deinit(ret);
	if (result != MESSAGE_GOT)
		return result;
	if (head.magic != MESSAGE_MAGIC || head.length > LENGTH_MAX)
		return MESSAGE_ENDED;
	ret->bytes = malloc(head.length + 1);
	if (!ret->bytes)
		return MESSAGE_ENDED;
	ret->kind = head.kind;
	ret->length = head.length;
	return receive_all(socket, process, end_ns, ret->bytes, head.length);
}

/* ---- Contents ----------------------------------------------------------------------------- */

void message_read(struct message *message, void *ret, size_t size)
{
	message->is_bad = message->is_bad || message->length - message->at < size;
	if (message->is_bad) {
		if (size)
			memset(ret, 0, size);
		return;
	}
	if (size)
		memcpy(ret, message->bytes + message->at, size);
	message->at += size;
}

const char *message_text(struct message *message)
{
	const char *text = message->bytes + message->at;

	message->is_bad = message->is_bad || !memchr(text, 0, message->length - message->at);
	if (message->is_bad)
		return "";
	message->at += strlen(text) + 1;
	return text;
}

size_t message_count(struct message *message, uint64_t count, size_t item_bytes)
{
	message->is_bad = message->is_bad || count > (message->length - message->at) / item_bytes;
	return message->is_bad ? 0 : count;
}

void message_add_text(struct buffer *buffer, const char *text)
{
	buffer_bytes(buffer, text, strlen(text) + 1);
}
