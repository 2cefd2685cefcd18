/* SPDX-License-Identifier: MIT */
/* Files of a target that cannot be read: libprobe/registry/recall.c explains them. */
#include "libprobe/registry/registry.h"
#include "libprobe/base/procfs.h"

struct probe_error *probe_target_unread(struct probe_target *target,
	void (*visit)(const struct probe_unread *file, void *data), void *data)
{
	struct maps maps = {0};
	struct modules modules = {0};
	struct registry registry = {0};
	struct probe_error *error = maps_read(target->pid, &maps);

	if (!error)
		error = modules_read_mapped(procfs_living(target->pid), &maps, NULL, &modules);
	if (!error)
		error = registry_load(target->pid, &maps, &registry);
	for (size_t i = 0; i < modules.count && !error; i++)
		error = module_read_notes(&modules.items[i]);
	if (!error)
		error = recall_probes(&modules, target->pid, &maps, &registry, NULL, 0);
	for (size_t i = 0; i < modules.count && !error; i++) {
		const struct module *module = &modules.items[i];

		if (module->reason)
			visit(&(struct probe_unread){module->path, module->reason, module->unnamed},
				data);
	}
	registry_deinit(&registry);
	modules_deinit(&modules);
	maps_deinit(&maps);
	return error;
}
