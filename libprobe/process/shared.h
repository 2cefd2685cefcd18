/* SPDX-License-Identifier: MIT */
/* Files in memory that a target has made for us, seen from the controller. */
#ifndef LIBPROBE_PROCESS_SHARED_H
#define LIBPROBE_PROCESS_SHARED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/process/maps.h"
#include "probe/error.h"

/*
 * The flags of memfd_create(2) for a file that shared_open() takes; and the one to add where
 * the kernel refuses that with EACCES, as some do with the sysctl vm.memfd_noexec.
 */
enum {
	SHARED_MEMFD_FLAGS = 3,	     /* MFD_CLOEXEC | MFD_ALLOW_SEALING */
	SHARED_MEMFD_NOEXEC_SEAL = 8 /* MFD_NOEXEC_SEAL */
};

/*
 * Opens the empty memfd that is the target's descriptor `fd`, and gives it its
 * size, which nobody can change from then on. Any other file is left as it is.
 *
 * Errors: PROBE_ERROR_STATE (the target has put another file in its place, or
 * touched it), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *shared_open(pid_t pid, int64_t fd, size_t size, int *fd_ret);

#define SHARED_NAME "probectl" /* of our memfds: shown in /proc/PID/maps */

/* Code memory, of whatever use: it is known by its name, as data is. */
bool shared_is_code(const struct mapping *mapping);

#endif
