/* SPDX-License-Identifier: MIT */
/*
 * System calls that return EINTR at every stop: they continue, with and without a time limit,
 * in a thread that is only stopped and in one that makes calls for us; a signal with a handler
 * still interrupts them.
 */
/* Not under ThreadSanitizer: it knows neither stacks nor code that we make. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "arch/arch.h"
#include "libprobe/base/file.h"
#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"
#include "tests/unit/skip.h"
#include "tests/unit/victim.h"
#include "tests/unit/wait.h"

enum { STOPS = 8 };

#ifndef SYS_epoll_wait /* a libc whose machine lacks it calls the other one */
#define SYS_epoll_wait SYS_epoll_pwait
#endif

/* Of the victims' waits; see check_wait(). */
static int wait_ms;

static struct timespec limit(void)
{
	return (struct timespec){wait_ms / 1000, wait_ms % 1000 * 1000000L};
}

__attribute__((noreturn)) static void finish(struct shared *s, int64_t start, int64_t result)
{
	int64_t error = errno;

	atomic_store(&s->result, result < 0 ? -error : result);
	atomic_store(&s->elapsed_ns, now_ns() - start);
	/* It may still be stopped, however long that took. */
	for (;;)
		pause();
}

/* An epoll descriptor that watches the end of the pipe. */
static int watch_pipe(const struct shared *s)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, s->pipe[0], &event);
	return fd;
}

static void epoll_body(struct shared *s)
{
	struct epoll_event event;
	int fd = watch_pipe(s);
	int64_t start = now_ns();

	atomic_store(&s->ready, 1);
	finish(s, start, epoll_wait(fd, &event, 1, wait_ms));
}

static void epoll_input_body(struct shared *s)
{
	struct epoll_event event;
	int fd = watch_pipe(s);
	int64_t start = now_ns();

	atomic_store(&s->ready, 1);
	finish(s, start, epoll_wait(fd, &event, 1, -1));
}

static void epoll_pwait_body(struct shared *s)
{
	struct epoll_event event;
	int fd = watch_pipe(s);
	int64_t start = now_ns();
	sigset_t mask;

	sigfillset(&mask);
	atomic_store(&s->ready, 1);
	finish(s, start, epoll_pwait(fd, &event, 1, wait_ms, &mask));
}

static void semop_body(struct shared *s)
{
	int sem = semget(IPC_PRIVATE, 1, 0600);
	struct sembuf take = {0, -1, 0};
	struct timespec left = limit();
	int64_t start = now_ns();
	int result, error;

	atomic_store(&s->ready, 1);
	result = semtimedop(sem, &take, 1, &left);
	error = errno;
	semctl(sem, 0, IPC_RMID);
	errno = error;
	finish(s, start, result);
}

static void sigwait_body(struct shared *s)
{
	int64_t start = now_ns();
	struct timespec left = limit();
	sigset_t wanted;

	sigemptyset(&wanted);
	sigaddset(&wanted, SIGUSR2);
	sigprocmask(SIG_BLOCK, &wanted, NULL);
	atomic_store(&s->ready, 1);
	finish(s, start, sigtimedwait(&wanted, NULL, &left));
}

