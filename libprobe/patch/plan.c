/* SPDX-License-Identifier: MIT */
/*
 * Which plans a site's bytes allow, if others use the site as well.
 *
 * We are not alone at a site. Kernel uprobes (perf, bpftrace, SystemTap) and debuggers
 * put a breakpoint on the nop. When it is hit, the instruction that the *file* has there
 * is executed elsewhere, and the thread continues where that instruction ends:
 *
 *	site:	nop	or a breakpoint, while another tool uses it
 *	back:	jump	ours, where a thread continues in both cases	(behind)
 *
 * A jump that begins at the nop itself is entered at its second byte then, and the
 * target crashes. So the jump lies after the nop, on instructions that are moved. It
 * does so after longer nops, too: the kernel turns a nop of five bytes, or one of ten,
 * into a call of its own for as long as it has a uprobe there (arch_uprobe_optimize(),
 * arch/x86/kernel/uprobes.c; Linux 6.18 and later), and usdt.h writes a nop of one byte
 * and a longer one, and the kernel may use either. Whatever those bytes hold is the
 * kernel's business, and no reason to refuse.
 *
 * If the instructions after it must stay, a pun changes only the first byte of the nop:
 * a breakpoint there replaces ours, and its thread continues at bytes of the file;
 * nothing is counted until we write the byte again. It must not rely on the nop of another site:
 * a breakpoint there would lead the jump elsewhere.
 *
 * Sites may be adjacent, one nop after the other. Each nop may have a breakpoint of
 * another tool, so all of them stay, and one jump after the last is the patch of all
 * (libprobe/patch/neighbours.c). That is correct if nothing enters right after one of them:
 * then a thread that reaches the jump has passed all their nops. Rows of short nops may be long
 * (libprobe/patch/rows.c), those with longer nops between have up to PLAN_NOPS_MAX bytes.
 *
 * A long nop is punned, too, if another tool may use it as a site: when the kernel leaves,
 * it restores one byte (or all, if it had rewritten them), and the following bytes must
 * form a nop with it (arch/x86/patch.c).
 *
 * If there is no room for the jump after the nop, there may be room for a short one, which
 * leads to bytes near by that are nobody's and hold the other jump (libprobe/patch/spares.c):
 *
 *	site:	nop
 *		short jump ---.	   over two bytes or more that can be moved
 *	other:	...	      |
 *		ret	      |
 *	spare:	jump <--------'	   in the padding between two functions
 *
 * Where there is not even that, two jumps may share bytes, or a jump may end in the code's own
 * bytes (libprobe/patch/tight.c).
 *
 * OCaml's own tools write the toggle after the nop at any moment. So its sites are traced by a jump
 * before the nop (libprobe/patch/before.c). If that is impossible, the toggle becomes a call of
 * ours: OCaml's tools do not touch what follows their byte.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/patch/patch.h"

enum { PAGE = 4096 };	   /* the smallest of any kernel; a module is not moved within it */
enum { LOWEST = 0x10000 }; /* vm.mmap_min_addr is at most this */
_Static_assert(PLAN_NOPS_MAX + ARCH_INSN_MAX < PLAN_BYTES, "what is moved has to fit as well");

const enum probe_plan plan_default_order[PLAN_DEFAULTS] = {PROBE_PLAN_TOGGLE, PROBE_PLAN_BEHIND,
	PROBE_PLAN_HOP, PROBE_PLAN_PUN, PROBE_PLAN_LONG_NOP, PROBE_PLAN_BEFORE, PROBE_PLAN_TWIN,
	PROBE_PLAN_PART, PROBE_PLAN_CALL};

const char plan_entry_provider[] = "probectl";

static const char none_possible[] = "none of the requested plans is possible there";

static const char no_short_nop[] =
	"its nop is as long as a jump, which none of the requested plans is for: use behind or nop";

const char plan_crosses[] = "the jump would cross a page, and could not be written in one step";

