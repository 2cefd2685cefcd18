/* SPDX-License-Identifier: MIT */
/*
 * Finds the addresses at which stopped threads will continue.
 *
 * When a signal handler returns, its thread continues at an address in a frame on the stack, maybe
 * in a stub that will be freed, or in bytes that will be overwritten. So the used part of each
 * stack is searched for such addresses. A word that looks like one by chance costs a retry, and
 * does no harm.
 *
 * A handler may run on an alternate stack (sigaltstack(2)). Its frame there holds the stack pointer
 * of the interrupted stack, which is searched next.
 *
 * Pages that were never written are not read: the kernel would allocate them.
 *
 * A handler may be removed while it runs, by the kernel (SA_RESETHAND) or the program. So even
 * without a handler a part of each stack, near the stack pointer, is searched, and then an
 * unreadable stack is no error.
 *
 * libprobe/patch/search.c searches stacks that no thread uses.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "arch/layout.h"
#include "arch/process.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/page.h"
#include "libprobe/base/procfs.h"
#include "libprobe/patch/patch.h"

/* ==== Frames ================================================================================== */

enum {
	CHUNK = 64 << 10,
	/* number of bytes of a stack that are searched if no handler is installed */
	GONE_REACH = 256 << 10,
	/* number of bytes searched above a stack pointer that is in no mapping */
	NEAR_BYTES = 64 << 10,
	PCS_ROOM = 1024, /* the first array of addresses has room for this many */
	/*
	 * maximum number of stacks searched for a thread, each interrupted by a handler on the next
	 */
	STACKS_MAX = 32
};

static const char too_deep[] = "a stack is larger than is searched";
static const char too_nested[] = "signal handlers are nested on too many stacks";
static const char unreadable[] = "a stack cannot be read";

/* The stacks of a thread. Searching one may find more. */
struct walk {
	struct frames *frames;
	uint64_t starts[STACKS_MAX], ends[STACKS_MAX];
	size_t count; /* number of stacks found; stacks found last may not be searched yet */
	bool no_memory;
};

/* Adds an address at which a thread will continue. Returns false if out of memory. */
static bool frames_add(struct frames *frames, uint64_t pc)
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

/* Returns the mapping of an address; reads the mappings again if need be. */
static const struct mapping *mapping_of(struct frames *f, uint64_t address)
{
	const struct mapping *m = maps_find(f->maps, address);

	if (m)
		return m;
	if (!f->fresh.count)
		probe_error_free(maps_read(f->pid, &f->fresh));
	return maps_find(&f->fresh, address);
}

/*
 * Returns true if a stack was made for the thread that uses it: it is the main stack, or libc has
 * put the control block (tp) at its end.
 */
static bool is_threads(const struct mapping *m, uint64_t sp, uint64_t tp)
{
	return m && (strcmp(m->path, "[stack]") == 0 || (tp > sp && tp < m->end));
}

/* Returns where the search of the stack that contains `sp` ends. */
static uint64_t stack_end(struct frames *f, const struct mapping *m, uint64_t sp, uint64_t tp)
{
	uint64_t end, reach = f->reach;
	const struct mapping *last;
	const struct maps *maps;

	if (!m)
		return sp + NEAR_BYTES;
	if (is_threads(m, sp, tp))
		reach = FRAMES_REACH;
	/* A stack may span several adjacent mappings, which differ only inside the kernel. */
	maps = m >= f->maps->items && m < f->maps->items + f->maps->count ? f->maps : &f->fresh;
	for (last = m; last + 1 < maps->items + maps->count && last[1].start == last->end &&
		       last[1].readable && last[1].writable && strcmp(last[1].path, m->path) == 0;)
		last++;
	end = tp > sp && tp < m->end ? tp : last->end;
	if (!f->has_handlers)
		reach = GONE_REACH;
	if (end - sp <= reach)
		return end;
	f->unknown = too_deep;
	return sp + reach;
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

/*
 * Adds the stack that a handler has interrupted: the saved context says that the thread will
 * continue there.
 */
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
	/* the end is set when the stack is searched */
	walk->ends[walk->count++] = image->sp + 1;
	return true;
}

/*
 * Searches [start, end) of a stack. Skips private pages that the process has not touched, but not
 * shared ones, which may have contents.
 */
