/* SPDX-License-Identifier: MIT */
/*
 * Counts by call stack. A frame is copied once, and stacks are compared by pointers to copies, so a
 * table borrows nothing from a session.
 *
 * A frame is the same in two processes at the same offset of the same file, so programs that start
 * again and again do not fill the table. Frames of one function are joined by name when they are
 * printed (libprobe/output/).
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/event.h"
#include "libprobe/base/hash.h"
#include "libprobe/session/session.h"
#include "probe/heap.h"

/* ==== Stacks ================================================================================== */

enum {
	BUCKETS_FIRST = 256,
	ENTRIES_MAX = 1 << 17, /* at most about 100 MiB */
	FRAMES_MAX = 1 << 17   /* about 30 MiB with names of 150 bytes */
};

/* A copy of a frame, which owns its texts. */
struct known_frame {
	uint64_t hash;
	struct probe_frame frame;
	char text[];
};

struct entry {
	uint64_t hash;
	uint64_t count, before; /* all hits; hits up to the mark */
	uint64_t kept;		/* part of count that stays when the table is cleared */
	const char *provider, *name, *comm;
	enum probe_stack_end end;
	size_t frame_count;
	const struct probe_frame *frames[]; /* after the frames: the bytes of the names */
};

struct probe_stacks {
	struct entry **entries; /* in the order of their arrival */
	size_t count;
	uint32_t *buckets; /* hash table of entry indexes + 1; at most half full */
	size_t bucket_count;
	struct known_frame **frames; /* hash table of frames; at most half full */
	size_t frame_count, frame_buckets;
	uint64_t left_out, kept_left_out;
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
	for (size_t i = 0; i < stacks->frame_buckets; i++)
		free(stacks->frames[i]);
	free(stacks->entries);
	free(stacks->buckets);
	free(stacks->frames);
	free(stacks);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

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

/* ---- Frames ------------------------------------------------------------------------- */

/* Code outside files has only its address, so processes share no such frames. */
static uint64_t address_of(const struct probe_frame *frame)
{
	return frame->module ? 0 : frame->ip;
}

/* Numbers distinguish most frames; texts are compared for the rest. */
static uint64_t hash_frame(const struct probe_frame *frame)
{
	uint64_t hash = hash_word(hash_word(1, address_of(frame)), frame->offset);

	return hash_word(hash_word(hash, frame->function), (uint64_t)frame->line);
}

static bool same_frame(const struct probe_frame *a, const struct probe_frame *b)
{
	return a->offset == b->offset && a->function == b->function && a->line == b->line &&
	       address_of(a) == address_of(b) && same_text(a->symbol, b->symbol) &&
	       same_text(a->module, b->module) && same_text(a->file, b->file) &&
	       same_text(a->build_id, b->build_id);
}

static struct known_frame *copy_frame(const struct probe_frame *frame, uint64_t hash)
{
	struct known_frame *known =
		malloc(sizeof(*known) + text_bytes(frame->module) + text_bytes(frame->symbol) +
			text_bytes(frame->file) + text_bytes(frame->build_id));
	char *at;

	if (!known)
		return NULL;
	at = known->text;
	known->hash = hash;
	known->frame = *frame;
	known->frame.module = place_text(&at, frame->module);
	known->frame.symbol = place_text(&at, frame->symbol);
	known->frame.file = place_text(&at, frame->file);
	known->frame.build_id = place_text(&at, frame->build_id);
	return known;
}

/* Finds a frame's bucket, or the free one for it; for NULL, a free one. */
static struct known_frame **frame_bucket(
	struct known_frame **buckets, size_t count, uint64_t hash, const struct probe_frame *frame)
{
	size_t at = (size_t)hash & (count - 1);

