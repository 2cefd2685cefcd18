/* SPDX-License-Identifier: MIT */
/*
 * Stopping processes and running system calls in them without their noticing: threads that come
 * and go, interrupted system calls, and a controller that is killed at any step.
 */
/* Not under ThreadSanitizer: it knows neither stacks nor code that we make. */
#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/page.h"
#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"
#include "tests/unit/ptrace/victim_bodies.h"
#include "tests/unit/wait.h"

enum { CHURN_STOPS = 500 };
static int64_t wait_ms; /* of victims */

/* ---- Stopping --------------------------------------------------------------------------- */

static void *count_once(void *data)
{
	struct shared *s = data;

	for (int i = 0; i < 100; i++)
		atomic_fetch_add(&s->progress, 1);
	return NULL;
}

/* Creates threads all the time, several at once. */
static void *create_threads(void *data)
{
	struct shared *s = data;

	atomic_fetch_add(&s->ready, 1);
	for (;;) {
		pthread_t threads[4];
		int count = 0;

		while (count < 4 && pthread_create(&threads[count], NULL, count_once, s) == 0)
			count++;
		while (count > 0)
			pthread_join(threads[--count], NULL);
	}
	return NULL;
}

static void churn_body(struct shared *s)
{
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, create_threads, s);
	for (;;)
		pause();
}

/* Goes on in another thread, and ends. */
static void *move_on(void *data)
{
	struct shared *s = data;
	pthread_t next;

	pthread_detach(pthread_self());
	atomic_fetch_add(&s->ready, 1);
	count_once(s);
	while (pthread_create(&next, NULL, move_on, s))
		sched_yield();
	return NULL;
}

static void chain_body(struct shared *s)
{
	pthread_t thread;

	for (int i = 0; i < 3; i++)
		pthread_create(&thread, NULL, move_on, s);
	for (;;)
		pause();
}

/* We stop every thread that the kernel lists, unless it is on its way out: it runs no code again.
 */
static void all_stopped(pid_t pid, const struct control *control)
{
	struct dirent *entry;
	char path[48];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		pid_t tid = atoi(entry->d_name);
		bool known = false;
		char letter = tid ? procfs_thread_state(pid, tid) : 0;

		if (!letter || strchr("ZX", letter) || procfs_is_exiting(tid))
			continue;
		assert_int_equal(letter, 't');
		for (size_t i = 0; i < control->count; i++)
			known = known || control->threads[i].tid == tid;
		assert_true(known);
	}
	closedir(dir);
}

static void stop_often(void (*body)(struct shared *))
{
	struct control control;
	struct victim v;

	victim_start(&v, body);
	for (int i = 0; i < CHURN_STOPS; i++) {
		uint64_t progress;

		assert_done(control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control));
		assert_true(control.count >= 1);
		progress = atomic_load(&v.shared->progress);
		all_stopped(v.pid, &control);
		if (i % 10 == 0)
			sleep_ms(2);
		assert_true(atomic_load(&v.shared->progress) == progress);
		assert_true(control_resume(&control) > 0);
		assert_null(control.threads);
		if (i % 10 == 0)
			await(&v.shared->progress, progress + 1);
	}
	assert_int_equal(procfs_status_number(v.pid, "TracerPid:"), 0);
	victim_end(&v);
}

static void test_threads_being_created(void **state)
{
	(void)state;
	stop_often(churn_body);
	stop_often(chain_body);
}

static void spin_body(struct shared *s)
{
	atomic_store(&s->ready, 1);
	for (;;)
		atomic_fetch_add(&s->progress, 1);
}

static void test_no_process(void **state)
{
	struct control control;
	struct probe_error *error = control_stop(0x7fffffff, 0, CONTROL_PATIENCE_NS, &control);

	(void)state;
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	probe_error_free(error);
	error = control_borrow(0x7fffffff, NULL, CONTROL_PATIENCE_NS, NULL, &control);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	probe_error_free(error);
}

/* The error names the other tracer. */
static void test_traced_already(void **state)
{
	struct control control;
	struct probe_error *error;
	struct victim v;
	int told[2], status;
	pid_t tracer;
	char byte;

	(void)state;
	victim_start(&v, spin_body);
	assert_int_equal(pipe(told), 0);
	tracer = fork();
	if (tracer == 0) {
		error = control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control);
		_exit(error || write(told[1], "x", 1) != 1 || pause());
	}
	assert_int_equal(read(told[0], &byte, 1), 1);
	error = control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_PERMISSION);
	assert_non_null(strstr(error->message, "being traced by process"));
	probe_error_free(error);
	kill(tracer, SIGKILL);
	waitpid(tracer, &status, 0);
	/* Its end releases the process. */
	await(&v.shared->progress, atomic_load(&v.shared->progress) + 1);
	close(told[0]);
	close(told[1]);
	victim_end(&v);
}

