/* SPDX-License-Identifier: MIT */
/*
 * probectl read: prints the data of the sessions that `enable -t` left in processes. Only --reset
 * changes the sessions: it restarts them.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/trace/tracer_option.h"
#include "cli/kept.h"
#include "cli/print/print.h"
#include "cli/processes.h"
#include "libprobe/base/cleanup.h"
#include "probe/ctf.h"
#include "probe/remains.h"
#include "probe/sink.h"

/* The destination and the limits of the output of flight recorders. Initialise with {0}. */
struct flight_output {
	struct probe_sink *sink;
	const char *directory; /* directory of a recording to write instead of text, or NULL */
	/* Write only hits that are at most this much older than the last hit. 0 means all hits. */
	uint64_t last_ns;
	/* The recording; it is created when the first session is written. */
	struct probe_ctf *record;
	/* Returns the name of a hit's thread, or NULL. */
	const char *(*comm)(void *data, const struct probe_hit *hit);
	void *comm_data;
};

struct read_options {
	struct common_options common;
	struct string_list wanted; /* sessions named with -t */
	const char *from;	   /* file to read instead of processes, or NULL */
	bool reset, json, all;
	uint64_t top;
	struct flight_output flight; /* options for flight recorders */
};

/* The state of reading a process. */
struct reader {
	const struct read_options *options;
	struct probe_target *target;
	struct probe_sink *sink;
	struct flight_output flight;
	size_t sessions; /* number of sessions that were read so far, in all processes */
	bool incomplete; /* another program has changed a site */
};

/* ---- Output ------------------------------------------------------------------------- */

static struct probe_error *print_rows(const struct reader *reader,
	const struct trace_tracer *tracer, struct probe_session *session,
	const struct kept_options *kept, const char *title)
{
	struct probe_table *table = NULL;
	struct probe_error *error = probe_table_create(tracer->options.gather.key_count, &table);
	struct probe_view view;

	if (!error && tracer->options.kind == PROBE_SESSION_COUNT)
		error = probe_session_poll(session, NULL, NULL, NULL);
	error = error ?: probe_table_add(table, session, &tracer->options);
	if (!error) {
		probe_tracer_view(tracer->spec, &tracer->options, &view);
		view.title = title;
		if (kept->key_names.count)
			view.key_names = (const char *const *)kept->key_names.items;
		view.top = reader->options->top;
		view.all = reader->options->all;
		view.time_ns = clock_now_ns();
		view.elapsed_ns = view.time_ns - kept->since_ns;
		probe_table_sort(table, view.order);
		probe_sink_table(reader->sink, table, &view);
	}
	probe_table_free(table);
	return error;
}

/* ---- Flight recorders --------------------------------------------------------------- */

struct span {
	uint64_t oldest_ns, newest_ns;
};

static bool widen(const struct probe_hit *hit, void *data)
{
	struct span *span = data;

	if (hit->time_ns < span->oldest_ns)
		span->oldest_ns = hit->time_ns;
	if (hit->time_ns > span->newest_ns)
		span->newest_ns = hit->time_ns;
	return true;
}

struct writing {
	struct flight_output *output;
	const struct probe_session *session;
	const struct probe_session_probe *probes;
	size_t probe_count;
	uint64_t from_ns;
	struct probe_error *error;
};

static bool write_hit(const struct probe_hit *hit, void *data)
{
	struct writing *w = data;
	const char *comm;

	if (hit->probe >= w->probe_count || hit->time_ns < w->from_ns)
		return true;
	comm = w->output->comm(w->output->comm_data, hit);
	if (w->output->record)
		w->error = probe_ctf_hit(w->output->record, w->session, hit, comm);
	else
		probe_sink_hit(w->output->sink, hit, &w->probes[hit->probe], comm);
	return !w->error;
}

/*
 * Writes the hits of several flight recorders. last_ns is measured back from the last of all hits.
 * Errors: as probe_session_snapshot() and probe_ctf_create().
 */
static struct probe_error *flight_write(
	struct flight_output *output, struct probe_session *const *sessions, size_t count)
{
	struct writing writing = {.output = output};
	struct span span = {.oldest_ns = UINT64_MAX};
	struct probe_error *error = NULL;
	bool asks = output->last_ns || output->directory;

	for (size_t i = 0; i < count && asks && !error; i++)
		error = probe_session_snapshot(sessions[i], widen, &span);
	if (output->last_ns && span.newest_ns > output->last_ns)
		writing.from_ns = span.newest_ns - output->last_ns;
	if (!error && output->directory && !output->record)
		error = probe_ctf_create(output->directory,
			&(struct probe_ctf_options){.oldest_ns = span.oldest_ns}, &output->record);
	for (size_t i = 0; i < count && !error; i++) {
		writing.session = sessions[i];
		writing.probes = probe_session_probes(sessions[i], &writing.probe_count);
		error = probe_session_snapshot(sessions[i], write_hit, &writing);
		error = probe_error_first(error, writing.error);
		writing.error = NULL;
	}
	return error;
}

