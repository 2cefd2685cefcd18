/* SPDX-License-Identifier: MIT */
/*
 * Adds events to a summary: probes, keys, threads, stacks. A record may have a billion events, and
 * most events resemble the previous one, so the last results are tried first.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/event.h"
#include "libprobe/base/frame_text.h"
#include "libprobe/base/value.h"
#include "libprobe/output/output.h"
#include "libprobe/record/record.h"
#include "libprobe/report/report.h"

/* ==== Keys ==================================================================================== */

struct top *top_create(size_t slot_count)
{
	struct top *top = calloc(1, sizeof(*top));

	if (!top)
		return NULL;
	top->slot_count = slot_count;
	top->slots = calloc(slot_count, sizeof(struct top_slot *));
	if (top->slots)
		return top;
	free(top);
	return NULL;
}

void top_free(struct top *top)
{
	if (!top)
		return;
	map_clear(&top->by_value);
	free(top->slots);
	free(top);
}

/*
 * Finds the place of the slot with the smallest count. Each search continues where the last one
 * ended.
 */
static struct top_slot **least_slot(struct top *top)
{
	for (;;) {
		uint64_t least = UINT64_MAX;

		for (size_t i = 0; i < top->slot_count; i++) {
			struct top_slot **slot = &top->slots[top->cursor];

			if ((*slot)->count == top->least)
				return slot;
			least = (*slot)->count < least ? (*slot)->count : least;
			top->cursor = (top->cursor + 1) % top->slot_count;
		}
		top->least = least;
	}
}

/* Finds or adds the slot of a value. Returns NULL if out of memory. */
static struct top_slot *find_slot(struct top *top, const struct probe_value *value)
{
	const uint64_t class = value_class(value);
	const struct map_part key[] = {MAP_OBJECT(class), value_part(value)};
	struct top_slot *slot = map_find(&top->by_value, key, 2), **place;
	bool is_full = top->used == top->slot_count;

	if (slot)
		return slot;
	place = is_full ? least_slot(top) : &top->slots[top->used];
	slot = map_add(&top->by_value, sizeof(*slot), key, 2);
	if (!slot)
		return NULL;
	slot->value = *value;
	slot->value.bytes = (const char *)map_key(slot) + sizeof(class);
	if (is_full) {
		slot->count = slot->error = (*place)->count;
		map_remove(&top->by_value, *place);
		top->approximate = true;
	} else {
		top->used++;
	}
	*place = slot;
	return slot;
}

bool top_add(struct top *top, const struct probe_value *value)
{
	struct top_slot *slot = top->last;
	struct probe_value cut = *value;

	if (value_has_bytes(value) && value->length > SUMMARY_KEY_BYTES_MAX) {
		cut.length = SUMMARY_KEY_BYTES_MAX;
		cut.truncated = true;
	}
	top->total++;
	/* Texts often repeat, and comparing is faster than hashing. */
	if (!value_has_bytes(value) || !slot || slot->value.length != cut.length ||
		value_compare(&slot->value, &cut) != 0)
		slot = find_slot(top, &cut);
	if (!slot)
		return false;
	top->last = slot;
	slot->count++;
	return true;
}

static int by_count(const void *a, const void *b)
{
	const struct top_slot *left = *(const struct top_slot *const *)a;
	const struct top_slot *right = *(const struct top_slot *const *)b;

	return ORDER(right->count, left->count) ?: value_compare(&left->value, &right->value);
}

const struct top_slot **top_sorted(const struct top *top)
{
	const struct top_slot **sorted = calloc(top->used + 1, sizeof(struct top_slot *));

	for (size_t i = 0; sorted && i < top->used; i++)
		sorted[i] = top->slots[i];
	if (sorted)
		qsort(sorted, top->used, sizeof(struct top_slot *), by_count);
	return sorted;
}

size_t top_shown(const struct top *top, const struct top_slot *const *sorted, size_t limit,
	uint64_t *rest_ret, uint64_t *most_ret)
{
	size_t shown = 0;

	*rest_ret = top->total;
	while (shown < top->used && (!limit || shown < limit) &&
		2 * sorted[shown]->error <= sorted[shown]->count) {
		/* The value certainly has this many hits, so subtract them from the rest. */
		*rest_ret -= sorted[shown]->count - sorted[shown]->error;
		shown++;
	}
	*most_ret = shown < top->used ? sorted[shown]->count : 0;
	return shown;
}

