/* SPDX-License-Identifier: MIT */
/*
 * Ends everything with a reference count of 0. The counts are set to 0 in the registry before
 * anything is undone, so that the next controller can finish.
 *
 * Sites are restored in a stop. Edits and the next registry exist before; one word makes it
 * current, right after the semaphores are lowered, so that they are not lowered twice.
 *
 * A thread may still be in stubs and tails, or return to them from a signal handler. Then the
 * target runs for a moment and is checked again ("Quiet"). Memory is unmapped only when no thread
 * is there, or will come there. If a thread stays there, or may stay there, the code becomes a
 * leftover: its entry in the registry loses the address of the site. So the memory of the code is
 * not reused, but the site can be patched again. The data of an ended session is not reused,
 * either, because a late thread may write to it. To limit the growth, nothing is added to a process
 * that has too many leftovers.
 *
 * A site with another tool's bytes is left alone. The tool may restore our jump one day, so all
 * code behind that stays, and the registry keeps the site and its stubs; each later change tries
 * again.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arch/layout.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"
#include "libprobe/registry/registry.h"
#include "libprobe/process/process.h"

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
 * except for contexts that move: see libprobe/patch/search.c.
 *
 * The memory also has frames of handlers that have returned: see libprobe/patch/windows.c. A frame
 * that is dead in one look is dead in all later looks.
 *
 * If a search is incomplete, nothing is proved, and all stubs stay.
 */

/* ==== Busy ==================================================================================== */

/*
 * A thread in a stub continues at the target of the stub's last jump. A thread in the page of a pun
 * continues at a stub:
 *
 *   hop, pun  -->  stub  -->  older stub  -->  tail  -->  the program
 *
 * So if a thread may be in a piece of code, the target of the piece must stay, too. The targets are
 * read from the code itself, because the registry no longer links a stub whose site was patched
 * again in the meantime.
 *
 * A thread that a stub has sent into a function of the program can be anywhere. But the stub counts
 * the threads that leave it for a function, and the threads that return.
 */

enum { SLOTS_AT_ONCE = 64 };

struct leads {
	uint64_t *items;
	size_t count;
	/* a jump could not be read, so threads may continue anywhere */
	bool anywhere;
};

static bool busy_init(struct busy *busy, const struct registry *registry)
{
	*busy = (struct busy){.sites = calloc(registry->site_count + 1, sizeof(bool)),
		.stubs = calloc(registry->stub_count + 1, sizeof(bool)),
		.calling = calloc(registry->session_count + 1, sizeof(bool))};
	return busy->sites && busy->stubs && busy->calling;
}

/* Returns false if out of memory. */
static void busy_deinit(struct busy *busy)
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

/* Adds a stub's code, if it is readable, except the return addresses of called functions. */
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
 * Returns true if functions called by a session's stubs, on any CPU, have not returned, or if their
 * counts are unreadable.
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

/* Looks at ending sites and stubs not yet known to be busy. Returns true if one is busy. */
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
 * Finds the ending sites and stubs that a thread is in, or will reach through an older stub or the
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
	/* number of bytes read, before a search, of a stack that libc did not make */
	NEAR_REACH = 64 << 10
};

