/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/process/process.h"

static struct maps parse(const char *text)
{
	struct maps maps;
	struct probe_error *error = maps_parse(text, strlen(text), &maps);

	if (error)
		fail_msg("%s", error->message);
	return maps;
}

static void test_lines(void **state)
{
	struct maps maps = parse("00400000-00401000 r--p 00000000 fe:00 18624                      "
				 "        /bin/a b\n"
				 "00401000-00402000 r-xs 00001000 103:fffff 18446744073709551615   "
				 "        /c\\012d\n"
				 "00500000-00501000 rw-p 00000000 00:00 0 \n"
				 "7f0000000000-7f0000001000 ---p 00000000 00:01 7                  "
				 "        /memfd:x (deleted)\n"
				 "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0          "
				 "        [vsyscall]\n");

	(void)state;
	assert_int_equal(maps.count, 5);
	assert_int_equal(maps.items[0].start, 0x400000);
	assert_int_equal(maps.items[0].end, 0x401000);
	assert_true(maps.items[0].readable);
	assert_false(maps.items[0].writable);
	assert_false(maps.items[0].executable);
	assert_false(maps.items[0].is_shared);
	assert_int_equal(maps.items[0].dev_major, 0xfe);
	assert_int_equal(maps.items[0].inode, 18624);
	assert_string_equal(maps.items[0].path, "/bin/a b");
	assert_true(maps.items[1].executable);
	assert_true(maps.items[1].is_shared);
	assert_int_equal(maps.items[1].offset, 0x1000);
	assert_int_equal(maps.items[1].dev_major, 0x103);
	assert_int_equal(maps.items[1].dev_minor, 0xfffff);
	assert_true(maps.items[1].inode == UINT64_MAX);
	assert_string_equal(maps.items[1].path, "/c\nd");
	assert_true(maps.items[2].writable);
	assert_string_equal(maps.items[2].path, "");
	assert_true(maps.items[3].deleted);
	assert_false(maps.items[2].deleted);
	assert_string_equal(maps.items[3].path, "/memfd:x");
	assert_true(maps.items[4].start == UINT64_C(0xffffffffff600000));
	assert_string_equal(maps.items[4].path, "[vsyscall]");
	maps_deinit(&maps);
	assert_int_equal(maps.count, 0);
}

static void test_incomplete(void **state)
{
	struct maps maps = parse("");

	(void)state;
	assert_int_equal(maps.count, 0);
	assert_null(maps_find(&maps, 0));
	maps_deinit(&maps);
	/* The last line may lack its end. */
	maps = parse("1000-2000 r--p 0 00:00 0 /x");
	assert_int_equal(maps.count, 1);
	assert_string_equal(maps.items[0].path, "/x");
	maps_deinit(&maps);
	maps = parse("1000-2000 r--p 0 00:00 0");
	assert_string_equal(maps.items[0].path, "");
	maps_deinit(&maps);
	/* Traces of a mapping that moved are dropped. */
	maps = parse("1000-3000 r--p 0 00:00 0 /x\n"
		     "2000-4000 r--p 0 00:00 0 /y\n"
		     "4000-5000 r--p 0 00:00 0 /z\n");
	assert_int_equal(maps.count, 2);
	assert_string_equal(maps.items[1].path, "/z");
	maps_deinit(&maps);
}

static void test_malformed(void **state)
{
	static const char *const lines[] = {
		"x",
		"\n",
		"1000",
		"1000-2000",
		"1000-2000 r--p",
		"1000-2000 r--p 0",
		"1000-2000 r--p 0 00:00",
		"1000-2000 r-- 0 00:00 0",
		"1000-2000 r--pp 0 00:00 0",
		"2000-1000 r--p 0 00:00 0",
		"1000-1000 r--p 0 00:00 0",
		"10000000000000000-20000000000000000 r--p 0 00:00 0",
		"1000-2000 r--p 0 100000000:00 0",
		"1000-2000 r--p 0 00:00 18446744073709551616",
		"1000-2000 r--p 0 00:00 1f",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct maps maps;
		struct probe_error *error = maps_parse(lines[i], strlen(lines[i]), &maps);

		assert_non_null(error);
		assert_int_equal(error->code, PROBE_ERROR_FORMAT);
		assert_string_equal(error->message, "malformed line in /proc/PID/maps at byte 0");
		assert_null(maps.items);
		probe_error_free(error);
	}
}

