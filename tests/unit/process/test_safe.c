/* SPDX-License-Identifier: MIT */
/* What a stub may read without asking: of this process, and of files with odd mappings. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/process/process.h"

enum { PAGE = 65536 /* or a whole number of smaller ones */, PAGES = 6 };

static const char constant[] = "a constant";
static char variable[] = "a variable";
static char zeros[4 * PAGE]; /* reaches beyond the page that the file's variables end in */

static bool is_in(const struct arch_safe *safe, const void *address)
{
	for (size_t i = 0; i < safe->count; i++)
		if ((uintptr_t)address - safe->pages[i].start < safe->pages[i].size)
			return true;
	return false;
}

static void of_this_process(void **state)
{
	struct modules modules = {0};
	struct maps maps = {0};
	struct arch_safe ours, libc;
	char local = 0;

	(void)state;
	assert_null(modules_read(getpid(), NULL, &modules));
	assert_null(maps_read(getpid(), &maps));
	safe_memory(modules_find(&modules, (uintptr_t)of_this_process), &maps, &ours);
	safe_memory(modules_find(&modules, (uintptr_t)strtol), &maps, &libc);
	assert_true(is_in(&ours, (const void *)(uintptr_t)of_this_process));
	assert_true(is_in(&ours, constant));
	assert_true(is_in(&ours, variable));
	assert_false(is_in(&ours, zeros + sizeof(zeros) / 2));
	assert_true(is_in(&libc, (const void *)(uintptr_t)strtol));
	/* That of another module may be closed. */
	assert_false(is_in(&libc, constant));
	assert_false(is_in(&ours, (const void *)(uintptr_t)strtol));
	assert_true((uintptr_t)&local - ours.stack.start < ours.stack.size);
	modules_deinit(&modules);
	maps_deinit(&maps);
}

/* What the program maps of its own file, beside what was mapped to run it, it may unmap. */
static void of_another_mapping(void **state)
{
	struct modules modules = {0};
	struct module around;
	struct arch_safe safe;
	struct maps maps = {0};
	uint8_t *at;
	int fd;

	(void)state;
	assert_null(modules_read(getpid(), NULL, &modules));
	around = *modules_find(&modules, (uintptr_t)of_another_mapping);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	at = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	around.start = 0;
	around.end = UINT64_MAX;
	assert_null(maps_read(getpid(), &maps));
	safe_memory(&around, &maps, &safe);
	assert_true(is_in(&safe, constant));
	assert_false(is_in(&safe, at));
	maps_deinit(&maps);
	munmap(at, PAGE);
	close(fd);
	modules_deinit(&modules);
}

/* The pages of a file that are in `ret`, as text: "x" or ".". */
static void look(int fd, uint8_t *at, char ret[PAGES + 1])
{
	struct maps maps = {0};
	struct arch_safe safe;
	struct stat st;
	struct module module = {.fd = fd};

	assert_int_equal(fstat(fd, &st), 0);
	assert_null(maps_read(getpid(), &maps));
	module.start = (uintptr_t)at;
	module.end = module.start + PAGES * PAGE;
	module.inode = st.st_ino;
	module.dev_major = major(st.st_dev);
	module.dev_minor = minor(st.st_dev);
	safe_memory(&module, &maps, &safe);
	for (int i = 0; i < PAGES; i++)
		ret[i] = is_in(&safe, at + i * PAGE) ? 'x' : '.';
	ret[PAGES] = '\0';
	assert_true(safe.count <= ARCH_SAFE_MAX);
	maps_deinit(&maps);
}

static uint8_t *map(int fd, uint8_t *at, int first, int count, int flags)
{
	void *ret = mmap(at + first * PAGE, (size_t)count * PAGE, PROT_READ | PROT_WRITE, flags, fd,
		first * PAGE);

	assert_ptr_not_equal(ret, MAP_FAILED);
	return ret;
}

static void of_odd_files(void **state)
{
	int fd = memfd_create("safe", MFD_CLOEXEC);
	char seen[PAGES + 1];
	uint8_t *at;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (PAGES - 1) * PAGE + 10), 0);
	at = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	look(fd, at, seen);
	assert_string_equal(seen, "xxxxxx");
	map(fd, at, 1, 1, MAP_PRIVATE | MAP_FIXED); /* another protection */
	look(fd, at, seen);
	assert_string_equal(seen, "xxxxxx");
	map(-1, at, 3, 1, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS);
	look(fd, at, seen);
	assert_string_equal(seen, "xxx.xx");
	map(fd, at, 4, 1, MAP_SHARED | MAP_FIXED);
	look(fd, at, seen);
	assert_string_equal(seen, "xxx..x");
	assert_int_equal(mprotect(at + PAGE, PAGE, PROT_NONE), 0);
	look(fd, at, seen);
	assert_string_equal(seen, "x.x..x");
	assert_int_equal(ftruncate(fd, 2 * PAGE + 1), 0); /* reading what is behind raises SIGBUS */
	look(fd, at, seen);
	assert_string_equal(seen, "x.x...");
	assert_int_equal(ftruncate(fd, 0), 0);
	look(fd, at, seen);
	assert_string_equal(seen, "......");
	munmap(at, PAGES * PAGE);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_this_process),
		cmocka_unit_test(of_another_mapping),
		cmocka_unit_test(of_odd_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
