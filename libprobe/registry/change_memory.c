/* SPDX-License-Identifier: MIT */
/*
 * Maps memory in a target, always where the kernel has nothing mapped:
 *
 *   arena    near each cluster of modules; readable and executable, private
 *            +-----------+---------------------------+---------------------+
 *            | home page | images of the registry    | stubs and tails     |
 *            +-----------+---------------------------+---------------------+
 *            (home page in the first arena only; the guard's page follows it:
 *            anonymous, readable and writable, wiped on fork, so that a child
 *            finds it zero)
 *   pun      one page each, readable and executable, private
 *   data     one mapping per session, shared with its controller: header,
 *            counters, rings (arch/layout.h)
 *
 * All of this memory except the guard is mapped from files in memory with our name; code is mapped
 * privately. So if a controller is killed before the registry lists its memory, even a descriptor
 * that is still open can be told from the target's own (libprobe/registry/registry.h).
 *
 * No page is writable and executable. Code is written through /proc/PID/mem.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "arch/process.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/page.h"
#include "libprobe/registry/registry.h"

/* ==== Code ==================================================================================== */

bool code_reaches(uint64_t start, uint64_t end, uint64_t reach_start, uint64_t reach_end)
{
	uint64_t low = start < reach_start ? start : reach_start;
	uint64_t high = end > reach_end ? end : reach_end;

	return high - low < arch_host()->jump_reach - REGISTRY_PAGE;
}

/* Returns all extents in use, sorted by address; NULL if memory is short. */
static struct code_extent *extents_in_use(
	const struct registry *registry, const struct code_taken *taken, size_t *count_ret)
{
	size_t count = 0, most = 2 * registry->site_count + registry->stub_count + taken->count + 3;
	struct code_extent *extents = calloc(most, sizeof(*extents));

	if (!extents)
		return NULL;
	if (registry->home)
		extents[count++] = (struct code_extent){registry->home, REGISTRY_PAGE};
	if (registry->guard)
		extents[count++] =
			(struct code_extent){registry_guard_page(registry), page_bytes()};
	if (registry->image)
		extents[count++] = (struct code_extent){registry->image, registry->image_size};
	for (size_t i = 0; i < registry->site_count; i++) {
		const struct reg_site *site = &registry->sites[i];

		if (site->tail)
			extents[count++] = (struct code_extent){site->tail, site->tail_size};
		if (site->pun)
			extents[count++] = (struct code_extent){site->pun, site->pun_size};
	}
	for (size_t i = 0; i < registry->stub_count; i++)
		extents[count++] =
			(struct code_extent){registry->stubs[i].start, registry->stubs[i].size};
	if (taken->count)
		memcpy(extents + count, taken->items, taken->count * sizeof(*extents));
	count += taken->count;
	ARRAY_SORT(extents, count, start);
	*count_ret = count;
	return extents;
}

static bool is_allocated(const struct reg_arena *arena)
{
	return arena->size > page_bytes();
}

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

/* Returns the first large enough gap between the extents of an arena, or 0. */
static uint64_t find_gap(const struct reg_arena *arena, const struct code_extent *extents,
	size_t count, size_t size, size_t alignment)
{
	uint64_t at = align_up(arena->start, alignment), end = arena->start + arena->size;

	for (size_t i = 0; i < count; i++) {
		const struct code_extent *e = &extents[i];

		if (e->start + e->size <= at || e->start >= end)
			continue;
		if (e->start >= at && e->start - at >= size)
			break;
		at = align_up(e->start + e->size, alignment);
	}
	return at < end && end - at >= size ? at : 0;
}

bool code_keep(struct code_taken *taken, struct code_extent extent)
{
	return ARRAY_ADD(taken->items, taken->count, extent);
}

void code_release(struct code_taken *taken)
{
	taken->count--;
}

void code_release_all(struct code_taken *taken)
{
	taken->count = 0;
}