static void search_stack(struct walk *walk, uint64_t start, uint64_t end, bool is_shared)
{
	const struct place_visitor visitor = {walk, on_word, on_image, .maps = walk->frames->maps};
	struct frames *f = walk->frames;
	const struct mapping *m;

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
		if (size == run)
			continue;
		/* If the address is not mapped any more, the stack ends there. */
		if (!f->fresh.count)
			probe_error_free(maps_read(f->pid, &f->fresh));
		m = maps_find(&f->fresh, at + size);
		if (!f->fresh.count || (m && m->readable))
			f->unknown = unreadable;
		return;
	}
}

static bool search_thread(struct frames *f, const struct control_thread *thread)
{
	uint64_t sp = arch_get(&thread->regs, ARCH_SP), tp = arch_get(&thread->regs, ARCH_TP);
	struct walk walk = {.frames = f, .starts = {sp}, .ends = {sp + 1}, .count = 1};
	const uint64_t *words = thread->regs.words + arch_process()->general_first;

	/* A register may hold a place, because the thread is copying a context. */
	for (size_t i = 0; i < arch_process()->general_count; i++)
		if (places_have(f->places, words[i]) && !frames_add(f, words[i]))
			return false;
	for (size_t i = 0; i < walk.count && !walk.no_memory; i++) {
		const struct mapping *m = mapping_of(f, walk.starts[i]);
		uint64_t start = walk.starts[i] - arch_process()->red_zone, end;

		end = stack_end(f, m, walk.starts[i], tp);
		if (m && start < m->start)
			start = m->start;
		if (m && !ARRAY_ADD(f->stacks, f->stack_count,
				 (struct frames_stack){
					 start, end, is_threads(m, walk.starts[i], tp)}))
			return false;
		walk.starts[i] = start;
		walk.ends[i] = end;
		search_stack(&walk, start, end, m && m->is_shared);
	}
	return !walk.no_memory;
}

/*
 * Returns true if a signal handler is installed, according to the mask of caught signals in the
 * status file.
 */
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
	return open(procfs_path("/proc/%d/%s", pid, name).text, O_RDONLY | O_CLOEXEC);
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
	AUTO(served_end) struct served known = served_of(frames->pid);
	bool ok = true;

	frames->known = &known;
	frames->count = frames->stack_count = 0;
	frames->unknown = NULL;
	maps_deinit(&frames->fresh);
	for (size_t i = 0; ok && i < control->count; i++)
		ok = frames_add(frames, arch_get(&control->threads[i].regs, ARCH_PC));
	/* Other processes that share the memory may have handlers of their own. */
	if (!frames->has_handlers)
		frames->has_handlers = control->guests || has_handlers(frames->status);
	for (size_t i = 0; ok && frames->places->count && i < control->count; i++)
		ok = search_thread(frames, &control->threads[i]);
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

/* ---- Queries ----------------------------------------------------------------------------- */

/*
 * Is a thread's stack pointer in the frame [start, end)? Then its handler has returned or was left
 * by a jump, and its context is not needed.
 */
static bool frames_overlap(const struct frames *frames, uint64_t start, uint64_t end)
{
	uint64_t red_zone = arch_process()->red_zone;

	for (size_t i = 0; i < frames->stack_count; i++)
		if (frames->stacks[i].low > start && frames->stacks[i].low + red_zone <= end)
			return true;
	return false;
}

/*
 * Returns true if an address is below the used part of a thread's own stack, and in no used stack.
 */
static bool frames_is_below(const struct frames *frames, uint64_t address)
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

void frames_sort(struct frames *frames)
{
	array_sort(frames->pcs, frames->count, sizeof(*frames->pcs), 0);
}

bool frames_within(const struct frames *frames, uint64_t start, uint64_t end)
{
	size_t first = array_search(frames->pcs, frames->count, sizeof(*frames->pcs), 0, start);

	return first < frames->count && frames->pcs[first] < end;
}

/* ==== Doubts ================================================================================== */

