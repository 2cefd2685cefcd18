/* SPDX-License-Identifier: MIT */
/*
 * Sender and receiver are the same build, so numbers and structs are sent as they are. Addresses
 * are the program's. Received data is checked all the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/error.h"
#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"
#include "libprobe/self/helper/helper.h"

/* ==== Message ================================================================================= */

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

/* Uses one system call if possible, so that the receiver wakes up only once. */
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

/*
 * Waits until the socket is readable (MESSAGE_GOT), is closed (MESSAGE_ENDED), or `end_ns` has
 * passed (MESSAGE_LATE).
 */
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

/* ==== Reply =================================================================================== */

/*
 * The format of a reply:
 *
 *	struct head
 *	the result
 *	the error's message
 *	for each refusal: struct refusal, provider, name, path and reason
 */

enum { PLANS = sizeof(((struct probe_report *)0)->plans) / sizeof(size_t) };

struct reply_head {
	int32_t code, err; /* code is 0 if there is no error */
	uint64_t result_bytes, refusal_count;
	uint64_t probes, sites, left, stop_ns;
	uint64_t plans[PLANS];
};

struct refusal {
	uint64_t pc;
	uint64_t named;
};

/* ---- Sending ------------------------------------------------------------------------ */

void reply_send(int socket, const struct probe_error *error, const struct probe_report *report,
	const void *result, size_t result_bytes)
{
	struct reply_head h = {.code = error ? (int32_t)error->code : 0,
		.err = error ? error->err : 0,
		.result_bytes = result_bytes,
		.refusal_count = report->refusal_count,
		.probes = report->probes,
		.sites = report->sites,
		.left = report->left,
		.stop_ns = report->stop_ns};
	AUTO(buffer_deinit) struct buffer b = {0};

	for (size_t i = 0; i < PLANS; i++)
		h.plans[i] = report->plans[i];
	buffer_bytes(&b, &h, sizeof(h));
	buffer_bytes(&b, result, result_bytes);
	message_add_text(&b, error ? error->message : "");
	for (size_t i = 0; i < report->refusal_count; i++) {
		const struct probe_refusal *from = &report->refusals[i];
		struct refusal r = {.pc = from->pc, .named = from->named};

		buffer_bytes(&b, &r, sizeof(r));
		message_add_text(&b, from->provider);
		message_add_text(&b, from->name);
		message_add_text(&b, from->path);
		message_add_text(&b, from->reason);
	}
	(void)message_send(socket, MESSAGE_REPLY, &b);
}

/* ---- Receiving ---------------------------------------------------------------------- */

static bool take_refusal(struct message *m, struct probe_report *report)
{
	struct probe_refusal *to;
	struct refusal r;

	if (!ARRAY_ROOM(report->refusals, report->refusal_count))
		return false;
	message_read(m, &r, sizeof(r));
	to = &report->refusals[report->refusal_count++];
	*to = (struct probe_refusal){.pc = r.pc, .named = r.named != 0};
	to->provider = strdup(message_text(m));
	to->name = strdup(message_text(m));
	to->path = strdup(message_text(m));
	to->reason = strdup(message_text(m));
	return to->provider && to->name && to->path && to->reason;
}

static void add_report(const struct reply_head *h, struct probe_report *report)
{
	report->probes += h->probes;
	report->sites += h->sites;
	report->left += h->left;
	for (size_t i = 0; i < PLANS; i++)
		report->plans[i] += h->plans[i];
	if (h->stop_ns > report->stop_ns)
		report->stop_ns = h->stop_ns;
}

bool reply_take(struct message *m, struct probe_error **error_ret, struct probe_report *report,
	void *result, size_t result_bytes)
{
	const char *text;
	bool room = true;
	struct reply_head h;
	size_t count;

	message_read(m, &h, sizeof(h));
	m->is_bad = m->is_bad || m->kind != MESSAGE_REPLY || h.result_bytes != result_bytes;
	if (m->is_bad)
		return false;
	message_read(m, result, result_bytes);
	text = message_text(m);
	count = message_count(m, h.refusal_count, sizeof(struct refusal));
	if (m->is_bad)
		return false;
	add_report(&h, report);
	for (size_t i = 0; i < count && room; i++)
		room = take_refusal(m, report);
	if (m->is_bad)
		return false;
	*error_ret = h.code ? error_numbered(h.code, h.err, "%s", text) : NULL;
	if (!room && !*error_ret)
		*error_ret = probe_error_no_memory();
	return true;
}

/* ==== Image =================================================================================== */

/*
 * A program that uses libprobe.so executes the file that it has mapped. One linked with libprobe.a
 * cannot execute its own file: it executes the installed libprobe.so of this version. The first
 * message tells whether that file is the same build.
 */

static int open_own(void)
{
	AUTO(maps_deinit) struct maps maps = {0};
	struct probe_error *error = maps_read(getpid(), &maps);
	AUTO(mapped_files_deinit) struct mapped_files files = mapped_files_of(getpid(), &maps);
	const struct mapping *mapping =
		error ? NULL : maps_find(&maps, (uint64_t)(uintptr_t)image_open);
	int unused, fd = mapping ? mapped_open(&files, mapping, &unused) : -1;

	probe_error_free(error);
	return fd;
}

int image_open(void)
{
	struct rlimit stack;

	/* Only the hard limit matters, because the soft limit can be raised. */
	if (getrlimit(RLIMIT_STACK, &stack) < 0 || stack.rlim_max < IMAGE_STACK_BYTES)
		return -1;
	/* Check the calling thread, because each thread has its own filters. */
	if (procfs_status_number((pid_t)syscall(SYS_gettid), "Seccomp:") != 0)
		return -1;
	return image_entry ? open_own() : open(PROBE_IMAGE, O_RDONLY | O_CLOEXEC);
}
