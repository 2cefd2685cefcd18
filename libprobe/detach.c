/* SPDX-License-Identifier: MIT */
/*
 * Ending what nobody refers to. What is to end has a reference count of 0 in
 * the registry before anything is undone, so that whoever comes next can
 * finish it if this controller does not.
 *
 * Bytes of a site are put back while all threads stand still. Stubs and tails
 * may still have a thread in them, or be what a signal handler returns to:
 * then the target goes on for a moment and is looked at again. Memory is only
 * unmapped when no thread is, or will come, there.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "libprobe/attach.h"
#include "libprobe/frames.h"
#include "libprobe/memory.h"
#include "libprobe/procfs.h"
#include "libprobe/site.h"
#include "libprobe/space.h"

enum { QUIET_TRIES = 50, QUIET_WAIT_NS = 1000000 };

/* ---- Semaphores --------------------------------------------------------------------- */

struct probe_error *semaphore_add(struct change *change, uint64_t address, int by)
{
	struct probe_error *error;
	uint16_t value;

	error = memory_read_all(change->pid, address, &value, sizeof(value));
	if (error)
		return probe_error_prefix(error, "semaphore");
	if (by > 0 && value == UINT16_MAX)
		return probe_error_new(PROBE_ERROR_STATE,
			"the semaphore at %#jx is at its largest value already",
			(uintmax_t)address);
	/* Another tool may have lowered it behind our back: never below 0. */
	value = by < 0 && value < -by ? 0 : value + by;
	return memory_write_code(change->mem, address, &value, sizeof(value));
}

size_t semaphores_of(
	const struct selection *selection, const struct select_probe *probe, uint64_t *addresses)
{
	bool second = plan_is_ocaml(probe->provider) && strcmp(probe->provider, "ocaml") != 0;
	size_t count = 0;

	for (size_t i = 0; i < probe->site_count; i++) {
		uint64_t address = selection->sites[probe->first_site + i].semaphore;
		bool known = address == 0;

		address += second ? 2 : 0;
		for (size_t k = 0; k < count && !known; k++)
			known = addresses[k] == address;
		if (!known)
			addresses[count++] = address;
	}
	return count;
}

struct probe_error *semaphores_change(struct change *change, uint64_t key, uint32_t session, int by)
{
	struct registry *r = &change->registry;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < r->semaphore_count && !error; i++) {
		struct reg_semaphore *s = &r->semaphores[i];

		if (s->key != key || s->session != session)
			continue;
		error = semaphore_add(change, s->address, by);
		if (!error)
			s->added += by;
	}
	return error;
}

/* ---- What is to end ------------------------------------------------------------------- */

static bool is_dead(const struct reg_session *session)
{
	return session->owner && procfs_start_time(session->owner) != session->owner_start;
}

size_t detach_find_stale(struct change *change)
{
	struct registry *r = &change->registry;
	size_t count = 0;

	for (size_t i = 0; i < r->session_count; i++) {
		struct reg_session *session = &r->sessions[i];

		if (session->flags & (REG_SESSION_PERSISTENT | REG_SESSION_RETIRED) ||
			!is_dead(session))
			continue;
		session->flags |= REG_SESSION_RETIRED;
		for (size_t k = 0; k < r->probe_count; k++)
			if (r->probes[k].session == session->id)
				r->probes[k].refcount = 0;
		count++;
	}
	return count;
}

/* Does a session still count a probe? Stubs of sites are kept by their probes. */
static bool is_wanted(const struct registry *r, uint64_t key, uint32_t session)
{
	const struct reg_probe *probe = registry_probe(r, key, session);

	return probe && probe->refcount > 0;
}

static uint64_t site_key(const struct registry *r, uint64_t pc)
{
	const struct reg_site *site = registry_site(r, pc);

	return site ? site->key : 0;
}

/* The arrays of what ends, as indices into the registry's: true is to go. */
struct ending {
	bool *sites, *stubs;
	bool *busy_sites, *busy_stubs; /* a thread is there */
	bool any, any_busy;
};

