/* SPDX-License-Identifier: MIT */
/*
 * Which plans a site's bytes allow, and in what company.
 *
 * We are not alone at a site. Kernel uprobes (perf, bpftrace, SystemTap) and debuggers
 * put a breakpoint on the nop. When it is hit, the instruction that the *file* has there
 * is carried out elsewhere, and the thread goes on where that instruction ends:
 *
 *	site:	nop	or a breakpoint, while somebody else is there
 *	back:	jump	ours, where a thread goes on in both cases	(behind)
 *
 * A jump that begins at the nop itself is entered at its second byte then, and the
 * target crashes. So the jump lies behind the nop, on instructions that are moved. It
 * does behind longer nops, too: the kernel turns a nop of five bytes, or one of ten,
 * into a call of its own for as long as it has a uprobe there (arch_uprobe_optimize(),
 * arch/x86/kernel/uprobes.c; Linux 6.18 and later), and usdt.h writes a nop of one byte
 * and a longer one, of which the kernel takes either. What stands in those bytes is the
 * kernel's, and no reason to refuse.
 *
 * Where the instructions behind it must stay, a pun changes the first byte of the nop
 * alone: a breakpoint there replaces ours, its thread goes on at bytes that are the
 * file's, and nothing is counted until we write it again.
 *
 * A long nop is punned, too, if it may be somebody's site: when the kernel leaves, it puts
 * one byte back (or all, where it had rewritten them), and what is behind that byte has to
 * make a nop with it (arch/x86/patch.c).
 *
 * `relocate`, the jump over a one-byte nop, is safe only where nobody else comes, and so
 * only done if it is asked for.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/plan/plan.h"
#include "libprobe/plan/prove.h"

enum { NOPS_MAX = 12 }; /* bytes, and as many as fit into struct plan with what is moved */

const enum probe_plan plan_default_order[PLAN_DEFAULTS] = {
	PROBE_PLAN_TOGGLE, PROBE_PLAN_BEHIND, PROBE_PLAN_PUN, PROBE_PLAN_LONG_NOP};

const char plan_entry_provider[] = "probectl";

const char plan_impossible[] = "none of the plans asked for is possible there";

static const char no_nop[] = "the bytes there are not the nop that the note promises";

bool plan_is_ocaml(const char *provider)
{
	static const char *const providers[] = {"ocaml", "ocaml.1", "ocaml_1", "ocaml_2"};

	for (size_t i = 0; i < sizeof(providers) / sizeof(*providers); i++)
		if (strcmp(provider, providers[i]) == 0)
			return true;
	return false;
}

/* ---- What the bytes say -------------------------------------------------------------- */

static bool is_named(const struct sdt_notes *notes, uint64_t pc)
{
	for (size_t i = 0; i < notes->count; i++)
		if (notes->notes[i].pc == pc)
			return true;
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
 * How many bytes others may break into, that is, how far behind the site a jump may begin:
 * its nop, and the long one of usdt.h behind it; or short nops that follow, if they are
 * sites, too. One of those with a long nop is hit there, which has to come later.
 */
static size_t nops_length(const struct arch *arch, const struct sdt_notes *all,
	const struct plan *plan, size_t first, size_t second)
{
	size_t at = first;

	if (!is_short_nop(arch, first))
		return first;
	if (second >= arch->jump_length && first + second <= NOPS_MAX)
		return first + second;
	while (at < NOPS_MAX && nop_at(arch, plan, at) == first &&
		nop_at(arch, plan, at + first) < arch->jump_length && is_named(all, plan->pc + at))
		at += first;
	return at;
}

/*
 * A function's entry has no nop, but may have a breakpoint as well. The thread goes on behind
 * the first instruction, so that stays, unless the jump is no longer than it is, or it leads
 * elsewhere anyway.
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
		plan->behind.cannot = "the first instruction may go elsewhere, and come back";
}

/* Does OCaml's toggle, on or off, stand behind a nop of this length? */
static bool has_toggle(const struct arch_toggle *toggle, const struct plan *plan, size_t first)
{
	uint8_t byte = toggle ? plan->bytes[toggle->offset] : 0;

	return toggle && first == toggle->offset &&
	       plan->byte_count >= (size_t)toggle->offset + toggle->covers &&
	       (byte == toggle->off || byte == toggle->on);
}

/* What the bytes of a site say by themselves. */
static void plan_bytes(
	const struct arch *arch, const struct sdt_notes *all, bool ocaml, struct plan *plan)
{
	size_t first = nop_at(arch, plan, 0), second = first ? nop_at(arch, plan, first) : 0;

	plan->short_nop = is_short_nop(arch, first);
	plan->behind.offset = (uint8_t)nops_length(arch, all, plan, first, second);
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
	if (!first)
		plan->behind.cannot = no_nop;
	if (!plan->short_nop)
		plan->relocate.cannot = no_nop;
}

/* ---- Planning -------------------------------------------------------------------------- */

static bool asks_for(const enum probe_plan *order, size_t count, enum probe_plan plan)
{
	for (size_t i = 0; i < count; i++)
		if (order[i] == plan)
			return true;
	return false;
}

/* Proves what can be moved, where that is asked. */
static struct probe_error *plan_moves(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, struct plan *plans, size_t count, bool behind, bool relocate)
{
	struct proof *proofs = calloc(2 * count + 1, sizeof(*proofs));
	struct probe_error *error = NULL;
	size_t asked = 0;

	if (!proofs)
		return probe_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		struct plan *p = &plans[i];

		if (!p->byte_count || p->ocaml)
			continue;
		if (behind && !p->behind.cannot)
			proofs[asked++] = (struct proof){p, &p->behind};
		if (relocate && !p->relocate.cannot)
			proofs[asked++] = (struct proof){p, &p->relocate};
	}
	if (asked && arch->can_decode && !arch->can_decode())
		error = probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"libcapstone.so.4 cannot be loaded: is it installed, and is there enough "
			"memory?");
	else if (asked)
		error = prove(object, arch, all, proofs, asked);
	free(proofs);
	return error;
}

