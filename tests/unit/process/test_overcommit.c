/* SPDX-License-Identifier: MIT */
/* How much the kernel will still commit, from copies of its files; and allocation before use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/process/process.h"

enum { BYTES = 40 << 20, HOLE = 4 << 20 };

static void put(const char *folder, const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static uint64_t room(const char *setting, const char *meminfo)
{
	char folder[] = "/tmp/probectl-overcommit.XXXXXX", path[128];
	uint64_t bytes;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "mkdir -p %s/sys/vm", folder);
	assert_int_equal(system(path), 0);
	put(folder, "sys/vm/overcommit_memory", setting);
	put(folder, "meminfo", meminfo);
	bytes = overcommit_room_in(folder);
	snprintf(path, sizeof(path), "rm -r %s", folder);
	assert_int_equal(system(path), 0);
	return bytes;
}

static void test_room(void **state)
{
	static const char meminfo[] = "MemTotal:       24684084 kB\n"
				      "CommitLimit:    12342040 kB\n"
				      "Committed_AS:   12341016 kB\n"
				      "VmallocTotal:   34359738367 kB\n";

	(void)state;
	assert_int_equal(room("0\n", meminfo), UINT64_MAX);
	assert_int_equal(room("1\n", meminfo), UINT64_MAX);
	assert_int_equal(room("2\n", meminfo), 1 << 20);
	assert_int_equal(room("2\n", "\nCommitLimit: 10 kB\nCommitted_AS: 20 kB\n"), 0);
	assert_int_equal(room("2\n", ""), 0);
}

static void test_fill(void **state)
{
	int fd = memfd_create("overcommit", MFD_CLOEXEC);
	char text[5] = "";
	struct stat st;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, BYTES), 0);
	assert_int_equal(pwrite(fd, "kept", 4, HOLE), 4);
	assert_int_equal(overcommit_fill(fd, HOLE, BYTES), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, (BYTES - HOLE) / 512);
	assert_int_equal(st.st_size, BYTES);
	assert_int_equal(pread(fd, text, 4, HOLE), 4);
	assert_string_equal(text, "kept");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_fill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
