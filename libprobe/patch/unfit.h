/* SPDX-License-Identifier: MIT */
/* Sites at which no stub may run, however they could be patched. */
#ifndef LIBPROBE_PATCH_UNFIT_H
#define LIBPROBE_PATCH_UNFIT_H

#include "arch/arch.h"
#include "libprobe/patch/sequences.h"
#include "libprobe/process/modules.h"

struct unfit {
	const struct arch *arch;
	const struct module *module; /* borrowed */
	struct sequences sequences;
	/* Code from the start of a function on that does not lose the stack; link-time. */
	struct object_range harmless;
};

/* Looks at a module of a process. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *unfit_open(
	pid_t pid, const struct arch *arch, const struct module *module, struct unfit *ret);
void unfit_close(struct unfit *unfit);

/* Why no stub may run at an address of the process; NULL: it may. */
const char *unfit_reason(struct unfit *unfit, uint64_t pc);

#endif