struct probe_error *plan_sites(struct object *object, const struct sdt_notes *all,
	const struct sdt_note *const *notes, size_t count, const enum probe_plan *order,
	size_t order_count, struct plan *ret)
{
	const struct arch *arch = arch_of_machine(object_machine(object));

	if (!arch || !arch->stub || !object_is_64bit(object))
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"%s: probes of this machine type can be listed, not enabled",
			object_path(object));
	for (size_t i = 0; i < count; i++) {
		const struct object_segment *segment = object_segment_of(object, notes[i]->pc);

		ret[i] = (struct plan){.pc = notes[i]->pc};
		if (!segment || !segment->executable)
			continue;
		ret[i].byte_count = object_read(object, ret[i].pc, ret[i].bytes, PLAN_BYTES);
		if (notes[i]->provider == plan_entry_provider)
			plan_entry(arch, &ret[i]);
		else
			plan_bytes(arch, all, plan_is_ocaml(notes[i]->provider), &ret[i]);
	}
	return plan_moves(object, arch, all, ret, count,
		asks_for(order, order_count, PROBE_PLAN_BEHIND),
		asks_for(order, order_count, PROBE_PLAN_RELOCATE));
}

static bool is_possible(const struct plan *plan, enum probe_plan asked)
{
	switch (asked) {
	case PROBE_PLAN_TOGGLE:
		return plan->ocaml;
	case PROBE_PLAN_BEHIND:
		return plan->behind.length > 0;
	case PROBE_PLAN_LONG_NOP:
		return plan->nop_length > 0;
	case PROBE_PLAN_RELOCATE:
		return plan->relocate.length > 0;
	case PROBE_PLAN_PUN: /* the kernel may write the long nop that it would jump by */
		return plan->short_nop && !plan->nop_length && !plan->ocaml;
	case PROBE_PLAN_NONE:
	case PROBE_PLAN_REFUSED:
		break;
	}
	return false;
}

const char *plan_reason(const struct plan *plan, const enum probe_plan *order, size_t count)
{
	const char *reason = plan->byte_count ? NULL : "its address is not in the code of the file";

	for (size_t i = 0; i < count && !reason; i++)
		reason = order[i] == PROBE_PLAN_BEHIND	   ? plan->behind.cannot
			 : order[i] == PROBE_PLAN_RELOCATE ? plan->relocate.cannot
							   : NULL;
	return reason;
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
		*reason_ret = plan_impossible;
	return PROBE_PLAN_REFUSED;
}

/* ---- What is there now ------------------------------------------------------------------ */

size_t plan_needs(const struct arch *arch, const struct plan *plan, enum probe_plan chosen)
{
	size_t needed;

	switch (chosen) {
	case PROBE_PLAN_BEHIND:
		needed = plan->behind.offset + plan->behind.length;
		break;
	case PROBE_PLAN_RELOCATE:
		needed = plan->relocate.length;
		break;
	case PROBE_PLAN_LONG_NOP:
		needed = plan->nop_offset + plan->nop_length;
		break;
	default: /* the nop, and what the pun or the toggle gives a new meaning */
		needed = plan->ocaml ? arch->toggle->offset + arch->toggle->covers
				     : arch->jump_length;
		break;
	}
	return needed < plan->byte_count ? needed : plan->byte_count;
}

/*
 * Are the bytes that stay before a jump as they should be? In each instruction there may be a
 * breakpoint, which hides its first byte; a long nop may be anything, as the kernel writes it.
 */
static bool staying_holds(
	const struct arch *arch, const struct plan *plan, size_t offset, const uint8_t *found)
{
	for (size_t at = 0, length; at < offset; at += length) {
		length = nop_at(arch, plan, at);
		if (!length || length > offset - at)
			length = offset - at; /* the first instruction of a function */
		else if (length >= arch->jump_length)
			continue;
		if (memcmp(found + at, plan->bytes + at, length) != 0 &&
			!arch_has_breakpoint(arch, found + at, plan->bytes + at, length))
			return false;
	}
	return true;
}

bool plan_holds(const struct arch *arch, const struct plan *plan, enum probe_plan chosen,
	const uint8_t *found)
{
	size_t stays = 0, needed = plan_needs(arch, plan, chosen);

	if (chosen == PROBE_PLAN_BEHIND)
		stays = plan->behind.offset;
	else if (chosen == PROBE_PLAN_LONG_NOP)
		stays = plan->nop_offset;
	return stays <= needed && staying_holds(arch, plan, stays, found) &&
	       memcmp(found + stays, plan->bytes + stays, needed - stays) == 0;
}
