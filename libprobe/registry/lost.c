/* SPDX-License-Identifier: MIT */
/*
 * Finds our sites when the program has mapped memory over our registry, or has unmapped it. Nothing
 * then lists the sites that still jump to our code, or to the addresses where it was. They are
 * found by comparing text with the modules' files. Where a page of text is the process's own copy,
 * it differs from the file only in bytes that somebody has written. Such bytes are restored only if
 * they are proved to be ours:
 *
 *   jump         leads into our code memory, or to where our data says that it was (struct
 *                data_header, struct data_arenas)
 *   short jump   leads to such a jump (the plan hop)
 *
 * A thread may run in memory of ours that remains. So this memory becomes the leftovers of retired
 * sessions, and is freed with them (libprobe/patch/uninstall.c).
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/page.h"
#include "libprobe/base/procfs.h"
#include "libprobe/registry/registry.h"

enum { AROUND = 8 /* bytes of a jump that may lie in the next page */, SHORT_BYTES = 2 };

/* A short jump to an address where we may have put a full jump. */
struct short_jump {
	uint64_t at, to;
	uint8_t memory[SHORT_BYTES], file[SHORT_BYTES];
};

struct scan {
	const struct arch *arch;
	pid_t pid;
	struct served known; /* knowledge of the process's pages */
	int pagemap;
	struct code_taken code; /* where our code is or was */
	struct registry *found;
	struct short_jump *shorts;
	size_t short_count;
	bool failed; /* memory was short */
};

struct piece {
	uint64_t start;
	size_t size;
	uint8_t *memory, *file;
};

/* ---- Where our code is or was ----------------------------------------------------------- */

static bool is_code(const struct scan *s, uint64_t address)
{
	for (size_t i = 0; i < s->code.count; i++)
		if (address - s->code.items[i].start < s->code.items[i].size)
			return true;
	return false;
}

static void add_code(struct scan *s, uint64_t start, uint64_t size)
{
	if (start && size && start <= UINT64_MAX - size)
		s->failed |= !code_keep(&s->code, (struct code_extent){start, size});
}

/* Adds the code that is listed in our data, which may be inherited by fork(2). */
static void add_noted(struct scan *s, const struct mapping *m)
{
	struct data_arenas arenas;
	struct data_header header;

	if (!data_read_header(&s->known, m, &header) || header.home == DATA_SEALED_HOME)
		return;
	add_code(s, header.home, header.home ? ARENA_BYTES : 0);
	if (memory_read_known(&s->known, m->start + DATA_ARENAS_OFFSET, &arenas, sizeof(arenas)) !=
		sizeof(arenas))
		return;
	for (size_t i = 0; i < arenas.count && i < DATA_ARENAS_MAX; i++)
		add_code(s, arenas.items[i].start, arenas.items[i].size);
}

static void find_code(struct scan *s, const struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *m = &maps->items[i];

		if (shared_is_data(m) && m->offset == 0)
			add_noted(s, m);
		else if (shared_is_named(m) && !m->is_shared)
			add_code(s, m->start, m->end - m->start);
	}
}

/* ---- Sites ------------------------------------------------------------------------------ */

static void add_site(struct scan *s, const struct piece *p, size_t at, size_t length)
{
	struct reg_site site = {.pc = p->start + at,
		.patch = p->start + at,
		.entry = p->start + at,
		.tail = p->start + at,
		.length = (uint8_t)length,
		.covers = (uint8_t)length};

	memcpy(site.original, p->file + at, length);
	memcpy(site.patched, p->memory + at, length);
	s->failed |= !ARRAY_ADD(s->found->sites, s->found->site_count, site);
}

/*
 * Returns the length of our jump at `at`, or 0. The second jump of the plan twin begins one byte
 * into the first.
 */
