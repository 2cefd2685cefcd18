/* SPDX-License-Identifier: MIT */
/* `probectl list`: lists the probes of files, of processes, or of the system. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/list/listing.h"
#include "cli/options.h"
#include "cli/print/print.h"
#include "cli/processes.h"
#include "libprobe/base/nearest.h"
#include "probe/target.h"

struct list_command {
	struct common_options options;
	unsigned int verbose;
	bool json;
	const char **files; /* operands that are files; owned by argv or equal to `program` */
	size_t file_count;
	char *program;	   /* path of the first operand if it is a program in $PATH; owned */
	struct scan lists; /* the lists of probes that were read */
	struct listing listing;
	struct progress progress;
	bool failed; /* a file or a process was unreadable, and this has been reported */
};

/* ---- Files and processes ----------------------------------------------------------- */

/*
 * Returns true if an operand is a FILE: it exists as a file, or it has a slash and is neither
 * path:provider:name nor a regular expression between slashes.
 */
static bool is_file(const char *operand)
{
	size_t length = strlen(operand);

	if (access(operand, F_OK) == 0)
		return true;
	if (!strchr(operand, '/') || strchr(operand, ':'))
		return false;
	return !(length > 2 && operand[0] == '/' && operand[length - 1] == '/');
}

static struct probe_error *sort_operands(struct list_command *command)
{
	struct common_options *options = &command->options;
	struct probe_error *error = processes_find(options);

	if (error)
		return error;
	command->files = calloc(options->operand_count + 1, sizeof(*command->files));
	if (!command->files)
		return probe_error_no_memory();
	for (size_t i = 0; i < options->operand_count && !error; i++) {
		const char *text = options->operands[i], *file = NULL;

		/* If processes are given, operands are PROBEs of these processes, not files. */
		if (!options->pids.count && is_file(text))
			file = text;
		/* In `list ruby raise`, `ruby` is a program in $PATH, and `raise` a PROBE. */
		else if (!options->pids.count && i == 0)
			file = command->program = program_find(text);
		if (file)
			command->files[command->file_count++] = file;
		else
			error = options_add_operand(options, text);
	}
	return error;
}

/* Reports an unreadable file or process. Returns only a lack of memory as an error. */
static struct probe_error *note_failure(struct list_command *command, struct probe_error *error)
{
	if (!error || error->code == PROBE_ERROR_MEMORY)
		return error;
	command->failed = true;
	progress_end(&command->progress);
	report_error(error);
	return NULL;
}

/* Shows how many files or processes have been read, if reading takes long. */
static void show_progress(struct list_command *command, const char *what, size_t done, size_t count)
{
	if (progress_due(&command->progress))
		progress_show(&command->progress, "%zu of %zu %s read", done, count, what);
}

static struct probe_error *list_process(const struct list_command *command, pid_t pid)
{
	struct probe_target *target = NULL;
	struct probe_error *error = NULL;

	if (command->options.meant)
		error = processes_open(&command->options, pid, &target);
	probe_target_close(target);
	return error ? error : probe_list_add_process(command->lists.lists[0], pid);
}

static struct probe_error *read_lists(struct list_command *command)
{
	const struct pid_list *pids = &command->options.pids;
	struct mistake mistake = {0};
	struct probe_error *error, *alike;

	if (command->file_count == 0 && pids->count == 0)
		return scan_system(&command->lists);
	command->lists.lists = calloc(1, sizeof(struct probe_list *));
	if (!command->lists.lists)
		return probe_error_no_memory();
	error = probe_list_create(&command->lists.lists[0]);
	if (error)
		return error;
	command->lists.count = 1;
	command->progress = progress_every(PROGRESS_NS);
	for (size_t i = 0; i < command->file_count && !error; i++) {
		show_progress(command, "files", i, command->file_count);
		error = note_failure(
			command, probe_list_add_file(command->lists.lists[0], command->files[i]));
	}
	for (size_t i = 0; i < pids->count && !error; i++) {
		show_progress(command, "processes", i, pids->count);
		error = processes_unless_ended(
			&command->options, i, list_process(command, pids->items[i]));
		if (error && mistake_take(&mistake, pids->items[i], error))
			error = NULL;
		error = note_failure(command, error);
	}
	progress_end(&command->progress);
	alike = mistake_end(&mistake, &command->options, 0);
	if (error)
		probe_error_free(alike);
	return error ? error : note_failure(command, alike);
}

