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

/* Says why the case that runs is to be skipped, in the manner of printf(3). */
__attribute__((format(printf, 1, 2))) static inline void skip_reason(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	print_message("[  REASON  ] ");
	vprint_message(format, ap);
	print_message("\n");
	va_end(ap);
}

/* Skips it. */
#define skip_because(...)                                                                          \
	do {                                                                                       \
		skip_reason(__VA_ARGS__);                                                          \
		skip();                                                                            \
	} while (0)

/* Returns what main() does if none of its cases can run. */
static inline int skip_all(const char *reason)
{
	puts(reason);
	return 77;
}

#endif
