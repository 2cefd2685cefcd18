/* SPDX-License-Identifier: MIT */
/*
 * Checks whether a session's sites are still patched, or hits are not counted.
 *
 * A check reads the bytes of all sites, without a stop, and compares them with those of the last
 * check. If they differ, it reads the registry, because another session may have put its stub
 * before ours, and the files, because a library may be closed. It concludes nothing during another
 * session's change: while the lock is held, or if a new registry was published during the check.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/procfs.h"
#include "libprobe/base/worker.h"
#include "libprobe/ptrace/ptrace.h"
#include "libprobe/session/session.h"

/* ==== Look ==================================================================================== */

enum watch_state {
	WATCH_GOOD,
	/* the site was restored, or is in a library that was opened again and is not probed yet */
	WATCH_SUSPECT,
	WATCH_BAD,   /* the site's damage was reported */
	WATCH_CLOSED /* its library was closed */
};

struct watched_site {
	struct reg_site reg;
	enum watch_state state;
	enum probe_site_fault fault;
	bool readable;
	uint8_t bytes[sizeof(((struct reg_site *)0)->patched)]; /* as read by the last check */
	uint32_t suspect_at; /* gate_arrivals() when the site became suspect */
	/* when the site was last seen intact, and first seen changed (CLOCK_REALTIME); or 0 */
	uint64_t good_ns, bad_ns;
	bool left;
};

static void session_watch_deinit(struct session_watch *watch)
{
	free(watch->sites);
	edits_deinit(&watch->edits);
	registry_deinit(&watch->memory);
	*watch = (struct session_watch){0};
}

/* ---- Watched sites ---------------------------------------------------------------------- */

static bool has_stub(const struct registry *r, const struct reg_site *site, uint32_t session)
{
	size_t count;
	const struct reg_stub *stubs = registry_stubs(r, site->pc, &count);

	for (size_t i = 0; i < count; i++)
		if (stubs[i].session == session)
			return true;
	return false;
}

static bool is_in(const struct reg_arena *arena, uint64_t address, uint64_t size)
{
	return size && address - arena->start < arena->size;
}

/* Notes the arenas that the session needs. Others may vanish with other sessions. */
static struct probe_error *watch_memory(
	struct session_watch *watch, const struct registry *r, uint32_t id)
{
	const struct reg_session *session = registry_session(r, id);
	struct registry *memory = &watch->memory;

	if (!session)
		return NULL;
	if (!ARRAY_ADD(memory->sessions, memory->session_count, *session))
		return probe_error_no_memory();
	memory->guard = r->guard;
	for (size_t i = 0; i < r->arena_count; i++) {
		const struct reg_arena *arena = &r->arenas[i];
		bool needed = r->home - arena->start < arena->size;

		for (size_t k = 0; k < r->stub_count && !needed; k++)
			needed = r->stubs[k].session == id &&
				 is_in(arena, r->stubs[k].start, r->stubs[k].size);
		for (size_t k = 0; k < watch->count && !needed; k++) {
			const struct reg_site *site = &watch->sites[k].reg;

			needed = is_in(arena, site->tail, site->tail_size) ||
				 is_in(arena, site->pun, site->pun_size);
		}
		if (needed && !ARRAY_ADD(memory->arenas, memory->arena_count, *arena))
			return probe_error_no_memory();
	}
	return NULL;
}

struct probe_error *session_watch(struct probe_session *s, const struct registry *r)
{
	struct session_watch next = {.sites = calloc(r->site_count + 1, sizeof(*next.sites))};
	uint64_t now = s->opened ? 0 : clock_now_ns();
	struct probe_error *error = next.sites ? NULL : probe_error_no_memory();

	for (size_t i = 0; i < r->site_count && !error; i++) {
		const struct reg_site *reg = &r->sites[i];
		const struct watched_site *known = NULL;
		struct watched_site *site = &next.sites[next.count];

		if (!reg->pc || !has_stub(r, reg, s->id))
			continue;
		/* A site that was patched again has a new tail, and counts as another site. */
		for (size_t k = 0; k < s->watch.count && !known; k++)
			if (s->watch.sites[k].reg.pc == reg->pc &&
				s->watch.sites[k].reg.tail == reg->tail)
				known = &s->watch.sites[k];
		*site = known ? *known : (struct watched_site){.readable = true, .good_ns = now};
		site->reg = *reg;
		if (site->state == WATCH_GOOD)
			memcpy(site->bytes, reg->patched, reg->length);
		next.count++;
		if (!edits_add(&next.edits, reg->patch, reg->length))
			error = probe_error_no_memory();
	}
	error = error ?: edits_prepare(&next.edits) ?: watch_memory(&next, r, s->id);
	if (error) {
		session_watch_deinit(&next);
		return error;
	}
	session_watch_deinit(&s->watch);
	s->watch = next;
	return NULL;
}

