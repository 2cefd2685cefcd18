/* SPDX-License-Identifier: MIT */
/*
 * A change holds the lock of its target, has read the target's modules, mappings and registry, and
 * runs system calls in the target (run.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"
#include "libprobe/registry/registry.h"

enum {
	MOMENT_NS = 100000,
	EXEC_TRIES = 10,
	/* descriptors that a change needs besides the modules' files, and some to spare */
	CHANGE_DESCRIPTORS = 12
};

/* ---- Emulators ------------------------------------------------------------------------------- */

/*
 * Recognises two emulators. Valgrind is a static program with the path
 * VALGRIND_LIB/TOOL-ARCH-linux. It maps the emulated program and, if that program has a loader,
 * preloads vgpreload_*.so into it. The program of qemu's user mode is called qemu-ARCH or
 * qemu-ARCH-static. It maps the emulated program as data.
 *
 * Sources: valgrind, coregrind/launcher-linux.c; qemu, scripts/qemu-binfmt-conf.sh.
 */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * Returns the emulator that executes the process ("valgrind", "qemu-aarch64"), maybe in `buffer`;
 * else NULL. Under an emulator, the processor runs a translation, never the code in memory.
 */
static const char *emulator_of(pid_t pid, const struct modules *modules, char buffer[64])
{
	char path[PATH_MAX];
	const char *name;
	ssize_t length;

	for (size_t i = 0; i < modules->count; i++)
		if (strncmp(base_name(modules->items[i].path), "vgpreload_", 10) == 0)
			return "valgrind";
	length = readlink(procfs_path("/proc/%d/exe", pid).text, path, sizeof(path) - 1);
	path[length < 0 ? 0 : length] = '\0';
	name = base_name(path);
	length = (ssize_t)strlen(name);
	if (strstr(path, "/valgrind/") && length >= 6 && strcmp(name + length - 6, "-linux") == 0)
		return "valgrind";
	if (strncmp(name, "qemu-", 5) != 0 || strncmp(name, "qemu-system-", 12) == 0)
		return NULL;
	snprintf(buffer, 64, "%.63s", name);
	return buffer;
}

/* ---- Begin and end -------------------------------------------------------------- */

static const struct module *first_program(const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (modules->items[i].object)
			return &modules->items[i];
	return NULL;
}

/* In the middle of execve(2), a process has only a stack mapped: wait a moment and try again. */
static struct probe_error *read_modules(struct change *c)
{
	struct probe_error *error = NULL;

	for (int i = 0; i < EXEC_TRIES && !error && !first_program(&c->modules); i++) {
		if (i)
			nanosleep(&(struct timespec){.tv_nsec = MOMENT_NS}, NULL);
		modules_deinit(&c->modules);
		maps_deinit(&c->maps);
		error = maps_read(c->pid, &c->maps);
		if (!error)
			error = modules_read_mapped(
				c->pid, &c->maps, c->target->files, &c->modules);
	}
	return error;
}

/* Checks that the code is for this machine: a program file, or else a registry, proves it. */
static struct probe_error *check_machine(struct change *c)
{
	const struct module *program = first_program(&c->modules);
	bool wide = program && object_is_64bit(program->object);

	c->arch = program ? arch_of_machine(object_machine(program->object)) : NULL;
	if (!program && c->registry.home)
		c->arch = arch_host();
	else if (!program)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d: none of its program files can be read", c->pid);
	else if (!c->arch || !c->arch->stubs || !wide)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d runs code of a machine type whose probes can be listed, "
			"not enabled (%s)",
			c->pid,
			!wide	  ? "32-bit"
			: c->arch ? c->arch->name
				  : "unknown");
	return NULL;
}

/* Checks that we can patch the code of this process. */
static struct probe_error *check_target(struct change *c)
{
	long parent = c->target->alone ? 0 : procfs_status_number(c->pid, "PPid:");
	struct probe_error *error;
	char buffer[64];
	const char *emulator = emulator_of(c->pid, &c->modules, buffer), *shadow_stack;

