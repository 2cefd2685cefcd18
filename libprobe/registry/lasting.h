/* SPDX-License-Identifier: MIT */
/* Files that hold a session's memory and outlive the process that has it mapped. */
#ifndef LIBPROBE_REGISTRY_LASTING_H
#define LIBPROBE_REGISTRY_LASTING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"
#include "libprobe/process/maps.h"
#include "libprobe/registry/registry.h"

/*
 * A file to create: its path in the target's view (NULL: a file in memory, which does not last),
 * and the layout of the data that stubs write.
 */
struct lasting_file {
	const char *path;
	const struct reg_session *layout; /* before data_place() */
	int folder;			  /* the file's folder: lasting_find() */
};

/* Errors: PROBE_ERROR_USAGE (no absolute path, or none that ends in SHARED_SUFFIX). */
PROBE_MUST_CHECK struct probe_error *lasting_check(const char *path);

/*
 * How many bytes are free for the target's user where a process would create the file. Errors:
 * PROBE_ERROR_SYSTEM; PROBE_ERROR_USAGE (a file system on which hits could wait for ever, or fail).
 */
PROBE_MUST_CHECK struct probe_error *lasting_room(pid_t pid, const char *path, uint64_t *ret);

/*
 * Opens the folder in which the process will create a file. Links of users other than the process's
 * and root are not followed. Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_PERMISSION.
 */
PROBE_MUST_CHECK struct probe_error *lasting_find(pid_t pid, const char *path, int *ret);

/*
 * Opens the empty file that is descriptor `fd` of a thread of the target. Sets its size, allocates
 * its room, and sets a mode in which nobody truncates it by mistake. After an error its name is
 * removed. Errors: PROBE_ERROR_STATE, PROBE_ERROR_USAGE, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *lasting_open(
	pid_t pid, pid_t tid, int64_t fd, const struct lasting_file *file, int *fd_ret);

/* Removes the name of an open file that this thread has created and not mapped yet. */
void lasting_remove_open(pid_t pid, pid_t tid, int64_t fd);

/*
 * The pid of a process in its own pid namespace; 0: unknown. It tells a process from its forked
 * children, which have the same file mapped.
 */
uint32_t lasting_maker(pid_t pid);

/* The files that retired sessions have mapped. Initialise it with {0}. */
struct lasting_names {
	struct mapping *items; /* with paths of their own */
	size_t count;
};
/* Remembers the mapping at an address if it maps such a file. False without memory. */
bool lasting_note(struct lasting_names *names, const struct maps *maps, uint64_t address);
/* Removes each file whose name still refers to it, and frees the list. */
void lasting_remove(struct lasting_names *names, pid_t pid);
void lasting_deinit(struct lasting_names *names);

#endif
