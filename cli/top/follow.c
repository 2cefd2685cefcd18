/* SPDX-License-Identifier: MIT */
/*
 * The processes that `probectl top` shows: the named processes, or the program that top started.
 * As in `probectl trace`, top also follows the libraries that these processes open later, and the
 * programs that they and their children execute.
 */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>

#include "cli/cli.h"
#include "cli/timer.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "cli/top/source.h"
#include "libprobe/base/array.h"
#include "libprobe/base/file.h"

enum {
	EVENTS_MAX = 8 /* number of events handled before keys and libraries are checked again */
};

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

void source_note_failure(struct top_source *source, struct probe_error *error)
{
	if (error)
		add_news(source, "%s", error->message);
	probe_error_free(error);
}

/*
 * The two sessions of a process mostly have the same notes, so process->notes counts the reported
 * notes of both.
 */
void source_note_notes(struct top_source *source, struct top_process *process)
{
	const struct probe_session *const sessions[] = {process->counts, process->times};

	for (size_t i = 0; i < sizeof(sessions) / sizeof(sessions[0]); i++) {
		const struct probe_report *report =
			sessions[i] ? probe_session_report(sessions[i]) : NULL;

		for (; report && process->notes < report->note_count; process->notes++)
			add_news(source, "%s", report->notes[process->notes]);
	}
}

void source_note_site(struct top_source *source, pid_t pid, const struct probe_site_news *news)
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

/*
 * Makes the title for processes that come and go. This title has a program's name, but no process
 * id.
 */
static void make_seeking_title(struct top_source *source)
{
	size_t running = 0;

	for (size_t i = 0; i < source->count; i++)
		running += !source->processes[i].replaced;
	if (source->came)
		snprintf(source->title, sizeof(source->title), "%s%s: %zu process%s, %zu now",
			source->program[0] ? source->program : "programs",
			source->programs_differ ? " and others" : "", source->came,
			source->came == 1 ? "" : "es", running);
}

/* Counts a newly traced process. Does not count a known process that executes another program. */
static void note_came(struct top_source *source, pid_t pid)
{
	char comm[32];
	bool is_new = true;

	for (size_t i = 0; i < source->count; i++)
		is_new &= !source->processes[i].replaced ||
			  probe_target_pid(source->processes[i].target) != pid;
	source->came += is_new;
	if (!read_comm(pid, comm))
		return;
	source->programs_differ |= source->program[0] && strcmp(source->program, comm) != 0;
	strcpy(source->program, comm);
}

