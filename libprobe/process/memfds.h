/* SPDX-License-Identifier: MIT */
/* Files from memfd_create(2) that a process has open: they have no path to open them by. */
#ifndef LIBPROBE_PROCESS_MEMFDS_H
#define LIBPROBE_PROCESS_MEMFDS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "libprobe/process/maps.h"

/* Initialise with {0}. */
struct memfds {
	struct memfd *items;
	size_t count;
	bool is_read;
};

/*
 * Opens the file of a mapping for reading through one of the process's descriptors. Returns -1
 * if no descriptor refers to it, if access is denied, or with an *err_ret that procfs_no_room()
 * recognises. The first call reads all descriptors.
 */
int memfds_open(struct memfds *memfds, pid_t pid, const struct mapping *mapping, int *err_ret);
void memfds_deinit(struct memfds *memfds);

#endif
