/* SPDX-License-Identifier: MIT */
/*
 * The processes of `probectl top`. Each process has two sessions: one counts the hits of all
 * probes, the other measures the durations of the pairs. A probe can be switched on and off in
 * each session. The sessions record no single hits, so nothing is lost if top reads the counts
 * late.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/processes.h"
#include "cli/timer.h"
#include "cli/top/source.h"
#include "libprobe/base/value.h"

/* ==== Durations of pairs ====================================================================== */

/* The durations of pairs in `probectl top`. */

/* ---- Reading ----------------------------------------------------------------------- */

/* Adds up the durations of all processes, running or ended. */
static struct probe_error *gather(const struct top_source *source, struct probe_table **ret)
{
	const struct top_times_kept *kept = &source->times;
	struct probe_error *error = probe_table_since(kept->gone, NULL, ret);

	for (size_t i = 0; i < source->count && !error; i++) {
		struct probe_session *session = source->processes[i].times;

		if (!session)
			continue;
		error = probe_table_add(*ret, session, &kept->options);
		if (error)
			probe_table_free(*ret);
	}
	return error;
}

static struct probe_error *read_kept(struct top_source *source)
{
	struct top_times_kept *kept = &source->times;
	struct probe_table *table, *since;
	struct probe_error *error;

	if (!kept->gone)
		return NULL;
	error = gather(source, &table);
	if (error)
		return error;
	error = probe_table_since(table, kept->last, &since);
	if (error) {
		probe_table_free(table);
		return error;
	}
	probe_table_free(kept->recent);
	kept->recent = since;
	probe_table_free(kept->last);
	kept->last = table;
	return NULL;
}

static struct top_times times_of(const struct probe_table_row *row)
{
	double count = (double)row->row.count;

	return (struct top_times){.p50 = probe_row_percentile(&row->row, 50),
		.p99 = probe_row_percentile(&row->row, 99),
		.average = count > 0 ? row->row.sum / count : NAN,
		.sum = count > 0 ? row->row.sum : NAN};
}

/* Copies durations from a table to the rows of the probes at the ends of the pairs. */
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

/* Reads all durations of pairs so far. Computes from them the durations of the last interval. */
static struct probe_error *source_read_times(struct top_source *source, struct top_model *model)
{
	struct probe_error *error = read_kept(source);

	if (error)
		return error;
	for (size_t i = 0; i < model->count; i++)
		model->rows[i].recent = (struct top_times){NAN, NAN, NAN, NAN};
	error = take_times(model, source->times.last, false);
	return error ? error : take_times(model, source->times.recent, true);
}

/* ---- Keeping durations ------------------------------------------------------------- */

/* Keeps the durations of a process that is about to be dropped, so that they stay in the sum. */
static struct probe_error *source_keep_times(
	struct top_source *source, const struct top_process *process)
{
	return process->times
		       ? probe_table_add(source->times.gone, process->times, &source->times.options)
		       : NULL;
}

static void source_free_times(struct top_times_kept *kept)
{
	probe_table_free(kept->gone);
	probe_table_free(kept->last);
	probe_table_free(kept->recent);
	kept->gone = kept->last = kept->recent = NULL;
}

/* ==== Hits by key ============================================================================= */

/*
 * The hits by key in `probectl top` (-k). The counting sessions gather one row for each value of
 * the keys. In addition, each probe still has a row of its own, which counts all its hits.
 */

static void set_keys(struct probe_gather *gather, const struct top_options *options)
{
	for (size_t i = 0; i < options->keys.count; i++)
		gather->keys[i] = options->keys.items[i];
	gather->key_count = options->keys.count;
	gather->keys_max = options->keys_max;
}

struct probe_error *source_set_keys(struct top_source *source, const struct top_options *options)
{
	static const struct probe_session_options timing = {.kind = PROBE_SESSION_GATHER,
		.gather = {.pairing = PROBE_PAIRING_NAMES, .sum = true, .histogram = true}};
	const struct string_list *keys = &options->keys;

	source->counting.kind = keys->count ? PROBE_SESSION_GATHER : PROBE_SESSION_COUNT;
	source->times.options = timing;
	set_keys(&source->counting.gather, options);
	return keys->count ? probe_table_create(keys->count, &source->gone_keys) : NULL;
}

