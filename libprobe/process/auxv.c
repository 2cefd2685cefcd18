/* SPDX-License-Identifier: MIT */
/* Sources: proc_pid_auxv(5), getauxval(3). */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "libprobe/process/auxv.h"

ssize_t auxv_read(pid_t pid, struct auxv *ret)
{
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ret->bytes = -1;
	if (fd < 0)
		return -1;
	ret->bytes = read(fd, ret->items, sizeof(ret->items));
	close(fd);
	if (ret->bytes < 0)
		ret->bytes = 0;
	return ret->bytes;
}

uint64_t auxv_value(const struct auxv *auxv, uint64_t type)
{
	ssize_t item = (ssize_t)sizeof(auxv->items[0]);

	for (ssize_t i = 0; i < auxv->bytes / item; i++)
		if (auxv->items[i][0] == type)
			return auxv->items[i][1];
	return 0;
}