/* The title need not be escaped here, because the code that prints it does so. */
static void make_title(struct top_source *source)
{
	const struct top_process *first = NULL;
	char comm[32];
	size_t others = 0;
	int pid;

	if (source->seeks) {
		make_seeking_title(source);
		return;
	}

	for (size_t i = source->count; i-- > 0;) {
		if (source->processes[i].replaced)
			continue;
		others += first != NULL;
		first = &source->processes[i];
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

/*
 * Adds rows for the libraries that a process has opened since the last call. If the user has
 * switched a probe off, it is also switched off in these libraries.
 */
static struct probe_error *take_probes(
	struct top_source *source, struct top_process *process, struct top_model *model)
{
	const struct probe_report *report = probe_session_report(process->counts);
	const struct probe_session_probe *probes;
	struct probe_error *error;
	bool is_off = false;
	size_t count;

	error = source_add_refusals(model, report, process->refusals);
	if (error)
		return error;
	process->refusals = report->refusal_count;
	source_note_notes(source, process);
	probes = probe_session_probes(process->counts, &count);
	for (; process->probes < count; process->probes++) {
		const struct probe_session_probe *probe = &probes[process->probes];
		struct top_row *row = model_row(model, probe->provider, probe->name);

		if (row && !row->path) {
			row->path = strdup(probe->path);
			row->on = true;
		}
		if (!row || !row->path)
			return probe_error_no_memory();
		is_off |= !row->on;
	}
	if (process->times)
		probe_session_probes(process->times, &count);
	model->has_times |= process->times && count;
	for (size_t i = 0; i < source->request->pattern_count; i++)
		source->matched[i] |= probe_session_matched(process->counts, i);
	if (is_off)
		source_note_failure(source, source_switch_process(source, process, model));
	return NULL;
}

/* ---- Starting ---------------------------------------------------------------------- */

/*
 * Starts a session. If `later` is set, the session also follows libraries, because a new program
 * may not have opened all of them yet.
 */
static struct probe_error *start_session(struct top_source *source,
	const struct top_process *process, const struct probe_session_options *kind, bool later,
	struct probe_report *report, struct probe_session **ret)
{
	struct probe_session_options options = *kind;

	options.filter = source->filter;
	options.catalogue = source->request->catalogue;
	options.follow_libraries = source->follow || later;
	options.follow_children = source->follow;
	/* Only one of the two sessions of a process needs the watch. */
	options.watch = source->follow && kind == &source->counting ? source->watch : NULL;
	return probe_session_start(process->target, source->request, &options, report, ret);
}

static struct probe_error *start_counts(struct top_source *source, struct top_process *process,
	struct top_model *model, bool later, size_t *sites_ret)
{
	struct probe_report report = {0};
	struct probe_error *error =
		start_session(source, process, &source->counting, later, &report, &process->counts);

	*sites_ret = report.sites;
	if (!error)
		error = source_add_refusals(model, &report, 0);
	/*
	 * Print notes only before the screen is opened. Later, a build could print them for a
	 * thousand programs.
	 */
	if (!error && !later)
		report_notes(&report);
	source_note_change(source, &report);
	return error;
}

/*
 * Starts the session that measures pairs. Sets *ret to NULL if there are no pairs, or if the
 * process has ended. An ended process is no error, because its counts can still be shown.
 */
static struct probe_error *start_pairs(struct top_source *source, const struct top_process *process,
	const struct top_times_kept *kept, bool later, struct probe_session **ret)
{
	struct probe_report report = {0};
	struct probe_error *error =
		start_session(source, process, &kept->options, later, &report, ret);

	source_note_change(source, &report);
	if (error &&
		(error->code == PROBE_ERROR_NOT_FOUND || !probe_target_alive(process->target))) {
		probe_error_free(error);
		return NULL;
	}
	return error;
}

/* Appends a process and returns it, or NULL on lack of memory. */
static struct top_process *add_process(
	struct top_source *source, struct probe_target *target, bool later)
{
	pid_t pid = probe_target_pid(target);
	struct top_process *process;

	if (!ARRAY_ROOM(source->processes, source->count))
		return NULL;
	process = &source->processes[source->count];
	/* Before Linux 5.3, there is no pidfd_open(2), and pidfd is -1. */
	*process = (struct top_process){
		.target = target, .named = !later && !source->started, .pidfd = pidfd_open(pid, 0)};
	for (size_t i = 0; i < source->count; i++) {
		if (probe_target_pid(source->processes[i].target) != pid)
			continue;
		process->named |= source->processes[i].named;
		source->processes[i].replaced = true;
	}
	source->count++;
	return process;
}

/*
 * Takes ownership of a target and switches its probes on. Sets *sites_ret to the number of sites.
 * On error, the target may already be the last element of source->processes: see drop_failed().
 */
static struct probe_error *start_process(struct top_source *source, struct top_model *model,
	struct probe_target *target, bool later, size_t *sites_ret)
{
	pid_t pid = probe_target_pid(target);
	struct top_process *process;
	struct probe_error *error;

	*sites_ret = 0;
	processes_allow_descriptors();
	process = add_process(source, target, later);
	if (!process) {
		probe_target_close(target);
		return probe_error_no_memory();
	}
	error = start_counts(source, process, model, later, sites_ret);
	if (!error)
		error = start_pairs(source, process, &source->times, later, &process->times);
	/*
	 * If the process has ended meanwhile, we do not know whether it had pairs. So show the
	 * columns of pairs, although they may stay empty.
	 */
	model->has_times |= !error && !process->times && !probe_target_alive(target);
	if (!error)
		error = take_probes(source, process, model);
	if (!error)
		note_came(source, pid);
	make_title(source);
	return error;
}

/*
 * Drops a process that could not be started. `before` is the number of processes before the
 * attempt.
 */
static void drop_failed(struct top_source *source, struct top_model *model, size_t before)
{
	if (source->count <= before)
		return;
	source_drop(source, model, before);
	make_title(source);
}

static struct probe_error *start_named(
	struct top_source *source, struct top_model *model, struct probe_target *target)
{
	size_t before = source->count, sites;
	struct probe_error *error = start_process(source, model, target, false, &sites);

	if (error)
		drop_failed(source, model, before);
	else /* Ignore errors: if the process has ended, it executes no other program. */
		probe_error_free(probe_watch_add(source->watch, target));
	return error;
}

struct starting {
	struct top_source *source;
	struct top_model *model;
	const struct common_options *common;
	struct left_out left;
	struct probe_error *error; /* first error that prevents the start; owned */
};

static pid_t turn_pid(void *data, size_t index)
{
	const struct starting *starting = data;

	return starting->common->pids.items[index];
}

static struct probe_error *start_turn(void *data, size_t index, struct probe_patience *patience)
{
	struct starting *starting = data;
	struct probe_target *target;
	struct probe_error *error;

	if (starting->error)
		return NULL;
	error = processes_open(starting->common, starting->common->pids.items[index], &target);
	if (error)
		return error;
	probe_target_set_patience(target, patience);
	error = start_named(starting->source, starting->model, target);
	if (!error)
		probe_target_set_patience(target, NULL);
	return error;
}

/*
 * Handles the result of starting one process. An error of a process that was named with -p ends
 * the start. Other processes were found by name or parent. They may have ended or belong to
 * another user, so they are only left out.
 */
static void end_turn(void *data, size_t index, struct probe_error *error)
{
	struct starting *starting = data;
	const struct common_options *common = starting->common;
	pid_t pid = common->pids.items[index];

	error = processes_error(common, pid, error);
	if (!error)
		return;
	if (index < common->pids_given || (common->pids.count == 1 && !starting->source->seeks) ||
		error->code == PROBE_ERROR_MEMORY)
		starting->error = probe_error_first(starting->error, error);
	else
		left_out_add(&starting->left, pid, error);
}

static struct probe_error *start_all(
	struct top_source *source, const struct common_options *common, struct top_model *model)
{
	struct starting starting = {.source = source, .model = model, .common = common};
	const struct probe_turn turn = {turn_pid, start_turn, end_turn, &starting};
	bool lacks;

	probe_take_turns(common->pids.count, &turn);
	left_out_report(&starting.left, common);
	lacks = !starting.error && !source->count && !source->seeks;
	if (lacks)
		starting.error = left_out_lacking(&starting.left, common);
	if (lacks && !starting.error)
		starting.error = probe_error_new(PROBE_ERROR_NOT_FOUND,
			"none of the %zu processes can be traced", common->pids.count);
	left_out_deinit(&starting.left, common);
	return starting.error;
}

static struct probe_error *create(const struct top_options *options, struct top_source **ret)
{
	struct top_source *source = calloc(1, sizeof(*source));
	struct probe_newcomers newcomers;
	struct probe_error *error;

	*ret = source;
	if (!source)
		return probe_error_no_memory();
	source->request = &options->request;
	source->filter = options->filter;
	source->follow = processes_follow(&options->common);
	source->matched = calloc(options->request.pattern_count + 1, sizeof(*source->matched));
	if (!source->matched)
		return probe_error_no_memory();
	error = source_set_keys(source, options);
	if (!error)
		error = probe_table_create(0, &source->times.gone);
	if (!error)
		error = probe_watch_create(source->follow, &source->watch);
	if (error || !processes_seek(&options->common))
		return error;
	source->seeks = &options->common;
	strcpy(source->title, "waiting for processes");
	processes_newcomers(source->seeks, &newcomers);
	return probe_watch_seek(source->watch, &newcomers);
}

struct probe_error *source_start(const struct top_options *options, struct probe_target *started,
	struct top_model *model, struct top_source **ret)
{
	struct probe_error *error = create(options, ret);

	if (error) {
		probe_target_close(started);
		return error;
	}
	(*ret)->started = started != NULL;
	error = started ? start_named(*ret, model, started)
			: start_all(*ret, &options->common, model);
	if (error)
		return error;
	(*ret)->started_ns = (*ret)->last_ns = clock_ns(CLOCK_MONOTONIC);
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

struct probe_error *source_serve(
	struct top_source *source, struct top_process *process, struct top_model *model)
{
	struct probe_error *error = probe_session_poll(process->counts, NULL, NULL, NULL);

	process->wanted = false;
	if (!error && process->times)
		error = probe_session_poll(process->times, NULL, NULL, NULL);
	return error ? error : take_probes(source, process, model);
}

/*
 * Reports that a process cannot be traced. This does not make top fail. If the process has ended
 * (`is_there` is false), reports nothing.
 */
static void note_untraced(struct top_source *source, bool is_there, struct probe_error *error)
{
	if (is_there)
		add_news(source, "%s%s", processes_untraced(error), error->message);
	probe_error_free(error);
}

/* Ends the watch, and reports the processes that have ended before we could trace them. */
void source_finish_watch(struct top_source *source)
{
	struct probe_error *error;

	while (source->watch && (error = probe_watch_finish(source->watch)))
		note_untraced(source, true, error);
}

/* Switches on the probes of the program that a process now executes. */
static bool follow_program(struct top_source *source, struct top_model *model,
	const struct probe_watch_event *event, size_t *sites_ret)
{
	size_t before = source->count;
	struct probe_error *error = start_process(source, model, event->target, true, sites_ret);
	/* False if there was not enough memory to add the process. */
	bool is_open = source->count > before;

	if (!error)
		return true;
	if (is_open)
		probe_watch_untraced(source->watch, event);
	note_untraced(source, !is_open || probe_target_alive(event->target), error);
	drop_failed(source, model, before);
	return false;
}

static void note_unseen(struct top_source *source, const struct probe_watch_event *event)
{
	add_news(source, "process %d %s; hits of its first %ju ms are not counted",
		(int)probe_target_pid(event->target),
		event->is_newcomer ? "came" : "has become another program",
		(uintmax_t)(event->unseen_ns / NSEC_PER_MSEC + 1));
}

/*
 * Follows a process that the watch has held. It was held so early that our sessions see nearly all
 * of its hits.
 */
static void follow_held(
	struct top_source *source, struct top_model *model, const struct probe_watch_event *event)
{
	struct probe_target *target = event->target;
	struct probe_error *error;
	size_t sites;

	if (!follow_program(source, model, event, &sites))
		return;
	if (sites && event->unseen_ns)
		note_unseen(source, event);
	if (!source->processes[source->count - 1].probes)
		probe_watch_pass_over(source->watch, target);
	error = probe_target_release(target);
	if (error)
		note_untraced(source, probe_target_alive(target), error);
}

static void follow_noticed(
	struct top_source *source, struct top_model *model, const struct probe_watch_event *event)
{
	size_t sites;

	if (follow_program(source, model, event, &sites) && sites)
		note_unseen(source, event);
}

static void follow_programs(struct top_source *source, struct top_model *model)
{
	struct probe_watch_event event;

	for (int i = 0; i < EVENTS_MAX; i++) {
		struct probe_error *error = probe_watch_next(source->watch, &event);

		if (!error && !event.target)
			return;
		if (error)
			note_untraced(
				source, !event.target || probe_target_alive(event.target), error);
		else if (source->seeks &&
			 !processes_mean(source->seeks, probe_target_pid(event.target))) {
			probe_watch_untraced(source->watch, &event);
			probe_target_close(event.target);
		} else if (event.held)
			follow_held(source, model, &event);
		else
			follow_noticed(source, model, &event);
	}
}

/*
 * Reports that a signal killed a process. Returns true if it was reported.
 *
 * Only named processes are reported. The end of the program that we started is not reported,
 * because our exit status shows it. The ends of followed processes are not reported, because they
 * concern only their parents. An exception is a lack of memory in a control group, which is always
 * reported.
 */
static bool note_fate(struct top_source *source, const struct top_process *process)
{
	struct probe_fate fate;

	probe_target_fate(process->target, process->pidfd, &fate);
	if (!fate.signal || (!process->named && !fate.out_of_memory))
		return false;
	add_news(source, "process %d was killed by SIG%s%s", (int)probe_target_pid(process->target),
		sigabbrev_np(fate.signal),
		fate.out_of_memory ? ": its control group ran out of memory" : "");
	source->incomplete |= process->named && fate.signal == SIGKILL;
	return true;
}

/*
 * Drops ended processes. Reports the ends of named processes only, because a build ends thousands
 * of others.
 */
static void drop_ended(struct top_source *source, struct top_model *model)
{
	size_t before = source->count, ended = 0;
	pid_t pid = 0;

	for (size_t i = source->count; i-- > 0;) {
		const struct top_process *process = &source->processes[i];

		if (!process->exited)
			continue;
		if (!process->replaced && !note_fate(source, process) && process->named) {
			pid = probe_target_pid(process->target);
			ended++;
		}
		source_drop(source, model, i);
	}
	if (source->count < before)
		make_title(source);
	if (ended == 1)
		add_news(source, "process %d has ended", (int)pid);
	else if (ended)
		add_news(source, "%zu processes have ended", ended);
}

struct probe_error *source_follow(struct top_source *source, struct top_model *model)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < source->count && !error; i++)
		if (source->processes[i].wanted)
			error = source_serve(source, &source->processes[i], model);
	if (error)
		return error;
	follow_programs(source, model);
	drop_ended(source, model);
	return NULL;
}

bool source_is_alive(const struct top_source *source)
{
	return source->count > 0 || source->seeks;
}

/* ---- Waiting ----------------------------------------------------------------------- */

void source_watch(struct top_source *source, struct loop *loop)
{
	/*
	 * No flag is needed, because the next call of source_follow() reads the watch's events in
	 * any case.
	 */
	loop_watch(loop, probe_watch_fd(source->watch), POLLIN, NULL);
	for (size_t i = 0; i < source->count; i++) {
		struct top_process *process = &source->processes[i];

		loop_watch_exit(loop, process->pidfd, process->target, &process->exited);
		loop_watch(loop, probe_session_fd(process->counts), POLLIN, &process->wanted);
		if (process->times)
			loop_watch(
				loop, probe_session_fd(process->times), POLLIN, &process->wanted);
	}
}