/*
 * Adds a value in the format of `probectl trace`: if a number may be an address, it is
 * hexadecimal.
 */
static void add_value(struct buffer *out, const struct probe_value *value)
{
	if (value->kind == PROBE_VALUE_NULL) {
		buffer_string(out, "null");
		return;
	}
	if (value->kind == PROBE_VALUE_UNSIGNED && value->u > UINT32_MAX) {
		buffer_hex(out, value->u);
		return;
	}
	if (value_add_number(out, value))
		return;
	if (value->kind == PROBE_VALUE_STACK) {
		value_add_stack(out, value);
		return;
	}
	if (value->kind == PROBE_VALUE_OTHER) {
		buffer_bytes(out, value->bytes, value->length);
		return;
	}
	buffer_char(out, '"');
	buffer_c_escaped(out, value->bytes, value->length, '"');
	buffer_string(out, value->truncated ? "\"..." : "\"");
}

/* Writes the keys of a table's row, and a NUL, in the format of top_row.key. */
static void key_text(struct buffer *out, const struct probe_table_row *row, size_t key_count)
{
	for (size_t i = 0; i < key_count; i++) {
		buffer_string(out, i ? " " : "");
		add_value(out, &row->row.keys[i]);
	}
	buffer_char(out, '\0');
}

static struct probe_error *take_row(
	struct top_model *model, const struct probe_table_row *row, size_t key_count)
{
	struct buffer key = {0};
	struct top_row *found = NULL;

	key_text(&key, row, key_count);
	if (!key.no_memory)
		found = model_key_row(model, row->provider, row->name, key.data);
	buffer_deinit(&key);
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

	if (!source->gone_keys)
		return NULL;
	model->has_keys = true;
	error = probe_table_since(source->gone_keys, NULL, &table);
	if (error)
		return error;
	for (size_t i = 0; i < source->count && !error; i++)
		error = probe_table_add(table, source->processes[i].counts, &source->counting);
	rows = error ? NULL : probe_table_rows(table, &count);
	for (size_t i = 0; rows && i < count && !error; i++)
		if (rows[i].row.count)
			error = take_row(model, &rows[i], source->counting.gather.key_count);
	probe_table_free(table);
	return error;
}

/* Keeps the hits by key of a process that is about to be dropped, so that they stay in the sum. */
static struct probe_error *source_keep_keys(
	struct top_source *source, const struct top_process *process)
{
	return source->gone_keys && process->counts
		       ? probe_table_add(source->gone_keys, process->counts, &source->counting)
		       : NULL;
}

/* ==== Source ================================================================================== */

enum { PROCESS_SESSIONS = 2 };

void source_note_change(struct top_source *source, struct probe_report *report)
{
	if (report->stop_ns > source->stop_ns)
		source->stop_ns = report->stop_ns;
	probe_report_deinit(report);
}

