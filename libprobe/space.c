/* SPDX-License-Identifier: MIT */
/*
 * Where new memory may go without being in anybody's way.
 *
 * The kernel lets the heap ([heap], brk(2)) grow upwards and the main stack
 * downwards, up to a limit that the program may change. Memory there would
 * make it run out early, so a wide berth is given to both.
 */
#include <string.h>

#include "libprobe/registry.h"
#include "libprobe/space.h"

#define LOWEST UINT64_C(0x10000) /* vm.mmap_min_addr is at most this */
#define HIGHEST UINT64_C(0x7fffffff0000)
#define HEAP_BERTH (UINT64_C(64) << 20)
#define STACK_BERTH (UINT64_C(64) << 20)
#define STEP_ASIDE (UINT64_C(64) << 10) /* from neighbours, so that overruns still fault */

/* What a mapping takes up, with what it may grow to. */
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
	if (start < LOWEST || end > HIGHEST || end <= start)
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

uint64_t space_find(
	const struct maps *maps, uint64_t size, uint64_t reach_start, uint64_t reach_end)
{
	uint64_t best = 0;

	size = (size + SPACE_PAGE - 1) & ~(uint64_t)(SPACE_PAGE - 1);
	/* The nearest place is right below or right above some mapping. */
	for (size_t i = 0; i < maps->count; i++) {
		uint64_t low, high, candidates[2];

		occupied(&maps->items[i], &low, &high);
		candidates[0] = low > size + STEP_ASIDE ? low - size - STEP_ASIDE : 0;
		candidates[1] = (high + STEP_ASIDE + SPACE_PAGE - 1) & ~(uint64_t)(SPACE_PAGE - 1);
		for (int k = 0; k < 2; k++) {
			uint64_t at = candidates[k] & ~(uint64_t)(SPACE_PAGE - 1);

			if (!at || !code_reaches(at, at + size, reach_start, reach_end) ||
				(best &&
					distance(at, reach_start) >= distance(best, reach_start)) ||
				!space_is_free(maps, at, at + size))
				continue;
			best = at;
		}
	}
	return best;
}
