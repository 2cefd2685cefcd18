/* SPDX-License-Identifier: MIT */
/*
 * Starting a program so that its probes are on before any of its code runs.
 *
 * The child is seized before execve(2), and then followed from system call to
 * system call while its dynamic loader works. glibc's loader maps all libraries
 * first, then sets the thread up, telling the kernel of the thread's rseq area
 * with the last of those calls, and only then relocates the libraries (which
 * may run their ifunc resolvers) and runs constructors. So when the rseq call
 * returns, everything is mapped, nothing of it has run, and the thread pointer
 * is set. There the child is held. No breakpoint is needed: if we die, the
 * kernel lets the child go and it never knew.
 *
 * A program without a loader (static), or with one that is not glibc's, is
 * held right behind execve; its stubs then do without the thread pointer.
 *
 * Sources: ptrace(2); glibc, elf/rtld.c and sysdeps/nptl/dl_tls_init_tp.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libprobe/modules.h"
#include "libprobe/procfs.h"
#include "libprobe/target_internal.h"
#include "libprobe/threads.h"

enum { LOADER_CALLS_MAX = 100000 };

/* What the child writes before it gives up: errno of execve. */
static void child_run(char *const argv[], int go, int failed)
{
	char byte;

	/* The other end is written to once the parent is tracing us. */
	if (read(go, &byte, 1) != 1)
		_exit(127);
	execvp(argv[0], argv);
	byte = 0;
	if (write(failed, &(int){errno}, sizeof(int)) < 0)
		byte = 1;
	_exit(127 + byte);
}

/* Lets the child run to its next stop; signals on their way are passed on. */
static bool next_stop(pid_t pid, int *status_ret)
{
	int deliver = 0;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, pid, NULL, (long)deliver) < 0 ||
			control_wait(pid, status_ret, 0) != pid)
			return false;
		if (WSTOPSIG(*status_ret) == (SIGTRAP | 0x80) || *status_ret >> 16)
			return true;
		deliver = WSTOPSIG(*status_ret);
	}
}

/* To the next return from a system call. */
static bool next_exit(pid_t pid, struct user_regs_struct *regs)
{
	for (int stops = 0; stops < 2;) {
		int status;

		if (!next_stop(pid, &status))
			return false;
		stops += WSTOPSIG(status) == (SIGTRAP | 0x80);
	}
	return ptrace(PTRACE_GETREGS, pid, NULL, regs) == 0;
}

/* Is the child's loader glibc's? Another is not followed. */
static bool has_glibc_loader(pid_t pid)
{
	struct modules modules = {0};
	struct probe_error *error = modules_read(pid, &modules);
	bool found = false;

	for (size_t i = 0; !error && i < modules.count && !found; i++) {
		struct module *m = &modules.items[i];
		uint64_t value, size;

		found = threads_is_loader(m) && object_is_64bit(m->object) &&
			object_symbol(m->object, "_dl_allocate_tls", 16, &value, &size);
	}
	probe_error_free(error);
	modules_deinit(&modules);
	return found;
}

/* Follows the loader to where everything is mapped. `regs` are those of the stop. */
static bool follow_loader(struct probe_target *target, struct user_regs_struct *regs)
{
	bool thread_ready = false;

	for (int i = 0; i < LOADER_CALLS_MAX; i++) {
		if (!next_exit(target->pid, regs))
			return false;
		switch (regs->orig_rax) {
		case SYS_set_tid_address:
		case SYS_set_robust_list:
			thread_ready = true;
			continue;
		case SYS_rseq:
			target->facts.known = true;
			target->facts.has_rseq = regs->rax == 0;
			target->facts.rseq_offset = regs->rdi - regs->fs_base;
			target->facts.rseq_signature = regs->r10;
			return true;
		}
		if (thread_ready) { /* no rseq: an older glibc, or switched off */
			target->facts.known = true;
			return true;
		}
	}
	return false;
}

struct probe_error *spawn_hold(struct probe_target *target, const char *name)
{
	struct control *control = &target->control;
	struct user_regs_struct regs;
	int status;

	if (!next_stop(target->pid, &status) ||
		ptrace(PTRACE_GETREGS, target->pid, NULL, &regs) < 0)
		return probe_error_new(PROBE_ERROR_STATE, "%s has ended at once", name);
	if (has_glibc_loader(target->pid) && !follow_loader(target, &regs))
		return probe_error_new(
			PROBE_ERROR_STATE, "%s has ended while its libraries were loaded", name);
	control->threads = calloc(1, sizeof(*control->threads));
	if (!control->threads)
		return probe_error_no_memory();
	control->pid = target->pid;
	control->count = 1;
	control->threads[0] = (struct control_thread){.tid = target->pid, .regs = regs};
	target->held = true;
	target->start_time = procfs_start_time(target->pid);
	return NULL;
}

/* From the seized child to a held program. */
static struct probe_error *run_to_hold(struct probe_target *target, const char *name, int failed)
{
	int status, err = 0;

	/* Up to the event of execve. */
	do {
		if (!next_stop(target->pid, &status)) {
			if (read(failed, &err, sizeof(err)) != sizeof(err))
				err = ECHILD;
			return probe_error_system(err, "%s", name);
		}
	} while (status >> 16 != PTRACE_EVENT_EXEC);
	return spawn_hold(target, name);
}

static struct probe_error *start_child(
	char *const argv[], int go[2], int failed[2], struct probe_target *target)
{
	target->pid = fork();
	if (target->pid < 0)
		return probe_error_system(errno, "cannot start a process");
	if (target->pid == 0) {
		close(go[1]);
		child_run(argv, go[0], failed[1]);
	}
	target->spawned = true;
	close(failed[1]);
	failed[1] = -1;
	if (ptrace(PTRACE_SEIZE, target->pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC) < 0)
		return probe_error_system(errno, "cannot trace the program");
	/* It stops once, so that it is followed from here on. */
	ptrace(PTRACE_INTERRUPT, target->pid, NULL, NULL);
	if (waitpid(target->pid, &(int){0}, __WALL) != target->pid)
		return probe_error_system(errno, "cannot trace the program");
	if (write(go[1], "", 1) != 1)
		return probe_error_system(errno, "cannot start the program");
	return run_to_hold(target, argv[0], failed[0]);
}

static void close_pair(const int pair[2])
{
	for (int i = 0; i < 2; i++)
		if (pair[i] >= 0)
			close(pair[i]);
}

struct probe_error *probe_target_spawn(char *const argv[], struct probe_target **ret)
{
	int go[2] = {-1, -1}, failed[2] = {-1, -1};
	struct probe_target *target = calloc(1, sizeof(*target));
	struct probe_error *error = NULL;

	if (!target)
		return probe_error_no_memory();
	target->mem = -1;
	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(failed, O_CLOEXEC) < 0)
		error = probe_error_system(errno, "cannot make a pipe");
	if (!error)
		error = start_child(argv, go, failed, target);
	close_pair(go);
	close_pair(failed);
	if (error) {
		if (target->pid > 0) {
			kill(target->pid, SIGKILL);
			waitpid(target->pid, NULL, __WALL);
		}
		target->spawned = false;
		probe_target_close(target);
		return error;
	}
	*ret = target;
	return NULL;
}
