/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/query.h"
#include "tests/unit/query/catalogue_made.h"

struct probe_catalogue *catalogue_made(const char *text)
{
	struct probe_catalogue *catalogue = malloc(sizeof(*catalogue));
	struct catalogue_source *source = calloc(1, sizeof(*source));
	struct catalogue_file *file = malloc(sizeof(*file));

	if (!catalogue || !source || !file || catalogue_parse("file", text, strlen(text), file))
		abort();
	source->file = file;
	*catalogue = (struct probe_catalogue){.sources = source, .source_count = 1};
	return catalogue;
}
