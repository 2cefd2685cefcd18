/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "libprobe/base/array.h"
#include "libprobe/base/page.h"
#include "libprobe/registry/registry.h"

bool code_reaches(uint64_t start, uint64_t end, uint64_t reach_start, uint64_t reach_end)
{
	uint64_t low = start < reach_start ? start : reach_start;
	uint64_t high = end > reach_end ? end : reach_end;

	return high - low < arch_host()->jump_reach - REGISTRY_PAGE;
}

/* Everything in use, sorted by address; NULL without memory. */
static struct code_extent *extents_in_use(
	const struct registry *registry, const struct code_taken *taken, size_t *count_ret)
{
	size_t count = 0, most = 2 * registry->site_count + registry->stub_count + taken->count + 3;
	struct code_extent *extents = calloc(most, sizeof(*extents));

	if (!extents)
		return NULL;
	if (registry->home)
		extents[count++] = (struct code_extent){registry->home, REGISTRY_PAGE};
	if (registry->guard)
		extents[count++] =
			(struct code_extent){registry_guard_page(registry), page_bytes()};
	if (registry->image)
		extents[count++] = (struct code_extent){registry->image, registry->image_size};
	for (size_t i = 0; i < registry->site_count; i++) {
		const struct reg_site *site = &registry->sites[i];

		if (site->tail)
			extents[count++] = (struct code_extent){site->tail, site->tail_size};
		if (site->pun)
			extents[count++] = (struct code_extent){site->pun, site->pun_size};
	}
	for (size_t i = 0; i < registry->stub_count; i++)
		extents[count++] =
			(struct code_extent){registry->stubs[i].start, registry->stubs[i].size};
	if (taken->count)
		memcpy(extents + count, taken->items, taken->count * sizeof(*extents));
	count += taken->count;
	ARRAY_SORT(extents, count, start);
	*count_ret = count;
	return extents;
}

static bool is_allocated(const struct reg_arena *arena)
{
	return arena->size > page_bytes();
}

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

/* The first gap of an arena between extents, or 0. */
static uint64_t find_gap(const struct reg_arena *arena, const struct code_extent *extents,
	size_t count, size_t size, size_t alignment)
{
	uint64_t at = align_up(arena->start, alignment), end = arena->start + arena->size;

	for (size_t i = 0; i < count; i++) {
		const struct code_extent *e = &extents[i];

		if (e->start + e->size <= at || e->start >= end)
			continue;
		if (e->start >= at && e->start - at >= size)
			break;
		at = align_up(e->start + e->size, alignment);
	}
	return at < end && end - at >= size ? at : 0;
}

bool code_keep(struct code_taken *taken, struct code_extent extent)
{
	if (!ARRAY_ROOM(taken->items, taken->count))
		return false;
	taken->items[taken->count++] = extent;
	return true;
}

void code_release(struct code_taken *taken)
{
	taken->count--;
}

void code_release_all(struct code_taken *taken)
{
	taken->count = 0;
}

uint64_t code_alloc(const struct registry *registry, struct code_taken *taken, size_t size,
	size_t alignment, uint64_t reach_start, uint64_t reach_end)
{
	size_t count;
	struct code_extent *extents = extents_in_use(registry, taken, &count);
	uint64_t found = 0;

	for (size_t i = 0; extents && i < registry->arena_count && !found; i++) {
		const struct reg_arena *arena = &registry->arenas[i];

		if (is_allocated(arena) && code_reaches(arena->start, arena->start + arena->size,
						   reach_start, reach_end))
			found = find_gap(arena, extents, count, size, alignment);
	}
	free(extents);
	return found && code_keep(taken, (struct code_extent){found, size}) ? found : 0;
}

bool code_arena(const struct registry *registry, uint64_t address)
{
	for (size_t i = 0; i < registry->arena_count; i++)
		if (is_allocated(&registry->arenas[i]) &&
			address - registry->arenas[i].start < registry->arenas[i].size)
			return true;
	return false;
}

bool code_take(
	const struct registry *registry, struct code_taken *taken, uint64_t start, size_t size)
{
	size_t count;
	struct code_extent *extents = extents_in_use(registry, taken, &count);
	bool is_free =
		extents && code_arena(registry, start) && code_arena(registry, start + size - 1);

	for (size_t i = 0; is_free && i < count; i++)
		is_free = extents[i].start >= start + size ||
			  extents[i].start + extents[i].size <= start;
	free(extents);
	return is_free && code_keep(taken, (struct code_extent){start, size});
}
