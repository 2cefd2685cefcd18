/* SPDX-License-Identifier: MIT */
/*
 * Adds events to a summary: probes, keys, threads and call stacks. A record may have a billion
 * events. Most events resemble the one before, so the results for the last event are tried first.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/event.h"
#include "libprobe/base/frame_text.h"
#include "libprobe/base/hash.h"
#include "libprobe/base/value.h"
#include "libprobe/output/output.h"
#include "libprobe/record/record.h"
#include "libprobe/report/report.h"

/* ==== Keys ==================================================================================== */

/* The most frequent values of a key. */

struct top *top_create(size_t slot_count)
{
	struct top *top = calloc(1, sizeof(*top));
	size_t room = 4;

	if (!top)
		return NULL;
	while (room < 2 * slot_count)
		room *= 2;
	top->slot_count = slot_count;
	top->table_mask = room - 1;
	top->slots = calloc(slot_count, sizeof(*top->slots));
	top->table = calloc(room, sizeof(*top->table));
	if (top->slots && top->table)
		return top;
	top_free(top);
	return NULL;
}

void top_free(struct top *top)
{
	if (!top)
		return;
	for (size_t i = 0; i < top->used; i++)
		free((void *)(uintptr_t)top->slots[i].value.bytes);
	free(top->slots);
	free(top->table);
	free(top);
}

static uint64_t value_hash(const struct probe_value *value)
{
	if (value_has_bytes(value))
		return hash_bytes(value->truncated, value->bytes, value->length);
	return hash_word(2, value->u);
}

/*
 * Whether a slot has this value. Equal numbers with different bits (1 and 1.0) count as different.
 */
static bool is_value(const struct top_slot *slot, const struct probe_value *value)
{
	if (value_has_bytes(value))
		return slot->value.length == value->length &&
		       value_compare(&slot->value, value) == 0;
	return slot->value.u == value->u &&
	       (slot->value.kind == value->kind || value_compare(&slot->value, value) == 0);
}

/* The entry of a value in the hash table, or the free entry where it belongs. */
static size_t find(const struct top *top, const struct probe_value *value, uint64_t hash)
{
	size_t at = hash & top->table_mask;

	for (; top->table[at]; at = (at + 1) & top->table_mask) {
		const struct top_slot *slot = &top->slots[top->table[at] - 1];

		if (slot->hash == hash && is_value(slot, value))
			break;
	}
	return at;
}

/*
 * Removes an entry from the hash table, and moves back the later entries that it had displaced from
 * their own places.
 */
static void forget(struct top *top, size_t hole)
{
	size_t mask = top->table_mask;

	for (size_t at = (hole + 1) & mask; top->table[at]; at = (at + 1) & mask) {
		size_t home = top->slots[top->table[at] - 1].hash & mask;

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		top->table[hole] = top->table[at];
		hole = at;
	}
	top->table[hole] = 0;
}

/* Finds the slot with the smallest count. Each search continues where the last one ended. */
static struct top_slot *least_slot(struct top *top)
{
	for (;;) {
		uint64_t least = UINT64_MAX;

		for (size_t i = 0; i < top->slot_count; i++) {
			struct top_slot *slot = &top->slots[top->cursor];

			if (slot->count == top->least)
				return slot;
			least = slot->count < least ? slot->count : least;
			top->cursor = (top->cursor + 1) % top->slot_count;
		}
		top->least = least;
	}
}

static bool set_value(struct top_slot *slot, const struct probe_value *value)
{
	char *copy = NULL;

	if (value_has_bytes(value)) {
		copy = malloc(value->length + 1);
		if (!copy)
			return false;
		memcpy(copy, value->length ? value->bytes : "", value->length);
	}
	free((void *)(uintptr_t)slot->value.bytes);
	slot->value = *value;
	slot->value.bytes = copy;
	return true;
}

bool top_add(struct top *top, const struct probe_value *value)
{
	struct probe_value cut;
	struct top_slot *slot;
	uint64_t hash;
	size_t at;

	if (value_has_bytes(value) && value->length > SUMMARY_KEY_BYTES_MAX) {
		cut = *value;
		cut.length = SUMMARY_KEY_BYTES_MAX;
		cut.truncated = true;
		value = &cut;
	}
	top->total++;
	/* Texts often repeat, and comparing is faster than hashing. */
	if (value_has_bytes(value) && top->used && is_value(&top->slots[top->last], value)) {
		top->slots[top->last].count++;
		return true;
	}
	hash = value_hash(value);
	at = find(top, value, hash);
	if (top->table[at]) {
		top->last = top->table[at] - 1;
		top->slots[top->last].count++;
		return true;
	}
	if (top->used < top->slot_count) {
		slot = &top->slots[top->used++];
	} else {
		slot = least_slot(top);
		forget(top, find(top, &slot->value, slot->hash));
		slot->error = slot->count;
		top->approximate = true;
		at = find(top, value, hash);
	}
	slot->hash = hash;
	slot->count++;
	top->last = (uint32_t)(slot - top->slots);
	top->table[at] = top->last + 1;
	return set_value(slot, value);
}