static struct probe_error *quiet_open(
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

/* Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY; then call only quiet_close(). */
static void quiet_close(struct quiet *quiet)
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

/*
 * Collects the addresses of all threads, which must be stopped, and decides which found contexts
 * may be resumed.
 */
static struct probe_error *quiet_look(
	struct quiet *quiet, const struct change *change, struct busy *busy)
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

/*
 * Calls `look` until no thread is in ended code or the time limit is over; only once if `wait` is
 * false. Fills in *busy. `look` must stop the target, call quiet_look(), and resume it; `first` is
 * true in the first call.
 */
static struct probe_error *quiet_wait(struct quiet *q, struct change *change, struct busy *busy,
	bool wait, struct probe_error *(*look)(void *data, struct change *change, bool first),
	void *data)
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
		/*
		 * Either no thread is known to be in the code, or the threads in it do not leave.
		 */
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

/* ==== Uninstall =============================================================================== */

enum { LEFT_SESSIONS_MAX = 128 };

/* Limits of leftovers, in bytes of address space: data takes memory only where it was touched. */
#define LEFT_DATA_MAX (UINT64_C(8) << 30)
#define LEFT_CODE_MAX (UINT64_C(64) << 20)

/* ---- Entries to end ------------------------------------------------------------------- */

/* Returns true if a session still uses a probe, and so needs its stubs. */
static bool is_wanted(const struct registry *r, uint64_t key, uint32_t session)
{
	const struct reg_probe *probe = registry_probe(r, key, session);

	return probe && probe->refcount > 0;
}

size_t uninstall_find_dead(struct change *change)
{
	struct registry *r = &change->registry;
	size_t count = change->lost_ends;

	for (size_t i = 0; i < r->session_count; i++) {
		struct reg_session *session = &r->sessions[i];

		if (session->flags & (REG_SESSION_PERSISTENT | REG_SESSION_RETIRED) ||
			!registry_is_dead(session))
			continue;
		registry_retire(r, session);
		count++;
	}
	/* Another controller may have begun to end stubs. */
	for (size_t i = 0; i < r->stub_count && !count; i++)
		count += r->stubs[i].pc && !is_wanted(r, r->stubs[i].key, r->stubs[i].session);
	return count;
}

size_t uninstall_find_stale(struct change *change)
{
	const struct registry *r = &change->registry;
	size_t count = uninstall_find_dead(change);

	for (size_t i = 0; i < r->probe_count && !count; i++)
		count += r->probes[i].refcount == 0;
	for (size_t i = 0; i < r->session_count && !count; i++)
		count += (r->sessions[i].flags & REG_SESSION_RETIRED) != 0;
	return count ? count : semaphores_short(r, change->pid);
}

/* Flags, parallel to the arrays of the registry, that say what ends, and data for the change. */
struct ending {
	bool *sites, *stubs, *semaphores;
	bool *held; /* sites that hold another tool's bytes, parallel to the registry's sites */
	struct busy busy;
	bool any;
	/* Something ends that is not a leftover. (In a leftover, a thread may stay for long.) */
	bool any_live;
	struct transaction *transaction;
	/* For each edit: the site whose bytes must be ours, or SIZE_MAX if no site is checked. */
	size_t *checks;
	struct quiet quiet;
};

static bool is_leftover(const struct reg_site *site)
{
	return site->pc == 0;
}

/* Returns the first site that the same jump patches, which may be the site itself. */
static size_t leader_of(const struct registry *r, size_t site)
{
	const struct reg_site *sites = r->sites;
	size_t leader = site;

	while (site-- > 0) {
		/* Forgotten sites have pc 0, so they are sorted first. */
		if (!sites[site].pc || sites[leader].patch - sites[site].pc > REG_SHARED_MAX)
			break;
		if (sites[site].patch == sites[leader].patch)
			leader = site;
	}
	return leader;
}

/* Sites that share a jump end only together. */
static void end_neighbours(struct ending *e, const struct registry *r)
{
	for (size_t i = 0; i < r->site_count; i++)
		if (!e->sites[i])
			e->sites[leader_of(r, i)] = false;
	for (size_t i = 0; i < r->site_count; i++) {
		e->sites[i] = e->sites[leader_of(r, i)];
		e->any = e->any || e->sites[i];
	}
}

static bool find_ending(struct ending *e, struct transaction *t)
{
	const struct registry *r = &t->change->registry;

	*e = (struct ending){
		.transaction = t,
		.sites = calloc(r->site_count + 1, sizeof(bool)),
		.stubs = calloc(r->stub_count + 1, sizeof(bool)),
		.semaphores = calloc(r->semaphore_count + 1, sizeof(bool)),
		.held = calloc(r->site_count + 1, sizeof(bool)),
	};
	if (!busy_init(&e->busy, r) || !e->sites || !e->stubs || !e->semaphores || !e->held)
		return false;
	for (size_t i = 0; i < r->stub_count; i++) {
		e->stubs[i] =
			r->stubs[i].pc == 0 || !is_wanted(r, r->stubs[i].key, r->stubs[i].session);
		e->any = e->any || e->stubs[i];
		e->any_live = e->any_live || (e->stubs[i] && r->stubs[i].pc);
	}
	for (size_t i = 0; i < r->site_count; i++) {
		size_t count;
		const struct reg_stub *stubs = registry_stubs(r, r->sites[i].pc, &count);
		bool kept = false;

		for (size_t k = 0; k < count && !kept; k++)
			kept = !e->stubs[stubs + k - r->stubs];
		e->sites[i] = !kept || is_leftover(&r->sites[i]);
	}
	end_neighbours(e, r);
	for (size_t i = 0; i < r->semaphore_count; i++) {
		e->semaphores[i] = !is_wanted(r, r->semaphores[i].key, r->semaphores[i].session);
		e->any = e->any || e->semaphores[i];
	}
	for (size_t i = 0; i < r->probe_count; i++)
		e->any = e->any || r->probes[i].refcount == 0;
	for (size_t i = 0; i < r->session_count; i++)
		e->any = e->any || r->sessions[i].flags & REG_SESSION_RETIRED;
	e->any = e->any || semaphores_short(r, t->change->pid);
	return true;
}

static void ending_deinit(struct ending *e)
{
	free(e->sites);
	free(e->stubs);
	free(e->semaphores);
	free(e->held);
	busy_deinit(&e->busy);
	free(e->checks);
	quiet_close(&e->quiet);
}

/* ---- Preparing -------------------------------------------------------------------------- */

/* Adds an edit of `length` bytes, with `site` in ending.checks. NULL if out of memory. */
static struct edit *add_edit(struct ending *e, uint64_t address, size_t length, size_t site)
{
	struct edits *text = &e->transaction->text;
	struct edit *edit;

	if (!ARRAY_ROOM(e->checks, text->count))
		return NULL;
	edit = edits_add(text, address, length);
	if (!edit)
		return NULL;
	e->checks[text->count - 1] = site;
	edit->is_write = true;
	return edit;
}

static struct probe_error *restore_site(struct ending *e, const struct registry *r, size_t i)
{
	const struct reg_site *site = &r->sites[i];
	struct edit *edit;

	if (leader_of(r, i) != i)
		return NULL;
	edit = add_edit(e, site->patch, site->length, i);
	if (!edit)
		return probe_error_no_memory();
	memcpy(edit->bytes, site->original, site->length);
	return NULL;
}

/*
 * Makes a jump lead to a stub or the tail. The jump is at `at`, and belongs to site `i`
 * (`is_entry`) or to one of its stubs.
 */
static struct probe_error *redirect(struct ending *e, const struct change *change, size_t i,
	bool is_entry, uint64_t at, uint64_t to)
{
	struct reg_site *site = &change->registry.sites[i];
	bool is_text = is_entry && !site->pun;
	struct edit *edit = add_edit(e, at, 0, is_text ? i : SIZE_MAX);

	if (!edit)
		return probe_error_no_memory();
	edit->length = is_entry ? site_entry_jump(site, to, edit->bytes)
				: change->arch->jump(at, to, edit->bytes);
	if (!edit->length)
		return probe_error_new(PROBE_ERROR_STATE,
			"the stubs of the site at %#jx are too far apart", (uintmax_t)site->pc);
	if (is_text)
		memcpy(site->patched, edit->bytes, site->length);
	return NULL;
}

/* Returns true if one of these stubs ends. */
static bool any_ends(const struct ending *e, const struct registry *r, const struct reg_stub *stubs,
	size_t count)
{
	bool any = false;

	for (size_t i = 0; i < count; i++)
		any = any || e->stubs[stubs + i - r->stubs];
	return any;
}

/*
 * Takes ending stubs out of a site's chain: entry, newest stub (last in the registry), older stubs,
 * tail. If any stub ends, the entry's jump is written, too, because it may lead to an older stub,
 * even to the ending one, if the newest one's controller was killed before it patched the site.
 */
static struct probe_error *relink_site(struct ending *e, const struct change *change, size_t i)
{
	const struct registry *r = &change->registry;
	const struct reg_site *site = &r->sites[i];
	struct probe_error *error = NULL;
	uint64_t at = site->entry;
	size_t count;
	const struct reg_stub *stubs = registry_stubs(r, site->pc, &count);
	bool is_entry = true, skipped = any_ends(e, r, stubs, count);

	while (count-- > 0 && !error) {
		const struct reg_stub *stub = &stubs[count];

		if (e->stubs[stub - r->stubs]) {
			skipped = true;
			continue;
		}
		if (skipped)
			error = redirect(e, change, i, is_entry, at, stub->start);
		at = stub->start + stub->next_jump;
		is_entry = skipped = false;
	}
	if (!error && skipped)
		error = redirect(e, change, i, is_entry, at, site->tail);
	return error;
}

static struct probe_error *prepare_text(struct ending *e, const struct change *change)
{
	const struct registry *r = &change->registry;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < r->site_count && !error; i++) {
		if (is_leftover(&r->sites[i]))
			continue;
		error = e->sites[i] ? restore_site(e, r, i) : relink_site(e, change, i);
	}
	return error;
}

