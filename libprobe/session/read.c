/* SPDX-License-Identifier: MIT */
/* Reads records; counts and gathered rows are in gather.c. */
#include <string.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/session/session.h"

/* Finds a site by its number in records, which the process that started the session assigned. */
static const struct session_site *find_site(const struct probe_session *s, uint32_t number)
{
	if (number < s->site_count && s->sites[number].number == number)
		return &s->sites[number];
	for (size_t i = 0; s->opened && i < s->site_count; i++)
		if (s->sites[i].number == number)
			return &s->sites[i];
	return NULL;
}

/* Values and names of a hit. */
struct hit_room {
	struct probe_value values[ARCH_ARGS_MAX], begin_values[ARCH_ARGS_MAX];
	char names[ARCH_ARGS_MAX][SESSION_NAME_ROOM], begin_names[ARCH_ARGS_MAX][SESSION_NAME_ROOM];
	struct probe_hit begin;
};

/* Turns values of sym() in a record into texts; `rooms` has one for each value. */
static void name_values(const struct session_names *names, const struct record_layout *layout,
	struct probe_value *values, char (*rooms)[SESSION_NAME_ROOM])
{
	for (size_t i = 0; i < layout->arg_count; i++) {
		struct probe_value *value = &values[i];

		if (!layout->args[i].is_symbol ||
			(value->kind != PROBE_VALUE_SIGNED && value->kind != PROBE_VALUE_UNSIGNED))
			continue;
		value->kind = PROBE_VALUE_TEXT;
		value->bytes = session_name(names, value->u, rooms[i]);
		value->length = strlen(value->bytes);
	}
}

/*
 * Reads what follows an end event's record: the duration, and the start event's record. Returns the
 * length, or 0 if it is impossible.
 */
static size_t read_begin(struct probe_session *s, const uint8_t *bytes, size_t size,
	uint64_t end_stamp, struct hit_room *room, struct probe_hit *ret)
{
	const struct pair_part *part = &s->known[ret->probe].part;
	struct probe_hit *begin = &room->begin;
	const struct session_site *site, *named;
	struct ring_record record;
	size_t length;

	if (size < sizeof(ret->duration_ns) + sizeof(record))
		return 0;
	memcpy(&ret->duration_ns, bytes, sizeof(ret->duration_ns));
	bytes += sizeof(ret->duration_ns);
	memcpy(&record, bytes, sizeof(record));
	site = find_site(s, record.site);
	if (!site || s->known[site->probe].part.role != PAIR_BEGIN ||
		s->known[site->probe].part.pair != part->pair || part->role != PAIR_END)
		return 0;
	length = record_layout_read(
		&site->layout, bytes, size - sizeof(ret->duration_ns), room->begin_values);
	if (length == 0)
		return 0;
	name_values(&s->names, &site->layout, room->begin_values, room->begin_names);
	named = site;
	if (s->known[site->probe].part.gives) {
		named = find_site(s, record.tid);
		if (!named || !s->known[named->probe].part.takes ||
			s->known[named->probe].part.pair != part->pair)
			return 0;
	}
	*begin = (struct probe_hit){.time_ns = clock_realtime_ns(&s->clock,
					    record.time < end_stamp ? record.time : end_stamp),
		.cpu = -1,
		.probe = named->probe,
		.pc = named->pc,
		.args = room->begin_values,
		.arg_count = site->layout.arg_count,
		.pid = ret->pid,
		.tid = ret->tid};
	if (named == site)
		writers_find(&s->processes, record.tid, &begin->pid, &begin->tid);
	ret->begin = begin;
	return sizeof(ret->duration_ns) + length;
}

/* Returns the stack in a record that record_layout_read() accepted, or NULL. */
static const struct probe_stack *read_stack(struct probe_session *session,
	const struct session_site *site, const struct ring_record *record)
{
	struct unwinder_thread thread = {.pc = site->pc + site->keep};
	struct record_layout_stack stack;
	struct probe_error *error;

	if (!session->names.unwinder ||
		!record_layout_read_stack(&site->layout, (const uint8_t *)record, &stack))
		return NULL;
	thread.registers = stack.registers;
	thread.bytes = stack.bytes;
	thread.length = stack.length;
	error = stack.registers
			? unwinder_copy(session->names.unwinder, &thread, &session->names.stack)
			: unwinder_frames(session->names.unwinder, site->pc, stack.caller,
				  stack.bytes, stack.length / 8, &session->names.stack);
	/* If memory is short, the stack has fewer frames, and is incomplete. */
	probe_error_free(error);
	return &session->names.stack;
}

