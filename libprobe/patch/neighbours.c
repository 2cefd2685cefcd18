/* SPDX-License-Identifier: MIT */
/*
 * Sites whose nops follow each other share one jump, after the last nop. It leads to an entry for
 * each of them, in their order, whether they are wanted or not. So any controller switches each of
 * them by its own entry, and the jump stays as it is:
 *
 *   site:   nop
 *   site:   nop
 *           jmp -----> entry:  jmp stubs ---> of the first site
 *                                                |
 *                      entry:  jmp next <--------' the second one is off
 *                      tail:   the moved instructions
 *
 * A short jump leads to a jump in unused bytes, which leads to the entry; this holds for a single
 * site, too. That jump is written before the short one, and given back when no thread is at it any
 * more (puns.h), as the pages of puns are.
 */
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/patch/patch.h"

enum { ENTRY_BYTES = 8 }; /* so aligned, none crosses a page */

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

/* Does a site that another site's jump would also serve have a patch of its own? */
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

/* Adds all sites that share the jump of a site, which alone is described, in their order. */
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

/* Describes the jump, and where a short one leads to. */
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

/* Makes entries for a site and all that share its jump, and the tail after them. */
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
