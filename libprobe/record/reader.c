/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "libprobe/record/reader.h"

struct probe_reader {
	const struct reader_ops *ops; /* NULL: not open */
	void *source;
	/* The records, and how many bytes the first of these have. */
	struct reader_folder own, others;
	uint64_t bytes;
};

struct probe_error *reader_create(
	const struct reader_ops *ops, void *source, struct probe_reader **ret)
{
	struct probe_reader *reader = calloc(1, sizeof(*reader));

	if (!reader) {
		ops->close(source);
		return probe_error_no_memory();
	}
	reader->ops = ops;
	reader->source = source;
	*ret = reader;
	return NULL;
}

/* Divides the records that were found into ours and others. */
static struct probe_error *sort_records(
	struct probe_reader *reader, const struct reader_folder *found)
{
	struct probe_error *error = NULL;
	bool is_own;

	reader->own.path = reader->others.path = found->path;
	reader->own.parts = reader->others.parts = found->parts;
	for (size_t i = 0; i < found->count && !error; i++) {
		error = reader_is_own(found->records[i], &is_own);
		if (!error)
			error = reader_folder_add(
				is_own ? &reader->own : &reader->others, found->records[i]);
	}
	return error;
}

static struct probe_error *open_both(struct probe_reader *reader)
{
	static const struct reader_ops *const ops[] = {&reader_own, &reader_process};
	void *sources[2];
	struct probe_error *error = reader_own_open(&reader->own, &sources[0]);

	if (error)
		return error;
	error = reader_process_open(&reader->others, &sources[1]);
	if (error) {
		reader_own.close(sources[0]);
		return error;
	}
	error = reader_merged_open(ops, sources, &reader->source);
	if (!error)
		reader->ops = &reader_merged;
	return error;
}

static struct probe_error *open_records(struct probe_reader *reader)
{
	struct probe_error *error;

	if (reader->own.count && reader->others.count)
		return open_both(reader);
	error = reader->own.count ? reader_own_open(&reader->own, &reader->source)
				  : reader_process_open(&reader->others, &reader->source);
	if (!error)
		reader->ops = reader->own.count ? &reader_own : &reader_process;
	return error;
}

struct probe_error *probe_reader_open(const char *path, struct probe_reader **ret)
{
	struct probe_reader *reader = calloc(1, sizeof(*reader));
	struct reader_folder found;
	struct probe_error *error;

	if (!reader)
		return probe_error_no_memory();
	error = reader_folder_find(path, &found);
	if (!error)
		error = sort_records(reader, &found);
	reader_folder_deinit(&found);
	if (!error)
		error = open_records(reader);
	if (error) {
		probe_reader_close(reader);
		return error;
	}
	reader->bytes = reader_folder_bytes(&reader->own);
	*ret = reader;
	return NULL;
}

struct probe_error *probe_reader_open_json(int fd, const char *name, struct probe_reader **ret)
{
	void *source;
	struct probe_error *error = reader_process_open_json(fd, name, &source);

	return error ? error : reader_create(&reader_process, source, ret);
}

void probe_reader_close(struct probe_reader *reader)
{
	if (!reader)
		return;
	if (reader->ops)
		reader->ops->close(reader->source);
	reader_folder_deinit(&reader->own);
	reader_folder_deinit(&reader->others);
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
