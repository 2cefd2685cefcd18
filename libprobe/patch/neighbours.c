/* SPDX-License-Identifier: MIT */
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
 * The exit of a short function shares the jump at the function's entry (plan.c, "Exits beside
 * entries"). The instructions between the two are moved, too, to where the entry's stubs lead:
 *
 *   start:  mov
 *           jmp -----> entry:  jmp stubs ---> of the function's entry
 *   exit:   ret                                  |
 *                      the moved add <-----------'
 *                      entry:  jmp stubs ---> of the exit
 *                      tail:   the moved ret <---'
 *
 * Where only a short jump fits, it leads to a full jump in unused bytes, the hop. The hop leads to
 * the entries; a single site then has an entry, too. The hop is written before the short jump. The
 * bytes of the hop are restored when no thread is at the hop any more.
 */
#include "libprobe/base/array.h"
#include "libprobe/patch/patch.h"

enum { ENTRY_BYTES = 8 }; /* aligned to this size, no entry crosses a page */

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

/* Returns the exit that shares the jump of a site, or 0. */
static uint64_t exit_of(const struct select_site *site)
{
	const struct plan_way *way = plan_way(site->plan, site->chosen);

	return way->has_exit ? site->pc + (uint64_t)way->offset + way->exit_at : 0;
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
	size_t first = a->neighbour_count, notes = module->notes.count;
	uint64_t start = site->pc + (site->plan->row < 0 ? (uint64_t)site->plan->row : 0);

	/* A function's entry and exit are in no note: the last two rounds are about them. */
	for (size_t k = 0; k < notes + 2; k++) {
		uint64_t pc = k < notes	   ? module->notes.notes[k].pc + module->bias
			      : k == notes ? start
					   : exit_of(site);

		if (!pc || (k < notes && (pc < start - move->lead || pc >= reg->patch)) ||
			find_neighbour(a, pc) ||
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
		       : build_too_far(reg);
}

/* Leaves room for an entry. */
static uint64_t add_entry(const struct install *a, struct piece *p)
{
	uint64_t entry = p->start + p->used;

	arch_fill(a->change->arch, p->bytes + p->used, ENTRY_BYTES);
	p->used += ENTRY_BYTES;
	return entry;
}

/*
 * Builds the copy of what is between the patch and an exit, up to the exit's entry, and then the
 * copy of the exit.
 */
static struct probe_error *build_exit(struct install *a, size_t i, struct piece *p)
{
	const struct arch *arch = a->change->arch;
	const struct select_site *site = &a->selection->sites[i];
	const struct plan_way *move = plan_way(site->plan, site->chosen);
	struct install_site *as = &a->sites[i];
	struct arch_moved *moved = &as->moved;
	const uint8_t *bytes;
	size_t size = plan_code(site->plan, move->offset, &bytes);

	/* The copy has the same length wherever it is, and ends where an entry may be. */
	for (int is_placed = 0; is_placed < 2; is_placed++) {
		size_t skip =
			is_placed ? -(p->start + p->used + moved->code_length) % ENTRY_BYTES : 0;

		arch_fill(arch, p->bytes + p->used, skip);
		p->used += skip;
		as->moved_to = p->start + p->used;
		if (arch->move(bytes, size, as->reg.patch, as->moved_to, move->exit_at, moved) !=
			ARCH_MOVE_OK)
			return probe_error_new(PROBE_ERROR_REFUSED,
				"the instructions at %#jx cannot be moved to %#jx",
				(uintmax_t)as->reg.patch, (uintmax_t)as->moved_to);
	}
	memcpy(p->bytes + p->used, moved->code, moved->code_length);
	p->used += moved->code_length;
	add_entry(a, p);
	as->reg.covers = move->length;
	return build_leave(a, as, exit_of(site), bytes + move->exit_at, size - move->exit_at,
		move->jump > move->exit_at ? move->jump - move->exit_at : 1, p);
}

/* Builds the entries of all sites that share a jump, and the tail after them. */
static struct probe_error *build_entries(struct install *a, size_t i, struct piece *p)
{
	const struct arch *arch = a->change->arch;
	const struct select_site *site = &a->selection->sites[i];
	const struct plan_way *move = plan_way(site->plan, site->chosen);
	struct install_site *as = &a->sites[i];
	struct reg_site *reg = &as->reg;
	size_t first = a->neighbour_count, count;
	const uint8_t *bytes;
	uint64_t entry;
	struct probe_error *error;

	reg->patch = site->pc + (uint64_t)move->offset;
	error = add_neighbours(a, i);
	if (error)
		return error;
	count = a->neighbour_count - first;
	if (move->has_exit && a->neighbours[a->neighbour_count - 1].pc != exit_of(site))
		return build_too_far(reg);
	plan_code(site->plan, move->offset, &bytes);
	build_skip(arch, p, 0);
	entry = p->start + p->used;
	for (size_t k = move->has_exit; k < count; k++)
		add_entry(a, p);
	error = move->has_exit ? build_exit(a, i, p) : build_tail(a, i, move, p);
	for (size_t k = 0; k < count && !error; k++, entry += ENTRY_BYTES) {
		struct reg_site *to = &a->neighbours[first + k];
		bool is_exit = to->pc == exit_of(site);
		uint64_t pc = to->pc;

		/* The moved code between the patch and the exit precedes the entry of the exit. */
		if (is_exit)
			entry = as->moved_to;
		if (k == 0)
			error = build_jump(a, as, entry, reg);
		*to = *reg;
		to->pc = pc;
		to->pun = entry;
		to->entry = is_exit ? entry + as->moved.to_offset[as->moved.count - 1] : entry;
		to->pun_size = (uint32_t)(to->entry - to->pun) + arch->jump_length;
		if (k < count - 1) {
			to->tail = move->has_exit && k == count - 2 ? as->moved_to
								    : entry + ENTRY_BYTES;
			to->tail_size = 0;
		}
		memcpy(to->original, bytes, to->length);
		error = error ?: neighbours_lead(a, to, to->tail, p);
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
	return ((size_t)move->lead + (move->offset > 0 ? (size_t)move->offset : 0) +
		       (move->has_exit ? 3 : 1)) *
		       ENTRY_BYTES +
	       ARCH_STUB_ALIGN;
}