/* Pending signals are delivered, each once. */
static void test_signals_are_kept(void **state)
{
	enum { ROUNDS = 50 };
	struct control control;
	struct victim v;

	(void)state;
	victim_start(&v, signal_body);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		if (i % 2)
			assert_int_equal(kill(v.pid, SIGUSR1), 0);
		assert_done(control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control));
		if (i % 2 == 0)
			assert_int_equal(kill(v.pid, SIGUSR1), 0);
		control_resume(&control);
		await(&v.shared->signals, i);
	}
	sleep_ms(20);
	assert_true(atomic_load(&v.shared->signals) == ROUNDS);
	victim_end(&v);
}

/* ---- System calls in the victim ---------------------------------------------------------- */

static void run_getpid(struct victim *v, struct control *control)
{
	struct control_call calls[3] = {{.number = SYS_getpid},
		{.number = SYS_close, .args = {999}}, {.number = SYS_getppid}};

	/* The first failure ends it. */
	calls[2].result = 77;
	assert_done(control_run(control, &v->rooms, &v->gadgets, v->prepared, calls, 3));
	assert_int_equal(calls[0].result, v->pid);
	assert_true(control_succeeded(&calls[0]));
	assert_int_equal(calls[1].result, -EBADF);
	assert_false(control_succeeded(&calls[1]));
	assert_int_equal(calls[2].result, 77);
	assert_done(control_run(control, &v->rooms, &v->gadgets, v->prepared, &calls[2], 1));
	assert_int_equal(calls[2].result, getpid());
}

static void test_getpid(void **state)
{
	struct control control;
	struct victim v;

	(void)state;
	victim_start(&v, spin_body);
	assert_done(control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control));
	run_getpid(&v, &control);
	control_resume(&control);
	await(&v.shared->progress, atomic_load(&v.shared->progress) + 1);
	assert_done(control_borrow(v.pid, NULL, CONTROL_PATIENCE_NS, NULL, &control));
	assert_int_equal(control.count, 1);
	run_getpid(&v, &control);
	control_resume(&control);
	await(&v.shared->progress, atomic_load(&v.shared->progress) + 1);
	victim_end(&v);
}

/* Which rooms exist decides only where the frame lies. */
static void run_in_rooms(struct victim *v)
{
	struct control control;

	assert_done(control_stop(v->pid, 0, CONTROL_PATIENCE_NS, &control));
	run_getpid(v, &control);
	control_resume(&control);
	await(&v->shared->progress, atomic_load(&v->shared->progress) + 1);
	array_is_unchanged(v);
}

static void test_no_stack_is_used(void **state)
{
	struct victim v;

	(void)state;
	victim_start(&v, on_array_body);
	await(&v.shared->progress, 1);
	run_in_rooms(&v);
	/* Only the never-used part of the main stack. */
	v.rooms.count = 0;
	for (int i = 0; i < 20; i++)
		run_in_rooms(&v);
	victim_end(&v);
}

/* One room for the frame, and one for the floating-point state. */
static void test_two_rooms(void **state)
{
	struct control_call call = {.number = SYS_mmap,
		.args = {0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}};
	struct control control;
	struct victim v;
	uint64_t at;

	(void)state;
	victim_start(&v, on_array_body);
	await(&v.shared->progress, 1);
	assert_done(control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control));
	assert_done(control_run(&control, &v.rooms, &v.gadgets, v.prepared, &call, 1));
	at = call.result;
	v.rooms.count = 2;
	v.rooms.items[0] = (struct room){ROOM_TAIL, at, 512};
	v.rooms.items[1] = (struct room){ROOM_TAIL, at + 4096, 4096};
	run_getpid(&v, &control);
	control_resume(&control);
	array_is_unchanged(&v);
	victim_end(&v);
}

/* Three pages of a victim, of which the first is a room for all that is needed. */
static uint64_t make_room(struct victim *v, struct control *control)
{
	struct control_call call = {.number = SYS_mmap,
		.args = {0, 3 * page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0}};

	assert_done(control_borrow(v->pid, NULL, CONTROL_PATIENCE_NS, NULL, control));
	assert_done(control_run(control, &v->rooms, &v->gadgets, v->prepared, &call, 1));
	v->rooms.count = 1;
	v->rooms.items[0] = (struct room){ROOM_TAIL, call.result, page_bytes()};
	return call.result;
}

