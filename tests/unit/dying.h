/* SPDX-License-Identifier: MIT */
/* A controller that kills itself before one of its steps: a ptrace(2) request, or another one. */
#ifndef TESTS_UNIT_DYING_H
#define TESTS_UNIT_DYING_H

#include <sys/types.h>

/* It dies before its Nth step from now on; 0: never. */
extern unsigned int dying_before;
/* Who gets SIGUSR1 right before; 0: nobody. */
extern pid_t dying_signals;

/* To be called before each step that is no request of ptrace(2). */
void dying_step(void);

#endif
