/* SPDX-License-Identifier: MIT */
/* Memory files found through the descriptors of a process: our own, and a child's. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "libprobe/process/process.h"

enum { FILES = 40 };

static int make(const char *content)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
	return fd;
}

static void *map(int fd)
{
	void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

/* Opens what is mapped at an address of a process; returns its contents, or "" on failure. */
static const char *content(pid_t pid, const void *at)
{
	static char text[16];
	struct memfds memfds = {0};
	struct maps maps;
	const struct mapping *mapping;
	ssize_t got = 0;
	int fd, err;

	assert_null(maps_read(pid, &maps));
	mapping = maps_find(&maps, (uintptr_t)at);
	assert_non_null(mapping);
	fd = memfds_open(&memfds, pid, mapping, &err);
	if (fd >= 0) {
		got = pread(fd, text, sizeof(text) - 1, 0);
		assert_true(got >= 0);
		/* For reading only. */
		assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
		close(fd);
	}
	text[got] = '\0';
	maps_deinit(&maps);
	memfds_deinit(&memfds);
	return text;
}

/* Several files with the same name are told apart. */
static void found_by_their_inodes(void **state)
{
	int fds[FILES];
	void *maps[FILES];
	char number[16];

	(void)state;
	for (int i = 0; i < FILES; i++) {
		snprintf(number, sizeof(number), "%d", i);
		fds[i] = make(number);
		maps[i] = map(fds[i]);
	}
	for (int i = 0; i < FILES; i++) {
		snprintf(number, sizeof(number), "%d", i);
		assert_string_equal(content(getpid(), maps[i]), number);
	}
	/* Any descriptor of it will do; without one it cannot be opened. */
	fds[0] = (close(fds[0]), open("/dev/null", O_RDONLY));
	assert_string_equal(content(getpid(), maps[0]), "");
	assert_int_equal(dup2(fds[1], fds[0]), fds[0]);
	close(fds[1]);
	assert_string_equal(content(getpid(), maps[1]), "1");
	close(fds[0]);
	for (int i = 0; i < FILES; i++) {
		munmap(maps[i], 4096);
		if (i > 1)
			close(fds[i]);
	}
}

/* Descriptors of other files are not opened: that alone would block on a FIFO. */
static void nothing_else_is_opened(void **state)
{
	char path[] = "/tmp/probectl-test.XXXXXX", fifo[64];
	int fd = mkstemp(path), pipe;
	void *at;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	snprintf(fifo, sizeof(fifo), "%s.memfd:", path);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	pipe = open(fifo, O_RDWR);
	assert_true(pipe >= 0);
	/* A file of a file system has a path, and is not searched here. */
	at = map(fd);
	assert_string_equal(content(getpid(), at), "");
	munmap(at, 4096);
	unlink(path);
	unlink(fifo);
	close(fd);
	close(pipe);
}

static void of_another_process(void **state)
{
	int fd = make("shared"), ready[2], err;
	void *at = map(fd);
	pid_t child;
	char byte;

	(void)state;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		/* It has the mapping, and soon no descriptor. */
		if (read(ready[0], &byte, 1) != 1)
			_exit(1);
		closefrom(3);
		kill(getpid(), SIGSTOP);
		_exit(0);
	}
	assert_true(child > 0);
	assert_string_equal(content(child, at), "shared");
	assert_int_equal(write(ready[1], "x", 1), 1);
	waitpid(child, NULL, WUNTRACED);
	assert_string_equal(content(child, at), "");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	/* Removed completely. */
	assert_int_equal(
		memfds_open(&(struct memfds){0}, child, &(struct mapping){.inode = 1}, &err), -1);
	munmap(at, 4096);
	close(fd);
	close(ready[0]);
	close(ready[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_by_their_inodes),
		cmocka_unit_test(nothing_else_is_opened),
		cmocka_unit_test(of_another_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