uint64_t code_alloc(const struct registry *registry, struct code_taken *taken, size_t size,
	size_t alignment, uint64_t reach_start, uint64_t reach_end)
{
	size_t count;
	AUTO_FREE struct code_extent *extents = extents_in_use(registry, taken, &count);
	uint64_t found = 0;

	for (size_t i = 0; extents && i < registry->arena_count && !found; i++) {
		const struct reg_arena *arena = &registry->arenas[i];

		if (is_allocated(arena) && code_reaches(arena->start, arena->start + arena->size,
						   reach_start, reach_end))
			found = find_gap(arena, extents, count, size, alignment);
	}
	return found && code_keep(taken, (struct code_extent){found, size}) ? found : 0;
}

bool code_arena(const struct registry *registry, uint64_t address)
{
	const struct reg_arena *arena = registry_arena(registry, address);

	return arena && is_allocated(arena);
}

bool code_take(
	const struct registry *registry, struct code_taken *taken, uint64_t start, size_t size)
{
	size_t count;
	AUTO_FREE struct code_extent *extents = extents_in_use(registry, taken, &count);
	bool is_free =
		extents && code_arena(registry, start) && code_arena(registry, start + size - 1);

	for (size_t i = 0; is_free && i < count; i++)
		is_free = extents[i].start >= start + size ||
			  extents[i].start + extents[i].size <= start;
	return is_free && code_keep(taken, (struct code_extent){start, size});
}

/* ==== Space =================================================================================== */

/*
 * Finds addresses for new memory, away from the heap and the main stack, which grow up to a limit
 * that the program may change.
 */

#define LOWEST UINT64_C(0x10000) /* vm.mmap_min_addr is at most this */
#define HEAP_BERTH (UINT64_C(64) << 20)
#define STACK_BERTH (UINT64_C(64) << 20)
#define STEP_ASIDE (UINT64_C(64) << 10) /* gap to neighbours, so that overruns still fault */

/* Returns the range of a mapping, including room for it to grow. */
static void occupied(const struct mapping *m, uint64_t *start_ret, uint64_t *end_ret)
{
	*start_ret = m->start;
	*end_ret = m->end;
	if (strcmp(m->path, "[stack]") == 0)
		*start_ret = m->start > STACK_BERTH ? m->start - STACK_BERTH : 0;
	else if (strcmp(m->path, "[heap]") == 0)
		*end_ret = m->end + HEAP_BERTH;
}

