/* SPDX-License-Identifier: MIT */
/* Memory files that a target has made for us, as the controller sees them. */
#ifndef LIBPROBE_PROCESS_SHARED_H
#define LIBPROBE_PROCESS_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/process/maps.h"
#include "libprobe/base/error.h"

/*
 * The flags of memfd_create(2) for a file that shared_open() accepts, and the flag to add if
 * the kernel refuses that with EACCES, as some do with the sysctl vm.memfd_noexec.
 */
enum {
	SHARED_MEMFD_FLAGS = 3,	     /* MFD_CLOEXEC | MFD_ALLOW_SEALING */
	SHARED_MEMFD_NOEXEC_SEAL = 8 /* MFD_NOEXEC_SEAL */
};

/*
 * Opens the empty memfd that is descriptor `fd` of a thread of the target. Does not touch any
 * other file. With the target's `pidfd` (-1: none) it is quicker.
 *
 * Errors: PROBE_ERROR_STATE (the target has replaced the file), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *shared_open(
	pid_t pid, pid_t tid, int pidfd, int64_t fd, int *fd_ret);

/*
 * Sets the size of a file that shared_open() has opened; it cannot change after that. Errors as
 * above; PROBE_ERROR_STATE, too, where the target has changed the file.
 */
PROBE_MUST_CHECK struct probe_error *shared_set_size(pid_t pid, int fd, size_t size);

/*
 * Is descriptor `fd` of that thread still the file that is our descriptor `ours`? Where that is
 * -1: a file with our name. `is_taken`: kcmp(2) may be called, and finds out more quickly if
 * shared_open() had a pidfd.
 */
bool shared_is_same(pid_t pid, pid_t tid, int64_t fd, int ours, bool is_taken);

/* The error for a target where it is not. */
struct probe_error *shared_replaced(pid_t pid) __attribute__((returns_nonnull, warn_unused_result));

#define SHARED_NAME "probectl" /* name of our memfds in /proc/PID/maps */

#define SHARED_SUFFIX ".probectl" /* of the names of files that outlive their process */

/* Whether a mapping is code memory of ours, for any use. Recognised by its name, as data is. */
bool shared_is_code(const struct mapping *mapping);

/* Whether a path is, or a mapping may be, of a session's memory that outlives its process. */
bool shared_is_lasting_name(const char *path);
bool shared_is_lasting(const struct mapping *mapping);

/* Whether a mapping may be a session's data; only its first bytes tell whether it is. */
bool shared_is_data(const struct mapping *mapping);
/*
 * Does a mapping have one of our names, even if the program has changed its protection
 * (mprotect(2))?
 */
bool shared_is_named(const struct mapping *mapping);
/* Has a process a mapping of either kind? */
bool shared_any(const struct maps *maps);

#endif
