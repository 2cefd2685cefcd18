/* SPDX-License-Identifier: MIT */
/*
 * A probe in a constructor: passed before main() runs, or inside dlopen(). The argument
 * identifies the constructor.
 */
#ifndef TESTS_CTOR_H
#define TESTS_CTOR_H

#include <sys/sdt.h>

#define CTOR_DEFINE(NUMBER)                                                                        \
	__attribute__((constructor)) static void ctor_construct(void)                              \
	{                                                                                          \
		STAP_PROBE1(ctor, construct, NUMBER);                                              \
	}

#endif
