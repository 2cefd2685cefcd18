/* SPDX-License-Identifier: MIT */
/*
 * Stopping processes and running system calls in them, so that they notice
 * nothing: threads that come and go, system calls that were interrupted, and a
 * controller that is killed at any step.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
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

#include "libprobe/procfs.h"
#include "tests/unit/victim.h"

enum { WAIT_MS = 300 };

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

/* Every thread that the kernel lists is stopped by us. */
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

		if (!letter || strchr("ZX", letter))
			continue;
		assert_int_equal(letter, 't');
		for (size_t i = 0; i < control->count; i++)
			known = known || control->threads[i].tid == tid;
		assert_true(known);
	}
	closedir(dir);
}

static void test_threads_being_created(void **state)
{
	struct control control;
	struct victim v;

	(void)state;
	victim_start(&v, churn_body);
	for (int i = 0; i < 100; i++) {
		uint64_t progress;

		assert_done(control_stop(v.pid, &control));
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

static void spin_body(struct shared *s)
{
	atomic_store(&s->ready, 1);
	for (;;)
		atomic_fetch_add(&s->progress, 1);
}

static void test_no_process(void **state)
{
	struct control control;
	struct probe_error *error = control_stop(0x7fffffff, &control);
	struct maps maps = {0};

	(void)state;
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	probe_error_free(error);
	error = control_borrow(0x7fffffff, &maps, NULL, &control);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	probe_error_free(error);
}

/* Another tracer is named. */
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
		error = control_stop(v.pid, &control);
		_exit(error || write(told[1], "x", 1) != 1 || pause());
	}
	assert_int_equal(read(told[0], &byte, 1), 1);
	error = control_stop(v.pid, &control);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_PERMISSION);
	assert_non_null(strstr(error->message, "being traced by process"));
	probe_error_free(error);
	kill(tracer, SIGKILL);
	waitpid(tracer, &status, 0);
	/* Its end lets the process go. */
	await(&v.shared->progress, atomic_load(&v.shared->progress) + 1);
	close(told[0]);
	close(told[1]);
	victim_end(&v);
}

/* Signals on their way are delivered, each once. */
static struct shared *handler_shared;

static void on_signal(int signal)
{
	(void)signal;
	atomic_fetch_add(&handler_shared->progress, 1);
}

static void signal_body(struct shared *s)
{
	handler_shared = s;
	signal(SIGUSR1, on_signal);
	atomic_store(&s->ready, 1);
	for (;;)
		pause();
}

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
		assert_done(control_stop(v.pid, &control));
		if (i % 2 == 0)
			assert_int_equal(kill(v.pid, SIGUSR1), 0);
		control_resume(&control);
		await(&v.shared->progress, i);
	}
	sleep_ms(20);
	assert_true(atomic_load(&v.shared->progress) == ROUNDS);
	victim_end(&v);
}

/* ---- System calls in it ------------------------------------------------------------------ */

static void run_getpid(struct victim *v, struct control *control)
{
	struct control_call calls[3] = {{.number = SYS_getpid},
		{.number = SYS_close, .args = {999}}, {.number = SYS_getppid}};

	assert_done(control_run(control, &v->maps, &v->gadgets, calls, 3, false));
	assert_int_equal(calls[0].result, v->pid);
	assert_int_equal(calls[1].result, -EBADF);
	assert_int_equal(calls[2].result, getpid());
	/* The first that fails ends it. */
	calls[2].result = 77;
	assert_done(control_run(control, &v->maps, &v->gadgets, calls, 3, true));
	assert_int_equal(calls[1].result, -EBADF);
	assert_int_equal(calls[2].result, 77);
}

static void test_getpid(void **state)
{
	struct control control;
	struct victim v;

	(void)state;
	victim_start(&v, spin_body);
	assert_done(control_stop(v.pid, &control));
	run_getpid(&v, &control);
	control_resume(&control);
	await(&v.shared->progress, atomic_load(&v.shared->progress) + 1);
	assert_done(control_borrow(v.pid, &v.maps, NULL, &control));
	assert_int_equal(control.count, 1);
	run_getpid(&v, &control);
	control_resume(&control);
	await(&v.shared->progress, atomic_load(&v.shared->progress) + 1);
	victim_end(&v);
}

