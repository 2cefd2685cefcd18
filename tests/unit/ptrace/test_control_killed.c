/* SPDX-License-Identifier: MIT */
/*
 * Controllers that are killed while a thread makes system calls for them: it continues as if
 * nothing had happened, with all its registers and its stack.
 */
/* Not under ThreadSanitizer: it knows neither stacks nor code that we make. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"
#include "tests/unit/dying.h"
#include "tests/unit/ptrace/keep_registers.h"
#include "tests/unit/ptrace/victim_bodies.h"
#include "tests/unit/wait.h"

static void registers_body(struct shared *s)
{
	handle_signals(s);
	atomic_store(&s->ready, 1);
	keep_registers(&s->progress);
	atomic_store(&s->failure, 1);
}

/* Makes calls in the victim; returns 0, or what failed. */
static int control_once(struct victim *v)
{
	struct control_call calls[4] = {{.number = SYS_getpid}, {.number = SYS_getuid},
		{.number = SYS_mmap, .args = {0, 4096, PROT_READ, 0x22, -1, 0}},
		{.number = SYS_getppid}};
	struct control_call last[3] = {{.number = SYS_getpid},
		{.number = SYS_getuid, .lets_go = true}, {.number = SYS_getppid}};
	struct control control;

	if (control_borrow(v->pid, NULL, CONTROL_PATIENCE_NS, NULL, &control))
		return 1;
	if (control_run(&control, &v->rooms, &v->gadgets, v->prepared, calls, 4) ||
		calls[0].result != v->pid)
		return 2;
	if (control_run(&control, &v->rooms, &v->gadgets, v->prepared, last, 3) ||
		last[0].result != v->pid)
		return 4;
	control_resume(&control);
	return 0;
}

/* The controller process: it stops and resumes the victim `times` times, and exits. */
static void control_often(struct victim *v, int times)
{
	int failed = 0;

	/* The previous controller's leftovers may still be in use. */
	if (control_find_rooms(
		    v->pid, 0, CONTROL_PATIENCE_NS, v->mem, &v->maps, &v->modules, &v->rooms))
		_exit(3);
	while (!failed && times--)
		failed = control_once(v);
	_exit(failed);
}

/* How long it takes here to start a controller and make the first calls. */
static int64_t first_calls_ns(struct victim *v)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < 3; i++) {
		int64_t begun = now_ns(), took;
		pid_t controller = fork();
		int status;

		assert_true(controller >= 0);
		if (controller == 0)
			control_often(v, 1);
		assert_int_equal(waitpid(controller, &status, 0), controller);
		assert_int_equal(status, 0);
		took = now_ns() - begun;
		least = took < least ? took : least;
	}
	return least;
}

/* Kills controllers at many moments; the victim must continue after each. */
static void kill_controllers(struct victim *v, int rounds)
{
	int64_t range_us = 2 * first_calls_ns(v) / 1000 + 1;
	unsigned int seed = 1;

	for (int i = 0; i < rounds; i++) {
		pid_t controller = fork();
		int status;

		assert_true(controller >= 0);
		if (controller == 0)
			control_often(v, INT_MAX);
		/* During the first calls, or later. */
		usleep((useconds_t)(rand_r(&seed) % range_us));
		kill(controller, SIGKILL);
		assert_int_equal(waitpid(controller, &status, 0), controller);
		assert_true(WIFSIGNALED(status)); /* it had not failed before */
	}
}

static void test_killed_while_it_computes(void **state)
{
	struct victim v;

	(void)state;
	victim_start(&v, registers_body);
	for (int i = 0; i < 10; i++) {
		kill_controllers(&v, 20);
		await(&v.shared->progress, atomic_load(&v.shared->progress) + 1000);
		assert_int_equal(procfs_status_number(v.pid, "TracerPid:"), 0);
		assert_true(atomic_load(&v.shared->failure) == 0);
	}
	victim_end(&v);
}

static unsigned int vector_bytes;

static void vectors_body(struct shared *s)
{
	atomic_store(&s->ready, 1);
	keep_vectors(&s->progress, vector_bytes);
	atomic_store(&s->failure, 2);
}

static void kill_while_it_has_vectors(void (*body)(struct shared *), unsigned int bytes)
{
	struct victim v;

	if (!keep_vectors_possible(bytes))
		return;
	vector_bytes = bytes;
	victim_start(&v, body);
	for (int i = 0; i < 5; i++) {
		kill_controllers(&v, 20);
		await(&v.shared->progress, atomic_load(&v.shared->progress) + 100);
		assert_true(atomic_load(&v.shared->failure) == 0);
	}
	victim_end(&v);
}

