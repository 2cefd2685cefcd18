/* SPDX-License-Identifier: MIT */
/*
 * A record from begin to end. As in trace_loop.c nobody wakes us: the rings are
 * looked at every 0.5 to 20 ms, the longer the longer nothing came. What is in
 * memory is written when a batch of packets is full, and once a second.
 *
 * Of programs that the process becomes (execve(2)) nothing is recorded; that is said.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/record.h"
#include "cli/trace_comm.h"
#include "probe/watch.h"

enum {
	NSEC_PER_SEC = 1000000000,
	FIRST_SLEEP_NS = 500 * 1000,
	LAST_SLEEP_NS = 20 * 1000 * 1000,
	BUSY_HITS = 1000,
	FLUSH_NS = NSEC_PER_SEC
};

struct record {
	const struct record_options *options;
	struct probe_target *target;
	struct probe_session *session;
	struct probe_watch *watch;
	struct probe_ctf *ctf;
	struct comm_cache *comms;
	sigset_t signals;
	int signal_fd, pidfd;
	pid_t child;	   /* the program that we started, or 0 */
	uint64_t hits;	   /* recorded */
	uint64_t lost;	   /* of those that were told */
	uint64_t end_ns;   /* CLOCK_MONOTONIC; UINT64_MAX: never */
	uint64_t flush_ns; /* likewise */
	bool exited, over;
	bool broken; /* nothing more can be written, or read */
	bool failed;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

/* Reports an error, once, and ends the record. */
static void record_fail(struct record *record, struct probe_error *error)
{
	if (!error)
		return;
	report_error(error);
	record->failed = record->broken = record->over = true;
}

/* ---- Hits -------------------------------------------------------------------- */

static bool visit_hit(const struct probe_hit *hit, void *data)
{
	struct record *record = data;
	const char *comm = comm_cache_get(record->comms, hit->pid, hit->tid, hit->time_ns);

	record_fail(record, probe_ctf_hit(record->ctf, record->session, hit, comm));
	record->hits += !record->broken;
	return !record->broken;
}

static void take_losses(struct record *record)
{
	const struct probe_session_probe *probes;
	uint64_t lost = 0, more;
	size_t count;

	probes = probe_session_probes(record->session, &count);
	for (size_t i = 0; i < count; i++)
		lost += probes[i].lost;
	more = lost - record->lost;
	record->lost = lost;
	if (!more || record->broken)
		return;
	record_fail(record, probe_ctf_discarded(record->ctf, record->session, more));
}

/* Reads what is in the rings; returns how many hits that were. */
static uint64_t take_hits(struct record *record)
{
	uint64_t before = record->hits;

	record_fail(record, probe_session_poll(record->session, visit_hit, record, NULL));
	take_losses(record);
	return record->hits - before;
}

/* ---- Waiting ------------------------------------------------------------------- */