const char plan_no_decoder[] =
	"libcapstone.so.4 cannot be loaded: is it installed, and is there enough memory?";

static const char no_spare[] =
	"no five unused bytes are within reach of a short jump after the nop";

static const char no_nop[] = "the bytes there are not the nop that the note promises";

const char plan_in_distance[] = "the nop of another site, where other tools put breakpoints, "
				"would be part of the jump's distance";

const char plan_leads_nowhere[] =
	"the address that its bytes would jump to is in the file itself, or below all memory";

bool plan_is_ocaml(const char *provider)
{
	static const char *const providers[] = {"ocaml", "ocaml.1", "ocaml_1", "ocaml_2"};

	for (size_t i = 0; i < sizeof(providers) / sizeof(*providers); i++)
		if (strcmp(provider, providers[i]) == 0)
			return true;
	return false;
}

/* ---- What the bytes say -------------------------------------------------------------- */

static bool is_page_of(const struct object *object, uint64_t page)
{
	const struct object_segment *segments;
	size_t count;

	segments = object_segments(object, &count);
	for (size_t i = 0; i < count; i++)
		if (page + PAGE > segments[i].address &&
			page < segments[i].address + segments[i].size)
			return true;
	return false;
}

bool plan_can_lead(const struct object *object, struct arch_extent to)
{
	bool is_fixed = object_type(object) == ET_EXEC;

	for (uint64_t at = to.start; at - to.start < to.size; at = (at & ~(PAGE - 1ULL)) + PAGE) {
		uint64_t page = at & ~(PAGE - 1ULL);

		/* Link-time addresses before a file that is mapped anywhere are as good as others.
		 */
		if (!is_page_of(object, page) && (!is_fixed || (int64_t)page >= LOWEST))
			return true;
	}
	return false;
}

static size_t nop_at(const struct arch *arch, const struct plan *plan, size_t at)
{
	return arch->nop_length(plan->bytes + at, plan->byte_count - at);
}

/* Is it the nop of <sys/sdt.h>, with no room for a jump? */
static bool is_short_nop(const struct arch *arch, size_t length)
{
	return length == arch->site_nop && length < arch->jump_length;
}

/*
 * How many bytes may get breakpoints of others, so how far after the site a jump may begin:
 * its nop, those that follow and are sites, too, and after the last of them the long nop of
 * usdt.h.
 */
static size_t nops_length(const struct arch *arch, const struct rows *rows, const struct plan *plan,
	bool *is_followed_ret)
{
	size_t last = nop_at(arch, plan, 0), at = last;

	while (at && at < PLAN_NOPS_MAX) {
		size_t next = nop_at(arch, plan, at);
		bool named = next && rows_have_site(rows, plan->pc + at, 1);

		if (at + next > PLAN_NOPS_MAX ||
			!(named || (next >= arch->jump_length && is_short_nop(arch, last))))
			break;
		at += next;
		last = next;
		if (!named)
			break;
		*is_followed_ret = true;
	}
	return at;
}

/*
 * A function's entry has no nop, but may have a breakpoint as well. The thread continues after
 * the first instruction, so that instruction stays, unless the jump is no longer than it, or it
 * leads elsewhere anyway.
 */
static void plan_entry(const struct arch *arch, struct plan *plan)
{
	struct arch_insn insn;

	if (arch->can_decode && !arch->can_decode())
		return; /* said by plan_moves() */
	if (!arch->decode(plan->bytes, plan->byte_count, plan->pc, &insn))
		plan->behind.cannot = "the first instruction cannot be decoded";
	else if (insn.flow == ARCH_FLOW_NONE && insn.length < arch->jump_length)
		plan->behind.offset = insn.length;
	else if (insn.length < arch->jump_length &&
		 (insn.flow == ARCH_FLOW_BRANCH || insn.flow == ARCH_FLOW_INDIRECT_CALL))
		plan->behind.cannot = "the first instruction may jump elsewhere and come back";
}

