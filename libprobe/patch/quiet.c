/* SPDX-License-Identifier: MIT */
/*
 * Once the bytes of a site are restored, nothing leads to its stubs. A thread that was in one
 * leaves it soon, or was interrupted by a signal handler, and comes back when that returns: from
 * the same thread's stack, or, if the handler has switched to another user context, from memory
 * that no thread uses as its stack. So a stub is freed on this proof:
 *
 *   look     all threads stopped: no thread's registers are in a stub, and no context that was
 *            saved for a handler on the stacks in use. Cheap, so it is repeated
 *   search   with the target running: nor any context that was saved for a handler in all its
 *            memory. Not if no handler is installed: one that is gone while it runs has its
 *            frame on the stack of its thread, which the look covers
 *   judge    in the next look: what was found is still there, or the search is repeated.
 *            A thread that ran in the stub during the search, and was interrupted since, was in
 *            no memory then: so this look covers the whole stacks that threads use
 *
 * Since no thread enters a stub any more, a context that was not found once is not there later,
 * except for what libprobe/patch/search.c says about contexts that move.
 *
 * Handlers that have returned leave whole frames in memory, too: see libprobe/patch/doubts.c. A
 * frame that is dead in one look is dead in all.
 *
 * Where a search is not complete, nothing is proved, and all stubs stay.
 */
#include <time.h>

#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"

enum {
	LOOKS = 50,
	WAIT_NS = 1000000,
	SEARCHES = 8,
	NEAR_REACH = 64 << 10 /* of a foreign stack in a look before the search */
};

struct probe_error *quiet_open(
	const struct change *change, const bool *sites, const bool *stubs, struct quiet *ret)
{
	struct probe_error *error;

	*ret = (struct quiet){.sites = sites, .stubs = stubs};
	if (!busy_places(&ret->places, change, sites, stubs))
		return probe_error_no_memory();
	error = frames_open(change->pid, &change->maps, &ret->places, NEAR_REACH, &ret->frames);
	return error ? error
		     : search_open(change->pid, change->mem, &ret->places, change->registry.guard,
			       &ret->search);
}

void quiet_close(struct quiet *quiet)
{
	doubts_deinit(&quiet->doubts);
	frames_close(&quiet->frames);
	search_close(&quiet->search);
	places_deinit(&quiet->places);
}

/* ---- Judging --------------------------------------------------------------------------- */

static bool judge(struct quiet *q, const struct change *change)
{
	struct served known AUTO_SERVED;
	bool ok = true;

	served_begin(change->pid, &known);
	for (size_t i = 0; i < q->search.find_count && ok; i++) {
		struct search_find *find = &q->search.finds[i];
		uint64_t word;

		if (find->is_over)
			continue;
		if (memory_read_known(&known, find->at, &word, sizeof(word)) != sizeof(word) ||
			word != find->word)
			q->moved = true;
		else if (doubts_are_live(&q->doubts, &q->frames, &q->search, find))
			ok = frames_add(&q->frames, find->word);
		else
			find->is_over = true;
	}
	return ok;
}

struct probe_error *quiet_look(struct quiet *quiet, const struct change *change, struct busy *busy)
{
	struct probe_error *error = frames_read(&quiet->frames, &change->control);

	if (error)
		return error;
	busy_look_at_calls(busy, change);
	doubts_begin(&quiet->doubts, &change->control);
	return judge(quiet, change) ? NULL : probe_error_no_memory();
}

/* ---- Waiting --------------------------------------------------------------------------- */

static struct probe_error *search(struct quiet *q)
{
	struct probe_error *error = search_all(&q->search);

	q->searched = !error;
	q->moved = false;
	q->frames.reach = FRAMES_REACH;
	return error;
}

struct probe_error *quiet_wait(struct quiet *q, struct change *change, struct busy *busy, bool wait,
	struct probe_error *(*look)(void *data, struct change *change, bool first), void *data)
{
	int looks = 0, searches = 0;

	for (bool first = true;; first = false) {
		struct probe_error *error = look(data, change, first);
		bool settled;

		if (error)
			return error;
		frames_sort(&q->frames);
		busy_find(busy, change, &q->frames, q->sites, q->stubs);
		if (busy->any) {
			error = doubts_settle(&q->doubts, &q->search, &settled);
			if (error)
				return error;
			if (settled)
				continue;
		}
		if (busy->any && wait && ++looks < LOOKS) {
			nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
			continue;
		}
		/* No thread is known to be there, or those that are there stay. */
		if (!q->frames.has_handlers || (q->searched && !q->moved))
			return NULL;
		error = searches++ < SEARCHES ? search(q) : NULL;
		if (error)
			return error;
		if (q->moved || q->search.unknown) {
			busy_all(busy, &change->registry, q->sites, q->stubs);
			return NULL;
		}
		if (!q->search.find_count)
			return NULL;
	}
}
