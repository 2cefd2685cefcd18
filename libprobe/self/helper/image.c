/* SPDX-License-Identifier: MIT */
/*
 * A program that uses libprobe.so executes the very file that it has mapped, so both are the same
 * build. One that is linked with libprobe.a must not execute its own file, which is the program. It
 * takes the libprobe.so of this version from where that was installed; the controller then tells
 * which build it is.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"
#include "libprobe/self/helper/image.h"

/* The file that this code is mapped from. */
static int open_own(void)
{
	struct maps maps = {0};
	struct probe_error *error = maps_read(getpid(), &maps);
	struct mapped_files files = mapped_files_of(getpid(), &maps);
	const struct mapping *mapping =
		error ? NULL : maps_find(&maps, (uint64_t)(uintptr_t)image_open);
	int unused, fd = mapping ? mapped_open(&files, mapping, &unused) : -1;

	mapped_files_deinit(&files);
	maps_deinit(&maps);
	probe_error_free(error);
	return fd;
}

int image_open(void)
{
	struct rlimit stack;

	/* A limit that is lower than this one can be raised. */
	if (getrlimit(RLIMIT_STACK, &stack) < 0 || stack.rlim_max < IMAGE_STACK_BYTES)
		return -1;
	/* A filter is the caller's thread's. */
	if (procfs_status_number((pid_t)syscall(SYS_gettid), "Seccomp:") != 0)
		return -1;
	return image_entry ? open_own() : open(PROBE_IMAGE, O_RDONLY | O_CLOEXEC);
}