/* Does OCaml's toggle, on or off, follow a nop of this length? */
static bool has_toggle(const struct arch_toggle *toggle, const struct plan *plan, size_t first)
{
	uint8_t byte = toggle ? plan->bytes[toggle->offset] : 0;

	return toggle && first == toggle->offset &&
	       plan->byte_count >= (size_t)toggle->offset + toggle->covers &&
	       (byte == toggle->off || byte == toggle->on);
}

/* A pun leaves no choice. */
static bool may_pun(const struct object *object, const struct arch *arch, const struct plan *plan)
{
	unsigned int fixed = arch->jump_length - arch->pun_length;
	struct arch_extent to = {.size = 1};

	if (plan->byte_count < arch->jump_length)
		return true; /* said where it is taken */
	to.start = arch->pun(plan->bytes, plan->pc, fixed).first;
	return plan_can_lead(object, to);
}

/* What the bytes of a site say by themselves. */
static void plan_bytes(const struct object *object, const struct arch *arch,
	const struct rows *rows, bool ocaml, struct plan *plan)
{
	size_t first = nop_at(arch, plan, 0), second = first ? nop_at(arch, plan, first) : 0;

	plan->short_nop = is_short_nop(arch, first);
	if (arch->pun_length && rows_have_site(rows, plan->pc + arch->pun_length,
					arch->jump_length - (size_t)arch->pun_length))
		plan->pun_cannot = plan_in_distance;
	else if (arch->pun_length && !may_pun(object, arch, plan))
		plan->pun_cannot = plan_leads_nowhere;
	plan->behind.offset = (uint8_t)nops_length(arch, rows, plan, &plan->is_followed);
	if (first >= arch->jump_length) {
		plan->nop_length = first;
	} else if (plan->short_nop && second >= arch->jump_length) {
		plan->nop_offset = first;
		plan->nop_length = second;
	}
	if (plan->nop_length && arch->nop_fixed)
		plan->nop_fixed = arch->nop_fixed(
			plan->bytes + plan->nop_offset, plan->nop_length, plan->nop_offset == 0);
	plan->ocaml = ocaml && has_toggle(arch->toggle, plan, first);
	if (plan->ocaml) /* what follows the toggle does not matter */
		plan->byte_count = (size_t)arch->toggle->offset + arch->toggle->covers;
	if (!first)
		plan->behind.cannot = no_nop;
}

/* ---- Planning -------------------------------------------------------------------------- */

bool plan_is_asked(const enum probe_plan *order, size_t count, enum probe_plan plan)
{
	for (size_t i = 0; i < count; i++)
		if (order[i] == plan)
			return true;
	return false;
}

/* What the file has at a note's site. */
static struct plan read_plan(struct object *object, const struct arch *arch,
	const struct rows *rows, const struct sdt_note *note)
{
	const struct object_segment *segment = object_segment_of(object, note->pc);
	struct plan plan = {.pc = note->pc};

	plan.behind.jump = arch->jump_length;
	plan.hop.jump = arch->short_jump_length;
	if (!segment || !segment->executable)
		return plan;
	plan.byte_count = object_read(object, plan.pc, plan.bytes, PLAN_BYTES);
	if (note->provider == plan_entry_provider)
		plan_entry(arch, &plan);
	else
		plan_bytes(object, arch, rows, plan_is_ocaml(note->provider), &plan);
	return plan;
}

/* A site that may share the jump of another one, after it; to be proved. */
struct neighbour {
	struct plan plan;
	size_t of; /* index of the other's plan */
};

struct neighbours {
	struct neighbour *items;
	size_t count;
};

/* What is planned at once. */
struct planning {
	struct object *object;
	const struct arch *arch;
	const struct sdt_notes *all;
	struct plan *plans;
	size_t count;
	const struct rows *rows;
	struct neighbours neighbours;
	struct proof *proofs; /* room for all that are asked together */
};

