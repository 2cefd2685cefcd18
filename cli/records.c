/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/records.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/error.h"

/* ==== Records ================================================================================= */

struct probe_error *records_open(const char *operand, struct probe_reader **ret)
{
	if (strcmp(operand, "-") != 0)
		return probe_reader_open(operand, ret);
	if (isatty(STDIN_FILENO))
		return usage_error(
			"-: there is nothing on standard input; `probectl trace --json ... | "
			"probectl ... -`");
	signal(SIGINT, SIG_IGN);
	return probe_reader_open_json(STDIN_FILENO, "standard input", ret);
}

/* ==== Reading ================================================================================= */

struct reading reading_begin(bool is_shown)
{
	return (struct reading){.progress = progress_every(is_shown ? PROGRESS_NS : 0),
		.begin_ns = clock_monotonic_ns()};
}

enum { READING_EVENTS = 4096 /* after this many events, the line may have to be updated */ };

void reading_event(struct reading *reading, const struct probe_reader *reader)
{
	uint64_t ns, bytes, total;
	double rate;

	if (++reading->events % READING_EVENTS || !progress_due(&reading->progress))
		return;
	ns = clock_monotonic_ns() - reading->begin_ns;
	rate = ns ? (double)reading->events * 1e3 / (double)ns : 0; /* millions per second */
	bytes = probe_reader_progress(reader, &total);
	if (!total || bytes > total)
		progress_show(&reading->progress, "%" PRIu64 " events read, %.1f million a second",
			reading->events, rate);
	else
		progress_show(&reading->progress,
			"%.0f of %.0f MB read, %.0f %%, %.1f million events a second",
			(double)bytes / 1e6, (double)total / 1e6,
			100.0 * (double)bytes / (double)total, rate);
}

/* ==== Catalogue =============================================================================== */

/*
 * The folder is that of the XDG Base Directory Specification, which demands that a relative
 * $XDG_CONFIG_HOME is ignored.
 */

static int is_probes_file(const struct dirent *entry)
{
	static const char suffix[] = ".probes";
	size_t length = strlen(entry->d_name), end = sizeof(suffix) - 1;

	return entry->d_name[0] != '.' && length > end &&
	       strcmp(entry->d_name + length - end, suffix) == 0;
}

/* Turns an error about a file into a warning. Returns only a lack of memory. */
static struct probe_error *warn(struct probe_error *error)
{
	if (!error || error->code == PROBE_ERROR_MEMORY)
		return error;
	report_warning("%s", error->message);
	probe_error_free(error);
	return NULL;
}

/* Adds the files of a folder, which may not exist. Warns about unusable ones. */
static struct probe_error *add_folder(struct probe_catalogue *catalogue, const char *folder)
{
	struct probe_error *error = NULL;
	AUTO_FREE struct dirent **entries = NULL;
	int count = scandir(folder, &entries, is_probes_file, alphasort);

	if (count < 0 && errno == ENOMEM)
		return probe_error_no_memory();
	if (count < 0 && errno != ENOENT && errno != ENOTDIR)
		report_warning("%s: %s", folder, strerror(errno));
	for (int i = 0; i < count; i++) {
		char *path = NULL;

		if (!error && asprintf(&path, "%s/%s", folder, entries[i]->d_name) < 0) {
			path = NULL;
			error = probe_error_no_memory();
		}
		error = error ?: warn(probe_catalogue_add(catalogue, path));
		free(path);
		free(entries[i]);
	}
	return error;
}

/* Adds what a record's folder, or that of which it is a part, says about functions. */
static struct probe_error *add_record(struct probe_catalogue *catalogue, const char *record)
{
	const char *slash = strrchr(record, '/'), *name = slash ? slash + 1 : record;
	AUTO_FREE char *whole = NULL;
	struct probe_error *error = warn(probe_catalogue_load(catalogue, record));

	/* Parts have numbers. Another folder may be somebody else's. */
	if (!*name || name[strspn(name, "0123456789")])
		return error;
	if (!error && asprintf(&whole, "%s/..", record) < 0)
		return probe_error_no_memory();
	return error ?: warn(probe_catalogue_load(catalogue, whole));
}

struct probe_error *catalogue_open(const char *record, struct probe_catalogue **ret)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	struct probe_error *error = probe_catalogue_create(ret);
	AUTO_FREE char *folder = NULL;
	int length = 0;

	if (config && *config == '/')
		length = asprintf(&folder, "%s/probectl/probes.d", config);
	else if (home && *home == '/')
		length = asprintf(&folder, "%s/.config/probectl/probes.d", home);
	if (length < 0) {
		folder = NULL;
		error = probe_error_first(error, probe_error_no_memory());
	}
	if (!error && folder)
		error = add_folder(*ret, folder);
	if (!error && record)
		error = add_record(*ret, record);
	if (error) {
		probe_catalogue_free(*ret);
		*ret = NULL;
	}
	return error;
}
