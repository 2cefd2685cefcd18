/* SPDX-License-Identifier: MIT */
/* Several changes in one call: selectors, the order of actions, and what an error leaves. */
/* Not under ThreadSanitizer: nothing has threads. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/live.h"

enum { MOST = UINT16_MAX };

/* The patterns of the tests' actions. */
static struct probe_pattern *start, *done, *value, *regex, *ends, *nothing;

static bool is_end(const char *path, const char *provider, const char *name, void *data)
{
	(void)path;
	return strcmp(provider, "live") == 0 && strcmp(name + strlen(name) - 4, data) == 0;
}

static int setup(void **state)
{
	static char end[] = "done";

	live_ok(probe_pattern_parse("live:op__start", &start));
	live_ok(probe_pattern_parse("live:op__done", &done));
	live_ok(probe_pattern_parse("live:value", &value));
	live_ok(probe_pattern_parse("/^live:op__/", &regex));
	live_ok(probe_pattern_parse("live:nothing", &nothing));
	live_ok(probe_pattern_predicate("ends of things", is_end, end, &ends));
	return live_setup(state);
}

static int teardown(void **state)
{
	struct probe_pattern *all[] = {start, done, value, regex, ends, nothing};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		probe_pattern_free(all[i]);
	return live_teardown(state);
}

static struct probe_report report;

static struct probe_error *act(struct live *l, const struct probe_action *actions, size_t count,
	struct probe_request request)
{
	probe_report_deinit(&report);
	return probe_target_switch(l->target, actions, count, &request, &report);
}

#define ACT(l, request, ...)                                                                       \
	act(l, (const struct probe_action[]){__VA_ARGS__},                                         \
		sizeof((const struct probe_action[]){__VA_ARGS__}) / sizeof(struct probe_action),  \
		(struct probe_request)request)
#define PLAIN                                                                                      \
	{                                                                                          \
		.force = false                                                                     \
	}
#define FORCE                                                                                      \
	{                                                                                          \
		.force = true                                                                      \
	}
#define ENABLE(its_pattern)                                                                        \
	{                                                                                          \
		.pattern = (its_pattern)                                                           \
	}
#define DISABLE(its_pattern)                                                                       \
	{                                                                                          \
		.disable = true, .pattern = (its_pattern)                                          \
	}
#define PAIR(its_start, its_end)                                                                   \
	{                                                                                          \
		.pattern = (its_start), .end = (its_end)                                           \
	}

static void is_error(struct probe_error *error, enum probe_error_code code, const char *message)
{
	assert_non_null(error);
	assert_non_null(strstr(error->message, message));
	assert_int_equal(error->code, code);
	probe_error_free(error);
}

/* The reference counts of the target's probes, and that as many sites are patched. */
static void are(struct live *l, uint32_t starts, uint32_t dones, uint32_t values)
{
	struct probe_status *all;
	size_t count;

	live_ok(probe_target_status(l->target, &all, &count));
	for (size_t i = 0; i < count; i++) {
		uint32_t wanted = strcmp(all[i].name, "op__start") == 0	 ? starts
				  : strcmp(all[i].name, "op__done") == 0 ? dones
									 : values;

		if (strcmp(all[i].provider, "live") != 0)
			continue;
		assert_int_equal(all[i].refcount, wanted);
		assert_int_equal(all[i].patched, wanted ? all[i].sites : 0);
	}
	free(all);
}

static uint64_t hits_of_value(struct live *l)
{
	struct probe_status *all;
	uint64_t hits = 0;
	size_t count;

	live_ok(probe_target_status(l->target, &all, &count));
	for (size_t i = 0; i < count; i++)
		if (strcmp(all[i].name, "value") == 0)
			hits += all[i].hits;
	free(all);
	return hits;
}

/* Name, Pair, Regex, Predicate, All; each action counts by itself. */
static void selectors(void **state)
{
	struct live *l = *state;

	live_ok(ACT(l, PLAIN, ENABLE(value), PAIR(start, done), ENABLE(regex), ENABLE(ends)));
	are(l, 2, 3, 1);
	assert_int_equal(report.probes, 3);
	live_ok(ACT(l, PLAIN, DISABLE(value), DISABLE(ends), ENABLE(start)));
	are(l, 3, 2, 0);
	live_ok(ACT(l, FORCE, DISABLE(NULL)));
	are(l, 0, 0, 0);
	live_ok(ACT(l, FORCE, DISABLE(NULL), PAIR(start, done)));
	are(l, 1, 1, 0);
	live_ok(ACT(l, PLAIN, {.disable = true, .pattern = start, .end = done}));
	are(l, 0, 0, 0);
	live_ok(act(l, NULL, 0, (struct probe_request){.force = false}));
}

/* What is off cannot be disabled, even if it is enabled later in the list. */
static void in_their_order(void **state)
{
	struct live *l = *state;

	live_ok(ACT(l, PLAIN, ENABLE(start), DISABLE(start)));
	are(l, 0, 0, 0);
	assert_int_equal(report.stop_ns, 0);
	is_error(ACT(l, PLAIN, DISABLE(start), ENABLE(start)), PROBE_ERROR_STATE,
		"live:op__start is not enabled in process");
	are(l, 0, 0, 0);
	live_ok(ACT(l, {.keep_going = true}, DISABLE(start), ENABLE(start)));
	are(l, 1, 0, 0);
	live_ok(ACT(l, FORCE, ENABLE(start), DISABLE(start)));
	are(l, 0, 0, 0);
}

