/* SPDX-License-Identifier: MIT */
/*
 * Tells which memory is still ours. A program may map memory of its own over ours (MAP_FIXED), or
 * unmap ours; then we must neither unmap nor write it.
 *
 * Code and data are ours while a mapping has our name and the inode of our file. The guard must be
 * anonymous, because only such memory can be wiped on fork (MADV_WIPEONFORK): it is a mapping of
 * one page with our mark. In a forked child the page is zero, and the kernel's flag (VmFlags: wf)
 * is the proof.
 *
 * A session whose data, guard, stubs or tails are gone would write into the program's memory, or
 * jump there: it is retired, and ends like one of a dead controller.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/page.h"
#include "libprobe/base/procfs.h"
#include "libprobe/registry/registry.h"

enum { AT_ONCE = 8 /* extents unmapped in one stop */ };

/* ---- The guard -------------------------------------------------------------------------- */

static bool has_mark(pid_t pid, int mem, uint64_t page)
{
	struct guard_mark mark = {0};
	uint64_t at = page + GUARD_MARK_OFFSET;
	struct probe_error *error;

	if (mem < 0)
		return memory_read(pid, at, &mark, sizeof(mark)) == sizeof(mark) &&
		       mark.magic == GUARD_MAGIC && mark.page == page;
	/* Read the mark even if the program has made the page unreadable (mprotect(2)). */
	error = memory_read_code(mem, at, &mark, sizeof(mark));
	probe_error_free(error);
	return !error && mark.magic == GUARD_MAGIC && mark.page == page;
}

static bool is_one_page(const struct maps *maps, uint64_t page)
{
	const struct mapping *m = maps_find(maps, page);

	return m && m->start == page && m->end == page + page_bytes() && !m->inode &&
	       !m->is_shared && !m->executable;
}

static struct probe_error *is_guard(
	pid_t pid, int mem, const struct maps *maps, uint64_t page, bool *ret)
{
	*ret = is_one_page(maps, page) && has_mark(pid, mem, page);
	return *ret || !is_one_page(maps, page) ? NULL : maps_has_flag(pid, page, "wf", ret);
}

static struct probe_error *guard_works(
	pid_t pid, int mem, const struct maps *maps, uint64_t page, bool *ret)
{
	const struct mapping *m = maps_find(maps, page);
	struct probe_error *error = is_guard(pid, mem, maps, page, ret);

	*ret = !error && *ret && m->readable && m->writable;
	return error;
}

/* ---- Unmapping -------------------------------------------------------------------------- */

static struct probe_error *is_ours(const struct change *c, const struct maps *maps,
	const struct mapping *m, const struct own_extent *extent, bool *ret)
{
	struct probe_error *error;
	bool there = true;
	AUTO_FD int pagemap = -1;

	if (extent->inode != OWN_GUARD && extent->inode != OWN_NEW_GUARD) {
		*ret = shared_is_named(m) &&
		       (m->inode == extent->inode || extent->inode == OWN_NAMED);
		return NULL;
	}
	error = is_guard(c->pid, c->mem, maps, extent->start, ret);
	if (error || *ret || extent->inode == OWN_GUARD || !is_one_page(maps, extent->start))
		return error;
	/* A page that was never written may be a guard that a controller has just mapped. */
	pagemap = memory_open_pagemap(c->pid);
	if (pagemap < 0)
		return procfs_no_room(errno)
			       ? probe_error_system(errno, "/proc/%d/pagemap", (int)c->pid)
			       : NULL;
	memory_run(pagemap, extent->start, page_bytes(), &there);
	*ret = !there;
	return NULL;
}

/* Adjacent mappings that belong to an extent and to those that follow it. */
struct run {
	uint64_t start, end;
	struct own_extent *extent; /* the first of these extents */
};

static struct probe_error *unmap_run(struct change *c, const struct maps *maps, struct run *run)
{
	static const uint64_t sealed_home = DATA_SEALED_HOME;
	struct control_call call = {
		.number = SYS_munmap, .args = {run->start, run->end - run->start}};
	const struct mapping *m = maps_find(maps, run->start);
	struct probe_error *error = NULL;