/* Lowers ended semaphores in the transaction, and drops them from the next registry. */
static struct probe_error *prepare_semaphores(struct ending *e, struct registry *r)
{
	for (size_t i = 0; i < r->semaphore_count; i++)
		if (e->semaphores[i] && r->semaphores[i].added &&
			!semaphores_add(&e->transaction->semaphores, r->semaphores[i].address,
				-(int)r->semaphores[i].added))
			return probe_error_no_memory();
	registry_drop_semaphore(r, e->semaphores);
	return NULL;
}

static struct probe_error *prepare(struct ending *e, struct change *change)
{
	struct probe_error *error = prepare_text(e, change);

	if (!error)
		error = prepare_semaphores(e, &change->registry);
	if (!error)
		error = transaction_prepare(e->transaction);
	return error ? error : quiet_open(change, e->sites, e->stubs, &e->quiet);
}

/* ---- The stop --------------------------------------------------------------------------- */

/*
 * Decides the first byte of a site from which our call is removed: "on" if the handler has users.
 */
static void restore_toggle(const struct ending *e, const struct reg_site *site, struct edit *edit)
{
	const struct transaction *t = e->transaction;
	const struct arch_toggle *toggle = t->change->arch->toggle;
	uint16_t count = 0;

	if (!semaphores_coming(&t->semaphores, site->count, &count) &&
		memory_read(t->change->pid, site->count, &count, sizeof(count)) != sizeof(count))
		count = 0;
	edit->bytes[0] = count ? toggle->on : toggle->off;
}

