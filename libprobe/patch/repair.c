/* SPDX-License-Identifier: MIT */
/*
 * Removes what dead controllers have left, as each change does before it begins. `probectl repair`
 * also patches sites of living sessions again that something has restored. Other changes leave such
 * sites alone, because the restoring may be on purpose.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/procfs.h"
#include "libprobe/patch/patch.h"

/* ==== Mend ==================================================================================== */

/*
 * A site to patch again, after something else has restored at least its first byte. Its stubs and
 * tail were made from the file's bytes, so it must hold exactly these bytes. A thread inside the
 * patch cannot be moved, because nothing tells which instruction of the tail corresponds to its
 * own, so it gets a moment to leave. The first edit reads the bytes, the second writes the patch.
 */
struct mending {
	const struct reg_site **sites;
	/* the file's bytes at each site: window_of() of them */
	uint8_t (*wanted)[EDIT_BYTES];
	size_t count;
	struct transaction transaction;
};

/* Returns how many bytes the patch writes or relies on. */
static size_t window_of(const struct reg_site *site)
{
	size_t covers = site->covers > site->relies ? site->covers : site->relies;

	return covers > site->length ? covers : site->length;
}

static bool add(struct mending *m, const struct change *change, const struct reg_site *site)
{
	const struct mapping *mapping = maps_find(&change->maps, site->patch);
	const struct module *module = modules_find(&change->modules, site->patch);
	size_t size = window_of(site);
	struct edit *edit;

	/* The program may have copied its code to shared memory. */
	if (!mapping || mapping->is_shared)
		return true;
	if (!module || !module->object || size > EDIT_BYTES ||
		object_read(module->object, site->patch - module->bias, m->wanted[m->count],
			size) != size ||
		!site_is_in_file(&change->modules, site))
		return true;
	edit = edits_add(&m->transaction.text, site->patch, size);
	edit = edit ? edits_add(&m->transaction.text, site->patch, site->length) : NULL;
	if (!edit)
		return false;
	edit->is_write = true;
	memcpy(edit->bytes, site->patched, site->length);
	m->sites[m->count++] = site;
	return true;
}

static struct probe_error *find(struct mending *m, const struct change *change)
{
	const struct registry *r = &change->registry;
	AUTO_FREE enum site_state *states = NULL;
	AUTO(edits_deinit) struct edits edits = {0};
	struct probe_error *error = site_read_all(r, change->pid, &edits, &states);

	m->sites = calloc(r->site_count + 1, sizeof(*m->sites));
	m->wanted = calloc(r->site_count + 1, sizeof(*m->wanted));
	if (!error && (!m->sites || !m->wanted))
		error = probe_error_no_memory();
	for (size_t i = 0; i < r->site_count && !error; i++)
		if (r->sites[i].pc &&
			(states[i] == SITE_ORIGINAL ||
				(states[i] == SITE_FOREIGN &&
					site_is_mixed(&r->sites[i], edits_found(&edits, i)))) &&
			site_is_wanted(r, &r->sites[i]) && !add(m, change, &r->sites[i]))
			error = probe_error_no_memory();
	return error;
}

/*
 * Returns the lowest address of a patch at which no thread may be. A thread may be at the first
 * byte and, after a breakpoint, at a twin's second jump.
 */
static uint64_t window_start(const struct mending *m, const struct reg_site *site)
{
	const struct plan_ops *plan = plan_of(site->plan);

	return site->patch + 1 +
	       (plan && plan->is_double ? m->transaction.change->arch->site_nop : 0);
}

static struct probe_error *prepare_windows(struct mending *m)
{
	struct windows *windows = &m->transaction.windows;
	const struct change *change = m->transaction.change;
	const char *reason = windows_reason(windows, change);

	if (reason)
		return probe_error_new(PROBE_ERROR_REFUSED,
			"process %d: no site can be patched again: %s", change->pid, reason);
	for (size_t i = 0; i < m->count; i++)
		if (!places_add(&windows->places, window_start(m, m->sites[i]),
			    m->sites[i]->patch + m->sites[i]->length))
			return probe_error_no_memory();
	return windows_prepare(windows, change);
}

/* Checks everything during the stop, for transaction_commit(). */
static struct probe_error *look(void *data, bool *again_ret)
{
	struct mending *m = data;
	struct transaction *t = &m->transaction;
	struct probe_error *error = transaction_read(t) ?: windows_read(&t->windows, t->change);

