/* SPDX-License-Identifier: MIT */
/* The plan `behind`: a jump after the nops of a site. plan.c says why it does not replace them. */

#include "libprobe/patch/patch.h"

static struct probe_error *examine(struct planning *p)
{
	for (size_t i = 0; i < p->neighbour_count; i++)
		plan_ask_move(p, &p->neighbours[i].plan, &p->neighbours[i].plan.behind);
	for (size_t i = 0; i < p->count; i++) {
		struct plan *plan = &p->plans[i];

		if (plan->byte_count && !plan->ocaml && !plan->behind.cannot)
			plan_ask_move(p, plan, &plan->behind);
		if (p->entries[i].byte_count)
			plan_ask_move(p, &p->entries[i], &p->entries[i].behind);
	}
	return plan_prove(p);
}

static struct probe_error *build(struct install *a, size_t i, struct piece *p)
{
	const struct plan *plan = a->selection->sites[i].plan;

	return plan_is_shared(plan, &plan_behind) ? neighbours_describe(a, i, p)
						  : build_tail(a, i, &plan->behind, p);
}

const struct plan_ops plan_behind = {
	.id = PROBE_PLAN_BEHIND,
	.way = offsetof(struct plan, behind),
	.follows_nops = true,
	.examine = examine,
	.build = build,
};