/* Skips sites that are unmapped, restored or overwritten. */
static void check_sites(struct ending *e, const struct registry *r)
{
	struct edits *text = &e->transaction->text;

	for (size_t i = 0; i < text->count; i++) {
		size_t site = e->checks[i];
		const uint8_t *found = edits_found(text, i);
		enum site_state state;

		if (site == SIZE_MAX)
			continue;
		state = site_state(r, &r->sites[site], found);
		if (state == SITE_FOREIGN && site_is_mixed(&r->sites[site], found))
			state = SITE_PATCHED;
		text->items[i].is_write = state == SITE_PATCHED;
		if (r->sites[site].count)
			restore_toggle(e, &r->sites[site], &text->items[i]);
		e->held[site] = state == SITE_COVERED || state == SITE_FOREIGN;
	}
}

/* Makes one stop, for quiet_wait(); the first call writes the transaction. */
static struct probe_error *look_again(void *data, struct change *change, bool first)
{
	struct ending *e = data;
	struct probe_error *error = change_stop(change);

	if (error)
		return error;
	if (first)
		error = transaction_read(e->transaction);
	if (!error && first) {
		check_sites(e, &change->registry);
		error = transaction_write(e->transaction);
		if (!error && change->restored)
			change->restored(change->restored_data);
	}
	if (!error)
		error = quiet_look(&e->quiet, change, &e->busy);
	change_resume(change);
	return error;
}

/* ---- The next registry --------------------------------------------------------------------- */

