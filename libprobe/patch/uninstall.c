/* SPDX-License-Identifier: MIT */
/*
 * Ends everything with a reference count of 0. The counts are set to 0 in the registry before
 * anything is undone, so that the next controller can finish.
 *
 * Sites are restored in a stop, or in several if they are many. Edits and the next registry exist
 * before; one word makes it current, right after the semaphores are lowered, so that they are not
 * lowered twice.
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

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"

/* ==== Uninstall =============================================================================== */

/* ---- Entries to end ------------------------------------------------------------------- */

/* Returns true if a session still uses a probe, and so needs its stubs. */
static bool is_wanted(const struct registry *r, uint64_t key, uint32_t session)
{
	const struct reg_probe *probe = registry_probe(r, key, session);

	return probe && probe->refcount > 0;
}

/* Is there a site that has made room for a hop that is gone? */
static bool has_unused(const struct registry *r)
{
	for (size_t i = 0; i < r->site_count; i++) {
		size_t count;

		registry_stubs(r, r->sites[i].pc, &count);
		if (r->sites[i].pc && !count && !site_is_bare(r, &r->sites[i]))
			return true;
	}
	return false;
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
	return count + has_unused(r);
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
	bool any;
	/* Something ends that is not a leftover. (In a leftover, a thread may stay for long.) */
	bool any_live;
	bool any_hop; /* a hop has ended */
	struct transaction *transaction;
	/* For each edit: the site whose bytes must be ours, or SIZE_MAX if no site is checked. */
	size_t *checks;
	struct quiet quiet;
};

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

/* Is there a debugger's breakpoint on a guard? The debugger will restore the byte below it. */
static bool is_covered(const struct change *change, const struct reg_semaphore *guard)
{
	size_t length = change->arch->jump_length;
	uint8_t found[ARCH_JUMP_MAX], bytes[ARCH_JUMP_MAX];

	return guard->label && memory_read(change->pid, guard->address, found, length) == length &&
	       arch_guard(change->arch, guard->address, guard->label, found, bytes) ==
		       ARCH_GUARD_COVERED;
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
	if (!e->sites || !e->stubs || !e->semaphores || !e->held)
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
		/* Code that makes room for a hop ends after it, in a stop of its own. */
		bool kept = !site_is_chained(&r->sites[i]) && site_is_bare(r, &r->sites[i]);

		for (size_t k = 0; k < count && !kept; k++)
			kept = !e->stubs[stubs + k - r->stubs];
		e->sites[i] = !kept || !r->sites[i].pc;
	}
	/* Sites that share a jump end only together. */
	for (size_t i = 0; i < r->site_count; i++)
		if (!e->sites[i])
			e->sites[leader_of(r, i)] = false;
	for (size_t i = 0; i < r->site_count; i++) {
		e->sites[i] = e->sites[leader_of(r, i)];
		e->any = e->any || e->sites[i];
		e->any_live = e->any_live || (e->sites[i] && r->sites[i].pc);
	}
	for (size_t i = 0; i < r->semaphore_count; i++) {
		e->semaphores[i] = !is_wanted(r, r->semaphores[i].key, r->semaphores[i].session) &&
				   !is_covered(t->change, &r->semaphores[i]);
		e->any = e->any || e->semaphores[i];
	}
	for (size_t i = 0; i < r->probe_count; i++)
		e->any = e->any || r->probes[i].refcount == 0;
	for (size_t i = 0; i < r->session_count; i++)
		e->any = e->any || r->sessions[i].flags & REG_SESSION_RETIRED;
	e->any = e->any || semaphores_short(r, t->change->pid);
	return true;
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
	edit->turn = (uint16_t)((text->count - 1) / TRANSACTION_SITES);
	e->transaction->turns = edit->turn + (size_t)1;
	return edit;
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
	bool is_entry = true, skipped = false;

	for (size_t k = 0; k < count; k++)
		skipped |= e->stubs[stubs + k - r->stubs];
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
		const struct reg_site *site = &r->sites[i];
		struct edit *edit;

		if (!site->pc)
			continue;
		if (!e->sites[i]) {
			error = relink_site(e, change, i);
			continue;
		}
		if (leader_of(r, i) != i)
			continue;
		edit = add_edit(e, site->patch, site->length, i);
		if (!edit)
			return probe_error_no_memory();
		memcpy(edit->bytes, site->original, site->length);
	}
	return error;
}

