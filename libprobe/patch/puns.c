/* SPDX-License-Identifier: MIT */
/*
 * Memory for puns, at arbitrary addresses, because a site's bytes determine where its jump leads
 * (struct arch, pun). A change maps these pages before all else, so that no arena or data takes
 * their place. If an arena is at the target already, the jump to the stub is written there, if the
 * bytes are free.
 *
 * If the target has taken a page since its maps were read, the sites are planned again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"

static const char pun_taken[] =
	"the address that its bytes would jump to is in use, or where the heap or the stack grows";

/* At the last addresses of each page (13 of 4,096), a jump would cross its end. */
static const char pun_crosses[] =
	"the jump at the address that its bytes would jump to would cross a page";

/* ---- Taking -------------------------------------------------------------------------- */

/* Is it an ended pun's page, which the program has sealed? */
static bool is_spare(const struct change *c, uint64_t page)
{
	const struct registry *r = &c->registry;
	bool spare = false;

	for (size_t i = 0; i < r->arena_count; i++)
		spare = spare || (r->arenas[i].sealed && r->arenas[i].start == page &&
					 r->arenas[i].size == page_bytes());
	for (size_t i = 0; i < r->site_count; i++)
		spare = spare && r->sites[i].pun != page;
	for (size_t i = 0; i < c->taken.count; i++)
		spare = spare && c->taken.items[i].start != page;
	return spare;
}

static const char *take(struct install *install, uint64_t entry)
{
	uint64_t page = page_of(entry), *pages = install->pun_pages;
	size_t jump = install->change->arch->far_jump_length;
	/* The page's index in the sorted array, or where to insert it. */
	size_t at = array_search(pages, install->pun_page_count, sizeof(*pages), 0, page);

	if (install->no_puns)
		return pun_taken;
	/* A jump must be within a page, because it is written in one step. */
	if (page_of(entry + jump - 1) != page)
		return pun_crosses;
	if (code_arena(&install->change->registry, entry))
		return code_take(&install->change->registry, &install->change->taken, entry, jump)
			       ? NULL
			       : pun_taken;
	/* Puns do not share pages, but the page of an ended pun may be used again. */
	if (is_spare(install->change, page))
		return code_keep(&install->change->taken, (struct code_extent){page, page_bytes()})
			       ? NULL
			       : "out of memory";
	if ((at < install->pun_page_count && pages[at] == page) ||
		!space_is_free(&install->change->maps, page, page + page_bytes()))
		return pun_taken;
	if (!ARRAY_ROOM(install->pun_pages, install->pun_page_count))
		return "out of memory";
	pages = install->pun_pages;
	memmove(pages + at + 1, pages + at, (install->pun_page_count++ - at) * sizeof(*pages));
	pages[at] = page;
	return NULL;
}

const char *puns_take(struct install *install, struct arch_pun pun, uint64_t *entry_ret)
{
	uint64_t reach = install->change->arch->jump_reach;
	const char *reason = take(install, *entry_ret = pun.first);

	if (!reason || !pun.step)
		return reason;
	/* Try places above and below the first one in turn, as far as the jump reaches. */
	for (uint64_t far = 0; far < reach - pun.step; far += pun.step) {
		if (!take(install, *entry_ret = pun.first + far) ||
			!take(install, *entry_ret = pun.first - pun.step - far))
			return NULL;
	}
	return reason;
}

const char *puns_take_at(
	struct install *install, const struct select_site *site, size_t offset, unsigned int fixed)
{
	const struct arch *arch = install->change->arch;

	if (site->plan->byte_count < offset + arch->jump_length)
		return plan_code_ends;
	return puns_take(install, arch->pun(site->plan->bytes + offset, site->pc + offset, fixed),
		&install->sites[site - install->selection->sites].entry);
}

const char *puns_take_part(struct install *install, struct arch_extent to, uint64_t *entry_ret)
{
	for (uint64_t at = to.start; at - to.start < to.size; at = page_of(at) + page_bytes())
		if (!take(install, *entry_ret = at))
			return NULL;
	return pun_taken;
}

const char *puns_take_twin(struct install *install, uint64_t at, struct arch_twin *ret)
{
	const struct arch *arch = install->change->arch;

	for (unsigned int i = 0; i < arch->twin_choices; i++) {
		uint64_t page, low, high;

		*ret = arch->twin(at, i);
		page = page_of(ret->first);
		low = ret->first < ret->second ? ret->first : ret->second;
		high = ret->first < ret->second ? ret->second : ret->first;
		/* It must have room for two far jumps, and belong to no arena. */
		if (page_of(low) == page && page_of(high + arch->far_jump_length - 1) == page &&
			high - low >= arch->far_jump_length &&
			!code_arena(&install->change->registry, page) && !take(install, ret->first))
			return NULL;
	}
	return pun_taken;
}

void puns_place(
	const struct registry *registry, uint64_t entry, uint64_t *start_ret, uint32_t *size_ret)
{
	bool in_arena = code_arena(registry, entry);

	*start_ret = in_arena ? entry : page_of(entry);
	*size_ret = in_arena ? arch_host()->far_jump_length : (uint32_t)page_bytes();
}

/* ---- Mapping ------------------------------------------------------------------------- */

static void drop_pages(struct change *change, const uint64_t *pages, size_t count)
{
	struct own_extent *extents = calloc(count + 1, sizeof(*extents));

	for (size_t i = 0; extents && i < count; i++)
		extents[i] = (struct own_extent){pages[i], page_bytes(), OWN_NAMED, false, false};
	/* If unmapping fails, the pages become orphans. */
	if (extents)
		probe_error_free(own_unmap(change, extents, count));
	free(extents);
}

