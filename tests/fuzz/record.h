/* SPDX-License-Identifier: MIT */
/*
 * A record of three files that are in memory, and reading it. Reading a file from a disk, or a file
 * system in memory, would take ten times as long as what is fuzzed here. So the linker leads some
 * calls of the C library here (--wrap, see the Makefile); whatever is not of this record goes on.
 */
#ifndef TESTS_FUZZ_RECORD_H
#define TESTS_FUZZ_RECORD_H

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/value.h"
#include "libprobe/record/record.h"
#include "tests/fuzz/require.h"

/* ---- The record, which is in memory --------------------------------------------------- */

enum { METADATA, STREAM, OTHER_STREAM, FILES };

/* A folder of three files. Their numbers as open files are those here, from FIRST_FD on. */
static const char folder_path[] = "/record";
static const char *const names[FILES] = {
	[METADATA] = "metadata", [STREAM] = "stream", [OTHER_STREAM] = "stream_2"};
enum { FIRST_FD = 1 << 20 };

static struct {
	const uint8_t *bytes;
	size_t size;
	size_t at; /* of read(2) */
} files[FILES];

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_close(int fd);
int __wrap_close(int fd);
ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size);
ssize_t __wrap_pread(int fd, void *to, size_t size, off_t from);
int __wrap_fstat(int fd, struct stat *ret);
int __wrap_lstat(const char *path, struct stat *ret);
int __wrap_scandir(const char *path, struct dirent ***ret, int (*filter)(const struct dirent *),
	int (*compare)(const struct dirent **, const struct dirent **));

/* The number of a file; FILES: it is none of the record. */
static size_t file_of(const char *path)
{
	const size_t length = sizeof(folder_path) - 1;
	size_t file = 0;

	if (strncmp(path, folder_path, length) != 0 || path[length] != '/')
		return FILES;
	while (file < FILES && strcmp(path + length + 1, names[file]) != 0)
		file++;
	return file;
}

int __wrap_open(const char *path, int flags, ...)
{
	size_t file = file_of(path);
	mode_t mode = 0;
	va_list ap;

	if (file < FILES) {
		files[file].at = 0;
		return FIRST_FD + (int)file;
	}
	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	return __real_open(path, flags, mode);
}

int __wrap_close(int fd)
{
	return fd >= FIRST_FD ? 0 : __real_close(fd);
}

ssize_t __wrap_pread(int fd, void *to, size_t size, off_t from)
{
	size_t file = (size_t)(fd - FIRST_FD);

	require(fd >= FIRST_FD && (size_t)from <= files[file].size, "pread(2) of another file");
	if (size > files[file].size - (size_t)from)
		size = files[file].size - (size_t)from;
	memcpy(to, files[file].bytes + from, size);
	return (ssize_t)size;
}

ssize_t __wrap_read(int fd, void *to, size_t size)
{
	size_t file = (size_t)(fd - FIRST_FD);
	ssize_t n;

	if (fd < FIRST_FD)
		return __real_read(fd, to, size);
	n = __wrap_pread(fd, to, size, (off_t)files[file].at);
	files[file].at += (size_t)n;
	return n;
}

int __wrap_fstat(int fd, struct stat *ret)
{
	require(fd >= FIRST_FD, "fstat(2) of another file");
	*ret = (struct stat){
		.st_mode = S_IFREG, .st_size = (off_t)files[(size_t)(fd - FIRST_FD)].size};
	return 0;
}

int __wrap_lstat(const char *path, struct stat *ret)
{
	size_t file = file_of(path);

	require(file < FILES, "lstat(2) of another file");
	return __wrap_fstat(FIRST_FD + (int)file, ret);
}

int __wrap_scandir(const char *path, struct dirent ***ret, int (*filter)(const struct dirent *),
	int (*compare)(const struct dirent **, const struct dirent **))
{
	require(strcmp(path, folder_path) == 0 && !filter && compare, "another folder");
	*ret = malloc(FILES * sizeof(**ret));
	require(*ret != NULL, "no memory");
	for (size_t i = 0; i < FILES; i++) {
		(*ret)[i] = calloc(1, sizeof(***ret));
		require((*ret)[i] != NULL, "no memory");
		strcpy((*ret)[i]->d_name, names[i]);
	}
	return FILES;
}

static void put(size_t file, const void *bytes, size_t size)
{
	files[file].bytes = bytes;
	files[file].size = size;
}

/* ---- Reading it ------------------------------------------------------------------------- */

/* Everything that an event points to can be read. */
static void check(const struct probe_event *event)
{
	size_t sum = event->comm ? strlen(event->comm) : 0;

	require(event->kind == PROBE_EVENT_LOST || (event->provider && event->name), "no names");
	for (size_t i = 0; i < event->arg_count; i++)
		for (size_t k = 0; value_has_bytes(&event->args[i]) && k < event->args[i].length;
			k++)
			sum += (unsigned char)event->args[i].bytes[k];
	for (size_t i = 0; event->stack && i < event->stack->count; i++) {
		const struct probe_frame *frame = event->stack->frames[i];

		sum += (frame->module ? strlen(frame->module) : 0) +
		       (frame->symbol ? strlen(frame->symbol) : 0) +
		       (frame->file ? strlen(frame->file) : 0);
	}
	require(sum != SIZE_MAX, "a sum of bytes");
}

static void read_all(void *source, size_t size)
{
	struct probe_error *error = NULL;
	struct probe_event event;
	size_t events = 0;
	bool there = true;

	while (!error && there) {
		error = reader_own.next(source, &event, &there);
		if (error || !there)
			break;
		check(&event);
		/* A header has a time and an id; a packet makes three losses at most. */
		require(++events <= size, "more events than bytes");
	}
	require(!error || error->code == PROBE_ERROR_FORMAT, "another error than that of a format");
	probe_error_free(error);
	require(!reader_own.next(source, &event, &there) && !there, "something after the end");
}

/* Reads the record that was put into memory. */
static void read_record(void)
{
	char *records[] = {(char *)folder_path};
	struct reader_folder folder = {
		.path = folder_path, .records = records, .count = 1, .parts = true};
	size_t size = files[STREAM].size + files[OTHER_STREAM].size;
	struct probe_error *error;
	void *source;

	error = reader_own_open(&folder, &source);
	if (!error) {
		read_all(source, size);
		reader_own.close(source);
	}
	require(!error || error->code == PROBE_ERROR_FORMAT, "another error than that of a format");
	probe_error_free(error);
}

#endif
