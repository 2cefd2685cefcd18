/* SPDX-License-Identifier: MIT */
/* Whether listed probes have the arguments that somebody asks for. */
#include <stdlib.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/patch/patch.h"
#include "libprobe/query/query.h"

/* The first mistake; *any_ret: a probe has what the pattern names. */
static struct probe_error *check_file(
	const struct list_file *file, const struct probe_pattern *pattern, bool *any_ret)
{
	size_t total = file->notes.count;
	AUTO_FREE const struct sdt_note **notes = select_by_name(&file->notes);
	struct probe_error *error = NULL;

	if (!notes)
		return probe_error_no_memory();
	for (size_t i = 0, end; i < total; i = end) {
		struct probe_error *lacking;

		end = select_probe_end(notes, total, i);
		if (!probe_pattern_matches(pattern, file->path, notes[i]->provider, notes[i]->name))
			continue;
		lacking = select_lacking(pattern, file->machine, notes + i, end - i);
		*any_ret |= !lacking;
		error = probe_error_first(error, lacking);
	}
	return error;
}

struct probe_error *probe_list_check(
	const struct probe_list *list, const struct probe_pattern *pattern)
{
	struct probe_error *error = NULL;
	bool any = false;

	for (size_t i = 0; i < list->file_count; i++)
		error = probe_error_first(error, check_file(&list->files[i], pattern, &any));
	if (!error || !any || pattern_is_exact(pattern) || error->code != PROBE_ERROR_USAGE)
		return error;
	probe_error_free(error);
	return NULL;
}
