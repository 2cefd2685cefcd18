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

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/event.h"
#include "libprobe/session/session.h"
#include "probe/heap.h"

/* ==== Stacks ================================================================================== */

enum {
	ENTRIES_MAX = 1 << 17, /* at most about 100 MiB */
	FRAMES_MAX = 1 << 17   /* about 30 MiB with names of 150 bytes */
};

/* The names and frames are in the map's key. */
struct entry {
	size_t index;
	uint64_t count, before; /* all hits; hits up to the mark */
	uint64_t kept;		/* part of count that stays when the table is cleared */
	const char *provider, *name, *comm;
	struct probe_stack stack;
};

struct probe_stacks {
	struct map by_stack;	/* struct entry */
	struct entry **entries; /* in the order of their arrival; owned by the map */
	size_t count;
	struct map frames; /* struct probe_frame, whose texts are in the key */
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
	free(stacks->entries);
	map_clear(&stacks->by_stack);
	map_clear(&stacks->frames);
	free(stacks);
}

/* Returns the copy of a text that stands at *at, and moves *at behind it. */
static const char *next_text(const char **at, const char *text)
{
	const char *copy = *at;

	if (!text)
		return NULL;
	*at += strlen(text) + 1;
	return copy;
}

/* ---- Frames ------------------------------------------------------------------------- */

/* Sets *ret to the copy of a frame; NULL if there is no room for another. */
static struct probe_error *know_frame(struct probe_stacks *stacks, const struct probe_frame *frame,
	const struct probe_frame **ret)
{
	/* Code outside files has only its address, so processes share no such frames. */
	const uint64_t numbers[] = {frame->module ? 0 : frame->ip, frame->offset, frame->function,
		(uint64_t)frame->line, frame->symbol != NULL, frame->module != NULL,
		frame->file != NULL};
	const struct map_part key[] = {MAP_OBJECT(numbers), map_text(frame->symbol),
		map_text(frame->module), map_text(frame->file), map_text(frame->build_id)};
	const size_t parts = sizeof(key) / sizeof(key[0]);
	struct probe_frame *known = map_find(&stacks->frames, key, parts);
	const char *at;

	*ret = known;
	if (known || stacks->frames.count == FRAMES_MAX)
		return NULL;
	known = map_add(&stacks->frames, sizeof(*known), key, parts);
	if (!known)
		return probe_error_no_memory();
	at = (const char *)map_key(known) + sizeof(numbers);
	*known = *frame;
	known->symbol = next_text(&at, frame->symbol);
	known->module = next_text(&at, frame->module);
	known->file = next_text(&at, frame->file);
	known->build_id = next_text(&at, frame->build_id);
	*ret = known;
	return NULL;
}

/* ---- Adding ----------------------------------------------------------------------- */

/* Finds or adds the entry of a stack whose frames are copies; *ret is NULL if there is no room. */
static struct probe_error *find_entry(struct probe_stacks *stacks,
	const struct probe_session_probe *probe, const char *comm, const struct probe_stack *stack,
	struct entry **ret)
{
	const uint64_t numbers[] = {stack->end, stack->count, comm != NULL};
	const size_t bytes = stack->count * sizeof(stack->frames[0]);
	const struct map_part key[] = {MAP_OBJECT(numbers), {stack->frames, bytes},
		map_text(probe->provider), map_text(probe->name), map_text(comm)};
	const size_t parts = sizeof(key) / sizeof(key[0]);
	const char *at;

	*ret = map_find(&stacks->by_stack, key, parts);
	if (*ret || stacks->count == ENTRIES_MAX)
		return NULL;
	if (!ARRAY_ROOM(stacks->entries, stacks->count))
		return probe_error_no_memory();
	*ret = map_add(&stacks->by_stack, sizeof(**ret), key, parts);
	if (!*ret)
		return probe_error_no_memory();
	at = (const char *)map_key(*ret) + sizeof(numbers) + bytes;
	(*ret)->index = stacks->count;
	(*ret)->provider = next_text(&at, probe->provider);
	(*ret)->name = next_text(&at, probe->name);
	(*ret)->comm = next_text(&at, comm);
	(*ret)->stack = *stack;
	(*ret)->stack.frames =
		(const struct probe_frame *const *)((const uint64_t *)map_key(*ret) +
						    sizeof(numbers) / sizeof(numbers[0]));
	stacks->entries[stacks->count++] = *ret;
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
	struct probe_error *error = NULL;
	struct entry *entry = NULL;
	bool has_room = true;

	for (size_t i = 0; i < known.count && has_room && !error; i++) {
		error = know_frame(stacks, known.frames[i], &frames[i]);
		has_room = frames[i] != NULL;
	}
	known.frames = frames;
	if (!error && has_room)
		error = find_entry(stacks, probe, comm, &known, &entry);
	*ret = entry ? entry->index : SIZE_MAX;
	if (entry)
		entry->count += count;
	else if (!error)
		stacks->left_out += count;
	return error;
}

struct probe_error *probe_stacks_add(struct probe_stacks *stacks,
	const struct probe_session_probe *probe, const char *comm, const struct probe_stack *stack,
	uint64_t count)
{
	size_t index;

	return stacks_count(stacks, probe, comm, stack, count, &index);
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
	error = probe_session_stack(session, row, &stack)
			?: stacks_count(
				   stacks, &probes[row->probe], comm, &stack, row->count, &index);
	if (!error && keep && index == SIZE_MAX)
		stacks->kept_left_out += row->count;
	else if (!error && keep)
		stacks->entries[index]->kept += row->count;
	return error;
}