/* ---- Reporting -------------------------------------------------------------------------- */

/* Reports a site's event, with the probe that last had it. */
static void tell(struct probe_session *s, const struct watched_site *site,
	enum probe_site_event event, void (*visit)(const struct probe_site_news *news, void *data),
	void *data)
{
	struct probe_site_news news = {.event = event,
		.probe = SIZE_MAX,
		.site = {.pc = site->reg.pc,
			.patch = site->reg.patch,
			.fault = site->fault,
			.bytes = site->bytes,
			.length = site->reg.length,
			.left = event == PROBE_SITE_LEFT},
		.good_ns = site->good_ns,
		.bad_ns = site->bad_ns,
		.now_ns = clock_now_ns()};

	for (size_t i = s->site_count; i-- > 0 && news.probe == SIZE_MAX;)
		if (s->sites[i].pc == site->reg.pc && !s->sites[i].is_apart)
			news.probe = s->sites[i].probe;
	if (news.probe < s->probe_count) {
		news.site.provider = s->probes[news.probe].provider;
		news.site.name = s->probes[news.probe].name;
		news.site.path = s->probes[news.probe].path;
	}
	visit(&news, data);
}

/* From now on, the counts of the site's probes are incomplete. */
static void note_incomplete(struct probe_session *s, uint64_t pc)
{
	for (size_t i = 0; i < s->site_count; i++) {
		if (s->sites[i].pc != pc || s->sites[i].is_apart)
			continue;
		for (size_t m = 0; m <= s->group.member_count; m++) {
			const struct probe_session *its = m ? s->group.members[m - 1] : s;
			struct probe_coverage *coverage = &its->probes[s->sites[i].probe].coverage;

			if (coverage->overwritten < coverage->sites - coverage->refused)
				coverage->overwritten++;
		}
	}
}

/* ---- Checking --------------------------------------------------------------------------- */

static bool has_changed(const struct session_watch *watch, size_t i)
{
	const struct watched_site *site = &watch->sites[i];
	const uint8_t *found = edits_found(&watch->edits, i);

	/* A suspected site is judged again, even if its bytes are unchanged. */
	return site->state == WATCH_SUSPECT || (found != NULL) != site->readable ||
	       (found && memcmp(found, site->bytes, site->reg.length) != 0);
}

/* Takes a site's new state. With `last`, no later check can judge it. */
static void take(struct probe_session *s, struct watched_site *site, enum site_state state,
	bool last, void (*visit)(const struct probe_site_news *news, void *data), void *data)
{
	enum watch_state before = site->state;
	uint32_t arrivals = gate_arrivals(&s->gates.loader);
	bool may_be_new;

	if (!site_fault(state, &site->fault)) {
		site->state = state == SITE_PATCHED ? WATCH_GOOD : WATCH_CLOSED;
		if (before == WATCH_BAD && state == SITE_PATCHED)
			tell(s, site, PROBE_SITE_BACK, visit, data);
		return;
	}
	if (before == WATCH_BAD)
		return;
	if (before != WATCH_SUSPECT)
		site->bad_ns = clock_now_ns();
	/* The site may be in a library that was opened again, and that will soon be probed. */
	may_be_new = s->options.follow_libraries && site->fault == PROBE_SITE_RESTORED &&
		     (gate_is_busy(&s->gates.loader) ||
			     (!last && (before != WATCH_SUSPECT || site->suspect_at != arrivals)));
	site->state = may_be_new ? WATCH_SUSPECT : WATCH_BAD;
	site->suspect_at = arrivals;
	if (may_be_new)
		return;
	note_incomplete(s, site->reg.pc);
	tell(s, site, PROBE_SITE_BAD, visit, data);
}

