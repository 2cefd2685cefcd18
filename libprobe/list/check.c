/* SPDX-License-Identifier: MIT */
/* Whether listed probes have the arguments that somebody asks for. */
#include <stdlib.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/list/list.h"
#include "libprobe/names/pattern.h"
#include "libprobe/names/select.h"

/* The first mistake; *any_ret: a probe has what the pattern names. */
static struct probe_error *check_file(
	const struct list_file *file, const struct probe_pattern *pattern, bool *any_ret)
{
	size_t total = file->notes.count;
	AUTO_FREE const struct sdt_note **notes = select_by_name(&file->notes);
	struct probe_error *first = NULL;

	if (!notes)
		return probe_error_no_memory();
	for (size_t i = 0, end; i < total; i = end) {
		struct probe_error *error;

		end = select_probe_end(notes, total, i);
		if (!probe_pattern_matches(pattern, file->path, notes[i]->provider, notes[i]->name))
			continue;
		error = select_lacking(pattern, file->machine, notes + i, end - i);
		*any_ret |= !error;
		if (first)
			probe_error_free(error);
		else
			first = error;
	}
	return first;
}

struct probe_error *probe_list_check(
	const struct probe_list *list, const struct probe_pattern *pattern)
{
	struct probe_error *first = NULL;
	bool any = false;

	for (size_t i = 0; i < list->file_count; i++) {
		struct probe_error *error = check_file(&list->files[i], pattern, &any);

		if (first)
			probe_error_free(error);
		else
			first = error;
	}
	if (!first || !any || pattern_is_exact(pattern) || first->code != PROBE_ERROR_USAGE)
		return first;
	probe_error_free(first);
	return NULL;
}
