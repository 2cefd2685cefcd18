/* SPDX-License-Identifier: MIT */
/* Names of addresses: this program's own functions and data, generated code, what has no name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/session/session.h"
#include "tests/unit/skip.h"

enum { PAGE = 4096 };

int naming_data[4] = {1};

__attribute__((noinline)) int naming_function(int number)
{
	__asm__ volatile("" : "+r"(number));
	return number + naming_data[0];
}

static struct naming *create(void)
{
	struct naming *naming = NULL;

	assert_null(naming_create(getpid(), (struct naming_options){0}, &naming));
	return naming;
}

static void test_own(void **state)
{
	struct naming *naming = create();
	uint64_t function = (uintptr_t)naming_function;
	const char *name = naming_name(naming, function);

	(void)state;
	assert_non_null(name);
	assert_string_equal(name, "naming_function");
	assert_string_equal(naming_name(naming, function + 1), "naming_function");
	assert_string_equal(naming_name(naming, (uintptr_t)&naming_data[3]), "naming_data");
	/* They stay. */
	naming_refresh(naming);
	assert_ptr_equal(naming_name(naming, function), name);
	naming_free(naming);
}

static void test_nothing(void **state)
{
	struct naming *naming = create();
	void *heap = malloc(100);
	int local = 0;

	(void)state;
	assert_null(naming_name(naming, 0));
	assert_null(naming_name(naming, 0x1234));
	assert_null(naming_name(naming, UINT64_MAX));
	assert_null(naming_name(naming, (uintptr_t)heap));
	assert_null(naming_name(naming, (uintptr_t)&local));
	free(heap);
	naming_free(naming);
}

static void add_line(FILE *file, const void *code, const char *name)
{
	assert_true(fprintf(file, "%lx 10 %s\n", (unsigned long)(uintptr_t)code, name) > 0);
	assert_int_equal(fflush(file), 0);
}

/* Code that is generated later, is named later, and is other code then. */
static void test_generated(void **state)
{
	struct naming *naming = create();
	char path[64];
	void *code;
	FILE *file;

	(void)state;
	code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(code != MAP_FAILED);
	assert_null(naming_name(naming, (uintptr_t)code));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	file = fopen(path, "w");
	assert_non_null(file);
	add_line(file, code, "first");
	naming_refresh(naming);
	assert_string_equal(naming_name(naming, (uintptr_t)code), "first");
	assert_string_equal(naming_name(naming, (uintptr_t)code + 15), "first");
	assert_null(naming_name(naming, (uintptr_t)code + 16));
	add_line(file, code, "second");
	naming_refresh(naming);
	assert_string_equal(naming_name(naming, (uintptr_t)code), "second");
	assert_int_equal(unlink(path), 0);
	naming_free(naming);
	fclose(file);
	munmap(code, PAGE);
}

/* The end of the first segment of this program, and the beginning of the second, in pages. */
static int find_gap(struct dl_phdr_info *info, size_t size, void *data)
{
	uint64_t *gap = data, page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned int found = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum && found < 2; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD)
			continue;
		gap[found] = found ? start & -page : (start + segment->p_memsz + page - 1) & -page;
		found++;
	}
	return 1;
}

/* Code that is generated between two segments of a module is not the module's. */
static void test_between_segments(void **state)
{
	struct naming *naming;
	uint64_t gap[2] = {0};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *code;

	(void)state;
	dl_iterate_phdr(find_gap, gap);
	if (gap[1] < gap[0] + page)
		skip_because("the linker leaves no gap between segments for pages of this size");
	code = mmap((void *)gap[0], page, PROT_READ | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	assert_true(code == (void *)gap[0]);
	naming = create();
	assert_null(naming_name(naming, (uintptr_t)code));
	assert_string_equal(naming_name(naming, (uintptr_t)naming_function), "naming_function");
	naming_free(naming);
	munmap(code, page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_generated),
		cmocka_unit_test(test_between_segments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
