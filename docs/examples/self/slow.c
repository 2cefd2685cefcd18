/* SPDX-License-Identifier: MIT */
/*
 * A server that looks for its own slow requests, but only when somebody wants to know:
 * until then its probes are nops. It says of each slow one which it was and where its end
 * was reached from.
 *
 *	cc -O2 -g -rdynamic -o slow slow.c -lprobe
 *	./slow
 */
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>
#include <time.h>
#include <unistd.h>

#include <probe/self.h>

enum { REQUESTS = 6, SLOW_MS = 20, FRAMES = 32 };

/* ---- The server ------------------------------------------------------------------- */

__attribute__((noinline)) static void answer(const char *what, int work_ms)
{
	STAP_PROBE1(slow, request__start, what);
	usleep((useconds_t)work_ms * 1000);
	STAP_PROBE1(slow, request__done, what);
}

__attribute__((noinline)) static void serve(int number)
{
	char what[32];

	snprintf(what, sizeof(what), "request %d", number);
	answer(what, number == 4 ? 2 * SLOW_MS : 1);
}

/* ---- Looking at itself ------------------------------------------------------------- */

static void check(struct probe_error *error)
{
	if (!error)
		return;
	fprintf(stderr, "slow: %s\n", error->message);
	exit(1);
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static _Thread_local double begun_ms, took_ms;

static void on_start(const struct probe_self_hit *hit, void *data)
{
	(void)hit;
	(void)data;
	begun_ms = now_ms();
}

static void on_end(const struct probe_self_hit *hit, void *data)
{
	(void)hit;
	(void)data;
	took_ms = now_ms() - begun_ms;
}

static void on_done(const struct probe_self_hit *hit, void *data)
{
	const struct probe_value *what = &hit->args[0];
	void *frames[FRAMES];

	if (took_ms < *(const double *)data)
		return;
	printf("%.*s took long, from\n", (int)what->length, what->bytes);
	fflush(stdout);
	backtrace_symbols_fd(frames, backtrace(frames, FRAMES), STDOUT_FILENO);
}

int main(void)
{
	double limit_ms = SLOW_MS;

	serve(4); /* nobody looks */
	check(probe_self_register("slow:request__start", on_start, NULL));
	check(probe_self_register("slow:request__done(str(arg0))", on_done, &limit_ms));
	/* It is called before all others, so what they do is not part of the request's time. */
	check(probe_self_register_prio(
		"slow:request__done", PROBE_SELF_PRIORITY + 1, on_end, NULL));
	for (int i = 0; i < REQUESTS; i++)
		serve(i);
	check(probe_self_unregister("slow:request__done", on_end, NULL));
	check(probe_self_unregister("slow:request__done(str(arg0))", on_done, &limit_ms));
	check(probe_self_unregister("slow:request__start", on_start, NULL));
	serve(4); /* nor any more */
	return 0;
}
