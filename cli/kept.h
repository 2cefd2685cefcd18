/* SPDX-License-Identifier: MIT */
/*
 * Kept sessions. `enable -t TRACER` leaves a session in a process, with the words of the command
 * line that define it. `read` and other commands make the tracer again from these words.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options.h"
#include "cli/request.h"
#include "cli/trace/tracer_option.h"

/* All options that define a kept session. Initialise with {0}. */
struct kept_options {
	struct common_options common;
	struct request_options request;
	struct tracer_options tracer;
	uint64_t ring_bytes, string_bytes;
	const char *file;
	uint64_t since_ns; /* time at which the session was started, CLOCK_REALTIME */
	/* The keys as the user typed them. Empty if no key contains a name of an argument. */
	struct string_list key_names;
	/* When reading, the PROBEs whose lists were typed with names of debug information. */
	struct string_list typed;
};

/* clang-format off */
#define OPTIONS_KEPT(options)                                                                      \
	OPTIONS_TRACER(&(options)->tracer),                                                        \
	OPTION('s', "strings", NUMBER, "N", &(options)->string_bytes,                              \
		"with -t: keep up to N bytes of each string"),                                     \
	OPTION('b', "buffer", SIZE, NULL, &(options)->ring_bytes,                                  \
		"with -t ring: size of the ring buffer of each CPU"),                              \
	OPTION(0, "file", STRING, "PATH", &(options)->file,                                        \
		"with -t ring: keep the hits in this file, which outlives the process")
/* clang-format on */

enum {
	OPTIONS_KEPT_ROWS = sizeof((struct option_row[]){OPTIONS_KEPT((struct kept_options *)0)}) /
			    sizeof(struct option_row)
};

/* Returns true if the options request a tracer. */
bool kept_is_wanted(const struct kept_options *options);

/* Makes the tracer and the request of a parsed command line. Free with tracers_free(ret, 1). */
PROBE_MUST_CHECK struct probe_error *kept_tracer(
	struct kept_options *options, struct trace_tracer **ret);

/*
 * Starts a session and leaves it in the target. Errors: as probe_session_start(),
 * probe_session_leave().
 */
PROBE_MUST_CHECK struct probe_error *kept_start(struct probe_target *target,
	const struct kept_options *options, const struct trace_tracer *tracer,
	struct probe_report *report);

/*
 * Parses the words that a process holds, which are not trusted. `ret` points into *words_ret. Free
 * `ret` with kept_deinit() and *words_ret with free().
 */
PROBE_MUST_CHECK struct probe_error *kept_parse(
	const char *text, struct kept_options *ret, char ***words_ret);
void kept_deinit(struct kept_options *options);

/* Returns the words as a user would type them, without the start time. The caller frees them. */
char *kept_title(const char *text);
