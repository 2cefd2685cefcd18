/* SPDX-License-Identifier: MIT */
/*
 * Once the bytes of a site are restored, nothing leads to its stubs. A thread in a stub soon leaves
 * it. But if a signal has interrupted the thread in the stub, the thread comes back to the stub
 * when the signal handler returns. The interrupted context is then on the thread's own stack or, if
 * the handler has switched to another user context, in memory that no thread uses as its stack. So
 * a stub is freed only after this proof:
 *
 *   look     all threads stopped: no register of a thread is in the stub, and no context that was
 *            saved for a handler on the stacks in use. Cheap, so it is repeated
 *   search   with the target running: no context in all its memory that was saved for a handler
 *            is in the stub. Skipped if no handler is installed: the frame of a handler that was
 *            removed while it runs is on its thread's stack, which the look covers
 *   judge    in the next look: the contexts found are still there, or the search is repeated.
 *            A thread that ran in the stub during the search, and was interrupted since, had no
 *            context in memory then. So this look covers the whole stacks that threads use
 *
 * No thread enters a stub any more, so a context that a search does not find does not appear later,
 * except for contexts that move: see libprobe/patch/windows.c.
 *
 * The memory also has frames of handlers that have returned: see libprobe/patch/frames.c. A frame
 * that is dead in one look is dead in all later looks.
 *
 * If a search is incomplete, nothing is proved, and all stubs stay.
 */
#include <stdlib.h>
#include <time.h>

#include "arch/layout.h"
#include "libprobe/base/array.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"

/* ==== Busy ==================================================================================== */

/*
 * A thread in a stub continues at the target of the stub's last jump. A thread in the page of a pun
 * continues at a stub:
 *
 *   hop, pun  -->  stub  -->  older stub  -->  tail  -->  the program
 *
 * So if a thread may be in a piece of code, the target of the piece must stay, too. The targets are
 * read from the code itself, because the registry no longer links a stub whose site was patched
 * again meanwhile.
 *
 * A thread that a stub has sent into a function of the program can be anywhere. But the stub counts
 * the threads that leave it for a function, and the threads that return.
 */

enum { SLOTS_AT_ONCE = 64 };

struct leads {
	uint64_t *items;
	size_t count;
	/* a jump could not be read, so threads may come anywhere */
	bool anywhere;
};

bool busy_init(struct busy *busy, const struct registry *registry)
{
	*busy = (struct busy){.sites = calloc(registry->site_count + 1, sizeof(bool)),
		.stubs = calloc(registry->stub_count + 1, sizeof(bool)),
		.calling = calloc(registry->session_count + 1, sizeof(bool))};
	return busy->sites && busy->stubs && busy->calling;
}

void busy_deinit(struct busy *busy)
{
	free(busy->sites);
	free(busy->stubs);
	free(busy->calling);
	*busy = (struct busy){0};
}

/* Returns the bytes of a site's hop, or 0. */
static uint64_t hop_size(const struct reg_site *site)
{
	return site->hop ? arch_host()->jump_length : 0;
}

/* Adds a stub's code, except the return addresses of called functions, if it is readable. */
static bool add_stub(
	struct places *places, const struct change *change, const struct reg_stub *stub)
{
	const struct reg_session *session = registry_session(&change->registry, stub->session);
	bool (*is_call)(const uint8_t *) = change->arch->is_function_call;
	uint64_t start = stub->start, end = stub->start + stub->size;
	size_t step = change->arch->insn_align, got;
	uint8_t *code;
	bool ok = true;

	if (!is_call || !session || !(session->flags & REG_SESSION_CALLS))
		return places_add(places, start, end);
	code = malloc(stub->size);
	if (!code)
		return false;
	got = memory_read(change->pid, start, code, stub->size);
	for (size_t i = step; i <= got && ok; i += step) {
		if (!is_call(code + i - step))
			continue;
		ok = places_add(places, start, stub->start + i);
		start = stub->start + i + 1;
	}
	free(code);
	return ok && places_add(places, start, end);
}

/*
 * Adds the code of ending sites and stubs, without return addresses of called functions: see
 * busy_look_at_calls(). Returns false if out of memory.
 */
static bool busy_places(
	struct places *places, const struct change *change, const bool *sites, const bool *stubs)
{
	const struct registry *registry = &change->registry;
	bool ok = true;

	places->are_code = true;
	for (size_t i = 0; i < registry->stub_count && ok; i++)
		ok = !stubs[i] || add_stub(places, change, &registry->stubs[i]);
	for (size_t i = 0; i < registry->site_count && ok; i++) {
		const struct reg_site *site = &registry->sites[i];

		ok = !sites[i] ||
		     (places_add(places, site->tail, site->tail + site->tail_size) &&
			     places_add(places, site->pun, site->pun + site->pun_size) &&
			     places_add(places, site->hop, site->hop + hop_size(site)));
	}
	places_prepare(places);
	return ok;
}

/* Marks all ending sites and stubs as busy, because it is unknown which of them are. */
static void busy_all(
	struct busy *busy, const struct registry *registry, const bool *sites, const bool *stubs)
{
	for (size_t i = 0; i < registry->stub_count; i++) {
		busy->stubs[i] = stubs[i];
		busy->any = busy->any || stubs[i];
	}
	for (size_t i = 0; i < registry->site_count; i++) {
		busy->sites[i] = sites[i];
		busy->any = busy->any || sites[i];
	}
}

