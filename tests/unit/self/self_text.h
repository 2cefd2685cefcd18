/* SPDX-License-Identifier: MIT */
/* Shared by the tests of a process's own probes. */
#ifndef TESTS_UNIT_SELF_TEXT_H
#define TESTS_UNIT_SELF_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe/self.h"

/* Fails the test where there is an error. */
void self_ok(struct probe_error *error);
/* Fails unless there is an error of this code, whose message has this text in it. */
void self_fails(struct probe_error *error, enum probe_error_code code, const char *text);

/* Keeps a copy of the program's text, and compares it with what is there now. */
void self_text_save(void);
void self_text_same(void);
/* No memory of ours is mapped. */
void self_nothing_left(void);

/* A pattern for requests that is good until the process ends. */
const struct probe_request *self_request(const char *pattern);
/* Does it, with a report that nobody looks at. */
void self_enable(const char *pattern);
void self_disable(const char *pattern);
/* The state of one probe of the program itself. */
struct probe_status self_status(const char *provider, const char *name);

/* The child of a fork that has to end with status 0. */
void self_join(pid_t child);

#endif
