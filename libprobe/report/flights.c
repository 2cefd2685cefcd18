/* SPDX-License-Identifier: MIT */
/*
 * Pairs: from the hit that begins something to the one that ends it.
 *
 * Names decide which probes are pairs, and names become known one after another
 * (libprobe/query/query.h). So every probe that might begin something is treated as if it did,
 * until the record ends. A new name may dissolve a pair, if it makes a better one: then the times
 * of the first are dropped.
 *
 * Each thread has a stack of times for each probe that begins something, so an end belongs to the
 * innermost begin, of those with its identity where that is known (libprobe/report/report.h);
 * with a key to match by, each value has one. Which hits were lost is unknown, and after a lost end
 * its begin would be given to another end. So a loss sets aside everything that is in flight.
 */
#include <stdlib.h>
#include <string.h>

#include "arch/layout.h"
#include "libprobe/base/array.h"
#include "libprobe/base/hash.h"
#include "libprobe/base/value.h"
#include "libprobe/report/report.h"

/* ---- Which probes ------------------------------------------------------------------- */

static void free_pair(struct summary_pair *pair)
{
	instances_free_pair(pair);
	free(pair->heat);
	free(pair);
}

static struct probe_error *add_pair(struct probe_summary *summary, size_t begin, size_t end)
{
	struct summary_pair *pair;

	if (summary->pair_count == SUMMARY_PAIRS_MAX) {
		summary->more_pairs = true;
		return NULL;
	}
	if (!ARRAY_ROOM(summary->pairs, summary->pair_count))
		return probe_error_no_memory();
	pair = calloc(1, sizeof(*pair));
	if (pair)
		pair->heat = calloc(SUMMARY_HEAT_ROWS, sizeof(*pair->heat));
	if (!pair || !pair->heat) {
		free(pair);
		return probe_error_no_memory();
	}
	pair->begin = begin;
	pair->end = end;
	pair->unmatched = summary->probes[end]->hits; /* before there was any begin */
	summary->pairs[summary->pair_count++] = pair;
	return NULL;
}

/* The begin of a probe that ends something, else SIZE_MAX. */
static size_t begin_of(const struct pairing_probe *probe)
{
	return probe->role == PAIR_END ? probe->begin : SIZE_MAX;
}

/* Drops the pairs that are no longer pairs. */
static void drop_pairs(struct probe_summary *summary)
{
	size_t kept = 0;

	for (size_t i = 0; i < summary->pair_count; i++) {
		struct summary_pair *pair = summary->pairs[i];

		if (pair->is_made || begin_of(&summary->pairing.probes[pair->end]) == pair->begin)
			summary->pairs[kept++] = pair;
		else
			free_pair(pair);
	}
	summary->pair_count = kept;
}

static void assign_roles(struct probe_summary *summary)
{
	for (size_t i = 0; i < summary->probe_count; i++)
		summary->probes[i]->role = PROBE_ROLE_NONE;
	for (size_t i = 0; i < summary->pair_count; i++) {
		const struct summary_pair *pair = summary->pairs[i];

		summary->probes[pair->begin]->role = PROBE_ROLE_BEGIN;
		summary->probes[pair->end]->role = PROBE_ROLE_END;
		summary->probes[pair->end]->pair = i;
	}
}

struct probe_error *flights_probe(struct probe_summary *summary)
{
	struct summary_probe *its = summary->probes[summary->probe_count - 1];
	struct probe_error *error = pairing_add(&summary->pairing, its->provider, its->name);

	if (error)
		return error;
	its->may_begin = summary->pairing.probes[its->index].may_be == PAIR_BEGIN;
	if (summary->pairing.probes[summary->pairing.count - 1].role == PAIR_NONE)
		return NULL;
	drop_pairs(summary);
	assign_roles(summary);
	for (size_t i = 0; i < summary->pairing.count && !error; i++) {
		size_t begin = begin_of(&summary->pairing.probes[i]);

		if (begin != SIZE_MAX && summary->probes[i]->role != PROBE_ROLE_END)
			error = add_pair(summary, begin, i);
	}
	assign_roles(summary);
	return error;
}

/* ---- Stacks --------------------------------------------------------------------------- */

/* False without memory. Beyond the limits, begins are only counted. */
static bool push(struct probe_summary *summary, struct begins_stack *stack,
	const struct probe_event *event, uint64_t identity)
{
	struct summary_begun begun = {.time_ns = event->time_ns, .identity = identity};

	if (!stack->excess && summary->flights.depth < SUMMARY_BEGINS_MAX) {
		if (!instances_begin(summary, event, &begun.words))
			return false;
		if (begins_push(&summary->flights, stack, &begun))
			return true;
		free(begun.words);
		return false;
	}
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
	instances_forget(summary);
	begins_deinit(&summary->flights);
}

void flights_deinit(struct probe_summary *summary)
{
	instances_forget(summary);
	begins_deinit(&summary->flights);
	for (size_t i = 0; i < summary->pair_count; i++)
		free_pair(summary->pairs[i]);
	free(summary->pairs);
	pairing_deinit(&summary->pairing);
}