static void test_killed_while_it_has_vectors(void **state)
{
	(void)state;
	for (unsigned int bytes = 16; bytes <= 256; bytes *= 2)
		kill_while_it_has_vectors(vectors_body, bytes);
}

#if defined(__x86_64__)

/* The same in a thread that has requested AMX and used its tiles. */
static void tiles_body(struct shared *s)
{
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
	static struct {
		uint8_t palette, row, reserved[14];
		uint16_t columns[16];
		uint8_t rows[16];
	} config = {.palette = 1, .columns = {64}, .rows = {16}};

	if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0)
		__asm__ volatile("ldtilecfg %0\n"
				 ".byte 0xc4, 0xe2, 0x7b, 0x49, 0xc0\n" /* tilezero %tmm0 */
				 ".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0\n" /* tilerelease */
				 :
				 : "m"(config));
	vectors_body(s);
}

static void test_killed_while_it_has_tiles(void **state)
{
	(void)state;
	kill_while_it_has_vectors(tiles_body, 32);
}

#endif

/* The next controller removes what a killed one left in a tail. */
static void test_killed_and_cleaned(void **state)
{
	struct victim v;

	(void)state;
	victim_start(&v, on_array_body);
	await(&v.shared->progress, 1);
	for (int i = 0; i < 10; i++) {
		size_t count = v.rooms.count;

		kill_controllers(&v, 5);
		assert_done(control_find_rooms(
			v.pid, 0, CONTROL_PATIENCE_NS, v.mem, &v.maps, &v.modules, &v.rooms));
		assert_int_equal(v.rooms.left_count, 0);
		/* All of them: whatever differs from the file is unused. */
		assert_int_equal(v.rooms.count, count);
		array_is_unchanged(&v);
	}
	victim_end(&v);
}

/* The victim itself restarts an interrupted read. */
static void test_killed_while_it_reads(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		struct victim v;

		victim_start(&v, read_body);
		await_state(&v, 'S');
		kill_controllers(&v, 10);
		sleep_ms(5);
		assert_true(atomic_load(&v.shared->elapsed_ns) == 0);
		assert_int_equal(write(v.shared->pipe[1], "x", 1), 1);
		wait_until(atomic_load(&v.shared->elapsed_ns));
		assert_int_equal(atomic_load(&v.shared->result), 1);
		victim_join(&v);
	}
}

/* The signal mask is restored, too: all signals are blocked during a call. */
static void test_killed_and_signalled(void **state)
{
	struct victim v;

	(void)state;
	victim_start(&v, signal_body);
	for (uint64_t i = 1; i <= 20; i++) {
		kill_controllers(&v, 5);
		assert_int_equal(kill(v.pid, SIGUSR1), 0);
		await(&v.shared->signals, i);
	}
	victim_end(&v);
}

/* ---- Before each of its requests ------------------------------------------------------- */

/* False if there is no Nth request. */
static bool kill_controller_before(struct victim *v, unsigned int request)
{
	pid_t controller = fork();
	int status;

	assert_true(controller >= 0);
	if (controller == 0) {
		dying_before = request;
		dying_signals = v->pid;
		_exit(control_once(v));
	}
	assert_int_equal(waitpid(controller, &status, 0), controller);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status);
}

/* One signal arrives while the thread is where we left it, another one later. */
static void check_killed_before_each(void (*body)(struct shared *shared))
{
	struct victim v;

	victim_start(&v, body);
	for (unsigned int n = 1; kill_controller_before(&v, n); n++) {
		await(&v.shared->signals, 2 * n - 1);
		assert_int_equal(kill(v.pid, SIGUSR1), 0);
		await(&v.shared->signals, 2 * n);
		assert_true(atomic_load(&v.shared->failure) == 0);
		assert_done(control_find_rooms(
			v.pid, 0, CONTROL_PATIENCE_NS, v.mem, &v.maps, &v.modules, &v.rooms));
	}
	victim_end(&v);
}

static void test_killed_before_each_request(void **state)
{
	(void)state;
	check_killed_before_each(registers_body);
	check_killed_before_each(signal_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_while_it_computes),
		cmocka_unit_test(test_killed_while_it_has_vectors),
#if defined(__x86_64__)
		cmocka_unit_test(test_killed_while_it_has_tiles),
#endif
		cmocka_unit_test(test_killed_and_cleaned),
		cmocka_unit_test(test_killed_while_it_reads),
		cmocka_unit_test(test_killed_and_signalled),
		cmocka_unit_test(test_killed_before_each_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