/*
 * A signal handler that returns leaves its whole frame below the stack pointer of its thread, until
 * the stack is used again. This leftover must be told from the frame of a user thread that a
 * handler has preempted. The stack of such a user thread may be in an array that belongs to a frame
 * further up on the same stack:
 *
 *	main's frame    | ...                     |
 *	                | stack 2                 |
 *	                | stack 1:   a thread --> | sp
 *	                | stack 0:   | frame |    |  below it, and will be resumed
 *	                | main, as it was left    |
 *
 * Such a frame is dead
 *
 *   - if it has been damaged (search_is_stale());
 *   - if a thread uses the middle of it as its stack (frames_overlap());
 *   - if nothing refers to it. Code that resumes a stack has a pointer to the stack somewhere: it
 *     must load an address below the frame, where the handler was, into the stack pointer. So
 *     all memory is searched for words that point into the frame or up to REACH_BYTES below it,
 *     also in the form in which setjmp(3) of glibc stores them. Words in the frame, or in the
 *     stack of the handler right below it, do not count, because frames hold pointers to each
 *     other.
 *
 * A stray pointer into the frame that a function has left somewhere makes a dead frame look alive.
 * Then code of ours stays as a leftover, but the target takes no harm.
 *
 * Source: sysdeps/unix/sysv/linux/x86_64/pointer_guard.h and sysdeps/x86_64/nptl/tls.h
 * (header.pointer_guard) of glibc.
 */

enum { DOUBTS_MAX = 4096, SEARCHES_MAX = 8, REACH_BYTES = 64 << 10, HANDLER_BYTES = 16 << 10 };

/* Prepares doubts_are_live(). All threads must be stopped. */
static void doubts_begin(struct doubts *doubts, const struct control *control)
{
	uint64_t tp = control->count ? arch_get(&control->threads[0].regs, ARCH_TP) : 0, guard;

	if (tp && arch_process()->guard &&
		memory_read(control->pid, tp + arch_process()->guard, &guard, sizeof(guard)) ==
			sizeof(guard))
		doubts->guard = guard;
}

bool doubts_are_live(struct doubts *doubts, const struct frames *frames,
	const struct search *search, const struct search_find *find)
{
	struct doubt *known = NULL;

	if (find->is_remote || frames_overlap(frames, find->frame, find->frame_end) ||
		search_is_stale(search, find))
		return false;
	if (!find->frame || !frames_is_below(frames, find->at))
		return true;
	for (size_t i = 0; i < doubts->count && !known; i++)
		if (doubts->items[i].at == find->at && doubts->items[i].word == find->word &&
			doubts->items[i].frame_end == find->frame_end)
			known = &doubts->items[i];
	if (known)
		return !known->settled || known->is_held;
	/* If memory for the doubt is lacking, it is never settled. */
	if (doubts->count < DOUBTS_MAX && ARRAY_ROOM(doubts->items, doubts->count)) {
		doubts->items[doubts->count++] = (struct doubt){.at = find->at,
			.word = find->word,
			.frame = find->frame,
			.frame_end = find->frame_end};
		doubts->any = true;
	}
	return true;
}

/* ---- Settling ---------------------------------------------------------------------------- */

static bool doubts_on_word(void *data, uint64_t at, uint64_t word, bool is_context)
{
	struct doubts *doubts = data;

	(void)is_context;
	for (size_t i = 0; i < doubts->count; i++) {
		struct doubt *doubt = &doubts->items[i];
		bool is_its_own = at >= doubt->frame - HANDLER_BYTES && at < doubt->frame_end;

		if (!doubt->settled && !is_its_own && word < doubt->frame_end &&
			word >= doubt->frame - REACH_BYTES)
			doubt->is_held = true;
	}
	return true;
}

struct probe_error *doubts_settle(struct doubts *doubts, struct search *search, bool *settled_ret)
{
	const struct place_visitor visitor = {doubts, doubts_on_word, NULL, .maps = NULL};
	struct probe_error *error = NULL;
	AUTO_FREE struct places *places = NULL;
	bool ok;

	*settled_ret = false;
	if (!doubts->any || doubts->searches++ == SEARCHES_MAX)
		return NULL;
	places = calloc(1, sizeof(*places));
	ok = places != NULL;
	for (size_t i = 0; i < doubts->count && ok; i++)
		ok = doubts->items[i].settled ||
		     places_add(places, doubts->items[i].frame - REACH_BYTES,
			     doubts->items[i].frame_end);
	if (ok) {
		places_prepare(places);
		places->guard = doubts->guard;
		places->guard_shift = arch_process()->guard_shift;
	}
	error = ok ? search_words(search, places, &visitor) : probe_error_no_memory();
	for (size_t i = 0; i < doubts->count && !error; i++) {
		struct doubt *doubt = &doubts->items[i];

		doubt->is_held = doubt->is_held || (!doubt->settled && search->unknown);
		doubt->settled = true;
	}
	doubts->any = false;
	*settled_ret = !error;
	if (places)
		places_deinit(places);
	return error;
}