	if (run->end && !run->extent->is_sealed)
		error = change_run(c, "unmap memory", &call, 1);

	/* mseal(2): "the memory cannot be unmapped, moved or shrunk". */
	if (error && call.result == -EPERM) {
		probe_error_free(error);
		error = NULL;
		run->extent->is_sealed = true;
		c->sealed_bytes += run->extent->size;
		/* Mark data as ownerless, for later controllers. */
		if (shared_is_data(m) && m->writable && m->offset == 0)
			probe_error_free(memory_write_data(c->pid,
				m->start + offsetof(struct data_header, home), &sealed_home,
				sizeof(sealed_home)));
	}
	/* If the home is unmapped, the stack frames of the next calls must be elsewhere. */
	if (!error && call.result == 0 && c->registry.home - run->start < call.args[1])
		c->registry.home = 0;
	run->end = 0;
	return error;
}

/*
 * Unmaps while all threads are stopped: home and guard in one call, because without the home
 * nothing proves that the guard is ours.
 */
static struct probe_error *unmap_stopped(
	struct change *c, struct own_extent *extents, size_t count, const struct maps *maps)
{
	struct probe_error *error = NULL;
	struct run run = {0};

	for (size_t i = 0; i < count && !error; i++) {
		struct own_extent *e = &extents[i];
		uint64_t end = e->start + e->size;
		const struct mapping *m = maps_find_from(maps, e->start);

		if (!e->follows && run.end)
			error = unmap_run(c, maps, &run);
		if (!e->follows)
			run.extent = e;
		for (; m && m < maps->items + maps->count && m->start < end && !error; m++) {
			uint64_t from = m->start > e->start ? m->start : e->start;
			bool ours;

			error = is_ours(c, maps, m, e, &ours);
			if (error || !ours)
				continue;
			if (run.end && run.end != from)
				error = unmap_run(c, maps, &run);
			run.start = run.end ? run.start : from;
			run.end = m->end < end ? m->end : end;
		}
	}
	return error ?: unmap_run(c, maps, &run);
}

static struct probe_error *unmap_some(struct change *c, struct own_extent *extents, size_t count)
{
	struct maps_part parts[AT_ONCE];
	bool was_stopped = c->stopped;
	AUTO(maps_deinit) struct maps maps = {0};
	struct probe_error *error;

	for (size_t i = 0; i < count; i++)
		parts[i] = (struct maps_part){extents[i].start, extents[i].size};
	/* Prepare everything that calls need before the stop. */
	error = change_run(c, "unmap memory", NULL, 0);
	if (!error && !was_stopped)
		error = change_stop(c);
	if (error)
		return error;
	error = maps_read_parts(c->pid, parts, count, &maps)
			?: unmap_stopped(c, extents, count, &maps);
	if (!was_stopped)
		change_resume(c);
	return error;
}

struct probe_error *own_unmap(struct change *change, struct own_extent *extents, size_t count)
{
	struct probe_error *error = NULL;

	while (count && !error) {
		size_t some = count < AT_ONCE ? count : AT_ONCE;

		/* An extent that follows another must be unmapped in the same stop. */
		if (some < count && extents[some].follows)
			some--;
		error = unmap_some(change, extents, some);
		extents += some;
		count -= some;
	}
	return error;
}

/* ---- Comparing -------------------------------------------------------------------------- */

/*
 * Returns true if arenas cover [start, start + size). They are sorted, and the parts of one arena
 * are not adjacent.
 */
static bool in_arenas(const struct registry *r, uint64_t start, uint64_t size)
{
	const struct reg_arena *arena = registry_arena(r, start);

	return arena ? size <= arena->start + arena->size - start : !size;
}

