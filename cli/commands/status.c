/* SPDX-License-Identifier: MIT */
/* probectl status: shows which probes of a process are enabled. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/print/print.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/event.h"
#include "libprobe/base/nearest.h"
#include "libprobe/base/json.h"
#include "probe/target.h"

struct status_options {
	struct common_options common;
	bool json, all;
};

/* The probes of one process. */
struct process_status {
	pid_t pid;
	struct probe_status *probes; /* the states of the probes; the target owns the strings */
	size_t count;
	/* Number of files that could not be read, so that their probes are unknown. */
	size_t unread;
};

/* ---- Choosing --------------------------------------------------------------- */

static bool is_of(const struct probe_pattern *pattern, const struct probe_status *probe)
{
	return probe_pattern_matches(pattern, probe->path, probe->provider, probe->name);
}

/*
 * Returns true if a probe is to be shown: all probes that match a PROBE, or without a PROBE, those
 * that are on (all with -a).
 */
static bool is_shown(const struct status_options *options, const struct probe_status *probe)
{
	const struct pattern_list *patterns = &options->common.patterns;
	bool shown = !patterns->count && (options->all || probe->enabled || probe->inconsistent);

	for (size_t i = 0; i < patterns->count && !shown; i++)
		shown = is_of(patterns->items[i], probe);
	return shown;
}

static struct probe_error *no_match(
	const struct probe_pattern *pattern, const struct process_status *process)
{
	AUTO(probe_names_deinit) struct probe_names names = {0};
	char where[64], list[48];

	for (size_t i = 0; i < process->count; i++)
		probe_names_add(&names, process->probes[i].provider, process->probes[i].name);
	snprintf(where, sizeof(where), "%sprocess %d", process->unread ? READ_OF : "",
		(int)process->pid);
	snprintf(list, sizeof(list), "probectl list -p %d", (int)process->pid);
	return probe_pattern_no_match(
		pattern, where, list, (const char *const *)names.items, names.count);
}

static struct probe_error *check_patterns(
	const struct pattern_list *patterns, const struct process_status *process)
{
	for (size_t i = 0; i < patterns->count; i++) {
		bool found = false;

		for (size_t k = 0; k < process->count && !found; k++)
			found = is_of(patterns->items[i], &process->probes[k]);
		if (!found)
			return no_match(patterns->items[i], process);
	}
	return NULL;
}

/* ---- Printing --------------------------------------------------------------- */

/* Returns the state of a probe. With an overwritten patch it is neither on nor off. */
static const char *state_of(const struct probe_status *probe)
{
	return probe->inconsistent ? "inconsistent" : probe->enabled ? "on" : "off";
}

static void add_probe_json(
	struct buffer *out, const struct process_status *process, const struct probe_status *probe)
{
	json_open(out, NULL, '{');
	json_unsigned(out, "pid", (uint64_t)process->pid);
	json_text(out, "provider", probe->provider);
	json_text(out, "name", probe->name);
	json_text(out, "path", probe->path);
	json_unsigned(out, "sites", probe->sites);
	json_unsigned(out, "patched", probe->patched);
	json_unsigned(out, "inconsistent", probe->inconsistent);
	json_unsigned(out, "refcount", probe->refcount);
	json_boolean(out, "enabled", probe->enabled);
	json_text(out, "state", state_of(probe));
	json_open(out, "plan", '{');
	for (int plan = 1; plan < PLANS; plan++) {
		if (probe->plans[plan])
			json_unsigned(out, probe_plan_name(plan), probe->plans[plan]);
	}
	json_close(out, '}');
	if (probe->uncounted)
		json_null(out, "hits");
	else
		json_unsigned(out, "hits", probe->hits);
	json_end_line(out);
}

/*
 * Writes the plans of a probe's patched sites: "-" for none, "behind" for one, "3 behind, 2 pun".
 */
static void plans_text(struct buffer *out, const struct probe_status *probe)
{
	size_t kinds = 0, done = 0;

	for (int plan = 1; plan < PLANS; plan++)
		kinds += probe->plans[plan] != 0;
	if (!kinds)
		buffer_char(out, '-');
	for (int plan = 1; plan < PLANS; plan++) {
		if (!probe->plans[plan])
			continue;
		buffer_string(out, done++ ? ", " : "");
		if (kinds > 1) {
			buffer_unsigned(out, probe->plans[plan]);
			buffer_char(out, ' ');
		}
		buffer_string(out, probe_plan_name((enum probe_plan)plan));
	}
}

static void add_row(
	struct grid *grid, const struct process_status *process, const struct probe_status *probe)
{
	grid_signed(grid, process->pid);
	event_put_probe(&grid->text, probe->provider, probe->name);
	grid_end(grid);
	grid_text(grid, state_of(probe));
	grid_number(grid, probe->refcount);
	buffer_unsigned(&grid->text, probe->patched);
	buffer_char(&grid->text, '/');
	grid_number(grid, probe->sites);
	plans_text(&grid->text, probe);
	grid_end(grid);
	if (probe->uncounted)
		grid_text(grid, "-");
	else
		grid_number(grid, probe->hits);
	grid_text(grid, probe->path);
}

static struct probe_error *print_process(const struct status_options *options,
	const struct process_status *process, struct grid *grid, size_t *shown)
{
	AUTO(buffer_deinit) struct buffer out = {0};

	for (size_t i = 0; i < process->count; i++) {
		const struct probe_status *probe = &process->probes[i];

		if (!is_shown(options, probe))
			continue;
		++*shown;
		if (options->json)
			add_probe_json(&out, process, probe);
		else
			add_row(grid, process, probe);
	}
	return out_flush(&out, stdout);
}

