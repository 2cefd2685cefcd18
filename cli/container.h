/* SPDX-License-Identifier: MIT */
/* Containers: their names and ids, and the processes in them. */
#ifndef CLI_CONTAINER_H
#define CLI_CONTAINER_H

#include <stdbool.h>

#include "libprobe/base/error.h"

/*
 * Returns true if a process is in the container. `groups` is the text of the process's
 * /proc/PID/cgroup.
 */
bool container_has(const char *container, const char *groups);

/*
 * Finds a container by its name in Docker's folder of containers. Returns the container's id,
 * which the caller frees, or NULL.
 */
char *container_named_in_docker(const char *folder, const char *name);
/*
 * Finds a container by its name in a list of containers/storage (Podman). Returns the container's
 * id, which the caller frees, or NULL.
 */
char *container_named_in_storage(const char *path, const char *name);

#endif
