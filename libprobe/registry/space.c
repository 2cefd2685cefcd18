/* SPDX-License-Identifier: MIT */
/*
 * Where new memory is in nobody's way.
 *
 * The kernel lets the heap ([heap], brk(2)) grow upwards and the main stack downwards, up to a
 * limit that the program may change. Memory there would make it run out early, so we keep well away
 * from both.
 */
#include <string.h>

#include "arch/process.h"
#include "libprobe/base/page.h"
#include "libprobe/registry/registry.h"

#define LOWEST UINT64_C(0x10000) /* vm.mmap_min_addr is at most this */
#define HEAP_BERTH (UINT64_C(64) << 20)
#define STACK_BERTH (UINT64_C(64) << 20)
#define STEP_ASIDE (UINT64_C(64) << 10) /* from neighbours, so that overruns still fault */

/* What a mapping occupies, including room to grow. */
static void occupied(const struct mapping *m, uint64_t *start_ret, uint64_t *end_ret)
{
	*start_ret = m->start;
	*end_ret = m->end;
	if (strcmp(m->path, "[stack]") == 0)
		*start_ret = m->start > STACK_BERTH ? m->start - STACK_BERTH : 0;
	else if (strcmp(m->path, "[heap]") == 0)
		*end_ret = m->end + HEAP_BERTH;
}

bool space_is_free(const struct maps *maps, uint64_t start, uint64_t end)
{
	if (start < LOWEST || end > arch_process()->address_end || end <= start)
		return false;
	for (size_t i = 0; i < maps->count; i++) {
		uint64_t low, high;

		occupied(&maps->items[i], &low, &high);
		if (low < end && start < high)
			return false;
	}
	return true;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* What is searched for, and the nearest place so far. */
struct quest {
	uint64_t size, reach_start, reach_end;
	uint64_t best; /* or 0 */
};

static void consider(struct quest *q, uint64_t at, uint64_t low, uint64_t high)
{
	if (at < low || at > high || high - at < q->size ||
		!code_reaches(at, at + q->size, q->reach_start, q->reach_end) ||
		(q->best && distance(at, q->reach_start) >= distance(q->best, q->reach_start)))
		return;
	q->best = at;
}

uint64_t space_find(
	const struct maps *maps, uint64_t size, uint64_t reach_start, uint64_t reach_end)
{
	struct quest q = {
		.size = page_after(size), .reach_start = reach_start, .reach_end = reach_end};
	uint64_t low = LOWEST, highest = arch_process()->address_end;

	if (q.size < size || q.size > highest - LOWEST)
		return 0;
	/* The nearest place is at an end of some gap. */
	for (size_t i = 0; i <= maps->count; i++) {
		uint64_t high = highest, next = highest;

		if (i < maps->count)
			occupied(&maps->items[i], &high, &next);
		if (high > highest)
			high = highest;
		if (low < high && high - low >= q.size) {
			consider(&q, low + STEP_ASIDE, low, high);
			if (high - low >= q.size + STEP_ASIDE)
				consider(&q, high - STEP_ASIDE - q.size, low, high);
		}
		if (next > low)
			low = page_after(next);
	}
	return q.best;
}
