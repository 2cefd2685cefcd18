/* SPDX-License-Identifier: MIT */
/*
 * Caches the files that processes have mapped. A file is identified by device and inode, which
 * cannot be reused while we have it open. It has changed if its size or one of its times has
 * changed. Even a wrong match does no harm: the bytes of each site are compared with those in
 * memory before they are written.
 *
 * Searches start with the most recently used file. If there are too many files, the least recently
 * used one is closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/process/process.h"

enum { FILES_MAX = 32 };

struct files {
	size_t references;
	struct file *items[FILES_MAX]; /* most recently used first */
	size_t count;
};

struct probe_error *files_create(struct files **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return probe_error_no_memory();
	(*ret)->references = 1;
	return NULL;
}

struct files *files_hold(struct files *files)
{
	if (files)
		files->references++;
	return files;
}

void files_release(struct files *files)
{
	if (!files || --files->references)
		return;
	while (files->count)
		file_release(files->items[--files->count]);
	free(files);
}

void file_release(struct file *file)
{
	if (!file || --file->references)
		return;
	sdt_notes_deinit(&file->notes);
	object_close(file->object);
	if (file->fd >= 0)
		close(file->fd);
	free(file->plans);
	free(file->path);
	free(file);
}

/* ---- Finding ------------------------------------------------------------------------ */

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool is_same(const struct file *file, const struct stat *st)
{
	return file->inode == st->st_ino && file->dev == st->st_dev && file->size == st->st_size &&
	       same_time(file->modified, st->st_mtim) && same_time(file->changed, st->st_ctim);
}

static struct probe_error *open_file(
	int fd, const struct stat *st, const char *path, struct file **ret)
{
	struct file *file = calloc(1, sizeof(*file));
	struct probe_error *error = NULL;

	if (!file)
		return probe_error_no_memory();
	*file = (struct file){.references = 1,
		.dev = st->st_dev,
		.inode = st->st_ino,
		.size = st->st_size,
		.modified = st->st_mtim,
		.changed = st->st_ctim,
		.path = strdup(path),
		.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)};
	if (!file->path)
		error = probe_error_no_memory();
	else if (file->fd < 0)
		error = probe_error_system(errno, "%s", path);
	else
		error = object_open_fd(file->fd, path, &file->object);
	if (error) {
		file->object = NULL;
		file_release(file);
		return error;
	}
	*ret = file;
	return NULL;
}

/* Inserts a file at the front. If there is no room, drops the last one. */
static void put_first(struct files *files, struct file *file)
{
	if (files->count == FILES_MAX)
		file_release(files->items[--files->count]);
	memmove(files->items + 1, files->items, files->count * sizeof(files->items[0]));
	files->items[0] = file;
	files->count++;
}

struct file *files_find(struct files *files, const struct stat *st, const char *path)
{
	for (size_t i = 0; i < files->count; i++) {
		struct file *file = files->items[i];

		if (!is_same(file, st) || strcmp(file->path, path) != 0)
			continue;
		files->count--;
		memmove(files->items + i, files->items + i + 1,
			(files->count - i) * sizeof(files->items[0]));
		put_first(files, file);
		file->references++;
		return file;
	}
	return NULL;
}

struct probe_error *files_open(struct files *files, int fd, const char *path, struct file **ret)
{
	struct probe_error *error;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return probe_error_system(errno, "%s", path);
	*ret = files_find(files, &st, path);
	if (*ret)
		return NULL;
	error = open_file(fd, &st, path, ret);
	if (error)
		return error;
	put_first(files, *ret);
	(*ret)->references++;
	return NULL;
}

struct file *files_known(const struct files *files, const struct stat *st)
{
	for (size_t i = 0; i < files->count; i++)
		if (is_same(files->items[i], st))
			return files->items[i];
	return NULL;
}

struct file *files_mapped(const struct files *files, dev_t dev, ino_t inode)
{
	for (size_t i = 0; i < files->count; i++) {
		struct file *file = files->items[i];
		struct stat st;

		if (file->inode == inode && file->dev == dev && fstat(file->fd, &st) == 0 &&
			is_same(file, &st))
			return file;
	}
	return NULL;
}

/* ---- Contents ------------------------------------------------------------------------ */

struct probe_error *file_read_notes(struct file *file)
{
	struct probe_error *error = file->notes_read ? NULL : sdt_read(file->object, &file->notes);

	file->notes_read = !error;
	return error;
}
