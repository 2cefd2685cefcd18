/* SPDX-License-Identifier: MIT */
/*
 * After a signal handler, a thread continues at an instruction that only the frame on its
 * stack knows: perhaps in a stub that will be freed, or after a site, in bytes that will be
 * overwritten. So the used part of its stack is searched for such words (libprobe/patch/places.c).
 * A word that only looks like one costs a retry, never the target.
 *
 * A handler may run on an alternate stack (sigaltstack(2)): the frame is there, and says where
 * the interrupted stack is, which is then searched.
 *
 * Pages of a stack that the program has not written yet are not read: the kernel would then give
 * the target pages of zeros, which would count as used memory.
 *
 * A handler may be gone while it runs: one that runs once (SA_RESETHAND), or has been taken
 * away since. So stacks are also searched where no handler is installed; but less far, since such a
 * frame is close, and nothing follows from what could not be read.
 *
 * libprobe/patch/search.c is about stacks that no thread uses.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/process.h"
#include "libprobe/base/array.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"

enum {
	CHUNK = 64 << 10,
	GONE_REACH = 256 << 10, /* of a stack, where no handler is installed */
	NEAR_BYTES = 64 << 10,	/* above a stack pointer that is in no mapping */
	PCS_ROOM = 1024,	/* of threads and frames, before more is allocated */
	STACKS_MAX = 32		/* nested alternate stacks */
};

static const char too_deep[] = "a stack is larger than is searched";
static const char too_nested[] = "signal handlers are nested on too many stacks";
static const char unreadable[] = "a stack cannot be read";

/* The stacks of one thread, while they are searched. */
struct walk {
	struct frames *frames;
	uint64_t starts[STACKS_MAX], ends[STACKS_MAX];
	size_t count; /* of starts: found, and perhaps not searched yet */
	bool no_memory;
};

bool frames_add(struct frames *frames, uint64_t pc)
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

/* ---- Stacks ---------------------------------------------------------------------------- */

/* The mapping of an address, as it is now if the mappings that were read have none. */
static const struct mapping *mapping_of(struct frames *f, uint64_t address)
{
	const struct mapping *m = maps_find(f->maps, address);

	if (m)
		return m;
	if (!f->fresh.count)
		probe_error_free(maps_read(f->pid, &f->fresh));
	return maps_find(&f->fresh, address);
}

/* A stack may be several adjacent mappings, which differ only in what the kernel keeps of them. */
static uint64_t end_of(const struct frames *f, const struct mapping *m)
{
	const struct maps *maps =
		m >= f->maps->items && m < f->maps->items + f->maps->count ? f->maps : &f->fresh;
	const struct mapping *last = maps->items + maps->count;

	while (m + 1 < last && m[1].start == m->end && m[1].readable && m[1].writable &&
		strcmp(m[1].path, m->path) == 0)
		m++;
	return m->end;
}

/* libc puts a thread's control block (tp) on top of the stack that it makes. */
static bool is_threads(const struct mapping *m, uint64_t sp, uint64_t tp)
{
	return m && (strcmp(m->path, "[stack]") == 0 || (tp > sp && tp < m->end));
}

/* The end of what is searched of the stack that holds sp. */
static uint64_t stack_end(struct frames *f, const struct mapping *m, uint64_t sp, uint64_t tp)
{
	uint64_t end, reach = f->reach;

	if (!m)
		return sp + NEAR_BYTES;
	end = tp > sp && tp < m->end ? tp : end_of(f, m);
	if (is_threads(m, sp, tp))
		reach = FRAMES_REACH;
	if (!f->has_handlers)
		reach = GONE_REACH;
	if (end - sp <= reach)
		return end;
	f->unknown = too_deep;
	return sp + reach;
}

/* Notes which part of a stack is in use; false without memory. */
static bool add_stack(struct frames *f, uint64_t low, uint64_t end, bool threads)
{
	if (!ARRAY_ROOM(f->stacks, f->stack_count))
		return false;
	f->stacks[f->stack_count++] = (struct frames_stack){low, end, threads};
	return true;
}

