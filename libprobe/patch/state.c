/* SPDX-License-Identifier: MIT */
/*
 * The state of a process's probes, as a list shows it.
 *
 * A probe with a semaphore is enabled while that is above 0, whichever tool raised it. The
 * semaphores of a module lie together in its section .probes, so they are read as one range if
 * that is small, with process_vm_readv(2): the process is not stopped, and aligned 16-bit words
 * cannot be seen half written.
 *
 * What controllers have enabled is in the registry that they keep in the process. For a probe
 * without a semaphore it is the only source.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"

enum {
	SEMAPHORE_BYTES = 2,
	/* 8,192 semaphores; libjvm, the largest known, has some 500. */
	RANGE_BYTES_MAX = 16 * 1024
};

/* The run-time addresses [start, end) of a module's semaphores; start is 0 if none. */
struct range {
	uint64_t start, end;
};

static uint64_t semaphore_address(const struct probe_site *site)
{
	return site->bias + site->semaphore + semaphore_offset(site->provider);
}

static bool has_semaphore(const struct list_file *file, const struct probe_site *site)
{
	uint64_t address = semaphore_address(site);

	/* From the note, so untrusted: it must lie in the module. */
	return site->semaphore != 0 && address >= file->start && address < file->end &&
	       file->end - address >= SEMAPHORE_BYTES;
}

/* Reads memory of a process; false if any of it cannot be read (errno says why). */
static bool read_memory(struct served *known, uint64_t address, void *buffer, size_t length)
{
	size_t got = memory_read_known(known, address, buffer, length);

	if (got && got < length)
		errno = EFAULT;
	return got == length;
}

static void set_refcount(struct probe_site *site, uint32_t value)
{
	site->refcount = value;
	site->enabled = value > 0;
}

/* Reads all semaphores of a module with one system call; false if each needs its own. */
static bool read_range(
	struct probe_list *list, struct served *known, size_t first, size_t end, struct range range)
{
	const struct list_file *file = &list->files[list->more[first].file];
	char bytes[RANGE_BYTES_MAX];

	if (range.end - range.start > sizeof(bytes) ||
		!read_memory(known, range.start, bytes, range.end - range.start))
		return false;
	for (size_t i = first; i < end; i++) {
		struct probe_site *site = &list->sites[i];
		uint16_t value;

		if (!has_semaphore(file, site))
			continue;
		memcpy(&value, bytes + (semaphore_address(site) - range.start), sizeof(value));
		set_refcount(site, value);
	}
	return true;
}

static struct range semaphore_range(const struct probe_list *list, size_t first, size_t end)
{
	const struct list_file *file = &list->files[list->more[first].file];
	struct range range = {0};

	for (size_t i = first; i < end; i++) {
		const struct probe_site *site = &list->sites[i];
		uint64_t address = semaphore_address(site);

		if (!has_semaphore(file, site))
			continue;
		if (range.start == 0 || address < range.start)
			range.start = address;
		if (address + SEMAPHORE_BYTES > range.end)
			range.end = address + SEMAPHORE_BYTES;
	}
	return range;
}

/* The sites [first, end) belong to one module. */
static void read_semaphores(struct probe_list *list, struct served *known, size_t first, size_t end)
{
	const struct list_file *file = &list->files[list->more[first].file];
	struct range range = semaphore_range(list, first, end);
	bool done = range.start == 0 || read_range(list, known, first, end, range);

	for (size_t i = first; i < end; i++) {
		struct probe_site *site = &list->sites[i];
		uint16_t value;

		site->state_known = true;
		if (done || !has_semaphore(file, site))
			continue;
		if (read_memory(known, semaphore_address(site), &value, sizeof(value)))
			set_refcount(site, value);
		else
			site->state_known = false;
	}
}

/* ---- The registry ----------------------------------------------------------------- */

/*
 * What was read at one of OCaml's sites is its handler's users; `count` sessions trace it. A
 * handler that is wanted but not called by its site is not on; one that is called and not wanted is
 * inconsistent, too, as probe_target_status() has it. A jump of ours replaces the call.
 */