	while (buckets[at] &&
		!(frame && buckets[at]->hash == hash && same_frame(&buckets[at]->frame, frame)))
		at = (at + 1) & (count - 1);
	return &buckets[at];
}

static bool make_frame_room(struct probe_stacks *stacks)
{
	size_t count = stacks->frame_buckets ? 2 * stacks->frame_buckets : BUCKETS_FIRST;
	struct known_frame **buckets;

	if (2 * (stacks->frame_count + 1) <= stacks->frame_buckets)
		return true;
	buckets = calloc(count, sizeof(struct known_frame *));
	if (!buckets)
		return false;
	for (size_t i = 0; i < stacks->frame_buckets; i++)
		if (stacks->frames[i])
			*frame_bucket(buckets, count, stacks->frames[i]->hash, NULL) =
				stacks->frames[i];
	free(stacks->frames);
	stacks->frames = buckets;
	stacks->frame_buckets = count;
	return true;
}

/* *ret is a frame's copy; NULL without room. */
static struct probe_error *know_frame(struct probe_stacks *stacks, const struct probe_frame *frame,
	const struct probe_frame **ret)
{
	uint64_t hash = hash_frame(frame);
	struct known_frame **bucket;

	*ret = NULL;
	if (!make_frame_room(stacks))
		return probe_error_no_memory();
	bucket = frame_bucket(stacks->frames, stacks->frame_buckets, hash, frame);
	if (!*bucket && stacks->frame_count == FRAMES_MAX)
		return NULL;
	if (!*bucket) {
		*bucket = copy_frame(frame, hash);
		if (!*bucket)
			return probe_error_no_memory();
		stacks->frame_count++;
	}
	*ret = &(*bucket)->frame;
	return NULL;
}

/* Replaces a stack's frames by copies. *known_ret: there is room for all. */
static struct probe_error *know_stack(struct probe_stacks *stacks, struct probe_stack *stack,
	const struct probe_frame *frames[PROBE_FRAMES_MAX], bool *known_ret)
{
	struct probe_error *error = NULL;

	*known_ret = true;
	for (size_t i = 0; i < stack->count && *known_ret && !error; i++) {
		error = know_frame(stacks, stack->frames[i], &frames[i]);
		*known_ret = frames[i] != NULL;
	}
	stack->frames = frames;
	return error;
}

/* ---- Finding ---------------------------------------------------------------------- */

/* How a hit is counted. */
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

/* Returns an entry's bucket, or the free one for it. */
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

/* Counts a stack of copies. *ret as in stacks_count(). */
static struct probe_error *count_known(
	struct probe_stacks *stacks, const struct sought *sought, uint64_t count, size_t *ret)
{
	uint32_t *bucket;

	if (!make_room(stacks))
		return probe_error_no_memory();
	bucket = find_bucket(stacks, sought);
	if (!*bucket && stacks->count == ENTRIES_MAX) {
		stacks->left_out += count;
		return NULL;
	}
	if (!*bucket) {
		struct entry *entry = make_entry(sought);

		if (!entry)
			return probe_error_no_memory();
		stacks->entries[stacks->count++] = entry;
		*bucket = (uint32_t)stacks->count;
	}
	stacks->entries[*bucket - 1]->count += count;
	*ret = *bucket - 1;
	return NULL;
}

/*
 * Like probe_stacks_add(). *ret is the stack's index, from 0 in order of arrival, which never
 * changes; SIZE_MAX without room.
 */
static struct probe_error *stacks_count(struct probe_stacks *stacks,
	const struct probe_session_probe *probe, const char *comm, const struct probe_stack *stack,
	uint64_t count, size_t *ret)
{
	const struct probe_frame *frames[PROBE_FRAMES_MAX];
	struct probe_stack known = event_cut_stack(stack);
	struct sought sought = {probe->provider, probe->name, comm, &known, 0};
	bool has_room;
	struct probe_error *error = know_stack(stacks, &known, frames, &has_room);

	*ret = SIZE_MAX;
	if (error)
		return error;
	if (!has_room) {
		stacks->left_out += count;
		return NULL;
	}
	sought.hash = hash_of(&sought);
	return count_known(stacks, &sought, count, ret);
}

struct probe_error *probe_stacks_add(struct probe_stacks *stacks,
	const struct probe_session_probe *probe, const char *comm, const struct probe_stack *stack,
	uint64_t count)
{
	size_t index;

	return stacks_count(stacks, probe, comm, stack, count, &index);
}

static void keep_count(struct probe_stacks *stacks, size_t index, uint64_t count)
{
	if (index == SIZE_MAX)
		stacks->kept_left_out += count;
	else
		stacks->entries[index]->kept += count;
}

static struct probe_error *add_row(struct probe_stacks *stacks, struct probe_session *session,
	const struct probe_row *row, const char *comm, bool keep)
{
	const struct probe_session_probe *probes;
	struct probe_stack stack;
	struct probe_error *error;
	size_t count, index;

	probes = probe_session_probes(session, &count);
	if (row->probe >= count || !row->count)
		return NULL;
	error = probe_session_stack(session, row, &stack);
	if (!error)
		error = stacks_count(stacks, &probes[row->probe], comm, &stack, row->count, &index);
	if (!error && keep)
		keep_count(stacks, index, row->count);
	return error;
}

static struct probe_error *add_session(
	struct probe_stacks *stacks, struct probe_session *session, const char *comm, bool keep)
{
	struct probe_row *rows;
	size_t count;
	struct probe_error *error = probe_session_rows(session, &rows, &count);