/* Unmaps the other two. Is it seen? */
static bool unmap_two(struct victim *v, struct control *control, uint64_t at)
{
	uint64_t page = page_bytes();
	struct control_call calls[3] = {{.number = SYS_getpid},
		{.number = SYS_munmap, .args = {at + page, page}, .lets_go = true},
		{.number = SYS_munmap, .args = {at + 2 * page, page}}};
	static const uint8_t zeros[4096];
	uint8_t bytes[4096];

	assert_done(control_run(control, &v->rooms, &v->gadgets, v->prepared, calls, 3));
	assert_int_equal(calls[0].result, v->pid);
	assert_true(control_succeeded(&calls[1]) && control_succeeded(&calls[2]));
	assert_int_equal(calls[1].is_unseen, calls[2].is_unseen);
	assert_int_equal(memory_read(v->pid, at, bytes, 4096), 4096);
	assert_memory_equal(bytes, zeros, sizeof(bytes));
	assert_int_equal(memory_read(v->pid, at + page, bytes, 1), 0);
	assert_int_equal(memory_read(v->pid, at + 2 * page, bytes, 1), 0);
	assert_int_equal(control->count, 1);
	return !calls[1].is_unseen;
}

/* A thread that computes makes the last two calls on its way; another one under our eyes. */
static void test_on_its_way(void **state)
{
	struct control control;
	struct victim v;
	uint64_t at;

	(void)state;
	victim_start(&v, spin_body);
	at = make_room(&v, &control);
	assert_false(unmap_two(&v, &control, at));
	control_resume(&control);
	await(&v.shared->progress, atomic_load(&v.shared->progress) + 1);
	victim_end(&v);

	victim_start(&v, read_body);
	await_state(&v, 'S');
	at = make_room(&v, &control);
	assert_true(unmap_two(&v, &control, at));
	control_resume(&control);
	victim_end(&v);

	/* One that was not borrowed stays where it is: others count on it. */
	victim_start(&v, spin_body);
	at = make_room(&v, &control);
	control_resume(&control);
	assert_done(control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control));
	assert_true(unmap_two(&v, &control, at));
	control_resume(&control);
	await(&v.shared->progress, atomic_load(&v.shared->progress) + 1);
	victim_end(&v);
}

/* One that a signal has stopped does not get far by itself. It is stopped afterwards, too. */
static void test_on_its_way_while_stopped(void **state)
{
	struct control control;
	struct victim v;
	uint64_t at, progress;

	(void)state;
	victim_start(&v, spin_body);
	assert_int_equal(kill(v.pid, SIGSTOP), 0);
	await_state(&v, 'T');
	at = make_room(&v, &control);
	assert_false(unmap_two(&v, &control, at));
	control_resume(&control);
	progress = atomic_load(&v.shared->progress);
	sleep_ms(20);
	assert_true(atomic_load(&v.shared->progress) == progress);
	assert_int_equal(kill(v.pid, SIGCONT), 0);
	await(&v.shared->progress, progress + 1);
	victim_end(&v);
}

/* No room at all, for example if the whole stack was used. */
static void test_no_room(void **state)
{
	struct control_call call = {.number = SYS_getpid};
	struct maps none = {0};
	struct control control;
	struct probe_error *error;
	struct victim v;

	(void)state;
	victim_start(&v, on_array_body);
	await(&v.shared->progress, 1);
	v.rooms.count = 0;
	v.rooms.maps = &none;
	assert_done(control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control));
	error = control_run(&control, &v.rooms, &v.gadgets, v.prepared, &call, 1);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_UNSUPPORTED);
	assert_non_null(strstr(error->message, "certainly unused"));
	probe_error_free(error);
	control_resume(&control);
	await(&v.shared->progress, atomic_load(&v.shared->progress) + 1);
	victim_end(&v);
}

/* ---- Interrupted system calls --------------------------------------------------------------- */

static void nanosleep_body(struct shared *s)
{
	struct timespec wanted = {wait_ms / 1000, wait_ms % 1000 * 1000000}, left;
	int64_t start = now_ns();

	atomic_store(&s->ready, 1);
	finish(s, start, nanosleep(&wanted, &left));
}

static void clock_nanosleep_body(struct shared *s)
{
	struct timespec until;
	int64_t start = now_ns();

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += wait_ms % 1000 * 1000000;
	until.tv_sec += wait_ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	atomic_store(&s->ready, 1);
	finish(s, start, -clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL));
}

static void poll_body(struct shared *s)
{
	int64_t start = now_ns();

	atomic_store(&s->ready, 1);
	finish(s, start, poll(NULL, 0, (int)wait_ms));
}

static void poll_input_body(struct shared *s)
{
	struct pollfd fd = {.fd = s->pipe[0], .events = POLLIN};
	int64_t start = now_ns();

	atomic_store(&s->ready, 1);
	finish(s, start, poll(&fd, 1, -1));
}

