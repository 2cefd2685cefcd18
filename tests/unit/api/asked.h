/* SPDX-License-Identifier: MIT */
/* A probe that says in its task's exit status whether it was enabled: 4, otherwise 3. */
#ifndef TESTS_UNIT_API_ASKED_H
#define TESTS_UNIT_API_ASKED_H

/* This gives every probe a semaphore. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "tests/unit/room.h"

#define SEMAPHORE(name)                                                                            \
	__attribute__((section(".probes"))) volatile unsigned short same_##name##_semaphore
SEMAPHORE(asked);

/* No patch may cross a page boundary: these functions do not, wherever they are loaded. */
#define WHOLE __attribute__((noinline, aligned(2048)))

WHOLE static int run_asked(char **argv)
{
	(void)argv;
	if (!same_asked_semaphore)
		return 3;
	STAP_PROBE1(same, asked, 1);
	ROOM();
	return 4;
}

#endif
