/* SPDX-License-Identifier: MIT */
/*
 * Decodes all instructions that a function and its callees can reach. Each call must return to the
 * next instruction: connected functions may not call longjmp(3) and the like.
 *
 * A probe in the function may be patched later, but stubs preserve all registers, and run the
 * instructions that were decoded here.
 */
#include <stdlib.h>
#include <unistd.h>

#include "arch/arch.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/process/process.h"
#include "libprobe/self/self.h"

enum { INSNS_MAX = 1024, STARTS_MAX = 256 };

struct walk {
	const struct arch *arch;
	struct maps maps;
	uint64_t seen[INSNS_MAX]; /* addresses of decoded instructions */
	size_t seen_count;
	uint64_t starts[STARTS_MAX]; /* addresses of code that is still to be decoded */
	size_t start_count;
};

static bool is_seen(const struct walk *w, uint64_t address)
{
	for (size_t i = 0; i < w->seen_count; i++)
		if (w->seen[i] == address)
			return true;
	return false;
}

/* Fails if the code is in writable memory. */
static bool read_insn(const struct walk *w, uint64_t address, struct arch_insn *ret)
{
	const struct mapping *m = maps_find(&w->maps, address);
	const uint8_t *bytes = (const uint8_t *)(uintptr_t)address;
	size_t length;

	if (!m || !m->readable || !m->executable || m->writable || m->is_shared)
		return false;
	length = m->end - address < ARCH_INSN_MAX ? m->end - address : ARCH_INSN_MAX;
	return w->arch->decode(bytes, length, address, ret) &&
	       w->arch->is_general(bytes, ret->length);
}

static bool add_start(struct walk *w, uint64_t address)
{
	if (w->start_count == STARTS_MAX)
		return false;
	w->starts[w->start_count++] = address;
	return true;
}

/* Decodes code up to a jump, a return, or an instruction that was already decoded. */
static bool walk_from(struct walk *w, uint64_t address)
{
	struct arch_insn insn;

	while (!is_seen(w, address)) {
		if (w->seen_count == INSNS_MAX || !read_insn(w, address, &insn))
			return false;
		w->seen[w->seen_count++] = address;
		switch (insn.flow) {
		case ARCH_FLOW_NONE:
			break;
		case ARCH_FLOW_BRANCH:
		case ARCH_FLOW_CALL:
			if (!add_start(w, insn.target))
				return false;
			break;
		case ARCH_FLOW_JUMP:
			return add_start(w, insn.target);
		case ARCH_FLOW_RETURN:
		case ARCH_FLOW_STOP:
			return true;
		case ARCH_FLOW_INDIRECT_CALL:
		case ARCH_FLOW_INDIRECT_JUMP:
			return false;
		}
		address += insn.length;
	}
	return true;
}

bool general_function(uint64_t address)
{
	AUTO_FREE struct walk *w = calloc(1, sizeof(*w));
	struct probe_error *error;
	bool ok;

	if (!w)
		return false;
	w->arch = arch_host();
	if (!w->arch->decode || !w->arch->is_general)
		return false;
	error = maps_read(getpid(), &w->maps);
	ok = !error && add_start(w, address);
	while (ok && w->start_count)
		ok = walk_from(w, w->starts[--w->start_count]);
	maps_deinit(&w->maps);
	probe_error_free(error);
	return ok;
}