/* Adds those of a plan, but for the others of its row; false without memory. */
static bool find_neighbours(struct planning *p, size_t of)
{
	const struct plan *plan = &p->plans[of];
	uint64_t patch = plan->pc + plan->behind.offset;
	struct neighbours *neighbours = &p->neighbours;
	uint64_t reach = plan->pc < PLAN_NOPS_MAX ? plan->pc : PLAN_NOPS_MAX - 1;
	size_t i = rows_first(p->rows, plan->pc - reach), end = rows_first(p->rows, plan->pc);

	for (; i < end; i++) {
		const struct sdt_note *note = p->rows->all[i].note;
		struct plan before;

		if (rows_have_next(p->rows, note->pc))
			continue;
		before = read_plan(p->object, p->arch, p->rows, note);
		if (before.behind.cannot || before.pc + before.behind.offset != patch)
			continue;
		if (!ARRAY_ROOM(neighbours->items, neighbours->count))
			return false;
		neighbours->items[neighbours->count++] = (struct neighbour){before, of};
	}
	return true;
}

/* What enters after a site enters after all those before it, too. */
static void take_lead(const struct plan *before, const struct plan_move *move,
	const struct plan *plan, struct plan_move *ret)
{
	if (move->length && plan->pc - before->pc > ret->lead)
		ret->lead = (uint16_t)(plan->pc - before->pc);
}

static void take_neighbours(const struct neighbours *neighbours, struct plan *plans)
{
	for (size_t i = 0; i < neighbours->count; i++) {
		const struct plan *before = &neighbours->items[i].plan;
		struct plan *plan = &plans[neighbours->items[i].of];

		take_lead(before, &before->behind, plan, &plan->behind);
		take_lead(before, &before->hop, plan, &plan->hop);
	}
}

static struct proof ask(const struct plan *plan, struct plan_move *move)
{
	return (struct proof){.plan = plan,
		.move = move,
		.window = (uint8_t)(move->offset + move->jump),
		.need = move->jump};
}

/* Proves the first `count` of them. */
static struct probe_error *prove_moves(const struct planning *p, size_t count)
{
	if (!count)
		return NULL;
	if (p->arch->can_decode && !p->arch->can_decode())
		return probe_error_new(PROBE_ERROR_UNSUPPORTED, "%s", plan_no_decoder);
	return prove(p->object, p->arch, p->all, p->proofs, count);
}

/* Proves which instructions after the nops can be moved. */
static struct probe_error *plan_moves(const struct planning *p)
{
	size_t asked = 0;

	for (size_t i = 0; i < p->neighbours.count; i++)
		p->proofs[asked++] =
			ask(&p->neighbours.items[i].plan, &p->neighbours.items[i].plan.behind);
	for (size_t i = 0; i < p->count; i++) {
		struct plan *plan = &p->plans[i];

		if (plan->byte_count && !plan->ocaml && !plan->behind.cannot)
			p->proofs[asked++] = ask(plan, &plan->behind);
	}
	return prove_moves(p, asked);
}

/* Can instructions be moved, and a jump be written there, wherever the object is mapped? */
static bool fits(const struct plan *plan, const struct plan_move *move)
{
	uint64_t patch = plan->pc + move->offset;

	return move->length && patch / PAGE == (patch + move->jump - 1) / PAGE;
}

/* Hops, if the jump after the nop is not possible; at a function's entry other plans are used. */
static struct probe_error *plan_hops(const struct planning *p)
{
	struct probe_error *error;
	size_t asked = 0;