/* ==== Threads ================================================================================= */

static struct probe_error *threads_hit(
	struct probe_summary *summary, const struct probe_event *event)
{
	struct summary_thread *thread = summary->last_thread;

	if (!thread || thread->pid != event->pid || thread->tid != event->tid) {
		const struct map_part key[] = {MAP_OBJECT(event->pid), MAP_OBJECT(event->tid)};

		thread = map_find(&summary->threads, key, 2);
		if (!thread && summary->threads.count == SUMMARY_THREADS_MAX) {
			summary->other_thread_hits++;
			return NULL;
		}
		if (!thread) {
			thread = map_add(&summary->threads, sizeof(*thread), key, 2);
			if (!thread)
				return probe_error_no_memory();
			thread->pid = event->pid;
			thread->tid = event->tid;
		}
		summary->last_thread = thread;
	}
	thread->hits++;
	if (!event->comm ||
		(event->texts && event->texts == thread->texts && event->comm == thread->comm_at))
		return NULL;
	if (strcmp(thread->comm, event->comm) != 0)
		strncpy(thread->comm, event->comm, sizeof(thread->comm) - 1);
	thread->comm_at = event->comm;
	thread->texts = event->texts;
	return NULL;
}

/* ---- Sorted threads -------------------------------------------------------------------- */

static int by_pid(const void *a, const void *b)
{
	const struct summary_thread *left = *(const struct summary_thread *const *)a;
	const struct summary_thread *right = *(const struct summary_thread *const *)b;

	return ORDER(left->pid, right->pid) ?: ORDER(left->tid, right->tid);
}

static int thread_order(const void *a, const void *b)
{
	const struct summary_thread *left = *(const struct summary_thread *const *)a;
	const struct summary_thread *right = *(const struct summary_thread *const *)b;

	return ORDER(right->hits, left->hits) ?: by_pid(a, b);
}

const struct summary_thread **threads_sorted(const struct probe_summary *summary)
{
	const struct summary_thread **sorted =
		calloc(summary->threads.count + 1, sizeof(struct summary_thread *));
	size_t count = 0;

	for (size_t i = 0; sorted && (sorted[count] = map_next(&summary->threads, &i));)
		count++;
	if (sorted)
		qsort(sorted, count, sizeof(struct summary_thread *), thread_order);
	return sorted;
}

static int process_order(const void *a, const void *b)
{
	const struct summary_process *left = a, *right = b;

	return ORDER(right->hits, left->hits) ?: ORDER(left->pid, right->pid);
}

struct summary_process *threads_processes(const struct probe_summary *summary, size_t *count_ret)
{
	struct summary_process *processes = calloc(summary->threads.count + 1, sizeof(*processes));
	AUTO_FREE const struct summary_thread **threads = threads_sorted(summary);
	size_t count = 0;

	if (!processes || !threads) {
		free(processes);
		return NULL;
	}
	qsort(threads, summary->threads.count, sizeof(struct summary_thread *), by_pid);
	for (size_t i = 0; i < summary->threads.count; i++) {
		const struct summary_thread *thread = threads[i];
		struct summary_process *process;

		if (!count || processes[count - 1].pid != thread->pid)
			processes[count++] =
				(struct summary_process){.pid = thread->pid, .comm = thread->comm};
		process = &processes[count - 1];
		process->hits += thread->hits;
		process->threads++;
		if (thread->tid == thread->pid)
			process->comm = thread->comm;
	}
	qsort(processes, count, sizeof(*processes), process_order);
	*count_ret = count;
	return processes;
}

/* ==== Call stacks ============================================================================= */

/* Hits by call stack. Stacks are equal if they show the same functions, at any addresses. */

static void add_text(struct buffer *key, const char *text)
{
	buffer_char(key, text != NULL);
	buffer_bytes(key, text, text ? strlen(text) + 1 : 0);
}

/* Counts a hit with this stack. Returns false if out of memory. */
static bool callers_add(
	struct probe_summary *summary, size_t probe, const struct probe_stack *stack)
{
	const struct probe_stack cut = event_cut_stack(stack);
	const uint64_t of[] = {probe, cut.end, cut.count};
	struct map *map = &summary->callers_by_stack;
	struct buffer *key = &summary->stack;
	struct summary_callers *row;