static void futex_body(struct shared *s)
{
	uint32_t word = 5;
	struct timespec wait = {wait_ms / 1000, wait_ms % 1000 * 1000000};
	int64_t start = now_ns();

	atomic_store(&s->ready, 1);
	finish(s, start, syscall(SYS_futex, &word, FUTEX_WAIT, 5, &wait, NULL, 0));
}

static void wait_body(struct shared *s)
{
	int64_t start = now_ns();
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		nanosleep(&(struct timespec){wait_ms / 1000, wait_ms % 1000 * 1000000}, NULL);
		_exit(5);
	}
	atomic_store(&s->ready, 1);
	finish(s, start, waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1);
}

static const struct interrupted {
	const char *name;
	void (*body)(struct shared *);
	int64_t result;
	bool needs_input; /* ends on input, or else after its time */
} interrupted[] = {
	{"nanosleep", nanosleep_body, 0, false},
	{"clock_nanosleep", clock_nanosleep_body, 0, false},
	{"poll", poll_body, 0, false},
	{"poll for input", poll_input_body, 1, true},
	{"futex", futex_body, -ETIMEDOUT, false},
	{"read", read_body, 1, true},
	{"waitpid", wait_body, 5, false},
};

/* Doubles the victims' waits, for a slow machine; false: they would be longer than a test. */
static bool is_longer_possible(void)
{
	wait_ms *= 2;
	return wait_ms < INT64_C(1000) * test_seconds();
}

/*
 * Stops it twice, and runs calls in it: its call must end as if nothing had happened. False if it
 * ended before that.
 */
static bool interrupt_twice(const struct interrupted *call)
{
	struct control control;
	struct victim v;
	bool in_time = false;
	int64_t elapsed;

	victim_start(&v, call->body);
	await_state(&v, 'S');
	for (int k = 0; k < 2; k++) {
		assert_done(control_stop(v.pid, 0, CONTROL_PATIENCE_NS, &control));
		run_getpid(&v, &control);
		sleep_ms(20);
		in_time = atomic_load(&v.shared->elapsed_ns) == 0;
		control_resume(&control);
		sleep_ms(20);
	}
	if (call->needs_input)
		assert_int_equal(write(v.shared->pipe[1], "x", 1), 1);
	wait_until(atomic_load(&v.shared->elapsed_ns));
	elapsed = atomic_load(&v.shared->elapsed_ns) / 1000000;
	if (atomic_load(&v.shared->result) != call->result)
		fail_msg("%s: result %lld", call->name, (long long)atomic_load(&v.shared->result));
	if (!call->needs_input && elapsed < wait_ms)
		fail_msg("%s: took %lld ms", call->name, (long long)elapsed);
	victim_join(&v);
	return in_time;
}

static void test_interrupted(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(interrupted) / sizeof(*interrupted); i++) {
		wait_ms = 200;
		while (!interrupt_twice(&interrupted[i]))
			assert_true(is_longer_possible());
	}
}

/*
 * Stops a sleep late. If it had all of its time again, it would end no sooner than that time after
 * the stop; false if it did not end sooner.
 */
static bool sleep_goes_on(void (*body)(struct shared *), int64_t result)
{
	struct control control;
	struct victim v;
	int64_t ready, stop, elapsed;
	bool in_time;

	victim_start(&v, body);
	ready = now_ns();
	sleep_ms((unsigned int)wait_ms * 6 / 10);
	stop = now_ns();
	assert_done(control_borrow(v.pid, NULL, CONTROL_PATIENCE_NS, NULL, &control));
	run_getpid(&v, &control);
	in_time = atomic_load(&v.shared->elapsed_ns) == 0;
	control_resume(&control);
	wait_until(atomic_load(&v.shared->elapsed_ns));
	elapsed = atomic_load(&v.shared->elapsed_ns);
	assert_true(elapsed >= wait_ms * 1000000);
	assert_int_equal(atomic_load(&v.shared->result), result);
	victim_join(&v);
	/* It began before it was ready. */
	return in_time && ready + elapsed < stop + wait_ms * 1000000;
}

/* A sleep that is stopped late has the rest of its time, and not all of it again. */
static void test_sleeps_go_on(void **state)
{
	(void)state;
	wait_ms = 400;
	while (!sleep_goes_on(nanosleep_body, 0))
		assert_true(is_longer_possible());
	wait_ms = 400;
	while (!sleep_goes_on(futex_body, -ETIMEDOUT))
		assert_true(is_longer_possible());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_being_created),
		cmocka_unit_test(test_no_process),
		cmocka_unit_test(test_traced_already),
		cmocka_unit_test(test_signals_are_kept),
		cmocka_unit_test(test_getpid),
		cmocka_unit_test(test_no_stack_is_used),
		cmocka_unit_test(test_two_rooms),
		cmocka_unit_test(test_on_its_way),
		cmocka_unit_test(test_on_its_way_while_stopped),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_sleeps_go_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
