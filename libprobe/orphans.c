/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/syscall.h>

#include "libprobe/memory.h"
#include "libprobe/orphans.h"

enum { AT_ONCE = 64 };

static bool has_data(const struct registry *r, uint64_t start)
{
	for (size_t i = 0; i < r->session_count; i++)
		if (r->sessions[i].data == start)
			return true;
	return false;
}

/*
 * Data leads to the home of the process that it is in, or nowhere yet. A probectl
 * that is itself a target has data mapped, too, which leads to the home of
 * another process. No other controller is just about to announce it: the target
 * is locked.
 */
static bool is_orphan(const struct change *change, const struct mapping *m)
{
	struct data_header header;

	return m->is_shared && m->offset == 0 && strcmp(m->path, "/memfd:" DATA_NAME) == 0 &&
	       !has_data(&change->registry, m->start) &&
	       memory_read(change->pid, m->start, &header, sizeof(header)) == sizeof(header) &&
	       (header.magic == 0 ||
		       (header.magic == DATA_MAGIC && header.home == change->registry.home));
}

struct probe_error *orphans_unmap(struct change *change)
{
	struct control_call calls[AT_ONCE];
	struct probe_error *error = NULL;
	size_t count = 0;

	for (size_t i = 0; i < change->maps.count && !error; i++) {
		const struct mapping *m = &change->maps.items[i];

		if (!is_orphan(change, m))
			continue;
		calls[count++] =
			(struct control_call){SYS_munmap, {m->start, m->end - m->start}, 0};
		if (count < AT_ONCE)
			continue;
		error = change_run(change, "unmap memory", calls, count);
		count = 0;
	}
	return error || !count ? error : change_run(change, "unmap memory", calls, count);
}
