/* SPDX-License-Identifier: MIT */
/*
 * Signals and interrupted system calls around probes.
 *
 *	signals storm SECONDS
 *		hits signals:main in a loop while a timer's handler hits
 *		signals:handler; prints "main N handler M".
 *	signals sleep SECONDS
 *		threads wait in nanosleep, poll, read and futex while the test
 *		stops and continues the process; each call must return only with
 *		its own result, and not too early. Prints "calls N wrong M".
 *
 * Both wait for a line before and after.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "../target.h"

enum { SLEEP_MS = 150, LATE_MS = 10000 };

static volatile sig_atomic_t handler_hits;
static volatile bool stopping;
static unsigned int calls, wrong;
static int pipe_ends[2];

__attribute__((noinline)) static void on_alarm(int number)
{
	handler_hits++;
	STAP_PROBE2(signals, handler, number, handler_hits);
}

static void storm(double seconds)
{
	struct itimerval interval = {{0, 100}, {0, 100}};
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	uint64_t end = target_now_ns() + (uint64_t)(seconds * 1e9), hits = 0;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &interval, NULL);
	do {
		for (int i = 0; i < 1000; i++) {
			hits++;
			STAP_PROBE1(signals, main, hits);
		}
	} while (target_now_ns() < end);
	setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
	printf("main %llu handler %lld\n", (unsigned long long)hits, (long long)handler_hits);
}

/* A call that must last at least this long, and must end, however busy the machine is. */
static void check(const char *what, bool good, uint64_t begin, uint64_t least_ms)
{
	uint64_t ms = (target_now_ns() - begin) / 1000000;
	int error = errno;

	__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
	if (good && ms >= least_ms && ms < SLEEP_MS + LATE_MS)
		return;
	__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
	fprintf(stderr, "signals: %s: %s after %llu ms: %s\n", what, good ? "done" : "wrong result",
		(unsigned long long)ms, strerror(error));
}

static void *sleeper(void *data)
{
	(void)data;
	while (!stopping) {
		struct timespec request = {0, SLEEP_MS * 1000000};
		uint64_t begin = target_now_ns();

		check("nanosleep", syscall(SYS_nanosleep, &request, NULL) == 0, begin, SLEEP_MS);
	}
	return NULL;
}

static void *poller(void *data)
{
	(void)data;
	while (!stopping) {
		struct pollfd never = {.fd = -1};
		uint64_t begin = target_now_ns();

		check("poll", poll(&never, 1, SLEEP_MS) == 0, begin, SLEEP_MS);
	}
	return NULL;
}

static void *reader(void *data)
{
	(void)data;
	for (;;) {
		uint64_t begin = target_now_ns();
		char byte = 0;
		bool good = read(pipe_ends[0], &byte, 1) == 1;

		if (byte == 'q')
			return NULL;
		check("read", good, begin, 0); /* it may begin when the byte is nearly there */
	}
}

static void *futex_waiter(void *data)
{
	uint32_t word = 0;

	(void)data;
	while (!stopping) {
		struct timespec timeout = {0, SLEEP_MS * 1000000};
		uint64_t begin = target_now_ns();
		long result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &timeout, NULL, 0);

		check("futex", result == -1 && errno == ETIMEDOUT, begin, SLEEP_MS);
	}
	return NULL;
}

/* Feeds the reader, and is itself a thread that computes. */
static void sleep_calls(double seconds)
{
	void *(*const bodies[])(void *) = {sleeper, poller, reader, futex_waiter};
	uint64_t end = target_now_ns() + (uint64_t)(seconds * 1e9);
	pthread_t threads[4];
	uint64_t hits = 0;

	if (pipe(pipe_ends) != 0)
		exit(1);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, bodies[i], NULL);
	while (target_now_ns() < end) {
		uint64_t next = target_now_ns() + (SLEEP_MS + 20) * 1000000u;

		while (target_now_ns() < next) {
			hits++;
			STAP_PROBE1(signals, main, hits);
		}
		if (write(pipe_ends[1], "x", 1) != 1)
			exit(1);
	}
	stopping = true;
	if (write(pipe_ends[1], "q", 1) != 1)
		exit(1);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("calls %u wrong %u\n", calls, wrong);
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? atof(argv[2]) : 1;

	target_allow_tracing();
	target_wait();
	if (argc > 1 && strcmp(argv[1], "sleep") == 0)
		sleep_calls(seconds);
	else
		storm(seconds);
	fflush(stdout);
	target_wait();
	return wrong ? 1 : 0;
}