static void add_handlers(
	struct probe_site *site, struct served *known, uint32_t count, bool has_jump)
{
	const struct arch_toggle *toggle = arch_host()->toggle;
	bool wanted = site->refcount > 0;
	uint8_t byte;

	if (count)
		set_refcount(site, site->refcount + count);
	if (has_jump || !site->pc || !toggle ||
		!read_memory(known, site->pc + site->bias + toggle->offset, &byte, sizeof(byte)))
		return;
	if (wanted != (byte == toggle->on)) {
		site->inconsistent = true;
		site->enabled = false;
	} else if (wanted) {
		site->plan = plan_toggle.id;
	}
}

/* The sites [first, end) belong to one module. */
static void add_references(struct probe_list *list, struct served *known,
	const struct registry *registry, const enum site_state *states, size_t first, size_t end)
{
	const struct list_file *file = &list->files[list->more[first].file];

	for (size_t i = first; i < end; i++) {
		struct probe_site *site = &list->sites[i];
		bool is_ocaml = plan_is_ocaml(site->provider);
		const struct reg_site *patched =
			site->pc ? registry_site(registry, site->pc + site->bias) : NULL;
		uint64_t key;
		uint32_t count;

		if (patched && site_is_bare(registry, patched))
			patched = NULL;
		if (!registry->home && !is_ocaml)
			continue;
		key = select_key(&file->notes, site->bias, site->provider, site->name);
		count = registry_refcount(registry, key, false);
		if (is_ocaml)
			add_handlers(site, known, count, patched && patched->count);
		else if (count > site->refcount)
			set_refcount(site, count);
		if (patched)
			site->plan = patched->plan;
		if (patched && states && states[patched - registry->sites] != SITE_PATCHED &&
			site_is_wanted(registry, patched)) {
			site->inconsistent = true;
			site->enabled = false;
		}
	}
}

/* Without a readable registry, the state of probes without a semaphore is unknown. */
static struct probe_error *read_registry(
	struct probe_list *list, int pid, size_t first, struct registry *ret)
{
	struct maps maps = {0};
	struct probe_error *error = maps_read(pid, &maps);

	if (!error)
		error = registry_load(pid, &maps, ret);
	maps_deinit(&maps);
	if (!error || (error->code != PROBE_ERROR_FORMAT && error->code != PROBE_ERROR_PERMISSION))
		return error;
	probe_error_free(error);
	for (size_t i = first; i < list->site_count; i++)
		if (list->sites[i].semaphore == 0)
			list->sites[i].state_known = false;
	return NULL;
}

/* The end of the sites of a module; `start` is one of them. */
static size_t module_end(const struct probe_list *list, size_t start)
{
	size_t end = start + 1;

	while (end < list->site_count && list->more[end].file == list->more[start].file)
		end++;
	return end;
}

/*
 * The state of the sites in the registry. NULL if it cannot be read, or a controller is just
 * changing it: the caller then relies on the registry alone.
 */
static struct probe_error *read_sites(
	const struct registry *registry, int pid, enum site_state **ret)
{
	bool busy = lock_is_taken(pid);
	struct edits edits = {0};
	struct probe_error *error = site_read_all(registry, pid, &edits, ret);

	edits_deinit(&edits);
	if (!error && (busy || lock_is_taken(pid) || registry_is_stale(registry, pid))) {
		free(*ret);
		*ret = NULL;
	}
	return error;
}

struct probe_error *list_read_state(struct probe_list *list, int pid, size_t first)
{
	enum site_state *states = NULL;
	struct registry registry = {0};
	struct served known AUTO_SERVED;
	struct probe_error *error;

	served_begin(pid, &known);
	if (first == list->site_count)
		return NULL;
	for (size_t i = first; i < list->site_count; i = module_end(list, i))
		read_semaphores(list, &known, i, module_end(list, i));
	error = read_registry(list, pid, first, &registry);
	if (!error && registry.site_count)
		error = read_sites(&registry, pid, &states);
	for (size_t i = first; i < list->site_count; i = module_end(list, i))
		add_references(list, &known, &registry, states, i, module_end(list, i));
	free(states);
	registry_deinit(&registry);
	return error;
}