	for (size_t i = 0; i < p->count; i++) {
		struct plan *plan = &p->plans[i];

		plan->hop.offset = plan->behind.offset;
		if (plan->byte_count && !plan->ocaml && plan->hop.offset &&
			nop_at(p->arch, plan, 0) && !fits(plan, &plan->behind))
			p->proofs[asked++] = ask(plan, &plan->hop);
	}
	for (size_t i = 0; i < p->neighbours.count; i++) {
		struct plan *before = &p->neighbours.items[i].plan;
		const struct plan *after = &p->plans[p->neighbours.items[i].of];

		before->hop.offset = before->behind.offset;
		if (!fits(after, &after->behind))
			p->proofs[asked++] = ask(before, &before->hop);
	}
	error = prove_moves(p, asked);
	if (!error)
		error = prove_spares(p->object, p->arch, p->all, p->rows, p->plans, p->count);
	for (size_t i = 0; i < p->count; i++)
		if (p->plans[i].hop.length && !p->plans[i].spare_count)
			p->plans[i].hop.cannot = no_spare;
	return error;
}

/* All that is asked for, of sites that do not share a row. */
static struct probe_error *plan_all(
	struct planning *p, const enum probe_plan *order, size_t order_count)
{
	bool hop = p->arch->short_jump_length && plan_is_asked(order, order_count, PROBE_PLAN_HOP);
	struct probe_error *error = NULL;

	for (size_t i = 0; i < p->count; i++) {
		const struct sdt_note *note = p->rows->notes[i];
		struct plan *plan = &p->plans[i];

		*plan = read_plan(p->object, p->arch, p->rows, note);
		if (plan->byte_count && !plan->ocaml && !plan->behind.cannot &&
			note->provider != plan_entry_provider && !find_neighbours(p, i))
			return probe_error_no_memory();
	}

	p->proofs = calloc(p->count + p->neighbours.count + 1, sizeof(*p->proofs));
	if (!p->proofs)
		return probe_error_no_memory();
	if (plan_is_asked(order, order_count, PROBE_PLAN_BEHIND))
		error = plan_moves(p);
	if (!error && hop)
		error = plan_hops(p);
	if (!error)
		take_neighbours(&p->neighbours, p->plans);
	return error;
}

/* Plans the sites that the rows leave, and from these all that were asked for. */
static struct probe_error *plan_rows(struct planning *p, struct rows *rows,
	const struct sdt_note *const *notes, size_t count, const enum probe_plan *order,
	size_t order_count, struct plan *ret)
{
	AUTO_FREE struct plan *plans = calloc(rows->note_count + 1, sizeof(*plans));
	struct probe_error *error = plans ? NULL : probe_error_no_memory();

	p->rows = rows;
	p->plans = plans;
	p->count = rows->note_count;
	if (!error)
		error = plan_all(p, order, order_count);
	if (!error && (plan_is_asked(order, order_count, PROBE_PLAN_BEHIND) ||
			      plan_is_asked(order, order_count, PROBE_PLAN_HOP)))
		error = rows_prove(rows, p->object, p->arch, p->all);
	for (size_t i = 0; i < count && !error; i++)
		ret[i] = rows_plan(rows, plans, notes[i], i);
	free(p->proofs);
	free(p->neighbours.items);
	return error;
}

struct probe_error *plan_sites(struct object *object, const struct sdt_notes *all,
	const struct sdt_note *const *notes, size_t count, const enum probe_plan *order,
	size_t order_count, struct plan *ret)
{
	const struct arch *arch = arch_of_machine(object_machine(object));
	struct planning p = {.object = object, .arch = arch, .all = all};
	struct rows rows = {0};
	struct probe_error *error;

	if (!arch || !arch->scan || !object_is_64bit(object))
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"%s: probes of this machine type can be listed, not enabled",
			object_path(object));
	error = rows_init(object, arch, all, notes, count, &rows);
	if (!error)
		error = plan_rows(&p, &rows, notes, count, order, order_count, ret);
	if (!error && plan_is_asked(order, order_count, PROBE_PLAN_BEFORE))
		error = before_plan(object, arch, all, order, order_count, ret, count);
	if (!error)
		error = tight_plan(object, arch, all, &rows, order, order_count, ret, count);
	rows_deinit(&rows);
	return error;
}

