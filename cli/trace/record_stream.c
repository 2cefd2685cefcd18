/* SPDX-License-Identifier: MIT */
/*
 * A record of the contents of the rings, made on request: a stream with a log (probe/stream.h).
 * Nothing is read before that, so this costs no processor time however often the process hits, and
 * rings need not be larger than the part that is wanted.
 *
 *	loop	a flight recorder: written at the end, and on SIGUSR1
 *	stop	ends when a ring is full
 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/loop.h"
#include "cli/print/print.h"
#include "cli/request.h"
#include "cli/trace/comm.h"
#include "cli/trace/record_stream.h"
#include "probe/stream.h"

enum { LOOK_NS = 20 * 1000 * 1000, STRING_BYTES = 256, ARGS_MAX = 32, NUMBER_BYTES = 8 };

struct recorder {
	struct trace_options *options;
	struct probe_target *target;
	struct probe_stream *stream;
	struct comm_cache *comms;
	struct probe_stream_status status;
	struct loop loop;
	int pidfd;		 /* see loop_watch_exit() */
	bool exited;		 /* the process has ended */
	bool overrun;		 /* at any time */
	bool asked;		 /* to write what there is */
	struct report_told told; /* of the session's report */
	struct timer looked;	 /* at sites: are they as they were left? */
	bool incomplete;	 /* hits of some sites are missing, although not on request */
	bool failed;
};

static void fail(struct recorder *r, struct probe_error *error)
{
	if (!error)
		return;
	report_error(error);
	r->failed = r->loop.over = true;
}

/* ---- Before -------------------------------------------------------------------------- */

static struct probe_error *check_options(const struct trace_options *options)
{
	const struct tracer_options *tracer = &options->tracer;

	if (options->parts.rotate_bytes || options->parts.rotate_ns)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--full=loop and stop write once, and not in parts: leave --rotate out");
	if (tracer->every || tracer->rate || options->settings.hits_max)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--full=loop and stop do not go with --every, --rate and -n");
	if (!options->common.program && options->common.pids.count != 1)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--full=loop and stop record one process at a time, which must be there, "
			"not %zu",
			options->common.pids.count);
	return NULL;
}

static struct probe_error *open_target(struct recorder *r, int *status_ret)
{
	const struct common_options *common = &r->options->common;
	struct probe_error *error =
		common->program ? child_start(common->program, &r->target, status_ret)
				: processes_open(common, common->pids.items[0], &r->target);

	if (error)
		return error;
	if (common->program)
		r->loop.child = probe_target_pid(r->target);
	r->pidfd = pidfd_open(probe_target_pid(r->target), 0);
	return NULL;
}

static void take_signal(int signal, void *data)
{
	struct recorder *r = data;

	(void)signal;
	r->asked = true;
}

static const char *comm_of(void *data, pid_t pid, pid_t tid, uint64_t time_ns)
{
	const struct recorder *r = data;

	return comm_cache_get_forked(r->comms, pid, tid, time_ns, probe_target_pid(r->target));
}

static struct probe_error *start(struct recorder *r)
{
	const struct trace_options *o = r->options;
	bool follow = processes_follow(&o->common);
	uint16_t string = o->string_bytes ? (uint16_t)o->string_bytes : STRING_BYTES;
	const struct probe_stream_options its = {
		.name = "record",
		.stream_bytes = o->ring_bytes,
		.data_bytes = ARGS_MAX * (NUMBER_BYTES + (size_t)string),
		.string_bytes = string,
		.policy = o->full == RECORD_LOOP ? PROBE_STREAM_LOOP : PROBE_STREAM_UNTIL_FULL,
		.inherit = follow,
		.follow_libraries = follow,
		.guess_strings = o->string_bytes != 0,
		.mangled = o->mangled,
		.filter = o->tracer.filter,
		.log = o->directory,
		.log_policy = PROBE_STREAM_LOG_APPEND,
		.comm = comm_of,
		.comm_data = r,
	};
	struct probe_report report = {0};
	struct probe_error *error =
		probe_stream_create(r->target, &o->request.request, &its, &report, &r->stream);

	report_refusals(
		&report, probe_target_pid(r->target), refusals_shown(error, o->request.verbose));
	report_notes(&report);
	if (!error)
		error = probe_stream_start(r->stream);
	if (!error && !o->settings.quiet && !r->loop.child)
		fprintf(stderr, "probectl: recording %zu probe%s, %zu site%s; Ctrl-C ends%s\n",
			COUNTED(report.probes), COUNTED(report.sites),
			o->full == RECORD_LOOP ? ", SIGUSR1 writes what there is" : "");
	probe_report_deinit(&report);
	if (!error)
		comm_cache_add(r->comms, probe_target_pid(r->target));
	if (!error && r->loop.child)
		error = probe_target_release(r->target);
	return error;
}

/* ---- Meanwhile ----------------------------------------------------------------------- */

static void wait_a_while(struct recorder *r, const struct timer *end)
{
	loop_watch_exit(&r->loop, r->pidfd, r->target, &r->exited);
	loop_watch(&r->loop, probe_stream_fd(r->stream), POLLIN, NULL);
	loop_until(&r->loop, clock_ns(CLOCK_MONOTONIC) + LOOK_NS);
	loop_until(&r->loop, end->next_ns);
	fail(r, loop_sleep(&r->loop));
}