/* ---- The command ------------------------------------------------------------ */

/* Warns about leftovers in a process, usually of a dead controller. They may slow down hits. */
static struct probe_error *warn_of_stale(struct probe_target *target)
{
	struct probe_stale stale;
	AUTO(buffer_deinit) struct buffer out = {0};
	struct probe_error *error = probe_target_stale(target, &stale);

	if (error)
		return error;
	add_count(&out, stale.sessions, "session");
	add_count(&out, stale.probes, "probe");
	add_count(&out, stale.semaphores, "semaphore");
	add_count(&out, stale.mappings, "mapping");
	add_count(&out, stale.descriptors, "descriptor");
	add_count(&out, stale.frames, "frame");
	if (stale.lost)
		report_warning("process %d has mapped memory over that of probectl, or unmapped "
			       "it: sites may jump there; `probectl repair -p %d` restores them",
			probe_target_pid(target), probe_target_pid(target));
	if (stale.sealed_bytes)
		report_warning("process %d has sealed %ju KiB of probectl's memory: it stays until "
			       "the program ends",
			probe_target_pid(target), (uintmax_t)stale.sealed_bytes >> 10);
	if (out.length)
		report_warning("process %d has leftovers (%.*s): `probectl repair -p %d` removes "
			       "them",
			probe_target_pid(target), (int)out.length, out.data,
			probe_target_pid(target));
	return NULL;
}

static void warn_of_unread(const struct probe_unread *file, void *data)
{
	struct process_status *process = data;
	int pid = (int)process->pid;

	process->unread++;
	report_warning("process %d: %s: %s", pid, file->path, file->reason);
	if (file->unnamed)
		report_warning(
			"process %d: %zu probe%s of this file %s on, but the name%s unknown; "
			"`probectl disable -p %d PROVIDER:NAME` switches off a probe that "
			"has this name, `probectl disable --force -p %d` all probes",
			pid, COUNTED(file->unnamed), file->unnamed == 1 ? "is" : "are",
			file->unnamed == 1 ? " is" : "s are", pid, pid);
}

static void warn_of_site(const struct probe_bad_site *site, void *data)
{
	const struct probe_target *target = data;

	print_bad_site(site, probe_target_pid(target),
		site->left ? "; it was left as it is, and so was the code that its jump leads to"
			   : "; its hits are not counted (probectl repair)");
}

static struct probe_error *status_process(
	const struct status_options *options, pid_t pid, struct grid *grid, size_t *shown)
{
	struct process_status process = {.pid = pid};
	struct probe_target *target;
	struct probe_error *error = processes_open(&options->common, pid, &target);

	if (error)
		return error;
	error = probe_target_status(target, &process.probes, &process.count)
		?: probe_target_unread(target, warn_of_unread, &process)
		?: check_patterns(&options->common.patterns, &process)
		?: print_process(options, &process, grid, shown)
		?: probe_target_bad_sites(target, warn_of_site, target)
		?: warn_of_stale(target);
	free(process.probes);
	probe_target_close(target);
	return error;
}

static struct probe_error *status_checked(void *data, int *status_ret)
{
	struct status_options *options = data;
	struct common_options *common = &options->common;
	const struct pid_list *pids = &common->pids;
	struct mistake mistake = {0};
	AUTO(grid_deinit) struct grid grid = {0};
	struct probe_error *error;
	size_t shown = 0;

	grid_titles(&grid, "PID>PROBE<STATE<COUNT>PATCHED>PLAN<HITS>MODULE~");
	error = processes_find_running(common) ?: options_add_operands(common, 0);
	if (error)
		return error;
	/* Show all processes even if one fails, because they are independent of each other. */
	for (size_t i = 0; i < pids->count; i++) {
		error = processes_unless_ended(
			common, i, status_process(options, pids->items[i], &grid, &shown));
		if (error && !mistake_take(&mistake, pids->items[i], error))
			*status_ret = report_error(error);
	}
	error = mistake_end(&mistake, common, pids->count);
	if (error)
		*status_ret = report_error(error);
	error = options->json ? NULL : out_grid(&grid);
	if (!error && !shown && *status_ret == STATUS_DONE)
		fprintf(stderr, "probectl: no probes are enabled%s\n",
			options->all ? ", and none were found" : " (-a shows all there are)");
	return error;
}

static const char help_text[] =
	"Shows the probes of processes that are on, or those that match PROBE.\n"
	"Does not stop the processes.\n";

struct probe_error *cmd_status(int argc, char **argv, int *status_ret)
{
	struct status_options options = {0};
	const struct option_row rows[] = {
		OPTIONS_PID(&options.common),
		OPTIONS_PROCESSES(&options.common),
		OPTIONS_PROBE(&options.common),
		OPTION('a', "all", FLAG, NULL, &options.all, "also show the probes that are off"),
		OPTIONS_JSON(&options.json),
	};
	const struct command_line line = {
		.synopsis = "status [-a] [--json] (" SYNOPSIS_RUNNING ") [PROBE...]",
		.help = help_text,
		OPTION_ROWS(rows),
		.common = &options.common,
		.run = status_checked,
		.data = &options,
	};

	return options_run(&line, argc, argv, status_ret);
}
