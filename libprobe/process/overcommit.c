/* SPDX-License-Identifier: MIT */
/*
 * A page of a memfd is committed when it is first touched, not when the file gets its size. With
 * vm.overcommit_memory=2, the kernel refuses to commit a page beyond the commit limit, and sends
 * SIGBUS to the process that touched it. Stubs touch pages in the target, so the target would get
 * it. With the other settings the kernel refuses no single page (before Linux 5.2: as long as it
 * can free one): if memory runs out, it kills a process.
 *
 * fallocate(2) commits pages before they are touched, and reports an error instead. The pages are
 * charged to the control group of the process that calls it.
 *
 * Sources: Documentation/mm/overcommit-accounting.rst of Linux; shmem_inode_acct_blocks() in
 * mm/shmem.c, __vm_enough_memory() in mm/util.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/file.h"
#include "libprobe/process/process.h"

enum {
	NEVER = 2, /* OVERCOMMIT_NEVER of Linux */
	TEXT_MAX = 4096,
	PATH_BYTES = 256,
	AT_ONCE = 16 << 20 /* an interrupted call is undone; earlier calls are not */
};

static bool is_strict_in(const char *folder)
{
	char path[PATH_BYTES], text[16];

	snprintf(path, sizeof(path), "%s/sys/vm/overcommit_memory", folder);
	return file_read(path, text, sizeof(text)) && strtol(text, NULL, 10) == NEVER;
}

/* Returns a value of /proc/meminfo in bytes; 0 if it is missing. */
static uint64_t figure(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) << 10 : 0;
}

uint64_t overcommit_room_in(const char *folder)
{
	char path[PATH_BYTES], text[TEXT_MAX];
	uint64_t limit, used;

	if (!is_strict_in(folder))
		return UINT64_MAX;
	snprintf(path, sizeof(path), "%s/meminfo", folder);
	file_read_whole(path, text, sizeof(text));
	limit = figure(text, "\nCommitLimit:");
	used = figure(text, "\nCommitted_AS:");
	return used < limit ? limit - used : 0;
}

bool overcommit_is_strict(void)
{
	return is_strict_in("/proc");
}

uint64_t overcommit_room(void)
{
	return overcommit_room_in("/proc");
}

int overcommit_fill(int fd, uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end;) {
		uint64_t bytes = end - at < AT_ONCE ? end - at : AT_ONCE;

		if (fallocate(fd, 0, (off_t)at, (off_t)bytes) == 0)
			at += bytes;
		else if (errno != EINTR)
			return errno;
	}
	return 0;
}