void doubts_deinit(struct doubts *doubts)
{
	free(doubts->items);
	*doubts = (struct doubts){0};
}

/* ==== Windows ================================================================================= */

/*
 * A jump replaces several instructions, and a signal may have interrupted a thread between two of
 * them. When the signal handler returns, the thread would come back into the middle of the jump.
 * The interrupted context is usually on the stack of the thread that runs the handler. But a
 * handler may have switched to another user context (swapcontext(3)), as schedulers that preempt
 * user threads do. The context is then on a stack that no thread runs on, or anywhere else.
 *
 *   look     while the target runs, all its memory is searched for contexts that the kernel has
 *            saved for a handler. More may come to the same memory: an alternate stack, or a
 *            mapping
 *   read     all threads stopped: the stacks in use, and the memory that the look found, are
 *            searched for the addresses of the instructions that will be overwritten
 *
 * Below the stack pointer of a thread are frames of handlers that have returned. But the program
 * may also keep other stacks in an array there, so this memory is searched, too.
 *
 * If no signal handler is installed, only the stacks in use are searched, in case a handler was
 * removed while it runs.
 */

enum { WAIT_NS = 2000000 };
/* at most this many bytes are searched in a stop */
#define PARTS_BYTES (UINT64_C(16) << 20)

static const char too_large[] = "they are in more memory than can be searched at once";

const char *windows_reason(struct windows *w, const struct change *change)
{
	struct probe_error *error;
	const char *why;
	char text[160];
	AUTO_FD int status = -1;

	if (w->looked)
		return w->reason;
	w->looked = true;
	status = open_file(change->pid, "status");
	if (!has_handlers(status)) /* true if the file cannot be read */
		return NULL;
	cleanup_fd(&status);
	error = search_open(
		change->pid, change->mem, &w->places, change->registry.guard, &w->search);
	error = error ?: search_all(&w->search);
	why = error ? error->message : w->search.unknown;
	if (why) {
		snprintf(text, sizeof(text),
			"a signal handler may return between the instructions there: %s", why);
		w->reason = target_string(change->target, text);
		if (!w->reason)
			w->reason = "out of memory";
	}
	probe_error_free(error);
	return w->reason;
}

struct probe_error *windows_prepare(struct windows *w, const struct change *change)
{
	places_prepare(&w->places);
	return frames_open(change->pid, &change->maps, &w->places, FRAMES_REACH, &w->frames);
}

/* ---- The stop -------------------------------------------------------------------------- */

/* Searches [start, end) within *left_inout bytes; beyond them, the search is incomplete. */
static struct probe_error *search_some(
	struct windows *w, uint64_t start, uint64_t end, uint64_t *left_inout)
{
	uint64_t size = start < end ? search_measure(&w->search, start, end) : 0;

	if (size > *left_inout) {
		w->search.unknown = too_large;
		return NULL;
	}
	*left_inout -= size;
	return size ? search_range(&w->search, start, end) : NULL;
}

/*
 * Searches a part again, except the used part of a thread's own stack, which frames_read() has
 * read. The kernel may have merged other memory into the mapping.
 */
static struct probe_error *search_part(
	struct windows *w, const struct search_part *part, uint64_t *left_inout)
{
	const struct frames_stack *own = NULL;
	struct probe_error *error;

	for (size_t i = 0; i < w->frames.stack_count && !own; i++) {
		const struct frames_stack *stack = &w->frames.stacks[i];

		if (stack->is_threads && stack->low >= part->start && stack->low < part->end)
			own = stack;
	}
	error = search_some(w, part->start, own ? own->low : part->end, left_inout);
	if (!own || error || w->search.unknown || part->last < own->end)
		return error;
	return search_some(w, own->end, part->end, left_inout);
}

struct probe_error *windows_read(struct windows *w, const struct change *change)
{
	struct probe_error *error = frames_read(&w->frames, &change->control);
	bool searches = !error && w->places.count && w->search.part_count;
	uint64_t left = PARTS_BYTES;
	const char *unknown;

