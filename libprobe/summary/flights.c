/* SPDX-License-Identifier: MIT */
/*
 * Pairs: from the hit that begins something to the one that ends it.
 *
 * Which probes are pairs is said by their names (libprobe/names/pairs.c), and names are
 * known only as they come. So every probe that could begin something is taken to
 * do so, until its end is seen or the record ends. A probe that once is part of
 * a pair stays so.
 *
 * Each thread has a stack of times for each probe that begins something, so that
 * an end belongs to the innermost begin; with a key to match by, each value has
 * one. Where hits were lost, nobody knows which: an end that is missing would give
 * its begin to another end. What is in flight then is set aside.
 */
#include <stdlib.h>
#include <string.h>

#include "arch/layout.h"
#include "libprobe/base/value.h"
#include "libprobe/summary/summary.h"

/* ---- Which probes ------------------------------------------------------------------- */

static struct probe_error *add_pair(
	struct probe_summary *summary, size_t begin, size_t end, int rule)
{
	struct summary_probe *first = summary->probes[begin], *second = summary->probes[end];
	struct summary_pair **pairs, *pair;

	if (summary->pair_count == SUMMARY_PAIRS_MAX) {
		summary->more_pairs = true;
		return NULL;
	}
	pairs = reallocarray(
		summary->pairs, summary->pair_count + 1, sizeof(struct summary_pair *));
	if (!pairs)
		return probe_error_no_memory();
	summary->pairs = pairs;
	pair = calloc(1, sizeof(*pair));
	if (pair)
		pair->heat = calloc(SUMMARY_HEAT_ROWS, sizeof(*pair->heat));
	if (!pair || !pair->heat) {
		free(pair);
		return probe_error_no_memory();
	}
	pair->begin = begin;
	pair->end = end;
	pair->least = UINT64_MAX;
	pair->unmatched = second->hits; /* before there was any begin */
	first->role = PROBE_ROLE_BEGIN;
	first->rule = rule;
	second->role = PROBE_ROLE_END;
	second->pair = summary->pair_count;
	pairs[summary->pair_count++] = pair;
	return NULL;
}

/* The first rule by which one name ends what the other begins, or -1. */
static int name_rule(const struct summary_probe *first, const struct summary_probe *second)
{
	uint32_t rules = 0;

	for (size_t i = 0; i < first->word_count; i++) {
		const struct pair_word *begin = &first->words[i];

		for (size_t k = 0; k < second->word_count; k++) {
			const struct pair_word *end = &second->words[k];

			if (begin->stem == end->stem &&
				memcmp(first->plain, second->plain, end->stem) == 0)
				rules |= begin->begins & end->ends;
		}
	}
	return rules ? __builtin_ctz(rules) : -1;
}

/* The rule by which these two can become a pair, or -1. */
static int rule_of(const struct probe_summary *summary, size_t begin, size_t end)
{
	const struct summary_probe *first = summary->probes[begin], *second = summary->probes[end];
	int rule;

	if (first->role == PROBE_ROLE_END || second->role != PROBE_ROLE_NONE || begin == end ||
		strcmp(first->provider, second->provider) != 0)
		return -1;
	rule = name_rule(first, second);
	return first->role == PROBE_ROLE_BEGIN && rule != first->rule ? -1 : rule;
}

struct probe_error *flights_probe(struct probe_summary *summary, size_t probe)
{
	struct summary_probe *its = summary->probes[probe];
	struct probe_error *error = NULL;
	size_t begin = SIZE_MAX;
	int least = -1;

	its->word_count = pair_words(its->plain, its->words);
	for (size_t i = 0; i < its->word_count; i++)
		its->may_begin |= its->words[i].begins != 0;
	/* Its ends, by the first rule that has any. */
	for (size_t i = 0; i < summary->probe_count && its->may_begin; i++) {
		int rule = rule_of(summary, probe, i);

		if (rule >= 0 && (least < 0 || rule < least))
			least = rule;
	}
	for (size_t i = 0; i < summary->probe_count && least >= 0 && !error; i++) {
		if (rule_of(summary, probe, i) == least)
			error = add_pair(summary, probe, i, least);
	}
	if (error || its->role != PROBE_ROLE_NONE)
		return error;
	/* What it ends. */
	for (size_t i = 0; i < summary->probe_count; i++) {
		int rule = rule_of(summary, i, probe);

		if (rule >= 0 && (least < 0 || rule < least)) {
			least = rule;
			begin = i;
		}
	}
	return least >= 0 ? add_pair(summary, begin, probe, least) : NULL;
}

/* ---- Stacks --------------------------------------------------------------------------- */

/* False without memory. Beyond the limits, begins are only counted. */
static bool push(struct probe_summary *summary, struct begins_stack *stack, uint64_t time_ns)
{
	if (!stack->excess && summary->flights.depth < SUMMARY_BEGINS_MAX)
		return begins_push(&summary->flights, stack, &time_ns);
	stack->excess++;
	summary->probes[stack->key.probe]->untimed++;
	return true;
}

void flights_forget(struct probe_summary *summary)
{
	for (size_t i = 0; i < summary->flights.room; i++) {
		const struct begins_stack *stack = &summary->flights.stacks[i];
		uint64_t count = stack->depth + stack->excess;

		if (!stack->used)
			continue;
		summary->probes[stack->key.probe]->set_aside += count;
		summary->probes[stack->key.probe]->in_flight -= count;
	}
	begins_deinit(&summary->flights);
}

