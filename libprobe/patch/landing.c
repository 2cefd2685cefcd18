/* SPDX-License-Identifier: MIT */
/*
 * Memory for puns, at arbitrary addresses, because a site's bytes determine where its jump leads
 * (struct arch, pun). A change maps these pages before all other memory, so that no arena or data
 * takes their place. If an arena is already at the jump's target, the jump to the stub is written
 * into it, if the bytes are free.
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

/* At the last addresses of each page (13 of 4,096), a jump would cross the page's end. */
static const char pun_crosses[] =
	"the jump at the address that its bytes would jump to would cross a page";

/* ---- Taking -------------------------------------------------------------------------- */

struct module *install_module(const struct install *install, size_t site)
{
	return install->selection->probes[install->selection->sites[site].probe].module;
}

size_t install_module_end(const struct install *install, size_t from)
{
	const struct module *module = install_module(install, install->order[from]);

	while (from < install->order_count &&
		install_module(install, install->order[from]) == module)
		from++;
	return from;
}

bool install_is_gate(const struct install *install)
{
	const struct selection *s = install->selection;

	return s->site_count && s->sites[0].note->kind == SDT_GATE;
}

/* Returns true for an ended pun's page that the program has sealed. */
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
	uint64_t page = page_of(entry), *pages = install->puns.pages;
	size_t jump = install->change->arch->far_jump_length;
	/* The page's index in the sorted array, or where to insert it. */
	size_t at = array_search(pages, install->puns.page_count, sizeof(*pages), 0, page);

	if (install->puns.none)
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
	if ((at < install->puns.page_count && pages[at] == page) ||
		!space_is_free(&install->change->maps, page, page + page_bytes()))
		return pun_taken;
	if (!ARRAY_ROOM(install->puns.pages, install->puns.page_count))
		return "out of memory";
	pages = install->puns.pages;
	memmove(pages + at + 1, pages + at, (install->puns.page_count++ - at) * sizeof(*pages));
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
		/* The page must have room for two far jumps, and belong to no arena. */
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
	/*
	 * All calls map the same page of the file; each mapping gets its own copy when it is
	 * written.
	 */
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
	while (install->puns.mapped < install->puns.page_count && !error && !*again_ret) {
		size_t left = install->puns.page_count - install->puns.mapped, done;
		size_t count = left < CHANGE_FILE_CALLS ? left : CHANGE_FILE_CALLS;

		error = map_pages(
			install->change, install->puns.pages + install->puns.mapped, count, &done);
		install->puns.mapped += done;
		*again_ret = !error && done < count;
	}
	if (error || *again_ret)
		puns_drop(install);
	if (!error && (*again_ret || install->puns.mapped))
		error = change_reread_maps(install->change);
	return error;
}

void puns_drop(struct install *install)
{
	drop_pages(install->change, install->puns.pages, install->puns.mapped);
	install->puns.mapped = install->puns.page_count = 0;
	code_release_all(&install->change->taken);
}

/*
 * Adds puns' pages as arenas. They are freed with their sites or, if the library is closed, with
 * the last session.
 */
struct probe_error *puns_announce(struct install *install)
{
	for (size_t i = 0; i < install->puns.mapped; i++) {
		struct reg_arena *arena = registry_add_arena(&install->change->registry);
		const struct mapping *m;

		if (!arena)
			return probe_error_no_memory();
		m = maps_find(&install->change->maps, install->puns.pages[i]);
		*arena = (struct reg_arena){
			install->puns.pages[i], page_bytes(), m ? m->inode : 0, 0};
	}
	return install->puns.mapped ? change_store(install->change, true) : NULL;
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

/* ==== Tails =================================================================================== */

void build_skip(const struct arch *arch, struct piece *p, size_t length)
{
	length += -(p->start + p->used + length) % ARCH_STUB_ALIGN;
	arch_fill(arch, p->bytes + p->used, length);
	p->used += length;
}

struct probe_error *build_tail(
	struct install *a, size_t i, const struct plan_way *move, struct piece *p)
{
	const struct arch *arch = a->change->arch;
	const struct select_site *site = &a->selection->sites[i];
	struct install_site *as = &a->sites[i];
	struct reg_site *reg = &as->reg;
	enum arch_move_status status;
	const uint8_t *bytes;
	size_t size = plan_code(site->plan, move->offset, &bytes);