/* Refusals in libraries that were opened since: as at the start, but it continues. */
static void report_refused(struct recorder *r)
{
	const struct probe_report *report = probe_session_report(probe_stream_session(r->stream));

	r->incomplete |= report_refusals_since(report, probe_target_pid(r->target),
				 refusals_shown(false, r->options->request.verbose), &r->told) &&
			 !r->options->request.request.keep_going;
	report_notes_since(report, &r->told);
}

static void take_news(const struct probe_site_news *news, void *data)
{
	struct recorder *r = data;

	print_site_news(news, probe_target_pid(r->target));
	r->incomplete = true;
}

static void look(struct recorder *r)
{
	fail(r, probe_stream_poll(r->stream, NULL));
	report_refused(r);
	if (timer_due(&r->looked, clock_ns(CLOCK_MONOTONIC)))
		fail(r, probe_stream_look(r->stream, false, take_news, r));
	if (r->asked)
		fail(r, probe_stream_flush(r->stream));
	r->asked = false;
	fail(r, probe_stream_get_status(r->stream, &r->status));
	r->overrun |= r->status.overrun;
	r->loop.over |= r->options->full == RECORD_STOP && r->status.full;
}

static void run(struct recorder *r)
{
	struct timer end = timer_every(r->options->settings.duration_ns);

	r->looked = timer_every(NSEC_PER_SEC);
	while (!r->loop.over) {
		bool exited = r->exited;

		look(r);
		r->loop.over |= exited || timer_due(&end, clock_ns(CLOCK_MONOTONIC));
		if (!r->loop.over)
			wait_a_while(r, &end);
	}
}

/* ---- Afterwards ---------------------------------------------------------------------- */

static void report_unmatched(const struct recorder *r)
{
	const struct probe_request *request = &r->options->request.request;
	size_t i = probe_session_unmatched(probe_stream_session(r->stream));

	if (i < request->pattern_count)
		report_warning("%s matched no probe of process %d" REQUEST_NEXT_STEP,
			probe_pattern_text(request->patterns[i]), (int)probe_target_pid(r->target));
}

static void report_missing(struct recorder *r)
{
	struct probe_coverage all = {0};
	size_t count;
	const struct probe_session_probe *probes =
		probe_session_probes(probe_stream_session(r->stream), &count);

	for (size_t i = 0; i < count && !r->options->settings.quiet; i++)
		trace_report_missing(probes[i].provider, probes[i].name, &probes[i].coverage);
	for (size_t i = 0; i < count; i++)
		probe_coverage_add(&all, &probes[i].coverage);
	r->incomplete |= probe_coverage_is_none(&all) && !r->options->request.request.keep_going;
}

/* Writes what there is, and stops tracing the process. */
static void finish(struct recorder *r)
{
	struct probe_error *error;

	report_unmatched(r);
	fail(r, probe_stream_look(r->stream, true, take_news, r));
	fail(r, probe_stream_stop(r->stream));
	if (!r->failed)
		fail(r, probe_stream_flush(r->stream));
	fail(r, probe_stream_get_status(r->stream, &r->status));
	r->overrun |= r->status.overrun;
	report_missing(r);
	error = probe_stream_shutdown(r->stream);
	r->stream = NULL;
	/* A log that has failed fails again. */
	if (r->failed)
		probe_error_free(error);
	else
		fail(r, error);
}

static void report(const struct recorder *r)
{
	const struct trace_options *o = r->options;

	if (o->settings.quiet || r->failed)
		return;
	if (r->overrun)
		fprintf(stderr, "probectl: %s (see -b)\n",
			o->full == RECORD_LOOP
				? "older hits were overwritten"
				: "later hits were not recorded: the rings were full");
	fprintf(stderr, "probectl: %" PRIu64 " hit%s recorded in %s\n", COUNTED(r->status.flushed),
		o->directory);
}

static void deinit(struct recorder *r)
{
	if (r->stream)
		probe_error_free(probe_stream_shutdown(r->stream));
	probe_target_close(r->target);
	comm_cache_free(r->comms);
	loop_close(&r->loop);
	if (r->pidfd >= 0)
		close(r->pidfd);
}

struct probe_error *record_stream(struct trace_options *options, int *status_ret)
{
	struct recorder r = {.options = options, .loop = {.signal_fd = -1}, .pidfd = -1};
	static const int asking[] = {SIGUSR1, 0};
	struct probe_error *error = check_options(options);

	if (error)
		return error;
	r.loop.take_signal = take_signal;
	r.loop.data = &r;
	r.comms = comm_cache_create();
	error = r.comms ? open_target(&r, status_ret) : probe_error_no_memory();
	if (!error)
		error = loop_open(&r.loop, asking);
	if (!error)
		error = start(&r);
	if (error && r.loop.child)
		error = child_error(error, r.target, status_ret);
	if (!error) {
		run(&r);
		finish(&r);
		report(&r);
		if (r.loop.child)
			*status_ret = loop_wait_child(&r.loop);
		if (r.failed || r.incomplete)
			*status_ret = STATUS_FAILED;
	}
	deinit(&r);
	return error;
}
