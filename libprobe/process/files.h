/* SPDX-License-Identifier: MIT */
/*
 * Files that many processes have mapped: opened, read and planned once. A build starts
 * thousands of programs, and all map the same C library.
 */
#ifndef LIBPROBE_PROCESS_FILES_H
#define LIBPROBE_PROCESS_FILES_H

#include <sys/stat.h>

#include "elf/object.h"
#include "elf/sdt.h"
#include "libprobe/process/gadgets.h"

/* Shared by processes of one watch; used by one thread. */
struct files;

/* What a file is to programs that neither start nor load anything (libprobe/follow/leaf.h). */
enum file_role { FILE_UNKNOWN, FILE_OF_LEAF, FILE_OTHER };
enum file_leaf { LEAF_UNKNOWN, LEAF_YES, LEAF_NO };

struct file_plan;

/* One file, as it was when it was opened. */
struct file {
	size_t references;
	dev_t dev;
	ino_t inode;
	off_t size;
	struct timespec modified, changed;
	char *path;
	int fd; /* keeps its inode from being reused */
	struct object *object;
	struct sdt_notes notes;
	bool notes_read;
	struct arch_gadgets gadgets; /* see gadgets_find() */
	bool gadgets_known;
	struct file_plan *plans; /* of libprobe/patch/known.h; freed with free() */
	size_t plan_count;
	bool passed_over;    /* nothing is wanted of it: probe_watch_pass_over() */
	bool glibc_loads;    /* it is a program, which glibc's loader loads */
	enum file_role role; /* as code that a program maps */
	enum file_leaf leaf; /* as a program */
};

PROBE_MUST_CHECK struct probe_error *files_create(struct files **ret);
/* Takes a reference (NULL is allowed); release each with files_release(). */
struct files *files_hold(struct files *files);
void files_release(struct files *files);

/*
 * The file of a descriptor, which the caller keeps. `path` is for messages. Release the
 * result with file_release(). Errors: those of object_open_fd(), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *files_open(
	struct files *files, int fd, const char *path, struct file **ret);
void file_release(struct file *file);

/* The one with this status and path, the caller's to file_release(); NULL if it is not known. */
struct file *files_find(struct files *files, const struct stat *st, const char *path);

/* The one with this status, borrowed; NULL if it is not known. */
struct file *files_known(const struct files *files, const struct stat *st);

/*
 * The one that a process has mapped, according to /proc/PID/maps, if it has not been changed;
 * borrowed. NULL: it is not known, or its file system has other numbers there.
 */
struct file *files_mapped(const struct files *files, dev_t dev, ino_t inode);

/* Reads the notes of a file, once. Errors: those of sdt_read(). */
PROBE_MUST_CHECK struct probe_error *file_read_notes(struct file *file);

#endif
