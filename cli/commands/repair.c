/* SPDX-License-Identifier: MIT */
/* probectl repair: removes what dead controllers have left, and patches restored sites again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/processes.h"
#include "libprobe/base/json.h"
#include "cli/print/print.h"
#include "libprobe/base/error.h"
#include "probe/target.h"
#include "probe/trace.h"

enum { REPAIR_TRIES = 5 };

struct repair_options {
	struct common_options common;
	bool json;
};

/* ---- Printing --------------------------------------------------------------- */

static void add_text(struct buffer *out, pid_t pid, const struct probe_repair *repair, size_t left)
{
	static const struct probe_repair none;
	struct probe_repair done = *repair;

	buffer_print(out, "process %d", (int)pid);
	done.waiting = done.mended = done.lost = done.sealed_bytes = 0;
	if (repair->lost)
		buffer_string(out,
			": the program had mapped memory over that of probectl, or unmapped it");
	if (repair->mended) {
		buffer_string(out, ": patched again: ");
		add_count(out, repair->mended, "site");
	}
	if (memcmp(&done, &none, sizeof(none)) == 0) {
		buffer_string(out, repair->mended ? ""
				   : left	  ? ": nothing removed"
						  : ": nothing to repair");
	} else {
		buffer_string(out, repair->mended ? "; removed: " : ": removed: ");
		add_count(out, done.sessions, "session");
		add_count(out, done.probes, "probe");
		add_count(out, done.sites, "site");
		add_count(out, done.semaphores, "semaphore");
		add_count(out, done.mappings, "mapping");
		add_count(out, done.descriptors, "descriptor");
		add_count(out, done.frames, "frame");
	}
	if (left) {
		buffer_string(out, "; left as they are: ");
		add_count(out, left, "site");
	}
	if (repair->waiting)
		buffer_string(out,
			"; a thread may return to the code of a session that is off: repair "
			"again later");
	if (repair->sealed_bytes)
		buffer_print(out,
			"; the program has sealed %ju KiB of probectl's memory: it stays until the "
			"program ends",
			(uintmax_t)repair->sealed_bytes >> 10);
	buffer_char(out, '\n');
}

static void add_json(struct buffer *out, pid_t pid, const struct probe_repair *repair, size_t left)
{
	json_open(out, NULL, '{');
	json_unsigned(out, "pid", (uint64_t)pid);
	json_unsigned(out, "sessions", repair->sessions);
	json_unsigned(out, "probes", repair->probes);
	json_unsigned(out, "sites", repair->sites);
	json_unsigned(out, "patched", repair->mended);
	json_unsigned(out, "inconsistent", left);
	json_unsigned(out, "semaphores", repair->semaphores);
	json_unsigned(out, "mappings", repair->mappings);
	json_unsigned(out, "descriptors", repair->descriptors);
	json_unsigned(out, "frames", repair->frames);
	json_unsigned(out, "lost", repair->lost);
	json_unsigned(out, "sealed_bytes", repair->sealed_bytes);
	json_unsigned(out, "waiting", repair->waiting);
	json_end_line(out);
}

/* ---- The command ------------------------------------------------------------ */

/* The sites that cannot be repaired, because another tool has written its own bytes there. */
struct left_sites {
	pid_t pid;
	bool told; /* the sites were already printed */
	size_t count, restored;
};

static void note_left(const struct probe_bad_site *site, void *data)
{
	struct left_sites *left = data;

	if (left->told)
		print_bad_site(site, left->pid, "; it is left as it is");
	left->count++;
	left->restored += site->fault == PROBE_SITE_RESTORED;
}

static struct probe_error *look(struct probe_target *target, bool told, struct left_sites *left)
{
	left->told = told;
	left->count = left->restored = 0;
	return probe_target_bad_sites(target, note_left, left);
}

/*
 * Tries a repair once and checks the sites afterwards. Sets *again_ret if it left out a site
 * because of another tool's breakpoint that is gone now.
 */
static struct probe_error *repair_and_look(struct probe_target *target, struct probe_repair *repair,
	struct left_sites *left, bool *again_ret)
{
	struct probe_stale stale = {0};
	struct probe_error *error;

