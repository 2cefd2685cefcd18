/* SPDX-License-Identifier: MIT */
/*
 * The plans `pun` and `nop`: the nop becomes the jump.
 *
 * A pun writes one byte over a short nop. This byte forms a jump together with the bytes after the
 * nop. Those bytes stay, and determine the target of the jump (libprobe/patch/plan.c). At the
 * target is a page of ours (libprobe/patch/build.c).
 *
 * A long nop is overwritten with a jump. Another tool may use it as a site, and restore some of its
 * bytes, which must form a nop with the rest of our jump. So some bytes of the displacement are the
 * nop's own (struct arch, nop_fixed), and the target is a page of its own, too.
 */

#include "libprobe/patch/patch.h"

/* ---- A pun ----------------------------------------------------------------------------- */

static void look_pun(const struct planning *p, struct plan *plan)
{
	const struct arch *arch = p->arch;
	size_t length = arch->pun_length;

	/* The kernel may rewrite the long nop behind a short one, so no pun may rely on it. */
	if (plan->short_nop && !plan->nop.relies && !plan->ocaml)
		plan->pun =
			(struct plan_way){.jump = arch->pun_length, .relies = arch->jump_length};
	if (length && rows_have_site(p->rows, plan->pc + length, arch->jump_length - length))
		plan->pun.cannot = plan_in_distance;
	else if (length && plan->byte_count >= arch->jump_length &&
		 !plan_can_lead(p->object,
			 (struct arch_extent){
				 .start = arch->pun(plan->bytes, plan->pc,
						      arch->jump_length - (unsigned int)length)
						  .first,
				 .size = 1}))
		plan->pun.cannot = plan_leads_nowhere;
	/* If the code ends before, take_at() reports the reason later. */
}

/* Takes the page of a jump `offset` bytes after a site, whose displacement keeps `fixed` bytes. */
static const char *take_at(struct install *a, size_t i, size_t offset, unsigned int fixed)
{
	const struct arch *arch = a->change->arch;
	const struct select_site *site = &a->selection->sites[i];

	if (site->plan->byte_count < offset + arch->jump_length)
		return plan_code_ends;
	return puns_take(a, arch->pun(site->plan->bytes + offset, site->pc + offset, fixed),
		&a->sites[i].entry);
}

static const char *take_pun(struct install *a, size_t i)
{
	return take_at(a, i, 0, a->change->arch->jump_length - a->change->arch->pun_length);
}

static struct probe_error *build_pun(struct install *a, size_t i, struct piece *p)
{
	struct reg_site *reg = &a->sites[i].reg;

	(void)p;
	reg->patch = reg->pc;
	reg->tail = reg->pc + a->change->arch->site_nop;
	reg->length = a->change->arch->pun_length;
	return NULL;
}

const struct plan_ops plan_pun = {
	.id = PROBE_PLAN_PUN,
	.way = offsetof(struct plan, pun),
	.look = look_pun,
	.take = take_pun,
	.build = build_pun,
};

/* ---- A long nop ------------------------------------------------------------------------ */

static void look_nop(const struct planning *p, struct plan *plan)
{
	const struct arch *arch = p->arch;

	plan->nop.jump = arch->jump_length;
	if (plan->nop.relies && arch->nop_fixed)
		plan->nop_fixed = arch->nop_fixed(
			plan->bytes + plan->nop.offset, plan->nop.relies, plan->nop.offset == 0);
}

static const char *take_nop(struct install *a, size_t i)
{
	const struct plan *plan = a->selection->sites[i].plan;

	return plan->nop_fixed ? take_at(a, i, (size_t)plan->nop.offset, plan->nop_fixed) : NULL;
}

static struct probe_error *build_nop(struct install *a, size_t i, struct piece *p)
{
	const struct arch *arch = a->change->arch;
	const struct plan *plan = a->selection->sites[i].plan;
	struct reg_site *reg = &a->sites[i].reg;

	(void)p;
	reg->patch = reg->pc + (uint64_t)plan->nop.offset;
	reg->tail = reg->patch + plan->nop.relies;
	if (arch->pun_length && plan->nop_fixed == arch->jump_length - arch->pun_length)
		reg->length = arch->pun_length;
	return NULL;
}

const struct plan_ops plan_nop = {
	.id = PROBE_PLAN_LONG_NOP,
	.way = offsetof(struct plan, nop),
	.look = look_nop,
	.take = take_nop,
	.build = build_nop,
};
