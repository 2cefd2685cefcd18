/* SPDX-License-Identifier: MIT */
/* Only a new memfd is opened and sized, and its size stays; other files are not touched. */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/process/process.h"

enum { BYTES = 12288 };

static struct probe_error *open_sized(int pidfd, int fd, int *ours)
{
	struct probe_error *error = shared_open(getpid(), gettid(), pidfd, fd, ours);

	return error ? error : shared_set_size(getpid(), *ours, BYTES);
}

static void refused_with(int pidfd, int fd, const char *part)
{
	int ours = -1;
	struct probe_error *error = open_sized(pidfd, fd, &ours);

	assert_non_null(error);
	if (!strstr(error->message, part))
		fail_msg("%s", error->message);
	probe_error_free(error);
	if (ours >= 0)
		close(ours);
}

/* Opened by name, and taken. */
static void refused(int fd, const char *part)
{
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	assert_true(pidfd >= 0);
	refused_with(-1, fd, part);
	refused_with(pidfd, fd, part);
	close(pidfd);
}

static void test_sealed(void **state)
{
	int fd = memfd_create("probectl", SHARED_MEMFD_FLAGS), ours;
	struct stat st;

	(void)state;
	assert_null(open_sized(-1, fd, &ours));
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
	refused(fd, "closed or replaced");
	unlink(path);
	/* Empty, without a name, perhaps on a tmpfs. */
	refused(fd, "closed or replaced");
	assert_int_equal(write(fd, "precious", 8), 8);
	refused(fd, "closed or replaced");
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 8);
	close(fd);

	fd = memfd_create("probectl", MFD_CLOEXEC);
	refused(fd, "closed or replaced");
	close(fd);
	fd = memfd_create("probectl", SHARED_MEMFD_FLAGS);
	assert_int_equal(ftruncate(fd, 1), 0);
	refused(fd, "closed or replaced");
	close(fd);

	assert_int_equal(pipe(write_end), 0);
	refused(write_end[0], "closed or replaced");
	close(write_end[0]);
	close(write_end[1]);
	fd = open("/dev/null", O_RDWR);
	refused(fd, "closed or replaced");
	close(fd);
	refused(fd, "closed or replaced");
}

static void test_sealed_by_target(void **state)
{
	int fd = memfd_create("probectl", SHARED_MEMFD_FLAGS);

	(void)state;
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	refused(fd, "closed or replaced");
	close(fd);
}

/* A number may come to name another file. */
static void same_with(int pidfd)
{
	int fd = memfd_create("probectl", SHARED_MEMFD_FLAGS), ours, other;
	pid_t pid = getpid(), tid = gettid();
	bool taken = pidfd >= 0;

	assert_null(open_sized(pidfd, fd, &ours));
	assert_int_equal(syscall(SYS_kcmp, pid, pid, KCMP_FILE, fd, ours) == 0, taken);
	assert_true(shared_is_same(pid, tid, fd, ours, taken));
	other = memfd_create("probectl", SHARED_MEMFD_FLAGS);
	assert_false(shared_is_same(pid, tid, other, ours, taken));
	assert_int_equal(dup2(other, fd), fd);
	assert_false(shared_is_same(pid, tid, fd, ours, taken));
	close(fd);
	assert_false(shared_is_same(pid, tid, fd, ours, taken));
	close(ours);
	close(other);
}

static void test_same(void **state)
{
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	(void)state;
	same_with(-1);
	assert_true(pidfd >= 0);
	same_with(pidfd);
	close(pidfd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_other_files),
		cmocka_unit_test(test_sealed_by_target),
		cmocka_unit_test(test_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