bool space_is_free(const struct maps *maps, uint64_t start, uint64_t end)
{
	if (start < LOWEST || end > arch_process()->address_end || end <= start)
		return false;
	for (size_t i = 0; i < maps->count; i++) {
		uint64_t low, high;

		occupied(&maps->items[i], &low, &high);
		if (low < end && start < high)
			return false;
	}
	return true;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* A search, and the nearest place found so far. */
struct quest {
	uint64_t size, reach_start, reach_end;
	uint64_t best; /* the nearest place found so far, or 0 */
};

static void consider(struct quest *q, uint64_t at, uint64_t low, uint64_t high)
{
	if (at < low || at > high || high - at < q->size ||
		!code_reaches(at, at + q->size, q->reach_start, q->reach_end) ||
		(q->best && distance(at, q->reach_start) >= distance(q->best, q->reach_start)))
		return;
	q->best = at;
}

uint64_t space_find(
	const struct maps *maps, uint64_t size, uint64_t reach_start, uint64_t reach_end)
{
	struct quest q = {
		.size = page_after(size), .reach_start = reach_start, .reach_end = reach_end};
	uint64_t low = LOWEST, highest = arch_process()->address_end;

	if (q.size < size || q.size > highest - LOWEST)
		return 0;
	/* The nearest place is at the start or the end of a gap. */
	for (size_t i = 0; i <= maps->count; i++) {
		uint64_t high = highest, next = highest;

		if (i < maps->count)
			occupied(&maps->items[i], &high, &next);
		if (high > highest)
			high = highest;
		if (low < high && high - low >= q.size) {
			consider(&q, low + STEP_ASIDE, low, high);
			if (high - low >= q.size + STEP_ASIDE)
				consider(&q, high - STEP_ASIDE - q.size, low, high);
		}
		if (next > low)
			low = page_after(next);
	}
	return q.best;
}

/* ==== Change memory =========================================================================== */

enum { MAP_TRIES = 4, EXTENTS_AT_ONCE = 8 /* extents unmapped in one stop */ };

/* A call of mmap(2) whose file is not known yet. */
static struct control_call call_mmap(uint64_t address, uint64_t size, int prot, int flags)
{
	return (struct control_call){
		.number = SYS_mmap, .args = {address, size, prot, flags, UINT64_MAX, 0}};
}

struct probe_error *change_reread_maps(struct change *change)
{
	maps_deinit(&change->maps);
	return maps_read(change->pid, &change->maps);
}

struct probe_error *change_confirm(const struct change *change)
{
	bool holds = false;
	struct probe_error *error = own_holds(change->pid, change->mem, &change->registry, &holds);

	if (!error && !holds)
		error = change_check_program(change);
	return error || holds ? error
			      : probe_error_new(PROBE_ERROR_STATE,
					"process %d has just mapped memory over that of probectl, "
					"or unmapped it: try again",
					change->pid);
}

struct probe_error *change_begin_write(struct change *change, bool *stops_ret)
{
	struct probe_error *error = NULL;

	*stops_ret = !change->stopped;
	if (*stops_ret)
		error = change_stop(change);
	error = error ?: change_confirm(change);
	if (error)
		change_end_write(change, *stops_ret);
	else
		change->begun = true;
	return error;
}

void change_end_write(struct change *change, bool stops)
{
	if (stops)
		change_resume(change);
}

struct probe_error *change_write(
	struct change *change, uint64_t address, const void *bytes, size_t size)
{
	bool stops;
	struct probe_error *error = change_begin_write(change, &stops);

	if (error)
		return error;
	error = memory_write_code(change->mem, address, bytes, size);
	change_end_write(change, stops);
	return error;
}

struct probe_error *change_fill(
	struct change *change, uint64_t address, const void *bytes, size_t size)
{
	AUTO_FREE uint8_t *zeros = bytes ? NULL : calloc(1, CHANGE_PIECE_BYTES);
	struct probe_error *error = bytes || zeros ? NULL : probe_error_no_memory();

	for (size_t at = 0, piece; at < size && !error; at += piece) {
		piece = size - at < CHANGE_PIECE_BYTES ? size - at : CHANGE_PIECE_BYTES;
		error = change_write(
			change, address + at, bytes ? (const uint8_t *)bytes + at : zeros, piece);
	}
	return error;
}

/* ---- Code memory ---------------------------------------------------------------------- */

struct control_call change_call_map_code(uint64_t address, uint64_t size)
{
	struct control_call call =
		call_mmap(address, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE);

	/* Kernels before 4.17 take the address only as a hint. */
	call.wanted = address;
	return call;
}

/*
 * Makes an arena the home, and its last page the guard. Stores the registry in the same stop, so
 * that the next controller finds it.
 */
static struct probe_error *make_home(struct change *change, struct reg_arena *arena)
{
	static const uint32_t one = 1;
	const uint64_t guard = arena->start + arena->size - page_bytes();
	/* The mark that identifies the guard's page; the page begins with the word that stubs test.
	 */
	const struct guard_mark mark = {GUARD_MAGIC, guard};
	struct control_call calls[] = {
		call_mmap(guard, page_bytes(), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED),
		{.number = SYS_madvise, .args = {guard, page_bytes(), MADV_WIPEONFORK}},
	};
	bool stops;
	/* Before the stop, find everything that the calls need. */
	struct probe_error *error = change_run(change, "map memory for code", NULL, 0)
					    ?: change_begin_write(change, &stops);

	if (error)
		return error;
	calls[0].wanted = guard;
	error = change_run(change, "map memory for code", calls, 2);
	if (!error) {
		error = memory_write_code(
			change->mem, guard + GUARD_MARK_OFFSET, &mark, sizeof(mark));
		change->registry.guard = guard;
	}
	error = error ?: memory_write_code(change->mem, guard, &one, sizeof(one));
	change->registry.home = arena->start;
	arena->size -= page_bytes();
	error = error ?: change_store(change, true);
	change_end_write(change, stops);
	return error;
}

/* Maps an arena at an address. *taken_ret is true if something is already mapped there. */
static struct probe_error *map_arena_at(
	struct change *change, uint64_t address, uint64_t size, bool *taken_ret)
{
	struct control_call call = change_call_map_code(address, size);
	struct probe_error *error = change_map_file(change, size, NULL, &call, 1, NULL);

	*taken_ret = call.result == -EEXIST;
	if (error && *taken_ret) {
		probe_error_free(error);
		return NULL;
	}
	if (call.result > 0 && (error || (uint64_t)call.result != address)) {
		struct own_extent undo = {(uint64_t)call.result, size, OWN_NAMED, false, false};
		struct probe_error *second = own_unmap(change, &undo, 1);

		*taken_ret = !error;
		if (!error)
			return second;
		probe_error_free(second);
	}
	return error;
}

/* Finds a place for an arena and maps it there. */
static struct probe_error *place_arena(
	struct change *change, struct reg_arena *arena, uint64_t reach_start, uint64_t reach_end)
{
	struct probe_error *error = NULL;
	bool taken = true;

	for (int i = 0; i < MAP_TRIES && !error && taken; i++) {
		if (i)
			error = change_reread_maps(change);
		if (error)
			break;
		arena->start = space_find(&change->maps, arena->size, reach_start, reach_end);
		if (!arena->start)
			error = probe_error_new(PROBE_ERROR_REFUSED,
				"process %d has no free address space within %ju MiB of the module",
				change->pid, (uintmax_t)change->arch->jump_reach >> 20);
		else
			error = map_arena_at(change, arena->start, arena->size, &taken);
	}
	if (!error && taken)
		error = probe_error_new(PROBE_ERROR_STATE,
			"process %d maps memory faster than a place for ours is found: try again",
			change->pid);
	return error;
}

static struct probe_error *map_arena(
	struct change *change, uint64_t size, uint64_t reach_start, uint64_t reach_end)
{
	struct registry *r = &change->registry;
	struct reg_arena arena = {.size = size}, *added;
	struct probe_error *error = place_arena(change, &arena, reach_start, reach_end);
	const struct mapping *m;

	error = error ?: change_reread_maps(change);
	if (error)
		return error;
	m = maps_find(&change->maps, arena.start);
	if (!m || !shared_is_code(m))
		return shared_replaced(change->pid);
	added = registry_add_arena(r);
	if (!added)
		return probe_error_no_memory();
	*added = arena;
	added->inode = m->inode;
	return r->home ? NULL : make_home(change, added);
}

static struct probe_error *alloc_code(
	struct change *change, size_t size, struct code_extent reach, uint64_t *ret)
{
	struct registry *r = &change->registry;
	uint64_t end = reach.start + reach.size, arena = ARENA_BYTES;
	struct probe_error *error;

	*ret = code_alloc(r, &change->taken, size, ARCH_STUB_ALIGN, reach.start, end);
	if (*ret)
		return NULL;
	while (arena < size * 2 + ARENA_BYTES / 2)
		arena *= 2;
	error = map_arena(change, arena, reach.start, end);
	if (error)
		return error;
	*ret = code_alloc(r, &change->taken, size, ARCH_STUB_ALIGN, reach.start, end);
	return *ret ? NULL : probe_error_no_memory();
}

struct probe_error *change_alloc_code(struct change *change, size_t size,
	const struct code_extent *reaches, size_t count, uint64_t *ret)
{
	struct probe_error *error = alloc_code(change, size, reaches[0], ret);

	for (size_t i = 1; i < count && error && error->code == PROBE_ERROR_REFUSED; i++) {
		probe_error_free(error);
		error = alloc_code(change, size, reaches[i], ret);
	}
	return error;
}

/* Writes a path into free code memory. The kernel can read it there until it is overwritten. */
static struct probe_error *put_path(struct change *change, const char *path, uint64_t *ret)
{
	struct registry *r = &change->registry;
	size_t size = strlen(path) + 1;
	struct probe_error *error;

	if (change->seccomp.count)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d is under a seccomp filter, and must not open files for "
			"probectl: without --file, the flight recorder is in its memory, and in "
			"its "
			"core file",
			change->pid);
	error = change_alloc_code(change, size, &(struct code_extent){r->home, 1}, 1, ret);
	if (error)
		return error;
	error = change_write(change, *ret, path, size);
	if (error)
		code_release(&change->taken);
	return error;
}