/* Keeps the code of overwritten sites: the other tool may restore our jump. */
static void keep_held(struct ending *e, const struct registry *r)
{
	for (size_t i = 0; i < r->site_count; i++) {
		size_t count;
		const struct reg_stub *stubs = registry_stubs(r, r->sites[i].pc, &count);

		if (!e->held[leader_of(r, i)])
			continue;
		e->sites[i] = e->busy.sites[i] = false;
		for (size_t k = 0; k < count; k++)
			e->stubs[stubs + k - r->stubs] = e->busy.stubs[stubs + k - r->stubs] =
				false;
	}
}

/* Drops ended entries. Entries that a thread is in become leftovers. */
static void drop_ended(const struct ending *e, struct registry *r)
{
	for (size_t i = 0; i < r->stub_count; i++) {
		if (e->busy.stubs[i])
			r->stubs[i].pc = r->stubs[i].key = 0;
		e->stubs[i] = e->stubs[i] && !e->busy.stubs[i];
	}
	for (size_t i = 0; i < r->site_count; i++) {
		if (e->busy.sites[i])
			r->sites[i].pc = 0;
		e->sites[i] = e->sites[i] && !e->busy.sites[i];
	}
	registry_drop_stub(r, e->stubs);
	registry_drop_site(r, e->sites);
	registry_sort(r);
}

/* Drops probes without references, and retires persistent sessions without probes. */
static void drop_probes(struct registry *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->session_count; i++) {
		struct reg_session *session = &r->sessions[i];
		bool used = false;

		for (size_t k = 0; k < r->probe_count && !used; k++)
			used = r->probes[k].session == session->id && r->probes[k].refcount;
		/* An attached session without probes waits for a library. */
		if (!used && session->flags & REG_SESSION_PERSISTENT)
			session->flags |= REG_SESSION_RETIRED;
	}
	for (size_t i = 0; i < r->probe_count; i++)
		if (r->probes[i].refcount)
			r->probes[kept++] = r->probes[i];
	r->probe_count = kept;
}

/* Takes ended puns' pages out of the arenas, except sealed pages. The caller frees the result. */
static struct reg_arena *take_puns(const struct ending *e, struct registry *r, size_t *count_ret)
{
	AUTO_FREE uint64_t *pages = calloc(r->site_count + 1, sizeof(*pages));
	AUTO_FREE bool *flags = calloc(r->arena_count + 1, sizeof(*flags));
	struct reg_arena *taken = calloc(r->arena_count + 1, sizeof(*taken));
	size_t count = 0;

	for (size_t i = 0; pages && i < r->site_count; i++)
		if (e->sites[i] && !e->busy.sites[i] && r->sites[i].pun_size == page_bytes())
			pages[count++] = r->sites[i].pun;
	*count_ret = 0;
	if (!pages || !flags || !taken) {
		free(taken);
		return NULL;
	}
	array_sort(pages, count, sizeof(*pages), 0);
	for (size_t i = 0; i < r->arena_count; i++) {
		flags[i] = !r->arenas[i].sealed &&
			   array_find(pages, count, sizeof(*pages), 0, r->arenas[i].start);
		if (flags[i])
			taken[(*count_ret)++] = r->arenas[i];
	}
	registry_drop_arena(r, flags);
	return taken;
}

/* Unmaps orphans if all sessions have ended: after the home page is gone, nothing leads to them. */
static struct probe_error *collect_orphans(struct change *change)
{
	const struct registry *r = &change->registry;
	struct probe_error *error;
	size_t unused;

	for (size_t i = 0; i < r->session_count; i++)
		if (!(r->sessions[i].flags & REG_SESSION_RETIRED))
			return NULL;
	error = change_reread_maps(change);
	return error ? error : orphans_unmap(change, &unused);
}

/* Frees the data of retired sessions that have no stubs: see change_collect(). */
static struct probe_error *collect(struct change *change)
{
	struct registry *r = &change->registry;
	struct probe_error *error;

	for (size_t i = 0; i < r->stub_count; i++) {
		struct reg_session *session = registry_session(r, r->stubs[i].session);

		if (session && session->flags & REG_SESSION_RETIRED)
			return change_store(change, true);
	}
	if (r->site_count && !r->probe_count)
		/* A thread is still in a tail, so some sites remain in the registry. */
		return change_store(change, true);
	error = collect_orphans(change);
	return error ? error : change_collect(change);
}

