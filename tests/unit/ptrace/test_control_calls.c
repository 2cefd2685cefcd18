/* SPDX-License-Identifier: MIT */
/*
 * Thousands of system calls in a thread that holds a pattern in all its registers, while signals
 * interrupt it; it never sees another value, and loses no signal.
 */
/* Not under ThreadSanitizer: it knows neither stacks nor code that we make. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "libprobe/process/process.h"
#include "tests/unit/ptrace/keep_registers.h"
#include "tests/unit/ptrace/victim_bodies.h"

enum { ROUNDS = 2000, VECTOR_ROUNDS = 300, PAGE = 4096, SIGNAL_US = 1700, SIGNAL_EVERY = 64 };

/* Maps a page there, and unmaps it: two stops. */
static void map_once(struct victim *v)
{
	struct control_call map = {.number = SYS_mmap,
		.args = {0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}};
	struct control_call unmap = {.number = SYS_munmap, .args = {0, PAGE}};
	struct control control;
	uint8_t byte = 1;

	assert_done(control_borrow(v->pid, NULL, CONTROL_PATIENCE_NS, NULL, &control));
	assert_done(control_run(&control, &v->rooms, &v->gadgets, v->prepared, &map, 1));
	control_resume(&control);
	assert_true(control_succeeded(&map));
	assert_int_equal(memory_read(v->pid, (uint64_t)map.result, &byte, 1), 1);
	assert_int_equal(byte, 0);
	unmap.args[0] = (uint64_t)map.result;
	assert_done(control_borrow(v->pid, NULL, CONTROL_PATIENCE_NS, NULL, &control));
	assert_done(control_run(&control, &v->rooms, &v->gadgets, v->prepared, &unmap, 1));
	control_resume(&control);
	assert_int_equal(unmap.result, 0);
	assert_int_equal(memory_read(v->pid, (uint64_t)map.result, &byte, 1), 0);
}

static void map_often(struct victim *v, int rounds)
{
	uint64_t sent = 0;

	for (int i = 1; i <= rounds; i++) {
		map_once(v);
		if (atomic_load(&v->shared->failure))
			break;
		if (i % SIGNAL_EVERY)
			continue;
		/* The next round finds it in the handler, or before it. */
		assert_int_equal(kill(v->pid, SIGUSR1), 0);
		map_once(v);
		await(&v->shared->signals, ++sent);
	}
	victim_end(v);
}

static void on_alarm(int signal)
{
	(void)signal;
}

static void registers_body(struct shared *s)
{
	const struct itimerval often = {{0, SIGNAL_US}, {0, SIGNAL_US}};

	handle_signals(s);
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	atomic_store(&s->ready, 1);
	keep_registers(&s->progress);
	atomic_store(&s->failure, 1);
}

static void test_registers_are_kept(void **state)
{
	struct victim v;

	(void)state;
	victim_start(&v, registers_body);
	map_often(&v, ROUNDS);
}

static unsigned int vector_bytes;

static void vectors_body(struct shared *s)
{
	handle_signals(s);
	atomic_store(&s->ready, 1);
	keep_vectors(&s->progress, vector_bytes);
	atomic_store(&s->failure, vector_bytes);
}

static void test_vectors_are_kept(void **state)
{
	(void)state;
	for (vector_bytes = 16; vector_bytes <= 256; vector_bytes *= 2) {
		struct victim v;

		if (!keep_vectors_possible(vector_bytes))
			continue;
		victim_start(&v, vectors_body);
		map_often(&v, VECTOR_ROUNDS);
	}
}

/* ---- Where it may be stopped -------------------------------------------------------------- */

#if defined(__aarch64__)
#define SIGNED __attribute__((noinline, target("branch-protection=standard")))
#else
#define SIGNED __attribute__((noinline))
#endif

/* On aarch64 it returns to addresses that it has signed, and begins with a landing pad. */
SIGNED static uint64_t fibonacci(uint64_t n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static void calls_body(struct shared *s)
{
	uint64_t (*volatile called)(uint64_t n) = fibonacci;

	handle_signals(s);
	atomic_store(&s->ready, 1);
	while (called(12) == 144)
		atomic_fetch_add(&s->progress, 1);
	atomic_store(&s->failure, 3);
}

/* It jumps back and forth between the last instruction of a page and the first one of the next. */
static void border_body(struct shared *s)
{
	uint8_t *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#if defined(__aarch64__)
	/* 1: subs x0, x0, #1; [page] b.ne 1b; ret */
	static const uint32_t code[] = {0xf1000400, 0x54ffffe1, 0xd65f03c0};

	memcpy(pages + PAGE - 4, code, sizeof(code));
	__builtin___clear_cache((char *)pages, (char *)pages + 2 * PAGE);
#else
	/* 1: sub $1,%rdi; [page] jne 1b; ret */
	static const uint8_t code[] = {0x48, 0x83, 0xef, 0x01, 0x75, 0xfa, 0xc3};

	memcpy(pages + PAGE - 4, code, sizeof(code));
#endif
	handle_signals(s);
	atomic_store(&s->ready, 1);
	for (;;) {
		((void (*)(uint64_t))(uintptr_t)(pages + PAGE - 4))(1000);
		atomic_fetch_add(&s->progress, 1);
	}
}

static void test_anywhere(void **state)
{
	static void (*const bodies[])(struct shared *) = {calls_body, border_body, signal_body};

	(void)state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
		struct victim v;

		victim_start(&v, bodies[i]);
		map_often(&v, VECTOR_ROUNDS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers_are_kept),
		cmocka_unit_test(test_vectors_are_kept),
		cmocka_unit_test(test_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
