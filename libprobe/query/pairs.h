/* SPDX-License-Identifier: MIT */
/* Which probes begin something, and which end it. */
#ifndef LIBPROBE_QUERY_PAIRS_H
#define LIBPROBE_QUERY_PAIRS_H

#include "libprobe/query/select.h"

enum pair_role { PAIR_NONE, PAIR_BEGIN, PAIR_END };

/* A probe's part in its pair. A pair may have several begins, and several ends. */
struct pair_part {
	enum pair_role role;
	uint32_t pair;
	bool single; /* the pair does not nest: see probe_meaning.takes */
	bool takes;  /* it is a begin whose arguments are those of... */
	bool gives;  /* ...this probe, a begin by its role, which begins nothing */
	/*
	 * Begins and ends of the pair are compared. What is compared is said by what is known of
	 * this probe's begin, which the catalogue owns; NULL: it says nothing, so this probe's hits
	 * are taken for those of any begin or end.
	 */
	bool compares;
	const struct probe_meaning *same;
};

/*
 * Sets parts[] for each probe of a selection. Pairs found by name are numbered from *pairs on,
 * the others by their patterns; *pairs becomes greater than all numbers used.
 *
 * Pairs by name are, first, those that the catalogue (or NULL) lists. Found by name, a probe
 * without a partner is PAIR_NONE. Errors: PROBE_ERROR_USAGE (an odd number of patterns, or a probe
 * that both begins and ends), PROBE_ERROR_NOT_FOUND (no names pair), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *pairs_assign(const struct selection *selection,
	const struct probe_pattern *const *patterns, enum probe_pairing pairing,
	const struct probe_catalogue *catalogue, struct pair_part *parts, uint32_t *pairs);

/*
 * The place of a pattern among those that begin and end pairs, if the user lists these; PAIRS_GIVER
 * if it names the probe whose arguments a begin takes that another pattern names.
 */
#define PAIRS_GIVER SIZE_MAX
size_t pairs_place(const struct probe_pattern *const *patterns, size_t count,
	const struct probe_catalogue *catalogue, size_t pattern);

/* ---- Names -------------------------------------------------------------------------- */

/* A name with every `-` as `__`, which the caller frees; NULL without memory. */
char *pair_plain_name(const char *name);

/*
 * Sets parts[] for `count` plain names of one provider and module. Pairs are numbered from
 * *pairs on, which becomes greater than all numbers used. A pair has one begin.
 */
void pairs_by_name(
	char *const *plain_names, size_t count, struct pair_part *parts, uint32_t *pairs);

/*
 * What a plain name alone can be, by its last word. *stem_ret: the number of bytes before that
 * word, unless it is PAIR_NONE.
 */
enum pair_role pair_may_be(const char *plain_name, size_t *stem_ret);

/* Whether names say that the end begins what the begin ends: x__done and x__start. */
bool pair_looks_reversed(const char *begin, const char *end);

/*
 * How many bytes of a plain name are the same in all that can decide with whom it pairs. It is the
 * stem, but shorter where x__super__failed may end both x__super__start and x__required.
 */
size_t pair_kin(const char *plain_name);

#endif
