/* SPDX-License-Identifier: MIT */
/*
 * The processes that `probectl top` shows, named or started by top. As in `probectl trace`, it also
 * follows the libraries that they open and the programs that they and their children execute.
 *
 * Each process has two sessions: one counts the hits of all probes, the other measures the
 * durations of pairs. They record no single hits, so that nothing is lost if top reads them late.
 */
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/request.h"
#include "cli/top/top.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/event.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/base/value.h"

/* ---- News -------------------------------------------------------------------------- */

/* Adds a message to those that the main loop has not fetched yet. Drops it on lack of memory. */
static void __attribute__((format(printf, 2, 3)))
add_news(struct top_source *source, const char *format, ...)
{
	va_list ap;
	char *text;
	int length;

	va_start(ap, format);
	length = vasprintf(&text, format, ap);
	va_end(ap);
	if (length < 0)
		return;
	buffer_string(&source->news, source->news.length ? "; " : "");
	buffer_string(&source->news, text);
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

/* Reads the name of a process. Returns false if the process has ended. */
static bool read_comm(pid_t pid, char comm[32])
{
	if (!file_read(procfs_path("/proc/%d/comm", (int)pid).text, comm, 32))
		return false;
	comm[strcspn(comm, "\n")] = '\0';
	return true;
}

/* Returns true if the session belongs to the program that a process runs now. */
static bool is_current(const struct probe_traced *traced)
{
	return traced->is_on && !traced->is_replaced;
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
	size_t count, running = 0;
	struct probe_traced *const *all = probe_trace_sessions(source->set, &count);
	const struct probe_traced *first = NULL;
	const size_t room = sizeof(source->title);
	char comm[32];
	int pid;

	for (size_t i = count; i-- > 0;) {
		/* The counting session of a running program. */
		if (all[i]->tracer != TOP_COUNTS || !is_current(all[i]))
			continue;
		running++;
		first = all[i];
	}
	/* Processes that come and go: a program's name without a process id. */
	if (source->seeks && source->came)
		snprintf(source->title, room, "%s%s: %zu process%s, %zu now",
			source->program[0] ? source->program : "programs",
			source->programs_differ ? " and others" : "", source->came,
			source->came == 1 ? "" : "es", running);
	/* If no process is left, keep the title, which names the last process. */
	if (source->seeks || !first)
		return;
	pid = (int)probe_target_pid(first->target);
	if (!read_comm(pid, comm))
		strcpy(comm, "process");
	if (running > 1)
		snprintf(source->title, room, "%s (%d) and %zu more", comm, pid, running - 1);
	else
		snprintf(source->title, room, "%s (%d)", comm, pid);
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

/* Notes how long a change has stopped a process. */
static void note_change(struct top_source *source, const struct probe_report *report)
{
	if (report->stop_ns > source->stop_ns)
		source->stop_ns = report->stop_ns;
}

/* Adds refused sites of a report to their probes' rows, from refusal number `first` on. */
static struct probe_error *add_refusals(
	struct top_model *model, const struct probe_report *report, size_t first)
{
	for (size_t i = first; i < report->refusal_count; i++) {
		const struct probe_refusal *refusal = &report->refusals[i];
		struct top_row *row = model_row(model, refusal->provider, refusal->name);

		if (row && !row->reason)
			row->reason = strdup(refusal->reason);
		if (!row || !row->reason)
			return probe_error_no_memory();
		row->refused++;
	}
	return NULL;
}

/* Switches the probes of a session on and off as the rows say. */
static struct probe_error *switch_session(
	struct top_source *source, const struct probe_traced *traced)
{
	AUTO(probe_report_deinit) struct probe_report report = {0};
	struct probe_error *error;
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(traced->session, &count);
	AUTO_FREE bool *on = calloc(count + 1, sizeof(*on));

	if (!on)
		return probe_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		const struct top_row *row =
			model_find(source->model, probes[i].provider, probes[i].name);

		on[i] = row && row->on;
	}
	error = probe_session_select(traced->session, on, &report);
	if (!error && traced->tracer == TOP_COUNTS)
		error = add_refusals(source->model, &report, 0);
	note_change(source, &report);
	/* Ignore the error if the process has ended; source_follow() reports this. */
	if (error && !probe_target_alive(traced->target)) {
		probe_error_free(error);
		error = NULL;
	}
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
		note_failure(source, switch_session(source, traced));
}

/* ---- Starting ---------------------------------------------------------------------- */

/*
 * Starts a session. The one that measures pairs is started after the one that counts, and not at
 * all if the process has no pairs, or has ended: its counts can still be shown.
 */
static struct probe_error *start_session(struct probe_traced *traced,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_report *report, void *data)
{
	struct top_source *source = data;
	const struct probe_traced *counts = session_of(source, traced->target, TOP_COUNTS);
	struct probe_error *error;

	if (source->error)
		return NULL;
	if (traced->tracer == TOP_TIMES && !counts->is_on)
		return counts->data ? NULL
				    : probe_error_new(PROBE_ERROR_BUSY,
					      "the probes of process %d are not counted yet",
					      (int)probe_target_pid(traced->target));
	error = probe_session_start(traced->target, request, options, report, &traced->session);
	if (!error || traced->tracer != TOP_TIMES ||
		(error->code != PROBE_ERROR_NOT_FOUND && probe_target_alive(traced->target)))
		return error;
	/* An ended process may have had pairs, so show their columns. */
	source->model->has_times |= !probe_target_alive(traced->target);
	probe_error_free(error);
	return NULL;
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

	note_change(source, news->report);
	/* The number of notes that were reported. start_session() waits until there is one. */
	if (counts)
		traced->data = calloc(1, sizeof(size_t));
	if (counts && !traced->data)
		keep_error(source, probe_error_no_memory());
	if (news->error && !counts && !session_of(source, traced->target, TOP_COUNTS)->is_on)
		probe_error_free(news->error);
	else if (news->error)
		leave_out(source, probe_target_pid(traced->target), traced->named, news->error);
	if (!traced->is_on)
		return;
	if (counts)
		keep_error(source, add_refusals(source->model, news->report, 0));
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

	error = probe_error_first(error, take_error(source));
	left_out_report(&source->left, source->common);
	probe_trace_sessions(source->set, &count);
	return error || count || source->seeks ? error
					       : left_out_error(&source->left, source->common);
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
	const struct probe_session_options both = {.filter = options->filter,
		.catalogue = options->request.catalogue,
		.follow_libraries = processes_follow(common),
		.follow_children = processes_follow(common)};
	struct probe_gather *gather;

	*ret = source;
	if (!source)
		return probe_error_no_memory();
	source->request = &options->request;
	source->common = common;
	source->matched = calloc(options->request.pattern_count + 1, sizeof(*source->matched));
	if (!source->matched)
		return probe_error_no_memory();
	for (size_t i = 0; i < TOP_TRACERS; i++)
		source->tracers[i] =
			(struct probe_trace_tracer){.request = &options->request, .options = both};
	gather = &source->tracers[TOP_COUNTS].options.gather;
	source->tracers[TOP_COUNTS].options.kind =
		options->keys.count ? PROBE_SESSION_GATHER : PROBE_SESSION_COUNT;
	for (size_t i = 0; i < options->keys.count; i++)
		gather->keys[i] = options->keys.items[i];
	gather->key_count = options->keys.count;
	gather->keys_max = options->keys_max;
	source->tracers[TOP_TIMES].options.kind = PROBE_SESSION_GATHER;
	source->tracers[TOP_TIMES].options.gather = (struct probe_gather){
		.pairing = PROBE_PAIRING_NAMES, .sum = true, .histogram = true};
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
	error = error ?: start_all(source);
	left_out_deinit(&source->left, &options->common);
	if (error)
		return error;
	source->started_ns = source->last_ns = clock_monotonic_ns();
	return started ? probe_target_release(started) : NULL;
}

const char *source_unmatched(const struct top_source *source)
{
	for (size_t i = 0; i < source->request->pattern_count; i++)
		if (!source->matched[i])
			return probe_pattern_text(source->request->patterns[i]);
	return NULL;
}

/* ---- Following --------------------------------------------------------------------- */

/*
 * Reports the end of a process. The end of the program that we started is not reported, because our
 * exit status shows it. The ends of followed processes are not reported, because they concern only
 * their parents. An exception is a lack of memory in a control group, which is always reported.
 */
static void take_end(struct top_source *source, const struct probe_traced *traced)
{
	pid_t pid = probe_target_pid(traced->target);
	struct probe_fate fate;
	bool named = false; /* on the command line, whichever program it runs now */
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(source->set, &count);

	for (size_t i = 0; i < count && !source->started; i++)
		named |= !all[i]->later && probe_target_pid(all[i]->target) == pid;

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

static void take_news(const struct probe_trace_news *news, void *data)
{
	struct probe_traced *traced = news->traced;
	struct top_source *source = data;
	size_t *notes;

	switch (news->event) {
	case PROBE_TRACE_STARTED:
		take_start(source, news);
		break;
	case PROBE_TRACE_CAME:
		if (news->sites && (news->watched->unseen_ns || !news->watched->held))
			add_news(source, "process %d %s; hits of its first %ju ms are not counted",
				(int)probe_target_pid(news->watched->target),
				news->watched->is_newcomer ? "came" : "has become another program",
				(uintmax_t)(news->watched->unseen_ns / NSEC_PER_MSEC + 1));
		break;
	case PROBE_TRACE_UNTRACED:
		add_news(source, "%s%s", processes_untraced(news->error), news->error->message);
		probe_error_free(news->error);
		break;
	case PROBE_TRACE_GREW:
		if (traced->tracer == TOP_COUNTS)
			keep_error(source,
				add_refusals(source->model, news->report, news->told.refusals));
		/* The two sessions of a process mostly have the same notes. */
		notes = session_of(source, traced->target, TOP_COUNTS)->data;
		for (; notes && *notes < news->report->note_count; ++*notes)
			add_news(source, "%s", news->report->notes[*notes]);
		keep_error(source, take_probes(source, traced, news->told.probes));
		switch_if_off(source, traced);
		break;
	case PROBE_TRACE_SITE:
		/* Both sessions have the same sites, except gates. */
		if (traced->tracer == TOP_COUNTS)
			note_site(source, probe_target_pid(traced->target), news->site);
		break;
	case PROBE_TRACE_FAILED:
		/* Only a session that cannot be read ends top before its end. */
		if (source->stopping || (traced && traced->is_broken))
			keep_error(source, news->error);
		else
			note_failure(source, news->error);
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

/* ==== Durations of pairs ====================================================================== */

/* Copies durations from a table to the rows of the probes at the ends of the pairs. */
static struct probe_error *take_times(
	struct top_model *model, const struct probe_table *table, bool is_recent)
{
	size_t count;
	const struct probe_table_row *rows = probe_table_rows(table, &count);
	struct buffer begin = {0};

	for (size_t i = 0; i < count; i++) {
		struct top_row *row = model_find(model, rows[i].provider, rows[i].name);
		double sum;

		if (!row || !rows[i].begin_name)
			continue;
		sum = rows[i].row.count ? rows[i].row.sum : NAN;
		*(is_recent ? &row->recent : &row->all) =
			(struct top_times){.p50 = probe_row_percentile(&rows[i].row, 50),
				.p99 = probe_row_percentile(&rows[i].row, 99),
				.average = sum / (double)rows[i].row.count,
				.sum = sum};
		row->in_flight = rows[i].row.in_flight;
		row->ends = true;
		if (row->begin)
			continue;
		event_put_probe(&begin, rows[i].begin_provider, rows[i].begin_name);
		row->begin = buffer_take(&begin, NULL);
		if (!row->begin)
			return probe_error_no_memory();
	}
	return NULL;
}

/* Reads all durations of pairs so far. Computes from them the durations of the last interval. */
static struct probe_error *source_read_times(struct top_source *source, struct top_model *model)
{
	struct probe_table *table, *since;
	struct probe_error *error = probe_trace_table(source->set, TOP_TIMES, &table);

	if (error)
		return error;
	error = probe_table_since(table, source->times, &since);
	if (error) {
		probe_table_free(table);
		return error;
	}
	probe_table_free(source->recent_times);
	source->recent_times = since;
	probe_table_free(source->times);
	source->times = table;
	for (size_t i = 0; i < model->count; i++)
		model->rows[i].recent = (struct top_times){NAN, NAN, NAN, NAN};
	return take_times(model, source->times, false)
		       ?: take_times(model, source->recent_times, true);
}

/* ==== Hits by key ============================================================================= */

/*
 * The hits by key in `probectl top` (-k). The counting sessions gather a row for each value of the
 * keys, in addition to each probe's own row, which counts all its hits.
 */

static struct probe_error *take_row(
	struct top_model *model, const struct probe_table_row *row, size_t key_count)
{
	AUTO(buffer_deinit) struct buffer key = {0};
	struct top_row *found = NULL;

	for (size_t i = 0; i < key_count; i++) {
		buffer_string(&key, i ? " " : "");
		value_add_text(&key, &row->row.keys[i]);
	}
	buffer_char(&key, '\0');
	if (!key.no_memory)
		found = model_key_row(model, row->provider, row->name, key.data);
	if (!found)
		return probe_error_no_memory();
	found->total += row->row.count;
	return NULL;
}

/* Sets the totals of the rows with keys. Adds missing rows. */
static struct probe_error *source_read_keys(struct top_source *source, struct top_model *model)
{
	const struct probe_table_row *rows;
	struct probe_error *error;
	struct probe_table *table;
	size_t count;

	if (!source->tracers[TOP_COUNTS].options.gather.key_count)
		return NULL;
	model->has_keys = true;
	error = probe_trace_table(source->set, TOP_COUNTS, &table);
	if (error)
		return error;
	rows = probe_table_rows(table, &count);
	for (size_t i = 0; i < count && !error; i++)
		if (rows[i].row.count)
			error = take_row(model, &rows[i],
				source->tracers[TOP_COUNTS].options.gather.key_count);
	probe_table_free(table);
	return error;
}

/* ==== Reading and switching =================================================================== */

/* Adds the counts of a probe to its row. */
static void add_figures(struct top_row *row, const struct probe_trace_probe *its)
{
	const struct probe_session_probe *probe = its->probe;

	if (its->tracer == TOP_TIMES) {
		row->unmatched += probe->unmatched;
		row->lost += probe->lost;
		return;
	}
	/*
	 * If the table has no space for a hit's key, the hit counts as lost and is in no row with a
	 * key.
	 */
	row->total += probe->hits + probe->lost;
	row->unkeyed += probe->lost;
	probe_coverage_add(&row->coverage, &probe->coverage);
}

static struct probe_error *read_figures(struct top_source *source, struct top_model *model)
{
	AUTO_FREE struct probe_trace_probe *all = NULL;
	struct probe_error *error;
	size_t count;

	for (size_t i = 0; i < model->count; i++) {
		struct top_row *row = &model->rows[i];

		row->new_hits = row->total;
		row->total = row->unmatched = row->lost = row->unkeyed = 0;
		row->coverage = (struct probe_coverage){0};
	}
	/* Read the keys first, because this also refreshes the hit counts of the sessions. */
	error = source_read_keys(source, model);
	all = probe_trace_probes(source->set, &count);
	for (size_t i = 0; i < count; i++) {
		struct top_row *row = model_find(model, all[i].probe->provider, all[i].probe->name);

		if (row)
			add_figures(row, &all[i]);
	}
	for (size_t i = 0; i < model->count; i++) {
		struct top_row *row = &model->rows[i];

		/* The target can write to its counters, so `total` may have decreased. */
		row->new_hits = row->total > row->new_hits ? row->total - row->new_hits : 0;
	}
	return error;
}

struct probe_error *source_read(struct top_source *source)
{
	struct top_model *model = source->model;
	struct probe_error *error;
	uint64_t now;

	probe_trace_refresh(source->set);
	probe_trace_look(source->set, false);
	error = take_error(source);
	now = clock_monotonic_ns();
	model->interval_ns = now - source->last_ns;
	model->elapsed_ns = now - source->started_ns;
	source->last_ns = now;
	if (error)
		return error;
	return read_figures(source, model) ?: source_read_times(source, model);
}

/* ---- Switching --------------------------------------------------------------------- */

/* Calls visit() for each probe of each process, with its row and whether it is on there. */
static void visit_rows(const struct top_source *source, struct top_model *model,
	void (*visit)(struct top_row *row, bool is_on))
{
	size_t count;
	AUTO_FREE struct probe_trace_probe *all = probe_trace_probes(source->set, &count);

	for (size_t i = 0, k = 0; i < count; i++) {
		const struct probe_traced *traced = all[i].traced;
		struct top_row *row;

		/* `k` is the index of the probe in its session. */
		k = i && all[i - 1].traced == traced ? k + 1 : 0;
		if (!traced || traced->tracer != TOP_COUNTS || !is_current(traced))
			continue;
		row = model_find(model, all[i].probe->provider, all[i].probe->name);
		if (row)
			visit(row, probe_session_is_selected(traced->session, k));
	}
}

/* Clears the refused sites of a probe that is about to be switched on and report them again. */
static void forget_refusals(struct top_row *row, bool is_on)
{
	if (!row->on || is_on)
		return;
	row->refused = 0;
	free(row->reason);
	row->reason = NULL;
	row->refusal_told = false;
}

static void forget_state(struct top_row *row, bool is_on)
{
	(void)is_on;
	row->on = false;
}

static void add_state(struct top_row *row, bool is_on)
{
	row->on |= is_on;
}

struct probe_error *source_switch(struct top_source *source)
{
	struct top_model *model = source->model;
	struct probe_error *error = NULL;
	size_t count;
	struct probe_traced *const *all = probe_trace_sessions(source->set, &count);

	source->stop_ns = 0;
	visit_rows(source, model, forget_refusals);
	for (size_t i = 0; i < count && !error; i++)
		if (is_current(all[i]))
			error = switch_session(source, all[i]);
	/* Rows show the actual state now; those of ended processes, their last one. */
	visit_rows(source, model, forget_state);
	visit_rows(source, model, add_state);
	return error;
}

/* ---- The end ----------------------------------------------------------------------- */

void source_free(struct top_source *source)
{
	if (!source)
		return;
	probe_trace_free(source->set);
	probe_table_free(source->times);
	probe_table_free(source->recent_times);
	free(source->matched);
	buffer_deinit(&source->news);
	free(source);
}