/* ---- The stop --------------------------------------------------------------------------- */

/* Skips sites that are unmapped, restored or overwritten. */
static void check_sites(struct ending *e, const struct registry *r)
{
	struct transaction *t = e->transaction;
	const struct arch_toggle *toggle = t->change->arch->toggle;
	struct edits *text = &t->text;

	for (size_t i = 0; i < text->count; i++) {
		size_t site = e->checks[i];
		const uint8_t *found = edits_found(text, i);
		enum site_state state;
		uint64_t counter;
		uint16_t users = 0;

		if (site == SIZE_MAX || !edits_is_due(text, i))
			continue;
		counter = r->sites[site].count;
		state = site_state(r, &r->sites[site], found);
		if (state == SITE_FOREIGN && site_is_mixed(&r->sites[site], found))
			state = SITE_PATCHED;
		text->items[i].is_write = state == SITE_PATCHED;
		if (counter && !semaphores_coming(&t->semaphores, counter, &users) &&
			memory_read(t->change->pid, counter, &users, sizeof(users)) !=
				sizeof(users))
			users = 0;
		/* The first byte of a call of ours becomes "on" if the handler has users. */
		if (counter)
			text->items[i].bytes[0] = users ? toggle->on : toggle->off;
		e->held[site] = state == SITE_COVERED || state == SITE_FOREIGN;
	}
}

/* Writes the present turn of the transaction. */
static struct probe_error *restore(struct ending *e, struct change *change)
{
	struct probe_error *error = transaction_read(e->transaction);

	if (error)
		return error;
	check_sites(e, &change->registry);
	error = transaction_write(e->transaction);
	if (!error && change->restored && transaction_is_last(e->transaction))
		change->restored(change->restored_data);
	return error;
}

/* Makes one stop, for quiet_wait(); the first call writes the transaction, in all its turns. */
static struct probe_error *look_again(void *data, struct change *change, bool first)
{
	struct ending *e = data;
	struct probe_error *error = change_stop(change);

	for (; first && !error && !transaction_is_last(e->transaction);
		e->transaction->text.turn++) {
		error = restore(e, change);
		change_resume(change);
		error = error ?: change_stop(change);
	}
	if (!error && first)
		error = restore(e, change);
	error = error ?: quiet_look(&e->quiet, change);
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
		e->sites[i] = e->quiet.busy.sites[i] = false;
		for (size_t k = 0; k < count; k++)
			e->stubs[stubs + k - r->stubs] = e->quiet.busy.stubs[stubs + k - r->stubs] =
				false;
	}
}

