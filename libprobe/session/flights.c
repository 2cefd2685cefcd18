/* SPDX-License-Identifier: MIT */
/*
 * Removes start events that will have no end, where forked children share their table
 * (arch_flights). If a process is killed in between, the entry stays, because no stub notices the
 * end; in a long trace, such entries would fill the table.
 *
 * So when half of the table is used, entries of threads that are gone get the depth 0, and any
 * thread may take them. A new thread with the same id keeps an entry. Removed start events still
 * count as in flight. Entries with the program's keys (--match) belong to no thread, and stay.
 *
 * Entries have the kernel's thread ids, except in a child of clone(2) without libc, which has its
 * parent's, and in pid namespaces made by children. If no thread of the machine has such an id, a
 * living thread's entry is removed, and its next end event has no start event.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/session/session.h"

/* ==== Flights ================================================================================= */

enum { LOOK_NS = 250 * 1000 * 1000 };

struct flights_look {
	struct probe_session *session;
	uint32_t used;
	bool give_back;
};

static bool is_gone(uint32_t tid)
{
	return tid && getpgid((pid_t)tid) < 0 && errno == ESRCH;
}

/*
 * Sets an entry's depth to 0. State and depth are compared as one word
 * (arch/stub/flight_entries.c).
 */
static bool set_idle(
	const struct probe_session *s, uint64_t offset, const struct probe_flight *flight)
{
	uint64_t seen = (uint64_t)flight->depth << 32 | flight->state;

	return atomic_compare_exchange_strong(
		(_Atomic uint64_t *)(s->rings.base + offset), &seen, flight->state);
}

static void look_at(void *data, uint64_t offset, const struct probe_flight *flight)
{
	struct flights_look *look = data;
	struct probe_session *s = look->session;
	uint32_t pair = flight->state - FLIGHT_PAIR;
	uint64_t open;

	look->used++;
	if (!look->give_back || pair >= s->left_count || !is_gone(flight->tid))
		return;
	open = snapshot_open_begins(&s->view, offset, flight);
	if (set_idle(s, offset, flight))
		s->left[pair] += open;
}

/* Makes room to count removed start events. If memory is short, no start event is removed. */
static void grow_left(struct probe_session *s)
{
	uint64_t *left;

	if (s->pairs <= s->left_count)
		return;
	left = reallocarray(s->left, s->pairs, sizeof(*left));
	if (!left)
		return;
	for (uint32_t i = s->left_count; i < s->pairs; i++)
		left[i] = 0;
	s->left = left;
	s->left_count = s->pairs;
}

void session_give_back_flights(struct probe_session *s)
{
	struct flights_look look = {.session = s};
	uint64_t now = clock_monotonic_ns();

	if (!s->options.follow_children || !session_has_pairs(s) || s->options.gather.match ||
		s->processes.foreign || now < s->flights_again_ns)
		return;
	s->flights_again_ns = now + LOOK_NS;
	snapshot_walk_flights(&s->view, look_at, &look);
	if (look.used < s->view.layout.flight_entries / 2)
		return;
	grow_left(s);
	look.give_back = true;
	snapshot_walk_flights(&s->view, look_at, &look);
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

/* The target can write both counters; they are only shown. */
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

/* ==== Switch ================================================================================== */

/*
 * Switches records on and off while stubs run, by words that stubs test (arch_stub.on and .off). No
 * thread is stopped. Hits that have already passed the test complete.
 */

static _Atomic uint32_t *switch_of(const struct probe_session *s)
{
	return (_Atomic uint32_t *)(s->rings.base + DATA_SWITCH_OFFSET);
}

/* Set by a hit that finds no room in its ring, with options->until_full. */
static _Atomic uint32_t *full_of(const struct probe_session *s)
{
	return switch_of(s) + 1;
}

/* The target can write the switch, so its value may be anything. */
bool probe_session_is_on(const struct probe_session *session)
{
	return session->options.switched && session->rings.base &&
	       atomic_load_explicit(switch_of(session), memory_order_relaxed) &&
	       !atomic_load_explicit(full_of(session), memory_order_relaxed);
}

void probe_session_switch(struct probe_session *session, size_t probe, bool on)
{
	const struct reg_session *l = &session->rings.layout;
	uint64_t offset;

	if (!session->options.switched || !session->rings.base)
		return;
	if (probe == SIZE_MAX) {
		/* Clear the switch first: a hit could find it on although no ring is full. */
		if (!on)
			atomic_store_explicit(switch_of(session), false, memory_order_seq_cst);
		atomic_store_explicit(full_of(session), 0, memory_order_seq_cst);
		if (on)
			atomic_store_explicit(switch_of(session), true, memory_order_seq_cst);
		return;
	}
	if (probe >= session->probe_count)
		return;
	offset = l->slots - l->data + ((uint64_t)l->cpus << l->slots_shift) +
		 session->known[probe].slot * sizeof(struct probe_slot) +
		 offsetof(struct probe_slot, off);
	atomic_store_explicit(
		(_Atomic uint64_t *)(session->rings.base + offset), !on, memory_order_relaxed);
}
