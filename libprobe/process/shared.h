/* SPDX-License-Identifier: MIT */
/* Memory files that a target has made for us, as the controller sees them. */
#ifndef LIBPROBE_PROCESS_SHARED_H
#define LIBPROBE_PROCESS_SHARED_H

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
 * Opens the empty memfd that is the target's descriptor `fd`, and sets its size, which cannot
 * change after that. Does not touch any other file.
 *
 * Errors: PROBE_ERROR_STATE (the target has replaced or changed the file), PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *shared_open(pid_t pid, int64_t fd, size_t size, int *fd_ret);

#define SHARED_NAME "probectl" /* name of our memfds in /proc/PID/maps */

/* Whether a mapping is code memory of ours, for any use. Its name tells, as for data. */
bool shared_is_code(const struct mapping *mapping);

#endif
