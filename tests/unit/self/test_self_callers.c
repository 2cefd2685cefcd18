/* SPDX-License-Identifier: MIT */
/*
 * Whoever disconnects a function learns who is in it: threads that hit all the time, come and go,
 * are interrupted, fork and call vfork(2), without and with the kernel's help.
 */
/* Not under ThreadSanitizer: it knows neither stacks nor code that we make. */
/* Not under AddressSanitizer: its terabytes of memory are searched at each of many changes. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "arch/enter.h"
#include "arch/general.h"
#include "libprobe/self/self.h"
#include "tests/unit/self/self_hits.h"
#include "tests/unit/skip.h"
#include "tests/unit/wait.h"

enum { THREADS = 3, CYCLES = 1000, SHORT_CYCLES = 20000, MANY = 60, RECORDS = 1000 };

/* A site whose hits are called without a stub. */
static struct hook hook;
static struct hook_site site = {.hook = &hook, .is_plain = true};
static atomic_bool done;
static atomic_long hits;

static void pass(void)
{
	static const uint64_t frame[1];

	enter_called(frame, (uintptr_t)&site);
	hits++;
}

/* What a function uses, as long as it is connected. */
struct life {
	atomic_int alive;
	atomic_long calls;
};

static void check_life(const struct probe_self_hit *hit, void *data)
{
	struct life *life = data;

	(void)hit;
	if (life->alive != 1)
		abort();
	life->calls++;
	if (life->alive != 1)
		abort();
}

/* Hits its own probe until its calls need no notes any more, but counts. */
static void check_deep(const struct probe_self_hit *hit, void *data)
{
	check_life(hit, data);
	if (hit->depth < CALLER_CALLS + 2)
		pass();
	check_life(hit, data);
}

/* Other processors make them soon; if there is only this one, it must be given up. */
static void wait_for_hits(long count)
{
	const long end = hits + count;

	for (unsigned int spins = 1; hits < end; spins++)
		if (spins % 4096 == 0)
			sched_yield();
}

/* Before a function goes, there are up to `most` further hits. */
static void come_and_go(function_call *call, bool is_general, int cycles, int most)
{
	static struct life lives[2];

	for (int i = 0; i < cycles; i++) {
		struct life *life = &lives[i & 1];
		struct function *function;

		life->alive = 1;
		function = functions_add(&hook.functions, call, NULL, life, is_general);
		assert_non_null(function);
		wait_for_hits(i % (most + 1));
		self_ok(function_stop(function));
		function_wait(function);
		life->alive = 0;
		functions_remove(&hook.functions, function);
	}
}

static void *pass_until_done(void *unused)
{
	(void)unused;
	/* Others of a single processor need not wait for a whole time slice. */
	for (unsigned int i = 1; !done; i++) {
		pass();
		if (i % 1024 == 0)
			sched_yield();
	}
	return NULL;
}

static void with_threads(void (*act)(void))
{
	pthread_t threads[THREADS];

	assert_true(enter_init(true));
	done = false;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, pass_until_done, NULL), 0);
	act();
	done = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	functions_deinit(&hook.functions);
}

/* ---- Threads that hit ------------------------------------------------------------------- */

static void cycles(void)
{
	/* So short that a thread's note would often come too late without a barrier. */
	come_and_go(check_life, true, SHORT_CYCLES, 0);
	come_and_go(check_life, true, CYCLES, 7);
	come_and_go(check_life, false, CYCLES / 10, 7);
}

static void deep_cycles(void)
{
	come_and_go(check_deep, true, CYCLES / 10, 7);
}

static void test_storm(void **state)
{
	(void)state;
	with_threads(cycles);
	assert_true(callers_are_ordered);
	/* The same where the kernel does not help. */
	callers_are_ordered = false;
	with_threads(cycles);
	callers_are_ordered = true;
}

static void test_deep(void **state)
{
	(void)state;
	with_threads(deep_cycles);
}

#if defined(__x86_64__)

/*
 * A hit that stops at each of its instructions in turn, while it has no note: then another function
 * takes the place of the one that it is about to call, as a second thread could do it.
 */
static struct life turns[2] = {{.alive = 1}, {.alive = 1}};
static struct function *turn;
static volatile long steps, stop_at;
static volatile bool took_turn;

/* It changes a vector register, which must be saved before it is called. */
static void change_vector(const struct probe_self_hit *hit, void *data)
{
	__asm__ volatile("pxor %%xmm9,%%xmm9" : : : "xmm9");
	check_life(hit, data);
}

static void on_step(int signal)
{
	(void)signal;
	if (steps++ != stop_at || callers_own->in[0])
		return;
	self_ok(function_stop(turn));
	functions_remove(&hook.functions, turn);
	assert_ptr_equal(
		functions_add(&hook.functions, change_vector, NULL, &turns[1], false), turn);
	took_turn = true;
}

