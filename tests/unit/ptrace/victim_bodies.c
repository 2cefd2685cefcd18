/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/process/process.h"
#include "tests/unit/ptrace/victim_bodies.h"
#include "tests/unit/wait.h"

void finish(struct shared *s, int64_t start, int64_t result)
{
	atomic_store(&s->result, result < 0 ? -errno : result);
	atomic_store(&s->elapsed_ns, now_ns() - start);
	wait_until(atomic_load(&s->over));
}

void read_body(struct shared *s)
{
	char byte;
	int64_t start = now_ns();

	atomic_store(&s->ready, 1);
	finish(s, start, read(s->pipe[0], &byte, 1));
}

static struct shared *handler_shared;

static void on_signal(int signal)
{
	(void)signal;
	atomic_fetch_add(&handler_shared->signals, 1);
}

void handle_signals(struct shared *s)
{
	handler_shared = s;
	signal(SIGUSR1, on_signal);
}

void signal_body(struct shared *s)
{
	handle_signals(s);
	atomic_store(&s->ready, 1);
	for (;;)
		pause();
}

/* A stack with live memory below it: an array, filled with a pattern. */
enum { ARRAY_BYTES = 1 << 16, ARRAY_USED = 4096, PATTERN = 0x5a };
static char array[ARRAY_BYTES] __attribute__((aligned(16)));

void on_array_body(struct shared *s)
{
	memset(array, PATTERN, sizeof(array));
	atomic_store(&s->ready, 1);
	/* In assembly: a compiler may use the stack at any time. */
#if defined(__x86_64__)
	__asm__ volatile("mov %0, %%rsp\n"
			 "1: lock incq (%1)\n"
			 "pause\n"
			 "jmp 1b\n"
			 :
			 : "r"(array + sizeof(array) - ARRAY_USED), "r"(&s->progress)
			 : "memory");
#elif defined(__aarch64__)
	__asm__ volatile("mov sp, %0\n"
			 "1: ldxr x9, [%1]\n"
			 "add x9, x9, 1\n"
			 "stxr w10, x9, [%1]\n"
			 "yield\n"
			 "b 1b\n"
			 :
			 : "r"(array + sizeof(array) - ARRAY_USED), "r"(&s->progress)
			 : "memory", "x9", "x10");
#endif
}

void array_is_unchanged(const struct victim *v)
{
	static char now[ARRAY_BYTES];

	assert_int_equal(memory_read(v->pid, (uint64_t)array, now, sizeof(now)), sizeof(now));
	for (size_t i = 0; i < sizeof(now); i++)
		if (now[i] != PATTERN)
			fail_msg("a byte of the stack was written, %zu below its pointer",
				sizeof(now) - ARRAY_USED - i);
}
