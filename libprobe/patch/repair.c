/* SPDX-License-Identifier: MIT */
/*
 * Removing what dead controllers left. Every change does so before it begins; here it is done
 * for its own sake, and reported. Sites of living sessions that something else has restored are
 * patched again; only here, because it may have been done on purpose.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/patch/patch.h"
#include "libprobe/registry/registry.h"
#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"
#include "libprobe/ptrace/ptrace.h"

static size_t count_retired(const struct registry *registry)
{
	size_t count = 0;

	for (size_t i = 0; i < registry->session_count; i++)
		count += (registry->sessions[i].flags & REG_SESSION_RETIRED) != 0;
	return count;
}

/* Retired sessions whose code stays because of an overwritten site. */
static size_t count_held(const struct registry *r)
{
	size_t count = 0;

	for (size_t i = 0; i < r->session_count; i++) {
		bool held = false;

		for (size_t k = 0; k < r->stub_count && !held; k++)
			held = r->stubs[k].pc && r->stubs[k].session == r->sessions[i].id;
		count += held && r->sessions[i].flags & REG_SESSION_RETIRED;
	}
	return count;
}

/* What is to end of a session: all of it, or some probes. */
static void count_session(
	const struct registry *r, const struct reg_session *session, struct probe_stale *ret)
{
	size_t wanted = 0, ending = 0;

	for (size_t i = 0; i < r->probe_count; i++) {
		if (r->probes[i].session != session->id)
			continue;
		wanted += r->probes[i].refcount > 0;
		ending += r->probes[i].refcount == 0;
	}
	if (registry_is_dead(session) || session->flags & REG_SESSION_RETIRED ||
		(session->flags & REG_SESSION_PERSISTENT && !wanted))
		ret->sessions++;
	else
		ret->probes += ending;
}

static void count_sessions(const struct registry *r, struct probe_stale *ret)
{
	for (size_t i = 0; i < r->session_count; i++)
		count_session(r, &r->sessions[i], ret);
}

/* Before sites whose library was opened again are forgotten: they are patched again as well. */
static struct probe_error *mend(struct change *c, struct probe_repair *ret)
{
	size_t count;
	struct probe_error *error;

	/* Not those of dead sessions. */
	uninstall_find_stale(c);
	error = mend_sites(c, &count);
	ret->mended += count;
	site_forget_closed(c);
	return error;
}

static struct probe_error *repair(struct change *c, struct probe_repair *ret)
{
	size_t patched, now, semaphores, low, left, frames;
	struct probe_error *error = change_remove_frames(c, &frames);
	struct probe_stale stale = {0};
	struct orphans orphans;

	ret->frames += frames;
	if (!error)
		error = mend(c, ret);
	patched = site_count_patched(c);
	if (!error)
		error = orphans_remove(c, &orphans);
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
	/* Those of the sessions, and of the others that were too low. */
	ret->semaphores += semaphores - c->registry.semaphore_count + low;
	now = site_count_patched(c);
	/* A breakpoint that has gone meanwhile shows one more. */
	ret->sites += patched > now ? patched - now : 0;
	left = count_retired(&c->registry);
	ret->sessions += stale.sessions - left;
	ret->probes += stale.probes;
	ret->waiting += left - count_held(&c->registry);
	return error;
}

/* Has a process anything of ours? Stops nothing. */
static bool is_touched(pid_t pid)
{
	static const struct registry none;
	struct maps maps = {0};
	struct probe_error *error = maps_read(pid, &maps);
	struct orphans orphans = {0};
	bool found = !error && shared_any(&maps);

	if (!error && !found)
		orphans_count(pid, &maps, &none, &orphans);
	probe_error_free(error);
	maps_deinit(&maps);
	return found || orphans.descriptors;
}

/*
 * Children were forked with the code and the registry that their parent had then. One in
 * its memory has the parent's own; it may be what changes the parent now (self/helper/start.h).
 */
static struct probe_error *repair_children(
	const struct probe_target *target, struct probe_repair *ret)
{
	pid_t *children = children_apart(target->pid);
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
		/* One that has ended or become another program meanwhile is in order. */
		if (error && !is_touched(children[i])) {
			probe_error_free(error);
			error = NULL;
		}
		error = probe_error_prefix(error, "child %d", (int)children[i]);
		/* A locked child does not stop the repair of the others. */
		if (error && error->code == PROBE_ERROR_BUSY) {
			busy = probe_error_first(busy, error);
			error = NULL;
		}
	}
	free(children);
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
	return error ? error : repair_children(target, ret);
}

/* ---- What there is to repair ---------------------------------------------------------- */

static struct probe_error *count_frames(
	struct probe_target *target, const struct maps *maps, size_t *ret)
{
	struct modules modules = {0};
	struct rooms rooms = {0};
	struct probe_error *error = modules_read_mapped(target->pid, maps, target->files, &modules);

	if (!error)
		error = rooms_find(target->pid, -1, maps, &modules, false, &rooms);
	*ret = rooms.left_count;
	modules_deinit(&modules);
	return error;
}

static struct probe_error *find_lost(struct probe_target *target, const struct maps *maps,
	struct registry *registry, bool *lost_ret)
{
	struct modules modules = {0};
	struct probe_error *error = NULL;

	if (registry->home)
		return own_check(target->pid, -1, maps, registry, lost_ret);
	if (!shared_any(maps))
		return NULL;
	error = modules_read_mapped(procfs_living(target->pid), maps, target->files, &modules);
	if (!error)
		error = lost_find(target->pid, maps, &modules, registry, lost_ret);
	modules_deinit(&modules);
	return error;
}

struct probe_error *probe_target_stale(struct probe_target *target, struct probe_stale *ret)
{
	bool busy = lock_is_taken(target->pid);
	struct registry registry = {0};
	struct orphans orphans = {0};
	struct maps maps = {0};
	struct probe_error *error = maps_read(target->pid, &maps);
	size_t frames = 0;
	bool lost = false;

	*ret = (struct probe_stale){0};
	if (!error)
		error = registry_load(target->pid, &maps, &registry);
	/* The registry may be newer than the mappings that led to it. */
	if (!error && registry.home) {
		maps_deinit(&maps);
		error = maps_read(target->pid, &maps);
	}
	if (!error)
		error = find_lost(target, &maps, &registry, &lost);
	if (!error) {
		count_sessions(&registry, ret);
		ret->sealed_bytes = own_sealed(target->pid, &maps, &registry);
		ret->semaphores = semaphores_short(&registry, target->pid);
		orphans_count(target->pid, &maps, &registry, &orphans);
		error = count_frames(target, &maps, &frames);
	}
	/* Neither before nor after was another controller at work on them. */
	if (!busy && !lock_is_taken(target->pid) && !registry_is_stale(&registry, target->pid)) {
		ret->mappings = orphans.mappings;
		ret->descriptors = orphans.descriptors;
		ret->frames = frames;
		ret->lost = lost;
	} else if (lost) {
		/* Another controller may have unmapped it: then no session has ended. */
		*ret = (struct probe_stale){0};
	}
	registry_deinit(&registry);
	maps_deinit(&maps);
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