/* Drops ended entries. Entries that a thread is in become leftovers. */
static void drop_ended(const struct ending *e, struct registry *r)
{
	for (size_t i = 0; i < r->stub_count; i++) {
		if (e->quiet.busy.stubs[i])
			r->stubs[i].pc = r->stubs[i].key = 0;
		e->stubs[i] = e->stubs[i] && !e->quiet.busy.stubs[i];
	}
	for (size_t i = 0; i < r->site_count; i++) {
		if (e->quiet.busy.sites[i])
			r->sites[i].pc = 0;
		e->sites[i] = e->sites[i] && !e->quiet.busy.sites[i];
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
		if (e->sites[i] && !e->quiet.busy.sites[i] && r->sites[i].pun_size == page_bytes())
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

/* Frees the data of retired sessions that have no stubs: see change_collect(). */
static struct probe_error *collect(struct change *change)
{
	struct registry *r = &change->registry;
	struct probe_error *error = NULL;
	bool all_ended = true;
	size_t unused;

	for (size_t i = 0; i < r->stub_count; i++) {
		struct reg_session *session = registry_session(r, r->stubs[i].session);

		if (session && session->flags & REG_SESSION_RETIRED)
			return change_store(change, true);
	}
	for (size_t i = 0; i < r->semaphore_count; i++) {
		const struct reg_session *session = registry_session(r, r->semaphores[i].session);

		/* A breakpoint on a guard hides whether it is on. */
		if (session && session->flags & REG_SESSION_RETIRED)
			return change_store(change, true);
	}
	if (r->site_count && !r->probe_count)
		/* A thread is still in a tail, so some sites remain in the registry. */
		return change_store(change, true);
	for (size_t i = 0; i < r->session_count; i++)
		all_ended = all_ended && r->sessions[i].flags & REG_SESSION_RETIRED;
	/* After the home page is gone, nothing leads to orphans, so they are unmapped before. */
	if (all_ended)
		error = change_reread_maps(change);
	if (all_ended && !error)
		error = orphans_unmap(change, &unused);
	return error ?: change_collect(change);
}

/* After sites are restored, frees memory that no thread is in. */
static struct probe_error *give_back(struct ending *e, struct change *change)
{
	struct registry *r = &change->registry;
	AUTO_FREE struct reg_arena *puns = NULL;
	struct probe_error *error = NULL;
	size_t count;

	keep_held(e, r);
	/* No thread is in these hops any more. A hop that does not hold our jump stays as it is. */
	for (size_t i = 0; i < r->site_count && !error; i++) {
		if (!e->sites[i] || e->quiet.busy.sites[i] || !r->sites[i].hop)
			continue;
		e->any_hop = true;
		if (site_has_hop(&r->sites[i], change->pid))
			error = memory_write_code(change->mem, r->sites[i].hop,
				r->sites[i].hop_original, change->arch->jump_length);
	}
	if (error)
		return error;
	puns = take_puns(e, r, &count);
	if (!puns)
		return probe_error_no_memory();
	drop_ended(e, r);
	drop_probes(r);
	if (count)
		error = change_store(change, true);
	/* no thread comes to the pages of these puns, and the registry no longer lists them */
	return error ?: change_unmap_arenas(change, puns, count) ?: collect(change);
}

bool uninstall_has_leftovers(const struct registry *registry)
{
	size_t stubs, sites;

	registry_stubs(registry, 0, &stubs);
	registry_sites(registry, 0, 1, &sites);
	return stubs + sites > 0;
}

static struct probe_error *end_all(struct ending *e, struct change *change)
{
	struct registry *r = &change->registry;
	struct probe_error *error = prepare_text(e, change);

	/* The next registry lacks the ended semaphores, which the transaction lowers. */
	for (size_t i = 0; i < r->semaphore_count && !error; i++)
		if (e->semaphores[i] && r->semaphores[i].added &&
			!semaphores_add(&e->transaction->semaphores, r->semaphores[i].address,
				r->semaphores[i].label, -(int)r->semaphores[i].added))
			error = probe_error_no_memory();
	if (!error) {
		registry_drop_semaphore(r, e->semaphores);
		error = transaction_prepare(e->transaction);
	}
	error = error ?: quiet_open(change, e->sites, e->stubs, &e->quiet);
	/* A held target's threads do not run: probe_target_release() finishes the work. */
	if (!error)
		error = quiet_wait(
			&e->quiet, change, e->any_live && !change->target->held, look_again, e);
	return error ?: give_back(e, change);
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
	free(e.sites);
	free(e.stubs);
	free(e.semaphores);
	free(e.held);
	free(e.checks);
	quiet_close(&e.quiet);
	return !error && e.any_hop && has_unused(&change->registry) ? uninstall_unreferenced(change)
								    : error;
}

struct probe_error *uninstall_unreferenced(struct change *change)
{
	AUTO(transaction_end) struct transaction t = transaction_of(change, TRANSACTION_ENDS);

	return uninstall(&t);
}
