/* SPDX-License-Identifier: MIT */
/*
 * The processes of `probectl top`, each with two sessions: one counts the hits of
 * all probes, the other gathers how long the pairs among them take. Both are
 * switched probe by probe. Nothing is recorded, so nothing has to be read in time.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/top/top.h"
#include "probe/table.h"
#include "probe/watch.h"

static const struct probe_session_options count_options = {.kind = PROBE_SESSION_COUNT};
static const struct probe_session_options time_options = {.kind = PROBE_SESSION_GATHER,
	.gather = {.pairing = PROBE_PAIRING_NAMES, .sum = true, .histogram = true}};

struct top_process {
	struct probe_target *target;
	struct probe_session *counts;
	struct probe_session *times; /* NULL: it has no pairs */
	bool ended;		     /* or is another program now */
};

struct top_source {
	struct top_process *processes;
	int *pidfds; /* of each process, or -1 */
	size_t count;
	struct probe_watch *watch;
	struct probe_table *last; /* the times up to the last look */
	uint64_t started_ns, last_ns;
	uint64_t stop_ns; /* the longest stop of the last change */
	char *title;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A change was made, or tried. */
static void note_change(struct top_source *source, struct probe_report *report)
{
	if (report->stop_ns > source->stop_ns)
		source->stop_ns = report->stop_ns;
	probe_report_deinit(report);
}

/* ---- Beginning --------------------------------------------------------------------- */

static struct probe_error *add_refusals(struct top_model *model, const struct probe_report *report)
{
	for (size_t i = 0; i < report->refusal_count; i++) {
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

/* Rows for all probes of a session. */
static struct probe_error *add_rows(struct top_model *model, const struct probe_session *session)
{
	const struct probe_session_probe *probes;
	size_t count;

	probes = probe_session_probes(session, &count);
	for (size_t i = 0; i < count; i++) {
		struct top_row *row = model_row(model, probes[i].provider, probes[i].name);

		if (row && !row->path)
			row->path = strdup(probes[i].path);
		if (!row || !row->path)
			return probe_error_no_memory();
		row->on = true;
	}
	return NULL;
}

static struct probe_error *start_counts(struct top_source *source, struct top_process *process,
	const struct probe_request *request, struct top_model *model)
{
	struct probe_report report = {0};
	struct probe_error *error = probe_session_start(
		process->target, request, &count_options, &report, &process->counts);

	if (!error)
		error = add_refusals(model, &report);
	if (!error)
		error = add_rows(model, process->counts);
	note_change(source, &report);
	return error;
}

/* What is refused is known already; and there may be no pairs. */
static struct probe_error *start_times(struct top_source *source, struct top_process *process,
	const struct probe_request *request, struct top_model *model)
{
	struct probe_report report = {0};
	struct probe_error *error = probe_session_start(
		process->target, request, &time_options, &report, &process->times);

	note_change(source, &report);
	if (error && error->code == PROBE_ERROR_NOT_FOUND && probe_target_alive(process->target)) {
		probe_error_free(error);
		return NULL;
	}
	model->has_times |= !error;
	return error;
}

static struct probe_error *start_process(struct top_source *source, pid_t pid,
	const struct probe_request *request, struct top_model *model)
{
	struct top_process *process = &source->processes[source->count];
	struct probe_error *error = probe_target_open(pid, NULL, &process->target);

	if (error)
		return error;
	/* Kernels before 5.3 have none: the end is then seen at the next look. */
	source->pidfds[source->count++] = pidfd_open(pid, 0);
	error = start_counts(source, process, request, model);
	if (!error)
		error = start_times(source, process, request, model);
	if (!error)
		error = probe_watch_add(source->watch, process->target);
	return error;
}

/* The last process could not be taken; the others can be. */
static struct probe_error *drop_process(struct top_source *source, size_t count)
{
	struct top_process *process = &source->processes[count];
	struct probe_error *error = NULL;

	if (source->count == count)
		return NULL;
	if (process->times)
		error = probe_session_stop(process->times);
	if (process->counts && !error)
		error = probe_session_stop(process->counts);
	probe_session_free(process->times);
	probe_session_free(process->counts);
	probe_target_close(process->target);
	if (source->pidfds[count] >= 0)
		close(source->pidfds[count]);
	*process = (struct top_process){0};
	source->count = count;
	return error;
}

/* Processes that were found by their name or parent may have ended since, or not be ours. */
static struct probe_error *start_all(struct top_source *source, const struct common_options *common,
	const struct probe_request *request, struct top_model *model)
{
	for (size_t i = 0; i < common->pids.count; i++) {
		pid_t pid = common->pids.items[i];
		size_t count = source->count;
		struct probe_error *dropped, *error = start_process(source, pid, request, model);

		if (!error)
			continue;
		if (common->pids.count > 1)
			error = probe_error_prefix(error, "process %d", (int)pid);
		if (i < common->pids_given || common->pids.count == 1 ||
			error->code == PROBE_ERROR_MEMORY)
			return error;
		if (error->code != PROBE_ERROR_NOT_FOUND)
			report_warning("%s", error->message);
		probe_error_free(error);
		dropped = drop_process(source, count);
		if (dropped)
			return dropped;
	}
	if (!source->count)
		return probe_error_new(PROBE_ERROR_NOT_FOUND,
			"none of the %zu processes has such a probe", common->pids.count);
	return NULL;
}

/* Names may hold anything; whoever prints the title takes care of that. */
static struct probe_error *make_title(struct top_source *source)
{
	char path[48], comm[32] = "process\n";
	int pid = (int)probe_target_pid(source->processes[0].target), length;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = fopen(path, "re");
	if (file) {
		if (!fgets(comm, sizeof(comm), file))
			strcpy(comm, "process\n");
		fclose(file);
	}
	comm[strcspn(comm, "\n")] = '\0';
	length = source->count == 1 ? asprintf(&source->title, "%s (%d)", comm, pid)
				    : asprintf(&source->title, "%s (%d) and %zu more", comm, pid,
					      source->count - 1);
	if (length >= 0)
		return NULL;
	source->title = NULL;
	return probe_error_no_memory();
}

struct probe_error *source_start(const struct common_options *common,
	const struct probe_request *request, struct top_model *model, struct top_source **ret)
{
	struct top_source *source = calloc(1, sizeof(*source));
	struct probe_error *error;

	if (!source)
		return probe_error_no_memory();
	*ret = source;
	source->processes = calloc(common->pids.count + 1, sizeof(*source->processes));
	source->pidfds = calloc(common->pids.count + 1, sizeof(*source->pidfds));
	source->last = probe_table_create(0);
	if (!source->processes || !source->pidfds || !source->last)
		return probe_error_no_memory();
	error = probe_watch_create(false, &source->watch);
	if (!error)
		error = start_all(source, common, request, model);
	if (!error)
		error = make_title(source);
	source->started_ns = source->last_ns = now_ns();
	return error;
}

/* ---- Reading ----------------------------------------------------------------------- */

static struct probe_error *read_counts(struct top_source *source, struct top_model *model)
{
	struct probe_table *table = probe_table_create(0);
	struct probe_error *error = table ? NULL : probe_error_no_memory();
	const struct probe_table_row *rows;
	size_t count = 0;

	for (size_t i = 0; i < source->count && !error; i++) {
		error = probe_session_poll(source->processes[i].counts, NULL, NULL, NULL);
		if (!error)
			error = probe_table_add(table, source->processes[i].counts, &count_options);
	}
	rows = error ? NULL : probe_table_rows(table, &count);
	for (size_t i = 0; i < count; i++) {
		struct top_row *row = model_find(model, rows[i].provider, rows[i].name);
		uint64_t total = rows[i].row.count;

		if (!row)
			continue;
		/* Counters stand where the target can write. */
		row->new_hits = total > row->total ? total - row->total : 0;
		row->total = total;
	}
	probe_table_free(table);
	return error;
}

static struct top_times times_of(const struct probe_table_row *row)
{
	double count = (double)row->row.count;

	return (struct top_times){.p50 = probe_row_percentile(&row->row, 50),
		.p99 = probe_row_percentile(&row->row, 99),
		.average = count > 0 ? row->row.sum / count : NAN};
}

/* The rows of the ends. */
static struct probe_error *take_times(
	struct top_model *model, const struct probe_table *table, bool is_recent)
{
	const struct probe_table_row *rows;
	size_t count;

	rows = probe_table_rows(table, &count);
	for (size_t i = 0; i < count; i++) {
		struct top_row *row = model_find(model, rows[i].provider, rows[i].name);

		if (!row || !rows[i].begin_name)
			continue;
		*(is_recent ? &row->recent : &row->all) = times_of(&rows[i]);
		row->in_flight = rows[i].row.in_flight;
		row->ends = true;
		if (!row->begin && asprintf(&row->begin, "%s:%s", rows[i].begin_provider,
					   rows[i].begin_name) < 0) {
			row->begin = NULL;
			return probe_error_no_memory();
		}
	}
	return NULL;
}

/* What was not measured: ends without a begin, begins that there was no room for. */
static void take_losses(const struct top_source *source, struct top_model *model)
{
	for (size_t i = 0; i < model->count; i++) {
		struct top_row *row = &model->rows[i];

		row->unmatched = row->lost = 0;
		row->recent = (struct top_times){NAN, NAN, NAN};
	}
	for (size_t i = 0; i < source->count; i++) {
		const struct probe_session_probe *probes = NULL;
		size_t count = 0;

		if (source->processes[i].times)
			probes = probe_session_probes(source->processes[i].times, &count);
		for (size_t k = 0; k < count; k++) {
			struct top_row *row = model_find(model, probes[k].provider, probes[k].name);

			if (!row)
				continue;
			row->unmatched += probes[k].unmatched;
			row->lost += probes[k].lost;
		}
	}
}

static struct probe_error *read_times(struct top_source *source, struct top_model *model)
{
	struct probe_table *table = probe_table_create(0), *since = NULL;
	struct probe_error *error = table ? NULL : probe_error_no_memory();

	for (size_t i = 0; i < source->count && !error; i++)
		if (source->processes[i].times)
			error = probe_table_add(table, source->processes[i].times, &time_options);
	if (!error)
		error = probe_table_since(table, source->last, &since);
	if (error) {
		probe_table_free(table);
		return error;
	}
	take_losses(source, model);
	error = take_times(model, table, false);
	if (!error)
		error = take_times(model, since, true);
	probe_table_free(since);
	probe_table_free(source->last);
	source->last = table;
	return error;
}

struct probe_error *source_read(struct top_source *source, struct top_model *model)
{
	struct probe_error *error = read_counts(source, model);
	uint64_t now = now_ns();

	model->interval_ns = now - source->last_ns;
	model->elapsed_ns = now - source->started_ns;
	source->last_ns = now;
	if (!error)
		error = read_times(source, model);
	return error;
}

/* ---- Switching --------------------------------------------------------------------- */

static struct probe_error *switch_session(
	struct probe_session *session, const struct top_model *model, struct probe_report *report)
{
	const struct probe_session_probe *probes;
	struct probe_error *error;
	size_t count;
	bool *on;

	probes = probe_session_probes(session, &count);
	on = calloc(count + 1, sizeof(*on));
	if (!on)
		return probe_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		const struct top_row *row = model_find(model, probes[i].provider, probes[i].name);

		on[i] = row && row->on;
	}
	error = probe_session_select(session, on, report);
	free(on);
	return error;
}

static struct probe_error *switch_process(
	struct top_source *source, struct top_process *process, struct top_model *model)
{
	struct probe_report report = {0}, of_times = {0};
	struct probe_error *error = switch_session(process->counts, model, &report);

