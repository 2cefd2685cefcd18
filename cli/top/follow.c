/* SPDX-License-Identifier: MIT */
/*
 * The processes that `probectl top` shows, named or started by top. As in `probectl trace`, it also
 * follows the libraries that they open and the programs that they and their children execute.
 */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "cli/top/source.h"
#include "libprobe/base/file.h"

/* ---- News -------------------------------------------------------------------------- */

/* Adds a message to those that the main loop has not fetched yet. Drops it on lack of memory. */
static void __attribute__((format(printf, 2, 3)))
add_news(struct top_source *source, const char *format, ...)
{
	char *text, *all;
	va_list ap;
	int length;

	va_start(ap, format);
	length = vasprintf(&text, format, ap);
	va_end(ap);
	if (length < 0)
		return;
	if (!source->news) {
		source->news = text;
		return;
	}
	if (asprintf(&all, "%s; %s", source->news, text) >= 0) {
		free(source->news);
		source->news = all;
	}
	free(text);
}

static void note_failure(struct top_source *source, struct probe_error *error)
{
	if (error)
		add_news(source, "%s", error->message);
	probe_error_free(error);
}

/* Returns the session of a tracer in a process, or NULL. */
static struct probe_traced *session_of(
	const struct top_source *source, const struct probe_target *target, size_t tracer)
{
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(source->set, &count);

	for (size_t i = 0; i < count; i++)
		if (all[i]->target == target && all[i]->tracer == tracer)
			return all[i];
	return NULL;
}

/*
 * The two sessions of a process mostly have the same notes, so `notes` counts the reported notes of
 * both.
 */
static void note_notes(struct top_source *source, const struct probe_trace_news *news)
{
	const struct probe_traced *counts = session_of(source, news->traced->target, TOP_COUNTS);
	struct top_process *process = counts->data;

	for (; process && process->notes < news->report->note_count; process->notes++)
		add_news(source, "%s", news->report->notes[process->notes]);
}

static void note_site(struct top_source *source, pid_t pid, const struct probe_site_news *news)
{
	char fault[PROBE_FAULT_BYTES];
	const char *provider = news->site.name ? news->site.provider : "the gate that notices ";
	const char *colon = news->site.name ? ":" : "";
	const char *name = news->site.name ? news->site.name : "libraries and programs";

	source->incomplete = true;
	probe_fault_text(fault, news->site.fault, news->site.bytes, news->site.length);
	if (news->event == PROBE_SITE_BACK)
		add_news(source, "process %d: %s%s%s at 0x%jx counts again", (int)pid, provider,
			colon, name, (uintmax_t)news->site.pc);
	else
		add_news(source, "process %d: %s%s%s at 0x%jx%s: %s", (int)pid, provider, colon,
			name, (uintmax_t)news->site.pc,
			news->site.left ? " is left as it is" : " does not count any more", fault);
}

bool source_is_incomplete(const struct top_source *source)
{
	return source->incomplete;
}

char *source_news(struct top_source *source)
{
	char *news = source->news;

	source->news = NULL;
	return news;
}

/* Reads the name of a process. Returns false if the process has ended. */
static bool read_comm(pid_t pid, char comm[32])
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (!file_read(path, comm, 32))
		return false;
	comm[strcspn(comm, "\n")] = '\0';
	return true;
}

/* Returns true if this is the counting session of a running program. */
static bool is_running(const struct probe_traced *traced)
{
	return traced->tracer == TOP_COUNTS && traced->is_on && !traced->is_replaced;
}

/* Makes the title for processes that come and go: a program's name without a process id. */
static void make_seeking_title(struct top_source *source)
{
	size_t count, running = 0;
	struct probe_traced *const *all = probe_trace_sessions(source->set, &count);

	for (size_t i = 0; i < count; i++)
		running += is_running(all[i]);
	if (source->came)
		snprintf(source->title, sizeof(source->title), "%s%s: %zu process%s, %zu now",
			source->program[0] ? source->program : "programs",
			source->programs_differ ? " and others" : "", source->came,
			source->came == 1 ? "" : "es", running);
}

/* Counts a newly traced process. Does not count a known process that executes another program. */
static void note_came(struct top_source *source, pid_t pid)
{
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(source->set, &count);
	char comm[32];
	bool is_new = true;

	for (size_t i = 0; i < count; i++)
		is_new &= !all[i]->is_replaced || probe_target_pid(all[i]->target) != pid;
	source->came += is_new;
	if (!read_comm(pid, comm))
		return;
	source->programs_differ |= source->program[0] && strcmp(source->program, comm) != 0;
	strcpy(source->program, comm);
}

