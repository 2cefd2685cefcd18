/* SPDX-License-Identifier: MIT */
/*
 * A session's gates (follow/follow.h): one where threads wait that have opened a library, one where
 * programs wait that are started, and one where hits wait for room in a ring. They raise the
 * session's event, which wakes its controller.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/session/session.h"

/* ==== Libraries and programs ================================================================== */

/* Reports that hits are missed because there is no gate. A static program needs none. */
static struct probe_error *note_no_gate(const struct change *c, enum gate_place place,
	const struct probe_error *why, struct probe_report *report)
{
	size_t programs = 0;

	for (size_t i = 0; i < c->modules.count; i++)
		programs += c->modules.items[i].object != NULL;
	if (programs < 2)
		return NULL;
	if (place == GATE_LIBRARIES)
		return report_note(report,
			"process %d: hits in libraries that it opens from now on are not seen: %s",
			c->pid, why->message);
	return report_note(report,
		"process %d: a program that it starts is traced only some milliseconds later, and "
		"not at all if it has ended by then: %s",
		c->pid, why->message);
}

/* Adds a gate. If the function for the gate is missing, *ret is NULL, and the report says so. */
static struct probe_error *add_gate(struct probe_session *s, struct change *c,
	enum gate_place place, struct probe_report *report, struct probe_gate **ret)
{
	size_t offset = place == GATE_EXEC ? DATA_EXEC_GATE_OFFSET : DATA_GATE_OFFSET;
	struct probe_error *error =
		gate_attach(c, s->id, &s->request, place, s->options.follow_children);

	*ret = NULL;
	if (error &&
		(error->code == PROBE_ERROR_UNSUPPORTED || error->code == PROBE_ERROR_REFUSED)) {
		struct probe_error *second = note_no_gate(c, place, error, report);

		probe_error_free(error);
		return second;
	}
	if (!error)
		*ret = (struct probe_gate *)(s->data.rings.base + offset);
	return error;
}

struct probe_error *session_prepare_gates(struct probe_session *s)
{
	struct probe_error *error = NULL;

	if (s->options.follow_libraries)
		error = gate_prepare(&s->gates.loader);
	if (!error && s->options.watch)
		error = gate_prepare(&s->gates.exec.gate);
	if (!error && s->options.wait_ns)
		error = gate_prepare(&s->gates.room);
	return error;
}

struct probe_error *session_add_gates(
	struct probe_session *s, struct change *c, struct probe_report *report)
{
	struct probe_gate *loader = NULL, *exec = NULL;
	struct waiters_place place = {
		.pid = s->target->pid, .children = s->options.follow_children};
	struct probe_error *error = NULL;

	if (s->options.follow_libraries)
		error = add_gate(s, c, GATE_LIBRARIES, report, &loader);
	if (!error && s->options.watch)
		error = add_gate(s, c, GATE_EXEC, report, &exec);
	if (error || (!loader && !exec))
		return error;
	if (loader && gate_is_expected(c))
		loader->pass = 1;
	if (s->gates.event < 0)
		s->gates.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->gates.event < 0)
		return probe_error_system(errno, "cannot make an event descriptor");
	place.address = s->data.rings.layout.data + offsetof(struct probe_gate, turns);
	s->gates.loader_place = s->gates.exec.place = place;
	s->gates.loader_place.address += DATA_GATE_OFFSET;
	s->gates.loader_place.image = s->image;
	if (loader)
		gate_open(&s->gates.loader, loader, s->gates.event);
	if (!exec)
		return NULL;
	s->gates.exec.place.address += DATA_EXEC_GATE_OFFSET;
	gate_open(&s->gates.exec.gate, exec, watch_launches(s->options.watch)->event);
	return launches_add(watch_launches(s->options.watch), &s->gates.exec);
}

struct probe_error *session_note_lapse(struct probe_session *s)
{
	bool told = s->gates.lapse_told;

