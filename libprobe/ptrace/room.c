/* SPDX-License-Identifier: MIT */
/*
 * When a thread of the target makes a system call for us, it needs a frame
 * (libprobe/ptrace/remote.c). The thread only reads the frame, and only if we die. The frame cannot
 * lie below the thread's stack pointer, because we do not know how large the stack is. An alternate
 * stack may be an array of a few KiB. A coroutine's stack may be part of another stack or of a
 * larger mapping, with memory in use right below it. So the frame lies in a room of one of two
 * kinds:
 *
 *   tail     A segment of a file rarely ends at the end of a page. The rest of its last page
 *            is mapped, but belongs to no segment. After a segment that is not writable,
 *            this rest is unused. (After writable segments, musl gives it to malloc(), and
 *            glibc's loader allocates there.) The bytes of an unused rest equal the file's,
 *            so the frame of a killed controller is recognised and removed:
 *
 *              | page               | page               |
 *              | .rodata ...................... |  tail  |
 *                                      p_memsz ^        ^ not in the next mapping
 *
 *   stack    Pages at the lower end of the main thread's stack that the kernel has not
 *            allocated yet. Nothing was ever written there, and no program relies on the
 *            bytes of a stack before it writes them. After our use the pages exist, with a
 *            checksum over all of them. As long as the checksum is right, nothing else has
 *            written there.
 *
 * A thread that a killed controller borrowed may be about to read the frame. So we remove the frame
 * and reuse the room only after a stop of all threads that found no stack pointer in the room.
 *
 * Tails are searched for only in the program and its libc, which are never unmapped. They are
 * written through /proc/PID/mem. The file must not change, so a shared mapping cannot hold a room.
 *
 * Sources: Linux, Documentation/admin-guide/mm/pagemap.rst; ELF specification, program headers;
 * musl, ldso/dynlink.c, reclaim_gaps(); glibc, elf/dl-minimal-malloc.c.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/map.h"
#include "libprobe/base/page.h"
#include "libprobe/ptrace/ptrace.h"

/* STACK_PAGES_MAX is for the smallest size of pages. */
enum {
	TAIL_MIN = 384,
	BYTES_MAX = 4096, /* bytes of a room that are compared with the file */
	STACK_PAGES_MAX = ROOM_STACK_BYTES / 4096,
	STACK_LOOKS = 64
};

/* ---- Tails ------------------------------------------------------------------------------- */

/* Returns true if a module stays mapped: the program, libc, or its loader. */
static bool stays_mapped(pid_t pid, const struct module *module)
{
	struct stat program, file;

	if (module_is_libc(module))
		return true;
	return stat(procfs_path("/proc/%d/exe", pid).text, &program) == 0 &&
	       fstat(module->fd, &file) == 0 && program.st_dev == file.st_dev &&
	       program.st_ino == file.st_ino;
}

/* Returns true if a segment has bytes in [start, end), in the file's addresses. */
static bool is_in_segment(const struct module *module, uint64_t start, uint64_t end)
{
	size_t count;
	const struct object_segment *s = object_segments(module->object, &count);

	for (size_t i = 0; i < count; i++)
		if (s[i].address < end && s[i].address + s[i].size > start)
			return true;
	return false;
}

/* Finds the tail behind a segment, and the offset of its bytes in the file. */
static bool find_tail(const struct maps *maps, const struct module *module,
	const struct object_segment *segment, struct room *ret, uint64_t *offset_ret)
{
	uint64_t end = segment->address + segment->size;
	uint64_t page_end = page_after(end);
	uint64_t start = module->bias + end, skipped = -start & (ROOM_ALIGN - 1);
	const struct mapping *m;

	if (segment->writable || !segment->readable || segment->size != segment->file_size ||
		!segment->size || page_end - end < skipped + TAIL_MIN ||
		is_in_segment(module, end, page_end))
		return false;
	m = maps_find(maps, start - 1);
	if (!m || m->end < module->bias + page_end || !m->readable || m->writable || m->is_shared ||
		m->inode != module->inode || m->dev_major != module->dev_major ||
		m->dev_minor != module->dev_minor ||
		m->offset + (start - m->start) != segment->offset + segment->size)
		return false;
	*ret = (struct room){ROOM_TAIL, start + skipped, page_end - end - skipped};
	if (ret->size > BYTES_MAX)
		ret->size = BYTES_MAX;
	*offset_ret = segment->offset + segment->size + skipped;
	return true;
}

static bool has_mark(const uint8_t *bytes, size_t size)
{
	const size_t offsets[] = {arch_process()->frame_mark, arch_process()->state_mark};

	for (size_t i = 0; i < (arch_process()->layout->state ? 2 : 1); i++)
		if (size >= offsets[i] + sizeof(ROOM_MARK) &&
			memcmp(bytes + offsets[i], ROOM_MARK, sizeof(ROOM_MARK)) == 0)
			return true;
	return false;
}

static void add_left(struct rooms *rooms, const struct room *room)
{
	if (rooms->left_count < ROOMS_MAX)
		rooms->left[rooms->left_count++] = *room;
}

/*
 * Compares a tail with the file. If they differ, it has a killed controller's frame, or is in use.
 */
