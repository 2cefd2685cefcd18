/* SPDX-License-Identifier: MIT */
/* Where threads will return to from signal handlers: on their own stack, and on others. */
/* Not under ThreadSanitizer: it knows neither stacks nor code that we make. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "libprobe/patch/patch.h"
#include "libprobe/ptrace/ptrace.h"
#include "tests/unit/victim.h"

/* Two places to be interrupted at; each loops until *stop is not 0. */
void spin_first(const _Atomic uint64_t *stop);
void spin_second(const _Atomic uint64_t *stop);
extern const char spin_first_start[], spin_first_end[], spin_second_start[], spin_second_end[];
/* clang-format off */
#ifdef __x86_64__
__asm__("	.text\n"
	"spin_first:\n"
	"spin_first_start: pause\n"
	"	cmpq $0, (%rdi)\n"
	"	je spin_first_start\n"
	"spin_first_end: ret\n"
	"spin_second:\n"
	"spin_second_start: pause\n"
	"	cmpq $0, (%rdi)\n"
	"	je spin_second_start\n"
	"spin_second_end: ret\n");
#else
/* Global: GNU as and ld lose what a label of this file adds in an entry of the GOT. */
__asm__("	.text\n"
	"	.globl spin_first_start, spin_first_end, spin_second_start, spin_second_end\n"
	"spin_first:\n"
	"spin_first_start: ldr x1, [x0]\n"
	"	cbz x1, spin_first_start\n"
	"spin_first_end: ret\n"
	"spin_second:\n"
	"spin_second_start: ldr x1, [x0]\n"
	"	cbz x1, spin_second_start\n"
	"spin_second_end: ret\n");
#endif
/* clang-format on */

static struct shared *shared;
static struct places places; /* both */

static int add_places(void **state)
{
	(void)state;
	assert_true(places_add(&places, (uintptr_t)spin_first_start, (uintptr_t)spin_first_end));
	assert_true(places_add(&places, (uintptr_t)spin_second_start, (uintptr_t)spin_second_end));
	places_prepare(&places);
	return 0;
}

static int drop_places(void **state)
{
	(void)state;
	places_deinit(&places);
	return 0;
}

static bool within(const struct frames *f, const char *start, const char *end)
{
	return frames_within(f, (uintptr_t)start, (uintptr_t)end);
}

static bool in_first(const struct frames *f)
{
	return within(f, spin_first_start, spin_first_end);
}

static bool in_second(const struct frames *f)
{
	return within(f, spin_second_start, spin_second_end);
}

/*
 * The frames return to so many places. AddressSanitizer leaves more on a stack that looks like a
 * frame, and counts as one.
 */
static void assert_places(struct frames *f, size_t wanted)
{
	size_t count = 0;

	frames_sort(f);
	for (size_t i = 0; i < f->count; i++)
		count += i == 0 || f->pcs[i] != f->pcs[i - 1];
#ifdef __SANITIZE_ADDRESS__
	assert_true(count >= wanted);
#else
	assert_int_equal(count, wanted);
	assert_int_equal(f->count, wanted);
#endif
}

/* Stops the victim and collects; the threads' own pcs come first. */
static void collect_within(struct victim *v, uint64_t reach, struct frames *frames)
{
	struct control control;

	assert_done(frames_open(v->pid, &v->maps, &places, reach, frames));
	assert_done(control_stop(v->pid, 0, CONTROL_PATIENCE_NS, &control));
	assert_done(frames_read(frames, &control));
	assert_true(frames->count >= control.count);
	for (size_t i = 0; i < control.count; i++)
		assert_true(frames->pcs[i] == arch_get(&control.threads[i].regs, ARCH_PC));
	control_resume(&control);
	frames_sort(frames);
}

static void collect(struct victim *v, struct frames *frames)
{
	collect_within(v, FRAMES_REACH, frames);
}

/* ---- In handlers ----------------------------------------------------------------------- */

static void stay(int signal)
{
	atomic_store(&shared->ready, (uint64_t)signal);
	for (;;)
		pause();
}

static void stay_and_spin(int signal)
{
	atomic_store(&shared->ready, (uint64_t)signal);
	spin_second((const _Atomic uint64_t *)&shared->result);
	atomic_fetch_add(&shared->progress, 1);
}

static void handle(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	if (sigaction(signal, &action, NULL) != 0)
		_exit(3);
}

static void spin_body(struct shared *s)
{
	shared = s;
	handle(SIGUSR1, stay, 0);
	handle(SIGUSR2, stay_and_spin, 0);
	atomic_store(&s->ready, 1);
	spin_first(&s->failure);
}