/* Adds the parts of an arena that are still ours. Returns false if memory is short. */
static bool add_parts(struct registry *to, const struct maps *maps, const struct reg_arena *arena)
{
	uint64_t end = arena->start + arena->size;
	const struct mapping *m = maps_find_from(maps, arena->start);
	struct reg_arena *last = NULL;

	for (; m && m < maps->items + maps->count && m->start < end; m++) {
		uint64_t from = m->start > arena->start ? m->start : arena->start;
		uint64_t to_end = m->end < end ? m->end : end;

		if (!shared_is_code(m) || m->inode != arena->inode)
			continue;
		if (last && last->start + last->size == from) {
			last->size = to_end - last->start;
			continue;
		}
		last = registry_add_arena(to);
		if (!last)
			return false;
		*last = *arena;
		last->start = from;
		last->size = to_end - from;
	}
	return true;
}

static struct probe_error *trim_arenas(struct registry *r, const struct maps *maps)
{
	struct registry trimmed = {0};
	bool ok = true;

	for (size_t i = 0; i < r->arena_count && ok; i++)
		ok = add_parts(&trimmed, maps, &r->arenas[i]);
	free(ok ? r->arenas : trimmed.arenas);
	if (!ok)
		return probe_error_no_memory();
	r->arenas = trimmed.arenas;
	r->arena_count = trimmed.arena_count;
	return NULL;
}

/* Returns true if mappings of one file, which are all what `is` says, cover [at, at + size). */
static bool has_whole(const struct maps *maps, uint64_t at, uint64_t size, uint64_t inode,
	bool (*is)(const struct mapping *m))
{
	const struct mapping *m = maps_find(maps, at);
	uint64_t end = at + size;

	for (; m && m < maps->items + maps->count && m->start <= at && at < end; m++) {
		if (!is(m) || m->inode != inode)
			return false;
		at = m->end;
	}
	return at >= end;
}

static bool is_usable_data(const struct mapping *m)
{
	return shared_is_data(m) && m->readable && m->writable;
}

bool own_has_data(const struct maps *maps, const struct reg_session *session)
{
	return has_whole(maps, session->data, session->data_size, session->inode, is_usable_data);
}

/*
 * Drops stubs and tails that are unmapped, because no thread can return to them. *any_ret is true
 * if some were dropped.
 */
static struct probe_error *drop_gone(struct registry *r, bool *any_ret)
{
	AUTO_FREE bool *gone = calloc(r->stub_count + 1, sizeof(*gone));
	bool any = false;

	if (!gone)
		return probe_error_no_memory();
	for (size_t i = 0; i < r->stub_count; i++) {
		gone[i] = !in_arenas(r, r->stubs[i].start, r->stubs[i].size);
		any = any || gone[i];
	}
	registry_drop_stub(r, gone);
	for (size_t i = 0; i < r->site_count; i++) {
		struct reg_site *site = &r->sites[i];

		if (site->tail_size && !in_arenas(r, site->tail, site->tail_size)) {
			site->tail_size = 0;
			any = true;
		}
		if (site->pun && !in_arenas(r, site->pun, site->pun_size)) {
			site->pun = site->pun_size = 0;
			any = true;
		}
	}
	*any_ret = any;
	return NULL;
}

/*
 * If memory of ours is missing, checks that the program itself has replaced or unmapped it. If not,
 * the process is ending, or the mappings are those of a new program (execve(2)). Errors:
 * PROBE_ERROR_NOT_FOUND.
 */
static struct probe_error *check_program(pid_t pid, int mem)
{
	if (procfs_status_number(pid, "VmSize:") < 0)
		return procfs_no_process(pid);
	return mem < 0 || memory_is_there(mem)
		       ? NULL
		       : probe_error_new(PROBE_ERROR_NOT_FOUND,
				 "process %d has become another program meanwhile, or has ended",
				 (int)pid);
}

/*
 * Like check_program(), for a process that had the home mapped. The home is still mapped unless
 * execve(2) has replaced the program. Even then, `mem` may be readable while somebody reads
 * /proc/PID/maps.
 */