	repair->waiting = 0;
	error = probe_target_repair(target, repair)
		?: probe_target_stale(target, &stale)
		?: look(target, false, left);
	*again_ret = left->restored || (!left->count && !repair->waiting && stale.sessions);
	if (error || !left->count || *again_ret)
		return error;
	error = look(target, true, left);
	*again_ret = !left->count;
	return error;
}

/*
 * Repairs a process, with several attempts, because the kernel removes a breakpoint some time after
 * a tool has closed its uprobe. Other faults of a site get no further attempt.
 */
static struct probe_error *repair_and_settle(
	struct probe_target *target, struct probe_repair *repair, struct left_sites *left)
{
	struct probe_error *error = NULL;
	bool again = true;

	for (int i = 0; i < REPAIR_TRIES && again && !error; i++)
		error = repair_and_look(target, repair, left, &again);
	if (error || !again)
		return error;
	error = look(target, true, left);
	return error || left->count
		       ? error
		       : probe_error_new(PROBE_ERROR_STATE,
				 "process %d: its sites change again and again; repair it later",
				 (int)left->pid);
}

struct repairing {
	const struct repair_options *options;
	/* One element for each process, with the sum of the counts of all attempts. */
	struct probe_repair *repairs;
	int *status_ret;
};

static pid_t repair_pid(void *data, size_t index)
{
	const struct repairing *repairing = data;

	return repairing->options->common.pids.items[index];
}

static struct probe_error *repair_process(void *data, size_t index, struct probe_patience *patience)
{
	const struct repairing *repairing = data;
	const struct common_options *common = &repairing->options->common;
	pid_t pid = common->pids.items[index];
	struct left_sites left = {.pid = pid};
	struct probe_repair *repair = &repairing->repairs[index];
	struct probe_target *target;
	struct buffer out = {0};
	struct probe_error *error = processes_open(common, pid, &target);

	if (error)
		return error;
	probe_target_set_patience(target, patience);
	error = repair_and_settle(target, repair, &left);
	if (!error) {
		(repairing->options->json ? add_json : add_text)(&out, pid, repair, left.count);
		error = out_flush(&out, stdout);
		buffer_deinit(&out);
	}
	if (left.count)
		*repairing->status_ret = STATUS_FAILED;
	probe_target_close(target);
	return processes_error(common, pid, error);
}

static void repair_end(void *data, size_t index, struct probe_error *error)
{
	const struct repairing *repairing = data;

	error = processes_unless_ended(&repairing->options->common, index, error);
	if (error)
		*repairing->status_ret = report_error(error);
}

static struct probe_error *repair_checked(void *data, int *status_ret)
{
	struct repair_options *options = data;
	struct common_options *common = &options->common;
	struct repairing repairing = {.options = options, .status_ret = status_ret};
	const struct probe_turn turn = {repair_pid, repair_process, repair_end, &repairing};
	struct probe_error *unfound;

	if (common->operand_count)
		return usage_error("repair takes processes only: -p PID");
	unfound = processes_find_running(common);
	if (unfound)
		return unfound;
	repairing.repairs = calloc(common->pids.count + 1, sizeof(*repairing.repairs));
	if (!repairing.repairs)
		return probe_error_no_memory();
	/* Repair all processes even if one fails, because they are independent of each other. */
	probe_take_turns(common->pids.count, &turn);
	free(repairing.repairs);
	return NULL;
}

static const char help_text[] =
	"Removes what killed controllers left in processes: sessions without a reader,\n"
	"and probes that are only half switched on or off. Any other command that\n"
	"changes a process does the same first. Sites that a session wants patched and\n"
	"that something has restored are patched again. Sites that something else has\n"
	"overwritten are named and left as they are; the exit status is then 1.\n";

struct probe_error *cmd_repair(int argc, char **argv, int *status_ret)
{
	struct repair_options options = {0};
	const struct option_row rows[] = {
		OPTIONS_PID(&options.common),
		OPTIONS_PROCESSES(&options.common),
		OPTIONS_JSON(&options.json),
	};
	const struct command_line line = {
		.synopsis = "repair [--json] (" SYNOPSIS_RUNNING ")",
		.help = help_text,
		OPTION_ROWS(rows),
		.common = &options.common,
		.run = repair_checked,
		.data = &options,
	};

	return options_run(&line, argc, argv, status_ret);
}