static size_t jump_length(const struct scan *s, const struct piece *p, size_t at)
{
	const struct arch *arch = s->arch;
	size_t length = arch->jump_length;
	uint8_t bytes[ARCH_JUMP_MAX + 1] = {0};
	size_t left = p->size - at;

	if (left < length)
		return 0;
	memcpy(bytes, p->memory + at, left < sizeof(bytes) ? left : sizeof(bytes));
	if (!is_code(s, arch->jump_target(p->start + at, bytes)))
		return 0;
	if (arch->twin_length && left >= arch->twin_length &&
		is_code(s, arch->jump_target(p->start + at + 1, bytes + 1)))
		return arch->twin_length;
	return length;
}

/* Notes a short jump that may be ours, for add_shorts(). */
static void take_short(struct scan *s, const struct piece *p, size_t at)
{
	const struct arch *arch = s->arch;
	struct short_jump jump = {.at = p->start + at};

	if (arch->short_jump_length != SHORT_BYTES || p->size - at < SHORT_BYTES ||
		!arch->short_branch(p->memory + at, jump.at, &jump.to))
		return;
	memcpy(jump.memory, p->memory + at, SHORT_BYTES);
	memcpy(jump.file, p->file + at, SHORT_BYTES);
	s->failed |= !ARRAY_ADD(s->shorts, s->short_count, jump);
}

/* Handles a byte that differs from the file. Returns where the comparison continues. */
static size_t take_difference(struct scan *s, const struct piece *p, size_t from, size_t at)
{
	size_t first = at >= from + s->arch->jump_length ? at - s->arch->jump_length + 1 : from;

	for (size_t i = first; i <= at; i++) {
		size_t length = jump_length(s, p, i);

		if (length && i + length > at) {
			add_site(s, p, i, length);
			return i + length;
		}
	}
	take_short(s, p, at);
	return at + 1;
}

/* ---- Modules ---------------------------------------------------------------------------- */

/* Compares copied pages, and the first bytes behind them, because the last jump may end there. */
static void compare_run(struct scan *s, const struct module *module, uint64_t start, uint64_t end)
{
	AUTO_FREE uint8_t *memory = malloc(end - start), *file = malloc(end - start);
	struct piece p = {start, end - start, memory, file};
	size_t size;

	if (!memory || !file) {
		s->failed = true;
		return;
	}
	p.size = object_read(module->object, start - module->bias, file, p.size);
	size = memory_read(s->pid, start, memory, p.size);
	p.size = size < p.size ? size : p.size;
	for (size_t at = 0, from = 0; at < p.size;) {
		if (memory[at] == file[at])
			at++;
		else
			from = at = take_difference(s, &p, from, at);
	}
}

static void compare_text(struct scan *s, const struct module *module, const struct mapping *m)
{
	uint64_t at = m->start;

	for (uint64_t page = m->start; page <= m->end; page += page_bytes()) {
		uint64_t after = page + AROUND < m->end ? page + AROUND : m->end;

		if (page < m->end && memory_is_own_copy(s->pagemap, page, true))
			continue;
		if (at < page)
			compare_run(s, module, at, after);
		at = page + page_bytes();
	}
}

/*
 * Adds the short jumps that lead to our jumps, now that all are found. Such a jump is the hop of
 * the site with the short jump, and the jump right before it may have made room for it: both stay
 * until no thread can be at the hop.
 */
static void add_shorts(struct scan *s)
{
	size_t count = s->found->site_count;
	AUTO_FREE bool *hops = calloc(count + s->short_count + 1, sizeof(*hops));

	s->failed |= !hops;
	for (size_t i = 0; i < s->short_count && !s->failed; i++) {
		struct short_jump *jump = &s->shorts[i];
		struct piece p = {jump->at, SHORT_BYTES, jump->memory, jump->file};
		struct reg_site *sites, *added;
		size_t hop = 0;

		while (hop < count && s->found->sites[hop].patch != jump->to)
			hop++;
		if (hop == count)
			continue;
		add_site(s, &p, 0, SHORT_BYTES);
		if (s->failed)
			return;
		hops[hop] = true;
		sites = s->found->sites;
		added = &sites[s->found->site_count - 1];
		added->hop = jump->to;
		memcpy(added->hop_original, sites[hop].original, sizeof(added->hop_original));
		memcpy(added->hop_patched, sites[hop].patched, sizeof(added->hop_patched));
		for (size_t k = 0; k < count; k++)
			if (sites[k].patch + sites[k].length == jump->to)
				sites[k].covers = (uint8_t)(2 * sites[k].length);
	}
	if (hops)
		registry_drop_site(s->found, hops);
}