/* The title is not escaped, because the code that prints it does that. */
static void make_title(struct top_source *source)
{
	size_t count, others = 0;
	struct probe_traced *const *all = probe_trace_sessions(source->set, &count);
	const struct probe_traced *first = NULL;
	char comm[32];
	int pid;

	if (source->seeks) {
		make_seeking_title(source);
		return;
	}
	for (size_t i = count; i-- > 0;) {
		if (!is_running(all[i]))
			continue;
		others += first != NULL;
		first = all[i];
	}
	/* If no process is left, keep the title, which names the last process. */
	if (!first)
		return;
	pid = (int)probe_target_pid(first->target);
	if (!read_comm(pid, comm))
		strcpy(comm, "process");
	if (others)
		snprintf(source->title, sizeof(source->title), "%s (%d) and %zu more", comm, pid,
			others);
	else
		snprintf(source->title, sizeof(source->title), "%s (%d)", comm, pid);
}

/* ---- Rows -------------------------------------------------------------------------- */

/* Keeps the first error, for the next call that can return it. */
static void keep_error(struct top_source *source, struct probe_error *error)
{
	if (error && source->error)
		report_error(error);
	else if (error)
		source->error = error;
}

static struct probe_error *take_error(struct top_source *source)
{
	struct probe_error *error = source->error;

	source->error = NULL;
	return error;
}

/* Adds rows for the probes of a session, from index `first` on. */
static struct probe_error *take_probes(
	struct top_source *source, const struct probe_traced *traced, size_t first)
{
	const struct probe_session_probe *probes;
	size_t count;

	probes = probe_session_probes(traced->session, &count);
	source->model->has_times |= traced->tracer == TOP_TIMES && count;
	for (size_t i = first; i < count && traced->tracer == TOP_COUNTS; i++) {
		struct top_row *row = model_row(source->model, probes[i].provider, probes[i].name);

		if (row && !row->path) {
			row->path = strdup(probes[i].path);
			row->on = true;
		}
		if (!row || !row->path)
			return probe_error_no_memory();
	}
	for (size_t i = 0; i < source->request->pattern_count; i++)
		source->matched[i] |= probe_session_matched(traced->session, i);
	return NULL;
}

/* If the user has switched a probe off, it is also switched off in new libraries and programs. */
static void switch_if_off(struct top_source *source, const struct probe_traced *traced)
{
	const struct probe_session_probe *probes;
	bool is_off = false;
	size_t count;

	probes = probe_session_probes(traced->session, &count);
	for (size_t i = 0; i < count; i++) {
		const struct top_row *row =
			model_find(source->model, probes[i].provider, probes[i].name);

		is_off |= row && !row->on && probe_session_is_selected(traced->session, i);
	}
	if (is_off)
		note_failure(source, source_switch_session(source, traced));
}

static void take_growth(struct top_source *source, const struct probe_trace_news *news)
{
	if (news->traced->tracer == TOP_COUNTS)
		keep_error(source,
			source_add_refusals(source->model, news->report, news->told.refusals));
	note_notes(source, news);
	keep_error(source, take_probes(source, news->traced, news->told.probes));
	switch_if_off(source, news->traced);
}

/* ---- Starting ---------------------------------------------------------------------- */

/*
 * Starts the session that measures pairs, after the one that counts. Starts none if the process has
 * no pairs, or has ended. An ended process is no error, because its counts can still be shown.
 */
static struct probe_error *start_times(struct top_source *source, struct probe_traced *traced,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report)
{
	const struct probe_traced *counts = session_of(source, traced->target, TOP_COUNTS);
	struct probe_error *error;

	if (!counts->is_on)
		return counts->data ? NULL
				    : probe_error_new(PROBE_ERROR_BUSY,
					      "the probes of process %d are not counted yet",
					      (int)probe_target_pid(traced->target));
	error = probe_session_start(traced->target, request, options, report, &traced->session);
	if (!error || (error->code != PROBE_ERROR_NOT_FOUND && probe_target_alive(traced->target)))
		return error;
	/* An ended process may have had pairs, so show their columns. */
	source->model->has_times |= !probe_target_alive(traced->target);
	probe_error_free(error);
	return NULL;
}

static struct probe_error *start_session(struct probe_traced *traced,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report, void *data)
{
	struct top_source *source = data;

	if (source->error)
		return NULL;
	if (traced->tracer == TOP_TIMES)
		return start_times(source, traced, request, options, report);
	return probe_session_start(traced->target, request, options, report, &traced->session);
}