	/* Two keys are equal if stacks_compare() says that the stacks are equal. */
	key->length = 0;
	for (size_t i = 0; i < cut.count; i++) {
		const struct probe_frame *frame = cut.frames[i];
		uint64_t place = frame->symbol ? 0 : frame_text_place(frame);

		add_text(key, frame->symbol);
		add_text(key, frame->module);
		add_text(key, frame->file);
		buffer_bytes(key, &frame->line, sizeof(frame->line));
		buffer_bytes(key, &place, sizeof(place));
	}
	if (summary->stack.no_memory)
		return false;
	row = map_find(map, MAP_KEY(MAP_OBJECT(of), {summary->stack.data, summary->stack.length}));
	if (!row && summary->callers_count == SUMMARY_CALLERS_MAX) {
		summary->other_callers++;
		return true;
	}
	if (!row) {
		if (!ARRAY_ROOM(summary->callers, summary->callers_count))
			return false;
		row = map_add(map, sizeof(*row),
			MAP_KEY(MAP_OBJECT(of), {summary->stack.data, summary->stack.length}));
		if (!row)
			return false;
		summary->callers[summary->callers_count++] = row;
		row->probe = probe;
		row->stack = event_copy_stack(&cut, &row->block);
	}
	row->count++;
	return row->stack != NULL;
}

void callers_deinit(struct probe_summary *summary)
{
	for (size_t i = 0; i < summary->callers_count; i++)
		free(summary->callers[i]->block);
	free(summary->callers);
	map_clear(&summary->callers_by_stack);
	buffer_deinit(&summary->stack);
}

static int most_first(const void *a, const void *b)
{
	const struct probe_stacks_row *left = a, *right = b;

	return ORDER(right->count, left->count) ?: stacks_compare(left, right);
}

struct probe_stacks_row *callers_rows(const struct probe_summary *summary)
{
	struct probe_stacks_row *rows = calloc(summary->callers_count + 1, sizeof(*rows));

	for (size_t i = 0; rows && i < summary->callers_count; i++) {
		const struct summary_callers *its = summary->callers[i];

		rows[i] =
			(struct probe_stacks_row){.provider = summary->probes[its->probe]->provider,
				.name = summary->probes[its->probe]->name,
				.stack = *its->stack,
				.count = its->count};
	}
	if (rows)
		qsort(rows, summary->callers_count, sizeof(*rows), most_first);
	return rows;
}

/* ==== Events ================================================================================== */

/* Keeps functions off the fast path from being inlined into it. */
#define RARE __attribute__((noinline))

/* ---- Probes ------------------------------------------------------------------------ */

/*
 * Returns true if a cache entry is for this event's probe. If the names had to be compared, keeps
 * the event's `texts`, to be fast next time.
 */
static bool is_recent(struct summary_recent *recent, const struct probe_event *event)
{
	if (recent->name != event->name || recent->provider != event->provider)
		return false;
	if (event->texts && event->texts == recent->texts)
		return true;
	if (strcmp(recent->probe->name, event->name) != 0 ||
		strcmp(recent->probe->provider, event->provider) != 0)
		return false;
	recent->texts = event->texts;
	return true;
}

/* The cache entries for the addresses of an event's names. */
static struct summary_recent *recent_of(
	struct probe_summary *summary, const struct probe_event *event)
{
	uint64_t hash = (uintptr_t)event->name * UINT64_C(0x9e3779b97f4a7c15);

	return summary->recent[hash >> 32 & (SUMMARY_RECENT - 1)];
}

/* Finds or adds a hit's probe that is not in the cache. *ret is NULL if the limit is reached. */
static RARE struct probe_error *find_named(struct probe_summary *summary,
	const struct probe_event *event, struct summary_recent *recent, struct summary_probe **ret)
{
	const struct map_part names[] = {map_text(event->provider), map_text(event->name)};
	struct probe_error *error;

	*ret = map_find(&summary->probes_by_name, names, 2);
	if (!*ret && summary->probe_count == SUMMARY_PROBES_MAX)
		return NULL;
	if (!*ret) {
		*ret = map_add(&summary->probes_by_name, sizeof(**ret), names, 2);
		if (!*ret)
			return probe_error_no_memory();
		(*ret)->provider = map_key(*ret);
		(*ret)->name = (*ret)->provider + names[0].length;
		(*ret)->index = summary->probe_count;
		summary->probes[summary->probe_count++] = *ret;
		error = flights_probe(summary);
		if (error)
			return error;
	}
	memmove(recent + 1, recent, (SUMMARY_RECENT_WAYS - 1) * sizeof(*recent));
	recent[0] = (struct summary_recent){event->provider, event->name, event->texts, *ret, NULL};
	return NULL;
}