static void test_find(void **state)
{
	struct maps maps = parse("1000-2000 r--p 0 00:00 0 /x\n"
				 "2000-3000 r--p 0 00:00 0 /y\n"
				 "5000-6000 r--p 0 00:00 0 /z\n");

	(void)state;
	assert_null(maps_find(&maps, 0xfff));
	assert_string_equal(maps_find(&maps, 0x1000)->path, "/x");
	assert_string_equal(maps_find(&maps, 0x1fff)->path, "/x");
	assert_string_equal(maps_find(&maps, 0x2000)->path, "/y");
	assert_null(maps_find(&maps, 0x3000));
	assert_null(maps_find(&maps, 0x6000));
	assert_null(maps_find(&maps, UINT64_MAX));
	assert_string_equal(maps_find_from(&maps, 0)->path, "/x");
	assert_string_equal(maps_find_from(&maps, 0x3000)->path, "/z");
	assert_null(maps_find_from(&maps, 0x6000));
	maps_deinit(&maps);
}

static void test_self(void **state)
{
	struct maps maps;
	const struct mapping *mapping;
	struct probe_error *error = maps_read(getpid(), &maps);

	(void)state;
	assert_null(error);
	mapping = maps_find(&maps, (uintptr_t)test_self);
	assert_non_null(mapping);
	assert_true(mapping->executable);
	assert_int_equal(mapping->path[0], '/');
	mapping = maps_find(&maps, (uintptr_t)&maps);
	assert_string_equal(mapping->path, "[stack]");
	maps_deinit(&maps);
}

/* The memory behind a file of /proc may be gone before it is read. */
static void test_execve(void **state)
{
	static char again[] = "exec sh -c \"$1\" sh \"$1\"";
	char *argv[] = {"sh", "-c", again, "sh", again, NULL};
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execv("/bin/sh", argv);
		_exit(127);
	}
	for (int i = 0; i < 5000; i++) {
		struct maps maps;
		struct probe_error *error = maps_read(pid, &maps);

		if (error)
			fail_msg("look %d: %s", i, error->message);
		maps_deinit(&maps);
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

static void test_parts(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = memfd_create("a b\n", 0);
	char *at = mmap(NULL, 6 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start = (uint64_t)(uintptr_t)at;
	struct maps_part parts[] = {{start + 5 * page, page}, {start, 3 * page}};
	const struct mapping *one;
	struct maps maps, all;
	struct stat st;

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(ftruncate(fd, 4 * (off_t)page), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_ptr_equal(mmap(at + page, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd,
				 (off_t)page),
		at + page);
	assert_int_equal(munmap(at + 4 * page, page), 0);
	assert_null(maps_read_parts(getpid(), parts, 2, &maps));
	assert_null(maps_read(getpid(), &all));
	one = maps_find(&maps, start + page);
	assert_non_null(one);
	assert_int_equal(one->start, start + page);
	assert_int_equal(one->end, start + 2 * page);
	assert_int_equal(one->offset, page);
	assert_int_equal(one->inode, st.st_ino);
	assert_int_equal(one->dev_minor, maps_find(&all, start + page)->dev_minor);
	assert_true(one->readable && one->executable && !one->writable && !one->is_shared);
	assert_true(one->deleted);
	assert_int_equal(strncmp(one->path, "/memfd:a b", 10), 0);
	assert_non_null(maps_find(&maps, start));
	assert_non_null(maps_find(&maps, start + 2 * page));
	assert_null(maps_find(&maps, start + 4 * page));
	assert_non_null(maps_find(&maps, start + 5 * page));
	/* A kernel without PROCMAP_QUERY yields all mappings. */
	assert_true(maps.count == 4 || maps.count == all.count);
	maps_deinit(&maps);
	maps_deinit(&all);
	close(fd);
	munmap(at, 6 * page);
}

static void test_flags(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *at = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start = (uint64_t)(uintptr_t)at;
	bool has;

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(madvise(at + page, page, MADV_WIPEONFORK), 0);
	assert_null(maps_has_flag(getpid(), start + page, "wf", &has));
	assert_true(has);
	assert_null(maps_has_flag(getpid(), start + 2 * page, "wf", &has));
	assert_false(has);
	assert_null(maps_has_flag(getpid(), start + page, "dc", &has));
	assert_false(has);
	munmap(at, 3 * page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_incomplete),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_self),
		cmocka_unit_test(test_execve),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_flags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
