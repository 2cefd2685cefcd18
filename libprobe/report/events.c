/* SPDX-License-Identifier: MIT */
/*
 * What an event adds to a summary. A record may have a billion events, and each of them comes
 * through here: mostly it is like the one before it, and what was found for that one is looked at
 * first.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/record/record.h"
#include "libprobe/base/hash.h"
#include "libprobe/report/report.h"

/* Kept apart: what most events need is then short, and stays in registers. */
#define RARE __attribute__((noinline))

_Static_assert(SUMMARY_PROBES_MAX < UINT16_MAX, "numbers of probes are in the table");

/* ---- Probes ------------------------------------------------------------------------ */

void summary_probe_free(struct summary_probe *probe)
{
	for (size_t i = 0; i < SUMMARY_KEYS_MAX; i++)
		top_free(probe->tops[i]);
	free(probe->provider);
	free(probe->name);
	free(probe);
}

static struct probe_error *add_probe(
	struct probe_summary *summary, const struct probe_event *event, uint64_t hash)
{
	struct summary_probe *probe = calloc(1, sizeof(*probe));

	if (!probe)
		return probe_error_no_memory();
	probe->provider = strdup(event->provider);
	probe->name = strdup(event->name);
	probe->hash = hash;
	probe->index = summary->probe_count;
	if (!probe->provider || !probe->name) {
		summary_probe_free(probe);
		return probe_error_no_memory();
	}
	summary->probes[summary->probe_count++] = probe;
	return flights_probe(summary);
}

static bool is_probe(const struct summary_probe *probe, const struct probe_event *event)
{
	return strcmp(probe->name, event->name) == 0 &&
	       strcmp(probe->provider, event->provider) == 0;
}

/* The event's probe; NULL: there is no room for it. */
static RARE struct probe_error *find_named(
	struct probe_summary *summary, const struct probe_event *event, struct summary_probe **ret)
{
	struct probe_error *error;
	uint64_t hash = hash_text(hash_text(0, event->name), event->provider);
	size_t at = hash & (SUMMARY_PROBE_TABLE - 1);

	for (; summary->probe_table[at]; at = (at + 1) & (SUMMARY_PROBE_TABLE - 1)) {
		*ret = summary->probes[summary->probe_table[at] - 1];
		if ((*ret)->hash == hash && is_probe(*ret, event))
			return NULL;
	}
	*ret = NULL;
	if (summary->probe_count == SUMMARY_PROBES_MAX)
		return NULL;
	error = add_probe(summary, event, hash);
	if (error)
		return error;
	summary->probe_table[at] = (uint16_t)summary->probe_count;
	*ret = summary->probes[summary->probe_count - 1];
	return NULL;
}

/*
 * Does a former event with the names at the same place say what this event's probe is? If these
 * had to be compared, that holds as long as the texts stay.
 */
static bool is_recent(struct summary_recent *recent, const struct probe_event *event)
{
	if (recent->name != event->name || recent->provider != event->provider)
		return false;
	if (event->texts && event->texts == recent->texts)
		return true;
	if (!is_probe(recent->probe, event))
		return false;
	recent->texts = event->texts;
	return true;
}

/* Where a former event with these names is kept: SUMMARY_RECENT_WAYS places. */
static struct summary_recent *recent_of(
	struct probe_summary *summary, const struct probe_event *event)
{
	size_t at = hash_word(0, (uintptr_t)event->name) & (SUMMARY_RECENT - 1);

	return summary->recent[at];
}

/* The same; quickly, where an event with these names was at the same place. */
static struct probe_error *find_probe(
	struct probe_summary *summary, const struct probe_event *event, struct summary_probe **ret)
{
	struct summary_recent *recent = recent_of(summary, event);
	struct probe_error *error;

	for (size_t i = 0; i < SUMMARY_RECENT_WAYS; i++) {
		if (!is_recent(&recent[i], event))
			continue;
		*ret = recent[i].probe;
		return NULL;
	}
	error = find_named(summary, event, ret);
	if (error || !*ret)
		return error;
	memmove(recent + 1, recent, (SUMMARY_RECENT_WAYS - 1) * sizeof(*recent));
	recent[0] = (struct summary_recent){event->provider, event->name, event->texts, *ret, NULL};
	return NULL;
}

/* ---- Keys ---------------------------------------------------------------------------- */

static struct probe_error *add_key(struct probe_summary *summary, struct summary_probe *probe,
	size_t index, const struct probe_value *value)
{
	struct top **top = &probe->tops[index];

	if (!*top)
		*top = top_create(summary->key_count ? SUMMARY_SLOTS : SUMMARY_AUTO_SLOTS);
	return *top && top_add(*top, value) ? NULL : probe_error_no_memory();
}