/*
 * Handles a process that cannot be traced. An error of a process that was named with -p ends the
 * start. Other processes were found by name or parent. They may have ended or belong to another
 * user, so they are only left out.
 */
static void leave_out(struct top_source *source, pid_t pid, bool given, struct probe_error *error)
{
	const struct common_options *common = source->common;

	error = processes_error(common, pid, error);
	if (given || source->started || (common->pids.count == 1 && !source->seeks) ||
		error->code == PROBE_ERROR_MEMORY)
		source->error = probe_error_first(source->error, error);
	else
		left_out_add(&source->left, pid, error);
}

static void take_start(struct top_source *source, const struct probe_trace_news *news)
{
	struct probe_traced *traced = news->traced;
	bool counts = traced->tracer == TOP_COUNTS;

	source_note_change(source, news->report);
	/* start_times() waits for the data of the session that counts. */
	if (counts)
		traced->data = calloc(1, sizeof(struct top_process));
	if (counts && !traced->data)
		keep_error(source, probe_error_no_memory());
	if (news->error && !counts && !session_of(source, traced->target, TOP_COUNTS)->is_on)
		probe_error_free(news->error);
	else if (news->error)
		leave_out(source, probe_target_pid(traced->target), traced->named, news->error);
	if (!traced->is_on)
		return;
	if (counts)
		keep_error(source, source_add_refusals(source->model, news->report, 0));
	/* Only before the screen is opened: later, a build has a thousand programs. */
	if (counts && !traced->later)
		report_notes(news->report);
	keep_error(source, take_probes(source, traced, 0));
	if (counts)
		note_came(source, probe_target_pid(traced->target));
	switch_if_off(source, traced);
	make_title(source);
}

static struct probe_error *add_processes(struct top_source *source)
{
	const struct pid_list *pids = &source->common->pids;
	struct probe_error *error = NULL;
	struct probe_target *target;

	for (size_t i = 0; i < pids->count && !error; i++) {
		bool given = i < source->common->pids_given;
		struct probe_error *its = processes_open(source->common, pids->items[i], &target);

		if (its)
			leave_out(source, pids->items[i], given, its);
		error = its ? take_error(source) : probe_trace_add(source->set, target, given);
	}
	return error;
}

static struct probe_error *start_all(struct top_source *source)
{
	struct probe_error *error = probe_trace_start(source->set);
	size_t count;
	bool lacks;

	error = probe_error_first(error, take_error(source));
	left_out_report(&source->left, source->common);
	probe_trace_sessions(source->set, &count);
	lacks = !error && !count && !source->seeks;
	if (lacks)
		error = left_out_lacking(&source->left, source->common);
	if (lacks && !error)
		error = probe_error_new(PROBE_ERROR_NOT_FOUND,
			"none of the %zu processes can be traced", source->common->pids.count);
	return error;
}

static void take_news(const struct probe_trace_news *news, void *data);

static struct probe_error *create(const struct top_options *options, struct top_source **ret)
{
	struct top_source *source = calloc(1, sizeof(*source));
	const struct common_options *common = &options->common;
	struct probe_trace_options its = {.tracer_count = TOP_TRACERS,
		.follow = processes_follow(common),
		.ends_heirs = true,
		.start = start_session,
		.news = take_news,
		.data = source};

	*ret = source;
	if (!source)
		return probe_error_no_memory();
	source->request = &options->request;
	source->common = common;
	source->matched = calloc(options->request.pattern_count + 1, sizeof(*source->matched));
	if (!source->matched)
		return probe_error_no_memory();
	source_set_tracers(source, options);
	source->seeks = probe_processes_seek(common->meant);
	if (source->seeks)
		strcpy(source->title, "waiting for processes");
	its.processes = source->seeks ? common->meant : NULL;
	its.tracers = source->tracers;
	return probe_trace_create(&its, &source->set);
}

struct probe_error *source_start(const struct top_options *options, struct probe_target *started,
	struct top_model *model, struct top_source **ret)
{
	struct probe_error *error = create(options, ret);
	struct top_source *source = *ret;

	if (error) {
		probe_target_close(started);
		return error;
	}
	source->model = model;
	source->started = started != NULL;
	error = started ? probe_trace_add(source->set, started, false) : add_processes(source);
	/* The program was started before, because it inherits our limits. */
	processes_allow_descriptors();
	if (!error)
		error = start_all(source);
	left_out_deinit(&source->left, &options->common);
	if (error)
		return error;
	source->started_ns = source->last_ns = clock_monotonic_ns();
	return started ? probe_target_release(started) : NULL;
}

bool source_has_traced(const struct top_source *source)
{
	return source->came > 0;
}

