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
#include <stdlib.h>
#include <string.h>

#include "libprobe/frames.h"
#include "libprobe/memory.h"
#include "libprobe/procfs.h"

enum {
	STACK_CHUNK = 64 << 10,
	STACK_MAX = 16 << 20, /* of one thread's stack */
	OTHER_MAX = 64 << 10, /* of a stack that libc did not make */
	STACKS_MAX = 8,	      /* nested alternate stacks */
	CONTEXT_RSP = 168,
	CONTEXT_RIP = 176,
	CONTEXT_CS = 192,
	CONTEXT_END = 200,
	USER_CS = 0x33
};

struct reader {
	const struct control *control;
	const struct maps *maps;
	const struct control_gadgets *gadgets;
	struct frames *frames;
	uint8_t *buffer;
};

static bool add_pc(struct frames *frames, uint64_t pc)
{
	uint64_t *pcs = reallocarray(frames->pcs, frames->count + 1, sizeof(*pcs));

	if (!pcs)
		return false;
	frames->pcs = pcs;
	pcs[frames->count++] = pc;
	return true;
}

/* The end of what can be a stack that holds sp: bounded, as it may be in a heap. */
static uint64_t stack_end(const struct reader *r, uint64_t sp, uint64_t tp)
{
	const struct mapping *m = maps_find(r->maps, sp);
	bool own = m && (strcmp(m->path, "[stack]") == 0 || (tp > sp && tp < m->end));
	uint64_t most = own ? STACK_MAX : OTHER_MAX;

	if (!m)
		return sp;
	return m->end - sp < most ? m->end : sp + most;
}

static bool is_sigreturn(const struct reader *r, uint64_t word)
{
	for (size_t i = 0; i < r->gadgets->sigreturn_count; i++)
		if (word == r->gadgets->sigreturns[i])
			return true;
	return false;
}

/*
 * Searches [start, end) for frames. *other_ret is the stack pointer of a frame
 * that lies outside, or 0.
 */
static bool search_stack(struct reader *r, uint64_t start, uint64_t end, uint64_t *other_ret)
{
	*other_ret = 0;
	for (uint64_t at = start & ~UINT64_C(7); at < end; at += STACK_CHUNK) {
		/* A frame that begins in this chunk may end in the next. */
		size_t want =
			end - at < STACK_CHUNK + CONTEXT_END ? end - at : STACK_CHUNK + CONTEXT_END;
		size_t size = memory_read(r->control->pid, at, r->buffer, want);

		for (size_t i = 0; i + CONTEXT_END <= size && i < STACK_CHUNK; i += 8) {
			uint64_t word, rsp, rip;
			uint16_t cs;

			memcpy(&word, r->buffer + i, sizeof(word));
			memcpy(&cs, r->buffer + i + CONTEXT_CS, sizeof(cs));
			if (!is_sigreturn(r, word) || cs != USER_CS)
				continue;
			memcpy(&rsp, r->buffer + i + CONTEXT_RSP, sizeof(rsp));
			memcpy(&rip, r->buffer + i + CONTEXT_RIP, sizeof(rip));
			if (!add_pc(r->frames, rip))
				return false;
			if (rsp < start || rsp >= end)
				*other_ret = rsp;
		}
		if (size < want)
			break;
	}
	return true;
}

static bool search_thread(struct reader *r, const struct control_thread *thread)
{
	uint64_t sp = thread->regs.rsp;

	for (int i = 0; i < STACKS_MAX && sp; i++) {
		uint64_t other;

		if (!search_stack(r, sp, stack_end(r, sp, thread->regs.fs_base), &other))
			return false;
		sp = other;
	}
	return true;
}

struct probe_error *frames_read(const struct control *control, const struct maps *maps,
	const struct control_gadgets *gadgets, struct frames *ret)
{
	struct reader r = {control, maps, gadgets, ret, NULL};
	/* Without a handler there is no frame. */
	bool handlers = procfs_status_mask(control->pid, "SigCgt:") != 0;
	bool ok = true;

	*ret = (struct frames){0};
	r.buffer = malloc(STACK_CHUNK + CONTEXT_END);
	ok = r.buffer != NULL;
	for (size_t i = 0; ok && i < control->count; i++)
		ok = add_pc(ret, control->threads[i].regs.rip);
	for (size_t i = 0; ok && handlers && i < control->count; i++)
		ok = search_thread(&r, &control->threads[i]);
	free(r.buffer);
	if (ok)
		return NULL;
	frames_deinit(ret);
	return probe_error_no_memory();
}

void frames_deinit(struct frames *frames)
{
	free(frames->pcs);
	*frames = (struct frames){0};
}

bool frames_within(const struct frames *frames, size_t first, uint64_t start, uint64_t end)
{
	for (size_t i = first; i < frames->count; i++)
		if (frames->pcs[i] >= start && frames->pcs[i] < end)
			return true;
	return false;
}