/* Reads a copied record into *room. Returns its length, or 0 if it is impossible. */
static size_t read_hit(struct probe_session *s, const struct ring_record *record, size_t size,
	size_t ring, struct hit_room *room, struct probe_hit *ret)
{
	const struct session_site *site = find_site(s, record->site);
	uint64_t stamp = record->time;
	size_t length, more, args;
	bool has_frame;

	if (!site)
		return 0;
	/*
	 * The clock was read after the record, so a later stamp is false. A stamp from a file is
	 * limited to those that can be converted.
	 */
	if (s->remains.dead) {
		double most = NOTES_YEARS_NS / s->clock.stamp_ns;

		if (stamp < s->clock.first_stamp)
			stamp = s->clock.first_stamp;
		else if ((double)(stamp - s->clock.first_stamp) > most)
			stamp = s->clock.first_stamp + (uint64_t)most;
	} else if (stamp > s->clock.last_stamp) {
		stamp = s->clock.last_stamp;
	}
	length = record_layout_read(&site->layout, (const uint8_t *)record, size, room->values);
	if (length == 0)
		return 0;
	name_values(&s->names, &site->layout, room->values, room->names);
	args = site->layout.arg_count;
	has_frame = args && site->layout.args[args - 1].number == RECORD_LAYOUT_FRAME;
	*ret = (struct probe_hit){.time_ns = clock_realtime_ns(&s->clock, stamp),
		.cpu = (int)(ring % s->data.rings.layout.cpus),
		.probe = site->probe,
		.pc = site->pc,
		.args = room->values,
		.arg_count = args - has_frame,
		.frame = has_frame ? room->values[args - 1].u : 0,
		.stack = read_stack(s, site, record)};
	writers_find(&s->processes, record->tid, &ret->pid, &ret->tid);
	/*
	 * Compute the filter's value again, with the ids that the stub saw, in the target's
	 * namespace. It was not 0 for the stub. If it is 0 now, the filter uses the CPU, which the
	 * stub did not know, and the value is null.
	 */
	if (s->options.filter_value && site->bound->filter.count) {
		struct arch_expr its = site->bound->filter;

		if (site->bound->filter_own)
			its.count = site->bound->filter_own;
		ret->filter = expr_record_value(&its, &site->layout, (const uint8_t *)record,
			(int32_t)(record->tid & INT32_MAX),
			s->target_pid ? (int32_t)s->target_pid : ret->pid, ret->cpu);
		if (!ret->filter.u)
			ret->filter = (struct probe_value){.kind = PROBE_VALUE_NULL};
	}
	if (!s->options.spans)
		return length;
	more = read_begin(s, (const uint8_t *)record + length, size - length, stamp, room, ret);
	return more ? length + more : 0;
}

/* Hands over a record. Returns false if `visit` wants no more. */
static bool hand_over(struct probe_session *s, const struct ring_record *record, struct ring *ring,
	size_t size, bool (*visit)(const struct probe_hit *hit, void *data), void *data)
{
	struct hit_room room;
	struct probe_hit hit;
	struct ring_record *copy = (struct ring_record *)s->data.rings.record;
	bool go_on = true;
	size_t length;

	/*
	 * On aarch64, a stub may read the counter a few instructions early, but the times of a ring
	 * must not decrease.
	 */
	if (record->time > s->clock.last_stamp)
		copy->time = s->clock.last_stamp;
	if (record->time > ring->newest)
		ring->newest = record->time;
	copy->time = ring->newest;
	length = read_hit(s, record, size, ring - s->data.rings.rings, &room, &hit);
	if (length) {
		go_on = visit(&hit, data);
		s->known[hit.probe].consumed++;
	}
	rings_consume(ring, length);
	return go_on;
}

struct probe_error *session_take_recording(
	struct probe_session *s, struct ring_since *since, struct recording *ret)
{
	struct probe_error *error;

	if (!s->options.overwrite)
		return probe_error_new(PROBE_ERROR_USAGE,
			"only a session that overwrites its rings has a snapshot");
	error = session_check_there(s)
			?: recording_read(&s->data.view, session_record_max(s), since, ret);
	if (!error && !s->remains.dead)
		clock_sync(&s->clock);
	return error;
}

size_t session_visit_recording(struct probe_session *s, const struct recording *recording,
	size_t from, bool (*visit)(const struct probe_hit *hit, void *data), void *data)
{
	struct hit_room room;
	struct probe_hit hit;
	bool go_on = true;
	size_t length;

	for (; from < recording->count && go_on; from++) {
		const struct recorded *r = &recording->records[from];
		const struct ring_record *record =
			(const struct ring_record *)(recording->bytes + r->offset);

		/* The record's length and its size in the ring must agree. */
		length = read_hit(s, record, r->size, r->ring, &room, &hit);
		if (length && ring_padded(length, RING_BACK_BYTES) == r->size)
			go_on = visit(&hit, data);
	}
	return from;
}

struct probe_error *probe_session_snapshot(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data)
{
	AUTO(recording_deinit) struct recording recording = {0};
	struct probe_error *error = session_take_recording(session, NULL, &recording);

	if (!error)
		session_visit_recording(session, &recording, 0, visit, data);
	return error;
}

uint64_t probe_session_recorded(struct probe_session *session)
{
	return session->options.overwrite ? recording_total(&session->data.view) : 0;
}

bool session_read_rings(
	struct probe_session *s, bool (*visit)(const struct probe_hit *hit, void *data), void *data)
{
	uint64_t until = s->stopped ? UINT64_MAX : clock_stamp(&s->clock);
	const struct ring_record *record = NULL;
	struct ring *ring;
	bool any = false;
	size_t size;

	/* Overwritten rings are only read in a snapshot. */
	if (!visit || s->options.overwrite)
		writers_learn(&s->processes);
	if (s->options.overwrite)
		return false;
	rings_begin(&s->data.rings);
	clock_sync(&s->clock);
	while (visit &&
		(record = rings_next(&s->data.rings, session_record_max(s), until, &ring, &size))) {
		any = true;
		if (!hand_over(s, record, ring, size, visit, data))
			break;
	}
	if (s->stopped && visit && !record)
		rings_discard(&s->data.rings);
	rings_end(&s->data.rings);
	return any;
}

uint64_t probe_session_damaged(const struct probe_session *session)
{
	return rings_damaged(&session->data.rings) + session->data.counts_damaged;
}
