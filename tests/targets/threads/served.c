/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE -pthread */
/*
 * Threads whose stacks lie right below memory that the program itself provides (userfaultfd(2)):
 *
 *	served missing|minor|nobody
 *
 * One thread passes the probe served:work on a stack that the C library made, and one on a stack
 * that it has switched to (makecontext(3)); with `minor`, both use stacks of the C library. A third
 * thread provides pages; with `nobody` there is no such thread. The program never touches that
 * memory. After "ready", it answers each line with the number of times that the threads have passed
 * the probe, and the number of pages that were asked for. It prints "lacks" if the kernel lacks
 * such page faults.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "../target.h"

#ifndef UFFD_FEATURE_MINOR_SHMEM
#define UFFD_FEATURE_MINOR_SHMEM (1 << 10)
#define UFFDIO_REGISTER_MODE_MINOR ((uint64_t)1 << 2)
#endif

enum { STACK_BYTES = 256 << 10, SERVED_BYTES = 32 << 10 };

static int faults;
static bool is_minor;
static volatile unsigned long passed[2], served;
static ucontext_t outside, inside;

__attribute__((noinline)) static void work(int which)
{
	STAP_PROBE1(served, work, which);
	target_room_behind();
	passed[which]++;
	usleep(200);
}

static void *serve(void *data)
{
	struct uffd_msg message;

	/* This thread exists to be stopped; it never provides a page. */
	while (read(faults, &message, sizeof(message)) == sizeof(message))
		served++;
	return data;
}

static void *work_plainly(void *data)
{
	static int count;
	int which = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);

	for (;;)
		work(which);
	return data;
}

static void work_inside(void)
{
	for (;;)
		work(1);
}

/* Makes a stack, and registers the memory right above it. */
static char *stack_below(void)
{
	int memory = memfd_create("served", 0);
	char *base = mmap(NULL, STACK_BYTES + SERVED_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct uffdio_register range = {.range = {(uintptr_t)base + STACK_BYTES, SERVED_BYTES},
		.mode = is_minor ? UFFDIO_REGISTER_MODE_MINOR : UFFDIO_REGISTER_MODE_MISSING};
	char *other;

	if (base == MAP_FAILED || memory < 0 || ftruncate(memory, SERVED_BYTES) != 0)
		exit(1);
	if (is_minor) { /* pages in the file, but not in this mapping */
		other = mmap(NULL, SERVED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
		memset(other, 1, SERVED_BYTES);
		munmap(other, SERVED_BYTES);
		if (mmap(base + STACK_BYTES, SERVED_BYTES, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_FIXED, memory, 0) == MAP_FAILED)
			exit(1);
	}
	close(memory);
	if (ioctl(faults, UFFDIO_REGISTER, &range) != 0) {
		printf("lacks\n");
		exit(0);
	}
	return base;
}

static void *work_on_other(void *data)
{
	getcontext(&inside);
	inside.uc_stack.ss_sp = stack_below();
	inside.uc_stack.ss_size = STACK_BYTES;
	makecontext(&inside, work_inside, 0);
	swapcontext(&outside, &inside);
	return data;
}

static void begin(void *(*body)(void *), void *stack)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	if (pthread_attr_setstack(&attributes, stack, STACK_BYTES) != 0 ||
		pthread_create(&thread, &attributes, body, NULL) != 0)
		exit(1);
}

int main(int argc, char **argv)
{
	struct uffdio_api api = {.api = UFFD_API};
	char line[16];

	is_minor = argc > 1 && strcmp(argv[1], "minor") == 0;
	api.features = is_minor ? UFFD_FEATURE_MINOR_SHMEM : 0;
	faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0) {
		printf("lacks\n");
		return 0;
	}
	target_allow_tracing();
	if (argc > 1 && strcmp(argv[1], "nobody") != 0)
		begin(serve, stack_below());
	begin(work_plainly, stack_below());
	begin(is_minor ? work_plainly : work_on_other, stack_below());
	printf("ready\n");
	fflush(stdout);
	while (target_read_line(line, sizeof(line))) {
		printf("passed %lu %lu served %lu\n", passed[0], passed[1], served);
		fflush(stdout);
	}
	return 0;
}
