/* SPDX-License-Identifier: MIT */
/*
 * The plans `twin` and `part`: sites with less room after the nop than a jump needs, and with no
 * room before the nop.
 *
 * If something enters at the byte after the nop, but at none of the following bytes, `twin` writes
 * two jumps that begin one byte apart (struct arch_twin). A thread that comes from the nop is a
 * hit. A thread that enters at pc + 1, or continues there after another tool's breakpoint at the
 * nop, runs only the moved instructions:
 *
 *	pc	nop		jmp first ----> stub ... stub ----> nop		copies
 *	pc + 1	entered		   jmp second ---------------------> mov
 *		mov						     jmp back
 *
 * Both jumps lead to the same page, which must be free. It must be proved that the instructions
 * from pc + 1 on can be moved, and that nothing enters after pc + 1.
 *
 * If a jump would reach beyond the next entry or the end of the page, `part` writes only the first
 * bytes of the jump, in the bytes before the entry. The code's own bytes, which stay, are the rest
 * of the jump:
 *
 *	pc	nop		nop
 *	pc + 1	48 89 c7	e9 xx yy	jmp, to a chosen place within 64 KiB
 *	entered	83 c0 01	83 c0 01	its two other bytes
 *
 * If `part` writes one byte, the target of the jump is fixed, as it is for a pun. If it writes two
 * bytes, there are 256 targets to choose from; with three bytes they are within 64 KiB, with four
 * within 16 MiB. Neither plan relies on a byte where another tool may put a breakpoint for a site.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"

enum { PAGE = 4096 };

static const char no_twins[] = "there are no two jumps that begin one byte apart";
static const char no_parts[] = "no part of a jump can be chosen alone";
static const char near_site[] = "another site is in the bytes after the site";
static const char page_end[] = "a page ends in the bytes after the site";

/* Returns true if a site has a short nop, no room for a jump, and no other possible plan. */
static bool is_tight(const struct planning *p, const struct plan *plan)
{
	return !plan->ocaml && !plan->nop.relies && plan_is_wanting(p, plan);
}

/* ---- Two jumps ------------------------------------------------------------------------- */

static struct probe_error *examine_twin(struct planning *p)
{
	size_t nop = p->arch->site_nop, length = p->arch->twin_length;
	AUTO_FREE struct plan *after = calloc(p->count + 1, sizeof(*after));
	struct probe_error *error;

	if (!after)
		return probe_error_no_memory();
	for (size_t i = 0; i < p->count; i++) {
		struct plan *plan = &p->plans[i];

		if (!is_tight(p, plan))
			continue;
		plan->twin.cannot = !length ? no_twins
				    : rows_have_site(p->rows, plan->pc + nop, length - nop)
					    ? near_site
				    : plan->pc % PAGE + length > PAGE ? page_end
								      : NULL;
		if (plan->twin.cannot)
			continue;
		/* Something may enter right after the nop: ask as if a site were there. */
		plan->twin.jump = p->arch->twin_length;
		after[i].pc = plan->pc + nop;
		after[i].byte_count = plan->byte_count - nop;
		memcpy(after[i].bytes, plan->bytes + nop, after[i].byte_count);
		after[i].behind.jump = p->arch->jump_length;
		plan_ask_move(p, &after[i], &after[i].behind);
	}
	error = plan_prove(p);
	for (size_t i = 0; i < p->count && !error; i++) {
		struct plan_way *twin = &p->plans[i].twin;

		if (!after[i].pc)
			continue;
		twin->cannot = after[i].behind.cannot;
		if (!twin->cannot)
			twin->length = (uint8_t)(p->arch->site_nop + after[i].behind.length);
	}
	return error;
}

/* Takes a page to which both jumps of a twin can lead. */
static const char *take_twin(struct install *a, size_t i)
{
	const struct arch *arch = a->change->arch;
	struct install_site *as = &a->sites[i];

	for (unsigned int k = 0; k < arch->twin_choices; k++) {
		uint64_t page, low, high;

		as->twin = arch->twin(a->selection->sites[i].pc, k);
		page = page_of(as->twin.first);
		low = as->twin.first < as->twin.second ? as->twin.first : as->twin.second;
		high = as->twin.first < as->twin.second ? as->twin.second : as->twin.first;
		/* The page must have room for two far jumps, and belong to no arena. */
		if (page_of(low) == page && page_of(high + arch->far_jump_length - 1) == page &&
			high - low >= arch->far_jump_length &&
			!code_arena(&a->change->registry, page) &&
			!puns_take(a, (struct arch_pun){as->twin.first, 0}, &as->entry))
			return NULL;
	}
	return puns_taken;
}

