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

static void add_pages(const struct module *module, const struct maps *maps, struct arch_safe *safe)
{
	const struct mapping *m = maps_find_from(maps, module->start);
	struct stat file;

	if (fstat(module->fd, &file) != 0)
		return;
	for (; m && m < maps->items + maps->count && m->start < module->end; m++) {
		struct arch_extent *last = safe->count ? &safe->pages[safe->count - 1] : NULL;
		uint64_t pages = page_after((uint64_t)file.st_size), size = m->end - m->start;

		/*
		 * A mapping of the file at another bias is the program's own, and may be unmapped
		 * at any time.
		 */
		if (!m->readable || m->is_shared || !module_has_mapping(module, m) ||
			m->offset >= pages)
			continue;
		if (size > pages - m->offset)
			size = pages - m->offset;
		if (last && last->start + last->size == m->start)
			last->size += size;
		else if (safe->count < ARCH_SAFE_MAX)
			safe->pages[safe->count++] = (struct arch_extent){m->start, size};
		else
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
