/* SPDX-License-Identifier: MIT */
/*
 * The format of a reply:
 *
 *	struct header
 *	the error's message, without a NUL
 *	for each refusal: struct refusal, provider, name and path with their NULs
 *	the result
 *
 * Sender and receiver are the same program, so pointers to constants are valid in both.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/error.h"
#include "libprobe/self/reply.h"

#define REPLY_MAGIC UINT64_C(0x31796c7065726270)

enum { READ_BYTES = 4096 };

struct header {
	uint64_t magic;
	uint64_t length; /* of the whole reply */
	int32_t code, err;
	uint64_t message_length;
	struct probe_report report; /* without its pointers */
};

struct refusal {
	uint64_t pc;
	uint64_t named;
	uint64_t lengths[4]; /* of its strings, with their NULs */
};

/* ---- Sending ------------------------------------------------------------------------ */

static void send_all(int fd, const void *bytes, size_t length)
{
	const char *at = bytes;

	while (length) {
		ssize_t sent = write(fd, at, length);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return;
		at += sent;
		length -= (size_t)sent;
	}
}

static struct refusal describe(const struct probe_refusal *r)
{
	return (struct refusal){.pc = r->pc,
		.named = r->named,
		.lengths = {strlen(r->provider) + 1, strlen(r->name) + 1, strlen(r->path) + 1,
			strlen(r->reason) + 1}};
}

void reply_send(int fd, const struct probe_error *error, const struct probe_report *report,
	const void *result, size_t result_bytes)
{
	struct header h = {.magic = REPLY_MAGIC, .report = *report};

	h.report.refusals = NULL;
	h.report.notes = NULL;
	h.report.note_count = 0;
	if (error) {
		h.code = error->code;
		h.err = error->err;
		h.message_length = strlen(error->message);
	}
	h.length = sizeof(h) + h.message_length + result_bytes;
	for (size_t i = 0; i < report->refusal_count; i++) {
		struct refusal r = describe(&report->refusals[i]);

		h.length += sizeof(r) + r.lengths[0] + r.lengths[1] + r.lengths[2] + r.lengths[3];
	}
	send_all(fd, &h, sizeof(h));
	if (error)
		send_all(fd, error->message, h.message_length);
	for (size_t i = 0; i < report->refusal_count; i++) {
		const struct probe_refusal *item = &report->refusals[i];
		struct refusal r = describe(item);

		send_all(fd, &r, sizeof(r));
		send_all(fd, item->provider, r.lengths[0]);
		send_all(fd, item->name, r.lengths[1]);
		send_all(fd, item->path, r.lengths[2]);
		send_all(fd, item->reason, r.lengths[3]);
	}
	send_all(fd, result, result_bytes);
}

/* ---- Receiving ---------------------------------------------------------------------- */

void reply_deinit(struct reply *reply)
{
	free(reply->bytes);
	*reply = (struct reply){0};
}

bool reply_read(struct reply *reply, int fd, struct probe_error **error_ret)
{
	ssize_t got;

	*error_ret = NULL;
	if (reply->room - reply->length < READ_BYTES) {
		size_t room = 2 * reply->room + READ_BYTES;
		char *bytes = realloc(reply->bytes, room);

		if (!bytes) {
			*error_ret = probe_error_no_memory();
			return false;
		}
		reply->bytes = bytes;
		reply->room = room;
	}
	got = read(fd, reply->bytes + reply->length, reply->room - reply->length);
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return true;
	if (got < 0 && errno == ECONNRESET) /* it died before it read the last answer */
		return false;
	if (got < 0)
		*error_ret = probe_error_system(errno, "cannot read what a copy of this process "
						       "has done");
	else
		reply->length += (size_t)got;
	return got > 0;
}

/* The next bytes; their total length has been checked. */
static const void *take(const char **at, size_t length)
{
	const void *bytes = *at;

	*at += length;
	return bytes;
}

static bool take_refusal(const char **at, struct probe_report *report)
{
	struct probe_refusal *to;
	struct refusal r;

	memcpy(&r, take(at, sizeof(r)), sizeof(r));
	if (!ARRAY_ROOM(report->refusals, report->refusal_count))
		return false;
	to = &report->refusals[report->refusal_count++];
	*to = (struct probe_refusal){.pc = r.pc, .named = r.named != 0};
	to->provider = strdup(take(at, r.lengths[0]));
	to->name = strdup(take(at, r.lengths[1]));
	to->path = strdup(take(at, r.lengths[2]));
	to->reason = strdup(take(at, r.lengths[3]));
	return to->provider && to->name && to->path && to->reason;
}

bool reply_take(const struct reply *reply, struct probe_error **error_ret,
	struct probe_report *report, void *result, size_t result_bytes)
{
	const char *at = reply->bytes, *message;
	struct header h;
	bool room = true;

	if (reply->length < sizeof(h))
		return false;
	memcpy(&h, take(&at, sizeof(h)), sizeof(h));
	if (h.magic != REPLY_MAGIC || h.length != reply->length)
		return false;
	message = take(&at, h.message_length);
	*error_ret = NULL;
	if (h.code)
		*error_ret = error_numbered(h.code, h.err, "%.*s", (int)h.message_length, message);
	report->probes += h.report.probes;
	report->sites += h.report.sites;
	for (size_t i = 0; i < PROBE_PLAN_COUNT; i++)
		report->plans[i] += h.report.plans[i];
	if (h.report.stop_ns > report->stop_ns)
		report->stop_ns = h.report.stop_ns;
	for (size_t i = 0; i < h.report.refusal_count && room; i++)
		room = take_refusal(&at, report);
	if (!room && !*error_ret)
		*error_ret = probe_error_no_memory();
	if (room && result_bytes)
		memcpy(result, take(&at, result_bytes), result_bytes);
	return true;
}