	if (error)
		return error;
	frames_sort(&t->windows.frames);
	/*
	 * Skip sites where something has written other bytes. A short jump reaches its stub only
	 * while its hop exists.
	 */
	for (size_t i = 0; i < m->count; i++) {
		const struct reg_site *site = m->sites[i];
		const uint8_t *found = edits_found(&t->text, 2 * i);

		t->text.items[2 * i + 1].is_write =
			found && site_is_mixed(site, found) &&
			(!site->hop || site_has_hop(site, t->change->pid)) &&
			memcmp(found + site->length, m->wanted[i] + site->length,
				window_of(site) - site->length) == 0;
	}
	for (size_t i = 0; i < m->count && !*again_ret; i++)
		*again_ret = frames_within(&t->windows.frames, window_start(m, m->sites[i]),
			m->sites[i]->patch + m->sites[i]->length);
	return NULL;
}

/*
 * Patches sites again that a session uses but that hold the file's bytes, because something
 * restored them or the library was opened again. Call it before the registry forgets them
 * (change_begin_as_it_is()). *count_ret is their number. Errors: as change_stop(),
 * PROBE_ERROR_STATE (a thread does not leave).
 */
static struct probe_error *mend_sites(struct change *change, size_t *count_ret)
{
	struct mending m = {.transaction = transaction_of(change, TRANSACTION_MENDS)};
	struct transaction *t = &m.transaction;
	struct probe_error *error = find(&m, change);

	*count_ret = 0;
	if (!error && m.count) {
		error = transaction_prepare(t)
			?: transaction_read(t)
			?: edits_pretouch(&t->text, change->mem)
			?: prepare_windows(&m)
			?: transaction_commit(t, look, &m,
				"a thread does not leave the bytes that a patch replaces");
	}
	for (size_t i = 0; i < m.count && !error; i++)
		*count_ret += t->text.items[2 * i + 1].is_write;
	transaction_end(t);
	free(m.sites);
	free(m.wanted);
	return error;
}

/* ==== Repair ================================================================================== */

/* Counts the sessions that end, and the ending probes of sessions that stay. */
static void count_sessions(const struct registry *r, struct probe_stale *ret)
{
	for (size_t i = 0; i < r->session_count; i++) {
		const struct reg_session *session = &r->sessions[i];
		size_t wanted = 0, ending = 0;

		for (size_t k = 0; k < r->probe_count; k++) {
			if (r->probes[k].session != session->id)
				continue;
			wanted += r->probes[k].refcount > 0;
			ending += r->probes[k].refcount == 0;
		}
		if (registry_is_dead(session) || session->flags & REG_SESSION_RETIRED ||
			(session->flags & REG_SESSION_PERSISTENT && !wanted))
			ret->sessions++;
		else
			ret->probes += ending;
	}
}

static struct probe_error *repair(struct change *c, struct probe_repair *ret)
{
	const struct registry *r = &c->registry;
	size_t patched, now, semaphores, low, left = 0, frames, mended;
	struct probe_error *error = change_remove_frames(c, &frames);
	struct probe_stale stale = {0};
	struct orphans orphans;

	ret->frames += frames;
	if (!error) {
		/* Retire dead sessions first, so that their sites are not patched again. */
		uninstall_find_stale(c);
		error = mend_sites(c, &mended);
		ret->mended += mended;
		site_forget_closed(c);
	}
	patched = site_count_patched(c);
	error = error ?: orphans_remove(c, &orphans);
	if (error)
		return error;
	ret->mappings += orphans.mappings;
	ret->descriptors += orphans.descriptors;
	if (!uninstall_find_stale(c) && !uninstall_has_leftovers(&c->registry))
		return NULL;
	low = semaphores_short(&c->registry, c->pid);
	count_sessions(&c->registry, &stale);
	semaphores = c->registry.semaphore_count;
	error = uninstall_unreferenced(c);
	/* Semaphores of ended sessions, and those that were too low. */
	ret->semaphores += semaphores - c->registry.semaphore_count + low;
	now = site_count_patched(c);
	/*
	 * If a breakpoint was removed in the meantime, more sites may be patched now than before.
	 */
	ret->sites += patched > now ? patched - now : 0;
	/* Retired sessions stay while a thread may return to them, or because of overwritten sites.
	 */
	for (size_t i = 0; i < r->session_count; i++) {
		bool is_held = false;

		if (!(r->sessions[i].flags & REG_SESSION_RETIRED))
			continue;
		for (size_t k = 0; k < r->stub_count; k++)
			is_held |= r->stubs[k].pc && r->stubs[k].session == r->sessions[i].id;
		left++;
		ret->waiting += !is_held;
	}
	ret->sessions += stale.sessions - left;
	ret->probes += stale.probes;
	return error;
}

/* Returns true if a process has memory or descriptors of ours. Does not stop the process. */
static bool is_touched(pid_t pid)
{
	static const struct registry none;
	AUTO(maps_deinit) struct maps maps = {0};
	struct probe_error *error = maps_read(pid, &maps);
	struct orphans orphans = {0};
	bool found = !error && shared_any(&maps);

	if (!error && !found)
		orphans_count(pid, &maps, &none, &orphans);
	probe_error_free(error);
	return found || orphans.descriptors;
}