static void compare_all(struct scan *s, const struct maps *maps, const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->items[i];

		for (size_t k = 0; module->object && k < maps->count; k++)
			if (maps->items[k].executable &&
				module_has_mapping(module, &maps->items[k]))
				compare_text(s, module, &maps->items[k]);
	}
	add_shorts(s);
}

/* ---- Remaining memory -------------------------------------------------------------------- */

/*
 * Makes data of ours a retired session's. The layout of the session is not used, but must be
 * consistent.
 */
static void add_session(struct scan *s, const struct mapping *m)
{
	if (m->end - m->start > page_bytes())
		s->failed |= !ARRAY_ADD(s->found->sessions, s->found->session_count,
			(struct reg_session){.id = s->found->next_session++,
				.flags = REG_SESSION_RETIRED,
				.cpus = 1,
				.data = m->start,
				.data_size = m->end - m->start,
				.inode = m->inode,
				.slots = m->start + page_bytes()});
}

/*
 * Returns true if this data belongs to this process. A probectl that is itself traced has the data
 * of its own targets mapped, too.
 */
static bool is_its_data(struct scan *s, const struct mapping *m)
{
	struct data_header header;

	return data_read_header(&s->known, m, &header) && header.home &&
	       header.home != DATA_SEALED_HOME && header.maker &&
	       header.maker == lasting_maker(s->pid);
}

static void add_remains(struct scan *s, const struct maps *maps)
{
	for (size_t i = 0; i < maps->count && !s->failed; i++) {
		const struct mapping *m = &maps->items[i];
		uint64_t size = m->end - m->start;

		if (is_its_data(s, m))
			add_session(s, m);
		else if (shared_is_code(m))
			/* A thread may be in our code: make it a leftover. */
			s->failed = !ARRAY_ADD(s->found->arenas, s->found->arena_count,
					    (struct reg_arena){m->start, size, m->inode, 0}) ||
				    !ARRAY_ADD(s->found->stubs, s->found->stub_count,
					    (struct reg_stub){
						    .start = m->start, .size = (uint32_t)size});
	}
}

struct probe_error *lost_find(pid_t pid, const struct maps *maps, const struct modules *modules,
	struct registry *ret, bool *lost_ret)
{
	struct registry found = {.next_session = 1};
	struct scan s = {.arch = arch_host(), .pid = pid, .pagemap = -1, .found = &found};

	*lost_ret = false;
	if (ret->home || !shared_any(maps))
		return NULL;
	s.pagemap = memory_open_pagemap(pid);
	s.known = served_of(pid);
	find_code(&s, maps);
	if (s.code.count)
		compare_all(&s, maps, modules);
	*lost_ret = found.site_count;
	for (size_t i = 0; i < maps->count && !*lost_ret; i++)
		*lost_ret = is_its_data(&s, &maps->items[i]);
	if (*lost_ret)
		add_remains(&s, maps);
	registry_sort(&found);
	served_end(&s.known);
	cleanup_fd(&s.pagemap);
	free(s.code.items);
	free(s.shorts);
	if (s.failed || !*lost_ret) {
		registry_deinit(&found);
		return s.failed ? probe_error_no_memory() : NULL;
	}
	registry_deinit(ret);
	*ret = found;
	return NULL;
}

/* ==== Orphans ================================================================================= */