static void use_other_stack(size_t bytes)
{
	stack_t stack = {.ss_size = bytes};

	stack.ss_sp = mmap(
		NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sigaltstack(&stack, NULL) != 0)
		_exit(3);
}

/* The alternate stack is separate memory, far from the thread's. */
static void alternate_body(struct shared *s)
{
	shared = s;
	use_other_stack(1 << 16);
	handle(SIGUSR1, stay, SA_ONSTACK);
	handle(SIGUSR2, stay_and_spin, SA_ONSTACK);
	atomic_store(&s->ready, 1);
	spin_first(&s->failure);
}

static void test_not_in_a_handler(void **state)
{
	struct frames frames;
	struct victim v;

	(void)state;
	victim_start(&v, spin_body);
	collect(&v, &frames);
	assert_true(in_first(&frames));
	assert_false(in_second(&frames));
	frames_close(&frames);
	victim_end(&v);
}

static void check_nested(void (*body)(struct shared *))
{
	struct frames frames;
	struct victim v;

	victim_start(&v, body);
	assert_int_equal(kill(v.pid, SIGUSR2), 0);
	await(&v.shared->ready, SIGUSR2);
	collect(&v, &frames);
	assert_true(in_first(&frames));
	assert_true(in_second(&frames));
	assert_int_equal(frames.count, 2);
	frames_close(&frames);
	/* Another handler interrupts the first. */
	atomic_store(&v.shared->ready, 0);
	assert_int_equal(kill(v.pid, SIGUSR1), 0);
	await(&v.shared->ready, SIGUSR1);
	collect(&v, &frames);
	assert_true(in_first(&frames));
	assert_true(in_second(&frames));
	assert_int_equal(frames.count, 3);
	frames_close(&frames);
	victim_end(&v);
}

enum { DEEP_BYTES = 200 << 10, NEAR_BYTES = 64 << 10 };

/* The frame of what was interrupted is this much above the stack pointer. */
static void stay_deep(int signal)
{
	volatile uint8_t bytes[DEEP_BYTES];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)signal;
	stay(signal);
}

static void deep_body(struct shared *s)
{
	shared = s;
	use_other_stack(1 << 20);
	handle(SIGUSR1, stay_deep, SA_ONSTACK);
	handle(SIGUSR2, stay_deep, 0);
	atomic_store(&s->ready, 1);
	spin_first(&s->failure);
}

/* Of a stack that is not the thread's own, only a look with that reach finds what is deep. */
static void check_deep(int signal, bool is_own)
{
	struct frames frames;
	struct victim v;

	victim_start(&v, deep_body);
	assert_int_equal(kill(v.pid, signal), 0);
	await(&v.shared->ready, (uint64_t)signal);
	collect_within(&v, NEAR_BYTES, &frames);
	assert_int_equal(in_first(&frames), is_own);
	assert_true((frames.unknown == NULL) == is_own);
	frames_close(&frames);
	collect_within(&v, FRAMES_REACH, &frames);
	assert_true(in_first(&frames));
	assert_null(frames.unknown);
	frames_close(&frames);
	victim_end(&v);
}

static void test_deep(void **state)
{
	(void)state;
	check_deep(SIGUSR1, false);
	check_deep(SIGUSR2, true);
}

static void test_own_stack(void **state)
{
	(void)state;
	check_nested(spin_body);
}

static void test_alternate_stack(void **state)
{
	(void)state;
	check_nested(alternate_body);
}

/* ---- In threads ------------------------------------------------------------------------- */

static void *thread_main(void *data)
{
	struct shared *s = data;

	atomic_store(&s->elapsed_ns, syscall(SYS_gettid));
	atomic_fetch_add(&s->progress, 1);
	spin_first(&s->failure);
	return NULL;
}

static void thread_body(struct shared *s)
{
	pthread_t thread;
	char byte;

	shared = s;
	handle(SIGUSR2, stay_and_spin, 0);
	atomic_store(&s->ready, 1);
	/* Created after the test has read the mappings. */
	if (read(s->pipe[0], &byte, 1) != 1 || pthread_create(&thread, NULL, thread_main, s) != 0)
		_exit(3);
	pthread_join(thread, NULL);
}

static void test_thread_created_later(void **state)
{
	struct frames frames;
	struct victim v;

	(void)state;
	victim_start(&v, thread_body);
	assert_int_equal(write(v.shared->pipe[1], "x", 1), 1);
	await(&v.shared->progress, 1);
	assert_int_equal(
		syscall(SYS_tgkill, v.pid, (pid_t)atomic_load(&v.shared->elapsed_ns), SIGUSR2), 0);
	await(&v.shared->ready, SIGUSR2);
	collect(&v, &frames);
	assert_true(in_first(&frames));
	assert_true(in_second(&frames));
	frames_close(&frames);
	victim_end(&v);
}

