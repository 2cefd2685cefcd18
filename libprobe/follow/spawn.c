/* SPDX-License-Identifier: MIT */
/*
 * Starting a program so that its probes are on before any of its code runs.
 *
 * The child is seized before execve(2), and followed until it is held as
 * libprobe/follow/passage.c says.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch/arch.h"
#include "libprobe/base/worker.h"
#include "libprobe/follow/follow.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"

/* What the child writes before it gives up. */
struct failure {
	int err;	  /* of execve(2) */
	uint16_t machine; /* EM_*, of a program that the kernel does not execute; or EM_NONE */
};

static uint16_t machine_of(const char *path)
{
	Elf32_Ehdr header; /* a longer one begins with the same */
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool is_program = fd >= 0 && read(fd, &header, sizeof(header)) == sizeof(header) &&
			  memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;

	if (fd >= 0)
		close(fd);
	return is_program ? header.e_machine : EM_NONE;
}

/*
 * What the kernel does not execute, execvp(3) gives to a shell: that is right for a script, but not
 * for a program. Returns for which machine that is, or EM_NONE where execvp() is to be asked.
 */
static uint16_t execute(char *const argv[])
{
	bool is_path = strchr(argv[0], '/');
	const char *at = is_path ? "" : getenv("PATH");
	char path[PATH_MAX];

	while (at) {
		int length = (int)strcspn(at, ":");

		if (snprintf(path, sizeof(path), "%.*s%s%s", length, at, length ? "/" : "",
			    argv[0]) < (int)sizeof(path)) {
			execv(path, argv);
			if (errno == ENOEXEC)
				return machine_of(path);
		}
		at = at[length] ? at + length + 1 : NULL;
	}
	return EM_NONE;
}

static void child_run(char *const argv[], int go, int failed)
{
	struct failure failure = {0};
	char byte;

	/* The other end is written to once the parent is tracing us. */
	if (read(go, &byte, 1) != 1)
		_exit(127);
	failure.machine = execute(argv);
	if (failure.machine == EM_NONE)
		execvp(argv[0], argv);
	failure.err = failure.machine == EM_NONE ? errno : ENOEXEC;
	byte = 0;
	if (write(failed, &failure, sizeof(failure)) < 0)
		byte = 1;
	_exit(127 + byte);
}

/* What waitid(2) says of a child's end. */
static struct probe_error *ended(const char *name, const siginfo_t *info)
{
	if (info->si_code == CLD_EXITED)
		return error_numbered(PROBE_ERROR_ENDED, W_EXITCODE(info->si_status, 0),
			"%s exited with status %d before its libraries were loaded", name,
			info->si_status);
	return error_numbered(PROBE_ERROR_ENDED, info->si_status,
		"%s was killed by SIG%s before its libraries were loaded", name,
		sigabbrev_np(info->si_status));
}

static struct probe_error *not_executed(const char *name, const struct failure *failure)
{
	const struct arch *arch = arch_of_args(failure->machine);

	if (failure->machine == EM_NONE || arch == arch_host())
		return probe_error_system(failure->err, "%s", name);
	return error_numbered(PROBE_ERROR_SYSTEM, ENOEXEC,
		"%s is a program for another machine%s%s%s, which this one does not execute", name,
		arch ? " (" : "", arch ? arch->name : "", arch ? ")" : "");
}

/* From the seized child to a held program: this depends on no other process. */
static struct probe_error *run_to_hold(
	struct probe_target *target, struct passage *passage, const char *name, int failed)
{
	siginfo_t info = {0};
	struct failure failure;

	/* Its exit status is left for the code that waits for the program. */
	while (passage->state < PASSAGE_HELD) {
		if (waitid(P_PID, (id_t)passage->pid, &info,
			    WEXITED | WSTOPPED | WNOWAIT | __WALL) < 0 &&
			errno != EINTR)
			break;
		passage_step(passage);
	}
	if (passage->state == PASSAGE_HELD)
		return passage_take(passage, target);
	if (read(failed, &failure, sizeof(failure)) == sizeof(failure))
		return not_executed(name, &failure);
	/* It may have ended after the stop that was seen last. */
	waitid(P_PID, (id_t)passage->pid, &info, WEXITED | WNOWAIT | WNOHANG | __WALL);
	return ended(name, &info);
}

static struct probe_error *start_child(
	char *const argv[], int go[2], int failed[2], struct probe_target *target)
{
	struct yield yield = {0};
	struct passage passage = {.yield = &yield};
	siginfo_t info = {0};
	int err;

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
	passage_begin(&passage, target->pid, target->pid, true);
	if (passage.state == PASSAGE_OVER) {
		err = errno;
		/* It has done nothing yet: whoever has ended it was someone else. */
		if (waitid(P_PID, (id_t)target->pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
			info.si_pid)
			return ended(argv[0], &info);
		return probe_error_system(err, "cannot trace the program");
	}
	if (write(go[1], "", 1) != 1)
		return probe_error_system(errno, "cannot start the program");
	return run_to_hold(target, &passage, argv[0], failed[0]);
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
	struct probe_error *error = seccomp_check_own();
	struct probe_target *target;

	if (error)
		return error;
	target = target_create(0, 0);
	if (!target)
		return probe_error_no_memory();
	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(failed, O_CLOEXEC) < 0)
		error = probe_error_system(errno, "cannot make a pipe");
	if (!error)
		error = start_child(argv, go, failed, target);
	close_pair(go);
	close_pair(failed);
	if (error) {
		if (target->pid > 0)
			worker_end_child(target->pid, 0, &(int){0});
		target->spawned = false;
		probe_target_close(target);
		return error;
	}
	*ret = target;
	return NULL;
}
