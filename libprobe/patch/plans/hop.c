/* SPDX-License-Identifier: MIT */
/*
 * A short jump after the nops, where the longer one is impossible. It leads to bytes near by that
 * are nobody's and hold that jump (spares.c); see libprobe/patch/plan.c for the picture, and
 * libprobe/patch/neighbours.c for what is built.
 */
#include <stddef.h>
#include <string.h>

#include "libprobe/patch/patch.h"

static const char no_spare[] =
	"no five unused bytes are within reach of a short jump after the nop";

static struct probe_error *examine(struct planning *p)
{
	struct probe_error *error;

	if (!p->arch->short_jump_length)
		return NULL;
	for (size_t i = 0; i < p->count; i++) {
		struct plan *plan = &p->plans[i];

		/* At a function's entry other plans are used. */
		plan->hop.offset = plan->behind.offset;
		if (plan->byte_count && !plan->ocaml && plan->hop.offset &&
			p->arch->nop_length(plan->bytes, plan->byte_count) &&
			!plan_fits(plan, &plan->behind))
			plan_ask(p, plan, &plan->hop);
	}
	for (size_t i = 0; i < p->neighbour_count; i++) {
		struct plan *before = &p->neighbours[i].plan;
		const struct plan *after = &p->plans[p->neighbours[i].of];

		before->hop.offset = before->behind.offset;
		if (!plan_fits(after, &after->behind))
			plan_ask(p, before, &before->hop);
	}
	error = plan_prove(p);
	if (!error)
		error = prove_spares(p);
	for (size_t i = 0; i < p->count; i++)
		if (p->plans[i].hop.length && !p->plans[i].spare_count)
			p->plans[i].hop.cannot = no_spare;
	return error;
}

/*
 * Takes one of the places that a site's short jump can lead to: none that another patch has, and
 * that still holds what the file holds.
 */
static const char *take(
	struct install *a, const struct claims *claims, const struct select_site *site)
{
	struct install_site *as = &a->sites[site - a->selection->sites];
	uint64_t bias = site->pc - site->plan->pc;
	uint8_t original[ARCH_JUMP_MAX], found[ARCH_JUMP_MAX];
	size_t length = a->change->arch->jump_length;

	if (claims_have_jump(claims, site, &plan_hop)) {
		as->hop = claims->shared_hop;
		return NULL;
	}
	for (size_t i = 0; i < site->plan->spare_count; i++) {
		uint64_t hop = site->plan->spares[i] + bias;

		if (claims_meet(claims, claim_of_hop(a->change->arch, hop)) ||
			maps_is_shared(&a->change->maps, hop) ||
			hops_original(a, as, hop, original) != length ||
			memory_read(a->change->pid, hop, found, length) != length ||
			memcmp(found, original, length) != 0)
			continue;
		as->hop = hop;
		return NULL;
	}
	return claims_no_spare;
}

const struct plan_ops plan_hop = {
	.id = PROBE_PLAN_HOP,
	.name = "hop",
	.way = offsetof(struct plan, hop),
	.follows_nops = true,
	.examine = examine,
	.take = take,
	.build = neighbours_describe,
};
