/* SPDX-License-Identifier: MIT */
/* Files are opened below a root, and links that lead out of it are not followed. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/process/process.h"

static char root[] = "/tmp/probectl-test-XXXXXX";

static bool any(const struct stat *st, const void *data)
{
	(void)st;
	(void)data;
	return true;
}

static bool none(const struct stat *st, const void *data)
{
	(void)st;
	(void)data;
	return false;
}

static int setup(void **state)
{
	char command[512];

	(void)state;
	if (!mkdtemp(root))
		return -1;
	snprintf(command, sizeof(command),
		"cd %s && mkdir -p in/dir out && echo inside >in/dir/file && echo outside "
		">out/file &&"
		" ln -s %s/out in/absolute && ln -s ../out in/relative && ln -s dir in/same &&"
		" ln -s ../../out/file in/dir/link && mkfifo in/dir/pipe",
		root, root);
	return system(command) ? -1 : 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command) ? -1 : 0;
}

static int open_in(const char *path, int *err_ret)
{
	char in[128];

	snprintf(in, sizeof(in), "%s/in", root);
	return beneath_open(in, path, any, NULL, err_ret);
}

static void test_files(void **state)
{
	static const char *const paths[] = {"/dir/file", "dir/file", "//dir///file"};
	char text[16] = "";
	int err;

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		int fd = open_in(paths[i], &err);

		assert_true(fd >= 0);
		assert_int_equal(read(fd, text, sizeof(text) - 1), 7);
		assert_string_equal(text, "inside\n");
		assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
		close(fd);
	}
	assert_int_equal(open_in("/dir/nothing", &err), -1);
	assert_int_equal(err, ENOENT);
}

static void test_links(void **state)
{
	static const char *const paths[] = {"/absolute/file", "/relative/file", "/dir/link",
		"/../out/file", "/dir/../../out/file", "/same/file"};
	int err;

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		assert_int_equal(open_in(paths[i], &err), -1);
}

/* Opening a pipe for reading would unblock its writers. */
static void test_pipe(void **state)
{
	char path[128], in[128];
	int err;

	(void)state;
	assert_int_equal(open_in("/dir/pipe", &err), -1);
	assert_int_equal(err, 0);
	snprintf(path, sizeof(path), "%s/in/dir/pipe", root);
	assert_int_equal(open(path, O_WRONLY | O_NONBLOCK), -1);
	assert_int_equal(errno, ENXIO);
	assert_int_equal(open_in("/dir", &err), -1);
	snprintf(in, sizeof(in), "%s/in", root);
	assert_int_equal(beneath_open(in, "/dir/file", none, NULL, &err), -1);
	assert_int_equal(err, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_pipe),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
