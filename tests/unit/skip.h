/* SPDX-License-Identifier: MIT */
/* Tests that cannot run here say why, and tests/run.sh shows it. */
#ifndef TESTS_UNIT_SKIP_H
#define TESTS_UNIT_SKIP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* Says why the case that runs is to be skipped. */
static inline void skip_reason(const char *reason)
{
	print_message("[  REASON  ] %s\n", reason);
}

/* Skips it. */
#define skip_because(reason)                                                                       \
	do {                                                                                       \
		skip_reason(reason);                                                               \
		skip();                                                                            \
	} while (0)

/* Returns what main() does if none of its cases can run. */
static inline int skip_all(const char *reason)
{
	puts(reason);
	return 77;
}

#endif