static void all_or_nothing(void **state)
{
	static const enum probe_plan none[] = {PROBE_PLAN_TOGGLE};
	struct probe_request impossible = {.plans = none, .plan_count = 1};
	struct live *l = *state;

	live_ok(ACT(l, PLAIN, ENABLE(value)));
	live_ok(ACT(l, PLAIN, ENABLE(value)));
	live_order(l, 'o');
	is_error(ACT(l, PLAIN, ENABLE(start), DISABLE(value), DISABLE(done)), PROBE_ERROR_STATE,
		"live:op__done is not enabled");
	are(l, 0, 0, 2);
	is_error(ACT(l, PLAIN, ENABLE(start), ENABLE(nothing)), PROBE_ERROR_NOT_FOUND,
		"live:nothing");
	is_error(ACT(l, PLAIN, PAIR(start, nothing)), PROBE_ERROR_NOT_FOUND, "live:nothing");
	are(l, 0, 0, 2);
	/* Sites that cannot be patched: what is disabled before stays on, and so do its hits. */
	is_error(
		act(l, (const struct probe_action[]){DISABLE(value), DISABLE(value), ENABLE(start)},
			3, impossible),
		PROBE_ERROR_REFUSED, "so nothing is changed");
	assert_int_equal(report.refusal_count, 1);
	assert_int_equal(report.probes, 0);
	are(l, 0, 0, 2);
	assert_int_equal(hits_of_value(l), HITS);
	live_ok(ACT(l, PLAIN, DISABLE(value), DISABLE(value)));
	are(l, 0, 0, 0);
}

static void counts(void **state)
{
	struct probe_action *many = calloc(MOST + 1, sizeof(*many));
	struct live *l = *state;

	assert_non_null(many);
	for (size_t i = 0; i <= MOST; i++)
		many[i].pattern = value;
	is_error(act(l, many, MOST + 1, (struct probe_request){.force = false}), PROBE_ERROR_STATE,
		"already at its maximum");
	are(l, 0, 0, 0);
	live_ok(act(l, many, MOST, (struct probe_request){.force = false}));
	are(l, 0, 0, MOST);
	is_error(ACT(l, PLAIN, ENABLE(start), ENABLE(value)), PROBE_ERROR_STATE,
		"already at its maximum");
	are(l, 0, 0, MOST);
	/* The state, whatever the count. */
	live_ok(ACT(l, FORCE, ENABLE(value)));
	are(l, 0, 0, 1);
	live_ok(ACT(l, PLAIN, ENABLE(value), ENABLE(value)));
	live_ok(ACT(l, FORCE, DISABLE(value)));
	are(l, 0, 0, 0);
	live_ok(ACT(l, FORCE, DISABLE(value)));
	are(l, 0, 0, 0);
	free(many);
}

static void held(void **state)
{
	struct live *l = *state;

	live_ok(ACT(l, PLAIN, ENABLE(value)));
	live_ok(ACT(l, {.atomic = true}, DISABLE(value), ENABLE(start)));
	are(l, 1, 0, 0);
	assert_true(report.stop_ns > 0);
	/* It runs again. */
	live_order(l, '1');
	live_ok(probe_target_attach(l->target));
	live_ok(ACT(l, {.atomic = true}, DISABLE(start), ENABLE(done)));
	are(l, 0, 1, 0);
	live_ok(probe_target_release(l->target));
	live_ok(ACT(l, {.atomic = true}, DISABLE(done)));
	are(l, 0, 0, 0);
}

static void usage(void **state)
{
	const struct probe_pattern *three[] = {start, done, value};
	struct probe_request request = {.patterns = three, .pattern_count = 3, .pairs = true};
	struct live *l = *state;

	is_error(probe_target_enable(l->target, &request, &report), PROBE_ERROR_USAGE,
		"3 patterns are no pairs: each start needs an end");
	is_error(probe_target_disable(l->target, &request, &report), PROBE_ERROR_USAGE,
		"3 patterns are no pairs: each start needs an end");
	is_error(act(l, NULL, 0, request), PROBE_ERROR_USAGE, "the request has no patterns");
	is_error(
		ACT(l, PLAIN, {.end = done}), PROBE_ERROR_USAGE, "a pair has an end, but no start");
	are(l, 0, 0, 0);
}

static void executable(void **state)
{
	struct live *l = *state;
	char own[4096] = {0}, *path;
	struct probe_target *target;
	pid_t pid;

	live_ok(probe_target_executable(l->target, &path));
	assert_true(readlink("/proc/self/exe", own, sizeof(own) - 1) > 0);
	assert_string_equal(path, own);
	/* What it says can be asked for. */
	live_ok(probe_target_open(l->pid, path, &target));
	probe_target_close(target);
	free(path);
	is_error(probe_target_open(l->pid, "/bin/true", &target), PROBE_ERROR_STATE,
		"does not run /bin/true but ");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		for (;;)
			pause();
	live_ok(probe_target_open(pid, NULL, &target));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	is_error(probe_target_executable(target, &path), PROBE_ERROR_NOT_FOUND, "no process");
	probe_target_close(target);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(selectors, setup, teardown),
		cmocka_unit_test_setup_teardown(in_their_order, setup, teardown),
		cmocka_unit_test_setup_teardown(all_or_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(counts, setup, teardown),
		cmocka_unit_test_setup_teardown(held, setup, teardown),
		cmocka_unit_test_setup_teardown(usage, setup, teardown),
		cmocka_unit_test_setup_teardown(executable, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
