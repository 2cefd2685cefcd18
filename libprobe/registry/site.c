/* SPDX-License-Identifier: MIT */
/*
 * Tells what has happened to a patched site. A debugger or the kernel puts a breakpoint over our
 * jump; another tool, or the program, restores the original bytes. Bytes that others have written
 * stay.
 *
 * A site may have the file's bytes for two reasons. If something restored them, the registry keeps
 * the site. If the library was closed and opened again in fresh pages, or the process was forked
 * between the announcement of the site and its patch, the registry forgets the site.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/registry/registry.h"

/*
 * Returns true if these bytes, with our jump over the first `covered`, are a jump into our code. A
 * controller that died after linking a stub leaves such bytes.
 */
static bool leads_to_arena(const struct arch *arch, const struct registry *r,
	const struct reg_site *site, const uint8_t *bytes, size_t covered)
{
	uint8_t jump[ARCH_JUMP_MAX] = {0};
	uint64_t target;

	if (site->length != arch->jump_length)
		return false;
	memcpy(jump, bytes, site->length);
	memcpy(jump, site->patched, covered);
	target = arch->jump_target(site->patch, jump);
	return target && registry_arena(r, target);
}

enum site_state site_state(
	const struct registry *registry, const struct reg_site *site, const uint8_t *bytes)
{
	const struct arch *arch = arch_host();
	size_t broken = arch->breakpoint_length;

	if (!bytes)
		return SITE_GONE;
	if (memcmp(bytes, site->original, site->length) == 0)
		return SITE_ORIGINAL;
	if (memcmp(bytes, site->patched, site->length) == 0)
		return SITE_PATCHED;
	if (leads_to_arena(arch, registry, site, bytes, 0))
		return SITE_PATCHED;
	if (site->length < broken || !arch->is_breakpoint(bytes))
		return SITE_FOREIGN;
	return memcmp(bytes + broken, site->patched + broken, site->length - broken) == 0 ||
			       leads_to_arena(arch, registry, site, bytes, broken)
		       ? SITE_COVERED
		       : SITE_FOREIGN;
}

bool site_is_mixed(const struct reg_site *site, const uint8_t *bytes)
{
	for (size_t i = 0; bytes && i < site->length; i++)
		if (bytes[i] != site->original[i] && bytes[i] != site->patched[i])
			return false;
	return bytes != NULL;
}

/* ---- Whose memory it is ----------------------------------------------------------------- */

bool site_is_in_file(const struct modules *modules, const struct reg_site *site)
{
	const struct module *module = modules_find(modules, site->patch);
	uint8_t bytes[sizeof(site->original)];

	if (!module)
		return false;
	/* A file that cannot be read (deleted, for example) may be the same as before. */
	return !module->object || (object_read(module->object, site->patch - module->bias, bytes,
					   site->length) == site->length &&
					  memcmp(bytes, site->original, site->length) == 0);
}

/*
 * Changes a state to SITE_GONE if the site's library was closed (and maybe opened again), or if the
 * site was never patched in this forked child.
 */
static enum site_state state_in_file(const struct change *change, const struct reg_site *site,
	enum site_state state, int pagemap, bool inherited)
{
	const struct mapping *mapping = maps_find(&change->maps, site->patch);

	switch (state) {
	case SITE_ORIGINAL:
		return !inherited && memory_is_own_copy(pagemap, site->patch, false) ? state
										     : SITE_GONE;
	case SITE_COVERED:
	case SITE_FOREIGN:
		/*
		 * If the page that we patched is still the process's own copy, it has the text of
		 * the mapped file, even if the file was written to. Another library's text has no
		 * copies.
		 */
		return site_is_in_file(&change->modules, site) ||
				       (mapping && mapping->executable && mapping->inode &&
					       memory_is_own_copy(pagemap, site->patch, false))
			       ? state
			       : SITE_GONE;
	case SITE_PATCHED:
	case SITE_GONE:
		break;
	}
	return state;
}

bool site_is_wanted(const struct registry *r, const struct reg_site *site)
{
	size_t count;
	const struct reg_stub *stubs = registry_stubs(r, site->pc, &count);

	for (size_t i = 0; i < count; i++) {
		const struct reg_probe *probe = registry_probe(r, stubs[i].key, stubs[i].session);

		if (probe && probe->refcount)
			return true;
	}
	return false;
}