	if (!error)
		error = add_refusals(model, &report);
	if (!error && process->times)
		error = switch_session(process->times, model, &of_times);
	note_change(source, &report);
	note_change(source, &of_times);
	/* It has ended in between: source_look_for_ends() will tell. */
	if (error && !probe_target_alive(process->target)) {
		probe_error_free(error);
		error = NULL;
	}
	return error;
}

/* Tells of each probe of each process whether it is on there. */
static void visit_rows(const struct top_source *source, struct top_model *model,
	void (*visit)(struct top_row *row, bool is_on))
{
	for (size_t i = 0; i < source->count; i++) {
		const struct probe_session *session = source->processes[i].counts;
		const struct probe_session_probe *probes;
		size_t count;

		probes = probe_session_probes(session, &count);
		for (size_t k = 0; k < count; k++) {
			struct top_row *row = model_find(model, probes[k].provider, probes[k].name);

			if (row)
				visit(row, probe_session_is_selected(session, k));
		}
	}
}

/* What is switched on anew is told anew what of it is refused. */
static void forget_refusals(struct top_row *row, bool is_on)
{
	if (!row->on || is_on)
		return;
	row->refused = 0;
	free(row->reason);
	row->reason = NULL;
}

static void add_state(struct top_row *row, bool is_on)
{
	row->on |= is_on;
}

struct probe_error *source_switch(struct top_source *source, struct top_model *model)
{
	struct probe_error *error = NULL;