static int by_count(const void *a, const void *b)
{
	const struct top_slot *left = *(const struct top_slot *const *)a;
	const struct top_slot *right = *(const struct top_slot *const *)b;

	if (left->count != right->count)
		return left->count > right->count ? -1 : 1;
	return value_compare(&left->value, &right->value);
}

const struct top_slot **top_sorted(const struct top *top)
{
	const struct top_slot **sorted = calloc(top->used + 1, sizeof(struct top_slot *));

	for (size_t i = 0; sorted && i < top->used; i++)
		sorted[i] = &top->slots[i];
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
		/* count - error is a lower bound of the value's hits. */
		*rest_ret -= sorted[shown]->count - sorted[shown]->error;
		shown++;
	}
	*most_ret = shown < top->used ? sorted[shown]->count : 0;
	return shown;
}

/* ==== Threads ================================================================================= */

/* The threads with hits, and their processes. */

static bool same_thread(const struct summary_thread *thread, const struct probe_event *event)
{
	return thread->hits && thread->pid == event->pid && thread->tid == event->tid;
}

static size_t home_of(const struct probe_summary *summary, pid_t pid, pid_t tid)
{
	return hash_word(0, (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid) &
	       (summary->thread_room - 1);
}

static bool grow(struct probe_summary *summary)
{
	struct summary_thread *before = summary->threads;
	size_t room = summary->thread_room;

	summary->threads = calloc(room ? 2 * room : 64, sizeof(*summary->threads));
	if (!summary->threads) {
		summary->threads = before;
		return false;
	}
	summary->thread_room = room ? 2 * room : 64;
	for (size_t i = 0; i < room; i++) {
		size_t at = home_of(summary, before[i].pid, before[i].tid);

		if (!before[i].hits)
			continue;
		while (summary->threads[at].hits)
			at = (at + 1) & (summary->thread_room - 1);
		summary->threads[at] = before[i];
	}
	free(before);
	summary->last_thread = NULL;
	memset(summary->recent, 0, sizeof(summary->recent));
	return true;
}

/*
 * Finds or adds the thread of an event. *ret is NULL if the limit is reached. Returns false if out
 * of memory.
 */
static bool find_thread(
	struct probe_summary *summary, const struct probe_event *event, struct summary_thread **ret)
{
	struct summary_thread *thread;
	size_t at;

	*ret = NULL;
	if (2 * (summary->thread_count + 1) > summary->thread_room && !grow(summary))
		return false;
	at = home_of(summary, event->pid, event->tid);
	while (summary->threads[at].hits && !same_thread(&summary->threads[at], event))
		at = (at + 1) & (summary->thread_room - 1);
	thread = &summary->threads[at];
	if (!thread->hits) {
		if (summary->thread_count == SUMMARY_THREADS_MAX)
			return true;
		summary->thread_count++;
		thread->pid = event->pid;
		thread->tid = event->tid;
	}
	*ret = summary->last_thread = thread;
	return true;
}

static void take_comm(struct summary_thread *thread, const struct probe_event *event)
{
	if (!event->comm ||
		(event->texts && event->texts == thread->texts && event->comm == thread->comm_at))
		return;
	if (strcmp(thread->comm, event->comm) != 0)
		strncpy(thread->comm, event->comm, sizeof(thread->comm) - 1);
	thread->comm_at = event->comm;
	thread->texts = event->texts;
}

static struct probe_error *threads_hit(
	struct probe_summary *summary, const struct probe_event *event)
{
	struct summary_thread *thread = summary->last_thread;

	if (!thread || !same_thread(thread, event)) {
		if (!find_thread(summary, event, &thread))
			return probe_error_no_memory();
		if (!thread) {
			summary->other_thread_hits++;
			return NULL;
		}
	}
	thread->hits++;
	take_comm(thread, event);
	return NULL;
}

/* ---- Sorted threads -------------------------------------------------------------------- */

static int thread_order(const void *a, const void *b)
{
	const struct summary_thread *left = *(const struct summary_thread *const *)a;
	const struct summary_thread *right = *(const struct summary_thread *const *)b;

	if (left->hits != right->hits)
		return left->hits > right->hits ? -1 : 1;
	if (left->pid != right->pid)
		return left->pid < right->pid ? -1 : 1;
	return left->tid < right->tid ? -1 : left->tid > right->tid;
}

const struct summary_thread **threads_sorted(const struct probe_summary *summary)
{
	const struct summary_thread **sorted =
		calloc(summary->thread_count + 1, sizeof(struct summary_thread *));
	size_t count = 0;

	for (size_t i = 0; sorted && i < summary->thread_room; i++) {
		if (summary->threads[i].hits)
			sorted[count++] = &summary->threads[i];
	}
	if (sorted)
		qsort(sorted, count, sizeof(struct summary_thread *), thread_order);
	return sorted;
}

static int by_pid(const void *a, const void *b)
{
	const struct summary_thread *left = *(const struct summary_thread *const *)a;
	const struct summary_thread *right = *(const struct summary_thread *const *)b;

	if (left->pid != right->pid)
		return left->pid < right->pid ? -1 : 1;
	return left->tid < right->tid ? -1 : left->tid > right->tid;
}

static int process_order(const void *a, const void *b)
{
	const struct summary_process *left = a, *right = b;

	if (left->hits != right->hits)
		return left->hits > right->hits ? -1 : 1;
	return left->pid < right->pid ? -1 : left->pid > right->pid;
}

struct summary_process *threads_processes(const struct probe_summary *summary, size_t *count_ret)
{
	struct summary_process *processes = calloc(summary->thread_count + 1, sizeof(*processes));
	const struct summary_thread **threads = threads_sorted(summary);
	size_t count = 0;

	if (!processes || !threads) {
		free(processes);
		free(threads);
		return NULL;
	}
	qsort(threads, summary->thread_count, sizeof(struct summary_thread *), by_pid);
	for (size_t i = 0; i < summary->thread_count; i++) {
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
	free(threads);
	qsort(processes, count, sizeof(*processes), process_order);
	*count_ret = count;
	return processes;
}

/* ==== Call stacks ============================================================================= */

/*
 * Hits by call stack, if a record has stacks. Two stacks are equal if they are shown alike: by
 * function names. Addresses are ignored, as they differ between processes.
 */

enum { CALLERS_TABLE = 2 * SUMMARY_CALLERS_MAX };

/* Hashes a stack so that stacks which stacks_compare() distinguishes rarely have the same hash. */
static uint64_t hash_of(size_t probe, const struct probe_stack *stack)
{
	const uint64_t seed[] = {probe, stack->end, stack->count};
	uint64_t hash = hash_bytes(0, seed, sizeof(seed));

	for (size_t i = 0; i < stack->count; i++) {
		const struct probe_frame *frame = stack->frames[i];
		uint64_t place = frame->symbol ? 0 : frame_text_place(frame);

		hash = frame->symbol ? hash_text(hash, frame->symbol) : hash;
		hash = frame->module ? hash_text(hash, frame->module) : hash;
		hash = hash_word(hash, (uint64_t)frame->line);
		hash = hash_word(hash, place);
	}
	return hash;
}

static bool is_row(const struct summary_callers *row, size_t probe, const struct probe_stack *stack,
	uint64_t hash)
{
	const struct probe_stacks_row left = {.stack = *row->stack}, right = {.stack = *stack};

	return row->hash == hash && row->probe == probe && stacks_compare(&left, &right) == 0;
}

/* Adds a row. Returns false if out of memory. */
static bool add_row(
	struct probe_summary *summary, size_t probe, const struct probe_stack *stack, uint64_t hash)
{
	struct summary_callers row = {.probe = probe, .hash = hash, .count = 1};

	if (!ARRAY_ROOM(summary->callers, summary->callers_count))
		return false;
	row.stack = event_copy_stack(stack, &row.block);
	if (!row.stack)
		return false;
	summary->callers[summary->callers_count++] = row;
	return true;
}

/* Counts a hit of a probe with this stack. Returns false if out of memory. */
static bool callers_add(
	struct probe_summary *summary, size_t probe, const struct probe_stack *stack)
{
	const struct probe_stack cut = event_cut_stack(stack);
	uint64_t hash = hash_of(probe, &cut);
	size_t at = hash & (CALLERS_TABLE - 1);

	if (!summary->callers_table)
		summary->callers_table = calloc(CALLERS_TABLE, sizeof(*summary->callers_table));
	if (!summary->callers_table)
		return false;
	for (; summary->callers_table[at]; at = (at + 1) & (CALLERS_TABLE - 1)) {
		struct summary_callers *row = &summary->callers[summary->callers_table[at] - 1];

		if (is_row(row, probe, &cut, hash)) {
			row->count++;
			return true;
		}
	}
	if (summary->callers_count == SUMMARY_CALLERS_MAX) {
		summary->other_callers++;
		return true;
	}
	if (!add_row(summary, probe, &cut, hash))
		return false;
	summary->callers_table[at] = (uint16_t)summary->callers_count;
	return true;
}

void callers_deinit(struct probe_summary *summary)
{
	for (size_t i = 0; i < summary->callers_count; i++)
		free(summary->callers[i].block);
	free(summary->callers);
	free(summary->callers_table);
}

static int most_first(const void *a, const void *b)
{
	const struct probe_stacks_row *left = a, *right = b;

	if (left->count != right->count)
		return left->count > right->count ? -1 : 1;
	return stacks_compare(left, right);
}

struct probe_stacks_row *callers_rows(const struct probe_summary *summary)
{
	struct probe_stacks_row *rows = calloc(summary->callers_count + 1, sizeof(*rows));

	for (size_t i = 0; rows && i < summary->callers_count; i++) {
		const struct summary_callers *its = &summary->callers[i];

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

/*
 * Functions off the fast path are not inlined, so that the fast path is short and stays in
 * registers.
 */
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

/* Finds or adds the probe of an event by its names. *ret is NULL if the limit is reached. */
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
 * Returns true if a cache entry has the probe of this event. If only comparing the names shows
 * that, the event's `texts` are stored in the entry, so that the next comparison is fast.
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

/* The SUMMARY_RECENT_WAYS cache entries for the addresses of an event's names. */
static struct summary_recent *recent_of(
	struct probe_summary *summary, const struct probe_event *event)
{
	size_t at = hash_word(0, (uintptr_t)event->name) & (SUMMARY_RECENT - 1);

	return summary->recent[at];
}

/* Like find_named(), but first looks into the cache. */
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

/* Counts a value of an argument that may become a key by itself. */
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
	/* So many different numbers are addresses or identifiers. Drop the table. */
	top_free(probe->tops[index]);
	probe->tops[index] = NULL;
	probe->no_top[index] = true;
	summary->auto_keys--;
	return NULL;
}

/*
 * Counts the arguments of an event if the user names no key: strings, and integers with few values.
 */
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

/*
 * Adds losses. The total stays below 2^63, so that hits can be added to it without an overflow.
 * Returns the number of added losses.
 */
static uint64_t add_lost(struct probe_summary *summary, uint64_t count)
{
	uint64_t room = UINT64_MAX / 2 - summary->lost;
	uint64_t lost = count < room ? count : room;

	summary->lost += lost;
	return lost;
}

/*
 * If the event is a system event of a POSIX trace stream (probe/stream.h), handles it and returns
 * true. The log of a stream contains such events. They are not hits of a thread.
 */
static bool take_stream_event(struct probe_summary *summary, const struct probe_event *event)
{
	if (event->tid != 0 || !system_event_is(event))
		return false;
	switch (system_event_type(event->provider, event->name)) {
	case PROBE_STREAM_OVERFLOW:
		summary->overrun = true;
		break;
	/*
	 * The argument is 1 if the stream stopped because it was full. All integer kinds have the
	 * same bits for 1.
	 */
	case PROBE_STREAM_STOP:
		summary->full |= event->arg_count && event->args[0].u == 1;
		break;
	default:
		break;
	}
	return true;
}

/* Counts a hit. *ret is its probe, or NULL if the probe is beyond the limit. */
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

/* Adds the time of an event and returns its bin. */
static size_t take_time(struct probe_summary *summary, const struct probe_event *event)
{
	/*
	 * Losses without a time get the latest time so far. Times are limited to INT64_MAX, which
	 * no clock reaches.
	 */
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

/* ---- Hits that resemble earlier hits ----------------------------------------------------- */

/* Remembers the thread of the hit that was just counted. */
static void remember(struct probe_summary *summary, const struct probe_event *event)
{
	struct summary_recent *recent = recent_of(summary, event);

	if (recent->name == event->name && recent->provider == event->provider)
		recent->thread = summary->last_thread;
}

/*
 * Fast path for a hit that has the same probe and thread as an earlier hit in the cache. The hit
 * must also be the latest one and fall into the last bin. Counts the hit without any search and
 * returns its probe. Returns NULL if the fast path does not apply.
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

/* Adds a hit that may be a start event, or is an end event. */
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
	/* The loss has no time, and no event before it had one. */
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
