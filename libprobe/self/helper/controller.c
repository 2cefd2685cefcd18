/* SPDX-License-Identifier: MIT */
/*
 * The life of a controller:
 *
 *	hello  ----->       "it runs, and is this build of the library"
 *	       <----- work  what to do
 *	calls  <---->       made by the caller for it (proxy.c)
 *	reply  ----->       what was done (reply.c)
 *	       <----- work  and so on, until the caller has no more: files are read once
 *
 * Its parent shares the memory of the process, and only waits for it.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/base/error.h"
#include "libprobe/process/process.h"
#include "libprobe/self/helper/controller.h"
#include "libprobe/self/helper/helper.h"
#include "libprobe/self/helper/proxy.h"
#include "libprobe/self/helper/reply.h"

const char controller_identity[] = PROBE_IDENTITY;

static controller_do *const acts[CONTROLLER_ACTS] = {
	[CONTROLLER_SWITCH] = switch_act,
	[CONTROLLER_ATTACH] = attach_act,
	[CONTROLLER_FOLLOW] = follow_act,
	[CONTROLLER_DETACH] = detach_act,
	[CONTROLLER_STOP] = stop_act,
};

struct probe_error *controller_bad_request(void)
{
	return probe_error_new(PROBE_ERROR_STATE,
		"a process that was to change the probes of this one was asked for something that "
		"it does not know");
}

/*
 * Otherwise the program's descriptors would stay open as long as the controller lives, for example
 * the end of a pipe.
 */
static void close_others(int kept)
{
	if (kept > STDERR_FILENO + 1)
		syscall(SYS_close_range, STDERR_FILENO + 1, kept - 1, 0);
	syscall(SYS_close_range, kept < STDERR_FILENO ? STDERR_FILENO + 1 : kept + 1, ~0U, 0);
}

/* Keeps the program's handlers from running here, and limits the controller's life. */
static void set_signals(void)
{
	sigset_t set;

	signal(SIGCHLD, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	alarm(HELPER_SECONDS);
}

static bool say_hello(int socket)
{
	struct buffer hello = {0};
	bool said;

	message_add_text(&hello, controller_identity);
	said = message_send(socket, MESSAGE_HELLO, &hello);
	buffer_deinit(&hello);
	return said;
}

struct controller {
	int socket;
	struct target_proxy proxy;
	struct probe_target *target; /* NULL before the first work */
};

/* The target, if it is still the process that asks. */
static struct probe_error *open_target(struct controller *c, const struct controller_work *work)
{
	struct probe_error *error = NULL;

	if (!c->target)
		error = probe_target_open(work->pid, NULL, &c->target);
	if (!error && !c->target->files)
		error = files_create(&c->target->files);
	if (error)
		return error;
	if (c->target->pid != work->pid || c->target->start_time != work->start_time)
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", work->pid);
	c->proxy = (struct target_proxy){.tid = work->tid, .call = proxy_ask, .data = &c->socket};
	c->target->gadgets = work->gadgets;
	c->target->model = work->model;
	c->target->model_known = true;
	c->target->lender = getppid();
	c->target->proxy = &c->proxy;
	return NULL;
}

/* Does one work, and replies. */
static void serve(struct controller *c, struct message *request)
{
	struct probe_report report = {0};
	struct controller_work work;
	struct probe_error *error = NULL;
	void *result = NULL;

	message_read(request, &work, sizeof(work));
	if (request->is_bad || request->kind != MESSAGE_WORK || work.act >= CONTROLLER_ACTS)
		error = controller_bad_request();
	else
		result = calloc(1, work.result_bytes + 1);
	if (!error)
		error = result ? open_target(c, &work) : probe_error_no_memory();
	if (!error)
		error = acts[work.act](c->target, request, &report, result, work.result_bytes);
	reply_send(c->socket, error, &report, result, result ? work.result_bytes : 0);
	free(result);
	probe_error_free(error);
	probe_report_deinit(&report);
}

void controller_main(int socket)
{
	struct controller c = {.socket = socket};
	struct message request = {0};

	set_signals();
	/* execve(2) takes it away from a program with changed ids. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close_others(socket);
	/* Its sleeps, which let threads run that were stopped, need not be rounded up. */
	prctl(PR_SET_TIMERSLACK, 1);
	if (say_hello(socket))
		while (message_receive(socket, -1, 0, &request) == MESSAGE_GOT) {
			alarm(HELPER_SECONDS);
			serve(&c, &request);
			alarm(0);
		}
	/* Skip the program's exit handlers, and the sanitizers' checks. */
	syscall(SYS_exit_group, 0);
	__builtin_unreachable();
}
