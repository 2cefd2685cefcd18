/* SPDX-License-Identifier: MIT */
/* What these examples share: an error ends them. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stdio.h>
#include <stdlib.h>

#include <probe/error.h>

static inline void check(struct probe_error *error)
{
	if (!error)
		return;
	fprintf(stderr, "%s\n", error->message);
	probe_error_free(error);
	exit(1);
}

/* There is no memory left: functions that only return a pointer say so by NULL. */
static inline void *there(void *pointer)
{
	if (!pointer)
		check(probe_error_no_memory());
	return pointer;
}

#endif
