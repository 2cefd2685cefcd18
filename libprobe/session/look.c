/* SPDX-License-Identifier: MIT */
/*
 * Checks whether a session's sites are still patched. If something has restored or overwritten one,
 * its hits are no longer counted.
 *
 * The bytes of all sites are read at once, without stopping anything, and compared with those of
 * the last look; usually that is all. Only if they differ, two more things are read: the registry,
 * because another session may have put its stub before ours, and the files, because a library may
 * have been closed. While another session makes a change, nothing is concluded: neither if somebody
 * has the lock, nor if another registry was published since it was read.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"
#include "libprobe/session/session.h"
#include "libprobe/registry/registry.h"

enum watch_state {
	WATCH_GOOD,
	WATCH_SUSPECT, /* restored; or a library that was opened again is about to be probed */
	WATCH_BAD,     /* reported */
	WATCH_CLOSED   /* its library is not there */
};

struct watched_site {
	struct reg_site reg;
	enum watch_state state;
	enum probe_site_fault fault;
	bool readable;
	uint8_t bytes[sizeof(((struct reg_site *)0)->patched)]; /* at the last look */
	uint32_t suspect_at;	  /* how many had arrived at the gate of libraries */
	uint64_t good_ns, bad_ns; /* CLOCK_REALTIME: seen last in order, first not; 0: never */
	bool left;
};

void session_watch_deinit(struct session_watch *watch)
{
	free(watch->sites);
	edits_deinit(&watch->edits);
	registry_deinit(&watch->memory);
	*watch = (struct session_watch){0};
}

/* ---- What is watched -------------------------------------------------------------------- */

static bool has_stub(const struct registry *r, const struct reg_site *site, uint32_t session)
{
	size_t count;
	const struct reg_stub *stubs = registry_stubs(r, site->pc, &count);

	for (size_t i = 0; i < count; i++)
		if (stubs[i].session == session)
			return true;
	return false;
}

/* What is already known about a site. A site that was patched again has another tail. */
static const struct watched_site *find(
	const struct session_watch *watch, const struct reg_site *reg)
{
	for (size_t i = 0; i < watch->count; i++)
		if (watch->sites[i].reg.pc == reg->pc && watch->sites[i].reg.tail == reg->tail)
			return &watch->sites[i];
	return NULL;
}

static bool is_in(const struct reg_arena *arena, uint64_t address, uint64_t size)
{
	return size && address - arena->start < arena->size;
}

/* Does the session need an arena? Other arenas may vanish when other sessions end. */
static bool needs(const struct registry *r, const struct session_watch *watch,
	const struct reg_arena *arena, uint32_t session)
{
	for (size_t i = 0; i < r->stub_count; i++)
		if (r->stubs[i].session == session &&
			is_in(arena, r->stubs[i].start, r->stubs[i].size))
			return true;
	for (size_t i = 0; i < watch->count; i++)
		if (is_in(arena, watch->sites[i].reg.tail, watch->sites[i].reg.tail_size) ||
			is_in(arena, watch->sites[i].reg.pun, watch->sites[i].reg.pun_size))
			return true;
	return r->home - arena->start < arena->size;
}

static struct probe_error *watch_memory(
	struct session_watch *watch, const struct registry *r, uint32_t id)
{
	const struct reg_session *session = registry_session(r, id);
	struct reg_session *copy = session ? registry_add_session(&watch->memory) : NULL;

	if (!session)
		return NULL;
	if (!copy)
		return probe_error_no_memory();
	*copy = *session;
	watch->memory.guard = r->guard;
	for (size_t i = 0; i < r->arena_count; i++) {
		struct reg_arena *arena;

		if (!needs(r, watch, &r->arenas[i], id))
			continue;
		arena = registry_add_arena(&watch->memory);
		if (!arena)
			return probe_error_no_memory();
		*arena = r->arenas[i];
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
		const struct watched_site *known = find(&s->watch, reg);
		struct watched_site *site = &next.sites[next.count];

		if (!reg->pc || !has_stub(r, reg, s->id))
			continue;
		*site = known ? *known : (struct watched_site){.readable = true, .good_ns = now};
		site->reg = *reg;
		if (site->state == WATCH_GOOD)
			memcpy(site->bytes, reg->patched, reg->length);
		next.count++;
		if (!edits_add(&next.edits, reg->patch, reg->length))
			error = probe_error_no_memory();
	}
	if (!error)
		error = edits_prepare(&next.edits);
	if (!error)
		error = watch_memory(&next, r, s->id);
	if (error) {
		session_watch_deinit(&next);
		return error;
	}
	session_watch_deinit(&s->watch);
	s->watch = next;
	return NULL;
}