static struct probe_error *add_session(
	struct probe_stacks *stacks, struct probe_session *session, const char *comm, bool keep)
{
	AUTO_FREE struct probe_row *rows = NULL;
	size_t count = 0;
	struct probe_error *error = probe_session_rows(session, &rows, &count);

	for (size_t i = 0; i < count && !error; i++)
		error = add_row(stacks, session, &rows[i], comm, keep);
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

/* The greatest count comes first. */
static int compare_rows(const void *a, const void *b)
{
	const struct probe_stacks_row *left = a, *right = b;

	return ORDER(right->count, left->count);
}

static struct probe_stacks_row stacks_row(const struct probe_stacks *stacks, size_t index)
{
	const struct entry *entry = stacks->entries[index];

	return (struct probe_stacks_row){.provider = entry->provider,
		.name = entry->name,
		.comm = entry->comm,
		.stack = entry->stack,
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
	qsort(rows, count, sizeof(*rows), compare_rows);
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
 * A free subtracts its block from the stack of the allocation.
 */

enum {
	BLOCKS_MAX = 1 << 22 /* at most about 320 MiB */
};

struct figures {
	uint64_t total_bytes, total_count, live_bytes, live_count;
	uint64_t bytes_before, count_before; /* part of the total before the mark */
};

struct address {
	const struct probe_session *session;
	uint64_t pointer, pid;
};

struct block {
	uint64_t bytes;
	size_t stack;
};

struct probe_heap {
	struct probe_stacks *stacks;
	struct figures *figures;
	size_t figures_count;
	struct map blocks; /* struct block by struct address */
	struct probe_heap_doubts doubts;
};

struct probe_error *probe_heap_create(struct probe_heap **ret)
{
	struct probe_heap *heap = calloc(1, sizeof(*heap));
	struct probe_error *error;

	if (!heap)
		return probe_error_no_memory();
	error = probe_stacks_create(&heap->stacks);
	if (error)
		free(heap);
	else
		*ret = heap;
	return error;
}

void probe_heap_free(struct probe_heap *heap)
{
	if (!heap)
		return;
	probe_stacks_free(heap->stacks);
	free(heap->figures);
	map_clear(&heap->blocks);
	free(heap);
}

/* ---- Blocks ------------------------------------------------------------------------- */

/* Removes a block that is no longer live; false if there is none. */
static bool forget(struct probe_heap *heap, const struct address *address)
{
	struct block *block = map_find(&heap->blocks, MAP_KEY(MAP_OBJECT(*address)));

	if (!block)
		return false;
	heap->figures[block->stack].live_bytes -= block->bytes;
	heap->figures[block->stack].live_count--;
	map_remove(&heap->blocks, block);
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

/* Adds a live block, if there is room for it. */
static struct probe_error *remember(
	struct probe_heap *heap, const struct address *address, size_t stack, uint64_t bytes)
{
	struct block *block;

	if (heap->blocks.count == BLOCKS_MAX) {
		heap->doubts.untracked++;
		return NULL;
	}
	block = map_add(&heap->blocks, sizeof(*block), MAP_KEY(MAP_OBJECT(*address)));
	if (!block)
		return probe_error_no_memory();
	*block = (struct block){bytes, stack};
	heap->figures[stack].live_bytes += bytes;
	heap->figures[stack].live_count++;
	return NULL;
}

static struct probe_error *allocate(struct probe_heap *heap, const struct address *address,
	const struct probe_session_probe *probe, const struct probe_hit *hit, const char *comm)
{
	static const struct probe_stack unknown = {.end = PROBE_STACK_LOST};
	struct probe_error *error;
	uint64_t bytes;
	size_t index;

	if (!take_number(hit, 1, &bytes)) {
		heap->doubts.unreadable++;
		return NULL;
	}
	take_number(hit, 2, &bytes); /* the weight of a sample */
	heap->doubts.unfreed += forget(heap, address);
	error = stacks_count(
		heap->stacks, probe, comm, hit->stack ? hit->stack : &unknown, 1, &index);
	if (error)
		return error;
	if (index == SIZE_MAX) {
		heap->doubts.left_out++;
		return NULL;
	}
	for (; heap->figures_count <= index; heap->figures_count++) {
		if (!ARRAY_ROOM(heap->figures, heap->figures_count))
			return probe_error_no_memory();
		heap->figures[heap->figures_count] = (struct figures){0};
	}
	heap->figures[index].total_bytes += bytes;
	heap->figures[index].total_count++;
	return remember(heap, address, index, bytes);
}

struct probe_error *probe_heap_add(struct probe_heap *heap, const struct probe_session *session,
	const struct probe_session_probe *probe, const struct probe_hit *hit, const char *comm)
{
	struct address address = {.session = session, .pid = (uint64_t)hit->pid};

	if (!take_number(hit, 0, &address.pointer)) {
		heap->doubts.unreadable++;
		return NULL;
	}
	if (!address.pointer)
		return NULL;
	if (probe->role == PROBE_ROLE_BEGIN)
		return allocate(heap, &address, probe, hit, comm);
	heap->doubts.unknown_frees += !forget(heap, &address);
	return NULL;
}

void probe_heap_forget(struct probe_heap *heap, const struct probe_session *session)
{
	struct block *block;

	for (size_t i = 0; (block = map_next(&heap->blocks, &i));) {
		if (((const struct address *)map_key(block))->session != session)
			continue;
		/* Another block may take the place of the removed one. */
		map_remove(&heap->blocks, block);
		i--;
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
	qsort(rows, count, sizeof(*rows), compare_rows);
	*ret = rows;
	*count_ret = count;
	return NULL;
}

struct probe_heap_doubts probe_heap_doubts(const struct probe_heap *heap)
{
	return heap->doubts;
}