/*
 * Repairs children that were forked with the target's code and registry. Skips one that runs in its
 * parent's memory: it may be the helper that changes the parent (self/helper).
 */
static struct probe_error *repair_children(
	const struct probe_target *target, struct probe_repair *ret)
{
	AUTO_FREE pid_t *children = children_apart(target->pid);
	struct probe_error *error = NULL, *busy = NULL;

	for (size_t i = 0; children && children[i] && !error; i++) {
		struct probe_target *child;

		if (!is_touched(children[i]))
			continue;
		error = probe_target_open(children[i], NULL, &child);
		if (!error) {
			probe_target_set_patience(child, target->patience);
			error = probe_target_repair(child, ret);
			probe_target_close(child);
		}
		/* After its end or execve(2), a child needs no repair. */
		if (error && !is_touched(children[i])) {
			probe_error_free(error);
			error = NULL;
		}
		error = probe_error_prefix(error, "child %d", (int)children[i]);
		/* This child is locked: repair the other children. */
		if (error && error->code == PROBE_ERROR_BUSY) {
			busy = probe_error_first(busy, error);
			error = NULL;
		}
	}
	return probe_error_first(error, busy);
}

struct probe_error *probe_target_repair(struct probe_target *target, struct probe_repair *ret)
{
	struct change c;
	struct probe_error *error = change_begin_as_it_is(target, &c);

	if (error)
		return error;
	ret->lost += c.lost;
	error = repair(&c, ret);
	ret->sealed_bytes += own_sealed(c.pid, &c.maps, &c.registry);
	change_end(&c);
	return error ?: repair_children(target, ret);
}

/* ---- Finding damage ------------------------------------------------------------------- */

static struct probe_error *count_frames(
	struct probe_target *target, const struct maps *maps, size_t *ret)
{
	AUTO(modules_deinit) struct modules modules = {0};
	struct rooms rooms = {0};
	struct probe_error *error;

	error = modules_read_mapped(target->pid, maps, target->files, &modules)
			?: rooms_find(target->pid, -1, maps, &modules, false, &rooms);
	*ret = rooms.left_count;
	return error;
}

static struct probe_error *find_lost(struct probe_target *target, const struct maps *maps,
	struct registry *registry, bool *lost_ret)
{
	AUTO(modules_deinit) struct modules modules = {0};

	if (registry->home)
		return own_check(target->pid, -1, maps, registry, lost_ret);
	if (!shared_any(maps))
		return NULL;
	return modules_read_mapped(procfs_living(target->pid), maps, target->files, &modules)
		       ?: lost_find(target->pid, maps, &modules, registry, lost_ret);
}

struct probe_error *probe_target_stale(struct probe_target *target, struct probe_stale *ret)
{
	bool busy = lock_is_taken(target->pid);
	AUTO(registry_deinit) struct registry registry = {0};
	struct orphans orphans = {0};
	AUTO(maps_deinit) struct maps maps = {0};
	struct probe_error *error;
	size_t frames = 0;
	bool lost = false;

	*ret = (struct probe_stale){0};
	error = maps_read(target->pid, &maps) ?: registry_load(target->pid, &maps, &registry);
	/* The registry may be newer than the mappings, so read them again. */
	if (!error && registry.home) {
		maps_deinit(&maps);
		error = maps_read(target->pid, &maps);
	}
	error = error ?: find_lost(target, &maps, &registry, &lost);
	if (!error) {
		count_sessions(&registry, ret);
		ret->sealed_bytes = own_sealed(target->pid, &maps, &registry);
		ret->semaphores = semaphores_short(&registry, target->pid);
		orphans_count(target->pid, &maps, &registry, &orphans);
		error = count_frames(target, &maps, &frames);
	}
	/* Count only if no controller has changed the target in the meantime. */
	if (!busy && !lock_is_taken(target->pid) && !registry_is_stale(&registry, target->pid)) {
		ret->mappings = orphans.mappings;
		ret->descriptors = orphans.descriptors;
		ret->frames = frames;
		ret->lost = lost;
	} else if (lost) {
		/* Another controller may just have unmapped the memory that seems lost. */
		*ret = (struct probe_stale){0};
	}
	return error;
}

/* ---- Letting a target go --------------------------------------------------------------- */

struct probe_error *probe_target_release(struct probe_target *target)
{
	struct probe_repair repair = {0};

	if (!target->held)
		return probe_error_new(PROBE_ERROR_STATE, "process %d is not held", target->pid);
	return target_let_go(target) ? probe_target_repair(target, &repair) : NULL;
}

void probe_target_close(struct probe_target *target)
{
	if (!target)
		return;
	if (target->held && target->spawned)
		kill(target->pid, SIGKILL);
	if (target->held)
		probe_error_free(probe_target_release(target));
	target_free(target);
}
