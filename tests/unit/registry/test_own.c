/* SPDX-License-Identifier: MIT */
/*
 * A program that takes memory of ours is told from one that execve(2) replaces while its memory is
 * compared: also from one whose memory somebody keeps.
 */
/* Not under ThreadSanitizer: it knows no processes that share memory. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/base/page.h"
#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"
#include "tests/unit/victim.h"

/* What a victim does when it is told. */
enum order { UNMAP_DATA = 1, EXECUTE, EXECUTE_KEPT };

struct held {
	struct victim victim;
	struct registry registry;
	struct maps maps; /* read before the order */
};

static _Noreturn int keep(void *unused)
{
	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

/* A process that has the victim's memory, and keeps it when the victim has another. */
static void start_keeper(void)
{
	static char stack[65536] __attribute__((aligned(16)));

	clone(keep, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
}

static uint64_t map_file(int prot, int flags)
{
	int fd = memfd_create(SHARED_NAME, MFD_CLOEXEC);
	void *at = ftruncate(fd, (off_t)page_bytes()) == 0
			   ? mmap(NULL, page_bytes(), prot, flags, fd, 0)
			   : MAP_FAILED;

	close(fd);
	return at == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)at;
}

/* Maps what a session needs, and does what the byte from the pipe says. */
static void body(struct shared *s)
{
	uint64_t home = map_file(PROT_READ | PROT_EXEC, MAP_PRIVATE);
	uint64_t data = map_file(PROT_READ | PROT_WRITE, MAP_SHARED);
	/* Room on both sides, so that it is a mapping of its own. */
	char *guard = mmap(NULL, 3 * page_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char order;

	guard += page_bytes();
	if (mprotect(guard, page_bytes(), PROT_READ | PROT_WRITE) < 0 ||
		madvise(guard, page_bytes(), MADV_WIPEONFORK) < 0)
		_exit(1);
	s->progress = home;
	s->signals = data;
	s->result = (int64_t)(uintptr_t)guard;
	s->ready = 1;
	while (read(s->pipe[0], &order, 1) == 1) {
		if (order == UNMAP_DATA && munmap((void *)(uintptr_t)data, page_bytes()) < 0)
			_exit(1);
		if (order == EXECUTE_KEPT)
			start_keeper();
		if (order != UNMAP_DATA)
			execl("/bin/sleep", "sleep", "600", (char *)NULL);
		s->ready = 2;
	}
}

static void hold(struct held *h)
{
	const struct shared *s;
	struct reg_session *session;
	struct reg_arena *arena;

	*h = (struct held){.registry.next_session = 2};
	victim_start(&h->victim, body);
	s = h->victim.shared;
	assert_done(maps_read(h->victim.pid, &h->maps));
	arena = registry_add_arena(&h->registry);
	session = registry_add_session(&h->registry);
	assert_true(arena && session && maps_find(&h->maps, s->progress));
	h->registry.home = s->progress;
	h->registry.guard = (uint64_t)s->result;
	*arena = (struct reg_arena){
		s->progress, page_bytes(), maps_find(&h->maps, s->progress)->inode, 0};
	*session = (struct reg_session){.id = 1,
		.data = s->signals,
		.data_size = page_bytes(),
		.inode = maps_find(&h->maps, s->signals)->inode};
}

static void let_go(struct held *h)
{
	victim_end(&h->victim);
	registry_deinit(&h->registry);
	maps_deinit(&h->maps);
}

static void tell(struct held *h, enum order order)
{
	char byte = (char)order, comm[32] = "";

	assert_int_equal(write(h->victim.shared->pipe[1], &byte, 1), 1);
	if (order == UNMAP_DATA)
		await(&h->victim.shared->ready, 2);
	/* It is named when it has its new memory (begin_new_exec() of Linux). */
	for (int i = 0; order != UNMAP_DATA && i < 20000 && strcmp(comm, "sleep") != 0; i++) {
		procfs_comm(h->victim.pid, comm, sizeof(comm));
		sleep_ms(1);
	}
}

static bool is_retired(const struct held *h)
{
	return h->registry.sessions[0].flags & REG_SESSION_RETIRED;
}

static void nothing_taken(void **state)
{
	struct held h;
	bool lost = true, holds = false;

	(void)state;
	hold(&h);
	assert_done(own_holds(h.victim.pid, h.victim.mem, &h.registry, &holds));
	assert_true(holds);
	assert_done(own_check(h.victim.pid, h.victim.mem, &h.maps, &h.registry, &lost));
	assert_false(lost || is_retired(&h));
	let_go(&h);
}

static void taken(void **state)
{
	struct held h;
	bool lost = false, holds = true;

	(void)state;
	hold(&h);
	tell(&h, UNMAP_DATA);
	assert_done(own_holds(h.victim.pid, h.victim.mem, &h.registry, &holds));
	assert_false(holds);
	maps_deinit(&h.maps);
	assert_done(maps_read(h.victim.pid, &h.maps));
	assert_done(own_check(h.victim.pid, h.victim.mem, &h.maps, &h.registry, &lost));
	assert_true(lost && is_retired(&h));
	let_go(&h);
}

static void fails(struct probe_error *error, enum probe_error_code code)
{
	assert_non_null(error);
	if (error->code != code)
		fail_msg("%s", error->message);
	probe_error_free(error);
}

/* Its mappings were read before execve(2), the guard's flags afterwards. */
static void replaced(void **state)
{
	struct held h;
	bool lost, holds;

	(void)state;
	hold(&h);
	tell(&h, EXECUTE);
	assert_false(memory_is_there(h.victim.mem));
	fails(own_holds(h.victim.pid, h.victim.mem, &h.registry, &holds), PROBE_ERROR_NOT_FOUND);
	fails(own_check(h.victim.pid, h.victim.mem, &h.maps, &h.registry, &lost),
		PROBE_ERROR_NOT_FOUND);
	let_go(&h);
}

/* Its first program's memory is still there, or nobody has opened it. */
static void replaced_and_kept(void **state)
{
	struct probe_target target = {.mem = -1};
	struct held h;
	uint64_t guard;
	bool lost;

	(void)state;
	hold(&h);
	guard = h.registry.guard;
	target.pid = h.victim.pid;
	target.start_time = procfs_start_time(h.victim.pid);
	target.mem = h.victim.mem;
	assert_true(auxv_read_image(target.pid, &target.image));
	assert_true(target_is_there(&target));
	tell(&h, EXECUTE_KEPT);
	assert_true(memory_is_there(h.victim.mem));
	assert_false(target_is_there(&target));
	fails(own_check(h.victim.pid, h.victim.mem, &h.maps, &h.registry, &lost),
		PROBE_ERROR_STATE);
	h.registry.guard = guard;
	fails(own_check(h.victim.pid, -1, &h.maps, &h.registry, &lost), PROBE_ERROR_STATE);
	let_go(&h);
}

/* A change began with the first program; the next one is neither blamed nor made to call. */
static void replaced_in_a_change(void **state)
{
	struct control_call call = {.number = SYS_munmap, .args = {0, page_bytes()}};
	struct probe_target *target;
	struct change c;
	struct held h;

	(void)state;
	hold(&h);
	assert_done(probe_target_open(h.victim.pid, NULL, &target));
	assert_done(change_begin(target, &c));
	assert_done(change_run(&c, "unmap memory", NULL, 0));
	tell(&h, EXECUTE_KEPT);
	fails(change_run(&c, "unmap memory", &call, 1), PROBE_ERROR_NOT_FOUND);
	fails(change_stop(&c), PROBE_ERROR_NOT_FOUND);
	registry_deinit(&c.registry);
	c.registry = h.registry;
	h.registry = (struct registry){0};
	fails(change_confirm(&c), PROBE_ERROR_NOT_FOUND);
	change_end(&c);
	probe_target_close(target);
	sleep_ms(10);
	let_go(&h);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_taken),
		cmocka_unit_test(taken),
		cmocka_unit_test(replaced),
		cmocka_unit_test(replaced_and_kept),
		cmocka_unit_test(replaced_in_a_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