static struct probe_error *build_twin(struct install *a, size_t i, struct piece *p)
{
	a->sites[i].reg.length = a->change->arch->twin_length;
	return build_tail(a, i, &a->selection->sites[i].plan->twin, p);
}

static void amend_twin(const struct install_site *as, const struct arch *arch, uint8_t *patched)
{
	memcpy(patched, as->twin.bytes, arch->twin_length);
}

const struct plan_ops plan_twin = {
	.id = PROBE_PLAN_TWIN,
	.way = offsetof(struct plan, twin),
	.is_double = true,
	.is_last = true,
	.examine = examine_twin,
	.take = take_twin,
	.build = build_twin,
	.amend = amend_twin,
};

/* ---- A part of a jump ------------------------------------------------------------------ */

/* Questions about a site: ways[k] writes the first k bytes of a jump. */
struct parts {
	struct plan_way ways[ARCH_JUMP_MAX];
};

static void ask_parts(struct planning *p, struct plan *plan, struct parts *parts)
{
	unsigned int jump = p->arch->jump_length;
	uint64_t patch = plan->pc + (uint64_t)plan->behind.offset;
	size_t room = PAGE - patch % PAGE;

	plan->part = (struct plan_way){.offset = plan->behind.offset,
		.cannot = !p->arch->part					      ? no_parts
			  : plan->is_followed || rows_have_site(p->rows, patch, jump) ? near_site
			  : plan->byte_count < (size_t)plan->behind.offset + jump ? plan_code_ends
										  : NULL};
	for (unsigned int k = 1; k < jump && k <= room && !plan->part.cannot; k++) {
		parts->ways[k] = (struct plan_way){
			.offset = plan->part.offset, .jump = (uint8_t)k, .relies = (uint8_t)jump};
		plan_ask_move(p, plan, &parts->ways[k]);
	}
}

/* Chooses the way with the most bytes of a jump, and so the largest choice of targets. */
static void answer_parts(const struct planning *p, struct plan *plan, const struct parts *parts)
{
	const struct arch *arch = p->arch;
	struct plan_way *part = &plan->part;

	for (unsigned int k = arch->jump_length; k-- > 1 && !part->length;)
		if (parts->ways[k].jump) {
			*part = parts->ways[k];
			if (part->cannot)
				part->length = 0;
		}
	if (part->length &&
		!plan_can_lead(p->object, arch->part(plan->bytes + part->offset,
						  plan->pc + (uint64_t)part->offset, part->jump)))
		part->cannot = plan_leads_nowhere;
	if (part->cannot || !part->length)
		part->length = part->relies = 0;
}

static struct probe_error *examine_part(struct planning *p)
{
	AUTO_FREE struct parts *parts = calloc(p->count + 1, sizeof(*parts));
	struct probe_error *error;

	if (!parts)
		return probe_error_no_memory();
	for (size_t i = 0; i < p->count; i++)
		if (is_tight(p, &p->plans[i]))
			ask_parts(p, &p->plans[i], &parts[i]);
	error = plan_prove(p);
	for (size_t i = 0; i < p->count && !error; i++)
		if (parts[i].ways[1].jump)
			answer_parts(p, &p->plans[i], &parts[i]);
	return error;
}

static const char *take_part(struct install *a, size_t i)
{
	const struct select_site *site = &a->selection->sites[i];
	const struct plan_way *part = &site->plan->part;
	struct arch_extent to = a->change->arch->part(
		site->plan->bytes + part->offset, site->pc + (uint64_t)part->offset, part->jump);

	for (uint64_t at = to.start; at - to.start < to.size; at = page_of(at) + page_bytes())
		if (!puns_take(a, (struct arch_pun){at, 0}, &a->sites[i].entry))
			return NULL;
	return puns_taken;
}

static struct probe_error *build_part(struct install *a, size_t i, struct piece *p)
{
	const struct plan_way *part = &a->selection->sites[i].plan->part;

	a->sites[i].reg.length = part->jump;
	a->sites[i].reg.relies = part->relies;
	return build_tail(a, i, part, p);
}

const struct plan_ops plan_part = {
	.id = PROBE_PLAN_PART,
	.way = offsetof(struct plan, part),
	.is_last = true,
	.examine = examine_part,
	.take = take_part,
	.build = build_part,
};
