/* SPDX-License-Identifier: MIT */
/*
 * Modules are read before the target is stopped, so a library may be gone when its bytes are
 * read or written. If it was opened again since, at the same address, its bytes look as if another
 * tool had written them: such a site is refused.
 */
#include "libprobe/patch/patch.h"
#include "libprobe/registry/registry.h"

enum { CLOSINGS_MAX = 50 };

static bool is_there(const struct module *module, const struct modules *now)
{
	for (size_t i = 0; i < now->count; i++)
		if (now->items[i].bias == module->bias && now->items[i].inode == module->inode &&
			now->items[i].dev_major == module->dev_major &&
			now->items[i].dev_minor == module->dev_minor)
			return true;
	return false;
}

/* Is a module of the selections not mapped any more? */
static bool any_closed(const struct install *installs)
{
	const struct change *change = installs->change;
	bool closed = false;
	struct modules now = {0};
	struct probe_error *error = modules_read(change->pid, change->target->files, &now);

	for (const struct install *a = installs; a && !error && !closed; a = a->next)
		for (size_t i = 0; i < a->selection->probe_count && !closed; i++)
			closed = !is_there(a->selection->probes[i].module, &now);
	probe_error_free(error);
	modules_deinit(&now);
	return closed;
}

struct probe_error *closed_error(const struct install *installs, struct probe_error *error)
{
	const struct change *change = installs->change;
	struct probe_target *target = change->target;

	if (!error && !change->gone && !change->differs)
		return NULL;
	if (target->closings == CLOSINGS_MAX || (!change->gone && !any_closed(installs)))
		return error;
	target->closings++;
	probe_error_free(error);
	target->lessons++;
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d has closed a library while its sites were being patched: try again",
		change->pid);
}