/* ---- Telling ---------------------------------------------------------------------------- */

/* Names are those of the probe that had the site last. */
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
		if (s->sites[i].pc == site->reg.pc)
			news.probe = s->sites[i].probe;
	if (news.probe < s->probe_count) {
		news.site.provider = s->probes[news.probe].provider;
		news.site.name = s->probes[news.probe].name;
		news.site.path = s->probes[news.probe].path;
	}
	visit(&news, data);
}

/* From now on the counts of its probes are incomplete. */
static void note_incomplete(struct probe_session *s, uint64_t pc)
{
	for (size_t i = 0; i < s->site_count; i++) {
		struct probe_coverage *coverage = &s->probes[s->sites[i].probe].coverage;

		if (s->sites[i].pc == pc &&
			coverage->overwritten < coverage->sites - coverage->refused)
			coverage->overwritten++;
	}
}

/* ---- Looking ---------------------------------------------------------------------------- */

/* What must be known of a target when a site's bytes have changed. */
struct evidence {
	struct maps maps;
	struct modules modules;
	struct registry registry;
};

static void evidence_deinit(struct evidence *evidence)
{
	registry_deinit(&evidence->registry);
	modules_deinit(&evidence->modules);
	maps_deinit(&evidence->maps);
}

static struct probe_error *evidence_read(struct probe_target *target, struct evidence *ret)
{
	struct probe_error *error = maps_read(target->pid, &ret->maps);

	if (!error)
		error = modules_read_mapped(
			procfs_living(target->pid), &ret->maps, target->files, &ret->modules);
	if (!error)
		error = registry_load(target->pid, &ret->maps, &ret->registry);
	return error;
}

static bool has_changed(const struct session_watch *watch, size_t i)
{
	const struct watched_site *site = &watch->sites[i];
	const uint8_t *found = edits_found(&watch->edits, i);

	/* A suspected site is checked again. */
	return site->state == WATCH_SUSPECT || (found != NULL) != site->readable ||
	       (found && memcmp(found, site->bytes, site->reg.length) != 0);
}

static bool any_changed(const struct session_watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		if (has_changed(watch, i))
			return true;
	return false;
}

static enum site_state look_at(
	const struct evidence *evidence, struct watched_site *site, const uint8_t *found)
{
	const struct reg_site *reg = registry_site(&evidence->registry, site->reg.pc);
	enum site_state state;

	/* Another controller's stub now comes before ours, or no longer does. */
	if (reg && reg->tail == site->reg.tail)
		site->reg = *reg;
	state = site_state(&evidence->registry, &site->reg, found);
	if (state != SITE_PATCHED && !site_is_in_file(&evidence->modules, &site->reg))
		return SITE_GONE;
	return state;
}

/* If libraries are followed, a library that was opened again is probed in a moment. */
static bool may_be_new(const struct probe_session *s, const struct watched_site *site, bool last)
{
	if (!s->options.follow_libraries || site->fault != PROBE_SITE_RESTORED)
		return false;
	if (gate_is_busy(&s->gate))
		return true;
	return !last &&
	       (site->state != WATCH_SUSPECT || site->suspect_at != gate_arrivals(&s->gate));
}

static void take(struct probe_session *s, struct watched_site *site, enum site_state state,
	bool last, void (*visit)(const struct probe_site_news *news, void *data), void *data)
{
	enum watch_state before = site->state;

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
	site->state = may_be_new(s, site, last) ? WATCH_SUSPECT : WATCH_BAD;
	site->suspect_at = gate_arrivals(&s->gate);
	if (site->state != WATCH_BAD)
		return;
	note_incomplete(s, site->reg.pc);
	tell(s, site, PROBE_SITE_BAD, visit, data);
}

static void take_all(struct probe_session *s, const struct evidence *evidence, bool last,
	void (*visit)(const struct probe_site_news *news, void *data), void *data)
{
	for (size_t i = 0; i < s->watch.count; i++) {
		struct watched_site *site = &s->watch.sites[i];
		const uint8_t *found = edits_found(&s->watch.edits, i);

		if (!has_changed(&s->watch, i))
			continue;
		site->readable = found != NULL;
		if (found)
			memcpy(site->bytes, found, site->reg.length);
		take(s, site, look_at(evidence, site, found), last, visit, data);
	}
}

static void note_good(struct session_watch *watch)
{
	uint64_t now = clock_now_ns();

	for (size_t i = 0; i < watch->count; i++)
		if (watch->sites[i].state == WATCH_GOOD)
			watch->sites[i].good_ns = now;
}

