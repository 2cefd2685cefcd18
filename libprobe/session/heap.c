/* SPDX-License-Identifier: MIT */
/*
 * Memory by call stack.
 *
 *	stacks   (libprobe/session/stacks.c): each stack has an index
 *	figures  [index] -> bytes and allocations, all and live
 *	blocks   (session, process, pointer) -> index, bytes: what is live
 *
 * A free takes from the stack of its allocation what that had added. Blocks are in an open hash
 * table, at most half full; what is removed leaves no mark: those behind it move up.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/session/session.h"
#include "probe/heap.h"

enum {
	BLOCKS_FIRST = 1024,
	BLOCKS_MAX = 1 << 22 /* some 320 MiB at the very most */
};

struct figures {
	uint64_t total_bytes, total_count, live_bytes, live_count;
	uint64_t bytes_before, count_before; /* of the total: up to the mark */
};

struct block {
	const struct probe_session *session; /* NULL: this place is free */
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

/* The place of a block, or the free one where it belongs; NULL: there is no table yet. */
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

static bool make_room(struct probe_heap *heap)
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

/* Moves up each block behind the hole that may stand there. */
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

/* What the block was is not live any more. */
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

/* The argument as a number without a sign; false if it is none. */
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

/* A block is live from now on, if there is room to remember it. */
static struct probe_error *remember(struct probe_heap *heap, const struct block *block)
{
	struct figures *figures = &heap->figures[block->stack];

	if (heap->blocks_count == BLOCKS_MAX) {
		heap->doubts.untracked++;
		return NULL;
	}
	if (!make_room(heap))
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
		/* Another block may move up. */
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