/* A stack that is no certain place for a frame is not used. */
static void no_stack_body(struct shared *s)
{
	static char stack[1 << 16] __attribute__((aligned(16)));

	atomic_store(&s->ready, 1);
	__asm__ volatile("mov %0, %%rsp\n"
			 "1: lock incq (%1)\n"
			 "pause\n"
			 "jmp 1b\n"
			 :
			 : "r"(stack + sizeof(stack) - 4096), "r"(&s->progress)
			 : "memory");
}

static void test_no_room(void **state)
{
	struct control_call call = {.number = SYS_getpid};
	struct control control;
	struct probe_error *error;
	struct victim v;

	(void)state;
	victim_start(&v, no_stack_body);
	await(&v.shared->progress, 1);
	error = control_borrow(v.pid, &v.maps, NULL, &control);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_STATE);
	assert_non_null(strstr(error->message, "room on its stack"));
	probe_error_free(error);
	assert_done(control_stop(v.pid, &control));
	assert_false(control_has_room(&control.threads[0], &v.maps));
	error = control_run(&control, &v.maps, &v.gadgets, &call, 1, true);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_STATE);
	probe_error_free(error);
	control_resume(&control);
	await(&v.shared->progress, atomic_load(&v.shared->progress) + 1);
	victim_end(&v);
}

/* ---- Interrupted system calls --------------------------------------------------------------- */

static void finish(struct shared *s, int64_t start, int64_t result)
{
	atomic_store(&s->elapsed_ns, now_ns() - start);
	atomic_store(&s->result, result < 0 ? -errno : result);
}

static void nanosleep_body(struct shared *s)
{
	struct timespec wanted = {.tv_nsec = WAIT_MS * 1000000L}, left;
	int64_t start = now_ns();

	atomic_store(&s->ready, 1);
	finish(s, start, nanosleep(&wanted, &left));
}

static void clock_nanosleep_body(struct shared *s)
{
	struct timespec until;
	int64_t start = now_ns();

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += WAIT_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	atomic_store(&s->ready, 1);
	finish(s, start, -clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL));
}

static void poll_body(struct shared *s)
{
	int64_t start = now_ns();

	atomic_store(&s->ready, 1);
	finish(s, start, poll(NULL, 0, WAIT_MS));
}

static void poll_input_body(struct shared *s)
{
	struct pollfd fd = {.fd = s->pipe[0], .events = POLLIN};
	int64_t start = now_ns();

	atomic_store(&s->ready, 1);
	finish(s, start, poll(&fd, 1, 20000));
}

static void futex_body(struct shared *s)
{
	uint32_t word = 5;
	struct timespec wait = {.tv_nsec = WAIT_MS * 1000000L};
	int64_t start = now_ns();

	atomic_store(&s->ready, 1);
	finish(s, start, syscall(SYS_futex, &word, FUTEX_WAIT, 5, &wait, NULL, 0));
}

static void read_body(struct shared *s)
{
	char byte;
	int64_t start = now_ns();

	atomic_store(&s->ready, 1);
	finish(s, start, read(s->pipe[0], &byte, 1));
}

static void wait_body(struct shared *s)
{
	int64_t start = now_ns();
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		nanosleep(&(struct timespec){.tv_nsec = WAIT_MS * 1000000L}, NULL);
		_exit(5);
	}
	atomic_store(&s->ready, 1);
	finish(s, start, waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1);
}

static const struct interrupted {
	const char *name;
	void (*body)(struct shared *);
	int64_t result;
	bool needs_input; /* ends when there is some, else when its time is over */
} interrupted[] = {
	{"nanosleep", nanosleep_body, 0, false},
	{"clock_nanosleep", clock_nanosleep_body, 0, false},
	{"poll", poll_body, 0, false},
	{"poll for input", poll_input_body, 1, true},
	{"futex", futex_body, -ETIMEDOUT, false},
	{"read", read_body, 1, true},
	{"waitpid", wait_body, 5, false},
};