	/*
	 * After vfork(2), the child runs in its parent's memory: stopping it does not stop the
	 * parent's threads, and parent and child have different locks.
	 */
	if (parent > 0 && children_share(c->pid, (pid_t)parent))
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d runs in the memory of process %ld until it starts a program "
			"(vfork): change the probes of that one",
			c->pid, parent);
	if (emulator)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d is executed by %s, which runs translated copies of its code: "
			"probes in it would never be hit",
			c->pid, emulator);
	error = check_machine(c);
	if (error)
		return error;
	shadow_stack = c->arch->process->shadow_stack_line;
	if (shadow_stack &&
		procfs_status_has(c->pid, shadow_stack, c->arch->process->shadow_stack_word))
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d has a shadow stack: moved calls would fault", c->pid);
	return NULL;
}

/* Opens the memory of the program that the process ran at the first change. */
static struct probe_error *open_memory(struct change *change)
{
	struct probe_target *target = change->target;
	struct probe_error *error = NULL;

	if (target->mem < 0) {
		error = memory_open(change->pid, &target->mem);
		if (!error && !auxv_read_image(change->pid, &target->image))
			target->image = 0;
	}
	if (error)
		return error;
	change->mem = fcntl(target->mem, F_DUPFD_CLOEXEC, 0);
	if (change->mem < 0)
		return probe_error_system(
			errno, "cannot open the memory of process %d", change->pid);
	return change_check_program(change);
}

/* Checks that this is still the same process, with a living thread. */
static struct probe_error *check_process(struct change *c)
{
	const struct probe_target *target = c->target;
	struct probe_error *error;
	uint64_t start;

	c->pid = procfs_living(c->pid);
	/* Count our descriptors before the modules are read, and again when all files are open. */
	error = change_need_descriptors(c, CHANGE_DESCRIPTORS);
	if (error)
		return error;
	start = procfs_start_time(target->pid);
	if (start == target->start_time)
		return NULL;
	return !start && procfs_no_room(errno)
		       ? probe_error_system(errno, "/proc/%d/stat", target->pid)
		       : probe_error_new(
				 PROBE_ERROR_NOT_FOUND, "process %d has ended", target->pid);
}

struct probe_error *change_load(struct change *change)
{
	struct registry *r = &change->registry;
	struct probe_error *error = registry_load(change->pid, &change->maps, r);
	bool lost = false;

	if (!error && r->home)
		error = own_check(change->pid, change->mem, &change->maps, r, &lost);
	else if (!error)
		error = lost_find(change->pid, &change->maps, &change->modules, r, &lost);
	/* If execve(2) has replaced the program, the mappings are those of the new program. */
	if (!error && lost)
		error = change_check_program(change);
	if (error)
		return error;
	change->lost |= lost;
	change->lost_ends |= lost;
	return NULL;
}

struct probe_error *change_reread(struct change *change)
{
	struct probe_error *error = change_reread_maps(change);

	registry_deinit(&change->registry);
	code_release_all(&change->taken);
	return error ? error : change_load(change);
}

static const struct change no_change = {.lock = {-1, -1}, .mem = -1};

struct probe_error *change_begin_as_it_is(struct probe_target *target, struct change *ret)
{
	struct probe_error *error;
	char group[CGROUP_PATH_BYTES];

	*ret = no_change;
	ret->target = target;
	ret->pid = target->pid;
	if (ret->pid == getpid())
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d is the caller itself: use the functions of probe/self.h",
			ret->pid);
	error = target->alone ? NULL : seccomp_check_own();
	/* Fail for a frozen process instead of waiting, so that other processes can be traced. */
	if (!error && !target->alone && cgroup_frozen(ret->pid, group))
		error = probe_error_new(PROBE_ERROR_STATE,
			"process %d is frozen (its control group %s): thaw it first", ret->pid,
			group);
	if (target->alone)
		ret->urgent = urgent_begin();
	if (!error)
		error = lock_target(target, &ret->lock);
	if (!error && !target->alone)
		error = check_process(ret);
	if (!error)
		error = open_memory(ret);
	if (!error)
		error = read_modules(ret);
	if (!error)
		error = change_need_descriptors(ret, CHANGE_DESCRIPTORS);
	if (!error)
		error = change_load(ret);
	if (!error)
		error = check_target(ret);
	if (!error)
		error = target->alone ? seccomp_look_at_main(ret->pid, &ret->seccomp)
				      : seccomp_look(ret->pid, &ret->seccomp);
	if (!error && target->dispatches)
		seccomp_deny(&ret->seccomp,
			SECCOMP_ASK | SECCOMP_WAIT | SECCOMP_TIME | SECCOMP_NAME | SECCOMP_CPU |
				SECCOMP_STACK,
			"process %d itself handles the system calls of a thread "
			"(PR_SET_SYSCALL_USER_DISPATCH), also those",
			ret->pid);
	if (!error)
		threads_model(target, &ret->modules, &ret->thread);
	if (error)
		change_end(ret);
	return error;
}

