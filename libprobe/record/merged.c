/* SPDX-License-Identifier: MIT */
/*
 * Two sources merged by time: records of ours and of other tools in one folder. Each has its next
 * event ready; an event is valid until its own source is asked for another.
 */
#include <stdlib.h>

#include "libprobe/record/reader.h"

struct half {
	const struct reader_ops *ops;
	void *source;
	bool ready; /* `event` is its next one */
	bool over;
	struct probe_event event;
};

struct merged {
	struct half halves[2];
	struct probe_error *error; /* of one half; the other one is read to its end first */
};

static void merged_close(void *data)
{
	struct merged *merged = data;

	for (size_t i = 0; i < 2; i++)
		merged->halves[i].ops->close(merged->halves[i].source);
	probe_error_free(merged->error);
	free(merged);
}

struct probe_error *reader_merged_open(
	const struct reader_ops *const ops[2], void *const sources[2], void **ret)
{
	struct merged *merged = calloc(1, sizeof(*merged));

	for (size_t i = 0; i < 2 && !merged; i++)
		ops[i]->close(sources[i]);
	if (!merged)
		return probe_error_no_memory();
	for (size_t i = 0; i < 2; i++)
		merged->halves[i] = (struct half){.ops = ops[i], .source = sources[i]};
	*ret = merged;
	return NULL;
}

static void make_ready(struct merged *merged, struct half *half)
{
	struct probe_error *error;
	bool there = false;

	if (half->ready || half->over)
		return;
	error = half->ops->next(half->source, &half->event, &there);
	half->ready = !error && there;
	half->over = !half->ready;
	merged->error = probe_error_first(merged->error, error);
}

static struct probe_error *merged_next(void *data, struct probe_event *ret, bool *there_ret)
{
	struct merged *merged = data;
	struct half *first = &merged->halves[0], *second = &merged->halves[1];
	struct probe_error *error;

	make_ready(merged, first);
	make_ready(merged, second);
	if (!first->ready || (second->ready && second->event.time_ns < first->event.time_ns))
		first = second;
	*there_ret = first->ready;
	if (first->ready) {
		first->ready = false;
		*ret = first->event;
		return NULL;
	}
	error = merged->error;
	merged->error = NULL;
	return error;
}

static uint64_t merged_read(void *data)
{
	const struct merged *merged = data;
	uint64_t bytes = 0;

	for (size_t i = 0; i < 2; i++)
		if (merged->halves[i].ops->read)
			bytes += merged->halves[i].ops->read(merged->halves[i].source);
	return bytes;
}

const struct reader_ops reader_merged = {
	.next = merged_next,
	.read = merged_read,
	.close = merged_close,
};