/* Stops it twice, and runs calls in it: it must end as if nothing had happened. */
static void test_interrupted(void **state)
{
	for (size_t i = 0; i < sizeof(interrupted) / sizeof(*interrupted); i++) {
		const struct interrupted *call = &interrupted[i];
		struct control control;
		struct victim v;
		int64_t elapsed;

		victim_start(&v, call->body);
		sleep_ms(30);
		for (int k = 0; k < 2; k++) {
			assert_done(control_stop(v.pid, &control));
			run_getpid(&v, &control);
			sleep_ms(20);
			control_resume(&control);
			sleep_ms(20);
		}
		if (call->needs_input)
			assert_int_equal(write(v.shared->pipe[1], "x", 1), 1);
		while (kill(v.pid, 0) == 0 && !atomic_load(&v.shared->elapsed_ns))
			sleep_ms(1);
		elapsed = atomic_load(&v.shared->elapsed_ns) / 1000000;
		if (atomic_load(&v.shared->result) != call->result)
			fail_msg("%s: result %lld", call->name,
				(long long)atomic_load(&v.shared->result));
		/* Neither cut short nor begun anew. A busy machine may be late. */
		if (!call->needs_input && (elapsed < WAIT_MS || elapsed > WAIT_MS + 2000))
			fail_msg("%s: took %lld ms", call->name, (long long)elapsed);
		victim_join(&v);
	}
	(void)state;
}

/* ---- A controller that is killed --------------------------------------------------------------
 */

/*
 * Fills every register, the red zone and the flags, and looks whether they stay
 * so; counts rounds. In assembly, so that nothing else is in registers.
 */
/* clang-format off */
__asm__("	.text\n"
	"keep_registers:\n"          /* rdi: where rounds are counted; ends with what is wrong */
	"	push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"	mov $0x1111111111, %rax\n movq %rax, %xmm0\n"
	"	mov $0x2222222222, %rbx\n movq %rbx, %xmm15\n"
	"	mov $0x3333333333, %rcx\n"
	"	mov $0x4444444444, %rdx\n"
	"	mov $0x5555555555, %rsi\n"
	"	mov $0x6666666666, %rbp\n"
	"	mov $0x7777777777, %r8\n"
	"	mov $0x8888888888, %r9\n"
	"	mov $0x9999999999, %r10\n"
	"	mov $0xaaaaaaaaaa, %r11\n"
	"	mov $0xbbbbbbbbbb, %r12\n"
	"	mov $0xcccccccccc, %r13\n"
	"	mov $0xdddddddddd, %r14\n"
	"	mov $0xeeeeeeeeee, %r15\n"
	"	mov %r15, -8(%rsp)\n"
	"	mov %r14, -128(%rsp)\n"
	"	stc\n"
	"1:	jnc 9f\n"            /* the carry lives through the round */
	"	lea 1(%rdi), %rdi\n lea -1(%rdi), %rdi\n"
	"	jnc 9f\n"
	"	cmp %r15, -8(%rsp)\n jne 9f\n"
	"	cmp %r14, -128(%rsp)\n jne 9f\n"
	"	movq %xmm0, %r15\n cmp %rax, %r15\n jne 9f\n"
	"	movq %xmm15, %r15\n cmp %rbx, %r15\n jne 9f\n"
	"	mov -8(%rsp), %r15\n"
	"	lock incq (%rdi)\n"
	"	mov $0x1111111111, %r15\n cmp %rax, %r15\n jne 9f\n"
	"	mov $0x2222222222, %r15\n cmp %rbx, %r15\n jne 9f\n"
	"	mov $0x3333333333, %r15\n cmp %rcx, %r15\n jne 9f\n"
	"	mov $0x4444444444, %r15\n cmp %rdx, %r15\n jne 9f\n"
	"	mov $0x5555555555, %r15\n cmp %rsi, %r15\n jne 9f\n"
	"	mov $0x6666666666, %r15\n cmp %rbp, %r15\n jne 9f\n"
	"	mov $0x7777777777, %r15\n cmp %r8, %r15\n jne 9f\n"
	"	mov $0x8888888888, %r15\n cmp %r9, %r15\n jne 9f\n"
	"	mov $0x9999999999, %r15\n cmp %r10, %r15\n jne 9f\n"
	"	mov $0xaaaaaaaaaa, %r15\n cmp %r11, %r15\n jne 9f\n"
	"	mov $0xbbbbbbbbbb, %r15\n cmp %r12, %r15\n jne 9f\n"
	"	mov $0xcccccccccc, %r15\n cmp %r13, %r15\n jne 9f\n"
	"	mov $0xdddddddddd, %r15\n cmp %r14, %r15\n jne 9f\n"
	"	mov $0xeeeeeeeeee, %r15\n"
	"	stc\n"
	"	jmp 1b\n"
	"9:	pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
	"	ret\n");