void flights_deinit(struct probe_summary *summary)
{
	begins_deinit(&summary->flights);
	for (size_t i = 0; i < summary->pair_count; i++) {
		free(summary->pairs[i]->heat);
		free(summary->pairs[i]);
	}
	free(summary->pairs);
}

/* ---- Hits ------------------------------------------------------------------------------- */

/* Whose begins these are. False if the hit has no value to match by. */
static bool key_of(const struct probe_summary *summary, size_t begin, const struct key *match,
	const struct probe_event *event, struct begins_key *ret)
{
	struct probe_value value;

	*ret = (struct begins_key){.process = (uint64_t)event->pid, .probe = begin};
	if (!summary->matches) {
		ret->word = (uint64_t)event->tid;
		return true;
	}
	if (!key_value(match, event, &value))
		return false;
	/* Signed or not, a number is the same. */
	ret->word = value_has_bytes(&value) ? summary_hash(value.bytes, value.length, 0) : value.u;
	ret->kind = value_has_bytes(&value) ? value.length + 2 : value.kind == PROBE_VALUE_FLOAT;
	return true;
}

static struct probe_error *begin_hit(
	struct probe_summary *summary, size_t probe, const struct probe_event *event)
{
	struct summary_probe *its = summary->probes[probe];
	struct begins_stack *stack = NULL;
	struct begins_key key;
	bool has_key = key_of(summary, probe, &summary->match, event, &key);

	if (has_key)
		stack = begins_find(&summary->flights, &key);
	if (!has_key || (!stack && summary->flights.count == SUMMARY_FLIGHTS_MAX)) {
		its->untimed++;
		return NULL;
	}
	if (!stack)
		stack = begins_make(&summary->flights, &key);
	if (!stack)
		return probe_error_no_memory();
	its->in_flight++;
	return push(summary, stack, event->time_ns) ? NULL : probe_error_no_memory();
}

static size_t bucket_of(uint64_t value)
{
	unsigned int shift;

	if (value < 1u << CELL_SUB_BITS)
		return (size_t)value;
	shift = 63 - (unsigned int)__builtin_clzll(value) - CELL_SUB_BITS;
	return ((size_t)shift << CELL_SUB_BITS) + (size_t)(value >> shift);
}

/* 0, 1; and then two for each power of two, divided in the middle of its logarithms. */
static size_t heat_row(uint64_t value)
{
	unsigned int exponent;

	if (value < 2)
		return (size_t)value;
	exponent = 63 - (unsigned int)__builtin_clzll(value);
	/* value >= 2^exponent * sqrt(2) */
	return 2 * exponent + (size_t)((unsigned __int128)value * value >> (2 * exponent + 1) & 1);
}

double heat_low(size_t row)
{
	double low = 1;

	if (row < 2)
		return (double)row;
	for (size_t i = 0; i < row / 2; i++)
		low *= 2;
	if (row % 2)
		low *= 1.4142135623730951;
	/* The first whole number in it. */
	return row % 2 && low < 0x1p52 ? (double)((uint64_t)low + 1) : low;
}

static void add_time(struct summary_pair *pair, uint64_t time_ns, size_t bin)
{
	pair->count++;
	pair->sum += (double)time_ns;
	pair->least = time_ns < pair->least ? time_ns : pair->least;
	pair->most = time_ns > pair->most ? time_ns : pair->most;
	pair->buckets[bucket_of(time_ns)]++;
	pair->heat[heat_row(time_ns)][bin]++;
}

static void end_hit(struct probe_summary *summary, struct summary_pair *pair,
	const struct probe_event *event, size_t bin)
{
	struct begins_stack *stack = NULL;
	struct begins_key key;

	if (key_of(summary, pair->begin, &summary->match_end, event, &key))
		stack = begins_find(&summary->flights, &key);
	if (!stack || !(stack->depth + stack->excess)) {
		pair->unmatched++;
		return;
	}
	summary->probes[pair->begin]->in_flight--;
	if (stack->excess) {
		stack->excess--;
	} else {
		uint64_t begun = ((const uint64_t *)stack->items)[stack->depth - 1];

		begins_remove(&summary->flights, stack, stack->depth - 1);
		/* Clocks of two CPUs may differ by some nanoseconds. */
		add_time(pair, event->time_ns > begun ? event->time_ns - begun : 0, bin);
	}
	if (summary->matches && !(stack->depth + stack->excess))
		begins_drop(&summary->flights, stack);
}

struct probe_error *flights_hit(
	struct probe_summary *summary, size_t probe, const struct probe_event *event, size_t bin)
{
	const struct summary_probe *its = summary->probes[probe];

	if (its->role == PROBE_ROLE_END)
		end_hit(summary, summary->pairs[its->pair], event, bin);
	else if (its->may_begin)
		return begin_hit(summary, probe, event);
	return NULL;
}

void pair_row(
	const struct summary_pair *pair, const struct probe_summary *summary, struct probe_row *ret)
{
	*ret = (struct probe_row){
		.probe = pair->end,
		.begin = pair->begin,
		.count = pair->count,
		.has_value = true,
		.sum = pair->sum,
		.buckets = pair->buckets,
		.unit = 1,
		.in_flight = summary->probes[pair->begin]->in_flight,
	};
	if (!pair->count)
		return;
	ret->min = (struct probe_value){.kind = PROBE_VALUE_UNSIGNED, .u = pair->least};
	ret->max = (struct probe_value){.kind = PROBE_VALUE_UNSIGNED, .u = pair->most};
}