/* The index of the newest begin that an end may belong to; SIZE_MAX: there is none. */
static size_t find_begun(const struct begins_stack *stack, uint64_t identity)
{
	const struct summary_begun *items = stack->items;
	size_t last = stack->depth > SUMMARY_COMPARED_MAX ? stack->depth - SUMMARY_COMPARED_MAX : 0;

	for (size_t i = stack->depth; i > last; i--)
		if (identity_matches(items[i - 1].identity, identity))
			return i - 1;
	return SIZE_MAX;
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
	ret->word = value_has_bytes(&value) ? hash_bytes(0, value.bytes, value.length) : value.u;
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
	uint64_t identity;
	struct probe_error *error = identity_of(
		&summary->identities, probe, its->provider, its->name, event, &identity);

	if (error)
		return error;
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
	return push(summary, stack, event, identity) ? NULL : probe_error_no_memory();
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

void summary_times_add(struct summary_times *times, uint64_t duration_ns)
{
	times->least = !times->count || duration_ns < times->least ? duration_ns : times->least;
	times->most = duration_ns > times->most ? duration_ns : times->most;
	times->count++;
	times->sum += (double)duration_ns;
	times->buckets[bucket_of(duration_ns)]++;
}

/* False without memory. */
static bool end_begun(struct probe_summary *summary, struct summary_pair *pair,
	const struct summary_begun *begun, const struct probe_event *event, uint64_t ns, size_t bin)
{
	summary_times_add(&pair->times, ns);
	pair->heat[heat_row(ns)][bin]++;
	return instances_end(summary, pair, begun, event, ns);
}

static struct probe_error *end_hit(struct probe_summary *summary, struct summary_pair *pair,
	const struct probe_event *event, size_t bin)
{
	const struct summary_probe *its = summary->probes[pair->begin];
	struct begins_stack *stack = NULL;
	size_t at = SIZE_MAX;
	struct begins_key key;
	uint64_t identity;
	struct probe_error *error = identity_of(
		&summary->identities, pair->begin, its->provider, its->name, event, &identity);
	bool has_memory = true;

	if (error)
		return error;
	if (key_of(summary, pair->begin, &summary->match_end, event, &key))
		stack = begins_find(&summary->flights, &key);
	if (stack && !stack->excess)
		at = find_begun(stack, identity);
	if (!stack || (!stack->excess && at == SIZE_MAX)) {
		pair->unmatched++;
		return NULL;
	}
	summary->probes[pair->begin]->in_flight--;
	if (stack->excess) {
		stack->excess--;
	} else {
		struct summary_begun begun = ((const struct summary_begun *)stack->items)[at];
		/* Clocks of two CPUs may differ by some nanoseconds. */
		uint64_t ns = event->time_ns > begun.time_ns ? event->time_ns - begun.time_ns : 0;

		begins_remove(&summary->flights, stack, at);
		has_memory = end_begun(summary, pair, &begun, event, ns, bin);
		instances_drop(summary, begun.words);
	}
	if (summary->matches && !(stack->depth + stack->excess))
		begins_drop(&summary->flights, stack);
	return has_memory ? NULL : probe_error_no_memory();
}

struct probe_error *flights_hit(
	struct probe_summary *summary, size_t probe, const struct probe_event *event, size_t bin)
{
	const struct summary_probe *its = summary->probes[probe];

	if (its->role == PROBE_ROLE_END)
		return end_hit(summary, summary->pairs[its->pair], event, bin);
	return begin_hit(summary, summary->pairing.probes[probe].same, event);
}

/* The pair of two probes, whatever their names are; NULL: there are too many pairs. */
static struct probe_error *find_made(
	struct probe_summary *summary, size_t begin, size_t end, struct summary_pair **ret)
{
	struct probe_error *error;

	*ret = NULL;
	for (size_t i = 0; i < summary->pair_count && !*ret; i++)
		if (summary->pairs[i]->begin == begin && summary->pairs[i]->end == end)
			*ret = summary->pairs[i];
	if (!*ret) {
		size_t before = summary->pair_count;

		error = add_pair(summary, begin, end);
		if (error || summary->pair_count == before)
			return error;
		*ret = summary->pairs[before];
		(*ret)->unmatched = 0;
		assign_roles(summary);
	}
	(*ret)->is_made = true;
	return NULL;
}

struct probe_error *flights_span(struct probe_summary *summary, size_t begin, size_t end,
	const struct probe_event *event, size_t bin)
{
	struct summary_begun begun = {.time_ns = event->begin->time_ns};
	struct summary_pair *pair;
	struct probe_error *error = find_made(summary, begin, end, &pair);
	bool has_memory;

	if (error || !pair)
		return error;
	has_memory = instances_begin(summary, event->begin, &begun.words) &&
		     end_begun(summary, pair, &begun, event, event->duration_ns, bin);
	instances_drop(summary, begun.words);
	return has_memory ? NULL : probe_error_no_memory();
}

void summary_times_row(const struct summary_times *times, struct probe_row *ret)
{
	*ret = (struct probe_row){
		.count = times->count,
		.has_value = true,
		.sum = times->sum,
		.buckets = times->buckets,
		.unit = 1,
	};
	if (!times->count)
		return;
	ret->min = (struct probe_value){.kind = PROBE_VALUE_UNSIGNED, .u = times->least};
	ret->max = (struct probe_value){.kind = PROBE_VALUE_UNSIGNED, .u = times->most};
}

void pair_row(
	const struct summary_pair *pair, const struct probe_summary *summary, struct probe_row *ret)
{
	summary_times_row(&pair->times, ret);
	ret->probe = pair->end;
	ret->begin = pair->begin;
	ret->in_flight = summary->probes[pair->begin]->in_flight;
}
