/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/stub/stub_crowd.h"

enum { THREADS_MAX = 64, STORM_INTERVAL_NS = 150000 };

struct crowd {
	crowd_work *work;
	void *data;
	uint32_t hits;
	bool storm;
	atomic_ulong signals;
};

/* This thread's crowd and timer, for its signal handler. */
static __thread struct crowd *current;
static __thread timer_t timer;
static __thread atomic_ulong seen;

/* Once: where a handler takes longer than this, the thread gets on nevertheless. */
static int set_timer(void)
{
	const struct itimerspec once = {.it_value.tv_nsec = STORM_INTERVAL_NS};

	return timer_settime(timer, 0, &once, NULL);
}

static void on_signal(int signal)
{
	int saved = errno;

	(void)signal;
	current->work(current->data, atomic_fetch_add(&current->signals, 1));
	atomic_fetch_add(&seen, 1);
	set_timer();
	errno = saved;
}

/* Returns once it rages. */
static void start_storm(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};

	event._sigev_un._tid = gettid();
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	assert_int_equal(set_timer(), 0);
	while (!atomic_load(&seen))
		;
}

static void *working(void *data)
{
	struct crowd *crowd = data;

	current = crowd;
	if (crowd->storm)
		start_storm();
	for (uint32_t i = 0; i < crowd->hits; i++)
		crowd->work(crowd->data, i);
	if (crowd->storm)
		timer_delete(timer);
	return NULL;
}

uint64_t crowd_run(crowd_work *work, void *data, int threads, uint32_t hits, bool storm)
{
	struct crowd crowd = {.work = work, .data = data, .hits = hits, .storm = storm};
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
	pthread_t ids[THREADS_MAX];

	assert_true(threads <= THREADS_MAX);
	assert_int_equal(sigaction(SIGALRM, &act, &before), 0);
	for (int i = 0; i < threads; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, working, &crowd), 0);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
	return crowd.signals;
}