static void read_signals(struct record *record)
{
	struct signalfd_siginfo info;

	while (read(record->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		int signal = (int)info.ssi_signo;

		/* Ctrl-\ is for the program: a JVM prints its threads. */
		if (signal == SIGCHLD || (signal == SIGQUIT && record->child))
			continue;
		if (record->child)
			child_signal(record->child, signal);
		record->over = true;
	}
}

static void wait_for_events(struct record *record, uint64_t timeout_ns)
{
	struct pollfd fds[] = {
		{.fd = record->signal_fd, .events = POLLIN},
		{.fd = record->pidfd, .events = POLLIN},
		{.fd = probe_session_fd(record->session), .events = POLLIN},
	};
	struct timespec timeout = {.tv_nsec = (long)timeout_ns};

	if (ppoll(fds, sizeof(fds) / sizeof(fds[0]), &timeout, NULL) > 0) {
		if (fds[0].revents)
			read_signals(record);
		record->exited |= fds[1].revents != 0;
	}
	/* Kernels before 5.3 have no pidfd_open(2). */
	if (record->pidfd < 0)
		record->exited |= !probe_target_alive(record->target);
}

/* Programs that the process or a child has become: they are not recorded. */
static void watch_execs(struct record *record)
{
	struct probe_watch_event event;

	for (;;) {
		struct probe_error *error = probe_watch_next(record->watch, &event);

		if (!error && !event.target)
			return;
		if (error) {
			probe_error_free(error);
			continue;
		}
		report_warning("process %d has become another program, which is not recorded",
			(int)probe_target_pid(event.target));
		probe_target_close(event.target);
	}
}

/* ---- The loop ------------------------------------------------------------------- */

static void timers_run(struct record *record)
{
	uint64_t now = now_ns();

	if (now >= record->end_ns)
		record->over = true;
	if (now < record->flush_ns)
		return;
	record_fail(record, probe_ctf_flush(record->ctf));
	record->flush_ns = now + FLUSH_NS;
}

static void record_loop(struct record *record)
{
	uint64_t sleep_ns = FIRST_SLEEP_NS;

	while (!record->over) {
		/* Set before the poll, which has then seen all there will ever be. */
		bool exited = record->exited;
		uint64_t hits = take_hits(record);

		watch_execs(record);
		timers_run(record);
		if (exited && !hits)
			record->over = true;
		if (record->over)
			break;
		if (hits)
			sleep_ns = FIRST_SLEEP_NS;
		wait_for_events(record, hits >= BUSY_HITS ? 0 : sleep_ns);
		if (sleep_ns < LAST_SLEEP_NS && !hits)
			sleep_ns = 2 * sleep_ns < LAST_SLEEP_NS ? 2 * sleep_ns : LAST_SLEEP_NS;
	}
}

/* Switches the probes off, and records what is still in the rings. */
static void record_stop(struct record *record)
{
	struct probe_error *error = probe_session_stop(record->session);

	if (error) {
		record_fail(record, probe_error_prefix(error,
					    "process %d keeps its probes, until `probectl repair`",
					    (int)probe_target_pid(record->target)));
		return;
	}
	while (!record->broken && take_hits(record))
		;
	if (!record->broken)
		record_fail(record, probe_ctf_flush(record->ctf));
}

static void report_end(const struct record *record)
{
	size_t unmatched = probe_session_unmatched(record->session);
	const struct probe_request *request = &record->options->request.request;
	uint64_t damaged = probe_session_damaged(record->session);

	if (unmatched < request->pattern_count)
		report_warning("%s matched no probe of process %d",
			probe_pattern_text(request->patterns[unmatched]),
			(int)probe_target_pid(record->target));
	if (record->lost)
		report_warning("%ju hits were lost: the rings were full (see -b)",
			(uintmax_t)record->lost);
	if (damaged)
		report_warning("records made no sense %ju times: hits are missing, nobody knows "
			       "how many",
			(uintmax_t)damaged);
	if (!record->options->quiet)
		fprintf(stderr, "probectl: %ju hits recorded in %s\n", (uintmax_t)record->hits,
			record->options->directory);
}

/* ---- Its life ---------------------------------------------------------------------- */

static struct probe_error *open_target(struct record *record, int *status_ret)
{
	const struct common_options *common = &record->options->common;
	struct probe_error *error;

	if (!common->program)
		error = probe_target_open(common->pids.items[0], NULL, &record->target);
	else
		error = probe_target_spawn(common->program, &record->target);
	if (error && common->program)
		*status_ret = child_spawn_status(error);
	if (error)
		return error;
	if (common->program)
		record->child = probe_target_pid(record->target);
	record->pidfd = pidfd_open(probe_target_pid(record->target), 0);
	if (record->pidfd < 0 && errno != ENOSYS && errno != ESRCH)
		return probe_error_system(
			errno, "cannot watch process %d", (int)probe_target_pid(record->target));
	return NULL;
}

/* From here on no signal ends us at once. The program has been started before. */
static struct probe_error *take_signals(struct record *record)
{
	signals_block(&record->signals);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	record->signal_fd = signalfd(-1, &record->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return record->signal_fd < 0 ? probe_error_system(errno, "cannot wait for signals") : NULL;
}

static struct probe_error *start_session(struct record *record)
{
	const struct record_options *options = record->options;
	bool follow = options->follow || (record->child && !options->no_follow);
	const struct probe_session_options its = {
		.kind = PROBE_SESSION_RECORD,
		.ring_bytes = options->ring_bytes,
		.string_bytes = (uint16_t)options->string_bytes,
		.guess_strings = options->string_bytes != 0,
		.follow_libraries = follow,
		.follow_children = follow,
	};
	struct probe_report report = {0};
	struct probe_error *error = probe_watch_create(follow, &record->watch);

	if (error)
		return error;
	error = probe_session_start(
		record->target, &options->request.request, &its, &report, &record->session);
	report_refusals(&report);
	if (!error && !options->quiet && !record->child)
		fprintf(stderr, "probectl: recording %zu probe%s, %zu site%s; Ctrl-C ends\n",
			report.probes, report.probes == 1 ? "" : "s", report.sites,
			report.sites == 1 ? "" : "s");
	probe_report_deinit(&report);
	/* Who has ended meanwhile has left its hits, and becomes nothing else. */
	if (!error)
		probe_error_free(probe_watch_add(record->watch, record->target));
	return error;
}

static struct probe_error *record_start(struct record *record, int *status_ret)
{
	const struct record_options *options = record->options;
	struct probe_error *error =
		probe_ctf_create(options->directory, &options->rotate, &record->ctf);

	if (error)
		return error;
	record->comms = comm_cache_create();
	if (!record->comms)
		return probe_error_no_memory();
	error = open_target(record, status_ret);
	if (!error)
		error = take_signals(record);
	if (!error)
		error = start_session(record);
	if (!error && record->child)
		error = probe_target_release(record->target);
	if (error && record->session)
		probe_error_free(probe_session_stop(record->session));
	return error;
}

static void record_deinit(struct record *record)
{
	probe_ctf_free(record->ctf);
	probe_session_free(record->session);
	probe_watch_free(record->watch);
	probe_target_close(record->target);
	comm_cache_free(record->comms);
	if (record->signal_fd >= 0)
		close(record->signal_fd);
	if (record->pidfd >= 0)
		close(record->pidfd);
}

struct probe_error *record_command(struct record_options *options, int *status_ret)
{
	struct record record = {.options = options, .signal_fd = -1, .pidfd = -1};
	struct probe_error *error = record_start(&record, status_ret);

	if (!error) {
		record.end_ns = options->duration_ns ? now_ns() + options->duration_ns : UINT64_MAX;
		record.flush_ns = now_ns() + FLUSH_NS;
		record_loop(&record);
		record_stop(&record);
		report_end(&record);
		if (record.child)
			*status_ret = child_wait(record.child, &record.signals);
		if (record.failed)
			*status_ret = STATUS_FAILED;
	}
	record_deinit(&record);
	return error;
}
