/* SPDX-License-Identifier: MIT */
/*
 * What changed from one summary to another. Records differ in length, so rates are compared, not
 * counts.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/value.h"
#include "libprobe/report/report.h"

double compare_rate(const struct probe_summary *summary, long double amount)
{
	double seconds = summary_seconds(summary);

	return seconds > 0 ? (double)amount / seconds : NAN;
}

/* Lists of one kind of item, one list for each summary. */
struct lists {
	const struct comparison *comparison;
	const void *const *items[SIDE_COUNT];
	size_t counts[SIDE_COUNT];
	bool (*same)(const struct comparison *comparison, const void *before, const void *after);
	/* How much of it there is a second. */
	double (*amount)(const struct probe_summary *summary, const void *item);
	unsigned int (*group)(const void *item); /* the lower first; NULL: there is one */
};

struct ranked {
	struct compared compared;
	unsigned int group;
	double change;
	size_t place; /* as they were found: equal ones keep their order */
};

static int by_change(const void *a, const void *b)
{
	const struct ranked *left = a, *right = b;

	if (left->group != right->group)
		return left->group < right->group ? -1 : 1;
	if (left->change != right->change)
		return left->change > right->change ? -1 : 1;
	return left->place < right->place ? -1 : left->place > right->place;
}

static double amount(const struct lists *lists, enum side side, const void *item)
{
	double value = item ? lists->amount(lists->comparison->summaries[side], item) : 0;

	return isnan(value) ? 0 : value;
}

static void add(const struct lists *lists, struct ranked *rows, size_t *count, const void *before,
	const void *after)
{
	double change = amount(lists, SIDE_AFTER, after) - amount(lists, SIDE_BEFORE, before);

	rows[*count] = (struct ranked){
		.compared.items = {before, after},
		.group = lists->group ? lists->group(before ? before : after) : 0,
		.change = change < 0 ? -change : change,
		.place = *count,
	};
	++*count;
}

/* The item of the other list that is the same, or NULL; it is marked as taken. */
static const void *counterpart(const struct lists *lists, const void *before, bool *taken)
{
	for (size_t i = 0; i < lists->counts[SIDE_AFTER]; i++) {
		const void *after = lists->items[SIDE_AFTER][i];

		if (taken[i] || !lists->same(lists->comparison, before, after))
			continue;
		taken[i] = true;
		return after;
	}
	return NULL;
}

static struct compared *match(const struct lists *lists, size_t *count_ret)
{
	size_t most = lists->counts[SIDE_BEFORE] + lists->counts[SIDE_AFTER];
	bool *taken = calloc(lists->counts[SIDE_AFTER] + 1, sizeof(*taken));
	struct ranked *rows = calloc(most + 1, sizeof(*rows));
	struct compared *matched = calloc(most + 1, sizeof(*matched));
	size_t count = 0;

	if (matched && rows && taken) {
		for (size_t i = 0; i < lists->counts[SIDE_BEFORE]; i++) {
			const void *before = lists->items[SIDE_BEFORE][i];

			add(lists, rows, &count, before, counterpart(lists, before, taken));
		}
		for (size_t i = 0; i < lists->counts[SIDE_AFTER]; i++) {
			if (!taken[i])
				add(lists, rows, &count, NULL, lists->items[SIDE_AFTER][i]);
		}
		qsort(rows, count, sizeof(*rows), by_change);
		for (size_t i = 0; i < count; i++)
			matched[i] = rows[i].compared;
	} else {
		free(matched);
		matched = NULL;
	}
	free(rows);
	free(taken);
	*count_ret = count;
	return matched;
}

/* The same, of lists that are freed; NULL if there was no memory for one of them. */
static struct compared *match_sorted(const struct lists *lists, size_t *count_ret)
{
	bool there = lists->items[SIDE_BEFORE] && lists->items[SIDE_AFTER];
	struct compared *matched = there ? match(lists, count_ret) : NULL;

	for (int side = 0; side < SIDE_COUNT; side++)
		free((void *)(uintptr_t)lists->items[side]);
	return matched;
}

/* ---- Probes ---------------------------------------------------------------------------- */

static bool same_name(const struct summary_probe *a, const struct summary_probe *b)
{
	return a->hash == b->hash && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->provider, b->provider) == 0;
}

static bool same_probe(const struct comparison *comparison, const void *before, const void *after)
{
	(void)comparison;
	return same_name(before, after);
}

static double probe_amount(const struct probe_summary *summary, const void *item)
{
	return compare_rate(summary, ((const struct summary_probe *)item)->hits);
}

struct compared *compare_probes(const struct comparison *comparison, size_t *count_ret)
{
	const struct probe_summary *const *summaries = comparison->summaries;
	const struct summary_probe **before = summary_probes(summaries[SIDE_BEFORE]);
	const struct summary_probe **after = summary_probes(summaries[SIDE_AFTER]);
	const struct lists lists = {
		.comparison = comparison,
		.items = {(const void *const *)before, (const void *const *)after},
		.counts = {summaries[SIDE_BEFORE]->probe_count, summaries[SIDE_AFTER]->probe_count},
		.same = same_probe,
		.amount = probe_amount,
	};

	return match_sorted(&lists, count_ret);
}

/* ---- Pairs ----------------------------------------------------------------------------- */