	source->stop_ns = 0;
	visit_rows(source, model, forget_refusals);
	for (size_t i = 0; i < source->count && !error; i++)
		if (!source->processes[i].ended)
			error = switch_process(source, &source->processes[i], model);
	/* Rows say what is, not what was wished. */
	for (size_t i = 0; i < model->count; i++)
		model->rows[i].on = false;
	visit_rows(source, model, add_state);
	return error;
}

/* ---- The end ----------------------------------------------------------------------- */

const int *source_pidfds(const struct top_source *source, size_t *count_ret)
{
	*count_ret = source->count;
	return source->pidfds;
}

/* Nothing will come of it any more. */
static void end_process(struct top_source *source, size_t index)
{
	source->processes[index].ended = true;
	if (source->pidfds[index] >= 0)
		close(source->pidfds[index]);
	source->pidfds[index] = -1;
}

/* The process that has become another program; SIZE_MAX: none. */
static size_t find_replaced(struct top_source *source)
{
	struct probe_watch_event event = {0};
	size_t found = SIZE_MAX;
	pid_t pid;

	/* What cannot be looked at ends as others do. */
	probe_error_free(probe_watch_next(source->watch, &event));
	if (!event.target)
		return SIZE_MAX;
	pid = probe_target_pid(event.target);
	for (size_t i = 0; i < source->count; i++)
		if (probe_target_pid(source->processes[i].target) == pid)
			found = i;
	probe_target_close(event.target);
	return found;
}

char *source_look_for_ends(struct top_source *source)
{
	size_t replaced = find_replaced(source), ended = 0, which = 0;
	char *text = NULL;

	for (size_t i = 0; i < source->count; i++) {
		struct top_process *process = &source->processes[i];

		if (process->ended || (i != replaced && probe_target_alive(process->target)))
			continue;
		end_process(source, i);
		which = i;
		ended++;
	}
	if (!ended)
		return NULL;
	if ((ended > 1 ? asprintf(&text, "%zu processes have ended", ended)
		       : asprintf(&text, "process %d has %s",
				 (int)probe_target_pid(source->processes[which].target),
				 which == replaced ? "become another program" : "ended")) < 0)
		return NULL;
	return text;
}

bool source_is_alive(const struct top_source *source)
{
	for (size_t i = 0; i < source->count; i++)
		if (!source->processes[i].ended)
			return true;
	return false;
}

uint64_t source_stop_ns(const struct top_source *source)
{
	return source->stop_ns;
}

const char *source_title(const struct top_source *source)
{
	return source->title;
}

/* The first error is handed back; the others are reported at once. */
static void stop_session(
	const struct top_process *process, struct probe_session *session, struct probe_error **ret)
{
	struct probe_error *error = session ? probe_session_stop(session) : NULL;

	error = probe_error_prefix(error, "process %d keeps its probes, until `probectl repair`",
		(int)probe_target_pid(process->target));
	if (error && *ret)
		report_error(error);
	else if (error)
		*ret = error;
}

struct probe_error *source_stop(struct top_source *source)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < source->count; i++) {
		stop_session(&source->processes[i], source->processes[i].times, &error);
		stop_session(&source->processes[i], source->processes[i].counts, &error);
	}
	return error;
}

void source_free(struct top_source *source)
{
	if (!source)
		return;
	for (size_t i = 0; i < source->count; i++) {
		probe_session_free(source->processes[i].times);
		probe_session_free(source->processes[i].counts);
		probe_target_close(source->processes[i].target);
		if (source->pidfds[i] >= 0)
			close(source->pidfds[i]);
	}
	probe_watch_free(source->watch);
	probe_table_free(source->last);
	free(source->processes);
	free(source->pidfds);
	free(source->title);
	free(source);
}