static struct probe_error *check_tail(pid_t pid, const struct module *module,
	const struct room *room, uint64_t offset, bool reclaim, struct rooms *rooms)
{
	uint8_t file[BYTES_MAX] = {0}, memory[BYTES_MAX];

	/* Beyond the end of the file, memory holds zeros. */
	if (pread(module->fd, file, room->size, (off_t)offset) < 0 ||
		memory_read(pid, room->start, memory, room->size) != room->size)
		return NULL;
	if (memcmp(file, memory, room->size) == 0) {
		if (rooms->count < ROOMS_MAX)
			rooms->items[rooms->count++] = *room;
		return NULL;
	}
	if (!has_mark(memory, room->size))
		return NULL;
	if (!reclaim) {
		add_left(rooms, room);
		return NULL;
	}
	rooms->items[rooms->count++] = *room;
	return memory_write_code(rooms->mem, room->start, file, room->size);
}

static struct probe_error *add_tails(
	pid_t pid, const struct module *module, bool executable, bool reclaim, struct rooms *rooms)
{
	struct probe_error *error = NULL;
	size_t count;
	const struct object_segment *segments = object_segments(module->object, &count);

	for (size_t i = 0; i < count && !error && rooms->count < ROOMS_MAX; i++) {
		struct room room;
		uint64_t offset;

		if (segments[i].executable == executable &&
			find_tail(rooms->maps, module, &segments[i], &room, &offset))
			error = check_tail(pid, module, &room, offset, reclaim, rooms);
	}
	return error;
}

/* Returns true if an address is in a room that has a killed controller's frame. */
static bool rooms_are_left_at(const struct rooms *rooms, uint64_t address)
{
	for (size_t i = 0; i < rooms->left_count; i++)
		if (address - rooms->left[i].start < rooms->left[i].size)
			return true;
	return false;
}

/* ---- The stack ---------------------------------------------------------------------------- */

struct seal {
	char mark[16];
	uint64_t sum;
};
_Static_assert(sizeof(struct seal) <= ROOM_ALIGN, "the rest is the frame's");

/* Returns the checksum of all bytes except the header. */
static uint64_t sum_of(const uint8_t bytes[ROOM_STACK_BYTES])
{
	return hash_fnv(
		FNV_START, bytes + sizeof(struct seal), ROOM_STACK_BYTES - sizeof(struct seal));
}

void room_seal(uint8_t bytes[ROOM_STACK_BYTES])
{
	struct seal seal = {.mark = ROOM_MARK, .sum = sum_of(bytes)};

	memcpy(bytes, &seal, sizeof(seal));
}

enum stack_state { STACK_OTHERS, STACK_FREE, STACK_LEFT };

/* Returns the state of the pages at `address`, with these pagemap entries. */
static enum stack_state stack_state(
	pid_t pid, const uint64_t *entries, size_t count, uint64_t address)
{
	uint8_t bytes[ROOM_STACK_BYTES];
	uint64_t touched = 0;
	struct seal seal;

	/* Bit 63: the page is in memory. Bit 62: the page is in swap. */
	for (size_t i = 0; i < count; i++)
		touched |= entries[i] >> 62;
	if (!touched)
		return STACK_FREE;
	/*
	 * If the pages begin with a seal whose checksum is right, only we have written to them.
	 * Read only pages that are in memory, because reading any other page would allocate it.
	 */
	if (!(entries[0] >> 62) || memory_read(pid, address, &seal, sizeof(seal)) != sizeof(seal) ||
		memcmp(seal.mark, ROOM_MARK, sizeof(ROOM_MARK)) != 0 ||
		memory_read(pid, address, bytes, sizeof(bytes)) != sizeof(bytes) ||
		seal.sum != sum_of(bytes))
		return STACK_OTHERS;
	return has_mark(bytes + ROOM_ALIGN, sizeof(bytes) - ROOM_ALIGN) ? STACK_LEFT : STACK_FREE;
}
/* Finds the first room in the state `wanted`, from room->start on. */
static bool find_on_stack(
	pid_t pid, const struct maps *maps, enum stack_state wanted, struct room *room)
{
	uint64_t entries[STACK_LOOKS + STACK_PAGES_MAX - 1] = {0};
	const struct mapping *stack = NULL;
	size_t pages, each = (size_t)(page_after(ROOM_STACK_BYTES) / page_bytes());
	AUTO_FD int fd = -1;
	ssize_t got;

	for (size_t i = 0; i < maps->count && !stack; i++)
		if (strcmp(maps->items[i].path, "[stack]") == 0 && maps->items[i].writable)
			stack = &maps->items[i];
	if (!stack)
		return false;
	*room = (struct room){.kind = ROOM_STACK,
		.start = room->start > stack->start ? room->start : stack->start,
		.size = ROOM_STACK_BYTES};
	fd = memory_open_pagemap(pid);
	got = pread(fd, entries, sizeof(entries),
		(off_t)(room->start / page_bytes() * sizeof(*entries)));
	pages = got > 0 ? (size_t)got / sizeof(*entries) : 0;
	for (size_t i = 0; i + each <= pages; i++, room->start += page_bytes()) {
		if (room->start + ROOM_STACK_BYTES > stack->end)
			break;
		if (stack_state(pid, &entries[i], each, room->start) == wanted)
			return true;
	}
	return false;
}

