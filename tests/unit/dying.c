/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdarg.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/dying.h"

unsigned int dying_before;
pid_t dying_signals;

void dying_step(void)
{
	if (!dying_before || --dying_before)
		return;
	if (dying_signals)
		kill(dying_signals, SIGUSR1);
	kill(getpid(), SIGKILL);
}

/* The functions that the library calls. */
long ptrace(enum __ptrace_request request, ...)
{
	void *address, *data;
	va_list args;
	pid_t pid;

	va_start(args, request);
	pid = va_arg(args, pid_t);
	address = va_arg(args, void *);
	data = va_arg(args, void *);
	va_end(args);
	dying_step();
	return syscall(SYS_ptrace, request, pid, address, data);
}