static uint8_t number_of(const struct probe_value *value, size_t index)
{
	return (uint8_t)(value->number ? value->number - 1U : index);
}

/* Counts a value of an argument, of which it is not known yet whether it is a good key. */
static RARE struct probe_error *guess_key(struct probe_summary *summary,
	struct summary_probe *probe, size_t index, const struct probe_value *value)
{
	struct probe_value text;
	struct probe_error *error;

	if (value->kind == PROBE_VALUE_NULL || value->kind == PROBE_VALUE_FLOAT ||
		value->kind == PROBE_VALUE_BYTES)
		return NULL;
	if (value->kind == PROBE_VALUE_TEXT) {
		text = *value;
		text.kind = PROBE_VALUE_STRING;
		value = &text;
	}
	probe->numbers[index] = number_of(value, index);
	if (!probe->tops[index] && summary->auto_keys++ >= SUMMARY_AUTO_KEYS_MAX) {
		probe->no_top[index] = true;
		return NULL;
	}
	error = add_key(summary, probe, index, value);
	if (error || value->kind == PROBE_VALUE_STRING ||
		probe->tops[index]->used <= SUMMARY_AUTO_NUMBERS)
		return error;
	/* Numbers without end: addresses, identifiers. */
	top_free(probe->tops[index]);
	probe->tops[index] = NULL;
	probe->no_top[index] = true;
	summary->auto_keys--;
	return NULL;
}

/* Without keys that were asked for: strings, and integers while they are few. */
static struct probe_error *guess_keys(
	struct probe_summary *summary, struct summary_probe *probe, const struct probe_event *event)
{
	struct probe_error *error = NULL;

	size_t count = event->arg_count < SUMMARY_AUTO_ARGS ? event->arg_count : SUMMARY_AUTO_ARGS;

	for (size_t i = probe->settled; i < count && !error; i++) {
		const struct probe_value *value = &event->args[i];

		if (probe->no_top[i]) {
			probe->settled += probe->settled == i;
			continue;
		}
		if (probe->tops[i] && top_again(probe->tops[i], value))
			probe->numbers[i] = number_of(value, i);
		else
			error = guess_key(summary, probe, i, value);
	}
	return error;
}

static struct probe_error *add_keys(
	struct probe_summary *summary, struct summary_probe *probe, const struct probe_event *event)
{
	struct probe_error *error = NULL;
	struct probe_value value;

	if (!summary->key_count)
		return guess_keys(summary, probe, event);
	for (size_t i = 0; i < summary->key_count && !error; i++) {
		if (!key_value(&summary->keys[i], event, &value))
			continue;
		error = key_complete(&summary->keys[i], event, &value, &summary->normals[i])
				? add_key(summary, probe, i, &value)
				: probe_error_no_memory();
	}
	return error;
}

/* ---- Events ---------------------------------------------------------------------------- */

static void add_time(struct probe_summary *summary, uint64_t time_ns)
{
	if (!summary->events++)
		summary->begin_ns = summary->end_ns = time_ns;
	else if (time_ns > summary->end_ns)
		summary->end_ns = time_ns;
	else if (time_ns < summary->begin_ns)
		summary->begin_ns = time_ns;
}

/* Half of what 64 bits hold, so that hits can be added to it. Returns how many were added. */
static uint64_t add_lost(struct probe_summary *summary, uint64_t count)
{
	uint64_t room = UINT64_MAX / 2 - summary->lost;
	uint64_t lost = count < room ? count : room;

	summary->lost += lost;
	return lost;
}

/* The log of a stream (probe/stream.h) also has events of the stream: no thread hit those. */
static bool take_stream_event(struct probe_summary *summary, const struct probe_event *event)
{
	if (event->tid != 0 || !system_event_is(event))
		return false;
	switch (system_event_type(event->provider, event->name)) {
	case PROBE_STREAM_OVERFLOW:
		summary->overrun = true;
		break;
	case PROBE_STREAM_STOP: /* 1: it was full. A number of 1 is the same in every kind. */
		summary->full |= event->arg_count && event->args[0].u == 1;
		break;
	default:
		break;
	}
	return true;
}