/* Completes the recording. Call it before the sessions are freed, also after an error. */
static struct probe_error *flight_end(struct flight_output *output)
{
	struct probe_error *error = output->record ? probe_ctf_flush(output->record) : NULL;

	probe_ctf_free(output->record);
	output->record = NULL;
	return error;
}

/* ---- Sessions ----------------------------------------------------------------------- */

struct look {
	struct reader *reader;
	pid_t pid;
};

static void take_news(const struct probe_site_news *news, void *data)
{
	const struct look *look = data;

	print_site_news(news, look->pid);
	probe_sink_site(look->reader->sink, look->pid, news);
	look->reader->incomplete = true;
}

static struct probe_error *read_tracer(struct reader *reader, const struct probe_kept *session,
	struct kept_options *kept, const struct trace_tracer *tracer)
{
	pid_t pid = probe_target_pid(reader->target);
	AUTO_FREE char *words = kept_title(session->text);
	AUTO_FREE char *title = NULL;
	struct look look = {reader, pid};
	struct probe_session *opened = NULL;
	struct probe_error *error;

	/* "process PID, session ID: sum,arg0 -k tid PROBE" */
	if (!words ||
		asprintf(&title, "process %d, session %u: %s", (int)pid, session->id, words) < 0) {
		title = NULL;
		return probe_error_no_memory();
	}
	error = probe_session_open(
		reader->target, session->id, &kept->request.request, &tracer->options, &opened);
	error = error ?: probe_session_look(opened, true, take_news, &look);
	if (!error)
		error = tracer->output == PROBE_TRACER_FLIGHT
				? flight_write(&reader->flight, &opened, 1)
				: print_rows(reader, tracer, opened, kept, title);
	if (!error && reader->flight.record)
		error = probe_catalogue_save(
			kept->common.patterns.catalogue, reader->flight.directory);
	/* Complete the recording first, because it refers to the session. */
	error = probe_error_first(error, flight_end(&reader->flight));
	probe_session_free(opened);
	if (error || !reader->options->reset)
		return error;
	/* End the session and start it again. Hits between the two are not counted. */
	error = probe_target_end(reader->target, session->id);
	return error ?: kept_start(reader->target, kept, tracer, &(struct probe_report){0});
}

/* Returns true if the user asked for this session, by its number or by its tracer. */
static bool is_wanted(const struct read_options *options, const struct probe_kept *session,
	const struct trace_tracer *tracer)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", session->id);
	for (size_t i = 0; i < options->wanted.count; i++) {
		if (!strcmp(options->wanted.items[i], number) ||
			!strcmp(options->wanted.items[i], probe_tracer_name(tracer->spec)))
			return true;
	}
	return !options->wanted.count;
}

static struct probe_error *read_session(struct reader *reader, const struct probe_kept *session)
{
	struct kept_options kept = {0};
	struct trace_tracer *tracer = NULL;
	AUTO_FREE char **words = NULL;
	struct probe_error *error =
		kept_parse(session->text, &kept, &words) ?: kept_tracer(&kept, &tracer);

	if (!error && is_wanted(reader->options, session, tracer)) {
		reader->sessions++;
		error = read_tracer(reader, session, &kept, tracer);
	}
	tracers_free(tracer, tracer ? 1 : 0);
	kept_deinit(&kept);
	if (words)
		free(words[0]);
	return probe_error_prefix(error, "process %d, session %u",
		(int)probe_target_pid(reader->target), session->id);
}

static struct probe_error *read_process(struct reader *reader, pid_t pid)
{
	struct probe_error *error = processes_open(&reader->options->common, pid, &reader->target);
	AUTO_FREE struct probe_kept *sessions = NULL;
	size_t count = 0;

	if (error)
		return error;
	error = probe_target_kept(reader->target, &sessions, &count);
	for (size_t i = 0; !error && i < count; i++)
		/* `enable` without a tracer has made the others; `status` shows their counts. */
		if (sessions[i].text)
			error = read_session(reader, &sessions[i]);
	probe_target_close(reader->target);
	return error;
}

static const char *comm_of(void *data, const struct probe_hit *hit)
{
	return comm_cache_get(data, hit->pid, hit->tid, hit->time_ns);
}

static struct probe_error *read_all(const struct read_options *options, int *status_ret)
{
	struct reader reader = {.options = options, .flight = options->flight};
	struct comm_cache *comms = comm_cache_create();
	struct probe_error *error = comms ? NULL : probe_error_no_memory();

