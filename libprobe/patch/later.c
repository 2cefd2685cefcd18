/* SPDX-License-Identifier: MIT */
/*
 * A program opens libraries while it runs. To enable the probes of those as well, without adding to
 * the counts of what is on already, the modules that have been served are kept with the target. A
 * library that is closed and opened again is another module unless it comes to the same address.
 */
#include <stdlib.h>

#include "libprobe/patch/patch.h"
#include "libprobe/registry/registry.h"

static bool is_noted(const struct probe_target *target, const struct module *module)
{
	for (size_t i = 0; i < target->served_count; i++) {
		const struct target_module *served = &target->served[i];

		if (served->start == module->start && served->inode == module->inode &&
			served->dev_major == module->dev_major &&
			served->dev_minor == module->dev_minor)
			return true;
	}
	return false;
}

void later_drop(const struct probe_target *target, const struct probe_request *request,
	struct selection *selection)
{
	if (!request->later)
		return;
	for (size_t i = 0; i < selection->probe_count; i++)
		selection->probes[i].unwanted = is_noted(target, selection->probes[i].module);
	selection_drop_unwanted(selection);
}

struct probe_error *later_reserve(struct probe_target *target, const struct modules *modules)
{
	struct target_module *served = reallocarray(
		target->served, target->served_count + modules->count + 1, sizeof(*served));

	if (!served)
		return probe_error_no_memory();
	target->served = served;
	return NULL;
}

void later_note(struct probe_target *target, const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->items[i];

		if (!is_noted(target, module))
			target->served[target->served_count++] = (struct target_module){
				module->start, module->inode, module->dev_major, module->dev_minor};
	}
}
