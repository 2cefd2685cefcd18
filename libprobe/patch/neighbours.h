/* SPDX-License-Identifier: MIT */
/* Sites that share a jump, or whose jump leads elsewhere first: what is built for them. */
#ifndef LIBPROBE_PATCH_NEIGHBOURS_H
#define LIBPROBE_PATCH_NEIGHBOURS_H

#include "libprobe/patch/install.h"
#include "libprobe/patch/plan.h"

/* The code of one module's sites, in one piece. */
struct piece {
	uint64_t start; /* in the target */
	uint8_t *bytes;
	size_t size, used;
};

/* Skips at least `length` bytes, up to where a stub may begin. */
void build_skip(const struct arch *arch, struct piece *p, size_t length);

/*
 * The moved instructions of site `i`, and the jump back. Errors: PROBE_ERROR_REFUSED (they cannot
 * be moved so far).
 */
PROBE_MUST_CHECK struct probe_error *build_tail(
	struct install *a, size_t i, const struct plan_move *move, struct piece *p);

/*
 * Bytes that the entries of a site and of its neighbours may take, at most. Ask in the order of the
 * sites: *patch_inout, first 0, is the jump whose entries were asked for last.
 */
size_t neighbours_bytes(const struct select_site *site, uint64_t *patch_inout);

/*
 * Describes how new site `i` is patched: alone of its neighbours, with entries for all of them,
 * or with those that were described before. Errors: those of build_tail(), PROBE_ERROR_MEMORY,
 * PROBE_ERROR_REFUSED (out of reach).
 */
PROBE_MUST_CHECK struct probe_error *neighbours_describe(
	struct install *a, size_t i, struct piece *p);

/*
 * Leads the entry of such a site, in a piece that is not written yet, to an address. Errors:
 * PROBE_ERROR_REFUSED.
 */
PROBE_MUST_CHECK struct probe_error *neighbours_lead(
	const struct install *a, const struct reg_site *reg, uint64_t to, struct piece *p);

#endif