static struct probe_error *look(struct probe_session *s, bool last,
	void (*visit)(const struct probe_site_news *news, void *data), void *data)
{
	pid_t pid = s->target->pid;
	bool busy = lock_is_taken(pid);
	struct evidence evidence = {0};
	struct probe_error *error = edits_read(&s->watch.edits, pid);

	if (!error && any_changed(&s->watch)) {
		error = evidence_read(s->target, &evidence);
		/* It changes all the time: the next look tells more. */
		if (error && error->code == PROBE_ERROR_STATE) {
			probe_error_free(error);
			error = NULL;
			busy = true;
		}
		busy = busy || lock_is_taken(pid);
		/* Again, for a change may have been made between the two. */
		if (!error && !busy)
			error = edits_read(&s->watch.edits, pid);
		busy = busy || lock_is_taken(pid) || registry_is_stale(&evidence.registry, pid);
		/* The bytes are those of the program that has the session. */
		if (!error && !busy && target_is_there(s->target))
			take_all(s, &evidence, last, visit, data);
		else
			busy = true;
	}
	if (!error && !busy && target_is_there(s->target))
		note_good(&s->watch);
	evidence_deinit(&evidence);
	return error;
}

/*
 * Memory of the session is missing. That is no loss if the registry no longer lists it: once a
 * library is closed, any session unmaps the pages to which its sites jumped. So the session now
 * watches what the registry lists. *holds_ret stays false if some of that is missing, too, or the
 * session has ended; it is true if another controller changes the registry meanwhile: the next look
 * tells more.
 */
static struct probe_error *look_at_registry(struct probe_session *s, bool *holds_ret)
{
	pid_t pid = s->target->pid;
	const struct reg_session *session;
	struct registry registry = {0};
	struct maps maps = {0};
	struct probe_error *error = maps_read(pid, &maps);

	if (!error)
		error = registry_load(pid, &maps, &registry);
	session = error ? NULL : registry_session(&registry, s->id);
	if (session && session->stamp == s->rings.layout.stamp &&
		!(session->flags & REG_SESSION_RETIRED)) {
		error = session_watch(s, &registry);
		if (!error)
			error = own_holds(pid, s->target->mem, &s->watch.memory, holds_ret);
	}
	if (lock_is_taken(pid) || registry_is_stale(&registry, pid) ||
		(error && error->code == PROBE_ERROR_STATE)) {
		probe_error_free(error);
		error = NULL;
		*holds_ret = true;
	}
	registry_deinit(&registry);
	maps_deinit(&maps);
	return error;
}

/*
 * Ends the session if the program has taken memory that its stubs need: sites would jump to memory
 * of the program, or stubs would write there.
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
	error = probe_session_stop(s);
	return error ? error : probe_error_new(PROBE_ERROR_STATE, REPORT_LOST, pid);
}

/* ---- What was left ---------------------------------------------------------------------- */

void session_note_left(struct probe_session *s, const struct registry *r)
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
	/* If the process has ended, no site is left in it. */
	probe_error_free(error);
}

static void tell_left(struct probe_session *s,
	void (*visit)(const struct probe_site_news *news, void *data), void *data)
{
	for (size_t i = 0; i < s->watch.count; i++) {
		struct watched_site *site = &s->watch.sites[i];

		if (site->left)
			tell(s, site, PROBE_SITE_LEFT, visit, data);
		site->left = false;
	}
}

static bool any_suspect(const struct session_watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		if (watch->sites[i].state == WATCH_SUSPECT)
			return true;
	return false;
}

struct probe_error *probe_session_look(struct probe_session *session, bool last,
	void (*visit)(const struct probe_site_news *news, void *data), void *data)
{
	static const struct timespec moment = {.tv_nsec = 2000000};
	struct probe_error *error;

	if (session->stopped && !session->opened) {
		tell_left(session, visit, data);
		return NULL;
	}
	if (!session->watch.count || !target_is_there(session->target))
		return NULL;
	error = look_at_memory(session);
	if (!error)
		error = look(session, false, visit, data);
	/*
	 * A library that is just being opened will come to the gate: its sites were not restored.
	 */
	if (!error && last && any_suspect(&session->watch)) {
		nanosleep(&moment, NULL);
		error = look(session, true, visit, data);
	}
	/* A target that has ended, or is in execve(2), is reported elsewhere. */
	if (error && !target_is_there(session->target)) {
		probe_error_free(error);
		return NULL;
	}
	return error;
}
