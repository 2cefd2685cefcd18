/* SPDX-License-Identifier: MIT */
/*
 * Lists of arguments without names, for sessions that others read: these may have another
 * catalogue, so what is kept must mean the same without one. Which of a program's versions it will
 * be is not known here, so all that the catalogue knows have to agree.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/query.h"

/* Takes the list for one more meaning of the probe; *ret is that of the others, or NULL. */
static struct probe_error *add_meaning(
	const char *named, const struct probe_meaning *meaning, char **ret)
{
	char *list;
	struct probe_error *error = meaning_replace("the list", named, meaning, NULL, NULL, &list);

	if (!error && *ret && strcmp(*ret, list) != 0)
		error = probe_error_new(PROBE_ERROR_USAGE,
			"the list '%s': these names are not the same arguments in all programs and "
			"versions, which give '%s' and '%s'; use one of these",
			named, *ret, list);
	if (*ret || error)
		free(list);
	else
		*ret = list;
	return probe_error_prefix(error, "%s:%s", meaning->provider, meaning->name);
}

/* The list for all that is known of the probe. */
static struct probe_error *plain_list(const struct probe_pattern *pattern, const char *named,
	const struct probe_catalogue *catalogue, char **ret)
{
	struct probe_error *error = NULL;

	*ret = NULL;
	for (size_t i = 0; i < catalogue->source_count; i++) {
		const struct catalogue_file *file = catalogue_file_of(catalogue, i, NULL);

		for (size_t k = 0; file && k < file->probe_count && !error; k++) {
			const struct probe_meaning *its = &file->probes[k];

			/* A later file may say something else of it. */
			if (pattern_may_name(pattern, its->provider, its->name) &&
				probe_catalogue_find(
					catalogue, its->provider, its->name, its->arg_count) == its)
				error = add_meaning(named, its, ret);
		}
	}
	if (!error && !*ret)
		error = meaning_replace("the list", named, NULL, NULL, NULL, ret);
	if (error) {
		free(*ret);
		*ret = NULL;
	}
	return error;
}

struct probe_error *probe_pattern_plain_text(const struct probe_pattern *pattern, char **ret)
{
	const struct probe_catalogue *catalogue;
	const char *text = probe_pattern_text(pattern);
	const char *named = pattern_named_list(pattern, &catalogue);
	struct probe_error *error;
	char *list;

	*ret = NULL;
	if (!named) {
		*ret = strdup(text);
		return *ret ? NULL : probe_error_no_memory();
	}
	if (!pattern_is_exact(pattern))
		return probe_error_new(PROBE_ERROR_USAGE,
			"'%s': wildcards match probes with other arguments, too; use argN in the "
			"list",
			text);
	error = plain_list(pattern, named, catalogue, &list);
	if (error)
		return error;
	if (asprintf(ret, "%.*s%s", (int)(named - text), text, list) < 0)
		*ret = NULL;
	free(list);
	return *ret ? NULL : probe_error_no_memory();
}
