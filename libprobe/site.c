/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "libprobe/edits.h"
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

enum site_state site_state(
	const struct registry *registry, const struct reg_site *site, const uint8_t *bytes)
{
	if (!bytes)
		return SITE_FOREIGN;
	if (memcmp(bytes, site->original, site->length) == 0)
		return SITE_ORIGINAL;
	if (memcmp(bytes, site->patched, site->length) == 0)
		return SITE_PATCHED;
	/* A debugger's breakpoint hides the first byte, and will put it back. */
	if ((bytes[0] == site->patched[0] || bytes[0] == BREAKPOINT) &&
		(site->length == 1 || leads_to_arena(registry, site, bytes)))
		return SITE_PATCHED;
	return SITE_FOREIGN;
}

/* ---- What was closed -------------------------------------------------------------------- */

/* What is to be dropped, as flags beside the registry's arrays. */
struct losses {
	bool *sites, *stubs, *probes, *semaphores;
	bool *kept;    /* probes that still have a site */
	bool *foreign; /* probes that lost one which is not as it was */
	bool any;
};

static bool losses_init(struct losses *l, const struct registry *r)
{
	*l = (struct losses){
		.sites = calloc(r->site_count + 1, sizeof(bool)),
		.stubs = calloc(r->stub_count + 1, sizeof(bool)),
		.probes = calloc(r->probe_count + 1, sizeof(bool)),
		.semaphores = calloc(r->semaphore_count + 1, sizeof(bool)),
		.kept = calloc(r->probe_count + 1, sizeof(bool)),
		.foreign = calloc(r->probe_count + 1, sizeof(bool)),
	};
	return l->sites && l->stubs && l->probes && l->semaphores && l->kept && l->foreign;
}

static void losses_deinit(struct losses *l)
{
	free(l->sites);
	free(l->stubs);
	free(l->probes);
	free(l->semaphores);
	free(l->kept);
	free(l->foreign);
}

/* Notes for a probe that it has, or has lost, a site. */
static void note_probe(struct losses *l, const struct registry *r, const struct reg_probe *probe,
	enum site_state state)
{
	size_t i;

	if (!probe)
		return;
	i = probe - r->probes;
	l->kept[i] = l->kept[i] || state == SITE_PATCHED;
	l->probes[i] = l->probes[i] || state != SITE_PATCHED;
	l->foreign[i] = l->foreign[i] || state == SITE_FOREIGN;
}

static void note_site(struct losses *l, const struct registry *r, size_t i, enum site_state state)
{
	size_t count;
	const struct reg_stub *stubs = registry_stubs(r, r->sites[i].pc, &count);

	l->sites[i] = state != SITE_PATCHED;
	l->any = l->any || l->sites[i];
	for (size_t k = 0; k < count; k++) {
		l->stubs[stubs + k - r->stubs] = l->sites[i];
		note_probe(l, r, registry_probe(r, stubs[k].key, stubs[k].session), state);
	}
	if (r->sites[i].plan == PROBE_PLAN_TOGGLE)
		note_probe(l, r, registry_persistent(r, r->sites[i].key), state);
}

/* Probes go with their last site. */
static void drop_losses(struct losses *l, struct registry *r)
{
	for (size_t i = 0; i < r->probe_count; i++)
		l->probes[i] = l->probes[i] && !l->kept[i];
	for (size_t i = 0; i < r->semaphore_count; i++) {
		const struct reg_probe *probe =
			registry_probe(r, r->semaphores[i].key, r->semaphores[i].session);

		/* Those beside original bytes may have been raised: they are lowered. */
		l->semaphores[i] =
			probe && l->probes[probe - r->probes] && l->foreign[probe - r->probes];
	}
	/* A thread may be in their code: see libprobe/detach.c. */
	for (size_t i = 0; i < r->site_count; i++)
		if (l->sites[i])
			r->sites[i].pc = r->sites[i].key = 0;
	for (size_t i = 0; i < r->stub_count; i++)
		if (l->stubs[i])
			r->stubs[i].pc = r->stubs[i].key = 0;
	registry_drop_probe(r, l->probes);
	registry_drop_semaphore(r, l->semaphores);
	registry_sort(r);
}

/* Reads all sites; without memory or permission, nothing is known of them. */
static bool read_sites(const struct change *change, struct edits *edits)
{
	const struct registry *r = &change->registry;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < r->site_count && !error; i++)
		if (!edits_add(edits, r->sites[i].patch, r->sites[i].length))
			error = probe_error_no_memory();
	if (!error)
		error = edits_prepare(edits);
	if (!error)
		error = edits_read(edits, change->pid);
	probe_error_free(error);
	return !error;
}

size_t site_count_patched(const struct change *change)
{
	const struct registry *r = &change->registry;
	struct edits edits = {0};
	size_t count = 0;

	if (r->site_count && read_sites(change, &edits))
		for (size_t i = 0; i < r->site_count; i++)
			count += r->sites[i].pc && site_state(r, &r->sites[i],
							   edits_found(&edits, i)) == SITE_PATCHED;
	edits_deinit(&edits);
	return count;
}

void site_forget_closed(struct change *change)
{
	struct registry *r = &change->registry;
	struct edits edits = {0};
	struct losses losses = {0};

	if (r->site_count && read_sites(change, &edits) && losses_init(&losses, r)) {
		for (size_t i = 0; i < r->site_count; i++) {
			if (r->sites[i].pc)
				note_site(&losses, r, i,
					site_state(r, &r->sites[i], edits_found(&edits, i)));
		}
		if (losses.any)
			drop_losses(&losses, r);
	}
	losses_deinit(&losses);
	edits_deinit(&edits);
}
