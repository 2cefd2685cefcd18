/* SPDX-License-Identifier: MIT */
/*
 * A program that controls its own probes. It takes one command per line, and answers with one
 * line:
 *
 *	hit N			hits selftest:hit N times in each of THREADS threads: "hits TOTAL"
 *	begin, end		threads that hit all the time; "hits TOTAL", of all
 *	register PATTERN	counts by a function: "ok", or the error
 *	unregister PATTERN	"calls N", since it was registered; or the error
 *	enable|disable PATTERN	"ok", or the error
 *	status			"enabled REFCOUNT HITS" of selftest:hit
 *	open LIBRARY, close	dlopen() and dlclose(): "ok"
 *	poke			calls its poke(): "ok"
 *	update			of functions: "updated SITES", or the error
 *	cycle PATTERN N		registers and unregisters N times: "ok"
 *	follow, unfollow	libraries: "ok", or the error
 *	told			what was told of libraries since: "told SITES REFUSED ERRORS"
 *	race LIBRARY N		opens and closes it N times, while a thread cycles selftest:hit:
 * "ok"
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>

#include <probe/self.h>

#include "tests/targets/target.h"

enum { THREADS = 3 };

static atomic_long calls, total;
static atomic_bool done;
static pthread_t threads[THREADS];

__attribute__((noinline)) static void hit(long i)
{
	__asm__ volatile("" : : "r"(i));
	STAP_PROBE1(selftest, hit, i);
}

static void count(const struct probe_self_hit *h, void *data)
{
	(void)h;
	(void)data;
	calls++;
}

static void *hit_many(void *data)
{
	long number = *(long *)data;

	for (long i = 0; i < number || (number < 0 && !done); i++) {
		hit(i);
		total++;
	}
	return NULL;
}

static void begin(long *number)
{
	done = false;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, hit_many, number);
}

static void end(void)
{
	done = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* "ok", or the error. */
static void say(struct probe_error *error)
{
	printf("%s\n", error ? error->message : "ok");
	probe_error_free(error);
}

static struct probe_error *change(const char *text, bool enable)
{
	struct probe_report report = {0};
	struct probe_pattern *pattern;
	struct probe_error *error = probe_pattern_parse(text, &pattern);
	const struct probe_pattern *const patterns[] = {error ? NULL : pattern};
	const struct probe_request request = {.patterns = patterns, .pattern_count = 1};

	if (error)
		return error;
	error = enable ? probe_self_enable(&request, &report)
		       : probe_self_disable(&request, &report);
	probe_report_deinit(&report);
	probe_pattern_free(pattern);
	return error;
}

static void say_status(void)
{
	struct probe_status *states;
	size_t number;
	struct probe_error *error = probe_self_status(&states, &number);

	if (error) {
		say(error);
		return;
	}
	for (size_t i = 0; i < number; i++)
		if (!strcmp(states[i].provider, "selftest"))
			printf("enabled %u %ju\n", states[i].refcount, (uintmax_t)states[i].hits);
	free(states);
}

static struct probe_error *cycle(const char *pattern, long number)
{
	struct probe_error *error = NULL;

	for (long i = 0; i < number && !error; i++) {
		error = probe_self_register(pattern, count, &calls);
		if (!error)
			error = probe_self_unregister(pattern, count, &calls);
	}
	return error;
}

static void *library;

static void open_library(const char *path)
{
	library = dlopen(path, RTLD_NOW);
	printf("%s\n", library ? "ok" : dlerror());
}

static void poke(void)
{
	void (*function)(void) = (void (*)(void))(uintptr_t)dlsym(library, "poke");

	function();
	printf("ok\n");
}

static void update(void)
{
	struct probe_report report = {0};
	struct probe_error *error = probe_self_update(&report);

	if (error)
		say(error);
	else
		printf("updated %zu\n", report.sites);
	probe_report_deinit(&report);
}

static size_t told_sites, told_refused, told_errors;

static void told(const struct probe_report *report, const struct probe_error *error, void *data)
{
	(void)data;
	told_sites += report->sites;
	told_refused += report->refusal_count;
	told_errors += error != NULL;
}

static void say_told(void)
{
	printf("told %zu %zu %zu\n", told_sites, told_refused, told_errors);
	told_sites = told_refused = told_errors = 0;
}

static void *cycle_on(void *data)
{
	(void)data;
	while (!done) {
		struct probe_error *error = cycle("selftest:hit", 1);

		if (error)
			return error;
	}
	return NULL;
}

static void race(const char *path, long number)
{
	pthread_t changer;
	void *result;

	done = false;
	pthread_create(&changer, NULL, cycle_on, NULL);
	for (long i = 0; i < number; i++) {
		void *opened = dlopen(path, RTLD_NOW);

		if (!opened || dlclose(opened))
			printf("%s\n", dlerror());
	}
	done = true;
	pthread_join(changer, &result);
	say(result);
}

static void act(const char *command, const char *pattern, long number)
{
	struct probe_error *error;

	if (!strcmp(command, "begin")) {
		static long forever = -1;

		total = 0;
		begin(&forever);
		printf("ok\n");
	} else if (!strcmp(command, "end")) {
		end();
		printf("hits %ld\n", total);
	} else if (!strcmp(command, "status")) {
		say_status();
	} else if (!strcmp(command, "close")) {
		printf("%s\n", dlclose(library) ? dlerror() : "ok");
	} else if (!strcmp(command, "poke")) {
		poke();
	} else if (!strcmp(command, "update")) {
		update();
	} else if (!strcmp(command, "follow")) {
		say(probe_self_follow(told, NULL));
	} else if (!strcmp(command, "unfollow")) {
		say(probe_self_unfollow());
	} else if (!strcmp(command, "told")) {
		say_told();
	} else if (!strcmp(command, "race")) {
		race(pattern, number);
	} else if (!strcmp(command, "cycle")) {
		say(cycle(pattern, number));
	} else if (!strcmp(command, "register")) {
		calls = 0;
		say(probe_self_register(pattern, count, NULL));
	} else if (!strcmp(command, "unregister")) {
		error = probe_self_unregister(pattern, count, NULL);
		if (error)
			say(error);
		else
			printf("calls %ld\n", calls);
	} else {
		say(change(pattern, !strcmp(command, "enable")));
	}
}

int main(void)
{
	char line[512], command[16], pattern[400];
	long number;

	setvbuf(stdout, NULL, _IOLBF, 0);
	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	while (target_read_line(line, sizeof(line))) {
		number = 0;
		pattern[0] = '\0';
		if (sscanf(line, "hit %ld", &number) == 1) {
			total = 0;
			begin(&number);
			end();
			printf("hits %ld\n", total);
			continue;
		}
		if (sscanf(line, "open %399[^\n]", pattern) == 1) {
			open_library(pattern);
			continue;
		}
		if (sscanf(line, "%15s %399s %ld", command, pattern, &number) >= 1)
			act(command, pattern, number);
	}
	return 0;
}