/* Judges all sites whose bytes have changed, by what is mapped and listed now. */
static struct probe_error *judge(struct probe_session *s, bool last, bool *busy_inout,
	void (*visit)(const struct probe_site_news *news, void *data), void *data)
{
	pid_t pid = s->target->pid;
	AUTO(maps_deinit) struct maps maps = {0};
	AUTO(modules_deinit) struct modules modules = {0};
	AUTO(registry_deinit) struct registry registry = {0};
	struct probe_error *error;
	bool busy;

	error = maps_read(pid, &maps)
		?: modules_read_mapped(procfs_living(pid), &maps, s->target->files, &modules)
		?: registry_load(pid, &maps, &registry);
	/* The mappings kept changing: the next check judges. */
	if (error && error->code == PROBE_ERROR_STATE) {
		probe_error_free(error);
		error = NULL;
		*busy_inout = true;
	}
	busy = *busy_inout || lock_is_taken(pid);
	/* The bytes may have changed before the evidence was read, so read them again. */
	if (!error && !busy)
		error = edits_read(&s->watch.edits, pid);
	/* Judge only if the process still runs the session's program. */
	*busy_inout = busy || error || lock_is_taken(pid) || registry_is_stale(&registry, pid) ||
		      !target_is_there(s->target);
	for (size_t i = 0; i < s->watch.count && !*busy_inout; i++) {
		struct watched_site *site = &s->watch.sites[i];
		const uint8_t *found = edits_found(&s->watch.edits, i);
		const struct reg_site *reg;
		enum site_state state;

		if (!has_changed(&s->watch, i))
			continue;
		site->readable = found != NULL;
		if (found)
			memcpy(site->bytes, found, site->reg.length);
		/* Another controller's stub now runs before ours, or no longer does. */
		reg = registry_site(&registry, site->reg.pc);
		if (reg && reg->tail == site->reg.tail)
			site->reg = *reg;
		state = site_state(&registry, &site->reg, found);
		if (state != SITE_PATCHED && !site_is_in_file(&modules, &site->reg))
			state = SITE_GONE;
		take(s, site, state, last, visit, data);
	}
	return error;
}

static struct probe_error *look(struct probe_session *s, bool last,
	void (*visit)(const struct probe_site_news *news, void *data), void *data)
{
	bool busy = lock_is_taken(s->target->pid);
	struct probe_error *error = edits_read(&s->watch.edits, s->target->pid);
	uint64_t now;
	size_t i = 0;

	if (error)
		return error;
	while (i < s->watch.count && !has_changed(&s->watch, i))
		i++;
	if (i < s->watch.count)
		error = judge(s, last, &busy, visit, data);
	if (error || busy || !target_is_there(s->target))
		return error;
	now = clock_now_ns();
	for (i = 0; i < s->watch.count; i++)
		if (s->watch.sites[i].state == WATCH_GOOD)
			s->watch.sites[i].good_ns = now;
	return NULL;
}

/*
 * Handles missing memory. After a library is closed, any session may unmap the pages for its sites.
 * The registry does not list them any more, and nothing is lost: from now on, the session watches
 * what is listed.
 *
 * *holds_ret is true if all of the listed memory is mapped, or if another controller is changing
 * the registry: then the next check decides. It stays false if something else is missing, or the
 * session has ended.
 */
static struct probe_error *look_at_registry(struct probe_session *s, bool *holds_ret)
{
	pid_t pid = s->target->pid;
	const struct reg_session *session;
	AUTO(registry_deinit) struct registry registry = {0};
	AUTO(maps_deinit) struct maps maps = {0};
	struct probe_error *error = maps_read(pid, &maps) ?: registry_load(pid, &maps, &registry);

	session = error ? NULL : registry_session(&registry, s->id);
	if (session && session->stamp == s->data.rings.layout.stamp &&
		!(session->flags & REG_SESSION_RETIRED)) {
		error = session_watch(s, &registry)
				?: own_holds(pid, s->target->mem, &s->watch.memory, holds_ret);
	}
	if (!lock_is_taken(pid) && !registry_is_stale(&registry, pid) &&
		(!error || error->code != PROBE_ERROR_STATE))
		return error;
	probe_error_free(error);
	*holds_ret = true;
	return NULL;
}

/*
 * Ends the session if the program has unmapped or replaced memory that its stubs need, because
 * sites would jump into that memory, or stubs would write to it.
 */
static struct probe_error *look_at_memory(struct probe_session *s)
{
	pid_t pid = s->target->pid;
	struct probe_error *error = NULL;
	bool holds = true;

	if (!s->watch.memory.session_count || lock_is_taken(pid))
		return NULL;
	error = own_holds(pid, s->target->mem, &s->watch.memory, &holds);
	if (!error && !holds && !lock_is_taken(pid))
		error = look_at_registry(s, &holds);
	if (error || holds || lock_is_taken(pid) || !target_is_there(s->target))
		return error;
	if (s->opened)
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d has mapped memory over that of probectl, or unmapped it: what "
			"was counted is lost; `probectl repair -p %d` restores its sites",
			pid, pid);
	s->lost = true;
	return probe_session_stop(s) ?: probe_error_new(PROBE_ERROR_STATE, REPORT_LOST, pid);
}