static bool ending_init(struct ending *e, const struct registry *r)
{
	*e = (struct ending){
		.sites = calloc(r->site_count + 1, sizeof(bool)),
		.stubs = calloc(r->stub_count + 1, sizeof(bool)),
		.busy_sites = calloc(r->site_count + 1, sizeof(bool)),
		.busy_stubs = calloc(r->stub_count + 1, sizeof(bool)),
	};
	if (!e->sites || !e->stubs || !e->busy_sites || !e->busy_stubs)
		return false;
	for (size_t i = 0; i < r->stub_count; i++)
		e->stubs[i] = !is_wanted(r, site_key(r, r->stubs[i].pc), r->stubs[i].session);
	for (size_t i = 0; i < r->site_count; i++) {
		const struct reg_site *site = &r->sites[i];
		bool kept = false;

		for (size_t k = 0; k < r->stub_count && !kept; k++)
			kept = r->stubs[k].pc == site->pc && !e->stubs[k];
		if (site->plan == PROBE_PLAN_TOGGLE)
			kept = registry_refcount(r, site->key, false) > 0;
		e->sites[i] = !kept;
		e->any = e->any || !kept;
	}
	for (size_t i = 0; i < r->stub_count; i++)
		e->any = e->any || e->stubs[i];
	return true;
}

static void ending_deinit(struct ending *e)
{
	free(e->sites);
	free(e->stubs);
	free(e->busy_sites);
	free(e->busy_stubs);
}

/* ---- Undoing ---------------------------------------------------------------------------- */

/* A site that is gone (its library was closed) or not ours any more is left alone. */
static struct probe_error *restore_site(struct change *change, const struct reg_site *site)
{
	if (site_state(change, site) != SITE_PATCHED)
		return NULL;
	return memory_write_code(change->mem, site->patch, site->original, site->length);
}

/* Leads a jump to another stub, or to the tail. */
static struct probe_error *redirect(
	struct change *change, const struct reg_site *site, bool is_entry, uint64_t at, uint64_t to)
{
	uint8_t jump[16];
	size_t length = is_entry && site->pun ? change->arch->far_jump(at, to, jump)
					      : change->arch->jump(at, to, jump);

	if (!length)
		return probe_error_new(PROBE_ERROR_STATE,
			"the stubs of the site at %#jx are too far apart", (uintmax_t)site->pc);
	return memory_write_code(change->mem, at, jump, length);
}

/*
 * Takes the ending stubs of a site out of its chain, which runs from the
 * newest stub (last in the registry) to the tail.
 */
static struct probe_error *relink_site(
	struct change *change, struct reg_site *site, const struct ending *e)
{
	struct registry *r = &change->registry;
	struct probe_error *error = NULL;
	uint64_t at = site->entry;
	bool is_entry = true, skipped = false;

	for (size_t i = r->stub_count; i-- > 0 && !error;) {
		const struct reg_stub *stub = &r->stubs[i];

		if (stub->pc != site->pc)
			continue;
		if (e->stubs[i]) {
			skipped = true;
			continue;
		}
		if (skipped)
			error = redirect(change, site, is_entry, at, stub->start);
		if (skipped && is_entry && !site->pun)
			change->arch->jump(site->entry, stub->start, site->patched);
		at = stub->start + stub->next_jump;
		is_entry = skipped = false;
	}
	if (!error && skipped)
		error = redirect(change, site, is_entry, at, site->tail);
	return error;
}

static struct probe_error *undo_sites(struct change *change, const struct ending *e)
{
	struct registry *r = &change->registry;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < r->site_count && !error; i++)
		error = e->sites[i] ? restore_site(change, &r->sites[i])
				    : relink_site(change, &r->sites[i], e);
	return error;
}

static struct probe_error *lower_semaphores(struct change *change)
{
	struct registry *r = &change->registry;
	struct probe_error *error = NULL;

	for (size_t i = r->semaphore_count; i-- > 0 && !error;) {
		struct reg_semaphore *s = &r->semaphores[i];
		uint16_t unused;

		if (is_wanted(r, s->key, s->session))
			continue;
		if (memory_read(change->pid, s->address, &unused, sizeof(unused)) == sizeof(unused))
			error = semaphore_add(change, s->address, -(int)s->added);
		registry_remove_semaphore(r, i);
	}
	return error;
}

/* Looks at where every thread is, while all are stopped. */
static struct probe_error *find_busy(struct change *change, struct ending *e)
{
	struct registry *r = &change->registry;
	struct frames frames;
	struct probe_error *error;

