/* SPDX-License-Identifier: MIT */
/*
 * A program may reserve terabytes, as those do that a sanitizer watches. The pagemap has an entry
 * for each of their pages; since Linux 6.7, PAGEMAP_SCAN passes over what has no page tables.
 *
 * Sources: Documentation/admin-guide/mm/pagemap.rst of Linux; ioctl_pagemap_scan(2).
 */
#include <linux/ioctl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"

enum {
	ENTRIES = 4096,
	RUNS = ENTRIES / 2 + 1, /* at most, of so many entries */
	IS_PRESENT = 1 << 3,
	IS_SWAPPED = 1 << 4
};

/* struct pm_scan_arg of <linux/fs.h>, which Debian 12 lacks. */
struct scan {
	uint64_t size, flags;
	uint64_t start, end, walk_end;
	uint64_t vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
_Static_assert(_IOWR('f', 16, struct scan) == SECCOMP_PAGEMAP_SCAN, "the number of the call");

bool pages_open(int pagemap, struct pages *ret)
{
	*ret = (struct pages){.pagemap = pagemap,
		.by_entries = !seccomp_may_call(SECCOMP_OWN_PAGES),
		.entries = array_resident(ENTRIES * sizeof(*ret->entries)),
		.runs = array_resident(RUNS * sizeof(*ret->runs))};
	return ret->entries && ret->runs;
}

void pages_close(struct pages *pages)
{
	free(pages->entries);
	free(pages->runs);
	*pages = (struct pages){0};
}

static size_t scan(const struct pages *p, uint64_t at, uint64_t end, uint64_t *next_ret)
{
	struct scan scan = {.size = sizeof(scan),
		.start = at,
		.end = end,
		.vec = (uintptr_t)p->runs,
		.vec_len = RUNS,
		.category_anyof_mask = IS_PRESENT | IS_SWAPPED,
		.return_mask = IS_PRESENT | IS_SWAPPED};
	int count = ioctl(p->pagemap, SECCOMP_PAGEMAP_SCAN, &scan);

	if (count < 0 || count > RUNS)
		return SIZE_MAX;
	/* Where all fit, kernels leave any walk_end before that. */
	*next_ret = count < RUNS ? page_after(end) : p->runs[count - 1].end;
	return (size_t)count;
}

static size_t read_entries(const struct pages *p, uint64_t at, uint64_t end, uint64_t *next_ret)
{
	const uint64_t page = page_bytes();
	uint64_t pages = page_after(end - at) / page;
	ssize_t length = pread(p->pagemap, p->entries,
		(pages < ENTRIES ? pages : ENTRIES) * sizeof(*p->entries),
		(off_t)(at / page * sizeof(*p->entries)));
	size_t runs = 0;

	if (length < (ssize_t)sizeof(*p->entries))
		return SIZE_MAX;
	pages = (size_t)length / sizeof(*p->entries);
	for (size_t i = 0; i < pages; i++) {
		uint64_t start = at + i * page;

		if (!(p->entries[i] & PAGE_THERE))
			continue;
		if (!runs || p->runs[runs - 1].end != start)
			p->runs[runs++] = (struct pages_run){.start = start};
		p->runs[runs - 1].end = start + page;
	}
	*next_ret = at + pages * page;
	return runs;
}

size_t pages_look(struct pages *p, uint64_t at, uint64_t end, uint64_t *next_ret)
{
	size_t count = p->by_entries ? SIZE_MAX : scan(p, at, end, next_ret);

	if (count != SIZE_MAX)
		return count;
	/* Older kernels cannot, and of some mappings none can. */
	return read_entries(p, at, end, next_ret);
}
