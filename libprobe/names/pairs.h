/* SPDX-License-Identifier: MIT */
/* Which probes begin something, and which end it. */
#ifndef LIBPROBE_NAMES_PAIRS_H
#define LIBPROBE_NAMES_PAIRS_H

#include "libprobe/names/select.h"

enum pair_role { PAIR_NONE, PAIR_BEGIN, PAIR_END };

/* A probe's part in its pair. A pair may have several begins, and several ends. */
struct pair_part {
	enum pair_role role;
	uint32_t pair;
};

/*
 * Sets parts[] for each probe of a selection. Pairs found by name are numbered from *pairs on,
 * the others by their patterns; *pairs becomes greater than all numbers used.
 *
 * Found by name, a probe without a partner is PAIR_NONE. Errors: PROBE_ERROR_USAGE (an odd
 * number of patterns, or a probe that both begins and ends), PROBE_ERROR_NOT_FOUND (no names
 * pair), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *pairs_assign(const struct selection *selection,
	const struct probe_pattern *const *patterns, enum probe_pairing pairing,
	struct pair_part *parts, uint32_t *pairs);

/* ---- Single names, when not all of them are known -------------------------------- */

/*
 * A name split before a last word that begins or ends something. A begin and an end of one
 * provider with the same stem (the first `stem` bytes) are a pair if they have a rule (a bit)
 * in common.
 */
struct pair_word {
	size_t stem;
	uint32_t begins, ends;
};
enum { PAIR_WORDS_MAX = 4 };

/* A name with every `-` as `__`, which the caller frees; NULL without memory. */
char *pair_plain_name(const char *name);

/* All splits of a plain name; returns how many, 0 if it has no such word. */
size_t pair_words(const char *plain_name, struct pair_word ret[PAIR_WORDS_MAX]);

#endif
