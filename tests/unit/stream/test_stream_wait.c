/* SPDX-License-Identifier: MIT */
/* Waiting for events of a stream: timeouts, several threads, signals, and the end. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/stream/stream.h"
#include "tests/unit/stream/stream_live.h"
#include "tests/unit/wait.h"

static const struct probe_stream_options roomy = {
	.policy = PROBE_STREAM_UNTIL_FULL, .stream_bytes = 1 << 24};

static void end(struct probe_stream *stream)
{
	live_ok(probe_stream_shutdown(stream));
}

static struct timespec in_ns(int64_t ns)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	ns += time.tv_nsec;
	time.tv_sec += ns / 1000000000 - (ns < 0);
	time.tv_nsec = ns % 1000000000 + (ns % 1000000000 < 0 ? 1000000000 : 0);
	return time;
}

static void test_timed(void **state)
{
	struct live *l = *state;
	struct probe_stream *stream = stream_of(l, "live:op__start", NULL);
	struct timespec past = in_ns(-1000000000), soon = in_ns(30000000), bad = {.tv_nsec = -1};
	struct probe_stream_event event;
	bool there;

	is_error(probe_stream_next(stream, NULL, 0, &past, &event, &there), ETIMEDOUT);
	is_error(probe_stream_next(stream, NULL, 0, &soon, &event, &there), ETIMEDOUT);
	soon = in_ns(0);
	is_error(probe_stream_next(stream, NULL, 0, &bad, &event, &there), EINVAL);
	bad.tv_nsec = 1000000000;
	is_error(probe_stream_next(stream, NULL, 0, &bad, &event, &there), EINVAL);
	live_ok(probe_stream_next(stream, NULL, 0, &no_wait, &event, &there));
	assert_false(there);
	/* If an event is available, the time is not checked. */
	live_ok(probe_stream_start(stream));
	live_ok(probe_stream_next(stream, NULL, 0, &past, &event, &there));
	assert_true(there && event.type == PROBE_STREAM_START);
	live_order(l, '1');
	live_ok(probe_stream_next(stream, NULL, 0, &bad, &event, &there));
	assert_true(there);
	end(stream);
}

/* Threads that wait: each event goes to one of them, and all of them see the end. */
struct readers {
	struct probe_stream *stream;
	atomic_long values, others;
	atomic_int ended;
};

static void *read_on(void *data)
{
	struct readers *r = data;

	for (;;) {
		_Alignas(struct probe_value) char memory[256];
		struct probe_stream_event event;
		bool there;
		struct probe_error *error =
			probe_stream_next(r->stream, memory, sizeof(memory), NULL, &event, &there);

		if (error) {
			r->ended += error->err == EINVAL;
			probe_error_free(error);
			return NULL;
		}
		*(there && event.type > PROBE_STREAM_UNNAMED ? &r->values : &r->others) += 1;
	}
}

static unsigned int threads_inside(struct probe_stream *stream)
{
	unsigned int ret;

	pthread_mutex_lock(&stream->lock);
	ret = (unsigned int)stream->users;
	pthread_mutex_unlock(&stream->lock);
	return ret;
}

static void test_readers(void **state)
{
	struct live *l = *state;
	struct readers r = {.stream = stream_of(l, "live:value", &roomy)};
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_on, &r), 0);
	live_ok(probe_stream_start(r.stream));
	live_order(l, 'v');
	/* A call that begins after the end would find no stream. */
	wait_until(r.values >= THREADS * HITS && threads_inside(r.stream) == 4);
	end(r.stream);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(r.values, THREADS * HITS);
	assert_int_equal(r.others, 1); /* the start */
	assert_int_equal(r.ended, 4);
}

static void nothing(int signal)
{
	(void)signal;
}

struct waiter {
	struct probe_stream *stream;
	atomic_bool over;
	int err;
};

static void *wait_for_signal(void *data)
{
	struct waiter *w = data;
	struct probe_stream_event event;
	bool there;
	struct probe_error *error = probe_stream_next(w->stream, NULL, 0, NULL, &event, &there);

	w->err = error ? error->err : 0;
	probe_error_free(error);
	w->over = true;
	return NULL;
}

static void test_interrupted(void **state)
{
	struct live *l = *state;
	struct waiter w = {.stream = stream_of(l, "live:op__start", NULL)};
	struct sigaction action = {.sa_handler = nothing}, before;
	pthread_t thread;

	sigaction(SIGUSR1, &action, &before);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_signal, &w), 0);
	/* It may not wait yet. */
	while (!w.over) {
		pthread_kill(thread, SIGUSR1);
		usleep(1000);
	}
	pthread_join(thread, NULL);
	assert_int_equal(w.err, EINTR);
	sigaction(SIGUSR1, &before, NULL);
	end(w.stream);
}

/* A target that has ended has no more events once they are read. */
static void test_target_ends(void **state)
{
	struct live *l = *state;
	struct probe_stream *stream = stream_of(l, "live:op__start", NULL);
	uint32_t type = type_of(stream, "live:op__start");
	struct seen seen;
	bool there;

	live_ok(probe_stream_start(stream));
	live_order(l, '1');
	kill(l->pid, SIGKILL);
	wait_until(!probe_target_alive(l->target));
	next_is(stream, &seen, PROBE_STREAM_START);
	next_is(stream, &seen, type);
	live_ok(probe_stream_next(stream, NULL, 0, NULL, &seen.event, &there));
	assert_false(there);
	live_ok(probe_stream_shutdown(stream));
}

int main(void)
{
#define LIVE(test) cmocka_unit_test_setup_teardown(test, live_setup, live_teardown)
	const struct CMUnitTest tests[] = {
		LIVE(test_timed),
		LIVE(test_readers),
		LIVE(test_interrupted),
		LIVE(test_target_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
