/* SPDX-License-Identifier: MIT */
/* Which pages are there: the kernel's answer, and what the pagemap's entries say. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"
#include "tests/unit/skip.h"

enum { PAGES = 20000, MORE = 5000 };
static char expected[PAGES];

/* Marks the pages of [at, at + PAGES) that are there. */
static void look(struct pages *pages, uint64_t first, char found[PAGES])
{
	const uint64_t page = page_bytes(), end = first + PAGES * page;
	uint64_t next, last = 0;

	memset(found, 0, PAGES);
	for (uint64_t at = first; at < end; at = next) {
		size_t count = pages_look(pages, at, end, &next);

		assert_true(count != SIZE_MAX && next > at);
		for (size_t i = 0; i < count; i++) {
			const struct pages_run *run = &pages->runs[i];

			assert_true(run->start >= last && run->start < run->end);
			assert_true(run->start >= at && run->end <= next && next <= end);
			last = run->end;
			memset(found + (run->start - first) / page, 1,
				(run->end - run->start) / page);
		}
	}
}

/* Single ones, more than fit one answer; long runs; and nothing. */
static void test_runs(void **state)
{
	const uint64_t page = page_bytes();
	uint8_t *memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	struct pages pages;
	char found[PAGES];

	(void)state;
	assert_true(memory != MAP_FAILED && pagemap >= 0);
	assert_int_equal(madvise(memory, PAGES * page, MADV_NOHUGEPAGE), 0);
	for (size_t i = 0; i < PAGES; i++) {
		expected[i] = i < 2 * MORE ? i % 2 : i >= 3 * MORE && i < 3 * MORE + 1000;
		if (expected[i])
			memory[i * page] = 1;
	}
	assert_true(pages_open(pagemap, &pages));
	look(&pages, (uintptr_t)memory, found);
	assert_memory_equal(found, expected, PAGES);
	pages.by_entries = true;
	look(&pages, (uintptr_t)memory, found);
	assert_memory_equal(found, expected, PAGES);
	pages_close(&pages);
	munmap(memory, PAGES * page);
	close(pagemap);
}

/* The processor time of this thread, which other threads do not prolong. */
static uint64_t used_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Memory that a program has only reserved is not searched, if the kernel names the pages in use:
 * reading two gigabytes of the pagemap instead would take seconds.
 */
static void test_reserved(void **state)
{
	const uint64_t size = UINT64_C(1) << 40;
	uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t first = (uintptr_t)memory, next, begin_ns;
	struct pages pages;

	(void)state;
	assert_true(pagemap >= 0);
	if (memory == MAP_FAILED)
		skip_because("there is too little address space");
	memory[size / 2] = 1;
	assert_true(pages_open(pagemap, &pages));
	begin_ns = used_ns();
	if (pages_look(&pages, first, first + size, &next) != 1 || next != first + size) {
		pages_close(&pages);
		munmap(memory, size);
		skip_because("needs Linux 6.7 or newer (PAGEMAP_SCAN)");
	}
	assert_true(used_ns() - begin_ns < UINT64_C(1000000000));
	assert_true(pages.runs[0].start <= first + size / 2);
	assert_true(pages.runs[0].end > first + size / 2);
	pages_close(&pages);
	munmap(memory, size);
	close(pagemap);
}

/* What cannot be read is not taken for pages that are not there. */
static void test_unknown(void **state)
{
	struct pages pages;
	uint64_t next;

	(void)state;
	assert_true(pages_open(-1, &pages));
	assert_true(pages_look(&pages, page_bytes(), 2 * page_bytes(), &next) == SIZE_MAX);
	pages_close(&pages);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_reserved),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