	doubts_begin(&w->doubts, &change->control);
	if (searches)
		search_forget(&w->search);
	for (size_t i = 0; searches && i < w->search.part_count && !error && !w->search.unknown;
		i++)
		error = search_part(w, &w->search.parts[i], &left);
	for (size_t i = 0; searches && i < w->search.find_count && !error; i++)
		if (doubts_are_live(&w->doubts, &w->frames, &w->search, &w->search.finds[i]) &&
			!frames_add(&w->frames, w->search.finds[i].word))
			error = probe_error_no_memory();
	unknown = w->frames.unknown ? w->frames.unknown : w->search.unknown;
	if (error || !unknown)
		return error;
	return probe_error_new(PROBE_ERROR_REFUSED,
		"process %d: a signal handler may return between instructions that would be "
		"overwritten: %s",
		change->pid, unknown);
}

struct probe_error *windows_wait(struct windows *w)
{
	struct probe_error *error;
	bool settled;

	error = doubts_settle(&w->doubts, &w->search, &settled);
	if (!error && !settled)
		nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
	return error;
}

void windows_close(struct windows *w)
{
	doubts_deinit(&w->doubts);
	frames_close(&w->frames);
	search_close(&w->search);
	places_deinit(&w->places);
	*w = (struct windows){0};
}

/* ==== Quiet =================================================================================== */

/*
 * Once the bytes of a site are restored, nothing leads to its stubs. A thread in a stub soon leaves
 * it. But if a signal has interrupted the thread in the stub, the thread comes back to the stub
 * when the signal handler returns. The interrupted context is then on the thread's own stack or, if
 * the handler has switched to another user context, in memory that no thread uses as its stack. So
 * a stub is freed only after this proof:
 *
 *   look     all threads stopped: no register of a thread is in the stub, and no context that was
 *            saved for a handler on the stacks in use. Cheap, so it is repeated
 *   search   with the target running: no context in all its memory that was saved for a handler
 *            is in the stub. Skipped if no handler is installed: the frame of a handler that was
 *            removed while it runs is on its thread's stack, which the look covers
 *   judge    in the next look: the contexts found are still there, or the search is repeated.
 *            A thread that ran in the stub during the search, and was interrupted since, had no
 *            context in memory then. So this look covers the whole stacks that threads use
 *
 * No thread enters a stub any more, so a context that a search does not find does not appear later,
 * except for contexts that move: see libprobe/patch/search.c.
 *
 * The memory also has frames of handlers that have returned: see libprobe/patch/windows.c. A frame
 * that is dead in one look is dead in all later looks.
 *
 * If a search is incomplete, nothing is proved, and all stubs stay.
 */

/*
 * A thread in a stub continues at the target of the stub's last jump. A thread in the page of a pun
 * continues at a stub:
 *
 *   hop, pun  -->  stub  -->  older stub  -->  tail  -->  the program
 *
 * So if a thread may be in a piece of code, the target of the piece must stay, too. The targets are
 * read from the code itself, because the registry no longer links a stub whose site was patched
 * again in the meantime.
 *
 * A thread that a stub has sent into a function of the program can be anywhere. But the stub counts
 * the threads that leave it for a function, and the threads that return.
 */

enum { SLOTS_AT_ONCE = 64 };

struct leads {
	uint64_t *items;
	size_t count;
	/* a jump could not be read, so threads may continue anywhere */
	bool anywhere;
};

/* Returns the bytes of a site's hop, or 0. */
static uint64_t hop_size(const struct reg_site *site)
{
	return site->hop ? arch_host()->jump_length : 0;
}

/* Adds a stub's code, if it is readable, except the return addresses of called functions. */
static bool add_stub(
	struct places *places, const struct change *change, const struct reg_stub *stub)
{
	const struct reg_session *session = registry_session(&change->registry, stub->session);
	bool (*is_call)(const uint8_t *) = change->arch->is_function_call;
	uint64_t start = stub->start, end = stub->start + stub->size;
	size_t step = change->arch->insn_align, got;
	AUTO_FREE uint8_t *code = NULL;
	bool ok = true;

	if (!is_call || !session || !(session->flags & REG_SESSION_CALLS))
		return places_add(places, start, end);
	code = malloc(stub->size);
	if (!code)
		return false;
	got = memory_read(change->pid, start, code, stub->size);
	for (size_t i = step; i <= got && ok; i += step) {
		if (!is_call(code + i - step))
			continue;
		ok = places_add(places, start, stub->start + i);
		start = stub->start + i + 1;
	}
	return ok && places_add(places, start, end);
}