/* A pair of sockets whose calls end after wait_ms. */
static void limited_pair(int pair[2])
{
	struct timeval tv = {wait_ms / 1000, wait_ms % 1000 * 1000L};

	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

static void recv_body(struct shared *s)
{
	int64_t start;
	int pair[2];
	char byte;

	limited_pair(pair);
	start = now_ns();
	atomic_store(&s->ready, 1);
	finish(s, start, recv(pair[0], &byte, 1, 0));
}

static void readv_body(struct shared *s)
{
	char byte;
	struct iovec to = {&byte, 1};
	int64_t start;
	int pair[2];

	limited_pair(pair);
	start = now_ns();
	atomic_store(&s->ready, 1);
	finish(s, start, readv(pair[0], &to, 1));
}

static void send_body(struct shared *s)
{
	static char much[4096];
	int64_t start;
	int pair[2];

	limited_pair(pair);
	while (send(pair[0], much, sizeof(much), MSG_DONTWAIT) > 0)
		;
	start = now_ns();
	atomic_store(&s->ready, 1);
	finish(s, start, send(pair[0], much, sizeof(much), 0));
}

static void accept_body(struct shared *s)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un name = {.sun_family = AF_UNIX}; /* the kernel chooses one */
	struct timeval tv = {wait_ms / 1000, wait_ms % 1000 * 1000L};
	int64_t start;

	bind(fd, (struct sockaddr *)&name, sizeof(name.sun_family));
	listen(fd, 1);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	start = now_ns();
	atomic_store(&s->ready, 1);
	finish(s, start, accept(fd, NULL, NULL));
}

static void io_getevents_body(struct shared *s)
{
	struct timespec left = limit();
	unsigned long context = 0;
	char events[64];
	int64_t start = now_ns();

	if (syscall(SYS_io_setup, 1, &context) < 0) {
		atomic_store(&s->ready, 1);
		finish(s, start, poll(NULL, 0, wait_ms)); /* so many milliseconds, too */
	}
	atomic_store(&s->ready, 1);
	finish(s, start, syscall(SYS_io_getevents, context, 1, 1, events, &left));
}

static const struct wait {
	const char *name;
	void (*body)(struct shared *);
	int64_t result;
	bool needs_input;
} waits[] = {
	{"epoll_wait", epoll_body, 0, false},
	{"epoll_wait for input", epoll_input_body, 1, true},
	{"epoll_pwait", epoll_pwait_body, 0, false},
	{"semtimedop", semop_body, -EAGAIN, false},
	{"sigtimedwait", sigwait_body, -EAGAIN, false},
	{"recv", recv_body, -EAGAIN, false},
	{"readv", readv_body, -EAGAIN, false},
	{"send", send_body, -EAGAIN, false},
	{"accept", accept_body, -EAGAIN, false},
	{"io_getevents", io_getevents_body, 0, false},
};

static void await_result(const struct shared *s)
{
	wait_until(atomic_load(&s->elapsed_ns));
}

/* False if it had ended before the last stop. */
static bool stop_wait(const struct wait *wait, bool runs_calls)
{
	struct victim v;
	int64_t elapsed = 0;
	bool in_time;

	victim_start(&v, wait->body);
	await_state(&v, 'S');
	for (int i = 0; i < STOPS; i++) {
		struct control_call call = {.number = SYS_getpid};
		struct control control;

		assert_done(control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control));
		if (runs_calls)
			assert_done(
				control_run(&control, &v.rooms, &v.gadgets, v.prepared, &call, 1));
		elapsed = atomic_load(&v.shared->elapsed_ns);
		control_resume(&control);
		sleep_ms(5);
	}
	in_time = !elapsed;
	if (wait->needs_input)
		assert_int_equal(write(v.shared->pipe[1], "x", 1), 1);
	await_result(v.shared);
	elapsed = atomic_load(&v.shared->elapsed_ns) / 1000000;
	if (atomic_load(&v.shared->result) != wait->result)
		fail_msg("%s: result %lld", wait->name, (long long)atomic_load(&v.shared->result));
	/* The kernel counts some of these limits in ticks. */
	if (!wait->needs_input && elapsed < wait_ms - 5)
		fail_msg("%s: took %lld ms", wait->name, (long long)elapsed);
	victim_end(&v);
	return in_time;
}

/* Where this machine is too slow to stop it that often in time, it waits for longer. */
static void check_wait(const struct wait *wait, bool runs_calls)
{
	for (wait_ms = 80; !stop_wait(wait, runs_calls); wait_ms *= 2)
		assert_true(wait_ms / 1000 < (int)test_seconds());
}

static void test_waits_go_on(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		check_wait(&waits[i], false);
}