	if (!gate_has_lapsed(&s->gates.loader))
		return NULL;
	s->gates.lapsed = s->gates.lapse_told = true;
	if (told)
		return NULL;
	return report_note(&s->report,
		"process %d: hits in libraries that it opened while probectl was stopped or busy "
		"may be missing: a thread waits for %d seconds at most",
		s->target->pid, GATE_TIMEOUT_S);
}

void session_close_gates(struct probe_session *s)
{
	if (s->options.watch)
		launches_remove(watch_launches(s->options.watch), &s->gates.exec);
	gate_shut(&s->gates.exec.gate);
	gate_shut(&s->gates.loader);
	gate_close(&s->gates.exec.gate);
	gate_close(&s->gates.loader);
}

void session_close_wait(struct probe_session *s)
{
	gate_close(&s->gates.room);
	cleanup_fd(&s->gates.event);
}

int probe_session_fd(const struct probe_session *session)
{
	return session->gates.loader.shared || session->gates.room.shared ? session->gates.event
									  : -1;
}

/* ==== Wait ==================================================================================== */

/*
 * Hits that wait for room in a ring (arch/stub/record.c). A gate's thread (libprobe/follow/gate.c)
 * owns the futex word on which they sleep, so that the kernel ends all waits if probectl dies. It
 * raises the session's event at the first wait after room was made, so that rings need not be read
 * more often.
 */

static struct probe_room *room_of(const struct probe_session *s)
{
	return (struct probe_room *)(s->data.rings.base + DATA_ROOM_OFFSET);
}

struct probe_error *session_take_wait(struct probe_session *s)
{
	const struct probe_session_options *o = &s->options;

	if (!o->wait_ns)
		return NULL;
	if (o->kind != PROBE_SESSION_RECORD || o->overwrite || o->until_full || o->spans)
		return probe_error_new(PROBE_ERROR_USAGE,
			"only hits of which each is recorded wait for room: no spans, no flight "
			"recorder");
	if (o->wait_ns > PROBE_WAIT_MAX_NS)
		return probe_error_new(
			PROBE_ERROR_USAGE, "a hit waits for room for a second at most");
	s->tick_ns32 = clock_tick_ns32(&s->clock);
	s->gates.room_ticks =
		(uint64_t)((double)o->wait_ns * (double)(UINT64_C(1) << 32) / (double)s->tick_ns32);
	return NULL;
}

struct probe_error *session_open_wait(struct probe_session *s)
{
	struct probe_room *room = room_of(s);

	if (!s->options.wait_ns)
		return NULL;
	if (s->gates.event < 0)
		s->gates.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->gates.event < 0)
		return probe_error_system(errno, "cannot make an event descriptor");
	room->moved = 1;
	for (size_t i = 0; i < s->data.rings.count; i++)
		s->data.rings.rings[i].room = room;
	gate_open(&s->gates.room, &room->gate, s->gates.event);
	return NULL;
}

void session_note_waiting(struct probe_session *s)
{
	uint32_t arrived = gate_arrivals(&s->gates.room);

	if (arrived == s->gates.room_seen)
		return;
	s->gates.room_seen = arrived;
	gate_raise(s->gates.event);
}

/* The target can write both counters; they are only shown. */
uint64_t probe_session_waited(const struct probe_session *session, uint64_t *ns_ret)
{
	uint64_t waited = 0, ticks = 0;

	if (session->options.wait_ns && session->data.rings.base) {
		const struct probe_room *room = room_of(session);

		waited = atomic_load_explicit(
			(const _Atomic uint64_t *)&room->waited, memory_order_relaxed);
		ticks = atomic_load_explicit(
			(const _Atomic uint64_t *)&room->ticks, memory_order_relaxed);
	}
	*ns_ret = (ticks >> 32) * session->tick_ns32 +
		  ((ticks & UINT32_MAX) * session->tick_ns32 >> 32);
	return waited;
}
