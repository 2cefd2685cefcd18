/* SPDX-License-Identifier: MIT */
/* Which pages a process has in memory, or swapped out. */
#ifndef LIBPROBE_PATCH_PAGES_H
#define LIBPROBE_PATCH_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As the kernel hands it over (struct page_region). */
struct pages_run {
	uint64_t start, end;
	uint64_t categories;
};

struct pages {
	int pagemap; /* borrowed: /proc/PID/pagemap */
	bool by_entries;
	uint64_t *entries;
	struct pages_run *runs; /* of the last look */
};

/* False without memory. Only pages_close() is due afterwards, whatever it returns. */
bool pages_open(int pagemap, struct pages *ret);
void pages_close(struct pages *pages);

/*
 * Looks at a page, and at some of those behind it, up to `end`. `runs` are then where pages are
 * there, in order; one may go on in the next. Returns how many; *next_ret is the first page that
 * was not looked at. SIZE_MAX: nothing can be said.
 */
size_t pages_look(struct pages *pages, uint64_t at, uint64_t end, uint64_t *next_ret);

#endif
