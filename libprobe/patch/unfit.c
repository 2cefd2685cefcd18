/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "libprobe/patch/patch.h"

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

/* Does code of the file do so? What cannot be read is taken to do so. */
static bool does(const struct unfit *u, bool (*question)(const uint8_t *bytes, size_t length),
	uint64_t start, uint64_t end)
{
	size_t size = end - start;
	uint8_t *bytes = malloc(size);
	bool answer = true;

	if (bytes && object_read(u->module->object, start, bytes, size) == size)
		answer = question(bytes, size);
	free(bytes);
	return answer;
}

/*
 * The code from the start of its function on; without a function, nothing is known. A function may
 * have thousands of sites: what was searched for one of them is not searched again for the others.
 */
static bool loses_stack(struct unfit *u, uint64_t pc)
{
	struct object *object = u->module->object;
	uint64_t address = pc - u->module->bias, start = address;
	uint64_t from;
	struct object_function function;

	if (object_function_at(object, address, &function))
		start = function.range.start;
	else if (!object_symbol_at(object, address, &start))
		return false;
	if (start >= address || address - start > FUNCTION_MAX)
		return false;
	if (u->harmless.start != start)
		u->harmless = (struct object_range){start, start};
	if (address <= u->harmless.end)
		return false;
	/* An instruction may begin before the end of what was searched. */
	from = u->harmless.end - start > ARCH_INSN_MAX ? u->harmless.end - ARCH_INSN_MAX : start;
	if (does(u, u->arch->may_lose_stack, from, address))
		return does(u, u->arch->loses_stack, start, address);
	u->harmless.end = address;
	return false;
}

const char *unfit_reason(struct unfit *unfit, uint64_t pc)
{
	if (sequences_hold(&unfit->sequences, pc))
		return "it is in a restartable sequence of the program (rseq(2)), which a probe "
		       "would keep from being aborted";
	if (unfit->arch->loses_stack && loses_stack(unfit, pc))
		return "the stack pointer points to no stack there";
	return NULL;
}
