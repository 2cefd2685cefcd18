/* SPDX-License-Identifier: MIT */
/* Messages for a collector, one after the other. */
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/output/output.h"

enum { SPANS_MAX = 512, SPANS_BYTES = 1 << 20 };

struct probe_error *probe_otlp_open(
	const char *url, const char *headers, int trace_arg, struct probe_otlp **ret)
{
	struct probe_otlp *otlp = calloc(1, sizeof(*otlp));
	struct probe_error *error;

	if (!otlp)
		return probe_error_no_memory();
	otlp->trace_arg = trace_arg;
	/* Others may choose ids at the same time. */
	otlp->random = clock_now_ns();
	if (getrandom(&otlp->random, sizeof(otlp->random), GRND_NONBLOCK) < 0)
		otlp->random ^= (uint64_t)getpid() << 32;
	error = http_client_open(url, headers, &otlp->http);
	if (error) {
		free(otlp);
		return error;
	}
	*ret = otlp;
	return NULL;
}

void probe_otlp_close(struct probe_otlp *otlp)
{
	if (!otlp)
		return;
	http_client_close(otlp->http);
	buffer_deinit(&otlp->spans.out);
	free(otlp);
}

/* Queues what a buffer holds, and empties it; false without memory. */
static bool post(struct probe_otlp *otlp, struct buffer *out, const struct http_message *message)
{
	struct http_message its = *message;
	bool done = !out->no_memory;

	if (done) {
		its.body = out->data;
		its.length = out->length;
		out->data = NULL;
		http_client_post(otlp->http, &its);
	}
	buffer_deinit(out);
	return done;
}

struct probe_error *probe_otlp_metrics(struct probe_otlp *otlp, const struct probe_metrics *metrics)
{
	struct http_message message = {
		.kind = OTLP_POINTS, .path = "/v1/metrics", .rejected = "\"rejectedDataPoints\""};
	struct buffer out;

	if (!buffer_init(&out))
		return probe_error_no_memory();
	message.items = otlp_write_points(&out, metrics, clock_now_ns());
	return post(otlp, &out, &message) ? NULL : probe_error_no_memory();
}

void probe_otlp_span(struct probe_otlp *otlp, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *program)
{
	struct otlp_batch *batch = &otlp->spans;
	struct otlp_ids ids;

	if (!batch->count && !buffer_init(&batch->out)) {
		otlp->lost_spans++;
		return;
	}
	otlp_ids_of(otlp, hit, &ids);
	otlp_write_span(batch, hit, begin, end, program ? program : "unknown", &ids);
	if (batch->count >= SPANS_MAX || batch->out.length >= SPANS_BYTES)
		probe_otlp_flush(otlp);
}

void probe_otlp_flush(struct probe_otlp *otlp)
{
	struct otlp_batch *batch = &otlp->spans;
	const struct http_message message = {.kind = OTLP_SPANS,
		.path = "/v1/traces",
		.rejected = "\"rejectedSpans\"",
		.items = batch->count};

	if (!batch->count)
		return;
	otlp_end_spans(batch);
	if (!post(otlp, &batch->out, &message))
		otlp->lost_spans += batch->count;
	batch->count = 0;
}

int probe_otlp_fd(const struct probe_otlp *otlp)
{
	return http_client_fd(otlp->http);
}

uint64_t probe_otlp_due_ns(const struct probe_otlp *otlp)
{
	return http_client_due_ns(otlp->http);
}

void probe_otlp_run(struct probe_otlp *otlp)
{
	http_client_run(otlp->http);
}

void probe_otlp_give_up(struct probe_otlp *otlp)
{
	probe_otlp_flush(otlp);
	http_client_give_up(otlp->http);
}

bool probe_otlp_is_busy(const struct probe_otlp *otlp)
{
	return otlp->spans.count || http_client_is_busy(otlp->http);
}

struct probe_otlp_sent probe_otlp_sent(const struct probe_otlp *otlp)
{
	struct http_sent points = http_client_sent(otlp->http, OTLP_POINTS);
	struct http_sent spans = http_client_sent(otlp->http, OTLP_SPANS);

	return (struct probe_otlp_sent){.spans = spans.done,
		.points = points.done,
		.lost_spans = spans.lost + otlp->lost_spans,
		.lost_points = points.lost,
		.why = http_client_why(otlp->http)};
}
