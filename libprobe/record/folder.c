/* SPDX-License-Identifier: MIT */
/* Opens a folder for reading: a record, the parts of a record, or several records. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/record/record.h"

/* ==== Finding records ========================================================================= */

enum {
	/*
	 * Number of folder levels searched for records. LTTng's records are six levels down; an
	 * error names them.
	 */
	DEPTH_MAX = 8,
	RECORDS_MAX = 1 << 20
};

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strverscmp((*a)->fts_name, (*b)->fts_name);
}

/* Can it be the folder of a part? It has a name such as 000001. */
static bool may_be_part(const FTSENT *entry)
{
	return entry->fts_level == 1 && !entry->fts_name[strspn(entry->fts_name, "0123456789")];
}

static struct probe_error *visit(struct reader_folder *folder, FTS *tree, FTSENT *entry)
{
	char *path;

	switch (entry->fts_info) {
	case FTS_D:
		if (folder->one ? entry->fts_level && !may_be_part(entry)
				: entry->fts_level > DEPTH_MAX)
			fts_set(tree, entry, FTS_SKIP);
		break;
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		if (!entry->fts_level && entry->fts_errno == ENOENT)
			return error_numbered(
				PROBE_ERROR_NOT_FOUND, ENOENT, "there is no such folder");
		return probe_error_system(entry->fts_errno, "cannot read %s", entry->fts_path);
	case FTS_F:
		if (strcmp(entry->fts_name, "metadata") != 0 || entry->fts_level < 1)
			break;
		folder->parts &= may_be_part(entry->fts_parent);
		if (folder->count >= RECORDS_MAX)
			return probe_error_new(
				PROBE_ERROR_FORMAT, "there are too many records in it");
		if (!ARRAY_ROOM(folder->records, folder->count))
			return probe_error_no_memory();
		/* The path without "/metadata" */
		path = strndup(entry->fts_path, entry->fts_pathlen - entry->fts_namelen - 1U);
		if (!path)
			return probe_error_no_memory();
		folder->records[folder->count++] = path;
	}
	return NULL;
}

/*
 * Finds the records in a folder: all below it, or with `one` itself or its parts. Errors:
 * PROBE_ERROR_NOT_FOUND, PROBE_ERROR_FORMAT, PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
static struct probe_error *reader_folder_find(const char *path, bool one, struct reader_folder *ret)
{
	char *const paths[] = {(char *)path, NULL};
	struct probe_error *error = NULL;
	FTSENT *entry;
	FTS *tree;

	*ret = (struct reader_folder){.path = path, .one = one, .parts = true};
	tree = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
	if (!tree)
		return probe_error_system(errno, "%s: cannot read the folder", path);
	while (!error && (entry = fts_read(tree)))
		error = visit(ret, tree, entry);
	if (!error && errno)
		error = probe_error_system(errno, "cannot read the folder");
	fts_close(tree);
	if (!error && !ret->count)
		error = probe_error_new(PROBE_ERROR_NOT_FOUND,
			"there is no record in it (a folder with a file `metadata`); "
			"`probectl record -o` makes one");
	return probe_error_prefix(error, "%s", path);
}

/* Returns the size in bytes of a record's files, without metadata. */
static uint64_t record_bytes(const char *record)
{
	AUTO_DIR DIR *folder = opendir(record);
	struct dirent *entry;
	struct stat status;
	uint64_t bytes = 0;

	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, "metadata") != 0 &&
			fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISREG(status.st_mode))
			bytes += (uint64_t)status.st_size;
	return bytes;
}

/* ==== Reader ================================================================================== */

struct probe_reader {
	const struct reader_ops *ops; /* operations of the source; NULL if no source is open */
	void *source;
	struct reader_folder folder; /* folder of the records; empty if the source is JSON */
	uint64_t bytes;		     /* size of the folder's records in bytes */
};

struct probe_error *reader_open(const char *path, bool one, struct probe_reader **ret)
{
	struct probe_reader *reader = calloc(1, sizeof(*reader));
	struct probe_error *error;

	if (!reader)
		return probe_error_no_memory();
	error = reader_folder_find(path, one, &reader->folder)
			?: reader_own_open(&reader->folder, &reader->source);
	if (error) {
		probe_reader_close(reader);
		return error;
	}
	reader->ops = &reader_own;
	for (size_t i = 0; i < reader->folder.count; i++)
		reader->bytes += record_bytes(reader->folder.records[i]);
	*ret = reader;
	return NULL;
}

struct probe_error *probe_reader_open(const char *path, struct probe_reader **ret)
{
	return reader_open(path, false, ret);
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
	for (size_t i = 0; i < reader->folder.count; i++)
		free(reader->folder.records[i]);
	free(reader->folder.records);
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
