/* SPDX-License-Identifier: MIT */
/* Files that several processes have mapped: opened once, as long as they do not change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/process/process.h"

enum { MANY = 100 };

static void succeed(struct probe_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

/* Copies of this very program. */
static int make_copy(char path[64])
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	const char *folder = getenv("TMPDIR");
	static char buffer[65536];
	ssize_t got;

	snprintf(path, 64, "%s/test_files.XXXXXX", folder ? folder : "/tmp");
	to = mkstemp(path);
	assert_true(from >= 0 && to >= 0);
	while ((got = read(from, buffer, sizeof(buffer))) > 0)
		assert_int_equal(write(to, buffer, (size_t)got), got);
	close(from);
	return to;
}

static void test_shared(void **state)
{
	struct file *first, *second, *changed;
	struct files *files;
	char path[64];
	int fd = make_copy(path);

	(void)state;
	succeed(files_create(&files));
	succeed(files_open(files, fd, path, &first));
	succeed(files_open(files, fd, path, &second));
	assert_ptr_equal(first, second);
	assert_ptr_equal(files_mapped(files, first->dev, first->inode), first);
	assert_null(files_mapped(files, first->dev, first->inode + 1));
	first->notes_read = true;
	/* Written to since, with the same size. */
	assert_int_equal(futimens(fd, (struct timespec[]){{1, 0}, {1, 0}}), 0);
	assert_null(files_mapped(files, first->dev, first->inode));
	succeed(files_open(files, fd, path, &changed));
	assert_ptr_not_equal(first, changed);
	assert_false(changed->notes_read);
	file_release(first);
	file_release(second);
	/* A file outlives the modules it was found by. */
	files_release(files);
	assert_true(object_is_64bit(changed->object));
	file_release(changed);
	unlink(path);
	close(fd);
}

static void test_no_elf(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct file *file = NULL;
	struct probe_error *error;
	struct files *files;

	(void)state;
	succeed(files_create(&files));
	error = files_open(files, fd, "/dev/null", &file);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_FORMAT);
	assert_null(file);
	probe_error_free(error);
	files_release(files);
	close(fd);
}

/* Not all files stay open: a build runs thousands of programs. */
static void test_many(void **state)
{
	int before = dup(STDERR_FILENO), after;
	struct files *files;

	(void)state;
	succeed(files_create(&files));
	for (int i = 0; i < MANY; i++) {
		struct file *file;
		char path[64];
		int fd = make_copy(path);

		succeed(files_open(files, fd, path, &file));
		file_release(file);
		unlink(path);
		close(fd);
	}
	after = dup(STDERR_FILENO);
	assert_true(after - before < MANY / 2);
	close(after);
	close(before);
	files_release(files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_no_elf),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
