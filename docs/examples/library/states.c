/* SPDX-License-Identifier: MIT */
/*
 * states PID [EXE]: which program a process runs, which of its probes are on, and what
 * controllers that died left in it. With EXE, only if the process runs that program.
 */
#include <probe/list.h>
#include <probe/target.h>

#include "example.h"

/* The sites, as a list gives them, without a target. */
static void print_sites(int pid)
{
	const struct probe_site *sites;
	struct probe_list *list;
	size_t count, on = 0;

	check(probe_list_create(&list));
	check(probe_list_add_process(list, pid));
	sites = probe_list_sites(list, &count);
	for (size_t i = 0; i < count; i++)
		on += sites[i].enabled;
	printf("%zu of %zu sites are on\n", on, count);
	probe_list_free(list);
}

/* Somebody has written over what was patched: its hits do not count. */
static void print_bad(const struct probe_bad_site *site, void *data)
{
	char text[PROBE_FAULT_BYTES];

	(void)data;
	probe_fault_text(text, site->fault, site->bytes, site->length);
	printf("%s:%s at %#llx %s\n", site->provider ? site->provider : "-",
		site->name ? site->name : "-", (unsigned long long)site->pc, text);
}

/* A library that was replaced since it was mapped: what probes it has is unknown. */
static void print_unread(const struct probe_unread *file, void *data)
{
	(void)data;
	printf("%s: %s\n", file->path, file->reason);
}

int main(int argc, char **argv)
{
	struct probe_repair repaired = {0};
	struct probe_target *target;
	struct probe_status *states;
	struct probe_stale stale;
	struct probe_kept *kept;
	char *program;
	size_t count;

	if (argc < 2)
		return 2;
	check(probe_target_open(atoi(argv[1]), argc > 2 ? argv[2] : NULL, &target));
	check(probe_target_executable(target, &program));
	printf("%d runs %s\n", probe_target_pid(target), program);
	free(program);
	check(probe_target_status(target, &states, &count));
	for (size_t i = 0; i < count; i++)
		printf("%s:%s %s, count %u, %zu of %zu sites patched\n", states[i].provider,
			states[i].name, states[i].enabled ? "on" : "off", states[i].refcount,
			states[i].patched, states[i].sites);
	free(states);
	check(probe_target_bad_sites(target, print_bad, NULL));
	check(probe_target_unread(target, print_unread, NULL));
	print_sites(probe_target_pid(target));
	check(probe_target_kept(target, &kept, &count));
	printf("%zu persistent sessions\n", count);
	free(kept);
	check(probe_target_stale(target, &stale));
	if (stale.sessions || stale.mappings || stale.descriptors || stale.frames) {
		check(probe_target_repair(target, &repaired));
		printf("removed %zu sessions of dead controllers\n", repaired.sessions);
	}
	printf("%s\n", probe_target_alive(target) ? "alive" : "gone");
	probe_target_close(target);
	return 0;
}
