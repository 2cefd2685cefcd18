/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stddef.h>
#include <sys/wait.h>

#include "cli/child.h"
#include "cli/cli.h"

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