/* Returns true if a site's hop is in the code that a patch has moved. */
static bool makes_room(const struct registry *r, const struct reg_site *site)
{
	for (size_t i = 0; i < r->site_count; i++)
		if (r->sites[i].hop - site->patch < site->covers)
			return true;
	return false;
}

bool site_is_bare(const struct registry *r, const struct reg_site *site)
{
	size_t count;

	registry_stubs(r, site->pc, &count);
	return site->pc && !count && (site_is_chained(site) || makes_room(r, site));
}

bool site_has_hop(const struct reg_site *site, pid_t pid)
{
	size_t length = arch_host()->jump_length;
	uint8_t found[ARCH_JUMP_MAX];

	return memory_read(pid, site->hop, found, length) == length &&
	       memcmp(found, site->hop_patched, length) == 0;
}

size_t site_entry_jump(const struct reg_site *site, uint64_t to, uint8_t *out)
{
	const struct arch *arch = arch_host();

	return site->pun && !site_is_chained(site) ? arch->far_jump(site->entry, to, out)
						   : arch->jump(site->entry, to, out);
}

bool site_fault(enum site_state state, enum probe_site_fault *ret)
{
	if (state == SITE_PATCHED || state == SITE_GONE)
		return false;
	*ret = state == SITE_ORIGINAL  ? PROBE_SITE_RESTORED
	       : state == SITE_COVERED ? PROBE_SITE_COVERED
				       : PROBE_SITE_OVERWRITTEN;
	return true;
}

/* ---- Closed libraries ------------------------------------------------------------------- */

/* Flags for each element that will be dropped. */
struct losses {
	bool *sites, *stubs, *probes, *semaphores;
	bool *kept;    /* probes that still have a site */
	bool *foreign; /* probes that lost a site whose memory is gone, or belongs to another file
			*/
	bool any;
};

static void note_site(
	struct losses *l, const struct registry *r, size_t i, bool lost, bool original)
{
	size_t count;
	const struct reg_stub *stubs = registry_stubs(r, r->sites[i].pc, &count);

	l->sites[i] = lost;
	l->any = l->any || lost;
	for (size_t k = 0; k < count; k++) {
		const struct reg_probe *probe = registry_probe(r, stubs[k].key, stubs[k].session);
		size_t p = probe ? (size_t)(probe - r->probes) : 0;

		l->stubs[stubs + k - r->stubs] = lost;
		if (!probe)
			continue;
		l->kept[p] = l->kept[p] || !lost;
		l->probes[p] = l->probes[p] || lost;
		l->foreign[p] = l->foreign[p] || (lost && !original);
	}
}

/* Drops the lost elements, and each probe that loses its last site. */
static void drop_losses(struct losses *l, struct registry *r)
{
	for (size_t i = 0; i < r->probe_count; i++)
		l->probes[i] = l->probes[i] && !l->kept[i];
	for (size_t i = 0; i < r->semaphore_count; i++) {
		const struct reg_probe *probe =
			registry_probe(r, r->semaphores[i].key, r->semaphores[i].session);

		/* Keep semaphores of restored sites: they may be raised and must be lowered. */
		l->semaphores[i] =
			probe && l->probes[probe - r->probes] && l->foreign[probe - r->probes];
	}
	/* Keep the code of lost sites: a thread may run it (patch/uninstall.c). */
	for (size_t i = 0; i < r->site_count; i++)
		if (l->sites[i])
			r->sites[i].pc = 0;
	for (size_t i = 0; i < r->stub_count; i++)
		if (l->stubs[i])
			r->stubs[i].pc = r->stubs[i].key = 0;
	registry_drop_probe(r, l->probes);
	registry_drop_semaphore(r, l->semaphores);
	registry_sort(r);
}

/* ---- All sites of a registry ------------------------------------------------------------ */

