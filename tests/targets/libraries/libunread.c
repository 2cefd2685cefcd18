/* SPDX-License-Identifier: MIT */
/*
 * flags: -D_GNU_SOURCE
 *
 * For LD_PRELOAD: reading other processes' memory at UNREAD=START-END (hexadecimal) fails, as
 * with a hardware error.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static bool is_bad(uint64_t start, uint64_t size)
{
	const char *text = getenv("UNREAD");
	unsigned long low, high;

	return text && sscanf(text, "%lx-%lx", &low, &high) == 2 && start < high &&
	       start + size > low;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
	const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	for (unsigned long i = 0; i < remote_count; i++)
		if (is_bad((uintptr_t)remote[i].iov_base, remote[i].iov_len)) {
			errno = EIO;
			return -1;
		}
	return syscall(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);
}

static bool is_memory(int fd)
{
	char path[64], link[64] = "";
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, link, sizeof(link) - 1);
	return length > 4 && strcmp(link + length - 4, "/mem") == 0;
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
	if (is_bad((uint64_t)offset, size) && is_memory(fd)) {
		errno = EIO;
		return -1;
	}
	return syscall(SYS_pread64, fd, buffer, size, offset);
}

ssize_t pread64(int fd, void *buffer, size_t size, off64_t offset)
{
	return pread(fd, buffer, size, offset);
}