static void report_defects(const struct list_command *command)
{
	for (size_t i = 0; i < command->lists.count; i++) {
		size_t count;
		const struct probe_defect *defects =
			probe_list_defects(command->lists.lists[i], &count);

		for (size_t k = 0; k < count; k++) {
			if (defects[k].offset > 0)
				report_warning("%s: offset 0x%" PRIx64 ": %s", defects[k].path,
					defects[k].offset, defects[k].what);
			else
				report_warning("%s: %s", defects[k].path, defects[k].what);
		}
	}
}

/* ---- Choosing sites ----------------------------------------------------------------- */

/*
 * Returns true if any pattern matches the site. Sets the flag of each matching pattern, because a
 * pattern that matches no site is an error.
 */
static bool is_wanted(
	const struct pattern_list *patterns, const struct probe_site *site, bool *matched)
{
	bool wanted = patterns->count == 0;

	for (size_t i = 0; i < patterns->count; i++) {
		if (probe_pattern_matches(
			    patterns->items[i], site->path, site->provider, site->name)) {
			matched[i] = true;
			wanted = true;
		}
	}
	return wanted;
}

static int compare_paths(const void *left, const void *right)
{
	const struct listed_site *a = left, *b = right;
	int order = strcmp(a->site->path, b->site->path);

	return order ? order : a->order < b->order ? -1 : a->order > b->order;
}

static struct probe_error *select_sites(struct list_command *command, bool *matched)
{
	struct listing *listing = &command->listing;
	size_t total = 0, count;

	for (size_t i = 0; i < command->lists.count; i++) {
		probe_list_sites(command->lists.lists[i], &count);
		total += count;
	}
	listing->items = calloc(total + 1, sizeof(*listing->items));
	if (!listing->items)
		return probe_error_no_memory();
	for (size_t i = 0; i < command->lists.count; i++) {
		struct probe_list *list = command->lists.lists[i];
		const struct probe_site *sites = probe_list_sites(list, &count);

		for (size_t k = 0; k < count; k++) {
			if (!is_wanted(&command->options.patterns, &sites[k], matched))
				continue;
			listing->items[listing->count] = (struct listed_site){
				.list = list, .site = &sites[k], .order = listing->count};
			listing->count++;
		}
	}
	/* Sort, because the order of the lists depends on the timing of the threads. */
	if (command->lists.count > 1)
		qsort(listing->items, listing->count, sizeof(*listing->items), compare_paths);
	/* Number the modules. All sites of a module share the same pointer to the module's path. */
	for (size_t i = 1; i < listing->count; i++) {
		struct listed_site *items = listing->items;

		items[i].module =
			items[i - 1].module + (items[i].site->path != items[i - 1].site->path);
	}
	return NULL;
}

/* Writes the places that were searched into `room`, for an error message. */
static const char *describe_where(const struct list_command *command, char *room, size_t size)
{
	const struct common_options *options = &command->options;
	const char *part;
	size_t defects = 0;

	for (size_t i = 0; i < command->lists.count && !defects; i++)
		probe_list_defects(command->lists.lists[i], &defects);
	part = defects ? READ_OF : "";

	if (options->pids.count == 1)
		snprintf(room, size, "%sprocess %d", part, (int)options->pids.items[0]);
	else if (options->pids.count > 1)
		snprintf(room, size, "these processes");
	else if (command->file_count == 1)
		snprintf(room, size, "%s%s", part, command->files[0]);
	else
		snprintf(room, size, "%s",
			command->file_count > 1 ? "these files" : "the standard directories");
	return room;
}

/* If a pattern has no match, returns the error for the first such pattern. */
static struct probe_error *no_match(const struct list_command *command, const bool *matched)
{
	const struct pattern_list *patterns = &command->options.patterns;
	struct probe_error *error;
	const struct scan *lists = &command->lists;
	struct probe_names names = {0};
	char where[512], list[48] = "probectl list";
	size_t first = 0, count;

	while (first < patterns->count && matched[first])
		first++;
	if (first == patterns->count)
		return NULL;
	for (size_t i = 0; i < lists->count; i++) {
		const struct probe_site *sites = probe_list_sites(lists->lists[i], &count);

		for (size_t k = 0; k < count; k++)
			probe_names_add(&names, sites[k].provider, sites[k].name);
	}
	if (command->options.pids.count == 1)
		snprintf(list, sizeof(list), "probectl list -p %d",
			(int)command->options.pids.items[0]);
	error = probe_pattern_no_match(patterns->items[first],
		describe_where(command, where, sizeof(where)), list,
		(const char *const *)names.items, names.count);
	probe_names_deinit(&names);
	return error;
}

/* ---- The command ----------------------------------------------------------------------- */

static struct probe_error *show(struct list_command *command)
{
	struct pattern_list *patterns = &command->options.patterns;
	bool *matched = calloc(patterns->count + 1, sizeof(bool));
	struct listing *listing = &command->listing;
	struct probe_error *error = NULL;

