/* SPDX-License-Identifier: MIT */
/*
 * Makes a program kill itself right before its Nth step: a library for LD_PRELOAD. A step is
 * every call by which a controller changes a target or what it keeps there, and every wait for
 * one. PROBECTL_DIE_AT is N; the file named by PROBECTL_DIED gets the name of the call.
 *
 * So the tested program is the shipped one, not a special build.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long steps;

static void step(const char *call, long detail)
{
	const char *die_at = getenv("PROBECTL_DIE_AT"), *path = getenv("PROBECTL_DIED");

	if (!die_at || ++steps != strtoul(die_at, NULL, 10))
		return;
	if (path) {
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		dprintf(fd, "%s %#lx\n", call, (unsigned long)detail);
	}
	kill(getpid(), SIGKILL);
}

/* The next function of this name, of the same type as ours. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

long ptrace(enum __ptrace_request request, ...)
{
	void *address, *data;
	va_list ap;
	pid_t pid;

	va_start(ap, request);
	pid = va_arg(ap, pid_t);
	address = va_arg(ap, void *);
	data = va_arg(ap, void *);
	va_end(ap);
	step("ptrace", request);
	return REAL(ptrace)(request, pid, address, data);
}

ssize_t pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
	step("pwrite", offset);
	return REAL(pwrite)(fd, buffer, size, offset);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
	const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	step("process_vm_writev", (long)remote->iov_base);
	return REAL(process_vm_writev)(pid, local, local_count, remote, remote_count, flags);
}

int ftruncate(int fd, off_t length)
{
	step("ftruncate", length);
	return REAL(ftruncate)(fd, length);
}

int flock(int fd, int operation)
{
	step("flock", operation);
	return REAL(flock)(fd, operation);
}

int munmap(void *address, size_t length)
{
	step("munmap", (long)address);
	return REAL(munmap)(address, length);
}

int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	step("waitid", options);
	return REAL(waitid)(type, id, info, options);
}
