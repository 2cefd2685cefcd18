/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "libprobe/reader/reader.h"

struct probe_reader {
	const struct reader_ops *ops;
	void *source;
};

struct probe_error *reader_create(
	const struct reader_ops *ops, void *source, struct probe_reader **ret)
{
	struct probe_reader *reader = malloc(sizeof(*reader));

	if (!reader) {
		ops->close(source);
		return probe_error_no_memory();
	}
	*reader = (struct probe_reader){.ops = ops, .source = source};
	*ret = reader;
	return NULL;
}

struct probe_error *probe_reader_open(const char *path, struct probe_reader **ret)
{
	void *source;
	struct probe_error *error = reader_process_open(path, -1, &source);

	return error ? error : reader_create(&reader_process, source, ret);
}

struct probe_error *probe_reader_open_json(int fd, const char *name, struct probe_reader **ret)
{
	void *source;
	struct probe_error *error = reader_process_open(name, fd, &source);

	return error ? error : reader_create(&reader_process, source, ret);
}

void probe_reader_close(struct probe_reader *reader)
{
	if (!reader)
		return;
	reader->ops->close(reader->source);
	free(reader);
}

struct probe_error *probe_reader_next(
	struct probe_reader *reader, struct probe_event *ret, bool *there_ret)
{
	return reader->ops->next(reader->source, ret, there_ret);
}
