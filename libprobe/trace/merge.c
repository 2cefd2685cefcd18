/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/event.h"
#include "libprobe/trace/trace.h"

/* Memory for waiting hits: the targets share FULL_BYTES; each has at least SHARE_BYTES. */
enum { FULL_BYTES = 4 << 20, SHARE_BYTES = 64 << 10 };

/* The head of a waiting hit. A packed event follows; that of a span includes its start event. */
struct entry {
	size_t target, bytes;
	size_t probe, begin_probe;
	struct probe_value filter; /* result of the hit's filter; always a number */
};
_Static_assert(sizeof(struct entry) % _Alignof(struct probe_event) == 0, "events are aligned");

struct place {
	uint64_t time_ns;
	size_t offset; /* offset of the entry; an entry that was added later has a higher offset */
};

/* The waiting hits of one target. */
struct source {
	size_t bytes;
	uint64_t most_ns; /* time of the latest hit */
};

struct merge {
	struct buffer entries; /* all entries, one after the other */
	struct place *places;
	size_t count;
	struct source *sources;
	size_t source_count;
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
	free(merge->sources);
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
		.frame = hit->frame,
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
		.frame = event->frame,
	};
}

static struct source *source_of(struct merge *merge, size_t target)
{
	while (merge->source_count <= target) {
		if (!ARRAY_ROOM(merge->sources, merge->source_count))
			return NULL;
		merge->sources[merge->source_count++] = (struct source){0};
	}
	return &merge->sources[target];
}

/* Appends an entry of `bytes` bytes for the caller to fill. Returns NULL on lack of memory. */
static struct entry *append(struct merge *merge, size_t target, uint64_t time_ns, size_t bytes)
{
	struct source *source = source_of(merge, target);
	struct entry *entry = source ? (void *)buffer_reserve(&merge->entries, bytes) : NULL;

	if (!entry || !ARRAY_ROOM(merge->places, merge->count))
		return NULL;
	merge->places[merge->count++] = (struct place){time_ns, merge->entries.length};
	merge->entries.length += bytes;
	source->bytes += bytes;
	if (time_ns > source->most_ns)
		source->most_ns = time_ns;
	return entry;
}

bool merge_add(struct merge *merge, size_t target, const struct probe_hit *hit, const char *comm)
{
	struct probe_event event = event_of(hit), begin;
	struct entry *entry;
	size_t bytes;

	event.comm = comm;
	if (hit->begin) {
		begin = event_of(hit->begin);
		event.begin = &begin;
	}
	bytes = event_packed_size(&event);
	entry = append(merge, target, event.time_ns, sizeof(*entry) + bytes);
	if (!entry)
		return false;
	*entry = (struct entry){.target = target,
		.bytes = bytes,
		.probe = hit->probe,
		.begin_probe = hit->begin ? hit->begin->probe : 0,
		.filter = hit->filter};
	event_pack(&event, entry + 1);
	return true;
}

static struct entry *entry_at(const struct merge *merge, size_t index)
{
	return (void *)(merge->entries.data + merge->places[index].offset);
}

bool merge_add_all(struct merge *merge, size_t target, const struct merge *from)
{
	for (size_t i = 0; i < from->count; i++) {
		const struct entry *entry = entry_at(from, i);
		size_t bytes = sizeof(*entry) + entry->bytes;
		struct entry *copy = append(merge, target, from->places[i].time_ns, bytes);

		if (!copy)
			return false;
		memcpy(copy, entry, bytes);
		copy->target = target;
	}
	return true;
}

size_t merge_bytes(const struct merge *merge)
{
	return merge->entries.length;
}

static bool is_full(const struct merge *merge, const struct source *source)
{
	size_t share = FULL_BYTES / merge->source_count;

	return source->bytes >= (share > SHARE_BYTES ? share : SHARE_BYTES);
}

bool merge_full(const struct merge *merge, size_t target)
{
	return target < merge->source_count && is_full(merge, &merge->sources[target]);
}

bool merge_holds(const struct merge *merge, size_t target)
{
	return target < merge->source_count && merge->sources[target].bytes;
}

bool merge_is_empty(const struct merge *merge)
{
	return merge->count == 0;
}

uint64_t merge_known_ns(const struct merge *merge)
{
	uint64_t known_ns = UINT64_MAX;

	for (size_t i = 0; i < merge->source_count; i++)
		if (is_full(merge, &merge->sources[i]) && merge->sources[i].most_ns < known_ns)
			known_ns = merge->sources[i].most_ns;
	return known_ns;
}

static int place_compare(const void *a, const void *b)
{
	const struct place *left = a, *right = b;

	return ORDER(left->time_ns, right->time_ns) ?: ORDER(left->offset, right->offset);
}

/* Drops the places before `first`, and moves the others to the start of the arrays. */
static void keep_from(struct merge *merge, size_t first)
{
	struct place *places = merge->places + first;
	size_t count = merge->count - first;

	merge->entries.length = 0;
	for (size_t i = 0; i < merge->source_count; i++)
		merge->sources[i].bytes = merge->sources[i].most_ns = 0;
	ARRAY_SORT(places, count, offset);
	for (size_t i = 0; i < count; i++) {
		struct entry *entry = entry_at(merge, first + i);
		struct source *source = &merge->sources[entry->target];
		size_t bytes = sizeof(*entry) + entry->bytes;

		source->bytes += bytes;
		if (places[i].time_ns > source->most_ns)
			source->most_ns = places[i].time_ns;
		memmove(merge->entries.data + merge->entries.length, entry, bytes);
		merge->places[i] = (struct place){places[i].time_ns, merge->entries.length};
		merge->entries.length += bytes;
	}
	merge->count = count;
}

void merge_remove(struct merge *merge, size_t target)
{
	if (target >= merge->source_count)
		return;
	for (size_t i = 0; i < merge->count; i++) {
		struct entry *entry = entry_at(merge, i);

		entry->target -= entry->target > target;
	}
	merge->source_count--;
	memmove(merge->sources + target, merge->sources + target + 1,
		(merge->source_count - target) * sizeof(*merge->sources));
}

static bool visit_entry(struct entry *entry, merge_visit *visit, void *data)
{
	const struct probe_event *event = event_unpack(entry + 1, entry->bytes);
	struct probe_hit hit = hit_of(event, entry->probe), begin;

	hit.filter = entry->filter;
	if (event->begin) {
		begin = hit_of(event->begin, entry->begin_probe);
		hit.begin = &begin;
	}
	return visit(entry->target, &hit, event->comm, data);
}

void merge_drain(struct merge *merge, uint64_t until_ns, merge_visit *visit, void *data)
{
	bool more = true;
	size_t i;

	if (merge->count)
		qsort(merge->places, merge->count, sizeof(*merge->places), place_compare);
	for (i = 0; i < merge->count && more && merge->places[i].time_ns <= until_ns; i++)
		more = visit_entry(entry_at(merge, i), visit, data);
	keep_from(merge, more ? i : merge->count);
}

size_t merge_trim(struct merge *merge, size_t bytes)
{
	size_t left = merge->entries.length, i = 0;

	if (left <= bytes)
		return 0;
	qsort(merge->places, merge->count, sizeof(*merge->places), place_compare);
	for (; i < merge->count && left > bytes; i++)
		left -= sizeof(struct entry) + entry_at(merge, i)->bytes;
	keep_from(merge, i);
	return i;
}