static bool is_there(
	const struct frames *frames, const struct leads *leads, uint64_t start, uint64_t size)
{
	if (!size)
		return false;
	for (size_t i = 0; i < leads->count; i++)
		if (leads->items[i] - start < size)
			return true;
	return leads->anywhere || frames_within(frames, start, start + size);
}

/* Adds the target of the jump at `at`, which a thread will execute. */
static void follow(struct leads *leads, const struct change *change, uint64_t at)
{
	uint8_t bytes[ARCH_JUMP_MAX] = {0};

	if (ARRAY_ROOM(leads->items, leads->count) &&
		memory_read(change->pid, at, bytes, sizeof(bytes)) > 0)
		leads->items[leads->count] = change->arch->jump_target(at, bytes);
	else
		leads->anywhere = true;
	if (!leads->anywhere && leads->items[leads->count])
		leads->count++;
	else
		leads->anywhere = true;
}

/*
 * Returns true if functions that a session's stubs called, on any CPU, have not returned, or if
 * that is unreadable.
 */
static bool is_calling(struct served *known, const struct reg_session *session)
{
	uint64_t calls = 0;

	for (uint32_t set = 0; set <= session->cpus; set++)
		for (uint32_t i = 0; i < session->slot_count; i += SLOTS_AT_ONCE) {
			struct probe_slot slots[SLOTS_AT_ONCE];
			uint64_t at = session->slots + ((uint64_t)set << session->slots_shift);
			uint32_t left = session->slot_count - i;
			uint32_t count = left < SLOTS_AT_ONCE ? left : SLOTS_AT_ONCE;

			if (memory_read_known(known, at + i * sizeof(*slots), slots,
				    count * sizeof(*slots)) != count * sizeof(*slots))
				return true;
			for (uint32_t k = 0; k < count; k++)
				calls += slots[k].hits - slots[k].seen;
		}
	return calls != 0;
}

/*
 * Finds sessions whose stubs have called functions that have not returned: a thread may be
 * anywhere, and will return to the stub. All threads must be stopped.
 */
static void busy_look_at_calls(struct busy *busy, const struct change *change)
{
	const struct registry *r = &change->registry;
	struct served known AUTO_SERVED;

	served_begin(change->pid, &known);
	for (size_t i = 0; i < r->session_count; i++)
		busy->calling[i] = r->sessions[i].flags & REG_SESSION_CALLS &&
				   is_calling(&known, &r->sessions[i]);
}

static bool find_stub(const struct busy *busy, struct leads *leads, const struct change *change,
	const struct frames *frames, const struct reg_stub *stub)
{
	const struct reg_session *session = registry_session(&change->registry, stub->session);
	bool called = session && busy->calling[session - change->registry.sessions];

	if (!called && !is_there(frames, leads, stub->start, stub->size))
		return false;
	follow(leads, change, stub->start + stub->next_jump);
	return true;
}

static bool find_site(struct leads *leads, const struct change *change, const struct frames *frames,
	const struct reg_site *site)
{
	bool hop = is_there(frames, leads, site->hop, hop_size(site)), pun;

	if (hop)
		follow(leads, change, site->hop);
	pun = is_there(frames, leads, site->pun, site->pun_size);
	if (pun)
		follow(leads, change, site->entry);
	return hop || pun || is_there(frames, leads, site->tail, site->tail_size);
}

/* Looks at the ending sites and stubs that are not known as busy. Returns true if one is. */
static bool look(struct busy *busy, struct leads *leads, const struct change *change,
	const struct frames *frames, const bool *sites, const bool *stubs)
{
	const struct registry *r = &change->registry;
	bool found = false;

	for (size_t i = 0; i < r->stub_count; i++) {
		if (!stubs[i] || busy->stubs[i])
			continue;
		busy->stubs[i] = find_stub(busy, leads, change, frames, &r->stubs[i]);
		found = found || busy->stubs[i];
	}
	for (size_t i = 0; i < r->site_count; i++) {
		if (!sites[i] || busy->sites[i])
			continue;
		busy->sites[i] = find_site(leads, change, frames, &r->sites[i]);
		found = found || busy->sites[i];
	}
	return found;
}

/*
 * Finds the ending sites and stubs that a thread is in or will come to by an older stub or the
 * tail. `frames` must be sorted. Code that is not busy now stays so, because no thread enters it
 * any more.
 */
static void busy_find(struct busy *busy, const struct change *change, const struct frames *frames,
	const bool *sites, const bool *stubs)
{
	const struct registry *r = &change->registry;
	struct leads leads = {0};

	for (size_t i = 0; i < r->stub_count; i++)
		busy->stubs[i] = false;
	for (size_t i = 0; i < r->site_count; i++)
		busy->sites[i] = false;
	busy->any = false;
	while (look(busy, &leads, change, frames, sites, stubs))
		busy->any = true;
	free(leads.items);
}

/* ==== Quiet =================================================================================== */

enum {
	LOOKS = 50,
	WAIT_NS = 1000000,
	SEARCHES = 8,
	/* bytes that are read, before a search, of a stack that libc did not make */
	NEAR_REACH = 64 << 10
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
		/* Now no thread is known to be in the code, or the threads there do not leave. */
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
