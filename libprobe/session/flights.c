/* SPDX-License-Identifier: MIT */
/*
 * Begins that will have no end, where forked children share the table of begins (arch_flights). A
 * process that is killed between a begin and its end leaves an entry that no stub can give back: it
 * does not know who is gone. In a long trace of a server whose children fail now and then, these
 * entries would fill the table in the end, and later begins would be lost.
 *
 * So when half of the table is in use, the entries of threads that are gone get the depth 0, at
 * which any thread may take them. An entry belongs to one thread, by its id; if another thread has
 * that id by now, the entry stays. What they had begun stays counted as in flight. Keys of the
 * program (--match) belong to no thread, so their entries stay, too.
 *
 * Ids are the kernel's: not so in a child of clone(2) without libc, which has its parent's, nor in
 * a pid namespace that a child has made. If such a child lives while no thread has the id, its next
 * end counts as one without a begin.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/session/session.h"

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

/* State and depth are one word to those who take an entry (arch/stub/flight_entries.c). */
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

/* Room to count what is given back; without memory, nothing is. */
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