/* Without what sanitizers add, nothing but functions uses a vector register here. */
GENERAL_ONLY static uint64_t pass_in_steps(uint64_t word)
{
	static const uint64_t frame[1];

	__asm__ volatile("movq %0,%%xmm9\n\tlea -128(%%rsp),%%rsp\n\tpushf\n\t"
			 "orl $0x100,(%%rsp)\n\tpopf\n\tlea 128(%%rsp),%%rsp"
			 :
			 : "r"(word)
			 : "cc");
	enter_called(frame, (uintptr_t)&site);
	__asm__ volatile("lea -128(%%rsp),%%rsp\n\tpushf\n\tandl $~0x100,(%%rsp)\n\tpopf\n\t"
			 "lea 128(%%rsp),%%rsp\n\tmovq %%xmm9,%0"
			 : "=r"(word)
			 :
			 : "cc");
	return word;
}

static void test_turns(void **state)
{
	const uint64_t word = UINT64_C(0x0123456789abcdef);
	long taken = 0;

	(void)state;
	assert_true(enter_init(true));
	pass(); /* claims a record */
	assert_true(signal(SIGTRAP, on_step) != SIG_ERR);
	for (stop_at = 0; steps >= stop_at || !stop_at; stop_at++) {
		turn = functions_add(&hook.functions, check_life, NULL, &turns[0], true);
		assert_non_null(turn);
		steps = 0;
		took_turn = false;
		assert_int_equal(pass_in_steps(word), word);
		taken += took_turn;
		self_ok(function_stop(turn));
		functions_remove(&hook.functions, turn);
	}
	signal(SIGTRAP, SIG_DFL);
	assert_true(taken > 10 && turns[0].calls > 0 && turns[1].calls > 0);
	functions_deinit(&hook.functions);
}

#endif

static void *pass_once(void *unused)
{
	(void)unused;
	pass();
	return NULL;
}

static void *make_threads(void *unused)
{
	(void)unused;
	while (!done) {
		pthread_t threads[THREADS];

		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, pass_once, NULL), 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	}
	return NULL;
}

static void short_lived(void)
{
	pthread_t maker;

	assert_int_equal(pthread_create(&maker, NULL, make_threads, NULL), 0);
	come_and_go(check_life, true, CYCLES / 4, 7);
	done = true;
	pthread_join(maker, NULL);
}

static void test_short_lived(void **state)
{
	(void)state;
	with_threads(short_lived);
}

/* Records are given to later threads: there are not more and more of them. */
static struct caller *record;

static void *note_record(void *unused)
{
	pass();
	record = callers_own;
	return unused;
}

static bool is_among(struct caller *const *all, size_t count, const struct caller *caller)
{
	for (size_t i = 0; i < count; i++)
		if (all[i] == caller)
			return true;
	return false;
}

static void test_records_are_reused(void **state)
{
	static struct caller *all[RECORDS];
	size_t count = 0;

	(void)state;
	callers_init();
	for (int i = 0; i < RECORDS; i++) {
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, note_record, NULL), 0);
		pthread_join(thread, NULL);
		assert_non_null(record);
		if (!is_among(all, count, record))
			all[count++] = record;
	}
	assert_true(count < RECORDS / 2);
}

/* ---- Signals, forks ----------------------------------------------------------------------- */

static void on_alarm(int signal)
{
	(void)signal;
	pass();
}

static void test_signals(void **state)
{
	struct itimerval often = {{0, 200}, {0, 200}}, never = {0};

	(void)state;
	assert_true(signal(SIGPROF, on_alarm) != SIG_ERR);
	assert_int_equal(setitimer(ITIMER_PROF, &often, NULL), 0);
	with_threads(deep_cycles);
	with_threads(cycles);
	assert_int_equal(setitimer(ITIMER_PROF, &never, NULL), 0);
	signal(SIGPROF, SIG_DFL);
}

/* A child has none of the notes of the parent's other threads. */
static void fork_often(void)
{
	struct life life = {.alive = 1};
	struct function *function = functions_add(&hook.functions, check_life, NULL, &life, true);

	for (int i = 0; i < MANY; i++) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			alarm(test_seconds());
			callers_after_fork();
			functions_after_fork(&hook.functions);
			pass();
			probe_error_free(function_stop(function));
			function_wait(function);
			_exit(callers_own && !callers_are_in(function) ? 0 : 1);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	self_ok(function_stop(function));
	function_wait(function);
	functions_remove(&hook.functions, function);
}

static void test_forks(void **state)
{
	(void)state;
	with_threads(fork_often);
}

/* One that shares the memory hits, and ends: the thread that waited keeps its own record. */
static void *vfork_once(void *unused)
{
	pid_t child = vfork();

	(void)unused;
	if (child == 0) {
		pass();
		_exit(callers_own ? 1 : 0);
	}
	assert_true(child > 0);
	waitpid(child, NULL, 0);
	pass();
	assert_non_null(callers_own);
	assert_int_equal((pid_t)(uint32_t)callers_own->owner, syscall(SYS_gettid));
	return NULL;
}

