/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/unit/api/counterparts.h"

void ok(struct probe_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

void fails_with(struct probe_error *error, enum probe_error_code code, const char *message)
{
	assert_non_null(error);
	assert_string_equal(error->message, message);
	assert_int_equal(error->code, code);
	probe_error_free(error);
}

struct probe_error *change_all(struct probe_target *target, change *how, bool atomic,
	const char *const *texts, size_t count, bool *stopped_ret)
{
	struct probe_pattern *patterns[8];
	struct probe_request request = {.patterns = (const struct probe_pattern *const *)patterns,
		.pattern_count = count,
		.atomic = atomic};
	struct probe_report report = {0};
	struct probe_error *error;

	assert_true(count <= 8);
	for (size_t i = 0; i < count; i++)
		ok(probe_pattern_parse(texts[i], &patterns[i]));
	error = how(target, &request, &report);
	if (stopped_ret)
		*stopped_ret = report.stop_ns > 0;
	probe_report_deinit(&report);
	for (size_t i = 0; i < count; i++)
		probe_pattern_free(patterns[i]);
	return error;
}

struct probe_error *change_one(struct probe_target *target, change *how, const char *text)
{
	return change_all(target, how, false, &text, 1, NULL);
}

struct probe_status state_of(struct probe_target *target, const char *name)
{
	struct probe_status *states, found = {.refcount = UINT32_MAX};
	size_t count;

	ok(probe_target_status(target, &states, &count));
	for (size_t i = 0; i < count; i++)
		if (strcmp(states[i].provider, "same") == 0 && strcmp(states[i].name, name) == 0)
			found = states[i];
	free(states);
	found.provider = found.name = found.path = NULL;
	return found;
}

uint32_t refcount(struct probe_target *target, const char *name)
{
	return state_of(target, name).refcount;
}

struct probe_target *spawn(const char *what, const char *first, const char *second)
{
	char *argv[] = {"/proc/self/exe", (char *)what, (char *)first, (char *)second, NULL};
	struct probe_target *target;

	ok(probe_target_spawn(argv, &target));
	return target;
}

int exit_status(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

void kill_target(struct probe_target *target)
{
	kill(probe_target_pid(target), SIGKILL);
	waitpid(probe_target_pid(target), NULL, 0);
	probe_target_close(target);
}