static struct probe_error *give_back_hops(const struct ending *e, const struct change *change)
{
	size_t count = change->registry.site_count;
	bool *flags = calloc(count + 1, sizeof(*flags));
	struct probe_error *error = flags ? NULL : probe_error_no_memory();

	for (size_t i = 0; i < count && !error; i++)
		flags[i] = e->sites[i] && !e->busy.sites[i];
	if (!error)
		error = hops_give_back(change, flags);
	free(flags);
	return error;
}

/* After sites are restored, frees memory that no thread is in. */
static struct probe_error *give_back(struct ending *e, struct change *change)
{
	AUTO_FREE struct reg_arena *puns = NULL;
	struct probe_error *error = NULL;
	size_t count;

	keep_held(e, &change->registry);
	error = give_back_hops(e, change);
	if (error)
		return error;
	puns = take_puns(e, &change->registry, &count);
	if (!puns)
		return probe_error_no_memory();
	drop_ended(e, &change->registry);
	drop_probes(&change->registry);
	if (count)
		error = change_store(change, true);
	/* no thread comes to the pages of these puns, and the registry no longer lists them */
	if (!error)
		error = change_unmap_arenas(change, puns, count);
	return error ? error : collect(change);
}

size_t uninstall_count_left(const struct registry *r)
{
	size_t count = 0;

	for (size_t i = 0; i < r->site_count; i++)
		count += r->sites[i].pc && !site_is_bare(r, &r->sites[i]) &&
			 !site_is_wanted(r, &r->sites[i]);
	return count;
}

bool uninstall_has_leftovers(const struct registry *registry)
{
	size_t stubs, sites;

	registry_stubs(registry, 0, &stubs);
	registry_sites(registry, 0, 1, &sites);
	return stubs + sites > 0;
}

struct probe_error *uninstall_check_leftovers(const struct change *change)
{
	const struct registry *r = &change->registry;
	uint64_t data = 0, code = 0;
	size_t sessions = 0;

	for (size_t i = 0; i < r->session_count; i++)
		if (r->sessions[i].flags & REG_SESSION_RETIRED) {
			sessions++;
			data += r->sessions[i].data_size;
		}
	for (size_t i = 0; i < r->stub_count; i++)
		code += r->stubs[i].pc ? 0 : r->stubs[i].size;
	for (size_t i = 0; i < r->site_count; i++)
		code += r->sites[i].pc ? 0 : r->sites[i].tail_size + r->sites[i].pun_size;
	if (sessions < LEFT_SESSIONS_MAX && data < LEFT_DATA_MAX && code < LEFT_CODE_MAX)
		return NULL;
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d: the memory of %zu ended sessions (%ju KiB of code, %ju KiB of data) "
		"cannot be freed yet, because a thread may return to it: nothing is added until "
		"`probectl repair -p %d` can free it",
		change->pid, sessions, (uintmax_t)code >> 10, (uintmax_t)data >> 10, change->pid);
}

static struct probe_error *end_all(struct ending *e, struct change *change)
{
	struct probe_error *error = prepare(e, change);

	/* A held target's threads do not run: probe_target_release() finishes the work. */
	if (!error)
		error = quiet_wait(&e->quiet, change, &e->busy,
			e->any_live && !change->target->held, look_again, e);
	return error ? error : give_back(e, change);
}

struct probe_error *uninstall(struct transaction *t)
{
	struct change *change = t->change;
	struct probe_error *error = NULL;
	struct ending e;

	if (!find_ending(&e, t))
		error = probe_error_no_memory();
	/* Store first what is to end, so that the next controller can finish. */
	if (!error && change->registry.home)
		error = change_store(change, e.any || t->atomic);
	if (!error)
		error = e.any ? end_all(&e, change) : transaction_commit_counts(t);
	change->lost_ends &= error != NULL;
	ending_deinit(&e);
	return error;
}

struct probe_error *uninstall_unreferenced(struct change *change)
{
	struct transaction t = transaction_of(change, TRANSACTION_ENDS);
	struct probe_error *error = uninstall(&t);

	transaction_end(&t);
	return error;
}
