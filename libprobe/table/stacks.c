/* SPDX-License-Identifier: MIT */
/*
 * Counts by call stack. Frames of a session are shared, so a stack is distinguished from
 * another by the pointers to its frames; what two processes have in common is
 * brought together by name, when it is printed (libprobe/output/).
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/table/stacks.h"

enum {
	BUCKETS_FIRST = 256,
	ENTRIES_MAX = 1 << 17 /* some 100 MiB at the very most */
};

struct entry {
	uint64_t hash;
	uint64_t count, before; /* all, and up to the mark */
	const char *provider, *name, *comm;
	enum probe_stack_end end;
	size_t frame_count;
	const struct probe_frame *frames[]; /* after them the names */
};

struct probe_stacks {
	struct entry **entries; /* in the order in which they came */
	size_t count;
	uint32_t *buckets; /* index + 1 of an entry; at most half of them are taken */
	size_t bucket_count;
	uint64_t left_out;
};

struct probe_error *probe_stacks_create(struct probe_stacks **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? NULL : probe_error_no_memory();
}

void probe_stacks_free(struct probe_stacks *stacks)
{
	if (!stacks)
		return;
	for (size_t i = 0; i < stacks->count; i++)
		free(stacks->entries[i]);
	free(stacks->entries);
	free(stacks->buckets);
	free(stacks);
}

/* ---- Finding ---------------------------------------------------------------------- */

/* What a hit is counted by. */
struct sought {
	const char *provider, *name, *comm;
	const struct probe_stack *stack;
	uint64_t hash;
};

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
	for (; text && *text; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t hash_of(const struct sought *sought)
{
	uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), sought->stack->end);

	hash = mix_text(mix_text(mix_text(hash, sought->provider), sought->name), sought->comm);
	for (size_t i = 0; i < sought->stack->count; i++)
		hash = mix(hash, (uintptr_t)sought->stack->frames[i]);
	return hash;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool is_it(const struct entry *entry, const struct sought *sought)
{
	const struct probe_stack *stack = sought->stack;

	return entry->hash == sought->hash && entry->frame_count == stack->count &&
	       entry->end == stack->end &&
	       (!stack->count || !memcmp(entry->frames, stack->frames,
					 stack->count * sizeof(stack->frames[0]))) &&
	       same_text(entry->comm, sought->comm) && same_text(entry->name, sought->name) &&
	       same_text(entry->provider, sought->provider);
}

/* The bucket of the entry, or the free one where it belongs. */
static uint32_t *find_bucket(const struct probe_stacks *stacks, const struct sought *sought)
{
	size_t at = (size_t)sought->hash & (stacks->bucket_count - 1);

	while (stacks->buckets[at] && !is_it(stacks->entries[stacks->buckets[at] - 1], sought))
		at = (at + 1) & (stacks->bucket_count - 1);
	return &stacks->buckets[at];
}

static bool make_room(struct probe_stacks *stacks)
{
	size_t count = stacks->bucket_count ? 2 * stacks->bucket_count : BUCKETS_FIRST;
	struct entry **entries;
	uint32_t *buckets;

	if (2 * (stacks->count + 1) <= stacks->bucket_count)
		return true;
	entries = reallocarray(stacks->entries, count / 2, sizeof(struct entry *));
	if (!entries)
		return false;
	stacks->entries = entries;
	buckets = calloc(count, sizeof(*buckets));
	if (!buckets)
		return false;
	for (size_t i = 0; i < stacks->count; i++) {
		size_t at = (size_t)entries[i]->hash & (count - 1);

		while (buckets[at])
			at = (at + 1) & (count - 1);
		buckets[at] = (uint32_t)(i + 1);
	}
	free(stacks->buckets);
	stacks->buckets = buckets;
	stacks->bucket_count = count;
	return true;
}

/* ---- Adding ----------------------------------------------------------------------- */

