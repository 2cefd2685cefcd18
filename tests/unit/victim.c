/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"
#include "tests/unit/victim.h"
#include "tests/unit/wait.h"

void assert_done(struct probe_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

void sleep_ms(unsigned int ms)
{
	nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void await(const _Atomic uint64_t *word, uint64_t value)
{
	wait_until(atomic_load(word) >= value);
}

void await_state(const struct victim *victim, char state)
{
	wait_until(procfs_thread_state(victim->pid, victim->pid) == state);
}

void victim_start(struct victim *victim, void (*body)(struct shared *shared))
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(s, MAP_FAILED);
	assert_int_equal(pipe(s->pipe), 0);
	*victim = (struct victim){.shared = s, .pid = fork()};
	assert_true(victim->pid >= 0);
	if (victim->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
		body(s);
		_exit(0);
	}
	await(&s->ready, 1);
	assert_done(maps_read(victim->pid, &victim->maps));
	assert_done(modules_read(victim->pid, NULL, &victim->modules));
	assert_done(gadgets_find(victim->pid, &victim->maps, &victim->modules, &victim->gadgets));
	victim->prepared = control_prepared();
	assert_non_null(victim->prepared);
	assert_done(memory_open(victim->pid, &victim->mem));
	assert_done(control_find_rooms(victim->pid, 0, CONTROL_PATIENCE_NS, victim->mem,
		&victim->maps, &victim->modules, &victim->rooms));
}

struct probe_error *control_run(struct control *control, const struct rooms *rooms,
	const struct arch_gadgets *gadgets, struct prepared *prepared, struct control_call *calls,
	size_t count)
{
	struct probe_error *error =
		control_run_and_leave(control, rooms, gadgets, prepared, calls, count);

	control_clear(rooms, prepared);
	return error;
}

static void victim_deinit(struct victim *victim)
{
	uint64_t failure = atomic_load(&victim->shared->failure);

	close(victim->shared->pipe[0]);
	close(victim->shared->pipe[1]);
	munmap(victim->shared, sizeof(*victim->shared));
	free(victim->prepared);
	close(victim->mem);
	maps_deinit(&victim->maps);
	modules_deinit(&victim->modules);
	if (failure)
		fail_msg("the victim found something wrong: %llu", (unsigned long long)failure);
}

void victim_end(struct victim *victim)
{
	int status = 0;

	assert_int_equal(kill(victim->pid, SIGKILL), 0);
	assert_int_equal(waitpid(victim->pid, &status, 0), victim->pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	victim_deinit(victim);
}

void victim_join(struct victim *victim)
{
	int status = 0;

	atomic_store(&victim->shared->over, 1);
	assert_int_equal(waitpid(victim->pid, &status, 0), victim->pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	victim_deinit(victim);
}
