/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "cli/trace/merge.h"
#include "libprobe/base/array.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/event.h"

enum { FULL_BYTES = 4 << 20 };

/* The hit follows it, as a packed event, of a span with its begin. */
struct entry {
	size_t target, bytes;
	size_t probe, begin_probe;
	struct probe_value filter; /* a number */
};
_Static_assert(sizeof(struct entry) % _Alignof(struct probe_event) == 0, "events are aligned");

struct place {
	uint64_t time_ns;
	size_t offset; /* of an entry: a later one is after the others */
};

struct merge {
	struct buffer entries; /* one after the other */
	struct place *places;
	size_t count;
};

struct merge *merge_create(void)
{
	return calloc(1, sizeof(struct merge));
}

void merge_free(struct merge *merge)
{
	if (!merge)
		return;
	buffer_deinit(&merge->entries);
	free(merge->places);
	free(merge);
}

static struct probe_event event_of(const struct probe_hit *hit)
{
	return (struct probe_event){
		.time_ns = hit->time_ns,
		.pid = hit->pid,
		.tid = hit->tid,
		.cpu = hit->cpu,
		.pc = hit->pc,
		.args = hit->args,
		.arg_count = hit->arg_count,
		.stack = hit->stack,
		.duration_ns = hit->duration_ns,
	};
}

static struct probe_hit hit_of(const struct probe_event *event, size_t probe)
{
	return (struct probe_hit){
		.time_ns = event->time_ns,
		.pid = event->pid,
		.tid = event->tid,
		.cpu = event->cpu,
		.probe = probe,
		.pc = event->pc,
		.args = event->args,
		.arg_count = event->arg_count,
		.stack = event->stack,
		.duration_ns = event->duration_ns,
	};
}

bool merge_add(struct merge *merge, size_t target, const struct probe_hit *hit)
{
	struct probe_event event = event_of(hit), begin;
	struct entry *entry;
	size_t bytes;

	if (hit->begin) {
		begin = event_of(hit->begin);
		event.begin = &begin;
	}
	bytes = event_packed_size(&event);
	entry = (void *)buffer_reserve(&merge->entries, sizeof(*entry) + bytes);
	if (!entry || !ARRAY_ROOM(merge->places, merge->count))
		return false;
	*entry = (struct entry){.target = target,
		.bytes = bytes,
		.probe = hit->probe,
		.begin_probe = hit->begin ? hit->begin->probe : 0,
		.filter = hit->filter};
	event_pack(&event, entry + 1);
	merge->places[merge->count++] = (struct place){hit->time_ns, merge->entries.length};
	merge->entries.length += sizeof(*entry) + bytes;
	return true;
}

bool merge_full(const struct merge *merge)
{
	return merge->entries.length >= FULL_BYTES;
}

static int place_compare(const void *a, const void *b)
{
	const struct place *left = a, *right = b;

	if (left->time_ns != right->time_ns)
		return left->time_ns < right->time_ns ? -1 : 1;
	return left->offset < right->offset ? -1 : left->offset > right->offset;
}

void merge_drain(struct merge *merge,
	bool (*visit)(size_t target, const struct probe_hit *hit, void *data), void *data)
{
	bool more = true;

	if (merge->count)
		qsort(merge->places, merge->count, sizeof(*merge->places), place_compare);
	for (size_t i = 0; i < merge->count && more; i++) {
		struct entry *entry = (void *)(merge->entries.data + merge->places[i].offset);
		const struct probe_event *event = event_unpack(entry + 1, entry->bytes);
		struct probe_hit hit = hit_of(event, entry->probe), begin;

		hit.filter = entry->filter;
		if (event->begin) {
			begin = hit_of(event->begin, entry->begin_probe);
			hit.begin = &begin;
		}
		more = visit(entry->target, &hit, data);
	}
	merge->entries.length = merge->count = 0;
}
