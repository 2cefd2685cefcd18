/* SPDX-License-Identifier: MIT */
/* The thread that writes large packets: jobs wait for the disk, and for nothing after an error. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/record/record.h"

enum { BYTES = 1 << 18 /* more than a pipe holds */ };

/* A pipe that holds 64 KiB, whatever the size of a page. */
static void open_pipe(int ends[2], int flags)
{
	assert_int_equal(pipe2(ends, O_CLOEXEC | flags), 0);
	assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, 65536), 65536);
}

static void give(struct ctf_writer *writer, int fd, uint8_t fill)
{
	struct ctf_job *job = ctf_writer_next(writer);

	assert_non_null(job);
	memset(job->memory, fill, BYTES);
	job->bytes = job->memory;
	job->size = BYTES;
	job->fd = fd;
	ctf_writer_give(writer);
}

static void read_job(int fd, uint8_t fill)
{
	static uint8_t bytes[BYTES];
	size_t count = 0;

	while (count < BYTES) {
		ssize_t n = read(fd, bytes + count, BYTES - count);

		assert_true(n > 0);
		count += (size_t)n;
	}
	for (size_t i = 0; i < BYTES; i++)
		assert_int_equal(bytes[i], fill);
}

static void test_waits(void **state)
{
	struct ctf_writer *writer = ctf_writer_create();
	int ends[2];

	(void)state;
	assert_non_null(writer);
	assert_true(writer->has_thread);
	open_pipe(ends, 0);
	for (uint8_t round = 0; round < 3; round++) {
		for (uint8_t i = 0; i < CTF_JOBS; i++)
			give(writer, ends[1], round + i);
		assert_null(ctf_writer_next(writer));
		assert_int_equal(ctf_writer_finished(writer, false), 0);
		for (uint8_t i = 0; i < CTF_JOBS; i++)
			read_job(ends[0], round + i);
		assert_int_equal(ctf_writer_finished(writer, true), CTF_JOBS);
		assert_null(ctf_writer_next(writer));
		for (size_t i = 0; i < CTF_JOBS; i++) {
			assert_true(ctf_writer_waiting(writer, 0)->done);
			ctf_writer_settle(writer);
		}
		assert_null(ctf_writer_waiting(writer, 0));
	}
	ctf_writer_free(writer);
	close(ends[0]);
	close(ends[1]);
}

static void test_fails(void **state)
{
	struct ctf_writer *writer = ctf_writer_create();
	int ends[2];

	(void)state;
	assert_non_null(writer);
	open_pipe(ends, O_NONBLOCK);
	/* It takes a part only. */
	give(writer, ends[1], 1);
	assert_int_equal(ctf_writer_finished(writer, true), 1);
	assert_false(ctf_writer_waiting(writer, 0)->done);
	give(writer, ends[1], 2);
	assert_int_equal(ctf_writer_finished(writer, true), 2);
	assert_false(ctf_writer_waiting(writer, 1)->done);
	ctf_writer_settle(writer);
	ctf_writer_settle(writer);
	close(ends[0]);
	close(ends[1]);
	/* Then it goes on. */
	open_pipe(ends, 0);
	give(writer, ends[1], 3);
	read_job(ends[0], 3);
	assert_int_equal(ctf_writer_finished(writer, true), 1);
	assert_true(ctf_writer_waiting(writer, 0)->done);
	ctf_writer_settle(writer);
	ctf_writer_free(writer);
	close(ends[0]);
	close(ends[1]);
}

/* Where no thread can be started, jobs are done at once. */
static void test_no_thread(void **state)
{
	struct ctf_writer *writer = ctf_writer_create();
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_non_null(writer);
	pthread_mutex_lock(&writer->lock);
	writer->over = true;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	worker_join(&writer->worker);
	writer->has_thread = false;
	give(writer, fd, 1);
	assert_int_equal(ctf_writer_finished(writer, false), 1);
	assert_true(ctf_writer_waiting(writer, 0)->done);
	ctf_writer_settle(writer);
	ctf_writer_free(writer);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_fails),
		cmocka_unit_test(test_no_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
