/* SPDX-License-Identifier: MIT */
/*
 * Makes the Nth request of a program fail: a library for LD_PRELOAD. PROBECTL_FAIL selects the
 * request, as `memory:N`, or `memory:N-` for the Nth and all later ones:
 *
 *	memory       malloc() and related functions, mmap(): ENOMEM. The C library's own
 *	             allocations (fopen(), opendir(), strdup(), asprintf()) go through
 *	             malloc(), too
 *	descriptors  every call that returns a new one: EMFILE
 *	processes    fork(), pthread_create(): EAGAIN
 *
 * A forked child continues counting separately. After a failure, the file named by
 * PROBECTL_FAILED contains the name of the call. Other programs that ours starts are not
 * affected.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <unistd.h>

/* glibc's own names: they need no dlsym(), which allocates. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static atomic_ulong requests;

static bool is_ours(void)
{
	return program_invocation_short_name &&
	       strcmp(program_invocation_short_name, "probectl") == 0;
}

static void tell(const char *call, unsigned long number)
{
	const char *path = getenv("PROBECTL_FAILED");
	int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
	char line[80];
	int fd = path && real ? real(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;

	if (fd < 0)
		return;
	if (write(fd, line, (size_t)snprintf(line, sizeof(line), "%s %lu\n", call, number)) < 0)
		return;
	close(fd);
}

/* Must this request fail? */
static bool fails(const char *kind, const char *call, int err)
{
	static _Thread_local bool inside;
	const char *what = getenv("PROBECTL_FAIL");
	size_t length = strlen(kind);
	unsigned long wanted, number;
	char *end;

	if (inside || !what || strncmp(what, kind, length) || what[length] != ':' || !is_ours())
		return false;
	number = atomic_fetch_add(&requests, 1) + 1;
	wanted = strtoul(what + length + 1, &end, 10);
	if (number != wanted && !(*end == '-' && number > wanted))
		return false;
	if (number == wanted) {
		inside = true;
		tell(call, number);
		inside = false;
	}
	errno = err;
	return true;
}

/* ---- Memory ---------------------------------------------------------------------- */

void *malloc(size_t size)
{
	return fails("memory", "malloc", ENOMEM) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return fails("memory", "calloc", ENOMEM) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *pointer, size_t size)
{
	return fails("memory", "realloc", ENOMEM) ? NULL : __libc_realloc(pointer, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return fails("memory", "aligned_alloc", ENOMEM) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **ret, size_t alignment, size_t size)
{
	void *got =
		fails("memory", "posix_memalign", ENOMEM) ? NULL : __libc_memalign(alignment, size);

	if (!got)
		return ENOMEM;
	*ret = got;
	return 0;
}

/* The next function of this name, of the same type as ours. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void *mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
	return fails("memory", "mmap", ENOMEM)
		       ? MAP_FAILED
		       : REAL(mmap)(address, length, prot, flags, fd, offset);
}

/* ---- Descriptors ------------------------------------------------------------------- */

static bool full(const char *call)
{
	return fails("descriptors", call, EMFILE);
}

static mode_t mode_of(int flags, va_list ap)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return full("open") ? -1 : REAL(open)(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return full("openat") ? -1 : REAL(openat)(folder, path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
	bool duplicates = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
	va_list ap;
	void *arg;

	va_start(ap, command);
	arg = va_arg(ap, void *);
	va_end(ap);
	return duplicates && full("fcntl") ? -1 : REAL(fcntl)(fd, command, arg);
}

FILE *fopen(const char *path, const char *mode)
{
	return full("fopen") ? NULL : REAL(fopen)(path, mode);
}

DIR *opendir(const char *path)
{
	return full("opendir") ? NULL : REAL(opendir)(path);
}

int pipe2(int fds[2], int flags)
{
	return full("pipe2") ? -1 : REAL(pipe2)(fds, flags);
}

int pipe(int fds[2])
{
	return full("pipe") ? -1 : REAL(pipe)(fds);
}

int dup(int fd)
{
	return full("dup") ? -1 : REAL(dup)(fd);
}

int eventfd(unsigned int value, int flags)
{
	return full("eventfd") ? -1 : REAL(eventfd)(value, flags);
}

int signalfd(int fd, const sigset_t *mask, int flags)
{
	return fd < 0 && full("signalfd") ? -1 : REAL(signalfd)(fd, mask, flags);
}

int timerfd_create(int clock, int flags)
{
	return full("timerfd_create") ? -1 : REAL(timerfd_create)(clock, flags);
}

int epoll_create1(int flags)
{
	return full("epoll_create1") ? -1 : REAL(epoll_create1)(flags);
}

int memfd_create(const char *name, unsigned int flags)
{
	return full("memfd_create") ? -1 : REAL(memfd_create)(name, flags);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
	return full("socketpair") ? -1 : REAL(socketpair)(domain, type, protocol, fds);
}

/* ---- Processes ---------------------------------------------------------------------- */

pid_t fork(void)
{
	return fails("processes", "fork", EAGAIN) ? -1 : REAL(fork)();
}

int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*start)(void *), void *data)
{
	return fails("processes", "pthread_create", EAGAIN)
		       ? EAGAIN
		       : REAL(pthread_create)(ret, attr, start, data);
}
