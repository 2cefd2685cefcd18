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
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/page.h"
#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"
#include "libprobe/registry/registry.h"

enum { AROUND = 8 /* bytes of a jump that may lie in the next page */, SHORT_BYTES = 2 };

/* A short jump to where we may have put a jump. */
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

/* Adds the places of our code that our data lists, maybe inherited by fork(2). */
static void add_noted(struct scan *s, const struct mapping *m)
{
	struct data_arenas arenas;
	struct data_header header;

	if (memory_read_known(&s->known, m->start, &header, sizeof(header)) != sizeof(header) ||
		header.magic != DATA_MAGIC || header.home == DATA_SEALED_HOME)
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
	struct reg_site *site = registry_add_site(s->found);

	if (!site) {
		s->failed = true;
		return;
	}
	*site = (struct reg_site){.pc = p->start + at,
		.patch = p->start + at,
		.entry = p->start + at,
		.tail = p->start + at,
		.length = (uint8_t)length,
		.covers = (uint8_t)length};
	memcpy(site->original, p->file + at, length);
	memcpy(site->patched, p->memory + at, length);
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
	struct short_jump *jump;
	uint64_t target;

	if (arch->short_jump_length != SHORT_BYTES || p->size - at < SHORT_BYTES ||
		!arch->short_branch(p->memory + at, p->start + at, &target))
		return;
	if (!ARRAY_ROOM(s->shorts, s->short_count)) {
		s->failed = true;
		return;
	}
	jump = &s->shorts[s->short_count++];
	*jump = (struct short_jump){.at = p->start + at, .to = target};
	memcpy(jump->memory, p->memory + at, SHORT_BYTES);
	memcpy(jump->file, p->file + at, SHORT_BYTES);
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

static void compare(struct scan *s, const struct piece *p)
{
	for (size_t at = 0, from = 0; at < p->size;) {
		if (p->memory[at] == p->file[at])
			at++;
		else
			from = at = take_difference(s, p, from, at);
	}
}

/* ---- Modules ---------------------------------------------------------------------------- */

/* Is a page of text the process's own copy, present but not the file's? Yes without a pagemap. */
static bool is_own_copy(const struct scan *s, uint64_t page)
{
	uint64_t entry;

	if (s->pagemap < 0 ||
		pread(s->pagemap, &entry, sizeof(entry),
			(off_t)(page / page_bytes() * sizeof(entry))) != sizeof(entry))
		return true;
	return entry & (UINT64_C(1) << 62) ||
	       (entry & (UINT64_C(1) << 63) && !(entry & (UINT64_C(1) << 61)));
}

/* Compares copied pages, and the first bytes behind them, where the last jump may end. */
static void compare_run(struct scan *s, const struct module *module, uint64_t start, uint64_t end)
{
	struct piece p = {.start = start, .size = end - start};
	size_t size;

	p.memory = malloc(p.size);
	p.file = malloc(p.size);
	if (p.memory && p.file) {
		p.size = object_read(module->object, start - module->bias, p.file, p.size);
		size = memory_read(s->pid, start, p.memory, p.size);
		p.size = size < p.size ? size : p.size;
		compare(s, &p);
	} else {
		s->failed = true;
	}
	free(p.memory);
	free(p.file);
}

static void compare_text(struct scan *s, const struct module *module, const struct mapping *m)
{
	uint64_t at = m->start;

	for (uint64_t page = m->start; page <= m->end; page += page_bytes()) {
		uint64_t after = page + AROUND < m->end ? page + AROUND : m->end;

		if (page < m->end && is_own_copy(s, page))
			continue;
		if (at < page)
			compare_run(s, module, at, after);
		at = page + page_bytes();
	}
}

/* Adds the short jumps that lead to our jumps, now that all are found. */
static void add_shorts(struct scan *s)
{
	size_t hops = s->found->site_count;

	for (size_t i = 0; i < s->short_count; i++) {
		struct short_jump *jump = &s->shorts[i];
		struct piece p = {jump->at, SHORT_BYTES, jump->memory, jump->file};
		bool is_ours = false;

		for (size_t k = 0; k < hops && !is_ours; k++)
			is_ours = s->found->sites[k].patch == jump->to;
		if (is_ours)
			add_site(s, &p, 0, SHORT_BYTES);
	}
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

/* Makes a mapping of ours a leftover: a thread may be in it. */
static void add_leftover(struct scan *s, const struct mapping *m)
{
	struct reg_arena *arena = registry_add_arena(s->found);
	struct reg_stub *stub = registry_add_stub(s->found);

	if (!arena || !stub) {
		s->failed = true;
		return;
	}
	*arena = (struct reg_arena){m->start, m->end - m->start, m->inode, 0};
	*stub = (struct reg_stub){.start = m->start, .size = (uint32_t)(m->end - m->start)};
}

static void add_session(struct scan *s, const struct mapping *m)
{
	struct reg_session *session;

	/* The layout of the session is not used, but must be consistent. */
	if (m->end - m->start <= page_bytes())
		return;
	session = registry_add_session(s->found);
	if (!session) {
		s->failed = true;
		return;
	}
	*session = (struct reg_session){.id = s->found->next_session++,
		.flags = REG_SESSION_RETIRED,
		.cpus = 1,
		.data = m->start,
		.data_size = m->end - m->start,
		.inode = m->inode,
		.slots = m->start + page_bytes()};
}

/* Is this data of this process? A traced probectl has its own targets' data mapped, too. */
static bool is_its_data(struct scan *s, const struct mapping *m)
{
	struct data_header header;

	return shared_is_data(m) && m->offset == 0 &&
	       memory_read_known(&s->known, m->start, &header, sizeof(header)) == sizeof(header) &&
	       header.magic == DATA_MAGIC && header.home && header.home != DATA_SEALED_HOME &&
	       header.maker && header.maker == lasting_maker(s->pid);
}

static void add_remains(struct scan *s, const struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *m = &maps->items[i];

		if (is_its_data(s, m))
			add_session(s, m);
		else if (shared_is_code(m))
			add_leftover(s, m);
	}
}

static bool any_data(struct scan *s, const struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		if (is_its_data(s, &maps->items[i]))
			return true;
	return false;
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
	served_begin(pid, &s.known);
	find_code(&s, maps);
	if (s.code.count)
		compare_all(&s, maps, modules);
	*lost_ret = found.site_count || any_data(&s, maps);
	if (*lost_ret)
		add_remains(&s, maps);
	registry_sort(&found);
	served_end(&s.known);
	if (s.pagemap >= 0)
		close(s.pagemap);
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