/*
 * A controller makes the target create a file in memory, map it, and close it; then the registry
 * lists the mapping. A controller that is killed in between leaves an unlisted mapping or an open
 * descriptor. Both have our name, so nothing of the program's own is mistaken for an orphan:
 *
 *   code         private and executable, in no arena of the registry
 *   data         not executable; its header is empty or leads to this process's home, and
 *                no session of the registry has it
 *   descriptor   of code or data: the target itself never keeps one
 *   home         with a registry that has no session left
 *
 * A probectl that is itself traced has the data of its targets mapped and open, too. That data
 * leads to the home of another process.
 */

/*
 * The program may map thousands of such files, few of which are ours, so limit the time that other
 * controllers wait.
 */
enum { AT_ONCE = 64, MAPPINGS_AT_ONCE = 512 };

/* ---- Mappings --------------------------------------------------------------------------- */

static bool leads_here(const struct data_header *header, const struct registry *r)
{
	return header->magic == 0 || (header->magic == DATA_MAGIC && header->home == r->home);
}

/* Did this process make a lasting file? A probectl maps those of other processes. */
static bool is_made_by(const struct data_header *header, pid_t pid)
{
	return header->magic == DATA_MAGIC && header->maker && header->maker == lasting_maker(pid);
}

static bool is_orphan(struct served *known, const struct mapping *m, const struct registry *r)
{
	struct data_header header;

	if (shared_is_code(m))
		return !registry_arena(r, m->start);
	if (!shared_is_data(m) || m->offset != 0 || registry_has_data(r, m->start))
		return false;
	/* If the header is unreadable, the controller died between mmap() and ftruncate(). */
	if (memory_read_known(known, m->start, &header, sizeof(header)) != sizeof(header))
		return !shared_is_lasting(m);
	/* The program has protected this code (mprotect(2)), so no thread can run there. */
	if (!m->is_shared && header.magic != DATA_MAGIC)
		return true;
	return shared_is_lasting(m) ? is_made_by(&header, known->pid) : leads_here(&header, r);
}

struct probe_error *orphans_unmap(struct change *change, size_t *count_ret)
{
	AUTO_FREE struct own_extent *extents = calloc(2 * change->maps.count + 1, sizeof(*extents));
	AUTO(served_end) struct served known = served_of(change->pid);
	AUTO(lasting_deinit) struct lasting_names files = {0};
	struct probe_error *error = extents ? NULL : probe_error_no_memory();
	size_t count = 0;

	*count_ret = 0;
	for (size_t i = 0; i < change->maps.count && *count_ret < MAPPINGS_AT_ONCE && !error; i++) {
		const struct mapping *m = &change->maps.items[i];

		if (!is_orphan(&known, m, &change->registry))
			continue;
		++*count_ret;
		if (!lasting_note(&files, &change->maps, m->start))
			error = probe_error_no_memory();
		extents[count++] =
			(struct own_extent){m->start, m->end - m->start, m->inode, false, false};
		/* The last page of an arena should be the guard, a separate mapping after it. */
		if (shared_is_code(m) &&
			(m->end - m->start) % ARENA_BYTES == ARENA_BYTES - page_bytes())
			extents[count++] = (struct own_extent){
				m->end, page_bytes(), OWN_NEW_GUARD, true, false};
	}
	error = error ?: own_unmap(change, extents, count);
	for (size_t i = 0; i < count && !error; i++)
		*count_ret -= extents[i].is_sealed;
	if (!error)
		lasting_remove(&files, change->pid);
	return error;
}

/* ---- Descriptors ------------------------------------------------------------------------ */

