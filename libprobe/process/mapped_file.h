/* SPDX-License-Identifier: MIT */
/* Opening the files that a process has mapped, whatever has become of their paths. */
#ifndef LIBPROBE_PROCESS_MAPPED_FILE_H
#define LIBPROBE_PROCESS_MAPPED_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "libprobe/process/memfds.h"
#include "libprobe/process/maps.h"

/* What is known while the files of one process are opened. Begin with mapped_files_of(). */
struct mapped_files {
	pid_t pid;
	const struct maps *maps;
	bool no_map_files; /* access to map_files was denied */
	int exe;	   /* /proc/PID/exe once opened, or -1 */
	struct stat exe_st;
	/* The last device examined; one that does not answer is asked only once. */
	uint32_t dev_major, dev_minor;
	bool known, distant, silent;
	struct memfds memfds;
};

static inline struct mapped_files mapped_files_of(pid_t pid, const struct maps *maps)
{
	return (struct mapped_files){.pid = pid, .maps = maps, .exe = -1};
}

void mapped_files_deinit(struct mapped_files *files);
/*
 * The mapped file, or a copy if its file system might not answer; the caller closes it. On failure
 * -1; *err_ret is 0 if no descriptor or path refers to the file.
 */
int mapped_open(struct mapped_files *files, const struct mapping *mapping, int *err_ret);
/*
 * What stat(2) says of the mapped file; false if that cannot be known without opening it, or if its
 * file system might not answer.
 */
bool mapped_stat(struct mapped_files *files, const struct mapping *mapping, struct stat *ret);
/*
 * The file that is at the path of a mapping now, which is another one; the caller closes it. -1:
 * there is none, or it cannot be opened.
 */
int mapped_successor(struct mapped_files *files, const struct mapping *mapping);
/* Is it a copy of what is mapped (an upgrade to the same version)? Goes by headers and build id. */
bool mapped_is_copy(const struct mapped_files *files, const struct mapping *mapping, int fd);
/*
 * Why mapped_open() failed, and what helps, as a text that the caller frees; NULL without memory.
 * `replaced`: another file is at its path.
 */
char *mapped_failure(const struct mapping *mapping, bool replaced, int err);
/* Whether it is a file in memory, of memfd_create(2). */
bool mapped_is_memory(const struct mapping *mapping);

#endif
