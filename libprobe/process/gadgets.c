/* SPDX-License-Identifier: MIT */
/*
 * Finds code in libc or the vDSO with which a thread can make system calls without any code of
 * ours: a system call that returns, the call of rt_sigreturn(2) that signal handlers return to, and
 * the end of a function that has a frame pointer. On x86-64 these are `syscall; ret` and `leave;
 * ret`, which may be part of other instructions.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/process/process.h"

enum {
	PIECE_MAX = UINT8_MAX,
	VDSO_MAX = 64 << 10,
	PART_BYTES = 64 << 10 /* glibc has all gadgets in the first 128 KiB of its code */
};

bool gadgets_are_there(
	pid_t pid, const struct arch_gadgets *gadgets, const struct memory_piece *more)
{
	const struct arch_process *arch = arch_process();
	struct arch_gadgets found = {0};
	uint8_t call[PIECE_MAX], handler[PIECE_MAX], leave[PIECE_MAX];
	struct memory_piece pieces[] = {{gadgets->call, call, arch->call_bytes},
		{gadgets->sigreturn, handler, arch->sigreturn_bytes},
		{gadgets->leave, leave, arch->leave_bytes}, *more};
	struct probe_error *error = memory_read_pieces(pid, pieces, more->size ? 4 : 3);

	if (error && more->size) {
		probe_error_free(error);
		memset(more->buffer, 0, more->size);
		error = memory_read_pieces(pid, pieces, 3);
	}
	probe_error_free(error);
	if (error)
		return false;
	arch->find_gadgets(handler, arch->sigreturn_bytes, gadgets->sigreturn, &found);
	found.call = found.leave = 0; /* check each gadget at its own address */
	arch->find_gadgets(call, arch->call_bytes, gadgets->call, &found);
	arch->find_gadgets(leave, arch->leave_bytes, gadgets->leave, &found);
	return found.call == gadgets->call && found.leave == gadgets->leave &&
	       found.leave_above == gadgets->leave_above && found.sigreturn == gadgets->sigreturn;
}

static bool has_all(const struct arch_gadgets *gadgets)
{
	return gadgets->call && gadgets->sigreturn && gadgets->leave;
}

static size_t longest(void)
{
	const struct arch_process *arch = arch_process();
	size_t most = arch->sigreturn_bytes;

	most = arch->call_bytes > most ? arch->call_bytes : most;
	return arch->leave_bytes > most ? arch->leave_bytes : most;
}

/* Searches a file's code until all gadgets are found. The addresses are those in the file. */
static struct probe_error *search_file(struct object *object, struct arch_gadgets *gadgets)
{
	const struct arch_process *arch = arch_process();
	AUTO_FREE uint8_t *code = malloc(PART_BYTES);
	const struct object_segment *segments;
	size_t count, got, step;

	if (!code)
		return probe_error_no_memory();
	segments = object_segments(object, &count);
	for (size_t i = 0; i < count; i++) {
		const struct object_segment *s = &segments[i];

		for (uint64_t at = 0; s->executable && at < s->file_size; at += step) {
			got = object_read(object, s->address + at, code, PART_BYTES);
			arch->find_gadgets(code, got, s->address + at, gadgets);
			if (has_all(gadgets))
				return NULL;
			if (got < PART_BYTES)
				break;
			/* A gadget may begin in this part and end in the next. */
			step = got - longest() + 1;
		}
	}
	return NULL;
}

/* Adds the gadgets of a module. A file that many processes have mapped is searched once. */
static struct probe_error *search_module(struct module *module, struct arch_gadgets *gadgets)
{
	struct arch_gadgets own = {0}, *found = module->file ? &module->file->gadgets : &own;
	struct probe_error *error = NULL;

	if (!module->file || !module->file->gadgets_known)
		error = search_file(module->object, found);
	if (module->file)
		module->file->gadgets_known = !error;
	if (error)
		return error;
	if (found->call && !gadgets->call)
		gadgets->call = found->call + module->bias;
	if (found->leave && !gadgets->leave) {
		gadgets->leave = found->leave + module->bias;
		gadgets->leave_above = found->leave_above;
	}
	if (found->sigreturn && !gadgets->sigreturn)
		gadgets->sigreturn = found->sigreturn + module->bias;
	return NULL;
}

/*
 * Returns true if this code must be searched in memory: the vDSO, and files that cannot be opened.
 * Reading a page that is not in memory asks the file system, so it must be one that answers.
 */
static bool is_searched(pid_t pid, const struct mapping *m, const struct modules *modules)
{
	if (strcmp(m->path, "[vdso]") == 0)
		return m->end - m->start <= VDSO_MAX;
	if (!m->executable || !m->readable || !m->inode)
		return false;
	for (size_t i = 0; i < modules->count; i++)
		if (!modules->items[i].object && module_has_mapping(&modules->items[i], m))
			return !distant_is(pid, m->dev_major, m->dev_minor);
	return false;
}

static struct probe_error *search_memory(pid_t pid, const struct maps *maps,
	const struct modules *modules, struct arch_gadgets *gadgets)
{
	AUTO_FREE uint8_t *code = malloc(PART_BYTES);
	AUTO(served_end) struct served known = served_of(pid);

	if (!code)
		return probe_error_no_memory();
	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *m = &maps->items[i];
		size_t got, step;

		if (has_all(gadgets) || !is_searched(pid, m, modules))
			continue;
		for (uint64_t at = m->start; at < m->end && !has_all(gadgets); at += step) {
			size_t left = m->end - at;

			got = memory_read_known(
				&known, at, code, left < PART_BYTES ? left : PART_BYTES);
			arch_process()->find_gadgets(code, got, at, gadgets);
			if (got < PART_BYTES)
				break;
			step = got - longest() + 1;
		}
	}
	return NULL;
}

struct probe_error *gadgets_find(
	pid_t pid, const struct maps *maps, const struct modules *modules, struct arch_gadgets *ret)
{
	struct probe_error *error = NULL;

	*ret = (struct arch_gadgets){0};
	/* Search libc first: a program's own code may be large, and rarely has gadgets. */
	for (size_t i = 0; i < 2 * modules->count; i++) {
		struct module *m = &modules->items[i % modules->count];
		bool second = i >= modules->count;

		if (!m->object || module_is_libc(m) == second)
			continue;
		if (has_all(ret))
			break;
		/* If a file cannot be read, another file may have the gadgets. */
		probe_error_free(error);
		error = search_module(m, ret);
	}
	if (!has_all(ret))
		error = probe_error_first(error, search_memory(pid, maps, modules, ret));
	if (has_all(ret)) {
		probe_error_free(error);
		return NULL;
	}
	if (error)
		return error;
	return probe_error_new(PROBE_ERROR_UNSUPPORTED,
		"the process has no %s of the form that is needed in its code: nothing can be run "
		"in it safely (static programs without a C library, as of Go, lack it: link them "
		"with "
		"one, in Go with cgo)",
		!ret->call    ? "system call"
		: !ret->leave ? "end of a function"
			      : "rt_sigreturn");
}
