/* SPDX-License-Identifier: MIT */
/* Containers: their names and ids, and the processes in them. */
#ifndef CLI_CONTAINER_H
#define CLI_CONTAINER_H

#include <stdbool.h>

#include "libprobe/base/error.h"

/* Is a process whose control groups (/proc/PID/cgroup) are these in the container? */
bool container_has(const char *container, const char *groups);

/* The id of a container by its name, to be freed, or NULL: in Docker's folder of containers ... */
char *container_named_in_docker(const char *folder, const char *name);
/* ... and in a list of containers/storage, which is Podman's. */
char *container_named_in_storage(const char *path, const char *name);

#endif
