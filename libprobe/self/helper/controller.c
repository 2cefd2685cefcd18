/* SPDX-License-Identifier: MIT */
/*
 * The life of a controller:
 *
 *	hello  ----->       "it runs, and is this build of the library"
 *	       <----- work  what to do
 *	calls  <---->       made by the caller for it (proxy.c)
 *	reply  ----->       what was done (reply.c)
 *
 * Its parent shares the memory of the process, and only waits for it.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/base/error.h"
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

/* The target, if it is still the process that asks. */
static struct probe_error *open_target(
	const struct controller_work *work, struct probe_target **ret)
{
	struct probe_error *error = probe_target_open(work->pid, NULL, ret);

	if (error)
		return error;
	if ((*ret)->start_time != work->start_time)
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", work->pid);
	(*ret)->gadgets = work->gadgets;
	(*ret)->model = work->model;
	(*ret)->model_known = true;
	(*ret)->lender = getppid();
	return NULL;
}

static struct probe_error *serve(int socket, const struct controller_work *work,
	struct message *request, struct probe_report *report, void *result)
{
	struct target_proxy proxy = {.tid = work->tid, .call = proxy_ask, .data = &socket};
	struct probe_target *target = NULL;
	struct probe_error *error = open_target(work, &target);

	if (!error) {
		target->proxy = &proxy;
		error = acts[work->act](target, request, report, result, work->result_bytes);
	}
	probe_target_close(target);
	return error;
}

void controller_main(int socket)
{
	struct probe_report report = {0};
	struct message request = {0};
	struct controller_work work;
	struct probe_error *error;
	void *result = NULL;

	set_signals();
	close_others(socket);
	/* Its sleeps, which let threads run that were stopped, need not be rounded up. */
	prctl(PR_SET_TIMERSLACK, 1);
	if (say_hello(socket) && message_receive(socket, 0, &request) == MESSAGE_GOT) {
		message_read(&request, &work, sizeof(work));
		if (request.kind != MESSAGE_WORK || work.act >= CONTROLLER_ACTS)
			request.is_bad = true;
		if (!request.is_bad)
			result = calloc(1, work.result_bytes + 1);
		error = request.is_bad ? controller_bad_request()
			: result       ? serve(socket, &work, &request, &report, result)
				       : probe_error_no_memory();
		reply_send(socket, error, &report, result, result ? work.result_bytes : 0);
	}
	/* Skip the program's exit handlers, and the sanitizers' checks. */
	syscall(SYS_exit_group, 0);
	__builtin_unreachable();
}