size_t plan_code(const struct plan *plan, size_t offset, const uint8_t **ret)
{
	size_t at = offset - plan->row;

	if (at > plan->byte_count)
		at = plan->byte_count;
	*ret = plan->bytes + at;
	return plan->byte_count - at;
}

const struct plan_move *plan_move_of(const struct plan *plan, enum probe_plan chosen)
{
	return chosen == PROBE_PLAN_BEHIND ? &plan->behind
	       : chosen == PROBE_PLAN_HOP  ? &plan->hop
	       : chosen == PROBE_PLAN_TWIN ? &plan->twin
	       : chosen == PROBE_PLAN_PART ? &plan->part
					   : NULL;
}

bool plan_is_shared(const struct plan *plan, enum probe_plan chosen)
{
	return (chosen == PROBE_PLAN_BEHIND || chosen == PROBE_PLAN_HOP) &&
	       (plan->is_followed || plan_move_of(plan, chosen)->lead);
}

static bool is_possible(const struct plan *plan, enum probe_plan asked)
{
	switch (asked) {
	case PROBE_PLAN_TOGGLE:
	case PROBE_PLAN_CALL:
		return plan->ocaml;
	case PROBE_PLAN_BEHIND:
		return fits(plan, &plan->behind);
	case PROBE_PLAN_LONG_NOP:
		return plan->nop_length > 0;
	case PROBE_PLAN_BEFORE:
		return plan->before.length > 0;
	case PROBE_PLAN_TWIN:
		return plan->twin.length > 0;
	case PROBE_PLAN_PART:
		return plan->part.length > 0;
	case PROBE_PLAN_HOP:
		return fits(plan, &plan->hop) && plan->spare_count > 0;
	case PROBE_PLAN_PUN: /* the kernel may write the long nop that it would jump by */
		return plan->short_nop && !plan->nop_length && !plan->ocaml && !plan->pun_cannot;
	case PROBE_PLAN_NONE:
	case PROBE_PLAN_RESERVED:
	case PROBE_PLAN_REFUSED:
		break;
	}
	return false;
}

const char *plan_reason(const struct plan *plan, const enum probe_plan *order, size_t count)
{
	const char *reason = plan->byte_count ? NULL : "its address is not in the code of the file";

	for (size_t i = 0; i < count && !reason; i++) {
		const struct plan_move *move = plan_move_of(plan, order[i]);

		reason = order[i] == PROBE_PLAN_BEHIND	 ? plan->behind.cannot
			 : order[i] == PROBE_PLAN_BEFORE ? plan->before.cannot
			 : order[i] == PROBE_PLAN_HOP	 ? plan->hop.cannot
			 : order[i] == PROBE_PLAN_PUN	 ? plan->pun_cannot
			 : order[i] == PROBE_PLAN_TWIN	 ? plan->twin.cannot
			 : order[i] == PROBE_PLAN_PART	 ? plan->part.cannot
							 : NULL;
		if (!reason && move && move->length && !fits(plan, move))
			reason = plan_crosses;
	}
	return reason;
}

const char *plan_impossible(const struct plan *plan)
{
	return plan->nop_length && !plan->nop_offset ? no_short_nop : none_possible;
}

enum probe_plan plan_choose(const struct plan *plan, const enum probe_plan *order, size_t count,
	const char **reason_ret)
{
	*reason_ret = NULL;
	for (size_t i = 0; i < count; i++)
		if (is_possible(plan, order[i]))
			return order[i];
	*reason_ret = plan_reason(plan, order, count);
	if (!*reason_ret)
		*reason_ret = plan_impossible(plan);
	return PROBE_PLAN_REFUSED;
}

/* ---- What is there now ------------------------------------------------------------------ */

size_t plan_starts_before(const struct plan *plan, enum probe_plan chosen)
{
	return chosen == PROBE_PLAN_BEFORE ? plan->before.length : 0;
}

