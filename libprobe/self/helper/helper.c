/* SPDX-License-Identifier: MIT */
/* The caller's side of a change: it starts a controller, tells it what to do, and serves it. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch/arch.h"
#include "libprobe/base/clock.h"
#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"
#include "libprobe/self/helper/helper.h"
#include "libprobe/self/helper/image.h"
#include "libprobe/self/helper/proxy.h"
#include "libprobe/self/helper/reply.h"
#include "libprobe/self/helper/start.h"
#include "libprobe/registry/registry.h"

enum { TRIES = 2, YAMA_DESCENDANTS = 1 /* a value of ptrace_scope */ };

/* How far one try has come. */
enum outcome {
	OUTCOME_DONE,  /* the controller has replied, or could not be started */
	OUTCOME_UNFIT, /* it cannot do this, and has done nothing */
	OUTCOME_DIED,
	OUTCOME_LATE
};

struct helper {
	struct helper_work *work;
	struct controller_work head; /* what the controller is told first */
	uint64_t end_ns;	     /* it must have replied by then */
};

/* The controller of this process; protected by the lock. */
static struct {
	bool is_there, is_executed;
	struct start start;
} running;

/* ---- What the controller is told -------------------------------------------------------- */

/*
 * Finds out, once, what a change needs to know of the process and what stays the same: this takes
 * longer than most of a change. If there are no gadgets, the controller reports it.
 */
static struct probe_error *find_facts(struct probe_target *target, struct controller_work *ret)
{
	static struct arch_gadgets gadgets; /* these two: protected by the lock */
	static struct arch_thread model;
	static const struct memory_piece nothing_more;
	struct modules modules = {0};
	struct maps maps = {0};
	struct probe_error *error, *missing;

	if (!gadgets.call || !gadgets_are_there(target->pid, &gadgets, &nothing_more)) {
		error = maps_read(target->pid, &maps);
		if (!error)
			error = modules_read_mapped(target->pid, &maps, NULL, &modules);
		if (error) {
			maps_deinit(&maps);
			return error;
		}
		missing = gadgets_find(target->pid, &maps, &modules, &gadgets);
		if (missing)
			gadgets = (struct arch_gadgets){0};
		probe_error_free(missing);
		threads_model(target, &modules, &model);
		modules_deinit(&modules);
		maps_deinit(&maps);
	}
	ret->gadgets = gadgets;
	ret->model = model;
	return NULL;
}

static struct probe_error *describe_process(struct controller_work *ret)
{
	struct probe_target *target;
	struct probe_error *error = probe_target_open(getpid(), NULL, &target);

	if (error)
		return error;
	ret->pid = target->pid;
	ret->tid = (pid_t)syscall(SYS_gettid);
	ret->start_time = target->start_time;
	error = find_facts(target, ret);
	probe_target_close(target);
	return error;
}

/* ---- One try ---------------------------------------------------------------------------- */

/* Yama may allow only ancestors, and processes named by PR_SET_PTRACER, to trace. */
static void allow(pid_t pid)
{
	bool restricted =
		procfs_file_number("/proc/sys/kernel/yama/ptrace_scope") == YAMA_DESCENDANTS;

	if (restricted)
		prctl(PR_SET_PTRACER, (unsigned long)pid, 0, 0, 0);
}

/* Receives the controller's next message, until a time (CLOCK_MONOTONIC, ns). */
static enum message_result hear(uint64_t end_ns, struct message *ret)
{
	int process = atomic_load(&running.start.controller);

	return message_receive(running.start.ends[0], process, end_ns, ret);
}

/* Waits until it runs; and is of the same build as this. */
static enum outcome hear_hello(const struct helper *h)
{
	struct message hello = {0};
	enum message_result result = hear(h->end_ns, &hello);
	bool is_same = result == MESSAGE_GOT && hello.kind == MESSAGE_HELLO &&
		       !strcmp(message_text(&hello), controller_identity);

	message_deinit(&hello);
	return is_same			? OUTCOME_DONE
	       : result == MESSAGE_LATE ? OUTCOME_LATE
	       : running.is_executed	? OUTCOME_UNFIT
					: OUTCOME_DIED;
}

/* Starts a controller, as a copy or (if possible) by executing the library. */
static struct probe_error *begin(const struct helper *h, bool copy, enum outcome *ret)
{
	int image = copy ? -1 : image_open();
	struct probe_error *error;