static void test_waits_go_on_after_calls(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		check_wait(&waits[i], true);
}

/* ---- Time limits continue ------------------------------------------------------------------ */

enum { LONG_MS = 1000000000, HALF_MS = 500, PROBATION_MS = 20, BETWEEN_NS = 50000 };

static void epoll_long_body(struct shared *s)
{
	struct epoll_event event;
	int fd = watch_pipe(s);

	s->result = now_ns();
	atomic_store(&s->ready, 1);
	finish(s, 0, epoll_wait(fd, &event, 1, LONG_MS));
}

static void epoll_half_body(struct shared *s)
{
	struct epoll_event event;
	int fd = watch_pipe(s);
	int64_t start = now_ns();

	atomic_store(&s->ready, 1);
	finish(s, start, epoll_pwait(fd, &event, 1, HALF_MS, NULL));
}

/* Two calls like those between which the library lets BETWEEN_NS pass, and no more. */
static bool is_fast_enough(void)
{
	int fd = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
	int64_t least = INT64_MAX;
	char counters[96];

	for (int i = 0; i < 1000; i++) {
		int64_t begun = now_ns(), took;

		if (pread(fd, counters, sizeof(counters), 0) > 0)
			kill(getpid(), 0);
		took = now_ns() - begun;
		least = took < least ? took : least;
	}
	close(fd);
	return least < BETWEEN_NS / 2;
}

/* How the remaining time is recognised; some kernels or C libraries lack it. */
static void need_knowledge(void)
{
	unsigned long long ran = 0, waited, times;
	char sched[1024], counters[96];
	struct maps maps = {0};
	const struct mapping *code;
	bool is_libc;

	if (!file_read("/proc/self/sched", sched, sizeof(sched)) ||
		!strstr(sched, "se.exec_start") ||
		!file_read("/proc/self/schedstat", counters, sizeof(counters)) ||
		sscanf(counters, "%llu %llu %llu", &ran, &waited, &times) != 3 || !ran)
		skip_because("the kernel does not tell how long a thread has waited "
			     "(CONFIG_SCHED_DEBUG)");
	assert_done(maps_read(getpid(), &maps));
	code = maps_find(&maps, (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "epoll_wait"));
	is_libc = code && remaining_is_libc(code->path);
	maps_deinit(&maps);
	if (!is_libc || !arch_host()->argument_dies || !arch_host()->can_decode())
		skip_because("limits are shortened only in glibc's calls that have been decoded");
	if (!is_fast_enough())
		skip_because("this machine is so slow that limits are never shortened");
}

/* Stops it and looks at its limit: never less than what is left. True if it is less than before. */
static bool is_shortened(const struct victim *v)
{
	uint64_t limit_ms = LONG_MS;
	struct control control;
	int64_t waited;

	sleep_ms(PROBATION_MS);
	assert_done(control_stop(v->pid, 0, CONTROL_PATIENCE_NS, &control));
	waited = (now_ns() - atomic_load(&v->shared->result)) / 1000000;
	assert_int_equal(control.count, 1);
	if (arch_get(&control.threads[0].regs, ARCH_CALL) == SYS_epoll_wait)
		limit_ms = arch_get(&control.threads[0].regs, ARCH_ARG3);
	control_resume(&control);
	assert_true(limit_ms <= LONG_MS);
	assert_true((int64_t)limit_ms >= LONG_MS - waited);
	return limit_ms < LONG_MS;
}

static void test_limit_is_shortened(void **state)
{
	struct victim v;

	(void)state;
	need_knowledge();
	victim_start(&v, epoll_long_body);
	wait_until(is_shortened(&v));
	victim_end(&v);
}

static bool ends_though_stopped(const struct victim *v)
{
	struct control control;

	assert_done(control_stop(v->pid, 0, CONTROL_PATIENCE_NS, &control));
	control_resume(&control);
	sleep_ms(PROBATION_MS);
	return atomic_load(&v->shared->elapsed_ns) != 0;
}