/*
 * Adds the code of ending sites and stubs, without return addresses of called functions: see
 * is_calling(). Returns false if out of memory.
 */
static bool busy_places(
	struct places *places, const struct change *change, const bool *sites, const bool *stubs)
{
	const struct registry *registry = &change->registry;
	bool ok = true;

	places->are_code = true;
	for (size_t i = 0; i < registry->stub_count && ok; i++)
		ok = !stubs[i] || add_stub(places, change, &registry->stubs[i]);
	for (size_t i = 0; i < registry->site_count && ok; i++) {
		const struct reg_site *site = &registry->sites[i];

		ok = !sites[i] ||
		     (places_add(places, site->tail, site->tail + site->tail_size) &&
			     places_add(places, site->pun, site->pun + site->pun_size) &&
			     places_add(places, site->hop, site->hop + hop_size(site)));
	}
	places_prepare(places);
	return ok;
}

static bool is_there(
	const struct frames *frames, const struct leads *leads, uint64_t start, uint64_t size)
{
	if (!size)
		return false;
	for (size_t i = 0; i < leads->count; i++)
		if (leads->items[i] - start < size)
			return true;
	return leads->anywhere || frames_within(frames, start, start + size);
}

/* Adds the target of the jump at `at`, which a thread will execute. */
static void follow(struct leads *leads, const struct change *change, uint64_t at)
{
	uint8_t bytes[ARCH_JUMP_MAX] = {0};

	if (ARRAY_ROOM(leads->items, leads->count) &&
		memory_read(change->pid, at, bytes, sizeof(bytes)) > 0)
		leads->items[leads->count] = change->arch->jump_target(at, bytes);
	else
		leads->anywhere = true;
	if (!leads->anywhere && leads->items[leads->count])
		leads->count++;
	else
		leads->anywhere = true;
}

/*
 * Returns true if functions called by a session's stubs, on any CPU, have not returned, or if their
 * counts are unreadable: then a thread may be anywhere, and will return to the stub. All threads
 * must be stopped.
 */
static bool is_calling(struct served *known, const struct reg_session *session)
{
	uint64_t calls = 0;

	for (uint32_t set = 0; set <= session->cpus; set++)
		for (uint32_t i = 0; i < session->slot_count; i += SLOTS_AT_ONCE) {
			struct probe_slot slots[SLOTS_AT_ONCE];
			uint64_t at = session->slots + ((uint64_t)set << session->slots_shift);
			uint32_t left = session->slot_count - i;
			uint32_t count = left < SLOTS_AT_ONCE ? left : SLOTS_AT_ONCE;

			if (memory_read_known(known, at + i * sizeof(*slots), slots,
				    count * sizeof(*slots)) != count * sizeof(*slots))
				return true;
			for (uint32_t k = 0; k < count; k++)
				calls += slots[k].hits - slots[k].seen;
		}
	return calls != 0;
}

static bool find_site(struct leads *leads, const struct change *change, const struct frames *frames,
	const struct reg_site *site)
{
	bool hop = is_there(frames, leads, site->hop, hop_size(site)), pun;

	if (hop)
		follow(leads, change, site->hop);
	pun = is_there(frames, leads, site->pun, site->pun_size);
	if (pun)
		follow(leads, change, site->entry);
	return hop || pun || is_there(frames, leads, site->tail, site->tail_size);
}

/*
 * Finds the ending sites and stubs that a thread is in, or will reach through an older stub or the
 * tail. The frames must be sorted. Code that is not busy now stays so, because no thread enters it
 * any more.
 */
static void find_busy(struct quiet *q, const struct change *change)
{
	const struct registry *r = &change->registry;
	struct leads leads = {0};
	bool found = true;

	memset(q->busy.stubs, 0, r->stub_count * sizeof(bool));
	memset(q->busy.sites, 0, r->site_count * sizeof(bool));
	q->busy.any = false;
	while (found) {
		found = false;
		for (size_t i = 0; i < r->stub_count; i++) {
			const struct reg_stub *stub = &r->stubs[i];
			const struct reg_session *session = registry_session(r, stub->session);
			bool called = session && q->busy.calling[session - r->sessions];

			if (!q->stubs[i] || q->busy.stubs[i] ||
				(!called && !is_there(&q->frames, &leads, stub->start, stub->size)))
				continue;
			follow(&leads, change, stub->start + stub->next_jump);
			q->busy.stubs[i] = found = true;
		}
		for (size_t i = 0; i < r->site_count; i++)
			if (q->sites[i] && !q->busy.sites[i] &&
				find_site(&leads, change, &q->frames, &r->sites[i]))
				q->busy.sites[i] = found = true;
		q->busy.any = q->busy.any || found;
	}
	free(leads.items);
}

