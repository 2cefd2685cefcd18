/* SPDX-License-Identifier: MIT */
/*
 * The format of a reply:
 *
 *	struct head
 *	the result
 *	the error's message
 *	for each refusal: struct refusal, provider, name, path and reason
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/error.h"
#include "libprobe/self/helper/reply.h"

/* By their numbers. */
enum { PLANS = sizeof(((struct probe_report *)0)->plans) / sizeof(size_t) };

struct head {
	int32_t code, err; /* code 0: no error */
	uint64_t result_bytes, refusal_count;
	uint64_t probes, sites, left, stop_ns;
	uint64_t plans[PLANS];
};

struct refusal {
	uint64_t pc;
	uint64_t named;
};

/* ---- Sending ------------------------------------------------------------------------ */

static void add_refusal(struct buffer *to, const struct probe_refusal *from)
{
	struct refusal r = {.pc = from->pc, .named = from->named};

	buffer_bytes(to, &r, sizeof(r));
	message_add_text(to, from->provider);
	message_add_text(to, from->name);
	message_add_text(to, from->path);
	message_add_text(to, from->reason);
}

void reply_send(int socket, const struct probe_error *error, const struct probe_report *report,
	const void *result, size_t result_bytes)
{
	struct head h = {.code = error ? (int32_t)error->code : 0,
		.err = error ? error->err : 0,
		.result_bytes = result_bytes,
		.refusal_count = report->refusal_count,
		.probes = report->probes,
		.sites = report->sites,
		.left = report->left,
		.stop_ns = report->stop_ns};
	struct buffer b = {0};

	for (size_t i = 0; i < PLANS; i++)
		h.plans[i] = report->plans[i];
	buffer_bytes(&b, &h, sizeof(h));
	buffer_bytes(&b, result, result_bytes);
	message_add_text(&b, error ? error->message : "");
	for (size_t i = 0; i < report->refusal_count; i++)
		add_refusal(&b, &report->refusals[i]);
	(void)message_send(socket, MESSAGE_REPLY, &b);
	buffer_deinit(&b);
}

/* ---- Receiving ---------------------------------------------------------------------- */

/* False without memory. */
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

static void add_report(const struct head *h, struct probe_report *report)
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
	struct head h;
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