static bool same_pair(const struct comparison *comparison, const void *before, const void *after)
{
	const struct summary_pair *a = before, *b = after;
	struct summary_probe *const *left = comparison->summaries[SIDE_BEFORE]->probes;
	struct summary_probe *const *right = comparison->summaries[SIDE_AFTER]->probes;

	return same_name(left[a->begin], right[b->begin]) && same_name(left[a->end], right[b->end]);
}

static double pair_amount(const struct probe_summary *summary, const void *item)
{
	return compare_rate(summary, ((const struct summary_pair *)item)->times.sum);
}

struct compared *compare_pairs(const struct comparison *comparison, size_t *count_ret)
{
	const struct probe_summary *const *summaries = comparison->summaries;
	const struct summary_pair **before = summary_pairs(summaries[SIDE_BEFORE]);
	const struct summary_pair **after = summary_pairs(summaries[SIDE_AFTER]);
	const struct lists lists = {
		.comparison = comparison,
		.items = {(const void *const *)before, (const void *const *)after},
		.counts = {summaries[SIDE_BEFORE]->pair_count, summaries[SIDE_AFTER]->pair_count},
		.same = same_pair,
		.amount = pair_amount,
	};

	return match_sorted(&lists, count_ret);
}

/* ---- Values of pairs ------------------------------------------------------------------- */

static unsigned int key_group(const void *item)
{
	const struct key *key = &((const struct summary_value *)item)->key;

	return (unsigned int)key->kind << 8 | key->arg;
}

static bool same_pair_value(
	const struct comparison *comparison, const void *before, const void *after)
{
	const struct summary_value *a = before, *b = after;

	(void)comparison;
	return key_same(&a->key, &b->key) && a->value.truncated == b->value.truncated &&
	       value_compare(&a->value, &b->value) == 0;
}

static double pair_value_amount(const struct probe_summary *summary, const void *item)
{
	return compare_rate(summary, ((const struct summary_value *)item)->times.sum);
}

struct compared *compare_pair_values(
	const struct comparison *comparison, const struct compared *pair, size_t *count_ret)
{
	const struct probe_summary *const *summaries = comparison->summaries;
	size_t before_count, after_count;
	const struct summary_value **before =
		instances_values(summaries[SIDE_BEFORE], pair->items[SIDE_BEFORE], &before_count);
	const struct summary_value **after =
		instances_values(summaries[SIDE_AFTER], pair->items[SIDE_AFTER], &after_count);
	const struct lists lists = {
		.comparison = comparison,
		.items = {(const void *const *)before, (const void *const *)after},
		.counts = {before_count, after_count},
		.same = same_pair_value,
		.amount = pair_value_amount,
		.group = key_group,
	};

	return match_sorted(&lists, count_ret);
}

/* ---- Values of keys -------------------------------------------------------------------- */

static bool same_value(const struct comparison *comparison, const void *before, const void *after)
{
	const struct top_slot *a = before, *b = after;

	(void)comparison;
	return a->hash == b->hash && value_compare(&a->value, &b->value) == 0;
}

static double value_amount(const struct probe_summary *summary, const void *item)
{
	return compare_rate(summary, ((const struct top_slot *)item)->count);
}

struct compared *compare_values(const struct comparison *comparison,
	const struct summary_top *const tops[SIDE_COUNT], size_t *count_ret)
{
	const struct top *left = tops[SIDE_BEFORE]->top, *right = tops[SIDE_AFTER]->top;
	const struct top_slot **before = top_sorted(left), **after = top_sorted(right);
	const struct lists lists = {
		.comparison = comparison,
		.items = {(const void *const *)before, (const void *const *)after},
		.counts = {left->used, right->used},
		.same = same_value,
		.amount = value_amount,
	};

	return match_sorted(&lists, count_ret);
}

static bool same_table(const struct summary_top *a, const struct summary_top *b)
{
	return key_same(&a->key, &b->key) && same_name(a->probe, b->probe);
}

struct compared_top *compare_tops(const struct comparison *comparison, size_t *count_ret)
{
	size_t before_count, after_count;
	struct summary_top *before =
		summary_tops(comparison->summaries[SIDE_BEFORE], &before_count);
	struct summary_top *after = summary_tops(comparison->summaries[SIDE_AFTER], &after_count);
	struct compared_top *matched = calloc(before_count + 1, sizeof(*matched));

	*count_ret = 0;
	for (size_t i = 0; before && after && matched && i < before_count; i++) {
		for (size_t j = 0; j < after_count; j++) {
			if (same_table(&before[i], &after[j]))
				matched[(*count_ret)++] =
					(struct compared_top){{before[i], after[j]}};
		}
	}
	if (!before || !after) {
		free(matched);
		matched = NULL;
	}
	free(before);
	free(after);
	return matched;
}

/* ---- Writing it ------------------------------------------------------------------------ */

struct probe_error *probe_summary_compare(const struct probe_summary *before,
	const struct probe_summary_view *before_view, const struct probe_summary *after,
	const struct probe_summary_view *after_view, enum probe_summary_format format, char **ret,
	size_t *length_ret)
{
	const struct comparison comparison = {{before, after}, {before_view, after_view}};
	struct buffer out;

	if (format != PROBE_SUMMARY_TEXT && format != PROBE_SUMMARY_JSON)
		return probe_error_new(
			PROBE_ERROR_USAGE, "two records are compared as text or JSON only");
	if (!buffer_init(&out))
		return probe_error_no_memory();
	if (format == PROBE_SUMMARY_JSON)
		compare_json(&out, &comparison);
	else
		compare_text(&out, &comparison);
	return summary_take(&out, ret, length_ret);
}