static size_t plan_covers_part(const struct arch *arch, const struct plan *plan)
{
	return plan->part.length > arch->jump_length ? plan->part.length : arch->jump_length;
}

size_t plan_needs(const struct arch *arch, const struct plan *plan, enum probe_plan chosen)
{
	size_t needed;

	switch (chosen) {
	case PROBE_PLAN_BEFORE:
		return plan->before.length;
	case PROBE_PLAN_BEHIND:
	case PROBE_PLAN_HOP:
	case PROBE_PLAN_TWIN:
		needed = plan_move_of(plan, chosen)->offset + plan_move_of(plan, chosen)->length;
		break;
	case PROBE_PLAN_PART:
		needed = plan->part.offset + plan_covers_part(arch, plan);
		break;
	case PROBE_PLAN_LONG_NOP:
		needed = plan->nop_offset + plan->nop_length;
		break;
	default: /* the nop, and what the pun or the toggle gives a new meaning */
		needed = plan->ocaml ? arch->toggle->offset + arch->toggle->covers
				     : arch->jump_length;
		break;
	}
	return needed < plan->row + plan->byte_count ? needed : plan->row + plan->byte_count;
}

/*
 * Are the bytes that stay before a jump as they should be? Each instruction may have a breakpoint,
 * which hides its first byte; a long nop may be anything, as the kernel writes it.
 */
static bool staying_holds(
	const struct arch *arch, const struct plan *plan, size_t offset, const uint8_t *found)
{
	for (size_t at = 0, length; at < offset; at += length) {
		length = nop_at(arch, plan, at);
		if (!length || length > offset - at)
			length = offset - at; /* the first instruction of a function */
		else if (length >= arch->jump_length && length > arch->site_nop)
			continue;
		if (memcmp(found + at, plan->bytes + at, length) != 0 &&
			!arch_has_breakpoint(arch, found + at, plan->bytes + at, length))
			return false;
	}
	return true;
}

/* The same for the nops of a row, which are all alike. */
static bool row_holds(const struct arch *arch, const struct plan *plan, const uint8_t *found)
{
	for (size_t at = 0; at < plan->row; at += arch->site_nop)
		if (memcmp(found + at, plan->bytes, arch->site_nop) != 0 &&
			!arch_has_breakpoint(arch, found + at, plan->bytes, arch->site_nop))
			return false;
	return true;
}

bool plan_holds_toggle(
	const struct arch_toggle *toggle, const struct plan *plan, const uint8_t *found)
{
	return (found[0] == toggle->on || found[0] == toggle->off) &&
	       memcmp(found + 1, plan->bytes + toggle->offset + 1, toggle->covers - 1U) == 0;
}

bool plan_holds(const struct arch *arch, const struct plan *plan, enum probe_plan chosen,
	const uint8_t *found)
{
	size_t stays = 0, needed = plan_needs(arch, plan, chosen);

	if (chosen == PROBE_PLAN_BEFORE)
		return memcmp(found, plan->before_bytes, needed) == 0;
	if (chosen == PROBE_PLAN_CALL)
		return staying_holds(arch, plan, arch->toggle->offset, found) &&
		       plan_holds_toggle(arch->toggle, plan, found + arch->toggle->offset);
	if (chosen == PROBE_PLAN_BEHIND || chosen == PROBE_PLAN_HOP || chosen == PROBE_PLAN_PART)
		stays = plan_move_of(plan, chosen)->offset;
	else if (chosen == PROBE_PLAN_LONG_NOP)
		stays = plan->nop_offset;
	if (needed < plan->row || !row_holds(arch, plan, found))
		return false;
	found += plan->row;
	needed -= plan->row;
	stays -= stays ? plan->row : 0;
	return stays <= needed && staying_holds(arch, plan, stays, found) &&
	       memcmp(found + stays, plan->bytes + stays, needed - stays) == 0;
}