/* clang-format on */
void keep_registers(_Atomic uint64_t *rounds);

static void registers_body(struct shared *s)
{
	atomic_store(&s->ready, 1);
	keep_registers(&s->progress);
	atomic_store(&s->failure, 1);
}

/* A controller that does nothing but run calls in the victim, over and over. */
static void control_forever(struct victim *v)
{
	for (;;) {
		struct control_call calls[4] = {{.number = SYS_getpid}, {.number = SYS_getuid},
			{.number = SYS_mmap, .args = {0, 4096, PROT_READ, 0x22, -1, 0}},
			{.number = SYS_getppid}};
		struct control control;
		struct probe_error *error = control_borrow(v->pid, &v->maps, NULL, &control);

		if (error)
			_exit(1);
		error = control_run(&control, &v->maps, &v->gadgets, calls, 4, true);
		if (error || calls[0].result != v->pid)
			_exit(2);
		control_resume(&control);
	}
}

/* Kills controllers at many instants; the victim must go on after each. */
static void kill_controllers(struct victim *v, int rounds)
{
	unsigned int seed = 1;

	for (int i = 0; i < rounds; i++) {
		pid_t controller = fork();
		int status;

		assert_true(controller >= 0);
		if (controller == 0)
			control_forever(v);
		/* Within the first calls, or somewhere in the middle. */
		nanosleep(&(struct timespec){.tv_nsec =
						     100000 + (unsigned int)rand_r(&seed) % 900000},
			NULL);
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

/* A read that was interrupted is begun again by the victim itself. */
static void test_killed_while_it_reads(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		struct victim v;

		victim_start(&v, read_body);
		sleep_ms(5);
		kill_controllers(&v, 10);
		sleep_ms(5);
		assert_true(atomic_load(&v.shared->elapsed_ns) == 0);
		assert_int_equal(write(v.shared->pipe[1], "x", 1), 1);
		while (kill(v.pid, 0) == 0 && !atomic_load(&v.shared->elapsed_ns))
			sleep_ms(1);
		assert_int_equal(atomic_load(&v.shared->result), 1);
		victim_join(&v);
	}
}

/* The signal mask is put back, too: all signals are blocked during a call. */
static void test_killed_and_signalled(void **state)
{
	struct victim v;

	(void)state;
	victim_start(&v, signal_body);
	for (uint64_t i = 1; i <= 20; i++) {
		kill_controllers(&v, 5);
		assert_int_equal(kill(v.pid, SIGUSR1), 0);
		await(&v.shared->progress, i);
	}
	victim_end(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_being_created),
		cmocka_unit_test(test_no_process),
		cmocka_unit_test(test_traced_already),
		cmocka_unit_test(test_signals_are_kept),
		cmocka_unit_test(test_getpid),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_killed_while_it_computes),
		cmocka_unit_test(test_killed_while_it_reads),
		cmocka_unit_test(test_killed_and_signalled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
