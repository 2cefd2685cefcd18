/* SPDX-License-Identifier: MIT */
/*
 * The bytes that patches take. Sites may stand closer together than a jump is long. The bytes that
 * a patch writes, those that a pun only reads (the displacement is made of them), and those that
 * are moved (nothing runs there any more) must not meet the bytes that another patch writes.
 */
#ifndef LIBPROBE_PATCH_CLAIMS_H
#define LIBPROBE_PATCH_CLAIMS_H

#include "libprobe/query/select.h"
#include "libprobe/registry/registry.h"

/*
 * [start, end) belongs to a patch; what is written in it begins at start. If both are the same,
 * there is no patch any more, but a thread will return there from the code that the patch led to.
 */
struct claim {
	uint64_t start, end;
	uint64_t written_end;
};

/* Sorted by start. Zeros are an empty list. */
struct claims {
	struct claim *items;
	size_t count;
	/* Of the last site that shares its jump with its neighbours. */
	uint64_t shared, shared_hop;
	enum probe_plan shared_plan;
};

/* What a plan would write at a site. A patch of one byte relies on those after it. */
struct claim claim_of_plan(
	const struct arch *arch, const struct select_site *site, enum probe_plan plan);
/* What a short jump leads to. Nothing goes on there. */
struct claim claim_of_hop(const struct arch *arch, uint64_t hop);

/* Does a claim conflict with one of these? */
bool claims_meet(const struct claims *claims, struct claim claim);
/* Both return false without memory. A restored site is one, too, where code of ours leads back. */
bool claims_add(struct claims *claims, struct claim claim);
bool claims_add_site(struct claims *claims, const struct arch *arch, const struct reg_site *site);
/* Is a plan's jump that of a neighbour before it? Sites are planned by ascending address. */
bool claims_have_jump(
	const struct claims *claims, const struct select_site *site, enum probe_plan plan);
/*
 * Takes the bytes of the plan that was chosen for a site, and those that its short jump leads to
 * (0: it has none); false without memory.
 */
bool claims_take(const struct arch *arch, struct claims *claims, const struct select_site *site,
	uint64_t hop);

/* Why a plan is not possible beside the others. */
extern const char claims_overlap[], claims_no_spare[];

void claims_deinit(struct claims *claims);

#endif