/* ---- Sites left behind ------------------------------------------------------------------ */

/* Notes, after the end, which sites could not be restored. */
static void session_note_left(struct probe_session *s, const struct registry *r)
{
	struct probe_error *error = edits_read(&s->watch.edits, s->target->pid);

	for (size_t i = 0; i < s->watch.count && !error; i++) {
		struct watched_site *site = &s->watch.sites[i];
		const struct reg_site *reg = registry_site(r, site->reg.pc);
		const uint8_t *found = edits_found(&s->watch.edits, i);

		if (!found || !reg || site_is_wanted(r, reg) || !has_stub(r, reg, s->id))
			continue;
		memcpy(site->bytes, found, site->reg.length);
		site->left = site_fault(site_state(r, reg, found), &site->fault) &&
			     site->fault != PROBE_SITE_RESTORED;
	}
	/* An ended process has no sites left. */
	probe_error_free(error);
}

struct probe_error *probe_session_look(struct probe_session *session, bool last,
	void (*visit)(const struct probe_site_news *news, void *data), void *data)
{
	static const struct timespec moment = {.tv_nsec = 2000000};
	bool suspect = false;
	struct probe_error *error;

	if (session->stopped && !session->opened) {
		for (size_t i = 0; i < session->watch.count; i++) {
			struct watched_site *site = &session->watch.sites[i];

			if (site->left)
				tell(session, site, PROBE_SITE_LEFT, visit, data);
			site->left = false;
		}
		return NULL;
	}
	if (!session->watch.count || !target_is_there(session->target))
		return NULL;
	error = look_at_memory(session) ?: look(session, false, visit, data);
	/*
	 * A thread that opens a library reaches the gate within this time. If no thread does, the
	 * site was restored.
	 */
	for (size_t i = 0; i < session->watch.count; i++)
		suspect |= session->watch.sites[i].state == WATCH_SUSPECT;
	if (!error && last && suspect) {
		nanosleep(&moment, NULL);
		error = look(session, true, visit, data);
	}
	/* An ended target, or a target in execve(2), is reported elsewhere. */
	if (error && !target_is_there(session->target)) {
		probe_error_free(error);
		return NULL;
	}
	return error;
}

/* ==== End ===================================================================================== */

/* Address space for libc and tables, to end a session when memory has run out. */
enum { RESERVE_BYTES = 8 << 20 };

struct probe_error *session_reserve(struct probe_session *s)
{
	void *reserve = mmap(NULL, RESERVE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (reserve == MAP_FAILED)
		return probe_error_no_memory();
	s->reserve = reserve;
	return NULL;
}

static void reserve_release(struct probe_session *s)
{
	if (s->reserve)
		munmap(s->reserve, RESERVE_BYTES);
	s->reserve = NULL;
}

/*
 * Once the last site is restored, releases hits that wait for room, because they do not belong to
 * the session any more. Before that, a hit must wait or be lost, because no record may follow a
 * gap.
 */
static void let_go(void *data)
{
	struct probe_session *s = data;

	((struct data_header *)s->data.rings.base)->guard = 0;
	gate_leave(&s->gates.room);
}

/*
 * Ends a session in the target, or in a child with a copy of its registry. With `again`, also ends
 * what a failed attempt has left.
 */
static struct probe_error *end_in(struct probe_session *s, struct probe_target *target, bool again)
{
	AUTO(change_end) struct change c;
	struct probe_error *error = change_begin(target, &c);
	struct reg_session *session;

	if (error)
		return error;
	session = registry_session(&c.registry, s->id);
	/* The process may run another program, or may have been repaired. */
	if (session && session->stamp == s->data.rings.layout.stamp) {
		if (s->gates.room.shared && target == s->target) {
			c.restored = let_go;
			c.restored_data = s;
		}
		registry_retire(&c.registry, session);
		error = uninstall_unreferenced(&c);
		if (!error && target == s->target)
			session_note_left(s, &c.registry);
	} else if (c.lost) {
		error = uninstall_unreferenced(&c);
	}
	if (!error && again)
		error = change_reread(&c);
	if (!error && again)
		error = install_heal(&c);
	c.lost = c.lost && !s->lost;
	s->lost |= c.lost;
	return probe_error_first(error, report_memory(&s->report, &c));
}

static struct probe_error *stop_in(struct probe_session *s, struct probe_target *target)
{
	struct probe_error *error = end_in(s, target, false);