/*
 * Maps code pages at addresses that were free. If *done_ret is less than `count` without an error,
 * the next page is in use.
 */
static struct probe_error *map_pages(
	struct change *change, const uint64_t *pages, size_t count, size_t *done_ret)
{
	struct control_call calls[CHANGE_FILE_CALLS];
	struct probe_error *error;

	*done_ret = 0;
	for (size_t i = 0; i < count; i++)
		calls[i] = change_call_map_code(pages[i], page_bytes());
	/* All map the same page of the file: each gets its own copy when it is written. */
	error = change_map_file(change, page_bytes(), NULL, calls, count, NULL);
	while (*done_ret < count && calls[*done_ret].result == (int64_t)pages[*done_ret])
		++*done_ret;
	if (*done_ret == count)
		return error;
	/* Before 4.17, kernels ignore MAP_FIXED_NOREPLACE, and may map elsewhere. */
	if (!error && calls[*done_ret].result > 0)
		drop_pages(change, &(uint64_t){(uint64_t)calls[*done_ret].result}, 1);
	if (error && calls[*done_ret].result != -EEXIST)
		return error;
	probe_error_free(error);
	return NULL;
}

struct probe_error *puns_map(struct install *install, bool *again_ret)
{
	struct probe_error *error = NULL;

	*again_ret = false;
	while (install->puns_mapped < install->pun_page_count && !error && !*again_ret) {
		size_t left = install->pun_page_count - install->puns_mapped, done;
		size_t count = left < CHANGE_FILE_CALLS ? left : CHANGE_FILE_CALLS;

		error = map_pages(
			install->change, install->pun_pages + install->puns_mapped, count, &done);
		install->puns_mapped += done;
		*again_ret = !error && done < count;
	}
	if (error || *again_ret)
		puns_drop(install);
	if (!error && (*again_ret || install->puns_mapped))
		error = change_reread_maps(install->change);
	return error;
}

void puns_drop(struct install *install)
{
	drop_pages(install->change, install->pun_pages, install->puns_mapped);
	install->puns_mapped = install->pun_page_count = 0;
	code_release_all(&install->change->taken);
}

/*
 * Adds puns' pages as arenas. They are freed with their sites or, if the library is closed, with
 * the last session.
 */
struct probe_error *puns_announce(struct install *install)
{
	for (size_t i = 0; i < install->puns_mapped; i++) {
		struct reg_arena *arena = registry_add_arena(&install->change->registry);
		const struct mapping *m;

		if (!arena)
			return probe_error_no_memory();
		m = maps_find(&install->change->maps, install->pun_pages[i]);
		*arena = (struct reg_arena){
			install->pun_pages[i], page_bytes(), m ? m->inode : 0, 0};
	}
	return install->puns_mapped ? change_store(install->change, true) : NULL;
}

static struct probe_error *write_jumps(const struct install *install)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < install->selection->site_count && !error; i++) {
		const struct install_site *as = &install->sites[i];
		uint8_t jump[ARCH_JUMP_MAX];
		size_t length;

		if (!as->wanted || !as->is_new || !as->head || !as->reg.pun ||
			site_is_chained(&as->reg))
			continue;
		length = install->change->arch->far_jump(as->reg.entry, as->head, jump);
		error = memory_write_code(install->change->mem, as->reg.entry, jump, length);
		if (error || !as->twin.second)
			continue;
		length = install->change->arch->far_jump(as->twin.second, as->reg.tail, jump);
		error = memory_write_code(install->change->mem, as->twin.second, jump, length);
	}
	return error;
}

struct probe_error *puns_write(const struct install *install)
{
	struct probe_error *error = NULL;
	bool any = false, stops;

	for (size_t i = 0; i < install->selection->site_count; i++)
		any = any || install->sites[i].reg.pun;
	if (any)
		error = change_begin_write(install->change, &stops);
	if (!any || error)
		return error;
	error = write_jumps(install);
	change_end_write(install->change, stops);
	return error;
}

/* ---- Hops ------------------------------------------------------------------------------ */

size_t hops_original(
	const struct install *install, const struct install_site *as, uint64_t hop, uint8_t *bytes)
{
	const struct module *module = install_module(install, (size_t)(as - install->sites));

	return module->object ? object_read(module->object, hop - module->bias, bytes,
					install->change->arch->jump_length)
			      : 0;
}

struct probe_error *hops_write(const struct install *install)
{
	const struct change *c = install->change;
	size_t length = c->arch->jump_length;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < install->selection->site_count && !error; i++) {
		const struct install_site *as = &install->sites[i];
		uint8_t found[ARCH_JUMP_MAX];

		if (!as->wanted || !as->is_new || as->joins || as->first != i || !as->reg.hop)
			continue;
		if (memory_read(c->pid, as->reg.hop, found, length) != length ||
			memcmp(found, as->reg.hop_original, length) != 0)
			error = probe_error_new(PROBE_ERROR_REFUSED,
				"process %d: the memory at %#jx is not as it was: another tool may "
				"have patched it",
				c->pid, (uintmax_t)as->reg.hop);
		else
			error = memory_write_code(c->mem, as->reg.hop, as->reg.hop_patched, length);
	}
	return error;
}

struct probe_error *hops_give_back(const struct change *change, const bool *sites)
{
	const struct registry *r = &change->registry;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < r->site_count && !error; i++)
		if (sites[i] && r->sites[i].hop && site_has_hop(&r->sites[i], change->pid))
			error = memory_write_code(change->mem, r->sites[i].hop,
				r->sites[i].hop_original, change->arch->jump_length);
	return error;
}
