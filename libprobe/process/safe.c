/* SPDX-License-Identifier: MIT */
/*
 * Finds memory that a stub may read without asking the kernel whether it can be read
 * (arch/stub/captures.c).
 *
 * A module stays mapped while a thread runs in it, and its own code reads its constants and
 * initialised variables without asking, so the program does not make them unreadable. An array in
 * .bss is different: it may be a stack with a guard page.
 *
 * If a file is truncated, all pages behind its new end disappear, also the process's own copies
 * (truncate_pagecache() of Linux), and reading them raises SIGBUS. A module's variables and its
 * table of addresses are at the end of its file: if constants are cut off, so are the variables and
 * the table, and the program cannot continue anyway. Pages that are cut off already are left out.
 *
 * The callers' stack frames are above the stack pointer, and the thread returns through them. How
 * far the stack extends is known only for the main thread, whose stack the kernel maps in one piece
 * with a fixed end. A stub compares its stack pointer with this piece, so it notices another stack
 * (coroutines).
 */
#include <string.h>
#include <sys/stat.h>

#include "libprobe/base/page.h"
#include "libprobe/process/process.h"

/*
 * Returns true if a mapping stays as long as the module. A mapping of its file at another bias is
 * the program's own, and may be unmapped at any time.
 */
static bool is_kept(const struct mapping *m, const struct module *module)
{
	return m->readable && !m->is_shared && module_has_mapping(module, m);
}

/* Returns how many bytes of a mapping the file has pages for. */
static uint64_t bytes_in_file(const struct mapping *m, uint64_t file_size)
{
	uint64_t pages = page_after(file_size), size = m->end - m->start;

	if (m->offset >= pages)
		return 0;
	return pages - m->offset < size ? pages - m->offset : size;
}

/* Adds readable memory. Returns false if the array is full. */
static bool add(struct arch_safe *safe, uint64_t start, uint64_t size)
{
	struct arch_extent *last = safe->count ? &safe->pages[safe->count - 1] : NULL;

	if (last && last->start + last->size == start)
		last->size += size;
	else if (safe->count < ARCH_SAFE_MAX)
		safe->pages[safe->count++] = (struct arch_extent){start, size};
	else
		return false;
	return true;
}

static void add_pages(const struct module *module, const struct maps *maps, struct arch_safe *safe)
{
	const struct mapping *m = maps_find_from(maps, module->start);
	struct stat file;

	if (fstat(module->fd, &file) != 0)
		return;
	for (; m && m < maps->items + maps->count && m->start < module->end; m++) {
		uint64_t bytes = is_kept(m, module) ? bytes_in_file(m, (uint64_t)file.st_size) : 0;

		if (bytes && !add(safe, m->start, bytes))
			return;
	}
}

void safe_memory(const struct module *module, const struct maps *maps, struct arch_safe *ret)
{
	*ret = (struct arch_safe){0};
	add_pages(module, maps, ret);
	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *m = &maps->items[i];

		if (strcmp(m->path, "[stack]") == 0 && m->readable && !m->is_shared)
			ret->stack = (struct arch_extent){m->start, m->end - m->start};
	}
}