/* ---- Searching ------------------------------------------------------------------------- */

static bool on_word(void *data, uint64_t at, uint64_t word, bool is_context)
{
	struct walk *walk = data;

	(void)at;
	(void)is_context;
	walk->no_memory = !frames_add(walk->frames, word);
	return !walk->no_memory;
}

/* What was interrupted on another stack continues there. */
static bool on_image(void *data, const struct place_image *image)
{
	struct walk *walk = data;

	for (size_t i = 0; i < walk->count; i++)
		if (image->sp >= walk->starts[i] && image->sp < walk->ends[i])
			return true;
	if (!mapping_of(walk->frames, image->sp))
		return true;
	if (walk->count == STACKS_MAX) {
		walk->frames->unknown = too_nested;
		return true;
	}
	walk->starts[walk->count] = image->sp;
	walk->ends[walk->count++] = image->sp + 1; /* until it is searched */
	return true;
}

/* A stack ends where memory does that can be read, whatever the mappings were. */
static void check_end(struct frames *f, uint64_t at)
{
	const struct mapping *m;

	if (!f->fresh.count)
		probe_error_free(maps_read(f->pid, &f->fresh));
	m = maps_find(&f->fresh, at);
	if (!f->fresh.count || (m && m->readable))
		f->unknown = unreadable;
}

/*
 * Searches [start, end). Shared pages may be in memory although the process has not touched them.
 */
static void search_stack(struct walk *walk, uint64_t start, uint64_t end, bool is_shared)
{
	const struct place_visitor visitor = {walk, on_word, on_image, .maps = walk->frames->maps};
	struct frames *f = walk->frames;

	for (uint64_t at = start & ~UINT64_C(7), step; at < end; at += step) {
		/* A frame that begins in this chunk may end in the next. */
		size_t want =
			end - at < CHUNK + PLACE_IMAGE_MAX ? end - at : CHUNK + PLACE_IMAGE_MAX;
		bool is_there = true;
		size_t run = is_shared ? want : memory_run(f->pagemap, at, want, &is_there), size;

		step = run < CHUNK ? run : CHUNK;
		if (!is_there)
			continue;
		size = memory_read_known(f->known, at, f->buffer, run);
		if (!places_scan(f->places, at, f->buffer, size & ~(size_t)7, step, &visitor))
			return;
		if (size < run) {
			check_end(f, at + size);
			return;
		}
	}
}

static bool search_thread(struct frames *f, const struct control_thread *thread)
{
	uint64_t sp = arch_get(&thread->regs, ARCH_SP), tp = arch_get(&thread->regs, ARCH_TP);
	struct walk walk = {.frames = f, .starts = {sp}, .ends = {sp + 1}, .count = 1};

	for (size_t i = 0; i < walk.count && !walk.no_memory; i++) {
		const struct mapping *m = mapping_of(f, walk.starts[i]);
		uint64_t start = walk.starts[i] - arch_process()->red_zone, end;

		end = stack_end(f, m, walk.starts[i], tp);
		if (m && start < m->start)
			start = m->start;
		if (m && !add_stack(f, start, end, is_threads(m, walk.starts[i], tp)))
			return false;
		walk.starts[i] = start;
		walk.ends[i] = end;
		search_stack(&walk, start, end, m && m->is_shared);
	}
	return !walk.no_memory;
}

/* A context may be on its way from one place to another, in a register. */
static bool add_registers(struct frames *f, const struct arch_registers *r)
{
	const uint64_t *words = r->words + arch_process()->general_first;

	for (size_t i = 0; i < arch_process()->general_count; i++)
		if (places_have(f->places, words[i]) && !frames_add(f, words[i]))
			return false;
	return true;
}

/* Is a handler installed? The kernel's mask of them, in the status file. */
static bool has_handlers(int status)
{
	char text[4096];
	ssize_t length = pread(status, text, sizeof(text) - 1, 0);
	const char *value;

	text[length < 0 ? 0 : length] = '\0';
	value = strstr(text, "\nSigCgt:");
	return !value || strtoull(value + strlen("\nSigCgt:"), NULL, 16) != 0;
}

