/* SPDX-License-Identifier: MIT */
/* Only a new memfd is opened and sized, and its size stays; other files are not touched. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/process/shared.h"

enum { BYTES = 12288 };

static void refused(int fd, const char *part)
{
	int ours = 0;
	struct probe_error *error = shared_open(getpid(), fd, BYTES, &ours);

	assert_non_null(error);
	if (!strstr(error->message, part))
		fail_msg("%s", error->message);
	assert_int_equal(ours, -1);
	probe_error_free(error);
}

static void test_sealed(void **state)
{
	int fd = memfd_create("probectl", SHARED_MEMFD_FLAGS), ours;
	struct stat st;

	(void)state;
	assert_null(shared_open(getpid(), fd, BYTES, &ours));
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, BYTES);
	/* Neither through the target's descriptor nor through ours. */
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(ours, 2 * BYTES), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(pwrite(fd, "x", 1, 0), 1);
	close(ours);
	close(fd);
}

/* What a target could replace the memfd by. */
static void test_other_files(void **state)
{
	char path[] = "/tmp/probectl-shared.XXXXXX";
	int fd, write_end[2];
	struct stat st;

	(void)state;
	fd = mkstemp(path);
	assert_true(fd >= 0);
	refused(fd, "has replaced the shared memory");
	unlink(path);
	refused(fd,
		"has replaced the shared memory"); /* empty, without a name, perhaps on a tmpfs */
	assert_int_equal(write(fd, "precious", 8), 8);
	refused(fd, "has replaced the shared memory");
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 8);
	close(fd);

	fd = memfd_create("probectl", MFD_CLOEXEC);
	refused(fd, "has replaced the shared memory");
	close(fd);
	fd = memfd_create("probectl", SHARED_MEMFD_FLAGS);
	assert_int_equal(ftruncate(fd, 1), 0);
	refused(fd, "has replaced the shared memory");
	close(fd);

	assert_int_equal(pipe(write_end), 0);
	refused(write_end[0], "has replaced the shared memory");
	close(write_end[0]);
	close(write_end[1]);
	fd = open("/dev/null", O_RDWR);
	refused(fd, "has replaced the shared memory");
	close(fd);
	refused(fd, "/proc/");
}

static void test_sealed_by_target(void **state)
{
	int fd = memfd_create("probectl", SHARED_MEMFD_FLAGS);

	(void)state;
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	refused(fd, "has replaced the shared memory");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_other_files),
		cmocka_unit_test(test_sealed_by_target),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