/* Counts a hit; *ret is its probe, or NULL. */
static struct probe_error *count_hit(struct probe_summary *summary, const struct probe_event *event,
	size_t bin, struct summary_probe **ret)
{
	struct probe_error *error = threads_hit(summary, event);

	summary->hits++;
	if (!error)
		error = find_probe(summary, event, ret);
	if (error)
		return error;
	if (!*ret) {
		summary->other_hits++;
		summary->other_bins[bin]++;
		return NULL;
	}
	(*ret)->hits++;
	(*ret)->bins[bin]++;
	if (event->stack && !callers_add(summary, (*ret)->index, event->stack))
		return probe_error_no_memory();
	return add_keys(summary, *ret, event);
}

/* The bin of an event's time, to which the event is added. */
static size_t take_time(struct probe_summary *summary, const struct probe_event *event)
{
	/* Not every record says when hits were lost. The clock of no machine says more. */
	uint64_t time_ns = event->time_ns ? event->time_ns : summary->end_ns;
	size_t bin;

	time_ns = time_ns > INT64_MAX ? INT64_MAX : time_ns;
	bin = time_ns - summary->last_bin_ns < summary->width_ns ? summary->last_bin
								 : summary_bin(summary, time_ns);
	if (!summary->events)
		summary->lost_bins[bin] = summary->lost;
	add_time(summary, time_ns);
	return bin;
}

/* ---- Hits that are like former ones ------------------------------------------------------ */

/* Keeps the thread of a hit that has just been counted. */
static void remember(struct probe_summary *summary, const struct probe_event *event)
{
	struct summary_recent *recent = recent_of(summary, event);

	if (recent->name == event->name && recent->provider == event->provider)
		recent->thread = summary->last_thread;
}

/*
 * Counts a hit that is like a former one, except that it is later than all others, and in the bin
 * of the last one: for that, nothing has to be searched. Returns its probe. NULL: it is none.
 */
static struct summary_probe *count_like(
	struct probe_summary *summary, const struct probe_event *event)
{
	const struct summary_recent *recent = recent_of(summary, event);
	struct summary_thread *thread = recent->thread;
	struct summary_probe *probe = recent->probe;
	uint64_t time_ns = event->time_ns;

	if (recent->name != event->name || recent->provider != event->provider || !event->texts ||
		recent->texts != event->texts || !thread)
		return NULL;
	if (thread->pid != event->pid || thread->tid != event->tid ||
		thread->comm_at != event->comm || thread->texts != event->texts || !event->tid)
		return NULL;
	if (event->kind != PROBE_EVENT_HIT || event->begin || event->stack ||
		time_ns - summary->last_bin_ns >= summary->width_ns || time_ns < summary->end_ns ||
		time_ns > INT64_MAX)
		return NULL;
	summary->events++;
	summary->end_ns = time_ns;
	summary->hits++;
	thread->hits++;
	probe->hits++;
	probe->bins[summary->last_bin]++;
	return probe;
}

/* ---- All events --------------------------------------------------------------------------- */

/* A hit may begin or end something. */
static struct probe_error *add_flight(struct probe_summary *summary,
	const struct summary_probe *probe, const struct probe_event *event, size_t bin)
{
	return probe->may_begin || probe->role == PROBE_ROLE_END
		       ? flights_hit(summary, probe->index, event, bin)
		       : NULL;
}

static RARE struct probe_error *add_event(
	struct probe_summary *summary, const struct probe_event *event)
{
	struct summary_probe *probe, *begin = NULL;
	struct probe_error *error = NULL;
	size_t bin;

	if (take_stream_event(summary, event))
		return NULL;
	/* No event so far had a time. */
	if (!event->time_ns && !summary->events && event->kind == PROBE_EVENT_LOST) {
		add_lost(summary, event->lost);
		return NULL;
	}
	if (event->begin)
		error = count_hit(summary, event->begin, take_time(summary, event->begin), &begin);
	if (error)
		return error;
	bin = take_time(summary, event);
	if (event->kind == PROBE_EVENT_LOST) {
		summary->lost_bins[bin] += add_lost(summary, event->lost);
		flights_forget(summary);
		return NULL;
	}
	error = count_hit(summary, event, bin, &probe);
	if (error || !probe)
		return error;
	remember(summary, event);
	if (event->begin)
		return begin ? flights_span(summary, begin->index, probe->index, event, bin) : NULL;
	return add_flight(summary, probe, event, bin);
}

struct probe_error *probe_summary_add(
	struct probe_summary *summary, const struct probe_event *event)
{
	struct summary_probe *probe = count_like(summary, event);
	struct probe_error *error;

	if (!probe)
		return add_event(summary, event);
	error = add_keys(summary, probe, event);
	return error ? error : add_flight(summary, probe, event, summary->last_bin);
}
