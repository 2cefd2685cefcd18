/* SPDX-License-Identifier: MIT */
/* The restartable sequences (rseq(2)) that a program has of its own. */
#ifndef LIBPROBE_PATCH_SEQUENCES_H
#define LIBPROBE_PATCH_SEQUENCES_H

#include "libprobe/process/modules.h"

struct sequence {
	uint64_t start, end; /* addresses of the target */
};

/* Those of one module. Initialise with {0}. */
struct sequences {
	struct sequence *items;
	size_t count;
};

/*
 * Finds the sequences of a module that its data describes now, in the memory of a
 * process. What cannot be read describes none. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *sequences_read(
	pid_t pid, const struct module *module, struct sequences *ret);
void sequences_deinit(struct sequences *sequences);

/* Is the address in one of them? */
bool sequences_hold(const struct sequences *sequences, uint64_t address);

#endif
