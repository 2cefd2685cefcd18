/* SPDX-License-Identifier: MIT */
/*
 * A thread in a signal handler will go on, after it, at an instruction that
 * only the frame on its stack tells: perhaps in a stub that is to be freed, or
 * behind a site in bytes that are to be overwritten. The kernel begins such a
 * frame with the address of the code that calls rt_sigreturn(2), so stacks are
 * searched for that word; what follows must look like a context of a 64-bit
 * thread. A word that only looks like a frame costs a retry, never the target.
 *
 * A handler may run on an alternate stack (sigaltstack(2)): the frame is there,
 * and tells where the interrupted stack is, which is searched then.
 *
 * Source: arch/x86/kernel/signal_64.c, struct rt_sigframe; System V ABI.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/frames.h"
#include "libprobe/memory.h"

enum {
	STACK_CHUNK = 64 << 10,
	STACK_MAX = 16 << 20,  /* of one thread's stack */
	OTHER_MAX = 64 << 10,  /* of a stack that libc did not make */
	GROWTH_MAX = 64 << 20, /* of the main stack since the mappings were read */
	PCS_ROOM = 1024,       /* of threads and frames, before more is allocated */
	STACKS_MAX = 8,	       /* nested alternate stacks */
	CONTEXT_RSP = 168,
	CONTEXT_RIP = 176,
	CONTEXT_CS = 192,
	CONTEXT_END = 200,
	USER_CS = 0x33
};

static bool add_pc(struct frames *frames, uint64_t pc)
{
	if (frames->count == frames->room) {
		uint64_t *pcs = reallocarray(frames->pcs, frames->room * 2, sizeof(*pcs));

		if (!pcs)
			return false;
		frames->pcs = pcs;
		frames->room *= 2;
	}
	frames->pcs[frames->count++] = pc;
	return true;
}

/*
 * The end of what can be a stack that holds sp: bounded, as it may be in a heap.
 * libc puts a thread's control block (tp) on top of the stack that it makes.
 * The mappings were read before the stop, so that the main stack may have grown
 * and threads may have been created since.
 */
static uint64_t stack_end(const struct frames *f, uint64_t sp, uint64_t tp)
{
	const struct mapping *m = maps_find_from(f->maps, sp);
	bool is_inside = m && m->start <= sp;

	if (m && strcmp(m->path, "[stack]") == 0 && (is_inside || m->start - sp < GROWTH_MAX))
		return m->end - sp < STACK_MAX ? m->end : sp + STACK_MAX;
	if (tp > sp && tp - sp < STACK_MAX && (!is_inside || tp < m->end))
		return tp;
	if (is_inside && m->end - sp < OTHER_MAX)
		return m->end;
	return sp + OTHER_MAX;
}

static bool is_sigreturn(const struct frames *f, uint64_t word)
{
	for (size_t i = 0; i < f->gadgets->sigreturn_count; i++)
		if (word == f->gadgets->sigreturns[i])
			return true;
	return false;
}

/*
 * Searches [start, end) for frames. *other_ret is the stack pointer of a frame
 * that lies outside, or 0.
 */
static bool search_stack(struct frames *f, uint64_t start, uint64_t end, uint64_t *other_ret)
{
	*other_ret = 0;
	for (uint64_t at = start & ~UINT64_C(7); at < end; at += STACK_CHUNK) {
		/* A frame that begins in this chunk may end in the next. */
		size_t want =
			end - at < STACK_CHUNK + CONTEXT_END ? end - at : STACK_CHUNK + CONTEXT_END;
		size_t size = memory_read(f->pid, at, f->buffer, want);

		for (size_t i = 0; i + CONTEXT_END <= size && i < STACK_CHUNK; i += 8) {
			uint64_t word, rsp, rip;
			uint16_t cs;

			memcpy(&word, f->buffer + i, sizeof(word));
			memcpy(&cs, f->buffer + i + CONTEXT_CS, sizeof(cs));
			if (!is_sigreturn(f, word) || cs != USER_CS)
				continue;
			memcpy(&rsp, f->buffer + i + CONTEXT_RSP, sizeof(rsp));
			memcpy(&rip, f->buffer + i + CONTEXT_RIP, sizeof(rip));
			if (!add_pc(f, rip))
				return false;
			if (rsp < start || rsp >= end)
				*other_ret = rsp;
		}
		if (size < want)
			break;
	}
	return true;
}

static bool search_thread(struct frames *f, const struct control_thread *thread)
{
	uint64_t sp = thread->regs.rsp;

	for (int i = 0; i < STACKS_MAX && sp; i++) {
		uint64_t other;

		/* Behind the handler's return, rt_sigreturn's code has taken a word already. */
		if (!search_stack(f, sp - 8, stack_end(f, sp, thread->regs.fs_base), &other))
			return false;
		sp = other;
	}
	return true;
}

/* Without a handler there is no frame. The kernel's mask of them, in the status file. */
static bool has_handlers(int status)
{
	char text[4096];
	ssize_t length = pread(status, text, sizeof(text) - 1, 0);
	const char *value;

	text[length < 0 ? 0 : length] = '\0';
	value = strstr(text, "\nSigCgt:");
	return !value || strtoull(value + strlen("\nSigCgt:"), NULL, 16) != 0;
}

struct probe_error *frames_open(pid_t pid, const struct maps *maps,
	const struct control_gadgets *gadgets, struct frames *ret)
{
	char path[48];

	*ret = (struct frames){.room = PCS_ROOM, .pid = pid, .maps = maps, .gadgets = gadgets};
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	ret->status = open(path, O_RDONLY | O_CLOEXEC);
	if (ret->status < 0)
		return errno == ENOENT
			       ? probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", pid)
			       : probe_error_system(errno, "%s", path);
	ret->has_handlers = has_handlers(ret->status);
	ret->pcs = calloc(ret->room, sizeof(*ret->pcs));
	ret->buffer = malloc(STACK_CHUNK + CONTEXT_END);
	if (!ret->pcs || !ret->buffer) {
		frames_close(ret);
		return probe_error_no_memory();
	}
	/* So that no page fault is left for the stop. */
	memset(ret->buffer, 0, STACK_CHUNK + CONTEXT_END);
	return NULL;
}

struct probe_error *frames_read(struct frames *frames, const struct control *control)
{
	bool ok = true;

	frames->count = 0;
	for (size_t i = 0; ok && i < control->count; i++)
		ok = add_pc(frames, control->threads[i].regs.rip);
	if (!frames->has_handlers)
		frames->has_handlers = has_handlers(frames->status);
	for (size_t i = 0; ok && frames->has_handlers && i < control->count; i++)
		ok = search_thread(frames, &control->threads[i]);
	return ok ? NULL : probe_error_no_memory();
}

void frames_close(struct frames *frames)
{
	if (frames->room && frames->status >= 0)
		close(frames->status);
	free(frames->pcs);
	free(frames->buffer);
	*frames = (struct frames){0};
}

static int compare_pcs(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void frames_sort(struct frames *frames)
{
	qsort(frames->pcs, frames->count, sizeof(*frames->pcs), compare_pcs);
}

bool frames_within(const struct frames *frames, uint64_t start, uint64_t end)
{
	size_t low = 0, high = frames->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (frames->pcs[middle] < start)
			low = middle + 1;
		else
			high = middle;
	}
	return low < frames->count && frames->pcs[low] < end;
}
