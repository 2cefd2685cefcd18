/* SPDX-License-Identifier: MIT */
/* The arguments that a pattern names. */
#ifndef LIBPROBE_NAMES_PATTERN_H
#define LIBPROBE_NAMES_PATTERN_H

#include <stdbool.h>

#include "arch/arch.h"
#include "probe/pattern.h"

/* An argument that a pattern requests. */
struct capture {
	unsigned char arg;			/* counted from 0, below 32 */
	struct arch_step steps[ARCH_STEPS_MAX]; /* from it to what is wanted */
	uint8_t step_count;
	bool is_string;
	bool has_length;      /* str(argN,argM) or, if it is not a string, bytes(argN,argM) */
	unsigned char length; /* M */
	bool of_begin;	      /* in expressions of pairs: begin.argN */
};

bool capture_is(const struct capture *a, const struct capture *b);

/* Does it name probes, and not match names by wildcards, a regex or a function? */
bool pattern_is_exact(const struct probe_pattern *pattern);

/*
 * Of several patterns that match a probe, the one with the highest value decides which arguments
 * are wanted: one that names it, and of those one that says which.
 */
int pattern_precision(const struct probe_pattern *pattern);

/* The one provider and name that it means, borrowed; false if it leaves either open. */
bool pattern_names(
	const struct probe_pattern *pattern, const char **provider_ret, const char **name_ret);

/* The list in parentheses; NULL if there is none, and all arguments are wanted. */
const struct capture *pattern_captures(const struct probe_pattern *pattern, size_t *count_ret);

#endif