	if (!error)
		error = probe_sink_create(options->json ? PROBE_SINK_JSON : PROBE_SINK_TEXT,
			STDOUT_FILENO, "the standard output", &reader.sink);
	if (error) {
		comm_cache_free(comms);
		return error;
	}
	reader.flight.comm = comm_of;
	reader.flight.comm_data = comms;
	reader.flight.sink = reader.sink;
	/* Read all processes even if one fails, because they are independent of each other. */
	for (size_t i = 0; i < options->common.pids.count; i++) {
		error = read_process(&reader, options->common.pids.items[i]);
		if (error)
			*status_ret = report_error(error);
	}
	error = out_sink(reader.sink);
	probe_sink_free(reader.sink);
	comm_cache_free(comms);
	if (reader.incomplete && *status_ret == STATUS_DONE)
		*status_ret = STATUS_FAILED;
	if (!error && !reader.sessions && *status_ret == STATUS_DONE)
		error = probe_error_new(PROBE_ERROR_NOT_FOUND,
			options->wanted.count
				? "there is no such session (without -t, all are read)"
				: "there is no session of a tracer; `probectl enable -t TRACER "
				  "-p PID PROBE` leaves one");
	return error;
}

/* ---- Files -------------------------------------------------------------------------- */

/* All recorders in a file belong to one process, whose name stands for its threads' names. */
static const char *comm_of_remains(void *data, const struct probe_hit *hit)
{
	(void)hit;
	return probe_remains_command(data, 0);
}

static struct probe_error *read_file(const struct read_options *options, int *status_ret)
{
	struct flight_output flight = options->flight;
	AUTO_FREE struct probe_session **sessions = NULL;
	struct probe_remains *remains;
	struct probe_error *error = probe_remains_open(options->from, &remains);
	const char *damage;
	size_t count = 0;

	if (error)
		return error;
	for (size_t i = 0; (damage = probe_remains_damage(remains, i)); i++) {
		report_warning("%s: a flight recorder is left out: %s", options->from, damage);
		*status_ret = STATUS_FAILED;
	}
	while (probe_remains_session(remains, count))
		count++;
	sessions = calloc(count + 1, sizeof(*sessions));
	error = sessions ? NULL : probe_error_no_memory();
	for (size_t i = 0; sessions && i < count; i++)
		sessions[i] = probe_remains_session(remains, i);
	flight.comm = comm_of_remains;
	flight.comm_data = remains;
	if (!error)
		error = probe_sink_create(options->json ? PROBE_SINK_JSON : PROBE_SINK_TEXT,
			STDOUT_FILENO, "the standard output", &flight.sink);
	if (!error && count)
		error = flight_write(&flight, sessions, count);
	error = probe_error_first(error, flight_end(&flight));
	if (flight.sink)
		error = probe_error_first(error, out_sink(flight.sink));
	probe_sink_free(flight.sink);
	probe_remains_close(remains);
	return error;
}

/* ---- The command line ----------------------------------------------------------------- */

static struct probe_error *read_checked(void *data, int *status_ret)
{
	struct read_options *options = data;
	struct probe_error *error;

	if (options->common.operand_count)
		return usage_error(
			"read takes no PROBE; -t TRACER or -t SESSION says which session");
	signal(SIGPIPE, SIG_IGN);
	if (options->from &&
		(processes_given(&options->common) || options->wanted.count || options->reset))
		return usage_error("--from reads a file; it goes with --last, -o and --json alone");
	if (options->from)
		return read_file(options, status_ret);
	error = processes_find_running(&options->common);
	if (error)
		return error;
	if (options->flight.directory && options->common.pids.count != 1)
		return usage_error("-o takes what one process holds");
	return read_all(options, status_ret);
}

static const char help_text[] =
	"Prints what the sessions left by `probectl enable -t` have gathered; with --from,\n"
	"what flight recorders (`enable -t ring`) held when their process died.\n";

struct probe_error *cmd_read(int argc, char **argv, int *status_ret)
{
	struct read_options options = {.top = TRACER_TOP};
	const struct option_row rows[] = {
		OPTIONS_PID(&options.common),
		OPTIONS_PROCESSES(&options.common),
		OPTION('t', "tracer", STRINGS, "TRACER|N", &options.wanted,
			"read only sessions with this tracer or this number"),
		OPTION(0, "from", STRING, "FILE", &options.from,
			"read flight recorders from their file or a core file"),
		OPTION(0, "last", DURATION, NULL, &options.flight.last_ns,
			"of flight recorders: only hits up to TIME before the last one"),
		OPTION('o', "output", STRING, "DIRECTORY", &options.flight.directory,
			"write the hits of flight recorders as a record"),
		OPTION(0, "reset", FLAG, NULL, &options.reset, "start again after reading"),
		OPTIONS_TOP(&options.top),
		OPTIONS_ALL(&options.all),
		OPTIONS_JSON(&options.json),
	};
	const struct command_line line = {
		.synopsis = "read [OPTIONS] (" SYNOPSIS_RUNNING " | --from FILE)",
		.help = help_text,
		OPTION_ROWS(rows),
		.common = &options.common,
		.run = read_checked,
		.data = &options,
	};
	struct probe_error *error = options_run(&line, argc, argv, status_ret);

	free(options.wanted.items);
	return error;
}