/* It ends, however often it is stopped, and not too early. */
static void test_stops_do_not_prolong(void **state)
{
	struct victim v;

	(void)state;
	need_knowledge();
	victim_start(&v, epoll_half_body);
	wait_until(ends_though_stopped(&v));
	assert_true(atomic_load(&v.shared->elapsed_ns) >= HALF_MS * INT64_C(1000000));
	assert_int_equal(atomic_load(&v.shared->result), 0);
	victim_end(&v);
}

static void test_what_is_left(void **state)
{
	const uint64_t ms = 1000000, begun = 5000 * ms;

	(void)state;
	assert_int_equal(remaining_ms(10000, begun, begun), 10000);
	assert_int_equal(remaining_ms(10000, begun, begun + 2 * ms), 10000);
	/* A thousandth for the clocks, two milliseconds, and up to a whole one. */
	assert_int_equal(remaining_ms(10000, begun, begun + 9000 * ms), 1000 + 9 + 2);
	assert_int_equal(remaining_ms(10000, begun, begun + 9000 * ms - 1000), 1000 + 9 + 2 + 1);
	assert_int_equal(remaining_ms(10000, begun, begun + 10000 * ms), 10 + 2);
	assert_int_equal(remaining_ms(10000, begun, begun + 10500 * ms), 2);
	assert_int_equal(remaining_ms(1, begun, begun + 1 * ms), 1);
	assert_int_equal(remaining_ms(INT32_MAX, begun, begun + ms * INT32_MAX), 2147484 + 2);
	/* Two times that do not belong together. */
	assert_int_equal(remaining_ms(10000, 0, begun), 10000);
	assert_int_equal(remaining_ms(10000, begun, begun - 1), 10000);
	assert_int_equal(remaining_ms(10000, begun, 0), 10000);
	assert_int_equal(remaining_ms(10000, begun, begun + 11001 * ms), 10000);
}

static void test_which_library(void **state)
{
	char musl[64];

	(void)state;
	snprintf(musl, sizeof(musl), "/lib/ld-musl-%s.so.1", arch_process()->musl);
	assert_true(remaining_is_libc("/lib/x86_64-linux-gnu/libc.so.6"));
	assert_true(remaining_is_libc("/lib64/libc-2.17.so"));
	assert_true(remaining_is_libc(musl));
	assert_false(remaining_is_libc("/usr/bin/program"));
	assert_false(remaining_is_libc("/lib/libcrypto.so.3"));
	assert_false(remaining_is_libc("/lib/libc.so.6/plugin.so"));
	assert_false(remaining_is_libc(""));
	assert_false(remaining_is_libc("[vdso]"));
}

/* ---- Signals keep their effect ------------------------------------------------------------ */

static struct shared *handler_shared;

static void on_signal(int number)
{
	(void)number;
	atomic_fetch_add(&handler_shared->progress, 1);
}

static void handled_body(struct shared *s)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct epoll_event event;
	int fd = watch_pipe(s);

	handler_shared = s;
	sigaction(SIGUSR1, &action, NULL);
	atomic_store(&s->ready, 1);
	finish(s, 0, epoll_wait(fd, &event, 1, -1));
}

/* Before, during and after the stop. */
static void test_signals_end_them(void **state)
{
	(void)state;
	for (int when = 0; when < 3; when++) {
		struct control control;
		struct victim v;

		victim_start(&v, handled_body);
		await_state(&v, 'S');
		if (when == 0)
			kill(v.pid, SIGUSR1);
		assert_done(control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control));
		if (when == 1)
			kill(v.pid, SIGUSR1);
		control_resume(&control);
		if (when == 2) {
			await_state(&v, 'S');
			kill(v.pid, SIGUSR1);
		}
		await(&v.shared->progress, 1);
		await_result(v.shared);
		assert_int_equal(atomic_load(&v.shared->result), -EINTR);
		victim_end(&v);
	}
}

