/* SPDX-License-Identifier: MIT */
/* Lists of arguments, as patterns end with them: (arg0, str(arg1)). */
#ifndef LIBPROBE_QUERY_CAPTURES_H
#define LIBPROBE_QUERY_CAPTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"

enum { CAPTURES_MAX = 32 };

/* An argument, or what it points to, that a list or an expression requests. */
struct capture {
	unsigned char arg;			/* counted from 0, below 32 */
	struct arch_step steps[ARCH_STEPS_MAX]; /* from it to what is wanted */
	uint8_t step_count;
	bool has_index; /* steps count items of an array, as another argument says */
	unsigned char index;
	bool is_string;
	bool is_symbol;	       /* sym(argN): of a list, shown as the name of that address */
	bool has_length;       /* str(argN,argM) or, if it is not a string, bytes(argN,argM) */
	unsigned char length;  /* M; or arg, if the length is a number: */
	uint16_t fixed_length; /* not 0: str(argN,32) or bytes(argN,32) */
	bool of_begin;	       /* in expressions of pairs: begin.argN */
	bool beside;	       /* the string beside the number, and not in its place */
};

bool capture_is(const struct capture *a, const struct capture *b);

/*
 * Parses the list whose opening parenthesis is at *at, and which ends the text. Returns NULL; or
 * what was expected, with *at where.
 */
const char *captures_parse(
	const char **at, struct capture captures[CAPTURES_MAX], size_t *count_ret);

#endif