	error = frames_read(&change->control, &change->maps, &change->gadgets, &frames);
	if (error)
		return error;
	e->any_busy = false;
	for (size_t i = 0; i < r->stub_count; i++) {
		const struct reg_stub *s = &r->stubs[i];

		e->busy_stubs[i] =
			e->stubs[i] && frames_within(&frames, 0, s->start, s->start + s->size);
		e->any_busy = e->any_busy || e->busy_stubs[i];
	}
	for (size_t i = 0; i < r->site_count; i++) {
		const struct reg_site *s = &r->sites[i];

		e->busy_sites[i] = e->sites[i] &&
				   (frames_within(&frames, 0, s->tail, s->tail + s->tail_size) ||
					   (s->pun && frames_within(&frames, 0, s->pun,
							      s->pun + s->pun_size)));
		e->any_busy = e->any_busy || e->busy_sites[i];
	}
	frames_deinit(&frames);
	return NULL;
}

/* ---- The registry afterwards --------------------------------------------------------------- */

static struct probe_error *unmap_pun(struct change *change, const struct reg_site *site)
{
	struct registry *r = &change->registry;
	struct control_call call = {SYS_munmap, {site->pun, site->pun_size}, 0};

	if (!site->pun)
		return NULL;
	for (size_t i = r->arena_count; i-- > 0;)
		if (r->arenas[i].start == site->pun)
			registry_remove_arena(r, i);
	return change_run(change, "unmap memory", &call, 1);
}

/* Drops what has ended; what a thread is still in stays, without its probe. */
static struct probe_error *drop_ended(struct change *change, const struct ending *e)
{
	struct registry *r = &change->registry;
	struct probe_error *error = NULL;

	for (size_t i = r->stub_count; i-- > 0;)
		if (e->stubs[i] && !e->busy_stubs[i])
			registry_remove_stub(r, i);
	for (size_t i = r->site_count; i-- > 0 && !error;) {
		if (!e->sites[i] || e->busy_sites[i])
			continue;
		error = unmap_pun(change, &r->sites[i]);
		registry_remove_site(r, i);
	}
	for (size_t i = r->probe_count; i-- > 0;)
		if (r->probes[i].refcount == 0)
			registry_remove_probe(r, i);
	for (size_t i = 0; i < r->session_count; i++) {
		struct reg_session *session = &r->sessions[i];
		bool used = false;

		for (size_t k = 0; k < r->probe_count && !used; k++)
			used = r->probes[k].session == session->id;
		/* An attached session without a probe waits for a library to come. */
		if (!used && session->flags & REG_SESSION_PERSISTENT)
			session->flags |= REG_SESSION_RETIRED;
	}
	return error;
}

/* Without a stub, a retired session's data can go; see change_collect(). */
static struct probe_error *collect(struct change *change)
{
	struct registry *r = &change->registry;

	for (size_t i = 0; i < r->stub_count; i++) {
		struct reg_session *session = registry_session(r, r->stubs[i].session);

		if (session && session->flags & REG_SESSION_RETIRED)
			return change_store(change);
	}
	if (r->site_count && !r->probe_count)
		return change_store(change); /* a thread is in a tail */
	return change_collect(change);
}

static struct probe_error *undo_stopped(struct change *change, struct ending *e, bool first)
{
	struct probe_error *error = change_stop(change);

	if (error)
		return error;
	if (first)
		error = undo_sites(change, e);
	if (!error && first)
		error = lower_semaphores(change);
	if (!error)
		error = find_busy(change, e);
	change_resume(change);
	return error;
}

struct probe_error *detach_unreferenced(struct change *change)
{
	struct ending e;
	struct probe_error *error;

	if (!ending_init(&e, &change->registry)) {
		ending_deinit(&e);
		return probe_error_no_memory();
	}
	/* The intention first: whoever finds it can finish it. */
	error = change->registry.home ? change_store(change) : NULL;
	if (!error && !change->gadgets.sigreturn_count)
		error = control_find_gadgets(&change->modules, &change->gadgets);
	for (int i = 0; i < QUIET_TRIES && !error; i++) {
		error = undo_stopped(change, &e, i == 0);
		if (!e.any_busy)
			break;
		nanosleep(&(struct timespec){.tv_nsec = QUIET_WAIT_NS}, NULL);
	}
	if (!error)
		error = drop_ended(change, &e);
	if (!error)
		error = collect(change);
	ending_deinit(&e);
	return error;
}
