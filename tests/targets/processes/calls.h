/* SPDX-License-Identifier: MIT */
/* Numbers of system calls, which differ from machine to machine, by their names. */
#ifndef TESTS_CALLS_H
#define TESTS_CALLS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define CALL(name)                                                                                 \
	{                                                                                          \
#name, SYS_##name                                                                  \
	}

/* clang-format off */
static const struct {
	const char *name;
	uint32_t number;
} calls[] = {
	CALL(clone3), CALL(futex), CALL(kcmp), CALL(madvise), CALL(memfd_create), CALL(mmap),
	CALL(munmap), CALL(personality), CALL(prctl), CALL(process_vm_readv),
	CALL(process_vm_writev), CALL(ptrace), CALL(rt_sigprocmask), CALL(sched_getaffinity),
	CALL(sched_getattr), CALL(sched_setaffinity), CALL(sched_setattr), CALL(sched_yield),
};
/* clang-format on */

/* What is not in the list ends the program. */
static inline uint32_t call_number(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].number;
	fprintf(stderr, "calls.h has no %s\n", name);
	exit(2);
}

#endif
