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

#endif