static struct probe_error *check_home(pid_t pid, int mem, const struct registry *r)
{
	struct maps_part part = {r->home, 1};
	struct probe_error *error = check_program(pid, mem);
	const struct mapping *home;
	AUTO(maps_deinit) struct maps maps = {0};

	error = error ?: maps_read_parts(pid, &part, 1, &maps);
	if (error)
		return error;
	home = maps_find(&maps, r->home);
	return home && shared_is_code(home)
		       ? NULL
		       : probe_error_new(PROBE_ERROR_STATE,
				 "process %d has just changed its memory, or become another "
				 "program: try again",
				 (int)pid);
}

struct probe_error *own_check(
	pid_t pid, int mem, const struct maps *maps, struct registry *r, bool *lost_ret)
{
	uint64_t guard = registry_guard_page(r);
	bool works = true, all_lost = false, any_lost;
	struct probe_error *error = trim_arenas(r, maps);

	*lost_ret = false;
	if (!error && guard)
		error = guard_works(pid, mem, maps, guard, &works);
	error = error ?: drop_gone(r, &all_lost);
	if (error)
		return error;
	if (!works) {
		all_lost = true;
		r->guard = 0;
	}
	any_lost = all_lost;
	for (size_t i = 0; i < r->session_count; i++) {
		struct reg_session *session = &r->sessions[i];
		bool lost = all_lost || !own_has_data(maps, session);

		if (!r->guard)
			session->process = 0;
		if (lost)
			registry_retire(r, session);
		any_lost = any_lost || lost;
	}
	/* If there is no session, a controller died while unmapping: nothing is lost. */
	*lost_ret = any_lost && r->session_count;
	return *lost_ret ? check_home(pid, mem, r) : NULL;
}

static struct probe_error *has_all(
	pid_t pid, int mem, const struct maps *maps, const struct registry *r, bool *ret)
{
	uint64_t guard = registry_guard_page(r);
	struct probe_error *error = NULL;
	bool all = true;

	if (guard)
		error = guard_works(pid, mem, maps, guard, &all);
	for (size_t i = 0; i < r->arena_count && all; i++)
		all = has_whole(maps, r->arenas[i].start, r->arenas[i].size, r->arenas[i].inode,
			shared_is_code);
	for (size_t i = 0; i < r->session_count && all; i++)
		all = r->sessions[i].flags & REG_SESSION_RETIRED ||
		      own_has_data(maps, &r->sessions[i]);
	*ret = all;
	return error;
}

struct probe_error *own_holds(pid_t pid, int mem, const struct registry *r, bool *ret)
{
	AUTO_FREE struct maps_part *parts =
		calloc(r->arena_count + r->session_count + 1, sizeof(*parts));
	struct probe_error *error;
	AUTO(maps_deinit) struct maps maps = {0};
	size_t count = 0;

	if (!parts)
		return probe_error_no_memory();
	for (size_t i = 0; i < r->arena_count; i++)
		parts[count++] = (struct maps_part){r->arenas[i].start, r->arenas[i].size};
	for (size_t i = 0; i < r->session_count; i++)
		parts[count++] = (struct maps_part){r->sessions[i].data, r->sessions[i].data_size};
	if (r->guard)
		parts[count++] = (struct maps_part){registry_guard_page(r), page_bytes()};
	error = maps_read_parts(pid, parts, count, &maps) ?: has_all(pid, mem, &maps, r, ret);
	return error || *ret ? error : check_program(pid, mem);
}

uint64_t own_sealed(pid_t pid, const struct maps *maps, const struct registry *r)
{
	AUTO(served_end) struct served known = served_of(pid);
	uint64_t bytes = 0;

	for (size_t i = 0; i < r->arena_count; i++)
		bytes += r->arenas[i].sealed ? r->arenas[i].size : 0;
	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *m = &maps->items[i];
		struct data_header header;

		if (data_read_header(&known, m, &header) && header.home == DATA_SEALED_HOME)
			bytes += m->end - m->start;
	}
	return bytes;
}