static void vfork_often(void)
{
	for (int i = 0; i < MANY; i++) {
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, vfork_once, NULL), 0);
		come_and_go(check_life, true, 20, 7);
		pthread_join(thread, NULL);
	}
}

static void test_vfork(void **state)
{
	(void)state;
	with_threads(vfork_often);
}

/* The library forks while it holds its lock if a file is another machine's. */
static void test_fork_with_lock(void **state)
{
	atomic_long calls = 0;
	int cancel = self_lock();
	pid_t child = fork();

	(void)state;
	if (child == 0)
		_exit(0);
	self_join(child);
	self_unlock(cancel);
	self_ok(probe_self_register("testcalls:hit", self_count, &calls));
	hit(1);
	assert_int_equal(calls, 1);
	self_ok(probe_self_unregister("testcalls:hit", self_count, &calls));
}

/* ---- Without membarrier(2) ----------------------------------------------------------------- */

/* From now on the kernel refuses these calls: to all threads, or to this one. */
static void refuse(const int *calls, int count, bool to_all)
{
	struct sock_filter code[16] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	struct sock_fprog program = {.filter = code};
	int length = 1;

	for (int i = 0; i < count; i++) {
		code[length++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)calls[i], 0, 1);
		code[length++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	}
	code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)length;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			to_all ? SECCOMP_FILTER_FLAG_TSYNC : 0, &program) != 0)
		_exit(77);
}

static void child_check(bool good, int status)
{
	if (!good)
		_exit(status);
}

static void child_ok(struct probe_error *error, int status)
{
	if (error)
		fprintf(stderr, "%s\n", error->message);
	child_check(!error, status);
}

static void in_child(void (*act)(void))
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		alarm(test_seconds());
		act();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip_because("a filter cannot be installed here");
	assert_int_equal(status, 0);
}

static void disconnect_filtered(void)
{
	static const int membarrier[] = {SYS_membarrier};
	atomic_long calls = 0, others = 0;
	pthread_t hitter;
	long before, seen;

	hitters_done = false;
	child_ok(probe_self_register("testcalls:hit", self_count, &calls), 2);
	child_ok(probe_self_register("testcalls:hit", self_count, &others), 3);
	child_check(pthread_create(&hitter, NULL, keep_hitting, NULL) == 0, 4);
	refuse(membarrier, 1, true);
	wait_until(calls);
	child_ok(probe_self_unregister("testcalls:hit", self_count, &calls), 5);
	before = calls;
	seen = others;
	wait_until(others != seen);
	child_check(calls == before, 6);
	child_ok(probe_self_unregister("testcalls:hit", self_count, &others), 7);
	hitters_done = true;
	pthread_join(hitter, NULL);
}

/* The threads are stopped instead. */
static void test_filtered(void **state)
{
	(void)state;
	in_child(disconnect_filtered);
}

static void disconnect_forbidden(void)
{
	static const int all[] = {SYS_membarrier, SYS_ptrace};
	atomic_long calls = 0;
	struct probe_error *error;
	long before;

	child_ok(probe_self_register("testcalls:hit", self_count, &calls), 2);
	refuse(all, 2, true);
	error = probe_self_unregister("testcalls:hit", self_count, &calls);
	child_check(error && strstr(error->message, "stays connected"), 3);
	probe_error_free(error);
	before = calls;
	hit(1);
	child_check(calls == before + 1, 4);
}

static void test_forbidden(void **state)
{
	(void)state;
	in_child(disconnect_forbidden);
}

static void connect_filtered(void)
{
	static const int memory[] = {SYS_memfd_create};
	atomic_long calls = 0;
	pthread_t hitter;

	hitters_done = false;
	child_check(pthread_create(&hitter, NULL, keep_hitting, NULL) == 0, 2);
	refuse(memory, 1, false);
	child_ok(probe_self_register("testcalls:hit", self_count, &calls), 3);
	wait_until(calls);
	child_ok(probe_self_unregister("testcalls:hit", self_count, &calls), 4);
	hitters_done = true;
	pthread_join(hitter, NULL);
}

/* The thread that waits for a change may not make its calls: another one is stopped for them. */
static void test_filtered_caller(void **state)
{
	(void)state;
	if (geteuid() != 0) /* others cannot read filters, and take them for the strictest */
		skip_because("only root can read filters");
	in_child(connect_filtered);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_deep),
#if defined(__x86_64__)
		cmocka_unit_test(test_turns),
#endif
		cmocka_unit_test(test_short_lived),
		cmocka_unit_test(test_records_are_reused),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_forks),
		cmocka_unit_test(test_vfork),
		cmocka_unit_test(test_fork_with_lock),
		cmocka_unit_test(test_filtered),
		cmocka_unit_test(test_forbidden),
		cmocka_unit_test(test_filtered_caller),
	};

	self_text_save();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
