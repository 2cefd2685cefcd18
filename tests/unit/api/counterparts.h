/* SPDX-License-Identifier: MIT */
/*
 * What the tests of counterparts share: targets that are the test itself, started with the name of
 * a task, and changes of their probes.
 */
#ifndef TESTS_UNIT_API_COUNTERPARTS_H
#define TESTS_UNIT_API_COUNTERPARTS_H

#include "probe/target.h"

void ok(struct probe_error *error);
void fails_with(struct probe_error *error, enum probe_error_code code, const char *message);

typedef struct probe_error *change(struct probe_target *target, const struct probe_request *request,
	struct probe_report *report);

/* Changes the probes that the texts name. stopped_ret may be NULL: whether all threads were
 * stopped. */
struct probe_error *change_all(struct probe_target *target, change *how, bool atomic,
	const char *const *texts, size_t count, bool *stopped_ret);
struct probe_error *change_one(struct probe_target *target, change *how, const char *text);

/* The state of one of our probes (same:NAME), without its texts. */
struct probe_status state_of(struct probe_target *target, const char *name);
uint32_t refcount(struct probe_target *target, const char *name);

/* Starts a task; it is held. */
struct probe_target *spawn(const char *what, const char *first, const char *second);
int exit_status(pid_t pid);
void kill_target(struct probe_target *target);

#endif
