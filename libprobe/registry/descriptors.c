/* SPDX-License-Identifier: MIT */
/*
 * Counts the descriptors that we can still open. A change that runs out of them cannot even be
 * undone, so this is done before it begins.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/resource.h>

#include "libprobe/registry/registry.h"

enum { DESCRIPTORS_MAX = 32 };

/* Counts unused numbers just below *end, by poll(2). Moves *end down past them. */
static size_t count_unused(rlim_t *end)
{
	struct pollfd fds[DESCRIPTORS_MAX];
	nfds_t count = *end < DESCRIPTORS_MAX ? *end : DESCRIPTORS_MAX;
	size_t unused = 0;

	*end -= count;
	for (nfds_t i = 0; i < count; i++)
		fds[i] = (struct pollfd){.fd = (int)(*end + i)};
	if (poll(fds, count, 0) < 0)
		return 0;
	for (nfds_t i = 0; i < count; i++)
		unused += (fds[i].revents & POLLNVAL) != 0;
	return unused;
}

struct probe_error *change_need_descriptors(const struct change *change, size_t count)
{
	struct rlimit limit = {0};
	size_t unused = 0;
	rlim_t end;

	getrlimit(RLIMIT_NOFILE, &limit);
	/* Count from the highest number down: the kernel gives out the lowest number first. */
	for (end = limit.rlim_cur < INT_MAX ? limit.rlim_cur : INT_MAX; end && unused < count;)
		unused += count_unused(&end);
	if (unused >= count)
		return NULL;
	return probe_error_system(EMFILE,
		"%zu more descriptors are needed to change the probes of process %d, or to undo "
		"the change (ulimit -n)",
		count, change->pid);
}