	if (!matched)
		return probe_error_no_memory();
	listing->details = command->verbose;
	listing->is_process = command->options.pids.count > 0;
	listing->show_pid = command->options.pids.count > 1;
	/* It is an error if no probe of a pattern has the arguments that the pattern names. */
	for (size_t i = 0; i < patterns->count; i++)
		for (size_t k = 0; k < command->lists.count && !error; k++)
			error = probe_list_check(command->lists.lists[k], patterns->items[i]);
	if (!error && command->verbose)
		error = options_catalogue(patterns);
	if (command->verbose)
		listing->catalogue = patterns->catalogue;
	if (!error)
		error = select_sites(command, matched);
	if (!error)
		error = command->json ? listing_print_json(listing) : listing_print_text(listing);
	/* If nothing was readable, this has already been reported. */
	if (!error && !(command->failed && listing->count == 0))
		error = no_match(command, matched);
	free(matched);
	return error;
}

/* Writes the file names of a list: "libc.so.6, libstdc++.so.6". */
static void put_files(FILE *out, const struct probe_list *list)
{
	size_t count;
	const struct probe_site *sites = probe_list_sites(list, &count);
	const char *before = "";

	for (size_t i = 0; i < count; i++) {
		const char *slash = strrchr(sites[i].path, '/');

		if (i && sites[i].path == sites[i - 1].path)
			continue;
		fputs(before, out);
		print_printable(out, slash ? slash + 1 : sites[i].path);
		before = ", ";
	}
}

/* Reports which libraries of a file without probes have probes. Sets *any_ret if any has. */
static struct probe_error *report_needed(const char *file, bool *any_ret)
{
	struct probe_list *list;
	struct probe_error *error = probe_list_create(&list);
	size_t count = 0;

	if (!error)
		error = probe_list_add_needed(list, file);
	if (!error)
		probe_list_sites(list, &count);
	*any_ret = count > 0;
	if (count) {
		fputs("; libraries that it needs have some (", stderr);
		put_files(stderr, list);
		fputs("): `probectl list -p PID` shows those of a process", stderr);
	}
	probe_list_free(list);
	return error;
}

static struct probe_error *report_none(const struct list_command *command)
{
	struct probe_error *error = NULL;
	char where[512];
	bool any = false;

	fprintf(stderr, "probectl: there are no probes in %s",
		describe_where(command, where, sizeof(where)));
	if (command->file_count == 1)
		error = report_needed(command->files[0], &any);
	if (!any && command->program && command->file_count == 1)
		fputs(" (`probectl list -p PID` also shows those of the libraries that it has "
		      "opened)",
			stderr);
	putc('\n', stderr);
	return error;
}

static struct probe_error *list(void *data, int *status_ret)
{
	struct list_command *command = data;
	struct probe_error *error = sort_operands(command);

	if (!error)
		error = read_lists(command);
	if (error)
		return error;
	report_defects(command);
	error = show(command);
	if (command->failed)
		*status_ret = STATUS_FAILED;
	if (!error && command->listing.count == 0 && !command->failed && !command->json)
		error = report_none(command);
	return error;
}

static const char help_text[] =
	"Shows the static probes (stapsdt notes) of ELF files, or of all files that a\n"
	"process has mapped; by default, of all programs and libraries in the standard\n"
	"directories. With PROBEs, shows only those. The first FILE may be a program in\n"
	"$PATH.\n"
	"\n"
	"  probectl list /usr/lib/jvm/*/lib/server/libjvm.so 'hotspot:gc__*'\n"
	"  probectl list -v -p 1234\n";

struct probe_error *cmd_list(int argc, char **argv, int *status_ret)
{
	struct list_command command = {.options = {.patterns = {.named = true}}};
	const struct option_row rows[] = {
		OPTIONS_PID(&command.options),
		OPTIONS_PROCESSES(&command.options),
		OPTIONS_PROBE(&command.options),
		OPTION('v', "verbose", COUNTER, NULL, &command.verbose,
			"also show what probes mean, and each site: address, function, line; -vv: "
			"bytes, plan"),
		OPTION(0, "json", FLAG, NULL, &command.json, "print one JSON object for each site"),
	};
	const struct command_line line = {
		.synopsis = "list [-v | -vv] [--json] [FILE... | " SYNOPSIS_RUNNING "] [PROBE...]",
		.help = help_text,
		OPTION_ROWS(rows),
		.common = &command.options,
		.run = list,
		.data = &command,
	};
	struct probe_error *error = options_run(&line, argc, argv, status_ret);

	free(command.listing.items);
	free(command.files);
	free(command.program);
	scan_deinit(&command.lists);
	return error;
}
