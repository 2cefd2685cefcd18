/* SPDX-License-Identifier: MIT */
/*
 * glibc exports what is needed, some of it for debuggers only:
 *
 *   _thread_db_pthread_tid   in libc: {bits, elements, offset} of the thread's
 *                            id in its control block (nptl_db), which is at
 *                            the thread pointer on x86-64
 *   __rseq_offset, _size     in the loader, since 2.35: the thread's struct
 *                            rseq, from the thread pointer; size 0: none
 */
#include <string.h>

#include "libprobe/memory.h"
#include "libprobe/target_internal.h"
#include "libprobe/threads.h"

enum { RSEQ_SIGNATURE = 0x53053053, TID_BITS = 32, OFFSET_MAX = 1 << 16 };

bool threads_is_loader(const struct module *module)
{
	uint64_t value, size;

	return module->object &&
	       object_symbol(module->object, "_dl_debug_state", 15, &value, &size);
}

static bool read_tid_offset(struct modules *modules, int32_t *ret)
{
	static const char name[] = "_thread_db_pthread_tid";

	for (size_t i = 0; i < modules->count; i++) {
		struct module *m = &modules->items[i];
		uint64_t value, size;
		uint32_t field[3];

		if (!m->object || !object_symbol(m->object, name, strlen(name), &value, &size) ||
			object_read(m->object, value, field, sizeof(field)) != sizeof(field))
			continue;
		if (field[0] != TID_BITS || field[2] >= OFFSET_MAX)
			return false;
		*ret = field[2];
		return true;
	}
	return false;
}

/* A variable of the loader, as it is in the process now. */
static bool read_variable(
	pid_t pid, struct modules *modules, const char *name, void *value, size_t size)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct module *m = &modules->items[i];
		uint64_t address, symbol_size;

		if (m->object &&
			object_symbol(m->object, name, strlen(name), &address, &symbol_size))
			return memory_read(pid, address + m->bias, value, size) == size;
	}
	return false;
}

void threads_model(struct probe_target *target, struct modules *modules, struct arch_thread *ret)
{
	bool starting = target->held && !target->attached;
	int64_t offset = 0;
	uint32_t size = 0;

	*ret = (struct arch_thread){0};
	if (starting && !target->facts.known)
		return;
	ret->has_tid = read_tid_offset(modules, &ret->tid_offset);
	ret->has_tp = ret->has_tid;
	if (starting) {
		ret->has_rseq = target->facts.has_rseq;
		ret->rseq_offset = target->facts.rseq_offset;
		ret->rseq_signature = target->facts.rseq_signature;
		return;
	}
	ret->rseq_signature = RSEQ_SIGNATURE;
	ret->has_rseq =
		ret->has_tp &&
		read_variable(target->pid, modules, "__rseq_size", &size, sizeof(size)) && size &&
		read_variable(target->pid, modules, "__rseq_offset", &offset, sizeof(offset)) &&
		/* A loader at work sets the size first; 0 is where the thread's id would be. */
		offset && offset > -OFFSET_MAX && offset < OFFSET_MAX;
	ret->rseq_offset = offset;
}