	running.start = START_NONE;
	running.is_there = true;
	running.is_executed = image >= 0;
	error = start_controller(&running.start, image);
	if (image >= 0)
		close(image);
	if (!error)
		*ret = hear_hello(h);
	if (!error && *ret == OUTCOME_DONE)
		allow(running.start.pid);
	return error;
}

/* Tells the controller that there is no more, and waits until it has gone; false: it is late. */
static bool is_gone(void)
{
	uint64_t end_ns = clock_monotonic_ns() + HELPER_SECONDS * UINT64_C(1000000000);
	struct message unheard = {0};
	enum message_result result;

	shutdown(running.start.ends[0], SHUT_WR);
	do
		result = hear(end_ns, &unheard);
	while (result == MESSAGE_GOT);
	message_deinit(&unheard);
	return result != MESSAGE_LATE;
}

/* Ends the controller; one that is late, or stopped by somebody, is killed. */
static void end(bool is_late)
{
	if (running.is_there)
		start_end(&running.start, is_late || !is_gone());
	running.is_there = false;
}

static enum outcome send_work(const struct helper *h)
{
	struct buffer bytes = {0};
	bool sent;

	buffer_bytes(&bytes, &h->head, sizeof(h->head));
	buffer_bytes(&bytes, h->work->request.data, h->work->request.length);
	sent = message_send(running.start.ends[0], MESSAGE_WORK, &bytes);
	buffer_deinit(&bytes);
	return sent ? OUTCOME_DONE : OUTCOME_DIED;
}

/* Serves the controller until it replies. */
static enum outcome serve(const struct helper *h, struct probe_error **answer_ret)
{
	const struct helper_work *work = h->work;
	enum outcome outcome = OUTCOME_DONE;
	int socket = running.start.ends[0];
	struct message m = {0};

	do {
		enum message_result result = hear(h->end_ns, &m);

		if (result != MESSAGE_GOT)
			outcome = result == MESSAGE_LATE ? OUTCOME_LATE : OUTCOME_DIED;
	} while (outcome == OUTCOME_DONE && proxy_serve(socket, &m));
	if (outcome == OUTCOME_DONE &&
		!reply_take(&m, answer_ret, work->report, work->result, work->result_bytes))
		outcome = OUTCOME_DIED;
	message_deinit(&m);
	return outcome;
}

/*
 * One try. The error is the work's, or why nothing was started; no controller stays after it, nor
 * after another outcome than OUTCOME_DONE.
 */
static struct probe_error *try(struct helper *h, bool copy, enum outcome *ret)
{
	struct probe_error *error = NULL;

	h->end_ns = clock_monotonic_ns() + HELPER_SECONDS * UINT64_C(1000000000);
	*ret = OUTCOME_DONE;
	if (!running.is_there)
		error = begin(h, copy, ret);
	if (!error && *ret == OUTCOME_DONE)
		*ret = send_work(h);
	if (!error && *ret == OUTCOME_DONE)
		*ret = serve(h, &error);
	/*
	 * What was executed cannot always trace a process as a copy can: it has lost rights that
	 * the program was given. The error says that it has done nothing.
	 */
	if (running.is_executed && error && error->code == PROBE_ERROR_PERMISSION)
		*ret = OUTCOME_UNFIT;
	if (error || *ret != OUTCOME_DONE)
		end(*ret == OUTCOME_LATE);
	return error;
}

/* ---- All tries -------------------------------------------------------------------------- */

static struct probe_error *change(struct helper *h)
{
	struct probe_error *error = describe_process(&h->head);
	bool done = error != NULL;

	for (int i = 0; i < TRIES && !done; i++) {
		enum outcome outcome;

		error = try(h, false, &outcome);
		if (outcome == OUTCOME_UNFIT) {
			probe_error_free(error);
			error = try(h, true, &outcome);
		}
		done = outcome == OUTCOME_DONE;
		h->work->died = h->work->died || !done;
		if (!done && i + 1 == TRIES)
			error = probe_error_new(PROBE_ERROR_STATE,
				"the process that was to change the probes of this one %s: try "
				"again",
				outcome == OUTCOME_LATE ? "was not done in time" : "has died");
	}
	return error;
}

void helper_end(void)
{
	end(false);
}

void helper_prepare(void)
{
	/* Loads the disassembler here, not in a copy. */
	if (arch_host()->can_decode)
		arch_host()->can_decode();
}

struct probe_error *helper_run(struct helper_work *work)
{
	struct helper h = {
		.work = work, .head = {.act = work->act, .result_bytes = work->result_bytes}};
	struct probe_error *error = work->request.no_memory ? probe_error_no_memory() : change(&h);

	buffer_deinit(&work->request);
	return error;
}
