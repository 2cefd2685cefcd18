/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/patch/patch.h"

enum { CLAIM_MAX = UINT8_MAX };

const char claims_overlap[] = "its bytes overlap those of another patched site";

const char claims_no_spare[] = "the bytes near by that a short jump could lead to are taken";

/* `covers` bytes from the patch on are replaced or relied on; `length` of them are written. */
static struct claim claim_of(uint64_t patch, unsigned int length, unsigned int covers)
{
	return (struct claim){patch, patch + (covers < length ? length : covers), patch + length};
}

struct claim claim_of_plan(const struct select_site *site, const struct plan_ops *ops)
{
	const struct plan_way *way = plan_way(site->plan, ops);

	return claim_of(site->pc + (uint64_t)way->offset, way->jump,
		way->length > way->relies ? way->length : way->relies);
}

struct claim claim_of_hop(const struct arch *arch, uint64_t hop)
{
	return claim_of(hop, arch->jump_length, arch->jump_length);
}

/* What is left of a site that was restored: where its tail, or its last stub, leads. */
static struct claim claim_of_left(const struct reg_site *site)
{
	uint64_t end = site->tail_size ? site->patch + site->covers : site->tail;

	return (struct claim){end, end, end};
}

bool claims_meet(const struct claims *claims, struct claim claim)
{
	for (size_t i = ARRAY_SEARCH(claims->items, claims->count, start, claim.start - CLAIM_MAX);
		i < claims->count && claims->items[i].start < claim.end; i++) {
		const struct claim *other = &claims->items[i];

		if (other->start == other->end) {
			if (other->start > claim.start && other->start < claim.written_end)
				return true;
			continue;
		}
		if ((other->start < claim.written_end && claim.start < other->end) ||
			(other->start < claim.end && claim.start < other->written_end))
			return true;
	}
	return false;
}

bool claims_add(struct claims *claims, struct claim claim)
{
	size_t at;

	if (!ARRAY_ROOM(claims->items, claims->count))
		return false;
	at = ARRAY_SEARCH(claims->items, claims->count, start, claim.start);
	memmove(claims->items + at + 1, claims->items + at,
		(claims->count++ - at) * sizeof(*claims->items));
	claims->items[at] = claim;
	return true;
}

bool claims_add_site(struct claims *claims, const struct arch *arch, const struct reg_site *site)
{
	struct claim claim = claim_of_left(site);

	if (site->pc)
		claim = claim_of(site->patch, site->length,
			site->covers > site->relies ? site->covers : site->relies);

	return claims_add(claims, claim) &&
	       (!site->hop || claims_add(claims, claim_of_hop(arch, site->hop)));
}

bool claims_have_jump(
	const struct claims *claims, const struct select_site *site, const struct plan_ops *ops)
{
	return plan_is_shared(site->plan, ops) && ops == claims->shared_plan &&
	       site->pc + (uint64_t)plan_way(site->plan, ops)->offset == claims->shared;
}

bool claims_take(const struct arch *arch, struct claims *claims, const struct select_site *site,
	uint64_t hop)
{
	struct claim claim = claim_of_plan(site, site->chosen);

	if (claims_have_jump(claims, site, site->chosen))
		return true;
	if (plan_is_shared(site->plan, site->chosen)) {
		claims->shared = claim.start;
		claims->shared_hop = hop;
		claims->shared_plan = site->chosen;
	}
	return claims_add(claims, claim) && (!hop || claims_add(claims, claim_of_hop(arch, hop)));
}

void claims_deinit(struct claims *claims)
{
	free(claims->items);
	*claims = (struct claims){0};
}