struct probe_error *change_map_data(struct change *change, size_t size,
	const struct lasting_file *data, bool is_private, uint64_t *address_ret, int *fd_ret)
{
	struct control_call call = call_mmap(0, size, PROT_READ | PROT_WRITE,
		(is_private ? MAP_PRIVATE : MAP_SHARED) | MAP_NORESERVE);
	struct lasting_file file = *data;
	struct probe_error *error = NULL;

	if (file.path)
		error = put_path(change, file.path, &file.address);
	if (error)
		return error;
	error = change_map_file(change, size, &file, &call, 1, fd_ret);
	if (file.path)
		code_release(&change->taken);
	*address_ret = call.result;
	return error;
}

/* ---- Unmapping ------------------------------------------------------------------------ */

struct probe_error *change_unmap_arenas(
	struct change *change, const struct reg_arena *arenas, size_t count)
{
	AUTO_FREE struct own_extent *extents = calloc(count + 1, sizeof(*extents));
	struct probe_error *error;

	if (!extents)
		return probe_error_no_memory();
	for (size_t i = 0; i < count; i++)
		extents[i] = (struct own_extent){
			arenas[i].start, arenas[i].size, arenas[i].inode, false, false};
	error = own_unmap(change, extents, count);
	for (size_t i = 0; i < count && !error; i++) {
		struct reg_arena *kept =
			extents[i].is_sealed ? registry_add_arena(&change->registry) : NULL;

		if (kept)
			*kept = arenas[i];
		if (kept)
			kept->sealed = 1;
		else if (extents[i].is_sealed)
			error = probe_error_no_memory();
	}
	return error;
}