static bool is_orphan_descriptor(pid_t pid, const char *name, const struct registry *r)
{
	static const char ours[] = "/memfd:" SHARED_NAME " (deleted)";
	struct data_header header = {0};
	struct procfs_path path = procfs_path("/proc/%d/fd/%.16s", pid, name);
	char link[PATH_MAX];
	ssize_t length = readlink(path.text, link, sizeof(link) - 1);
	bool lasting;
	AUTO_FD int fd = -1;

	link[length < 0 ? 0 : length] = '\0';
	lasting = shared_is_lasting_name(link);
	if (!lasting && strcmp(link, ours) != 0)
		return false;
	fd = open(path.text, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = pread(fd, &header, sizeof(header), 0);
	/* A file that was just created is empty. */
	if (lasting)
		return length == 0 || (length > 0 && is_made_by(&header, pid));
	return length >= 0 && leads_here(&header, r);
}

/* Finds orphaned descriptors, at most AT_ONCE. Returns their number. */
static size_t find_descriptors(pid_t pid, const struct registry *r, int64_t *fds)
{
	AUTO_DIR DIR *dir = opendir(procfs_path("/proc/%d/fd", pid).text);
	struct dirent *entry;
	size_t count = 0;

	while (dir && count < AT_ONCE && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && is_orphan_descriptor(pid, entry->d_name, r))
			fds[count++] = atoll(entry->d_name);
	return count;
}

/*
 * Finds the thread whose descriptors are in /proc/PID/fd; other threads may have their own
 * (unshare(2)). Returns false while that thread cannot make calls.
 */
static bool find_owner(struct change *change, size_t *ret)
{
	for (size_t i = 0; i < change->control.count; i++) {
		if (change->control.threads[i].tid != change->pid)
			continue;
		*ret = i;
		change->seccomp.wanted = SECCOMP_UNMAP;
		return control_can_run(&change->control, &change->control.threads[i]);
	}
	return false;
}

/* Stops all threads, so that no thread closes an orphan and reuses its number. */
static struct probe_error *close_orphans(struct change *change, size_t *count_ret)
{
	struct control_call calls[AT_ONCE];
	struct probe_error *error = NULL;
	int64_t fds[AT_ONCE];
	size_t owner, count = find_descriptors(change->pid, &change->registry, fds);

	if (!count)
		return NULL;
	error = change_judge(change) ?: change_stop(change);
	if (error)
		return error;
	count = find_descriptors(change->pid, &change->registry, fds);
	for (size_t i = 0; i < count; i++)
		calls[i] = (struct control_call){.number = SYS_close, .args = {(uint64_t)fds[i]}};
	if (!find_owner(change, &owner))
		count = 0;
	for (size_t i = 0; i < count; i++)
		lasting_remove_open(change->pid, change->pid, fds[i]);
	if (count)
		error = change_run_in(change, owner, "close a file", calls, count);
	change_resume(change);
	*count_ret += error ? 0 : count;
	return error;
}

/* ---- All orphans ------------------------------------------------------------------------ */

/* Returns true if nothing of ours remains, except memory that the program has sealed. */
static bool registry_is_sealed(const struct registry *registry)
{
	bool sealed = false;

	for (size_t i = 0; i < registry->arena_count; i++)
		sealed = sealed || registry->arenas[i].sealed;
	return sealed && !registry->session_count;
}

void orphans_count(
	pid_t pid, const struct maps *maps, const struct registry *registry, struct orphans *ret)
{
	pid_t living = procfs_living(pid);
	AUTO(served_end) struct served known = served_of(pid);
	int64_t fds[AT_ONCE];

	*ret = (struct orphans){.descriptors = find_descriptors(living, registry, fds)};
	for (size_t i = 0; i < maps->count; i++)
		ret->mappings += is_orphan(&known, &maps->items[i], registry);
	if (!registry->session_count && !registry_is_sealed(registry))
		ret->mappings += registry->arena_count;
}

struct probe_error *orphans_remove(struct change *change, struct orphans *ret)
{
	size_t arenas = change->registry.arena_count;
	struct probe_error *error;

	*ret = (struct orphans){0};
	error = orphans_unmap(change, &ret->mappings) ?: close_orphans(change, &ret->descriptors);
	if (error || !change->registry.home || change->registry.session_count ||
		registry_is_sealed(&change->registry))
		return error;
	ret->mappings += arenas;
	return change_collect(change);
}
