/* SPDX-License-Identifier: MIT */
/*
 * What a stub may read without asking whether it can be read (arch/stub/captures.c).
 *
 * A module is not closed while a thread runs in it: its code would be gone as well. So its file's
 * pages stay as they are, unless the program itself changes their protection. It has no reason to
 * take away the right to read its constants and initialised variables, which its code reads without
 * asking, too. That cannot be said of variables that the file does not hold (.bss): an array there
 * may be anything, such as a stack with a guard page.
 *
 * Whoever cuts off a file takes away all pages behind its new end, copies of the process as well
 * (truncate_pagecache() of Linux), and reading them raises SIGBUS. Variables and the table of what
 * a module calls in others are at the end of its file. So a program whose constants are cut off
 * cannot use them either. What was cut off before is left out here.
 *
 * The callers' frames are on a thread's stack, above its stack pointer, and it returns through
 * them. Only of the main thread is known how far that goes: the kernel maps its stack in one piece,
 * which grows downwards and keeps its end. It is found by where the stack pointer is, so a main
 * thread that runs on another stack, as coroutines do, is not taken for it.
 */
#include <string.h>
#include <sys/stat.h>

#include "libprobe/base/page.h"
#include "libprobe/process/process.h"

/* What the program has mapped of the file by itself, at another bias, it may unmap at any time. */
static bool is_kept(const struct mapping *m, const struct module *module)
{
	return m->readable && !m->is_shared && module_has_mapping(module, m);
}

/* As many bytes of a mapping as the file has pages for. */
static uint64_t bytes_in_file(const struct mapping *m, uint64_t file_size)
{
	uint64_t pages = page_after(file_size), size = m->end - m->start;

	if (m->offset >= pages)
		return 0;
	return pages - m->offset < size ? pages - m->offset : size;
}

/* Adds what it can read; false: there is no room. */
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
