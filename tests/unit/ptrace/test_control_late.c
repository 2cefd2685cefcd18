/* SPDX-License-Identifier: MIT */
/*
 * A thread does not come back from a system call that it makes for us. It is put back, or goes on
 * by itself when the call ends. In both cases it is as it was before, and later calls work.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/base/page.h"
#include "libprobe/base/procfs.h"
#include "tests/unit/skip.h"
#include "tests/unit/ptrace/keep_registers.h"
#include "tests/unit/ptrace/victim_bodies.h"
#include "tests/unit/wait.h"

static void spin_body(struct shared *s)
{
	atomic_store(&s->ready, 1);
	for (;;)
		atomic_fetch_add(&s->progress, 1);
}

/* The thread runs, is not traced, blocks no signal, and can make calls for the next controller. */
static void is_as_before(struct victim *v)
{
	struct control_call call = {.number = SYS_getpid};
	struct control control;
	char blocked[32];

	await(&v->shared->progress, atomic_load(&v->shared->progress) + 1);
	assert_int_equal(procfs_status_number(v->pid, "TracerPid:"), 0);
	assert_true(procfs_status_text(v->pid, "SigBlk:", blocked, sizeof(blocked)));
	assert_string_equal(blocked, "0000000000000000");
	assert_done(control_find_rooms(
		v->pid, 0, CONTROL_PATIENCE_NS, v->mem, &v->maps, &v->modules, &v->rooms));
	assert_int_equal(v->rooms.left_count, 0);
	assert_done(control_borrow(v->pid, NULL, CONTROL_PATIENCE_NS, NULL, &control));
	assert_done(control_run(&control, &v->rooms, &v->gadgets, v->prepared, &call, 1));
	control_resume(&control);
	assert_int_equal(call.result, v->pid);
	await(&v->shared->progress, atomic_load(&v->shared->progress) + 1);
}

/* The error names the thread and its state. */
static void run_late(struct victim *v, struct control *control, struct control_call *call)
{
	struct probe_error *error =
		control_run(control, &v->rooms, &v->gadgets, v->prepared, call, 1);
	char thread[48];

	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_STATE);
	snprintf(thread, sizeof(thread), "thread %d of process %d does not come back", v->pid,
		v->pid);
	assert_non_null(strstr(error->message, thread));
	assert_non_null(strstr(error->message, "(state "));
	probe_error_free(error);
}

/* A call that a stop interrupts: the thread is put back. */
static void test_sleeping_call(void **state)
{
	struct control_call call = {.number = SYS_read};
	struct control control;
	struct victim v;

	(void)state;
	victim_start(&v, spin_body);
	call.args[0] = (uint64_t)v.shared->pipe[0];
	call.args[1] = (uint64_t)(uintptr_t)&v.shared->result;
	call.args[2] = 1;
	assert_done(control_borrow(v.pid, NULL, CONTROL_PATIENCE_NS, NULL, &control));
	run_late(&v, &control, &call);
	assert_false(control.threads[0].is_running);
	control_resume(&control);
	is_as_before(&v);
	/* The byte that the call waited for is still there. */
	assert_int_equal(write(v.shared->pipe[1], "x", 1), 1);
	assert_int_equal(
		poll(&(struct pollfd){.fd = v.shared->pipe[0], .events = POLLIN}, 1, 0), 1);
	victim_end(&v);
}

/* ---- A call that no stop interrupts: it reads memory that another process serves ---- */

static uint8_t *served;

/* Provides the memory when `signals` tells it to. */
static void serve(struct shared *s, int faults)
{
	struct uffdio_zeropage zeros = {.range = {(uintptr_t)served, page_bytes()}};

	wait_until(atomic_load(&s->signals));
	ioctl(faults, UFFDIO_ZEROPAGE, &zeros);
	_exit(0);
}

static void served_body(struct shared *s)
{
	int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register area = {
		.range = {(uintptr_t)served, page_bytes()}, .mode = UFFDIO_REGISTER_MODE_MISSING};

	if (faults < 0 || ioctl(faults, UFFDIO_API, &api) < 0 ||
		ioctl(faults, UFFDIO_REGISTER, &area) < 0)
		atomic_store(&s->result, -1);
	else if (fork() == 0)
		serve(s, faults);
	spin_body(s);
}

static void test_call_that_stays(void **state)
{
	struct control_call call = {.number = SYS_write};
	struct control control;
	uint64_t progress;
	struct victim v;

	(void)state;
	served = mmap(
		NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(served, MAP_FAILED);
	victim_start(&v, served_body);
	if (atomic_load(&v.shared->result) < 0) {
		victim_end(&v);
		skip_because("userfaultfd(2) is not allowed");
	}
	call.args[0] = (uint64_t)v.shared->pipe[1];
	call.args[1] = (uint64_t)(uintptr_t)served;
	call.args[2] = 1;
	assert_done(control_borrow(v.pid, NULL, CONTROL_PATIENCE_NS, NULL, &control));
	run_late(&v, &control, &call);
	assert_true(control.threads[0].is_running);
	control_resume(&control);
	/* The thread goes on by itself as soon as the call ends. */
	progress = atomic_load(&v.shared->progress);
	control_let_late_go();
	sleep_ms(20);
	assert_true(atomic_load(&v.shared->progress) == progress);
	atomic_store(&v.shared->signals, 1);
	wait_until((control_let_late_go(), atomic_load(&v.shared->progress) != progress));
	is_as_before(&v);
	victim_end(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sleeping_call),
		cmocka_unit_test(test_call_that_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