	build_skip(arch, p, 0);
	reg->patch = site->pc + (uint64_t)move->offset;
	reg->tail = p->start + p->used;
	status = arch->move(bytes, size, reg->patch, reg->tail, move->jump, &as->moved);
	if (status != ARCH_MOVE_OK && !(status == ARCH_MOVE_FLOW_INSIDE && as->moved.padding))
		return probe_error_new(PROBE_ERROR_REFUSED,
			"the instructions at %#jx cannot be moved to %#jx", (uintmax_t)reg->patch,
			(uintmax_t)reg->tail);
	as->moved_to = reg->tail;
	memcpy(p->bytes + p->used, as->moved.code, as->moved.code_length);
	p->used += as->moved.code_length;
	if (as->moved.falls_through)
		p->used += arch->jump(
			p->start + p->used, reg->patch + as->moved.length, p->bytes + p->used);
	reg->tail_size = p->start + p->used - reg->tail;
	reg->covers = as->moved.length;
	return NULL;
}

/* ==== Neighbours ============================================================================== */

/*
 * Sites whose nops follow each other share one jump, after the last nop. The jump leads to a row of
 * entries. Each site has an entry, in the order of the sites, whether the site is traced or not. To
 * switch a site, a controller changes only the site's entry, and the jump stays as it is:
 *
 *   site:   nop
 *   site:   nop
 *           jmp -----> entry:  jmp stubs ---> of the first site
 *                                                |
 *                      entry:  jmp next <--------' the second site is off
 *                      tail:   the moved instructions
 *
 * Where only a short jump fits, it leads to a full jump in unused bytes, the hop. The hop leads to
 * the entries; a single site then has an entry, too. The hop is written before the short jump. The
 * bytes of the hop are restored when no thread is at the hop any more.
 */

enum { ENTRY_BYTES = 8 }; /* aligned to this size, no entry crosses a page */

static struct probe_error *too_far(const struct reg_site *reg)
{
	return probe_error_new(
		PROBE_ERROR_REFUSED, "no stub can be placed near %#jx", (uintmax_t)reg->pc);
}

static struct reg_site *find_neighbour(const struct install *a, uint64_t pc)
{
	for (size_t i = 0; i < a->neighbour_count; i++)
		if (a->neighbours[i].pc == pc)
			return &a->neighbours[i];
	return NULL;
}

/* Returns true if a site that could share another site's jump has a patch of its own. */
static bool has_own_patch(const struct install *a, uint64_t pc, const struct plan_ops *plan)
{
	const struct selection *s = a->selection;

	if (registry_site(&a->change->registry, pc))
		return true;
	for (size_t k = 0; k < a->order_count; k++)
		if (s->sites[a->order[k]].pc == pc)
			return s->sites[a->order[k]].chosen != plan && s->sites[a->order[k]].chosen;
	return false;
}

/*
 * Adds all sites that share the jump of site `i`, in ascending order, each described like site `i`.
 */
static struct probe_error *add_neighbours(struct install *a, size_t i)
{
	const struct select_site *site = &a->selection->sites[i];
	const struct plan_way *move = plan_way(site->plan, site->chosen);
	const struct module *module = install_module(a, i);
	const struct reg_site *reg = &a->sites[i].reg;
	size_t first = a->neighbour_count;