enum {
	LOOKS = 50,
	QUIET_WAIT_NS = 1000000,
	SEARCHES = 8,
	/* number of bytes read, before a search, of a stack that libc did not make */
	NEAR_REACH = 64 << 10
};

struct probe_error *quiet_open(
	const struct change *change, const bool *sites, const bool *stubs, struct quiet *ret)
{
	const struct registry *r = &change->registry;

	*ret = (struct quiet){.sites = sites, .stubs = stubs};
	ret->busy = (struct busy){.sites = calloc(r->site_count + 1, sizeof(bool)),
		.stubs = calloc(r->stub_count + 1, sizeof(bool)),
		.calling = calloc(r->session_count + 1, sizeof(bool))};
	if (!ret->busy.sites || !ret->busy.stubs || !ret->busy.calling ||
		!busy_places(&ret->places, change, sites, stubs))
		return probe_error_no_memory();
	return frames_open(change->pid, &change->maps, &ret->places, NEAR_REACH, &ret->frames)
		       ?: search_open(
				  change->pid, change->mem, &ret->places, r->guard, &ret->search);
}

void quiet_close(struct quiet *quiet)
{
	free(quiet->busy.sites);
	free(quiet->busy.stubs);
	free(quiet->busy.calling);
	doubts_deinit(&quiet->doubts);
	frames_close(&quiet->frames);
	search_close(&quiet->search);
	places_deinit(&quiet->places);
}

struct probe_error *quiet_look(struct quiet *q, const struct change *change)
{
	const struct registry *r = &change->registry;
	struct probe_error *error = frames_read(&q->frames, &change->control);
	AUTO(served_end) struct served known = served_of(change->pid);

	if (error)
		return error;
	for (size_t i = 0; i < r->session_count; i++)
		q->busy.calling[i] = r->sessions[i].flags & REG_SESSION_CALLS &&
				     is_calling(&known, &r->sessions[i]);
	doubts_begin(&q->doubts, &change->control);
	for (size_t i = 0; i < q->search.find_count; i++) {
		struct search_find *find = &q->search.finds[i];
		uint64_t word;

		if (find->is_over)
			continue;
		if (memory_read_known(&known, find->at, &word, sizeof(word)) != sizeof(word) ||
			word != find->word)
			q->moved = true;
		else if (!doubts_are_live(&q->doubts, &q->frames, &q->search, find))
			find->is_over = true;
		else if (!frames_add(&q->frames, find->word))
			return probe_error_no_memory();
	}
	return NULL;
}

struct probe_error *quiet_wait(struct quiet *q, struct change *change, bool wait,
	struct probe_error *(*look)(void *data, struct change *change, bool first), void *data)
{
	int looks = 0, searches = 0;

	for (bool first = true;; first = false) {
		struct probe_error *error = look(data, change, first);
		bool settled;

		if (error)
			return error;
		frames_sort(&q->frames);
		find_busy(q, change);
		if (q->busy.any) {
			error = doubts_settle(&q->doubts, &q->search, &settled);
			if (error)
				return error;
			if (settled)
				continue;
		}
		if (q->busy.any && wait && ++looks < LOOKS) {
			nanosleep(&(struct timespec){.tv_nsec = QUIET_WAIT_NS}, NULL);
			continue;
		}
		/*
		 * Either no thread is known to be in the code, or the threads in it do not leave.
		 */
		if (!q->frames.has_handlers || (q->searched && !q->moved))
			return NULL;
		if (searches++ < SEARCHES) {
			error = search_all(&q->search);
			if (error)
				return error;
			q->searched = true;
			q->moved = false;
			q->frames.reach = FRAMES_REACH;
		}
		if (q->moved || q->search.unknown) {
			/* It is unknown which of them are busy, so all ending ones are. */
			memcpy(q->busy.stubs, q->stubs, change->registry.stub_count * sizeof(bool));
			memcpy(q->busy.sites, q->sites, change->registry.site_count * sizeof(bool));
			return NULL;
		}
		if (!q->search.find_count)
			return NULL;
	}
}