struct probe_error *source_add_refusals(
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

/* ---- Reading ----------------------------------------------------------------------- */

/*
 * Adds the counts of a process to the rows. If `gone` is set, adds them to top_row.gone, the sum
 * over ended processes.
 */
static void add_figures(struct top_model *model, const struct top_process *process, bool gone)
{
	const struct probe_session_probe *probes;
	size_t count = 0;

	probes = process->counts ? probe_session_probes(process->counts, &count) : NULL;
	for (size_t i = 0; i < count; i++) {
		struct top_row *row = model_find(model, probes[i].provider, probes[i].name);

		if (!row)
			continue;
		/*
		 * If the table has no space for a hit's key, the hit counts as lost and is in no
		 * row with a key.
		 */
		*(gone ? &row->gone.total : &row->total) += probes[i].hits + probes[i].lost;
		*(gone ? &row->gone.unkeyed : &row->unkeyed) += probes[i].lost;
		probe_coverage_add(
			gone ? &row->gone.coverage : &row->coverage, &probes[i].coverage);
	}
	count = 0;
	probes = process->times ? probe_session_probes(process->times, &count) : NULL;
	for (size_t i = 0; i < count; i++) {
		struct top_row *row = model_find(model, probes[i].provider, probes[i].name);

		if (!row)
			continue;
		*(gone ? &row->gone.unmatched : &row->unmatched) += probes[i].unmatched;
		*(gone ? &row->gone.lost : &row->lost) += probes[i].lost;
	}
}

static struct probe_error *read_figures(struct top_source *source, struct top_model *model)
{
	struct probe_error *error;

	for (size_t i = 0; i < model->count; i++) {
		struct top_row *row = &model->rows[i];

		row->new_hits = row->total;
		row->total = row->gone.total;
		row->unmatched = row->gone.unmatched;
		row->lost = row->gone.lost;
		row->unkeyed = row->gone.unkeyed;
		row->coverage = row->gone.coverage;
	}
	/* Read the keys first, because this also refreshes the hit counts of the sessions. */
	error = source_read_keys(source, model);
	for (size_t i = 0; i < source->count; i++)
		add_figures(model, &source->processes[i], false);
	for (size_t i = 0; i < model->count; i++) {
		struct top_row *row = &model->rows[i];

		/* The target can write to its counters, so `total` may have decreased. */
		row->new_hits = row->total > row->new_hits ? row->total - row->new_hits : 0;
	}
	return error;
}

struct looking {
	struct top_source *source;
	pid_t pid;
};

static void take_news(const struct probe_site_news *news, void *data)
{
	const struct looking *looking = data;

	source_note_site(looking->source, looking->pid, news);
}

/*
 * Checks the sites of a process. One session is enough, because both sessions have the same sites,
 * except gates.
 */
static struct probe_error *look(struct top_source *source, const struct top_process *process)
{
	struct looking looking = {source, probe_target_pid(process->target)};

	return probe_session_look(process->counts, false, take_news, &looking);
}

struct probe_error *source_read(struct top_source *source, struct top_model *model)
{
	struct probe_error *error = NULL;
	uint64_t now;

	for (size_t i = 0; i < source->count && !error; i++)
		error = source_serve(source, &source->processes[i], model);
	for (size_t i = 0; i < source->count && !error; i++)
		error = look(source, &source->processes[i]);
	now = clock_ns(CLOCK_MONOTONIC);
	model->interval_ns = now - source->last_ns;
	model->elapsed_ns = now - source->started_ns;
	source->last_ns = now;
	if (error)
		return error;
	error = read_figures(source, model);
	return error ? error : source_read_times(source, model);
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

struct probe_error *source_switch_process(
	struct top_source *source, struct top_process *process, struct top_model *model)
{
	struct probe_report report = {0}, of_times = {0};
	struct probe_error *error = switch_session(process->counts, model, &report);

	if (!error)
		error = source_add_refusals(model, &report, 0);
	if (!error && process->times)
		error = switch_session(process->times, model, &of_times);
	source_note_change(source, &report);
	source_note_change(source, &of_times);
	/* Ignore the error if the process has ended; source_follow() reports this. */
	if (error && !probe_target_alive(process->target)) {
		probe_error_free(error);
		error = NULL;
	}
	return error;
}

/*
 * Calls visit() for each probe of each process. `row` is the row of the probe, and `is_on` tells
 * whether the probe is on in the process.
 */
static void visit_rows(const struct top_source *source, struct top_model *model,
	void (*visit)(struct top_row *row, bool is_on))
{
	for (size_t i = 0; i < source->count; i++) {
		const struct probe_session *session = source->processes[i].counts;
		const struct probe_session_probe *probes;
		size_t count;

		if (source->processes[i].replaced)
			continue;
		probes = probe_session_probes(session, &count);
		for (size_t k = 0; k < count; k++) {
			struct top_row *row = model_find(model, probes[k].provider, probes[k].name);

			if (row)
				visit(row, probe_session_is_selected(session, k));
		}
	}
}

/*
 * If a probe is about to be switched on, clears its refused sites. Switching it on reports them
 * again.
 */
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

struct probe_error *source_switch(struct top_source *source, struct top_model *model)
{
	struct probe_error *error = NULL;

	source->stop_ns = 0;
	visit_rows(source, model, forget_refusals);
	for (size_t i = 0; i < source->count && !error; i++)
		if (!source->processes[i].replaced)
			error = source_switch_process(source, &source->processes[i], model);
	/*
	 * Rows now show the actual state, which may differ from the requested one. The rows of
	 * ended processes keep their last state.
	 */
	visit_rows(source, model, forget_state);
	visit_rows(source, model, add_state);
	return error;
}

/* ---- The end ----------------------------------------------------------------------- */

uint64_t source_stop_ns(const struct top_source *source)
{
	return source->stop_ns;
}

const char *source_title(const struct top_source *source)
{
	return source->title;
}

static struct probe_error *not_stopped(const struct top_process *process, struct probe_error *error)
{
	return probe_error_prefix(error, "process %d keeps its probes until `probectl repair`",
		(int)probe_target_pid(process->target));
}

/* Stops one of the two sessions of a process. `session` may be NULL. */
static struct probe_error *source_stop_session(
	const struct top_process *process, struct probe_session *session)
{
	return not_stopped(process, session ? probe_session_stop(session) : NULL);
}

/* Stores the first error in *ret. Reports later errors at once. */
static void keep_first(struct probe_error *error, struct probe_error **ret)
{
	if (error && *ret)
		report_error(error);
	else if (error)
		*ret = error;
}

/*
 * Stops the sessions of `count` processes in parallel. Each of the arrays `sessions` and `errors`
 * must have space for one element per session.
 */
static void stop_all(const struct top_process *processes, size_t count,
	struct probe_session **sessions, struct probe_error **errors, struct probe_error **ret)
{
	size_t session_count = 0, done = 0;

	for (size_t i = 0; i < count; i++) {
		struct probe_session *its[] = {processes[i].times, processes[i].counts};

		for (size_t k = 0; k < PROCESS_SESSIONS; k++)
			if (its[k])
				sessions[session_count++] = its[k];
	}
	probe_sessions_stop(sessions, session_count, errors);
	for (size_t i = 0; i < count; i++) {
		const struct top_process *p = &processes[i];
		size_t its_count = (p->times != NULL) + (p->counts != NULL);

		for (size_t k = 0; k < its_count; k++)
			keep_first(not_stopped(p, errors[done++]), ret);
	}
}

struct probe_error *source_stop(struct top_source *source)
{
	size_t most = PROCESS_SESSIONS * source->count + 1;
	struct probe_session *its[PROCESS_SESSIONS], **sessions = calloc(most, sizeof(*sessions));
	struct probe_error *its_errors[PROCESS_SESSIONS], **errors = calloc(most, sizeof(*errors));
	struct probe_error *error = NULL;

	/* Release the held processes first, so that they need not wait until the sessions stop. */
	source_finish_watch(source);
	for (size_t i = 0; i < source->count; i++)
		processes_tell_frozen(source->processes[i].target);
	if (sessions && errors)
		stop_all(source->processes, source->count, sessions, errors, &error);
	/* On lack of memory, stop one process after the other. */
	for (size_t i = 0; i < source->count && !(sessions && errors); i++)
		stop_all(&source->processes[i], 1, its, its_errors, &error);
	free(sessions);
	free(errors);
	return error;
}

static void free_process(struct top_process *process)
{
	probe_session_free(process->times);
	probe_session_free(process->counts);
	probe_target_close(process->target);
	if (process->pidfd >= 0)
		close(process->pidfd);
}

void source_drop(struct top_source *source, struct top_model *model, size_t index)
{
	struct top_process *process = &source->processes[index];

	source_note_failure(source, source_stop_session(process, process->times));
	source_note_failure(source, source_stop_session(process, process->counts));
	source_note_notes(source, process);
	source_note_failure(source, source_keep_times(source, process));
	source_note_failure(source, source_keep_keys(source, process));
	add_figures(model, process, true);
	free_process(process);
	memmove(process, process + 1, (--source->count - index) * sizeof(*process));
}

void source_free(struct top_source *source)
{
	if (!source)
		return;
	for (size_t i = 0; i < source->count; i++)
		free_process(&source->processes[i]);
	probe_watch_free(source->watch);
	probe_table_free(source->gone_keys);
	source_free_times(&source->times);
	free(source->processes);
	free(source->matched);
	free(source->news);
	free(source);
}