/* Takes all arenas out of the registry, except sealed ones and the home's. */
static struct reg_arena *take_arenas(struct registry *r, size_t *count_ret)
{
	struct reg_arena *taken = calloc(r->arena_count + 1, sizeof(*taken));
	size_t kept = 0;

	*count_ret = 0;
	for (size_t i = 0; taken && i < r->arena_count; i++) {
		struct reg_arena *arena = &r->arenas[i];

		if (arena->sealed || r->home - arena->start < arena->size)
			r->arenas[kept++] = *arena;
		else
			taken[(*count_ret)++] = *arena;
	}
	if (taken)
		r->arena_count = kept;
	return taken;
}

/*
 * Unmaps everything after the last session, the home's arena last. If the program has sealed
 * another arena, the home stays, too. If we die halfway, an arena that is listed but unmapped is
 * harmless (own.c), and one that is mapped but not listed is an orphan.
 */
static struct probe_error *unmap_all(struct change *change)
{
	struct registry *r = &change->registry;
	size_t count, sealed = 0, home = SIZE_MAX;
	AUTO_FREE struct reg_arena *arenas = take_arenas(r, &count);
	struct probe_error *error =
		arenas ? change_unmap_arenas(change, arenas, count) : probe_error_no_memory();
	for (size_t i = 0; i < r->arena_count; i++) {
		sealed += r->arenas[i].sealed != 0;
		if (r->home - r->arenas[i].start < r->arenas[i].size)
			home = i;
	}
	if (!error && !sealed && home != SIZE_MAX) {
		struct reg_arena *arena = &r->arenas[home];
		uint64_t guard = registry_guard_page(r);
		struct own_extent extents[] = {
			{arena->start, arena->size, arena->inode, false, false},
			{guard, page_bytes(), OWN_GUARD, true, false}};

		error = own_unmap(change, extents, guard ? 2 : 1);
		sealed = arena->sealed = extents[0].is_sealed;
	}
	if (!error && sealed)
		return r->home ? change_store(change, true) : NULL;
	if (!error)
		registry_deinit(r);
	return error;
}

