/* SPDX-License-Identifier: MIT */
/* Two summaries, matched (compare.c), and what writes them (compare_text.c, compare_json.c). */
#ifndef LIBPROBE_REPORT_COMPARE_H
#define LIBPROBE_REPORT_COMPARE_H

#include "libprobe/report/summary.h"

enum side { SIDE_BEFORE, SIDE_AFTER, SIDE_COUNT };

struct comparison {
	const struct probe_summary *summaries[SIDE_COUNT];
	const struct probe_summary_view *views[SIDE_COUNT];
};

/* What is in both, or in one: then the other is NULL. */
struct compared {
	const void *items[SIDE_COUNT];
};

/* One of them that is there. */
static inline const void *compared_any(const struct compared *compared)
{
	return compared->items[SIDE_BEFORE] ? compared->items[SIDE_BEFORE]
					    : compared->items[SIDE_AFTER];
}

/*
 * The probes (summary_probe), the pairs (summary_pair), and the values (top_slot) of two tables of
 * keys; what changed most, in absolute numbers a second, comes first: hits, of pairs their total
 * time. Arrays to be freed; NULL without memory.
 */
struct compared *compare_probes(const struct comparison *comparison, size_t *count_ret);
struct compared *compare_pairs(const struct comparison *comparison, size_t *count_ret);
struct compared *compare_values(const struct comparison *comparison,
	const struct summary_top *const tops[SIDE_COUNT], size_t *count_ret);

/* The values (summary_value) of a pair that is in both, by key, and then likewise. */
struct compared *compare_pair_values(
	const struct comparison *comparison, const struct compared *pair, size_t *count_ret);

/* The tables of keys (summary_top) that both have. */
struct compared_top {
	struct summary_top tops[SIDE_COUNT];
};
struct compared_top *compare_tops(const struct comparison *comparison, size_t *count_ret);

/* Hits, or nanoseconds of pairs, a second; NAN where the record has no length. */
double compare_rate(const struct probe_summary *summary, long double amount);

void compare_text(struct buffer *out, const struct comparison *comparison);
void compare_json(struct buffer *out, const struct comparison *comparison);

#endif
