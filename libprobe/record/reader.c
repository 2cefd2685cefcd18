/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "libprobe/record/record.h"

struct probe_reader {
	const struct reader_ops *ops; /* NULL: not open */
	void *source;
	struct reader_folder folder; /* empty: this reads JSON */
	uint64_t bytes;		     /* that the folder's records have */
};

struct probe_error *probe_reader_open(const char *path, struct probe_reader **ret)
{
	struct probe_reader *reader = calloc(1, sizeof(*reader));
	struct probe_error *error;

	if (!reader)
		return probe_error_no_memory();
	error = reader_folder_find(path, &reader->folder);
	if (!error)
		error = reader_own_open(&reader->folder, &reader->source);
	if (error) {
		probe_reader_close(reader);
		return error;
	}
	reader->ops = &reader_own;
	reader->bytes = reader_folder_bytes(&reader->folder);
	*ret = reader;
	return NULL;
}

struct probe_error *probe_reader_open_json(int fd, const char *name, struct probe_reader **ret)
{
	struct probe_reader *reader = calloc(1, sizeof(*reader));
	struct probe_error *error;

	if (!reader)
		return probe_error_no_memory();
	error = reader_json_open(fd, name, &reader->source);
	if (error) {
		probe_reader_close(reader);
		return error;
	}
	reader->ops = &reader_json;
	*ret = reader;
	return NULL;
}

void probe_reader_close(struct probe_reader *reader)
{
	if (!reader)
		return;
	if (reader->ops)
		reader->ops->close(reader->source);
	reader_folder_deinit(&reader->folder);
	free(reader);
}

struct probe_error *probe_reader_next(
	struct probe_reader *reader, struct probe_event *ret, bool *there_ret)
{
	return reader->ops->next(reader->source, ret, there_ret);
}

size_t probe_reader_args_max(const struct probe_reader *reader)
{
	return reader->ops->args_max ? reader->ops->args_max(reader->source) : SIZE_MAX;
}

uint64_t probe_reader_progress(const struct probe_reader *reader, uint64_t *total_ret)
{
	*total_ret = reader->bytes;
	return reader->ops->read ? reader->ops->read(reader->source) : 0;
}
