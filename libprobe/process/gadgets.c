/* SPDX-License-Identifier: MIT */
/*
 * Code that every process has anyway, in its libc, and that lets a thread of it make
 * system calls without any code of ours: `syscall; ret`, the call of rt_sigreturn(2) where
 * signal handlers return to, and `leave; ret`, which may lie within other instructions.
 */
#include <string.h>

#include "libprobe/process/files.h"
#include "libprobe/process/gadgets.h"
#include "libprobe/process/memory.h"
#include "libprobe/process/modules.h"

/* `syscall` at `at`, between `start` and `end`: what it is good for. */
static void judge_syscall(struct gadgets *gadgets, const uint8_t *start, const uint8_t *at,
	const uint8_t *end, uint64_t address)
{
	static const uint8_t mov64[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0}; /* mov $15,%rax */
	static const uint8_t mov32[] = {0xb8, 0x0f, 0, 0, 0};		  /* mov $15,%eax */
	size_t length = 0;

	if (end - at > 2 && at[2] == 0xc3 && !gadgets->syscall_ret)
		gadgets->syscall_ret = address;
	if (at - start >= (ptrdiff_t)sizeof(mov64) &&
		memcmp(at - sizeof(mov64), mov64, sizeof(mov64)) == 0)
		length = sizeof(mov64);
	else if (at - start >= (ptrdiff_t)sizeof(mov32) &&
		 memcmp(at - sizeof(mov32), mov32, sizeof(mov32)) == 0)
		length = sizeof(mov32);
	if (length && gadgets->sigreturn_count < GADGETS_SIGRETURNS_MAX)
		gadgets->sigreturns[gadgets->sigreturn_count++] = address - length;
}

static const uint8_t leave_ret[] = {0xc9, 0xc3};

bool gadgets_are_there(pid_t pid, const struct gadgets *gadgets)
{
	struct gadgets found = {0};
	uint8_t code[3], handler[9], leave[sizeof(leave_ret)];
	struct memory_piece pieces[] = {{gadgets->syscall_ret, code, sizeof(code)},
		{gadgets->sigreturns[0], handler, sizeof(handler)},
		{gadgets->leave_ret, leave, sizeof(leave)}};
	struct probe_error *error = memory_read_pieces(pid, pieces, 3);

	probe_error_free(error);
	if (error)
		return false;
	judge_syscall(&found, code, code, code + sizeof(code), gadgets->syscall_ret);
	for (size_t i = 5; i <= 7; i += 2) /* behind either form of `mov` */
		if (handler[i] == 0x0f && handler[i + 1] == 0x05)
			judge_syscall(&found, handler, handler + i, handler + sizeof(handler),
				gadgets->sigreturns[0] + i);
	return found.syscall_ret && found.sigreturn_count &&
	       memcmp(leave, leave_ret, sizeof(leave)) == 0;
}

/* Looks at every `syscall` instruction of a file; addresses are the file's. */
static struct probe_error *search_file(struct object *object, struct gadgets *gadgets)
{
	const struct object_segment *segments;
	size_t count, size;
	const uint8_t *file;
	struct probe_error *error = object_load(object, &file, &size);

	segments = object_segments(object, &count);
	for (size_t i = 0; !error && i < count; i++) {
		const struct object_segment *s = &segments[i];
		const uint8_t *start, *at, *end;

		if (!s->executable || s->file_size < 2 || s->offset > size ||
			s->file_size > size - s->offset)
			continue;
		start = file + s->offset;
		end = start + s->file_size;
		/* 05 is the rarer one of the two bytes of `syscall`. */
		for (at = start + 1; (at = memchr(at, 0x05, end - at)); at++)
			if (at[-1] == 0x0f)
				judge_syscall(gadgets, start, at - 1, end,
					(uint64_t)(at - 1 - start) + s->address);
		at = memmem(start, s->file_size, leave_ret, sizeof(leave_ret));
		if (at && !gadgets->leave_ret)
			gadgets->leave_ret = (uint64_t)(at - start) + s->address;
	}
	return error;
}

/* Adds those of a module. What many processes have mapped is searched once. */
static struct probe_error *search_module(struct module *module, struct gadgets *gadgets)
{
	struct gadgets own = {0}, *found = module->file ? &module->file->gadgets : &own;
	struct probe_error *error = NULL;

	if (!module->file || !module->file->gadgets_known)
		error = search_file(module->object, found);
	if (module->file)
		module->file->gadgets_known = !error;
	if (error)
		return error;
	if (found->syscall_ret && !gadgets->syscall_ret)
		gadgets->syscall_ret = found->syscall_ret + module->bias;
	if (found->leave_ret && !gadgets->leave_ret)
		gadgets->leave_ret = found->leave_ret + module->bias;
	for (size_t i = 0;
		i < found->sigreturn_count && gadgets->sigreturn_count < GADGETS_SIGRETURNS_MAX;
		i++)
		gadgets->sigreturns[gadgets->sigreturn_count++] =
			found->sigreturns[i] + module->bias;
	return NULL;
}

static bool has_all(const struct gadgets *gadgets)
{
	return gadgets->syscall_ret && gadgets->sigreturn_count && gadgets->leave_ret;
}

struct probe_error *gadgets_find(const struct modules *modules, struct gadgets *ret)
{
	struct probe_error *error = NULL;

	*ret = (struct gadgets){0};
	/* First libc alone: a program's own code may be large, and rarely has them. */
	for (size_t i = 0; i < 2 * modules->count; i++) {
		struct module *m = &modules->items[i % modules->count];
		bool second = i >= modules->count;

		if (!m->object || module_is_libc(m) == second)
			continue;
		if (second && has_all(ret))
			break;
		/* What one file cannot give another may have. */
		probe_error_free(error);
		error = search_module(m, ret);
	}
	if (has_all(ret)) {
		probe_error_free(error);
		return NULL;
	}
	if (error)
		return error;
	return probe_error_new(PROBE_ERROR_UNSUPPORTED,
		"the process has no `syscall; ret`, no `leave; ret` or no rt_sigreturn in its "
		"code: nothing can be run in it safely");
}