static struct arch_registers in_call(long number, long result)
{
	struct arch_registers regs = {{0}};

	arch_set(&regs, ARCH_CALL, (uint64_t)number);
	arch_set(&regs, ARCH_RESULT, (uint64_t)result);
	return regs;
}

/* What was seen before the stop, where the registers do not tell of the call. */
static void test_which_hidden_calls(void **state)
{
	enum { SP = 0x1000, PC = 0x2004, ARG = 5 };
	struct restart_seen seen = {SYS_epoll_wait, ARG, SP, PC}, other = seen;
	struct arch_registers regs = in_call(-1, -EINTR), again;

	(void)state;
	if (!arch_process()->hidden_call)
		skip_because("here the registers tell of every call");
	arch_set(&regs, ARCH_NUMBER, SYS_epoll_wait);
	arch_set(&regs, ARCH_SP, SP);
	arch_set(&regs, ARCH_PC, PC);
	again = regs;
	assert_false(restart_wait(&regs, NULL));
	other.pc += 4;
	assert_false(restart_wait(&regs, &other));
	other = seen;
	other.number = SYS_close;
	assert_false(restart_wait(&regs, &other));
	other.number = -1;
	assert_false(restart_wait(&regs, &other));
	assert_true(restart_wait(&regs, &seen));
	assert_int_equal(arch_get(&regs, ARCH_PC), PC - 4);
	assert_int_equal(arch_get(&regs, ARCH_ARG0), ARG);
	assert_false(restart_wait(&regs, &seen));
	restart_undo(&regs);
	assert_memory_equal(&regs, &again, sizeof(regs));
}

/* Only calls that have not done anything yet. */
static void test_which_calls(void **state)
{
	struct arch_registers regs = in_call(SYS_epoll_wait, -EINTR);

	(void)state;
	if (arch_process()->hidden_call)
		skip_because("here the registers do not tell of a call");
	assert_true(restart_wait(&regs, NULL));
	assert_int_equal((int64_t)arch_get(&regs, ARCH_RESULT), -514);
	assert_false(restart_wait(&regs, NULL));
	regs = in_call(SYS_close, -EINTR);
	assert_false(restart_wait(&regs, NULL));
	regs = in_call(-1, -EINTR);
	assert_false(restart_wait(&regs, NULL));
	regs = in_call(SYS_epoll_wait, 1);
	assert_false(restart_wait(&regs, NULL));
}

__attribute__((noreturn)) static void sleeping_body(struct shared *s)
{
	atomic_store(&s->ready, 1);
	for (;;)
		pause();
}

__attribute__((noreturn)) static void computing_body(struct shared *s)
{
	atomic_store(&s->ready, 1);
	for (;;)
		atomic_fetch_add(&s->progress, 1);
}

/* Of one that computes it is certain, wherever in its loop it is stopped. */
static void test_who_is_in_call(void **state)
{
	(void)state;
	for (int sleeps = 0; sleeps < 2; sleeps++) {
		struct victim v;

		victim_start(&v, sleeps ? sleeping_body : computing_body);
		if (sleeps)
			await_state(&v, 'S');
		else
			await(&v.shared->progress, 1);
		for (int i = 0; i < STOPS; i++) {
			struct control control;

			assert_done(control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control));
			assert_int_equal(control.count, 1);
			assert_int_equal(
				restart_is_in_call(v.pid, &control.threads[0].regs), sleeps);
			control_resume(&control);
		}
		victim_end(&v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits_go_on),
		cmocka_unit_test(test_waits_go_on_after_calls),
		cmocka_unit_test(test_limit_is_shortened),
		cmocka_unit_test(test_stops_do_not_prolong),
		cmocka_unit_test(test_what_is_left),
		cmocka_unit_test(test_which_library),
		cmocka_unit_test(test_signals_end_them),
		cmocka_unit_test(test_which_calls),
		cmocka_unit_test(test_which_hidden_calls),
		cmocka_unit_test(test_who_is_in_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