bool room_on_stack(pid_t pid, const struct maps *maps, struct room *ret)
{
	AUTO(served_end) struct served served = served_of(pid);
	bool ready;

	*ret = (struct room){.start = 0};
	ready = find_on_stack(pid, maps, STACK_FREE, ret);
	/* A write must not wait for the program (userfaultfd(2)). */
	for (size_t at = 0; at < ret->size && ready; at += page_bytes())
		ready = served_writable(&served, ret->start + at);
	return ready;
}

static struct probe_error *check_stack(pid_t pid, bool reclaim, struct rooms *rooms)
{
	struct probe_error *error = NULL;
	struct room room = {.start = 0};

	while (!error && find_on_stack(pid, rooms->maps, STACK_LEFT, &room)) {
		uint8_t bytes[ROOM_STACK_BYTES] = {0};

		room_seal(bytes);
		if (reclaim)
			error = memory_write_code(rooms->mem, room.start, bytes, sizeof(bytes));
		else
			add_left(rooms, &room);
		room.start = page_after(room.start + ROOM_STACK_BYTES);
	}
	return error;
}

/* ---- All ------------------------------------------------------------------------------------- */

struct probe_error *rooms_find(pid_t pid, int mem, const struct maps *maps,
	const struct modules *modules, bool reclaim, struct rooms *ret)
{
	struct probe_error *error = NULL;

	*ret = (struct rooms){.mem = mem, .maps = maps};
	/* The first round takes the segments without code, the second round those with code. */
	for (size_t i = 0; i < 2 * modules->count && !error; i++) {
		const struct module *m = &modules->items[i % modules->count];

		if (m->object && stays_mapped(pid, m))
			error = add_tails(pid, m, i >= modules->count, reclaim, ret);
	}
	return error ?: check_stack(pid, reclaim, ret);
}

/* ---- Frames of killed controllers ------------------------------------------------------------ */

enum {
	RECLAIM_TRIES = 20,
	RECLAIM_WAIT_NS = 1000000,
	HANDLER_STACK = 64 << 10 /* bytes of stack that are searched for a handler's frame */
};

/*
 * Returns true if a signal handler may have interrupted the thread at `leave`. The handler's frame
 * on the stack then has a frame pointer into a room. Searches up to the end of the stack's mapping.
 * True if it is unreadable.
 */
static bool handler_leads_to_room(pid_t pid, const struct rooms *rooms, uint64_t sp)
{
	const struct mapping *m = maps_find(rooms->maps, sp);
	uint64_t at = sp & ~UINT64_C(7), end = sp + HANDLER_STACK, words[512];

	if (m && m->end < end)
		end = m->end;
	while (at < end) {
		size_t want = end - at < sizeof(words) ? end - at : sizeof(words);
		size_t size = memory_read(pid, at, words, want);

		for (size_t i = 0; i < size / sizeof(*words); i++)
			if (rooms_are_left_at(rooms, words[i]))
				return true;
		if (size != want)
			return m && m->readable;
		at += size;
	}
	return false;
}

/* Removes killed controllers' frames in a stop of all threads, unless a thread still uses one. */
static struct probe_error *reclaim_rooms(pid_t pid, pid_t lender, uint64_t patience_ns,
	const struct modules *modules, struct rooms *rooms, bool *used_ret)
{
	struct control control;
	struct probe_error *error = control_stop(pid, lender, patience_ns, &control);

	*used_ret = false;
	if (error)
		return error;
	for (size_t i = 0; i < control.count && !*used_ret; i++) {
		const struct arch_registers *regs = &control.threads[i].regs;
		uint64_t sp = arch_get(regs, ARCH_SP);

		*used_ret = rooms_are_left_at(rooms, sp) ||
			    rooms_are_left_at(rooms, arch_get(regs, ARCH_FP)) ||
			    handler_leads_to_room(pid, rooms, sp);
	}
	if (!*used_ret)
		error = rooms_find(pid, rooms->mem, rooms->maps, modules, true, rooms);
	control_resume(&control);
	return error;
}

struct probe_error *control_find_rooms(pid_t pid, pid_t lender, uint64_t patience_ns, int mem,
	const struct maps *maps, const struct modules *modules, struct rooms *ret)
{
	struct probe_error *error = rooms_find(pid, mem, maps, modules, false, ret);
	bool is_used = false;

	for (int i = 0; i < RECLAIM_TRIES && !error && ret->left_count; i++) {
		if (i)
			nanosleep(&(struct timespec){.tv_nsec = RECLAIM_WAIT_NS}, NULL);
		error = reclaim_rooms(pid, lender, patience_ns, modules, ret, &is_used);
	}
	/* Until the thread has returned, its real registers are only in the frame. */
	if (!error && is_used)
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d: a thread has not returned yet from a system call that it made "
			"for a controller that was killed: try again",
			pid);
	arch_process()->measure_state(&ret->usual_state);
	return error;
}