	if (!error || (error->code != PROBE_ERROR_MEMORY && error->code != PROBE_ERROR_SYSTEM))
		return error;
	probe_error_free(error);
	reserve_release(s);
	return end_in(s, target, true);
}

static bool is_busy(const struct probe_error *error)
{
	return error && error->code == PROBE_ERROR_BUSY;
}

/*
 * Removes the probes from children forked during the session, which inherit patches. Returns an
 * error if a child is locked. Children that cannot be cleaned for other reasons are cleaned by the
 * next command, because the session's owner is dead by then.
 */
static struct probe_error *stop_in_children(struct probe_session *s, pid_t pid)
{
	AUTO_FREE pid_t *children = children_apart(pid);
	struct probe_error *busy = NULL;

	for (size_t i = 0; children && children[i]; i++) {
		struct probe_target *child;
		struct probe_error *error = probe_target_open(children[i], NULL, &child);

		if (!error) {
			probe_target_set_patience(child, s->target->patience);
			error = stop_in(s, child);
			probe_target_close(child);
		}
		if (is_busy(error))
			busy = probe_error_first(busy, error);
		else
			probe_error_free(error);
		busy = probe_error_first(busy, stop_in_children(s, children[i]));
	}
	return busy;
}

/* Stops a session. Fails at once if the target cannot be changed now; the caller may try again. */
static struct probe_error *stop_session(struct probe_session *session, bool is_last_try)
{
	struct probe_error *error, *busy, *lapse;

	if (session->stopped)
		return NULL;
	if (session->group.leader)
		return stop_session(session->group.leader, is_last_try);
	if (!is_last_try && probe_target_frozen(session->target))
		return patience_after(session->target, true, clock_monotonic_ns(),
			probe_error_new(
				PROBE_ERROR_BUSY, "process %d is frozen", session->target->pid));
	lapse = session_note_lapse(session);
	session_close_gates(session);
	error = stop_in(session, session->target);
	session_close_wait(session);
	/* From here on, forked children run no inherited stub. */
	if (session->data.rings.base)
		((struct data_header *)session->data.rings.base)->guard = 0;
	busy = stop_in_children(session, session->target->pid);
	if (error &&
		(error->code == PROBE_ERROR_NOT_FOUND || !probe_target_alive(session->target))) {
		probe_error_free(error);
		error = NULL;
	}
	if (!is_last_try && (is_busy(error) || (!error && busy))) {
		probe_error_free(lapse);
		return probe_error_first(error, busy);
	}
	probe_error_free(busy);
	session->stopped = !error;
	for (size_t m = 0; m < session->group.member_count && !error; m++) {
		session->group.members[m]->stopped = true;
		session_close_wait(session->group.members[m]);
		session_update_counts(session->group.members[m]);
	}
	lapse = probe_error_first(
		lapse, inherited_end(&session->goes_on, error ? session->target->pid : 0,
			       &session->report));
	session_update_counts(session);
	return probe_error_first(error, lapse);
}

struct probe_error *probe_session_stop(struct probe_session *session)
{
	struct probe_error *error;