/* Finds or adds a hit's probe. */
static struct probe_error *find_probe(
	struct probe_summary *summary, const struct probe_event *event, struct summary_probe **ret)
{
	struct summary_recent *recent = recent_of(summary, event);

	for (size_t i = 0; i < SUMMARY_RECENT_WAYS; i++) {
		if (!is_recent(&recent[i], event))
			continue;
		*ret = recent[i].probe;
		return NULL;
	}
	return find_named(summary, event, recent, ret);
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

/* Counts an argument's value, which may become a key. */
static RARE struct probe_error *guess_key(struct probe_summary *summary,
	struct summary_probe *probe, const struct probe_event *event, size_t index)
{
	const struct probe_value *value = &event->args[index];
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
	if (event->labels && event->labels[index] && !probe->labels[index]) {
		probe->labels[index] = strdup(event->labels[index]);
		if (!probe->labels[index])
			return probe_error_no_memory();
	}
	error = add_key(summary, probe, index, value);
	if (error || value->kind == PROBE_VALUE_STRING ||
		probe->tops[index]->used <= SUMMARY_AUTO_NUMBERS)
		return error;
	/* If an argument has this many different numbers, they are addresses or identifiers. */
	top_free(probe->tops[index]);
	probe->tops[index] = NULL;
	probe->no_top[index] = true;
	summary->auto_keys--;
	return NULL;
}

/* If the user names no key, counts arguments: strings, and integers with few values. */
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
			error = guess_key(summary, probe, event, i);
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

/* ---- Bins of time ---------------------------------------------------------------------- */

/*
 * Divides time into a fixed number of bins, which all counts share.
 *
 * A record's length is known only at its end, so bins are narrow at first, and adjacent ones are
 * merged when they are used up. The first bin starts at the first event. If an earlier event
 * arrives later, whole bins are inserted before the first.
 */

enum { FIRST_WIDTH_NS = 1000 };

static void halve(uint64_t *bins, size_t unused)
{
	(void)unused;
	for (size_t i = 0; i < SUMMARY_BINS / 2; i++)
		bins[i] = bins[2 * i] + bins[2 * i + 1];
	memset(bins + SUMMARY_BINS / 2, 0, SUMMARY_BINS / 2 * sizeof(*bins));
}

static void shift(uint64_t *bins, size_t by)
{
	memmove(bins + by, bins, (SUMMARY_BINS - by) * sizeof(*bins));
	memset(bins, 0, by * sizeof(*bins));
}

static void change_all(
	struct probe_summary *summary, void (*change)(uint64_t *bins, size_t by), size_t by)
{
	change(summary->lost_bins, by);
	change(summary->other_bins, by);
	for (size_t i = 0; i < summary->probe_count; i++)
		change(summary->probes[i]->bins, by);
	for (size_t i = 0; i < summary->pair_count; i++) {
		for (size_t row = 0; row < SUMMARY_HEAT_ROWS; row++)
			change(summary->pairs[i]->heat[row], by);
	}
}

/* Returns the bin of a time (up to INT64_MAX). May merge bins for that. */
static size_t find_bin(struct probe_summary *summary, uint64_t time_ns)
{
	int64_t time = (int64_t)time_ns;

	if (!summary->bin_count) {
		summary->base_ns = time;
		summary->width_ns = FIRST_WIDTH_NS;
		summary->bin_count = 1;
	}
	for (;;) {
		uint64_t width = summary->width_ns, bin;

		if (time >= summary->base_ns) {
			bin = ((uint64_t)time - (uint64_t)summary->base_ns) / width;
			if (bin < SUMMARY_BINS) {
				if (bin >= summary->bin_count)
					summary->bin_count = (size_t)bin + 1;
				return (size_t)bin;
			}
		} else {
			/* base_ns is at least -width_ns, and a time at least 0. */
			bin = ((uint64_t)summary->base_ns - (uint64_t)time + width - 1) / width;
			if (bin <= SUMMARY_BINS - summary->bin_count) {
				change_all(summary, shift, (size_t)bin);
				/* Unsigned, because the distance may exceed INT64_MAX. */
				summary->base_ns =
					(int64_t)((uint64_t)summary->base_ns - bin * width);
				summary->bin_count += (size_t)bin;
				return 0;
			}
		}
		change_all(summary, halve, 0);
		summary->width_ns *= 2;
		summary->bin_count = (summary->bin_count + 1) / 2;
	}
}

/* ---- Events ---------------------------------------------------------------------------- */

/* Adds losses, up to 2^63, so that adding hits cannot overflow. Returns the number added. */
static uint64_t add_lost(struct probe_summary *summary, uint64_t count)
{
	uint64_t room = UINT64_MAX / 2 - summary->lost;
	uint64_t lost = count < room ? count : room;

	summary->lost += lost;
	return lost;
}

/* Handles a system event of a POSIX stream's log (probe/stream.h), then returns true. */
static bool take_stream_event(struct probe_summary *summary, const struct probe_event *event)
{
	if (event->tid != 0 || !system_event_is(event))
		return false;
	switch (system_event_type(event->provider, event->name)) {
	case PROBE_STREAM_OVERFLOW:
		summary->overrun = true;
		break;
	/*
	 * An argument of 1 means that the stream stopped because it was full. All integer kinds
	 * have the same bits for 1.
	 */
	case PROBE_STREAM_STOP:
		summary->full |= event->arg_count && event->args[0].u == 1;
		break;
	default:
		break;
	}
	return true;
}

/* Counts a hit. *ret is its probe, or NULL if the limit is reached. */
static struct probe_error *count_hit(struct probe_summary *summary, const struct probe_event *event,
	size_t bin, struct summary_probe **ret)
{
	struct probe_error *error = threads_hit(summary, event);

	summary->hits++;
	error = error ?: find_probe(summary, event, ret);
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

/* Adds an event's time. Returns its bin. */
static size_t take_time(struct probe_summary *summary, const struct probe_event *event)
{
	/* A loss without a time gets the latest time so far. No clock reaches INT64_MAX. */
	uint64_t time_ns = event->time_ns ? event->time_ns : summary->end_ns;

	time_ns = time_ns > INT64_MAX ? INT64_MAX : time_ns;
	if (time_ns - summary->last_bin_ns >= summary->width_ns) {
		summary->last_bin = find_bin(summary, time_ns);
		summary->last_bin_ns =
			(uint64_t)summary->base_ns + summary->last_bin * summary->width_ns;
	}
	if (!summary->events)
		summary->lost_bins[summary->last_bin] = summary->lost;
	if (!summary->events++)
		summary->begin_ns = summary->end_ns = time_ns;
	else if (time_ns > summary->end_ns)
		summary->end_ns = time_ns;
	else if (time_ns < summary->begin_ns)
		summary->begin_ns = time_ns;
	return summary->last_bin;
}

/* ---- Hits that resemble earlier hits ----------------------------------------------------- */

/*
 * Fast path for a hit whose probe and thread are cached, and that is the latest hit and in the last
 * bin: counts it without a search. Returns its probe, or NULL for any other hit.
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

static RARE struct probe_error *add_event(
	struct probe_summary *summary, const struct probe_event *event)
{
	struct summary_probe *probe, *begin = NULL;
	struct summary_recent *recent;
	struct probe_error *error = NULL;
	size_t bin;

	if (take_stream_event(summary, event))
		return NULL;
	/* neither the loss nor any event before it has a time */
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
	/* Remember the thread of this hit. */
	recent = recent_of(summary, event);
	if (recent->name == event->name && recent->provider == event->provider)
		recent->thread = summary->last_thread;
	if (event->begin)
		return begin ? flights_span(summary, begin->index, probe->index, event, bin) : NULL;
	return probe->may_begin || probe->role == PROBE_ROLE_END
		       ? flights_hit(summary, probe->index, event, bin)
		       : NULL;
}

struct probe_error *probe_summary_add(
	struct probe_summary *summary, const struct probe_event *event)
{
	struct summary_probe *probe = count_like(summary, event);
	struct probe_error *error;

	if (!probe)
		return add_event(summary, event);
	error = add_keys(summary, probe, event);
	if (error || (!probe->may_begin && probe->role != PROBE_ROLE_END))
		return error;
	return flights_hit(summary, probe->index, event, summary->last_bin);
}