	for (size_t k = 0; k < module->notes.count; k++) {
		uint64_t pc = module->notes.notes[k].pc + module->bias;

		if (pc < site->pc - move->lead || pc >= reg->patch || find_neighbour(a, pc) ||
			(pc != site->pc && has_own_patch(a, pc, site->chosen)))
			continue;
		if (!ARRAY_ROOM(a->neighbours, a->neighbour_count))
			return probe_error_no_memory();
		a->neighbours[a->neighbour_count] = *reg;
		a->neighbours[a->neighbour_count++].pc = pc;
	}
	array_sort(a->neighbours + first, a->neighbour_count - first, sizeof(*a->neighbours),
		offsetof(struct reg_site, pc));
	return NULL;
}

struct probe_error *neighbours_lead(
	const struct install *a, const struct reg_site *reg, uint64_t to, struct piece *p)
{
	return a->change->arch->jump(reg->entry, to, p->bytes + (reg->entry - p->start))
		       ? NULL
		       : too_far(reg);
}

/* Describes the site's jump and the hop, if any. */
static struct probe_error *describe_jump(const struct install *a, const struct install_site *as,
	uint64_t entry, struct reg_site *reg)
{
	const struct arch *arch = a->change->arch;

	if (!as->hop)
		return arch->jump(reg->patch, entry, reg->patched) ? NULL : too_far(reg);
	reg->hop = as->hop;
	reg->length = arch->short_jump_length;
	if (hops_original(a, as, reg->hop, reg->hop_original) != arch->jump_length ||
		!arch->jump(reg->hop, entry, reg->hop_patched) ||
		!arch->short_jump(reg->patch, reg->hop, reg->patched))
		return too_far(reg);
	return NULL;
}

/* Builds the entries of all sites that share a jump, and the tail after them. */
static struct probe_error *build_entries(struct install *a, size_t i, struct piece *p)
{
	const struct arch *arch = a->change->arch;
	const struct select_site *site = &a->selection->sites[i];
	const struct plan_way *move = plan_way(site->plan, site->chosen);
	struct reg_site *reg = &a->sites[i].reg;
	size_t first = a->neighbour_count, count;
	const uint8_t *bytes;
	uint64_t entry;
	struct probe_error *error;

	reg->patch = site->pc + (uint64_t)move->offset;
	error = add_neighbours(a, i);
	if (error)
		return error;
	count = a->neighbour_count - first;
	plan_code(site->plan, move->offset, &bytes);
	build_skip(arch, p, 0);
	entry = p->start + p->used;
	arch_fill(arch, p->bytes + p->used, count * ENTRY_BYTES);
	p->used += count * ENTRY_BYTES;
	error = build_tail(a, i, move, p);
	if (!error)
		error = describe_jump(a, &a->sites[i], entry, reg);
	for (size_t k = 0; k < count && !error; k++, entry += ENTRY_BYTES) {
		struct reg_site *to = &a->neighbours[first + k];
		uint64_t pc = to->pc;

		*to = *reg;
		to->pc = pc;
		to->entry = to->pun = entry;
		to->pun_size = arch->jump_length;
		if (k < count - 1) {
			to->tail = entry + ENTRY_BYTES;
			to->tail_size = 0;
		}
		memcpy(to->original, bytes, to->length);
		error = neighbours_lead(a, to, to->tail, p);
	}
	return error;
}

struct probe_error *neighbours_describe(struct install *a, size_t i, struct piece *p)
{
	struct install_site *as = &a->sites[i];
	struct probe_error *error = NULL;

	as->joins = find_neighbour(a, as->reg.pc) != NULL;
	if (!as->joins)
		error = build_entries(a, i, p);
	if (!error)
		as->reg = *find_neighbour(a, as->reg.pc);
	return error;
}

size_t neighbours_bytes(const struct install *a, size_t i, uint64_t *patch_inout)
{
	const struct select_site *site = &a->selection->sites[i];
	const struct plan_way *move = plan_way(site->plan, site->chosen);
	uint64_t patch = site->pc + (uint64_t)move->offset;

	if ((!a->sites[i].hop && !plan_is_shared(site->plan, site->chosen)) ||
		*patch_inout == patch)
		return 0;
	*patch_inout = patch;
	return ((size_t)move->lead + (size_t)move->offset) * ENTRY_BYTES + ARCH_STUB_ALIGN;
}
