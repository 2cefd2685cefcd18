/* SPDX-License-Identifier: MIT */
/* Files of the catalogue: any text. What was accepted is found again, with valid indices. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/query.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct probe_meaning *m, const struct probe_catalogue *catalogue)
{
	require(m->arg_count <= CATALOGUE_ARGS_MAX, "too many arguments");
	for (size_t i = 0; i < m->arg_count; i++) {
		const struct probe_arg_meaning *arg = &m->args[i];

		/* Arguments of functions that the file leaves out keep their numbers as names. */
		require(*arg->name && ((arg->is_hidden && !arg->place) ||
					      !catalogue_is_reserved(arg->name, strlen(arg->name))),
			"a name");
		require(!arg->place || *arg->place, "a place");
		if (arg->kind == PROBE_ARG_SIZED_STRING || arg->kind == PROBE_ARG_SIZED_BYTES)
			require(arg->length < m->arg_count &&
					m->args[arg->length].kind == PROBE_ARG_NUMBER,
				"a length");
		(void)probe_meaning_word(arg, (int64_t)i);
	}
	(void)probe_catalogue_find(catalogue, m->provider, m->name, m->arg_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct catalogue_file file;
	struct catalogue_source source = {.file = &file};
	struct probe_catalogue catalogue = {.sources = &source, .source_count = 1};
	struct probe_error *error = catalogue_parse("file", (const char *)data, size, &file);

	if (error) {
		require(!strchr(error->message, '\n'), "a message of two lines");
		probe_error_free(error);
		return 0;
	}
	for (size_t i = 0; i < file.probe_count; i++)
		check(&file.probes[i], &catalogue);
	catalogue_file_deinit(&file);
	return 0;
}
