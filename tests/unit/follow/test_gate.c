/* SPDX-License-Identifier: MIT */
/* The controller's side of a gate whose words the target writes at will. */
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/base/procfs.h"
#include "libprobe/follow/follow.h"
#include "tests/unit/skip.h"
#include "tests/unit/wait.h"

static struct probe_gate *shared_gate(void)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static void open_gate(struct gate *gate, struct probe_gate *shared)
{
	struct probe_error *error = gate_prepare(gate);

	if (error)
		fail_msg("%s", error->message);
	gate_open(gate, shared, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	assert_int_equal(shared->armed, 1);
}

static bool is_wanted(const struct gate *gate)
{
	struct pollfd pfd = {.fd = gate->event, .events = POLLIN};

	return poll(&pfd, 1, (int)test_seconds() * 1000) == 1;
}

static void test_one_thread(void **state)
{
	struct probe_gate *shared = shared_gate();
	struct gate gate;

	(void)state;
	open_gate(&gate, shared);
	assert_false(gate_take(&gate));
	atomic_store((_Atomic uint32_t *)&shared->arrived, 1);
	syscall(SYS_futex, &shared->arrived, FUTEX_WAKE, 1, NULL, NULL, 0);
	assert_true(is_wanted(&gate));
	assert_true(gate_take(&gate));
	/* Turn 0 was let go 16 arrivals ago, turn 2 is still to come. */
	assert_true(gate_holds_turn(&gate, 1));
	assert_false(gate_holds_turn(&gate, 0));
	assert_false(gate_holds_turn(&gate, 2));
	gate_release(&gate);
	assert_int_equal(shared->released, 1);
	assert_false(gate_take(&gate));
	gate_close(&gate);
	close(gate.event);
	assert_int_equal(shared->armed, 0);
	munmap(shared, 4096);
}

/* Who waited in vain has disarmed the gate: that is told once, and it holds again. */
static void test_lapse(void **state)
{
	struct probe_gate *shared = shared_gate();
	struct gate gate = {0};

	(void)state;
	assert_false(gate_has_lapsed(&gate));
	open_gate(&gate, shared);
	assert_false(gate_has_lapsed(&gate));
	for (int i = 0; i < 2; i++) {
		atomic_store((_Atomic uint32_t *)&shared->armed, 0);
		assert_true(gate_has_lapsed(&gate));
		assert_int_equal(shared->armed, 1);
		assert_false(gate_has_lapsed(&gate));
	}
	/* We do so as well. */
	gate_arm(&gate, false);
	assert_false(gate_has_lapsed(&gate));
	assert_int_equal(shared->armed, 0);
	gate_arm(&gate, true);
	assert_false(gate_has_lapsed(&gate));
	atomic_store((_Atomic uint32_t *)&shared->armed, 0);
	gate_arm(&gate, false);
	gate_arm(&gate, true);
	assert_true(gate_has_lapsed(&gate));
	gate_close(&gate);
	assert_false(gate_has_lapsed(&gate));
	close(gate.event);
	munmap(shared, 4096);
}

/* How often the waiter has slept so far. */
static long sleeps(const struct gate *gate)
{
	char path[64], line[128];
	long count = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%u/status", gate->owner);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "voluntary_ctxt_switches: %ld", &count);
	fclose(file);
	return count;
}

static bool is_asleep(const struct gate *gate)
{
	return procfs_thread_state(getpid(), (pid_t)gate->owner) == 'S';
}

/* Sessions are many, and often idle: a waiter has no processor time while nothing comes. */
static void test_idle(void **state)
{
	struct probe_gate *shared = shared_gate();
	struct gate gate;
	long before;

	(void)state;
	open_gate(&gate, shared);
	wait_until(is_asleep(&gate));
	before = sleeps(&gate);
	usleep(500000);
	assert_in_range(sleeps(&gate) - before, 0, 1);
	gate_close(&gate);
	close(gate.event);
	munmap(shared, 4096);
}

struct writer {
	struct probe_gate *shared;
	atomic_bool over;
};

/* Undoes whatever the controller may write, and wakes the waiter all the time. */
static void *write_back(void *data)
{
	struct writer *writer = data;

	while (!atomic_load(&writer->over)) {
		atomic_store((_Atomic uint32_t *)&writer->shared->arrived, 0);
		syscall(SYS_futex, &writer->shared->arrived, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
	return NULL;
}

static void test_close_written_back(void **state)
{
	struct probe_gate *shared = shared_gate();
	struct writer writer = {.shared = shared};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, write_back, &writer), 0);
	alarm(test_seconds());
	for (int i = 0; i < 200; i++) {
		struct gate gate;

		open_gate(&gate, shared);
		gate_close(&gate);
		close(gate.event);
	}
	alarm(0);
	atomic_store(&writer.over, true);
	pthread_join(thread, NULL);
	munmap(shared, 4096);
}

/*
 * If a target changes the word back between our change and the waiter's wait, the wake-up is
 * missed. Here it goes to another page.
 */
static void test_close_unheard(void **state)
{
	struct probe_gate *shared = shared_gate(), *elsewhere = shared_gate();
	struct gate gate;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip_because("this is a race, on purpose");
#endif
	open_gate(&gate, shared);
	/* The waiter has seen this, and waits for the next one. */
	atomic_store((_Atomic uint32_t *)&shared->arrived, 1);
	syscall(SYS_futex, &shared->arrived, FUTEX_WAKE, 1, NULL, NULL, 0);
	assert_true(is_wanted(&gate));
	wait_until(is_asleep(&gate));
	gate.shared = elsewhere;
	alarm(test_seconds());
	gate_close(&gate);
	close(gate.event);
	alarm(0);
	munmap(shared, 4096);
	munmap(elsewhere, 4096);
}

/* Where a program has no such place, or it cannot be patched. */
static void test_never_opened(void **state)
{
	struct gate gates[2] = {0};

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_null(gate_prepare(&gates[i]));
	assert_false(gate_take(&gates[0]));
	alarm(test_seconds());
	gate_shut(&gates[0]);
	gate_close(&gates[0]);
	gate_close(&gates[0]);
	gate_close(&gates[1]);
	alarm(0);
}

/* When the waiter dies, the kernel marks the turns. Here its process does. */
static void test_death(void **state)
{
	struct probe_gate *shared = shared_gate();
	struct gate gate;
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		open_gate(&gate, shared);
		_exit(0);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	for (uint32_t i = 0; i < GATE_TURNS; i++)
		assert_int_equal(shared->turns[i].owner & FUTEX_OWNER_DIED, FUTEX_OWNER_DIED);
	munmap(shared, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_thread),
		cmocka_unit_test(test_lapse),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_close_written_back),
		cmocka_unit_test(test_close_unheard),
		cmocka_unit_test(test_never_opened),
		cmocka_unit_test(test_death),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
