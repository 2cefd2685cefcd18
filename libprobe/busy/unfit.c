/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "libprobe/busy/unfit.h"

enum { FUNCTION_MAX = 1 << 20 };

struct probe_error *unfit_open(
	pid_t pid, const struct arch *arch, const struct module *module, struct unfit *ret)
{
	*ret = (struct unfit){.arch = arch, .module = module};
	return sequences_read(pid, module, &ret->sequences);
}

void unfit_close(struct unfit *unfit)
{
	sequences_deinit(&unfit->sequences);
}

/* The code from the start of its function on; without a function, nothing is known. */
static bool loses_stack(const struct unfit *u, uint64_t pc)
{
	struct object *object = u->module->object;
	uint64_t address = pc - u->module->bias, start = address;
	struct object_function function;
	bool loses = true; /* what cannot be read is taken to do so */
	uint8_t *bytes;
	size_t size;

	if (object_function_at(object, address, &function))
		start = function.range.start;
	else if (!object_symbol_at(object, address, &start))
		return false;
	size = address - start;
	if (start >= address || size > FUNCTION_MAX)
		return false;
	bytes = malloc(size);
	if (bytes && object_read(object, start, bytes, size) == size)
		loses = u->arch->loses_stack(bytes, size);
	free(bytes);
	return loses;
}

const char *unfit_reason(const struct unfit *unfit, uint64_t pc)
{
	if (sequences_hold(&unfit->sequences, pc))
		return "it is in a restartable sequence of the program (rseq(2)), which a probe "
		       "would keep from being aborted";
	if (unfit->arch->loses_stack && loses_stack(unfit, pc))
		return "the stack pointer points to no stack there";
	return NULL;
}