struct probe_error *change_begin(struct probe_target *target, struct change *ret)
{
	struct probe_error *error = change_begin_as_it_is(target, ret);

	if (!error)
		site_forget_closed(ret);
	return error;
}

struct probe_error *change_look(struct probe_target *target, struct change *ret)
{
	struct probe_error *error;

	*ret = no_change;
	ret->target = target;
	ret->pid = procfs_living(target->pid);
	error = open_memory(ret);
	if (!error)
		error = read_modules(ret);
	if (!error)
		error = change_load(ret);
	if (!error)
		error = check_target(ret);
	if (error)
		change_end(ret);
	return error;
}

void change_end(struct change *change)
{
	change_resume(change);
	registry_deinit(&change->registry);
	modules_deinit(&change->modules);
	maps_deinit(&change->maps);
	seccomp_deinit(&change->seccomp);
	free(change->taken.items);
	free(change->prepared);
	if (change->mem >= 0)
		close(change->mem);
	lock_release(&change->lock);
	urgent_end(change->urgent);
	*change = no_change;
}

/* ---- Held ---------------------------------------------------------------------------------- */

/* Stops a target, after any other controller's change. */
static struct probe_error *hold(struct probe_target *target)
{
	AUTO_CHANGE struct change c;
	struct probe_error *error = change_begin(target, &c);

	if (!error)
		error = change_stop(&c);
	if (error)
		return error;
	target->control = c.control;
	target->held = target->attached = true;
	c.stopped = false;
	/* Give up our raised priority: our caller may keep the target stopped for a long time. */
	control_calm(&target->control);
	return NULL;
}

struct probe_error *probe_target_attach(struct probe_target *target)
{
	if (target->held)
		return probe_error_new(PROBE_ERROR_STATE, "process %d is %s already", target->pid,
			target->attached ? "attached to" : "held");
	return hold(target);
}

/* ---- Descriptors ------------------------------------------------------------------------ */

/*
 * Counts the descriptors that we can still open. Call it before a change begins, because a change
 * that runs out of them cannot even be undone.
 */

enum { DESCRIPTORS_MAX = 32 };

/* Counts unused numbers just below *end, by poll(2). Moves *end down past them. */
static size_t count_unused(rlim_t *end)
{
	struct pollfd fds[DESCRIPTORS_MAX];
	nfds_t count = *end < DESCRIPTORS_MAX ? *end : DESCRIPTORS_MAX;
	size_t unused = 0;

	*end -= count;
	for (nfds_t i = 0; i < count; i++)
		fds[i] = (struct pollfd){.fd = (int)(*end + i)};
	if (poll(fds, count, 0) < 0)
		return 0;
	for (nfds_t i = 0; i < count; i++)
		unused += (fds[i].revents & POLLNVAL) != 0;
	return unused;
}

struct probe_error *change_need_descriptors(const struct change *change, size_t count)
{
	struct rlimit limit = {0};
	size_t unused = 0;
	rlim_t end;

	getrlimit(RLIMIT_NOFILE, &limit);
	/* Count from the highest number down: the kernel gives out the lowest number first. */
	for (end = limit.rlim_cur < INT_MAX ? limit.rlim_cur : INT_MAX; end && unused < count;)
		unused += count_unused(&end);
	if (unused >= count)
		return NULL;
	return probe_error_system(EMFILE,
		"%zu more descriptors are needed to change the probes of process %d, or to undo "
		"the change (ulimit -n)",
		count, change->pid);
}
