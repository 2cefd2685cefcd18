/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "libprobe/base/error.h"

enum { KILLED_LOOKS = 5, ENDING_LOOKS = 1000, LOOK_NS = 1000000 };

struct probe_error *child_start(char *const argv[], struct probe_target **ret, int *status_ret)
{
	struct probe_error *error = probe_target_spawn(argv, ret);

	if (error)
		*status_ret = child_spawn_status(error);
	return error;
}

static int status_of(int wait_status)
{
	return WIFSIGNALED(wait_status) ? STATUS_SIGNAL + WTERMSIG(wait_status)
					: WEXITSTATUS(wait_status);
}

int child_spawn_status(const struct probe_error *error)
{
	if (error->code == PROBE_ERROR_ENDED)
		return status_of(error->err);
	switch (error->code == PROBE_ERROR_SYSTEM ? error->err : 0) {
	case ENOENT:
	case ENOTDIR:
		return STATUS_NO_PROGRAM;
	case EACCES:
	case ENOEXEC:
	case EPERM:
	case EISDIR:
	case ELOOP:
	case ETXTBSY:
	case ELIBBAD:
		return STATUS_CANNOT_RUN;
	default:
		return STATUS_FAILED;
	}
}

/*
 * The signal that has killed it, or 0. What is ending takes a moment to be a zombie, and what has
 * been killed just now, to be ending.
 */
static int killed_by(const struct probe_target *target, const struct probe_error *error)
{
	int looks = error->code == PROBE_ERROR_NOT_FOUND ? KILLED_LOOKS : 0;
	struct probe_fate fate;

	probe_target_fate(target, -1, &fate);
	for (int i = 0; !fate.signal && i < looks; i++) {
		if (!probe_target_alive(target))
			looks = ENDING_LOOKS;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
		probe_target_fate(target, -1, &fate);
	}
	return fate.signal;
}

struct probe_error *child_error(
	struct probe_error *error, const struct probe_target *target, int *status_ret)
{
	int signal = error ? killed_by(target, error) : 0;

	if (!signal)
		return error;
	probe_error_free(error);
	error = error_numbered(PROBE_ERROR_ENDED, signal,
		"process %d was killed by SIG%s before its probes were on",
		(int)probe_target_pid(target), sigabbrev_np(signal));
	*status_ret = child_spawn_status(error);
	return error;
}

bool child_ended(pid_t pid, int *ret)
{
	int wait_status;
	pid_t got;

	do {
		got = waitpid(pid, &wait_status, WNOHANG);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		*ret = STATUS_FAILED; /* something else waited for it */
	else if (got && (WIFEXITED(wait_status) || WIFSIGNALED(wait_status)))
		*ret = status_of(wait_status);
	else
		return false;
	return true;
}