	probe_sessions_stop(&session, 1, &error);
	return error;
}

/* ---- Several sessions ------------------------------------------------------------------------ */

enum {
	/* even with one CPU, because a thread often waits for a stop */
	WORKERS_MIN = 2,
	WORKERS_MAX = 8,
	SHARE = 4 /* a thread is worth starting for this many sessions */
};

/* Sessions for threads to stop. `next` is the first session that no thread has taken. */
struct stopping {
	struct probe_session *const *sessions;
	struct probe_error **errors;
	size_t count;
	atomic_size_t next;
};

/*
 * Stops the sessions of processes that no other thread has taken. A process's first session stands
 * for all of them. Leaves out processes that share the cache of files with others, share their
 * memory (and so the registry), or are held: one thread stops these.
 */
static void *stop_independent(void *data)
{
	struct stopping *all = data;
	size_t first;

	while ((first = atomic_fetch_add(&all->next, 1)) < all->count) {
		const struct probe_target *target = all->sessions[first]->target;
		bool takes = !target->files && !target->held && !target->shares_memory;

		for (size_t i = 0; i < all->count && takes; i++) {
			const struct probe_session *s = all->sessions[i];
			const struct probe_session *leader = s->group.leader ? s->group.leader : s;

			takes = s->target != target || (i >= first && !leader->options.watch);
		}
		for (size_t i = first; i < all->count && takes; i++)
			if (all->sessions[i]->target == target)
				all->errors[i] = stop_session(all->sessions[i], false);
	}
	return NULL;
}

/* Stops sessions again whose targets could not be changed. True if some still cannot. */
static bool stop_busy(struct stopping *all, bool is_last_try)
{
	bool any = false;

	for (size_t i = 0; i < all->count; i++) {
		if (!is_busy(all->errors[i]))
			continue;
		probe_error_free(all->errors[i]);
		all->errors[i] = stop_session(all->sessions[i], is_last_try);
		any |= is_busy(all->errors[i]);
	}
	return any;
}

/* Stops all sessions. Waits for locked, frozen or unstoppable processes last. */
void probe_sessions_stop(
	struct probe_session *const *sessions, size_t count, struct probe_error **errors)
{
	struct stopping all = {.sessions = sessions, .errors = errors, .count = count};
	struct probe_patience patience = {0};
	struct worker workers[WORKERS_MAX];
	size_t started = 0, wanted;
	bool any_busy = false;
	/* sched_getaffinity(2) would tell more, but a filter may forbid it. */
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	wanted = cpus < WORKERS_MIN ? WORKERS_MIN : cpus > WORKERS_MAX ? WORKERS_MAX : (size_t)cpus;
	if (count / SHARE < wanted)
		wanted = count / SHARE;
	for (size_t i = 0; i < count; i++) {
		errors[i] = NULL;
		probe_target_set_patience(sessions[i]->target, &patience);
	}
	/* This thread also works. */
	while (started + 1 < wanted && worker_start(&workers[started], stop_independent, &all) == 0)
		started++;
	if (started)
		stop_independent(&all);
	for (size_t i = 0; i < started; i++)
		worker_join(&workers[i]);
	/*
	 * Stop the sessions that only this thread may stop. Try failed ones again, unless the
	 * process is busy or a thread did not stop in time.
	 */
	for (size_t i = 0; i < count; i++) {
		if (!errors[i] || (!is_busy(errors[i]) && errors[i]->code != PROBE_ERROR_STATE)) {
			probe_error_free(errors[i]);
			errors[i] = stop_session(sessions[i], false);
		}
		any_busy |= is_busy(errors[i]);
	}
	while (any_busy && probe_patience_wait(&patience))
		any_busy = stop_busy(&all, false);
	if (any_busy)
		stop_busy(&all, true);
	for (size_t i = 0; i < count; i++)
		probe_target_set_patience(sessions[i]->target, NULL);
}

/* ---- Memory of a session --------------------------------------------------------------------- */

/* Separates a session that is freed from those that share its stubs. */
static void leave_group(struct probe_session *s)
{
	struct probe_session *leader = s->group.leader;

	for (size_t m = 0; m < s->group.member_count; m++)
		s->group.members[m]->group.leader = NULL;
	s->group.member_count = 0;
	probe_error_free(s->group.ended);
	for (size_t m = 0; leader && m < leader->group.member_count; m++) {
		if (leader->group.members[m] != s)
			continue;
		leader->group.members[m] = leader->group.members[--leader->group.member_count];
		if (leader->group.recorder == s)
			leader->group.recorder = leader;
		break;
	}
	s->group.leader = NULL;
}

void probe_session_free(struct probe_session *session)
{
	if (!session)
		return;
	leave_group(session);
	inherited_forget(&session->goes_on);
	session_close_gates(session);
	session_close_wait(session);
	probe_report_deinit(&session->report);
	rings_close(&session->data.rings);
	if (session->opened && session->data.view.base)
		munmap((void *)session->data.view.base, session->data.view.layout.data_size);
	if (session->data.view.served)
		served_end(session->data.view.served);
	cleanup_fd(&session->data.fd);
	for (size_t i = 0; i < session->site_count; i++)
		free(session->sites[i].bound);
	session_watch_deinit(&session->watch);
	asked_deinit(&session->asked);
	seccomp_deinit(&session->filters.known);
	session_names_deinit(&session->names);
	reserve_release(session);
	free(session->pairs.left);
	free(session->sites);
	free(session->known);
	free(session->probes);
	free(session->patterns);
	free(session->matched);
	free(session->remains.notes);
	if (session->remains.dead && session->data.view.file >= 0)
		close(session->data.view.file);
	free(session);
}