struct probe_error *site_read_all(
	const struct registry *r, pid_t pid, struct edits *edits, enum site_state **ret)
{
	enum site_state *states = calloc(r->site_count + 1, sizeof(*states));
	struct probe_error *error = states ? NULL : probe_error_no_memory();

	for (size_t i = 0; i < r->site_count && !error; i++)
		if (!edits_add(edits, r->sites[i].patch, r->sites[i].length))
			error = probe_error_no_memory();
	error = error ?: edits_prepare(edits) ?: edits_read(edits, pid);
	for (size_t i = 0; i < r->site_count && !error; i++)
		states[i] = site_state(r, &r->sites[i], edits_found(edits, i));
	if (error)
		free(states);
	else
		*ret = states;
	return error;
}

/*
 * Adds the jumps of a site, its entry and its stubs, if it has a stub of a probe, not only of a
 * gate, whose key is its address. Returns false if memory is short.
 */
static bool add_jumps(const struct registry *r, const struct reg_site *site, struct edits *edits)
{
	size_t count, jump_length = arch_host()->jump_length;
	const struct reg_stub *stubs = registry_stubs(r, site->pc, &count);
	uint8_t jump[EDIT_BYTES];
	size_t length = site_entry_jump(site, site->entry, jump);
	bool any = false, ok;

	for (size_t i = 0; i < count; i++)
		any |= stubs[i].key != stubs[i].pc;
	if (!any)
		return true;
	ok = edits_add(edits, site->patch, site->length) &&
	     (!length || edits_add(edits, site->entry, length));
	for (size_t i = 0; i < count && ok; i++)
		ok = edits_add(edits, stubs[i].start + stubs[i].next_jump, jump_length);
	return ok;
}

struct probe_error *site_all_alike(const struct registry *r, pid_t pid, pid_t other, bool *ret)
{
	AUTO(edits_deinit) struct edits edits = {0};
	struct probe_error *error;
	bool ok = true;

	for (size_t i = 0; i < r->site_count && ok; i++)
		ok = add_jumps(r, &r->sites[i], &edits);
	error = ok ? edits_prepare(&edits) : probe_error_no_memory();
	error = error ?: edits_read(&edits, pid) ?: edits_note(&edits) ?: edits_read(&edits, other);
	*ret = !error && edits_are_as_noted(&edits);
	return error;
}

/* Like site_read_all(), but returns NULL after an error. */
static enum site_state *try_states(const struct change *change, struct edits *edits)
{
	enum site_state *states = NULL;

	if (change->registry.site_count)
		probe_error_free(site_read_all(&change->registry, change->pid, edits, &states));
	return states;
}

size_t site_count_patched(const struct change *change)
{
	const struct registry *r = &change->registry;
	AUTO(edits_deinit) struct edits edits = {0};
	AUTO_FREE enum site_state *states = try_states(change, &edits);
	size_t count = 0;

	for (size_t i = 0; states && i < r->site_count; i++)
		count += r->sites[i].pc && states[i] == SITE_PATCHED &&
			 !site_is_bare(r, &r->sites[i]);
	return count;
}

void site_forget_closed(struct change *change)
{
	struct registry *r = &change->registry;
	bool inherited = false;
	AUTO(edits_deinit) struct edits edits = {0};
	AUTO_FREE bool *flags =
		calloc(r->site_count + r->stub_count + r->semaphore_count + 3 * r->probe_count + 1,
			sizeof(*flags));
	AUTO_FREE enum site_state *states = try_states(change, &edits);
	AUTO_FD int pagemap = -1;
	struct losses losses;

	/* If it is unknown whether the process was forked with this registry, sites are kept. */
	if (r->guard)
		probe_error_free(registry_is_inherited(r, change->pid, &inherited));
	if (!flags || !states)
		return;
	losses = (struct losses){.sites = flags,
		.stubs = flags + r->site_count,
		.semaphores = flags + r->site_count + r->stub_count};
	losses.probes = losses.semaphores + r->semaphore_count;
	losses.kept = losses.probes + r->probe_count;
	losses.foreign = losses.kept + r->probe_count;
	for (size_t i = 0; i < r->site_count; i++) {
		bool lost;

		if (!r->sites[i].pc)
			continue;
		if (states[i] != SITE_PATCHED && pagemap < 0)
			pagemap = memory_open_pagemap(change->pid);
		lost = state_in_file(change, &r->sites[i], states[i], pagemap, inherited) ==
		       SITE_GONE;
		note_site(&losses, r, i, lost, states[i] == SITE_ORIGINAL);
	}
	if (losses.any)
		drop_losses(&losses, r);
}