/* A handler installed after frames_open() is seen, too. */
static void late_body(struct shared *s)
{
	char byte;

	shared = s;
	atomic_store(&s->ready, 1);
	if (read(s->pipe[0], &byte, 1) != 1)
		_exit(3);
	handle(SIGUSR1, stay, 0);
	atomic_store(&s->progress, 1);
	spin_first(&s->failure);
}

static void test_handler_installed_later(void **state)
{
	struct control control;
	struct frames frames;
	struct victim v;

	(void)state;
	victim_start(&v, late_body);
	assert_done(frames_open(v.pid, &v.maps, &places, FRAMES_REACH, &frames));
	assert_int_equal(write(v.shared->pipe[1], "x", 1), 1);
	await(&v.shared->progress, 1);
	assert_int_equal(kill(v.pid, SIGUSR1), 0);
	await(&v.shared->ready, SIGUSR1);
	for (int i = 0; i < 2; i++) { /* what was collected before is dropped */
		assert_done(control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control));
		assert_done(frames_read(&frames, &control));
		control_resume(&control);
		assert_places(&frames, 2);
	}
	assert_true(in_first(&frames));
	frames_close(&frames);
	victim_end(&v);
}

/* ---- Returning from a handler ------------------------------------------------------------ */

static bool is_restorer(const struct victim *v, uint64_t pc)
{
	return pc == v->gadgets.sigreturn;
}

/*
 * After the handler's return, before rt_sigreturn: the word that identifies frames is below the
 * stack pointer then.
 */
static void test_before_sigreturn(void **state)
{
	struct control_thread *thread;
	struct control control;
	struct frames frames;
	struct victim v;
	int status;

	(void)state;
	victim_start(&v, spin_body);
	assert_int_equal(kill(v.pid, SIGUSR2), 0);
	await(&v.shared->ready, SIGUSR2);
	assert_done(frames_open(v.pid, &v.maps, &places, FRAMES_REACH, &frames));
	assert_done(control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control));
	thread = &control.threads[0];
	atomic_store(&v.shared->result, 1); /* the handler ends */
	for (int i = 0; i < 10000 && !is_restorer(&v, arch_get(&thread->regs, ARCH_PC)); i++) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, thread->tid, NULL, NULL), 0);
		assert_int_equal(waitpid(thread->tid, &status, __WALL), thread->tid);
		assert_int_equal(registers_read(thread->tid, &thread->regs), true);
	}
	for (int i = 0; i < 2; i++) { /* before and after `mov $15, %eax` */
		assert_done(frames_read(&frames, &control));
		assert_places(&frames, 2);
		assert_true(in_first(&frames));
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, thread->tid, NULL, NULL), 0);
		assert_int_equal(waitpid(thread->tid, &status, __WALL), thread->tid);
		assert_int_equal(registers_read(thread->tid, &thread->regs), true);
	}
	control_resume(&control);
	frames_close(&frames);
	await(&v.shared->progress, 1);
	victim_end(&v);
}

/* ---- Searching --------------------------------------------------------------------------- */

static void test_within(void **state)
{
	uint64_t pcs[] = {30, 10, 20, 20, UINT64_MAX};
	struct frames frames = {.pcs = pcs, .count = 5};
	struct frames none = {0};

	(void)state;
	frames_sort(&frames);
	assert_true(frames_within(&frames, 10, 11));
	assert_true(frames_within(&frames, 0, 11));
	assert_false(frames_within(&frames, 0, 10));
	assert_false(frames_within(&frames, 11, 20));
	assert_true(frames_within(&frames, 11, 21));
	assert_false(frames_within(&frames, 20, 20));
	assert_false(frames_within(&frames, 31, 1000));
	assert_false(frames_within(&none, 0, UINT64_MAX));
}

static void test_no_process(void **state)
{
	struct maps maps = {0};
	struct frames frames;
	struct probe_error *error = frames_open(0x7fffffff, &maps, &places, FRAMES_REACH, &frames);

	(void)state;
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	probe_error_free(error);
	frames_close(&frames);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_in_a_handler),
		cmocka_unit_test(test_own_stack),
		cmocka_unit_test(test_alternate_stack),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_thread_created_later),
		cmocka_unit_test(test_handler_installed_later),
		cmocka_unit_test(test_before_sigreturn),
		cmocka_unit_test(test_within),
		cmocka_unit_test(test_no_process),
	};

	return cmocka_run_group_tests(tests, add_places, drop_places);
}
