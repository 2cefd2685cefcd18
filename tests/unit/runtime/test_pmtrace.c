/* SPDX-License-Identifier: MIT */
/*
 * The table of tags, in threads and children; tests/integration/runtime/pmtrace.sh tests return
 * values.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "libprobe/runtime/pmtrace/tags.h"
#include "probe/pmtrace.h"

/* ---- Threads ------------------------------------------------------------------------------ */

enum { THREADS = 8, ROUNDS = 2000, TAGS = 3000 };

static atomic_int begun, ended, inside;

/* A thread that begins a transaction owns it until it ends. */
static void *contend(void *data)
{
	uint64_t number;

	(void)data;
	for (int i = 0; i < ROUNDS; i++) {
		while (tags_begin("contended", &number) == PMTRACE_ERR_INPROGRESS)
			sched_yield();
		atomic_fetch_add(&begun, 1);
		if (atomic_fetch_add(&inside, 1) != 0)
			return "two were inside";
		atomic_fetch_sub(&inside, 1);
		if (tags_end("contended", &number) != 0)
			return "the end of what was begun";
		atomic_fetch_add(&ended, 1);
	}
	return NULL;
}

/* All threads add the same tags; each tag gets one number. */
static void *add_all(void *data)
{
	static _Atomic uint64_t numbers[TAGS];
	uint64_t number, none;
	char tag[32];

	for (int i = 0; i < TAGS; i++) {
		int which = (i + (int)(intptr_t)data * 371) % TAGS;

		snprintf(tag, sizeof(tag), "tag %d", which);
		while (tags_begin(tag, &number) == PMTRACE_ERR_INPROGRESS)
			sched_yield();
		none = 0;
		if (!atomic_compare_exchange_strong(&numbers[which], &none, number) &&
			none != number)
			return "a tag with two numbers";
		if (tags_end(tag, &number) != 0)
			return "the end of a tag";
	}
	return NULL;
}

static void run_threads(void *(*function)(void *))
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, function, (void *)(intptr_t)i), 0);
	for (int i = 0; i < THREADS; i++) {
		void *wrong;

		pthread_join(threads[i], &wrong);
		if (wrong)
			fail_msg("%s", (const char *)wrong);
	}
}

static void one_of_many_begins(void **state)
{
	(void)state;
	run_threads(contend);
	assert_int_equal(begun, THREADS * ROUNDS);
	assert_int_equal(ended, THREADS * ROUNDS);
}

static void one_number_for_a_tag(void **state)
{
	uint64_t first, second;

	(void)state;
	run_threads(add_all);
	assert_int_equal(tags_begin("tag 1", &first), 0);
	assert_int_equal(tags_begin("tag 2", &second), 0);
	assert_int_not_equal(first, second);
	assert_int_equal(tags_end("tag 1", &first), 0);
	assert_int_equal(tags_end("tag 2", &second), 0);
}

/* ---- Children ----------------------------------------------------------------------------- */

/* Forked while other threads add tags: the child's table is complete, and its own. */
static void *fork_once(void *data)
{
	int status = 0;
	pid_t child;

	(void)data;
	child = fork();
	if (child == 0) {
		uint64_t number;

		if (tags_end("before", &number) != PMTRACE_ERR_NOSUCHTAG)
			_exit(1);
		if (tags_begin("of a child", &number) != 0 || tags_begin("before", &number) != 0)
			_exit(2);
		_exit(tags_end("before", &number) == 0 ? 0 : 3);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		return "the child found its table otherwise";
	return NULL;
}

static void *fork_or_add(void *data)
{
	return (intptr_t)data % 2 ? fork_once(data) : add_all(data);
}

static void a_child_has_none(void **state)
{
	uint64_t number;

	(void)state;
	assert_int_equal(tags_begin("before", &number), 0);
	run_threads(fork_or_add);
	assert_int_equal(tags_begin("before", &number), PMTRACE_ERR_INPROGRESS);
	assert_int_equal(tags_end("before", &number), 0);
}

/* ---- Codes ---------------------------------------------------------------------------------- */

static void codes_far_out(void **state)
{
	(void)state;
	assert_string_equal(pmtraceerrstr(INT_MIN), "Unknown error code.");
	assert_string_equal(pmtraceerrstr(INT_MAX), "Unknown error code.");
	assert_string_equal(pmtraceerrstr(-ENOMEM), strerror(ENOMEM));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_of_many_begins),
		cmocka_unit_test(one_number_for_a_tag),
		cmocka_unit_test(a_child_has_none),
		cmocka_unit_test(codes_far_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
