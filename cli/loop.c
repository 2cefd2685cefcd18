/* SPDX-License-Identifier: MIT */
/*
 * Signals are blocked and read from a signalfd(2). So no signal interrupts a change of a target,
 * and no signal is missed between a check and a sleep.
 *
 *   SIGINT            ends us. The terminal also sends it to a program that we started
 *   SIGTERM, SIGHUP   end us, and are forwarded to the program
 *   SIGQUIT (Ctrl-\)  ends us, unless we started a program: then it is for the program,
 *                     such as a JVM, which prints its threads
 *   SIGCHLD           ends the sleep: the program, or a process under ptrace(2), has changed
 *   other signals     have a meaning for some commands only
 *
 * At its end, a command may wait for a reader of its output. If the reader reads nothing, a second
 * Ctrl-C ends this wait.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/processes.h"
#include "cli/loop.h"
#include "cli/print/print.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"

/* ==== Loop ==================================================================================== */

/* ---- Signals ---------------------------------------------------------------- */

/*
 * Adds signals to a set, except those that must stay ignored, because a signalfd would receive
 * them. nohup(1) makes us ignore SIGHUP on purpose. A shell makes a command with `&` ignore SIGINT,
 * but scripts end a trace with `kill -INT`.
 */
static void add_signals(sigset_t *signals, const int *wanted)
{
	struct sigaction action;

	for (; wanted && *wanted; wanted++) {
		bool may_stay = *wanted == SIGQUIT || *wanted == SIGTERM || *wanted == SIGHUP ||
				*wanted == SIGTSTP;

		if (!may_stay || sigaction(*wanted, NULL, &action) || action.sa_handler != SIG_IGN)
			sigaddset(signals, *wanted);
	}
}

static void take_signal(struct loop *loop, int signal)
{
	switch (signal) {
	case SIGCHLD:
		return;
	case SIGQUIT:
		if (loop->child)
			return;
		break;
	case SIGHUP:
	case SIGTERM:
		if (loop->child)
			kill(loop->child, signal);
		break;
	case SIGINT:
		break;
	default:
		loop->take_signal(signal, loop->data);
		return;
	}
	loop->over = loop->interrupted = true;
}

/* ---- Events that end a sleep ------------------------------------------------ */

void loop_watch(struct loop *loop, int fd, short events, bool *ready)
{
	if (fd < 0)
		return;
	if (!ARRAY_ROOM(loop->fds, loop->count) || !ARRAY_ROOM(loop->ready, loop->count)) {
		loop->no_memory = true;
		return;
	}
	loop->fds[loop->count] = (struct pollfd){.fd = fd, .events = events};
	loop->ready[loop->count++] = ready;
}

void loop_until(struct loop *loop, uint64_t ns)
{
	if (ns < loop->until_ns)
		loop->until_ns = ns;
}

static void begin_round(struct loop *loop)
{
	loop->count = 0;
	loop->until_ns = UINT64_MAX;
	loop->no_memory = false;
	loop_watch(loop, loop->signal_fd, POLLIN, NULL);
}

struct probe_error *loop_sleep(struct loop *loop)
{
	uint64_t now = clock_monotonic_ns(), until = loop->until_ns;
	uint64_t ns = until > now ? until - now : 0;
	struct timespec timeout = {(time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC)};
	bool no_memory = loop->no_memory, signalled = false;
	struct signalfd_siginfo info;

	if (ppoll(loop->fds, loop->count, until == UINT64_MAX ? NULL : &timeout, NULL) > 0) {
		signalled = loop->fds[0].revents != 0;
		for (size_t i = 0; i < loop->count; i++) {
			const struct pollfd *fd = &loop->fds[i];

			if (loop->ready[i] && fd->revents & (fd->events | POLLERR | POLLHUP))
				*loop->ready[i] = true;
		}
	}
	begin_round(loop);
	while (signalled && read(loop->signal_fd, &info, sizeof(info)) == sizeof(info))
		take_signal(loop, (int)info.ssi_signo);
	messages_retry();
	return no_memory ? probe_error_no_memory() : NULL;
}

int loop_wait_child(struct loop *loop)
{
	int status;

	/* Ignore errors. If memory is short, no descriptor is watched, but signals still arrive. */
	while (!child_ended(loop->child, &status))
		probe_error_free(loop_sleep(loop));
	return status;
}

/* ---- Opening and closing ---------------------------------------------------- */

struct probe_error *loop_open(struct loop *loop, const int *own)
{
	static const int common[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD, 0};
	sigset_t signals;

	sigemptyset(&signals);
	add_signals(&signals, common);
	add_signals(&signals, own);
	/*
	 * An ignored SIGCHLD, inherited from our parent, would make the kernel reap our children.
	 */
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	loop->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (loop->signal_fd < 0)
		return probe_error_system(errno, "cannot wait for signals");
	begin_round(loop);
	return loop->no_memory ? probe_error_no_memory() : NULL;
}

void loop_close(struct loop *loop)
{
	cleanup_fd(&loop->signal_fd);
	free(loop->fds);
	free(loop->ready);
}