const char *source_unmatched(const struct top_source *source)
{
	for (size_t i = 0; i < source->request->pattern_count; i++)
		if (!source->matched[i])
			return probe_pattern_text(source->request->patterns[i]);
	return NULL;
}

/* ---- Following --------------------------------------------------------------------- */

static void note_unseen(struct top_source *source, const struct probe_watch_event *event)
{
	add_news(source, "process %d %s; hits of its first %ju ms are not counted",
		(int)probe_target_pid(event->target),
		event->is_newcomer ? "came" : "has become another program",
		(uintmax_t)(event->unseen_ns / NSEC_PER_MSEC + 1));
}

/* Returns true if the process was named on the command line, whichever program it runs now. */
static bool is_named(const struct top_source *source, pid_t pid)
{
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(source->set, &count);

	for (size_t i = 0; i < count && !source->started; i++)
		if (!all[i]->later && probe_target_pid(all[i]->target) == pid)
			return true;
	return false;
}

/*
 * Reports the end of a process. The end of the program that we started is not reported, because our
 * exit status shows it. The ends of followed processes are not reported, because they concern only
 * their parents. An exception is a lack of memory in a control group, which is always reported.
 */
static void take_end(struct top_source *source, const struct probe_traced *traced)
{
	pid_t pid = probe_target_pid(traced->target);
	bool named = is_named(source, pid);
	struct probe_fate fate;

	make_title(source);
	if (traced->is_replaced)
		return;
	probe_target_fate(traced->target, traced->pidfd, &fate);
	if (!fate.signal || (!named && !fate.out_of_memory)) {
		source->ended += named;
		source->ended_pid = named ? pid : source->ended_pid;
		return;
	}
	add_news(source, "process %d was killed by SIG%s%s", (int)pid, sigabbrev_np(fate.signal),
		fate.out_of_memory ? ": its control group ran out of memory" : "");
	source->incomplete |= named && fate.signal == SIGKILL;
}

/* Only a session that cannot be read ends top before its end. */
static void take_failure(struct top_source *source, const struct probe_trace_news *news)
{
	if (source->stopping || (news->traced && news->traced->is_broken))
		keep_error(source, news->error);
	else
		note_failure(source, news->error);
}

static void take_news(const struct probe_trace_news *news, void *data)
{
	struct probe_traced *traced = news->traced;
	struct top_source *source = data;

	switch (news->event) {
	case PROBE_TRACE_STARTED:
		take_start(source, news);
		break;
	case PROBE_TRACE_CAME:
		if (news->sites && (news->watched->unseen_ns || !news->watched->held))
			note_unseen(source, news->watched);
		break;
	case PROBE_TRACE_UNTRACED:
		add_news(source, "%s%s", processes_untraced(news->error), news->error->message);
		probe_error_free(news->error);
		break;
	case PROBE_TRACE_GREW:
		take_growth(source, news);
		break;
	case PROBE_TRACE_SITE:
		/* Both sessions have the same sites, except gates. */
		if (traced->tracer == TOP_COUNTS)
			note_site(source, probe_target_pid(traced->target), news->site);
		break;
	case PROBE_TRACE_FAILED:
		take_failure(source, news);
		break;
	case PROBE_TRACE_ENDED:
		if (traced->tracer == TOP_COUNTS)
			take_end(source, traced);
		break;
	case PROBE_TRACE_STOPPING:
		if (news->is_waiting && traced->tracer == TOP_COUNTS)
			processes_tell_frozen(traced->target);
		break;
	case PROBE_TRACE_CLOSED:
		free(traced->data);
		break;
	case PROBE_TRACE_LOST:
	case PROBE_TRACE_DROPPED:
	case PROBE_TRACE_HEIRS:
		break;
	}
}

struct probe_error *source_follow(struct top_source *source)
{
	struct probe_error *error = probe_trace_poll(source->set);

	/* A build ends thousands of processes, so their ends are reported together. */
	if (source->ended == 1)
		add_news(source, "process %d has ended", (int)source->ended_pid);
	else if (source->ended)
		add_news(source, "%zu processes have ended", source->ended);
	source->ended = 0;
	return probe_error_first(error, take_error(source));
}

bool source_is_alive(const struct top_source *source)
{
	return source->set && !probe_trace_is_over(source->set);
}

struct probe_error *source_stop(struct top_source *source)
{
	source->stopping = true;
	if (source->set)
		probe_trace_stop(source->set, false);
	return take_error(source);
}

void source_watch(struct top_source *source, struct loop *loop)
{
	loop_watch(loop, probe_trace_fd(source->set), POLLIN, NULL);
}
