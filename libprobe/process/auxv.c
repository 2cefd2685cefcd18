/* SPDX-License-Identifier: MIT */
/* Sources: proc_pid_auxv(5), getauxval(3). */
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "libprobe/base/procfs.h"
#include "libprobe/process/process.h"

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

bool auxv_read_image(pid_t pid, uint64_t *ret)
{
	struct auxv auxv;

	/* Once the main thread has ended, its auxv file is empty: read another thread's file. */
	if (auxv_read(pid, &auxv) <= 0 && auxv_read(procfs_living(pid), &auxv) <= 0)
		return false;
	*ret = auxv_value(&auxv, AT_RANDOM);
	return true;
}

uint64_t auxv_value(const struct auxv *auxv, uint64_t type)
{
	ssize_t item = (ssize_t)sizeof(auxv->items[0]);

	for (ssize_t i = 0; i < auxv->bytes / item; i++)
		if (auxv->items[i][0] == type)
			return auxv->items[i][1];
	return 0;
}