static size_t text_bytes(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static const char *place_text(char **at, const char *text)
{
	size_t bytes = text_bytes(text);
	char *placed = *at;

	if (!text)
		return NULL;
	memcpy(placed, text, bytes);
	*at += bytes;
	return placed;
}

static struct entry *make_entry(const struct sought *sought)
{
	const struct probe_stack *stack = sought->stack;
	size_t frames = stack->count * sizeof(stack->frames[0]);
	struct entry *entry = malloc(sizeof(*entry) + frames + text_bytes(sought->provider) +
				     text_bytes(sought->name) + text_bytes(sought->comm));
	char *at;

	if (!entry)
		return NULL;
	at = (char *)entry->frames + frames;
	*entry = (struct entry){
		.hash = sought->hash, .end = stack->end, .frame_count = stack->count};
	if (frames)
		memcpy(entry->frames, stack->frames, frames);
	entry->provider = place_text(&at, sought->provider);
	entry->name = place_text(&at, sought->name);
	entry->comm = place_text(&at, sought->comm);
	return entry;
}

struct probe_error *stacks_count(struct probe_stacks *stacks,
	const struct probe_session_probe *probe, const char *comm, const struct probe_stack *stack,
	uint64_t count, size_t *ret)
{
	struct sought sought = {probe->provider, probe->name, comm, stack, 0};
	uint32_t *bucket;

	*ret = SIZE_MAX;
	sought.hash = hash_of(&sought);
	if (!make_room(stacks))
		return probe_error_no_memory();
	bucket = find_bucket(stacks, &sought);
	if (!*bucket && stacks->count == ENTRIES_MAX) {
		stacks->left_out += count;
		return NULL;
	}
	if (!*bucket) {
		struct entry *entry = make_entry(&sought);

		if (!entry)
			return probe_error_no_memory();
		stacks->entries[stacks->count++] = entry;
		*bucket = (uint32_t)stacks->count;
	}
	stacks->entries[*bucket - 1]->count += count;
	*ret = *bucket - 1;
	return NULL;
}

struct probe_error *probe_stacks_add(struct probe_stacks *stacks,
	const struct probe_session_probe *probe, const char *comm, const struct probe_stack *stack,
	uint64_t count)
{
	size_t index;

	return stacks_count(stacks, probe, comm, stack, count, &index);
}

static struct probe_error *add_row(struct probe_stacks *stacks, struct probe_session *session,
	const struct probe_row *row, const char *comm)
{
	const struct probe_session_probe *probes;
	struct probe_stack stack;
	struct probe_error *error;
	size_t count;

	probes = probe_session_probes(session, &count);
	if (row->probe >= count || !row->count)
		return NULL;
	error = probe_session_stack(session, row, &stack);
	return error ? error
		     : probe_stacks_add(stacks, &probes[row->probe], comm, &stack, row->count);
}

struct probe_error *probe_stacks_add_session(
	struct probe_stacks *stacks, struct probe_session *session, const char *comm)
{
	struct probe_row *rows;
	size_t count;
	struct probe_error *error = probe_session_rows(session, &rows, &count);

	if (error)
		return error;
	for (size_t i = 0; i < count && !error; i++)
		error = add_row(stacks, session, &rows[i], comm);
	free(rows);
	return error;
}

void probe_stacks_clear(struct probe_stacks *stacks)
{
	stacks->left_out = 0;
	for (size_t i = 0; i < stacks->count; i++)
		stacks->entries[i]->count = 0;
}

void probe_stacks_mark(struct probe_stacks *stacks)
{
	for (size_t i = 0; i < stacks->count; i++)
		stacks->entries[i]->before = stacks->entries[i]->count;
}

uint64_t probe_stacks_left_out(const struct probe_stacks *stacks)
{
	return stacks->left_out;
}

/* ---- Reading ---------------------------------------------------------------------- */

/* Most hits first. */
static int compare_rows(const void *a, const void *b)
{
	const struct probe_stacks_row *left = a, *right = b;

	if (left->count != right->count)
		return left->count > right->count ? -1 : 1;
	return 0;
}

void stacks_sort(struct probe_stacks_row *rows, size_t count)
{
	qsort(rows, count, sizeof(*rows), compare_rows);
}

struct probe_stacks_row stacks_row(const struct probe_stacks *stacks, size_t index)
{
	const struct entry *entry = stacks->entries[index];

	return (struct probe_stacks_row){.provider = entry->provider,
		.name = entry->name,
		.comm = entry->comm,
		.stack = {entry->frames, entry->frame_count, entry->end},
		.count = entry->count};
}

struct probe_error *probe_stacks_rows(const struct probe_stacks *stacks, bool is_interval,
	struct probe_stacks_row **ret, size_t *count_ret)
{
	struct probe_stacks_row *rows = calloc(stacks->count + 1, sizeof(*rows));
	size_t count = 0;

	if (!rows)
		return probe_error_no_memory();
	for (size_t i = 0; i < stacks->count; i++) {
		const struct entry *entry = stacks->entries[i];
		uint64_t before = is_interval ? entry->before : 0;

		if (entry->count <= before)
			continue;
		rows[count] = stacks_row(stacks, i);
		rows[count++].count -= before;
	}
	stacks_sort(rows, count);
	*ret = rows;
	*count_ret = count;
	return NULL;
}
