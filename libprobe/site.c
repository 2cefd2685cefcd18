/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "libprobe/memory.h"
#include "libprobe/site.h"

enum { BREAKPOINT = 0xcc };

/* Does a jump lead into code of ours: to a stub that was linked by a controller that died then? */
static bool leads_to_arena(
	const struct registry *r, const struct reg_site *site, const uint8_t *bytes)
{
	int32_t distance;
	uint64_t target;

	if (site->length != 5)
		return false;
	memcpy(&distance, bytes + 1, sizeof(distance));
	target = site->patch + site->length + (int64_t)distance;
	for (size_t i = 0; i < r->arena_count; i++)
		if (target - r->arenas[i].start < r->arenas[i].size)
			return true;
	return false;
}

enum site_state site_state(const struct change *change, const struct reg_site *site)
{
	uint8_t bytes[8] = {0};

	if (memory_read(change->pid, site->patch, bytes, site->length) != site->length)
		return SITE_FOREIGN;
	if (memcmp(bytes, site->original, site->length) == 0)
		return SITE_ORIGINAL;
	if (memcmp(bytes, site->patched, site->length) == 0)
		return SITE_PATCHED;
	/* A debugger's breakpoint hides the first byte, and will put it back. */
	if ((bytes[0] == site->patched[0] || bytes[0] == BREAKPOINT) &&
		(site->length == 1 || leads_to_arena(&change->registry, site, bytes)))
		return SITE_PATCHED;
	return SITE_FOREIGN;
}

static bool has_site(const struct registry *r, uint64_t key)
{
	for (size_t i = 0; i < r->site_count; i++)
		if (r->sites[i].key == key)
			return true;
	return false;
}

/* Drops a site, its stubs and, with the last site, its probe. */
static void forget(struct registry *r, size_t index, bool with_semaphores)
{
	struct reg_site site = r->sites[index];

	registry_remove_site(r, index);
	for (size_t i = r->stub_count; i-- > 0;)
		if (r->stubs[i].pc == site.pc)
			registry_remove_stub(r, i);
	if (has_site(r, site.key))
		return;
	for (size_t i = r->probe_count; i-- > 0;)
		if (r->probes[i].key == site.key)
			registry_remove_probe(r, i);
	for (size_t i = r->semaphore_count; with_semaphores && i-- > 0;)
		if (r->semaphores[i].key == site.key)
			registry_remove_semaphore(r, i);
}

void site_forget_closed(struct change *change)
{
	struct registry *r = &change->registry;

	for (size_t i = r->site_count; i-- > 0;) {
		enum site_state state = site_state(change, &r->sites[i]);

		/* Semaphores beside original bytes may have been raised: they are lowered. */
		if (state != SITE_PATCHED)
			forget(r, i, state == SITE_FOREIGN);
	}
}