/* Notes the files of retired sessions before their memory is unmapped. */
static struct probe_error *note_files(const struct change *change, struct lasting_names *names)
{
	const struct registry *r = &change->registry;
	AUTO_FREE struct maps_part *parts = calloc(r->session_count + 1, sizeof(*parts));
	AUTO(maps_deinit) struct maps maps = {0};
	struct probe_error *error;
	size_t count = 0;

	if (!parts)
		return probe_error_no_memory();
	for (size_t i = 0; i < r->session_count; i++)
		if (r->sessions[i].flags & REG_SESSION_RETIRED)
			parts[count++] = (struct maps_part){r->sessions[i].data, 1};
	error = maps_read_parts(change->pid, parts, count, &maps);
	for (size_t i = 0; i < r->session_count && !error; i++) {
		const struct reg_session *session = &r->sessions[i];
		const struct mapping *m = maps_find(&maps, session->data);
		struct data_header header;

		if (!(session->flags & REG_SESSION_RETIRED) || !m || !shared_is_lasting(m))
			continue;
		/* A process that was forked with the session's memory has not made it. */
		if (memory_read(change->pid, session->data, &header, sizeof(header)) ==
				sizeof(header) &&
			header.maker && header.maker == lasting_maker(change->pid) &&
			!lasting_note(names, &maps, session->data))
			error = probe_error_no_memory();
	}
	return error;
}

/*
 * Unmaps data that the registry has dropped and, after the last session, everything of ours.
 * *ended_ret is true if the data was unmapped.
 */
static struct probe_error *unmap_ended(
	struct change *change, struct own_extent *data, size_t count, bool *ended_ret)
{
	struct registry *r = &change->registry;
	struct probe_error *error = NULL;

	/*
	 * Drop the data from the registry first: if we die in between, the data is an orphan, and
	 * is not unmapped twice.
	 */
	if (r->home && (count || r->session_count))
		error = change_store(change, true);
	error = error ?: own_unmap(change, data, count);
	*ended_ret = !error;
	return error || !r->arena_count || r->session_count ? error : unmap_all(change);
}

struct probe_error *change_collect(struct change *change)
{
	struct registry *r = &change->registry;
	AUTO_FREE struct own_extent *data = calloc(r->session_count + 1, sizeof(*data));
	AUTO(lasting_deinit) struct lasting_names files = {0};
	struct probe_error *error = data ? note_files(change, &files) : probe_error_no_memory();
	bool stops = false, ended = false;
	size_t count = 0, kept = 0, extents;

	if (error)
		return error;
	for (size_t i = 0; i < r->session_count; i++) {
		const struct reg_session session = r->sessions[i];

		if (!(session.flags & REG_SESSION_RETIRED)) {
			r->sessions[kept++] = session;
			continue;
		}
		data[count++] = (struct own_extent){
			session.data, session.data_size, session.inode, false, false};
		registry_forget_texts(r, session.id);
	}
	r->session_count = kept;
	extents = count + (kept ? 0 : r->arena_count);
	/* Prepare everything that calls need before the stop. */
	if (extents)
		error = change_run(change, "unmap memory", NULL, 0);
	/* If there is little to unmap, one stop is enough; if there is much, several are made. */
	if (!error && !change->stopped && extents && extents <= EXTENTS_AT_ONCE) {
		error = change_stop(change);
		stops = !error;
	}
	error = error ?: unmap_ended(change, data, count, &ended);
	if (stops)
		change_resume(change);
	if (ended)
		lasting_remove(&files, change->pid);
	return error;
}
