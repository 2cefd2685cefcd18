/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stddef.h>
#include <sys/wait.h>

#include "cli/child.h"
#include "cli/cli.h"

void signals_block(sigset_t *ret)
{
	static const int wanted[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
	struct sigaction action;

	sigemptyset(ret);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		bool ignored = !sigaction(wanted[i], NULL, &action) && action.sa_handler == SIG_IGN;

		/*
		 * A blocked signal arrives even where it is ignored. nohup(1) means
		 * SIGHUP; but a shell ignores SIGINT for whatever it runs with `&`,
		 * and `kill -INT` is how a script ends a trace.
		 */
		if (!ignored || wanted[i] == SIGINT)
			sigaddset(ret, wanted[i]);
	}
	/* Where our parent ignored it, our children would vanish before we waited. */
	signal(SIGCHLD, SIG_DFL);
	sigaddset(ret, SIGCHLD);
	sigprocmask(SIG_BLOCK, ret, NULL);
}

void child_signal(pid_t pid, int signal)
{
	if (signal == SIGTERM || signal == SIGHUP)
		kill(pid, signal);
}

bool signal_ends(pid_t child, int signal)
{
	/* Ctrl-\ is for the program: a JVM prints its threads. */
	if (signal == SIGCHLD || (child && signal == SIGQUIT))
		return false;
	if (child)
		child_signal(child, signal);
	return true;
}

bool child_ended(pid_t pid, int *ret)
{
	int wait_status;
	pid_t got;

	do {
		got = waitpid(pid, &wait_status, WNOHANG);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		*ret = STATUS_FAILED; /* somebody else waited for it */
	else if (got && WIFEXITED(wait_status))
		*ret = WEXITSTATUS(wait_status);
	else if (got && WIFSIGNALED(wait_status))
		*ret = STATUS_SIGNAL + WTERMSIG(wait_status);
	else
		return false;
	return true;
}

int child_wait(pid_t pid, const sigset_t *signals)
{
	int status;

	while (!child_ended(pid, &status)) {
		int signal = sigwaitinfo(signals, NULL);

		if (signal > 0)
			child_signal(pid, signal);
	}
	return status;
}

int child_spawn_status(const struct probe_error *error)
{
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
