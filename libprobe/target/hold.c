/* SPDX-License-Identifier: MIT */
/*
 * Targets that stand still between one call and the next: those that were started
 * (libprobe/follow/spawn.c, libprobe/follow/launch.c), and those that were stopped to be changed in
 * several steps.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "libprobe/target/change.h"
#include "libprobe/target/target.h"

/* Stops it. Whoever else is changing it has to be done first. */
static struct probe_error *stop(struct probe_target *target)
{
	struct change c;
	struct probe_error *error = change_begin(target, &c);

	if (!error)
		error = change_stop(&c);
	if (error) {
		change_end(&c);
		return error;
	}
	target->control = c.control;
	target->held = target->attached = true;
	c.stopped = false;
	/* Others work on while our caller thinks. */
	control_calm(&target->control);
	change_end(&c);
	return NULL;
}

struct probe_error *probe_target_attach(struct probe_target *target)
{
	if (target->held)
		return probe_error_new(PROBE_ERROR_STATE, "process %d is %s already", target->pid,
			target->attached ? "attached to" : "held");
	return stop(target);
}

struct probe_error *probe_target_release(struct probe_target *target)
{
	struct probe_repair repair = {0};
	bool collect = target->attached && target->dropped;

	if (!target->held)
		return probe_error_new(PROBE_ERROR_STATE, "process %d is not held", target->pid);
	target->held = target->early = target->alone = target->hurry = target->attached = target->dropped = false;
	control_resume(&target->control);
	/* A thread may have stood in code that was no longer needed. */
	return collect && probe_target_alive(target) ? probe_target_repair(target, &repair) : NULL;
}

void probe_target_close(struct probe_target *target)
{
	if (!target)
		return;
	if (target->held && target->spawned)
		kill(target->pid, SIGKILL);
	if (target->held)
		probe_error_free(probe_target_release(target));
	if (target->mem >= 0)
		close(target->mem);
	while (target->texts) {
		struct target_text *text = target->texts;

		target->texts = text->next;
		free(text);
	}
	files_release(target->files);
	free(target->events);
	free(target);
}