static int open_file(pid_t pid, const char *name)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

bool frames_has_handlers(pid_t pid)
{
	int status = open_file(pid, "status");
	bool found = has_handlers(status);

	if (status >= 0)
		close(status);
	return found;
}

struct probe_error *frames_open(pid_t pid, const struct maps *maps, const struct places *places,
	uint64_t reach, struct frames *ret)
{
	*ret = (struct frames){.room = PCS_ROOM,
		.pid = pid,
		.maps = maps,
		.places = places,
		.reach = reach,
		.pagemap = -1};
	ret->status = open_file(pid, "status");
	if (ret->status < 0)
		return errno == ENOENT
			       ? probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", pid)
			       : probe_error_system(errno, "/proc/%d/status", pid);
	ret->has_handlers = has_handlers(ret->status);
	ret->pagemap = open_file(pid, "pagemap");
	ret->pcs = array_resident(ret->room * sizeof(*ret->pcs));
	ret->buffer = array_resident(CHUNK + PLACE_IMAGE_MAX);
	if (!ret->pcs || !ret->buffer) {
		frames_close(ret);
		return probe_error_no_memory();
	}
	return NULL;
}

struct probe_error *frames_read(struct frames *frames, const struct control *control)
{
	struct served known AUTO_SERVED;
	bool ok = true;

	served_begin(frames->pid, &known);
	frames->known = &known;
	frames->count = frames->stack_count = 0;
	frames->unknown = NULL;
	maps_deinit(&frames->fresh);
	for (size_t i = 0; ok && i < control->count; i++)
		ok = frames_add(frames, arch_get(&control->threads[i].regs, ARCH_PC));
	/* Processes that share the memory may have other handlers. */
	if (!frames->has_handlers)
		frames->has_handlers = control->guests || has_handlers(frames->status);
	for (size_t i = 0; ok && frames->places->count && i < control->count; i++)
		ok = add_registers(frames, &control->threads[i].regs) &&
		     search_thread(frames, &control->threads[i]);
	if (!frames->has_handlers)
		frames->unknown = NULL;
	frames->known = NULL;
	return ok ? NULL : probe_error_no_memory();
}

void frames_close(struct frames *frames)
{
	if (frames->room && frames->status >= 0)
		close(frames->status);
	if (frames->room && frames->pagemap >= 0)
		close(frames->pagemap);
	free(frames->pcs);
	free(frames->stacks);
	free(frames->buffer);
	maps_deinit(&frames->fresh);
	*frames = (struct frames){0};
}

/* ---- What was collected ------------------------------------------------------------------ */

bool frames_overlap(const struct frames *frames, uint64_t start, uint64_t end)
{
	uint64_t red_zone = arch_process()->red_zone;

	for (size_t i = 0; i < frames->stack_count; i++)
		if (frames->stacks[i].low > start && frames->stacks[i].low + red_zone <= end)
			return true;
	return false;
}

bool frames_is_below(const struct frames *frames, uint64_t address)
{
	const struct mapping *m =
		maps_find(frames->fresh.count ? &frames->fresh : frames->maps, address);
	bool below = false;

	for (size_t i = 0; m && i < frames->stack_count; i++) {
		const struct frames_stack *stack = &frames->stacks[i];

		if (stack->low < m->start || stack->low >= m->end)
			continue;
		if (stack->low <= address)
			return false;
		below = below || stack->is_threads;
	}
	return below;
}

const struct frames_stack *frames_own_stack(
	const struct frames *frames, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < frames->stack_count; i++)
		if (frames->stacks[i].is_threads && frames->stacks[i].low >= start &&
			frames->stacks[i].low < end)
			return &frames->stacks[i];
	return NULL;
}

void frames_sort(struct frames *frames)
{
	array_sort(frames->pcs, frames->count, sizeof(*frames->pcs), 0);
}

bool frames_within(const struct frames *frames, uint64_t start, uint64_t end)
{
	size_t first = array_search(frames->pcs, frames->count, sizeof(*frames->pcs), 0, start);

	return first < frames->count && frames->pcs[first] < end;
}
