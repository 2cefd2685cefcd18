/* SPDX-License-Identifier: MIT */
/*
 * Hits that wait for room (arch/stub/wait.c), as their controller sees them.
 *
 * A gate's thread (libprobe/follow/gate_waiter.c) does two things for them. It owns the word that
 * they sleep on, so that the kernel ends all waits when we die; and it turns the first wait after
 * each time that room was made into the session's event, so that we need not look at the rings more
 * often than otherwise.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "libprobe/session/session.h"

static struct probe_room *room_of(const struct probe_session *s)
{
	return (struct probe_room *)(s->rings.base + DATA_ROOM_OFFSET);
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
	s->wait_ticks =
		(uint64_t)((double)o->wait_ns * (double)(UINT64_C(1) << 32) / (double)s->tick_ns32);
	return NULL;
}

struct probe_error *session_open_wait(struct probe_session *s)
{
	struct probe_room *room = room_of(s);

	if (!s->options.wait_ns)
		return NULL;
	if (s->event < 0)
		s->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->event < 0)
		return probe_error_system(errno, "cannot make an event descriptor");
	room->moved = 1;
	rings_tell(&s->rings, room);
	gate_open(&s->wait, &room->gate, s->event);
	return NULL;
}

void session_note_waiting(struct probe_session *s)
{
	uint32_t arrived = gate_arrivals(&s->wait);

	if (arrived == s->wait_seen)
		return;
	s->wait_seen = arrived;
	gate_raise(s->event);
}

/* The target can write both: whatever they are, the result is only shown. */
uint64_t probe_session_waited(const struct probe_session *session, uint64_t *ns_ret)
{
	uint64_t waited = 0, ticks = 0;

	if (session->options.wait_ns && session->rings.base) {
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