	if (error)
		return error;
	for (size_t i = 0; i < count && !error; i++)
		error = add_row(stacks, session, &rows[i], comm, keep);
	free(rows);
	return error;
}

struct probe_error *probe_stacks_add_session(
	struct probe_stacks *stacks, struct probe_session *session, const char *comm)
{
	return add_session(stacks, session, comm, false);
}

struct probe_error *probe_stacks_keep_session(
	struct probe_stacks *stacks, struct probe_session *session, const char *comm)
{
	return add_session(stacks, session, comm, true);
}

void probe_stacks_clear(struct probe_stacks *stacks)
{
	stacks->left_out = stacks->kept_left_out;
	for (size_t i = 0; i < stacks->count; i++)
		stacks->entries[i]->count = stacks->entries[i]->kept;
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

static int compare_rows(const void *a, const void *b)
{
	const struct probe_stacks_row *left = a, *right = b;

	if (left->count != right->count)
		return left->count > right->count ? -1 : 1;
	return 0;
}

/* Sorts rows, the greatest count first. */
static void stacks_sort(struct probe_stacks_row *rows, size_t count)
{
	qsort(rows, count, sizeof(*rows), compare_rows);
}

static struct probe_stacks_row stacks_row(const struct probe_stacks *stacks, size_t index)
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

/* ==== Heap ==================================================================================== */

/*
 * Memory by call stack.
 *
 * 	stacks   (libprobe/session/stacks.c): each stack has an index
 * 	figures  [index] -> bytes and allocations, all and live
 * 	blocks   (session, process, pointer) -> index, bytes: the live blocks
 *
 * A free subtracts its block from the stack of the allocation. Blocks are in a hash table with open
 * addressing, at most half full. A removed block leaves no mark: later blocks move up.
 */

enum {
	BLOCKS_FIRST = 1024,
	BLOCKS_MAX = 1 << 22 /* at most about 320 MiB */
};

struct figures {
	uint64_t total_bytes, total_count, live_bytes, live_count;
	uint64_t bytes_before, count_before; /* part of the total before the mark */
};

struct block {
	const struct probe_session *session; /* NULL if the place is free */
	uint64_t pointer, bytes;
	pid_t pid;
	uint32_t stack;
};

struct probe_heap {
	struct probe_stacks *stacks;
	struct figures *figures;
	size_t figures_count, figures_room;
	struct block *blocks;
	size_t blocks_count, blocks_room; /* a power of two */
	struct probe_heap_doubts doubts;
};

struct probe_error *probe_heap_create(struct probe_heap **ret)
{
	struct probe_heap *heap = calloc(1, sizeof(*heap));
	struct probe_error *error;

	if (!heap)
		return probe_error_no_memory();
	error = probe_stacks_create(&heap->stacks);
	if (error) {
		free(heap);
		return error;
	}
	*ret = heap;
	return NULL;
}

void probe_heap_free(struct probe_heap *heap)
{
	if (!heap)
		return;
	probe_stacks_free(heap->stacks);
	free(heap->figures);
	free(heap->blocks);
	free(heap);
}

/* ---- Blocks ------------------------------------------------------------------------- */

static size_t home_of(const struct probe_heap *heap, const struct block *block)
{
	uint64_t hash = (block->pointer >> 4) * UINT64_C(0x9e3779b97f4a7c15);

	hash ^= (uintptr_t)block->session >> 4 ^ (uint64_t)block->pid << 20 ^ hash >> 29;
	return (size_t)hash & (heap->blocks_room - 1);
}

static bool same_block(const struct block *a, const struct block *b)
{
	return a->pointer == b->pointer && a->pid == b->pid && a->session == b->session;
}

/* Returns a block's place, or the free one for it; NULL without a table. */
static struct block *find_block(const struct probe_heap *heap, const struct block *wanted)
{
	size_t at;

	if (!heap->blocks_room)
		return NULL;
	at = home_of(heap, wanted);
	while (heap->blocks[at].session && !same_block(&heap->blocks[at], wanted))
		at = (at + 1) & (heap->blocks_room - 1);
	return &heap->blocks[at];
}

static bool heap_make_room(struct probe_heap *heap)
{
	struct probe_heap wider = *heap;

	if (2 * (heap->blocks_count + 1) <= heap->blocks_room)
		return true;
	wider.blocks_room = heap->blocks_room ? 2 * heap->blocks_room : BLOCKS_FIRST;
	wider.blocks = calloc(wider.blocks_room, sizeof(*wider.blocks));
	if (!wider.blocks)
		return false;
	for (size_t i = 0; i < heap->blocks_room; i++)
		if (heap->blocks[i].session)
			*find_block(&wider, &heap->blocks[i]) = heap->blocks[i];
	free(heap->blocks);
	*heap = wider;
	return true;
}

/* Moves up later blocks that may stand in the hole of a removed one. */
static void close_hole(struct probe_heap *heap, size_t hole)
{
	size_t mask = heap->blocks_room - 1;

	for (size_t at = (hole + 1) & mask; heap->blocks[at].session; at = (at + 1) & mask) {
		size_t home = home_of(heap, &heap->blocks[at]);

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		heap->blocks[hole] = heap->blocks[at];
		hole = at;
	}
	heap->blocks[hole] = (struct block){0};
}

/* Removes a block that is no longer live. */
static void forget(struct probe_heap *heap, struct block *block)
{
	struct figures *figures = &heap->figures[block->stack];

	figures->live_bytes -= block->bytes;
	figures->live_count--;
	heap->blocks_count--;
	close_hole(heap, (size_t)(block - heap->blocks));
}

static bool forget_old(struct probe_heap *heap, const struct block *wanted)
{
	struct block *old = find_block(heap, wanted);

	if (!old || !old->session)
		return false;
	forget(heap, old);
	return true;
}

/* ---- Hits --------------------------------------------------------------------------- */

/* Takes an argument as an unsigned number; false if it is none. */
static bool take_number(const struct probe_hit *hit, size_t index, uint64_t *ret)
{
	if (index >= hit->arg_count || (hit->args[index].kind != PROBE_VALUE_SIGNED &&
					       hit->args[index].kind != PROBE_VALUE_UNSIGNED &&
					       hit->args[index].kind != PROBE_VALUE_TEXT))
		return false;
	*ret = hit->args[index].u;
	return true;
}

static bool figures_grow(struct probe_heap *heap, size_t index)
{
	size_t room = heap->figures_room ? heap->figures_room : 64;
	struct figures *figures;

	while (room <= index)
		room *= 2;
	if (room != heap->figures_room) {
		figures = reallocarray(heap->figures, room, sizeof(*figures));
		if (!figures)
			return false;
		heap->figures = figures;
		heap->figures_room = room;
	}
	while (heap->figures_count <= index)
		heap->figures[heap->figures_count++] = (struct figures){0};
	return true;
}

/* Adds a live block, if there is room. */
static struct probe_error *remember(struct probe_heap *heap, const struct block *block)
{
	struct figures *figures = &heap->figures[block->stack];

	if (heap->blocks_count == BLOCKS_MAX) {
		heap->doubts.untracked++;
		return NULL;
	}
	if (!heap_make_room(heap))
		return probe_error_no_memory();
	*find_block(heap, block) = *block;
	heap->blocks_count++;
	figures->live_bytes += block->bytes;
	figures->live_count++;
	return NULL;
}

static struct probe_error *allocate(struct probe_heap *heap, struct block *block,
	const struct probe_session_probe *probe, const struct probe_hit *hit, const char *comm)
{
	static const struct probe_stack unknown = {.end = PROBE_STACK_LOST};
	struct probe_error *error;
	uint64_t weight;
	size_t index;

	if (!take_number(hit, 1, &block->bytes)) {
		heap->doubts.unreadable++;
		return NULL;
	}
	if (take_number(hit, 2, &weight))
		block->bytes = weight;
	heap->doubts.unfreed += forget_old(heap, block);
	error = stacks_count(
		heap->stacks, probe, comm, hit->stack ? hit->stack : &unknown, 1, &index);
	if (error)
		return error;
	if (index == SIZE_MAX) {
		heap->doubts.left_out++;
		return NULL;
	}
	if (!figures_grow(heap, index))
		return probe_error_no_memory();
	block->stack = (uint32_t)index;
	heap->figures[index].total_bytes += block->bytes;
	heap->figures[index].total_count++;
	return remember(heap, block);
}

struct probe_error *probe_heap_add(struct probe_heap *heap, const struct probe_session *session,
	const struct probe_session_probe *probe, const struct probe_hit *hit, const char *comm)
{
	struct block block = {.session = session, .pid = hit->pid};

	if (!take_number(hit, 0, &block.pointer)) {
		heap->doubts.unreadable++;
		return NULL;
	}
	if (!block.pointer)
		return NULL;
	if (probe->role == PROBE_ROLE_BEGIN)
		return allocate(heap, &block, probe, hit, comm);
	heap->doubts.unknown_frees += !forget_old(heap, &block);
	return NULL;
}

void probe_heap_forget(struct probe_heap *heap, const struct probe_session *session)
{
	for (size_t i = 0; i < heap->blocks_room; i++)
		/* close_hole() may have moved another block of the session here. */
		while (heap->blocks[i].session == session) {
			heap->blocks_count--;
			close_hole(heap, i);
		}
}

/* ---- Reading ------------------------------------------------------------------------ */

void probe_heap_mark(struct probe_heap *heap)
{
	for (size_t i = 0; i < heap->figures_count; i++) {
		heap->figures[i].bytes_before = heap->figures[i].total_bytes;
		heap->figures[i].count_before = heap->figures[i].total_count;
	}
}

struct probe_error *probe_heap_rows(const struct probe_heap *heap, bool live, bool is_interval,
	struct probe_stacks_row **ret, size_t *count_ret)
{
	struct probe_stacks_row *rows = calloc(heap->figures_count + 1, sizeof(*rows));
	size_t count = 0;

	if (!rows)
		return probe_error_no_memory();
	for (size_t i = 0; i < heap->figures_count; i++) {
		const struct figures *figures = &heap->figures[i];
		struct probe_stacks_row row = stacks_row(heap->stacks, i);

		row.is_heap = true;
		row.total_bytes = figures->total_bytes - (is_interval ? figures->bytes_before : 0);
		row.total_count = figures->total_count - (is_interval ? figures->count_before : 0);
		row.live_bytes = figures->live_bytes;
		row.live_count = figures->live_count;
		row.count = live ? row.live_bytes : row.total_bytes;
		if (row.total_count || row.live_count)
			rows[count++] = row;
	}
	stacks_sort(rows, count);
	*ret = rows;
	*count_ret = count;
	return NULL;
}

struct probe_heap_doubts probe_heap_doubts(const struct probe_heap *heap)
{
	return heap->doubts;
}
