/* SPDX-License-Identifier: MIT */
/* The memory that control groups leave, in a file tree like the kernel's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/process/process.h"

static const char mounts[] =
	"31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"
	"33 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
	"34 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
	"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

/* A temporary folder. */
static int make_folder(void **state)
{
	char name[] = "/tmp/probectl-cgroup.XXXXXX";

	if (!mkdtemp(name))
		return -1;
	*state = strdup(name);
	return 0;
}

static int remove_folder(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", (char *)*state);
	free(*state);
	return system(command);
}

/* Writes a file below the folder, and creates its parents. */
static void put(const char *folder, const char *path, const char *text)
{
	char name[512], command[600];
	FILE *file;

	snprintf(name, sizeof(name), "%s/%s", folder, path);
	snprintf(command, sizeof(command), "mkdir -p \"$(dirname '%s')\"", name);
	assert_int_equal(system(command), 0);
	file = fopen(name, "w");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void test_version_2(void **state)
{
	struct cgroup_memory memory;

	put(*state, "sys/fs/cgroup/unified/a/b/memory.max", "max\n");
	put(*state, "sys/fs/cgroup/unified/a/b/memory.current", "500\n");
	cgroup_memory_in(*state, "0::/a/b\n", mounts, &memory);
	assert_true(memory.limit == UINT64_MAX && memory.room == UINT64_MAX);

	/* The group with the least memory left counts, even if it is an ancestor. */
	put(*state, "sys/fs/cgroup/unified/a/memory.max", "1000000\n");
	put(*state, "sys/fs/cgroup/unified/a/memory.current", "600000\n");
	cgroup_memory_in(*state, "0::/a/b\n", mounts, &memory);
	assert_true(memory.limit == 1000000 && memory.room == 400000);
	put(*state, "sys/fs/cgroup/unified/a/b/memory.high", "10500\n");
	cgroup_memory_in(*state, "0::/a/b\n", mounts, &memory);
	assert_true(memory.limit == 10500 && memory.room == 10000);

	/* Inactive caches are dropped before anything is killed. */
	put(*state, "sys/fs/cgroup/unified/a/b/memory.stat", "anon 1\ninactive_file 300\nfile 2\n");
	cgroup_memory_in(*state, "0::/a/b\n", mounts, &memory);
	assert_true(memory.room == 10300);
	put(*state, "sys/fs/cgroup/unified/a/b/memory.current", "20000\n");
	cgroup_memory_in(*state, "0::/a/b\n", mounts, &memory);
	assert_true(memory.limit == 10500 && memory.room == 0);
}

static void test_version_1(void **state)
{
	const char *groups = "9:cpu,cpuacct:/x\n4:memory:/x/y\n0::/\n";
	struct cgroup_memory memory;

	put(*state, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put(*state, "sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
	put(*state, "sys/fs/cgroup/memory/x/y/memory.limit_in_bytes", "25165824\n");
	put(*state, "sys/fs/cgroup/memory/x/y/memory.usage_in_bytes", "19000000\n");
	put(*state, "sys/fs/cgroup/memory/x/y/memory.stat",
		"inactive_file 5\ntotal_inactive_file 1000\n");
	cgroup_memory_in(*state, groups, mounts, &memory);
	assert_true(memory.limit == 25165824 && memory.room == 25165824 - 19000000 + 1000);
	/* The group of another controller does not count. */
	cgroup_memory_in(*state, "9:cpu,cpuacct:/x/y\n8:memoryless:/x/y\n", mounts, &memory);
	assert_true(memory.limit == UINT64_MAX);
}

/* In a container, only a part of the tree is mounted, and paths may begin at that part. */
static void test_views(void **state)
{
	const char *part = "34 31 0:32 /docker/5f /sys/fs/my\\040groups rw - cgroup2 cgroup rw\n";
	struct cgroup_memory memory;

	put(*state, "sys/fs/my groups/memory.max", "1000\n");
	put(*state, "sys/fs/my groups/memory.current", "100\n");
	cgroup_memory_in(*state, "0::/docker/5f\n", part, &memory);
	assert_true(memory.limit == 1000 && memory.room == 900);
	cgroup_memory_in(*state, "0::/docker/5f/app\n", part, &memory);
	assert_true(memory.limit == 1000);
	/* Other groups are not visible. */
	cgroup_memory_in(*state, "0::/docker/5f5\n", part, &memory);
	assert_true(memory.limit == UINT64_MAX);
	cgroup_memory_in(*state, "0::/docker\n", part, &memory);
	assert_true(memory.limit == UINT64_MAX);
	cgroup_memory_in(*state, "0::/\n", part, &memory);
	assert_true(memory.limit == UINT64_MAX);
	cgroup_memory_in(*state, "0::/../other\n", mounts, &memory);
	assert_true(memory.limit == UINT64_MAX);
	/* With its own cgroup namespace, both begin at the container. */
	cgroup_memory_in(*state, "0::/\n",
		"34 31 0:32 / /sys/fs/my\\040groups rw - cgroup2 cgroup rw\n", &memory);
	assert_true(memory.limit == 1000);
}

static void test_nonsense(void **state)
{
	static const char *const texts[] = {
		"", "\n\n", "0::", "::", "0:", "4:memory", "4:memory:", "0::/\n0::/", "0::a"};
	static const char *const tables[] = {"", "\n", "1 2 3 4", "34 31 0:32 / / rw - cgroup2",
		"34 31 0:32 /\\ /\\0 rw - cgroup2 x y\n", "- - - - - - cgroup cgroup memory\n"};
	struct cgroup_memory memory;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		for (size_t k = 0; k < sizeof(tables) / sizeof(*tables); k++) {
			cgroup_memory_in(*state, texts[i], tables[k], &memory);
			assert_true(memory.room <= memory.limit);
		}
	cgroup_memory(getpid(), &memory);
	assert_true(memory.room <= memory.limit);
	assert_int_equal(cgroup_kills(NULL), 0);
}

static void test_frozen(void **state)
{
	static const char freezer[] =
		"35 31 0:33 / /sys/fs/cgroup/freezer rw - cgroup cgroup "
		"rw,freezer\n"
		"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
	static const char groups[] = "6:freezer:/f/g\n4:memory:/x\n0::/a/b\n";
	char path[CGROUP_PATH_BYTES], wanted[CGROUP_PATH_BYTES];

	assert_false(cgroup_frozen_in(*state, groups, freezer, path));
	put(*state, "sys/fs/cgroup/unified/a/b/cgroup.freeze", "0\n");
	put(*state, "sys/fs/cgroup/unified/a/b/cgroup.events", "populated 1\nfrozen 0\n");
	put(*state, "sys/fs/cgroup/unified/a/cgroup.freeze", "0\n");
	put(*state, "sys/fs/cgroup/freezer/f/g/freezer.state", "THAWED\n");
	put(*state, "sys/fs/cgroup/freezer/f/freezer.state", "THAWED\n");
	assert_false(cgroup_frozen_in(*state, groups, freezer, path));

	/* A group that is being frozen counts, too, and its path is returned. */
	put(*state, "sys/fs/cgroup/unified/a/cgroup.freeze", "1\n");
	assert_true(cgroup_frozen_in(*state, groups, freezer, path));
	snprintf(wanted, sizeof(wanted), "%s/sys/fs/cgroup/unified/a", (char *)*state);
	assert_string_equal(path, wanted);
	put(*state, "sys/fs/cgroup/unified/a/cgroup.freeze", "0\n");

	/* An ancestor that a container does not see is frozen. */
	put(*state, "sys/fs/cgroup/unified/a/b/cgroup.events", "populated 1\nfrozen 1\n");
	assert_true(cgroup_frozen_in(*state, groups, freezer, path));
	snprintf(wanted, sizeof(wanted), "%s/sys/fs/cgroup/unified/a/b", (char *)*state);
	assert_string_equal(path, wanted);
	put(*state, "sys/fs/cgroup/unified/a/b/cgroup.events", "populated 1\nfrozen 0\n");

	/* Version 1 of the freezer. */
	put(*state, "sys/fs/cgroup/freezer/f/g/freezer.state", "FREEZING\n");
	assert_true(cgroup_frozen_in(*state, groups, freezer, path));
	snprintf(wanted, sizeof(wanted), "%s/sys/fs/cgroup/freezer/f/g", (char *)*state);
	assert_string_equal(path, wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_version_2, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_frozen, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_version_1, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_views, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_nonsense, make_folder, remove_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
