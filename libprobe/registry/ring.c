/* SPDX-License-Identifier: MIT */
/*
 * Reads the rings of a session.
 *
 * Every ring has one reader, the controller, and one writer at a time. The target stores `head`
 * after the record (x86 keeps the order of stores), and the controller loads `head` with acquire.
 * The controller stores `tail` with release after it has copied the record, and the target reads
 * `tail` before it writes.
 *
 * The records of one ring are in the order of time, so the oldest record of all is the first record
 * of some ring. A round reads only records from before the round began: a later record may already
 * be in its ring while an older one is still being written to another ring.
 *
 * The target can write anything anywhere in the data. Heads are checked against the size of the
 * ring, and records are copied before they are examined.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"
#include "libprobe/registry/registry.h"

/* ==== Room ==================================================================================== */

/*
 * If the target writes impossible values into this word, only its own threads wait longer, up to
 * their limit.
 */
void room_tell(struct probe_room *room)
{
	_Atomic uint32_t *owner = (_Atomic uint32_t *)&room->gate.turns[0].owner;

	atomic_fetch_add((_Atomic uint64_t *)&room->moved, 1);
	/* Pairs with a stub that sets ROOM_WAITED and then looks for room once more. */
	if (atomic_fetch_and(owner, ~ROOM_WAITED) & ROOM_WAITED)
		syscall(SYS_futex, owner, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ==== Ring ==================================================================================== */

enum { TELL_BYTES = 32768 }; /* bytes consumed before the target is told */

struct probe_error *rings_open(int fd, const struct reg_session *session, struct rings *ret)
{
	*ret = (struct rings){.size = session->data_size, .layout = *session};
	ret->base =
		mmap(NULL, ret->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (ret->base == MAP_FAILED) {
		ret->base = NULL;
		return probe_error_system(errno, "cannot map the session's memory");
	}
	if (!session->ring_bytes)
		return NULL;
	ret->count = 2 * (size_t)session->cpus;
	ret->rings = calloc(ret->count, sizeof(*ret->rings));
	ret->record = malloc(RING_RECORD_MAX);
	if (!ret->rings || !ret->record) {
		rings_close(ret);
		return probe_error_no_memory();
	}
	for (size_t i = 0; i < ret->count; i++) {
		uint8_t *at = ret->base + (session->rings - session->data) +
			      ((uint64_t)i << session->rings_shift);

		ret->rings[i].header = (struct ring_header *)at;
		ret->rings[i].data = at + sizeof(struct ring_header);
	}
	return NULL;
}

void rings_discharge(struct rings *rings)
{
	uint64_t offset = rings->layout.rings - rings->layout.data;

	if (!rings->count)
		return;
	rings->damaged = rings_damaged(rings);
	rings->count = 0;
	/* Keep the pages: a thread still in a stub could not allocate them again. */
	if (overcommit_is_strict())
		return;
	/* The offset and the length are multiples of the page size. */
	if (seccomp_may_call(SECCOMP_OWN_REMOVE))
		madvise(rings->base + offset,
			(uint64_t)2 * rings->layout.cpus << rings->layout.rings_shift, MADV_REMOVE);
}

void rings_close(struct rings *rings)
{
	if (rings->base)
		munmap(rings->base, rings->size);
	free(rings->rings);
	free(rings->record);
	*rings = (struct rings){0};
}

uint64_t rings_damaged(const struct rings *rings)
{
	uint64_t sum = rings->damaged;

	for (size_t i = 0; i < rings->count; i++)
		sum += rings->rings[i].damaged;
	return sum;
}

static void discard(struct ring *ring)
{
	ring->damaged += ring->tail != ring->head;
	ring->tail = ring->head;
}

/* Pairs with the target's load of `tail` before it overwrites consumed bytes. */
static void tell_tail(struct ring *ring)
{
	atomic_store_explicit(
		(_Atomic uint64_t *)&ring->header->tail, ring->tail, memory_order_release);
	ring->told = ring->tail;
	if (ring->room)
		room_tell(ring->room);
}

uint64_t rings_head(const struct ring *ring)
{
	return atomic_load_explicit(
		(const _Atomic uint64_t *)&ring->header->head, memory_order_acquire);
}

void rings_begin(struct rings *rings)
{
	for (size_t i = 0; i < rings->count; i++) {
		struct ring *ring = &rings->rings[i];

		/* Pairs with the stub's addition to `head`, which publishes its record. */
		ring->head = rings_head(ring);
		/* No stub lets `head` be further ahead of `tail` than the length of the ring. */
		if (ring->head - ring->tail > rings->layout.ring_bytes)
			discard(ring);
	}
}

const uint8_t *rings_first(const struct rings *rings, const struct ring *ring)
{
	return ring->data + (ring->tail & (rings->layout.ring_bytes - 1));
}

const struct ring_record *rings_next(
	struct rings *rings, size_t most, uint64_t until, struct ring **ring_ret, size_t *size_ret)
{
	struct ring *oldest = NULL;
	uint64_t oldest_time = until;
	size_t size;

	for (size_t i = 0; i < rings->count; i++) {
		struct ring *ring = &rings->rings[i];
		uint64_t time;

		if (ring->head - ring->tail < sizeof(struct ring_record))
			continue;
		memcpy(&time, rings_first(rings, ring), sizeof(time));
		if (time >= oldest_time)
			continue;
		oldest = ring;
		oldest_time = time;
	}
	if (!oldest)
		return NULL;
	size = oldest->head - oldest->tail;
	if (size > most)
		size = most;
	/* The copy ends in the slop at the latest: see arch/layout.h. */
	memcpy(rings->record, rings_first(rings, oldest), size);
	*ring_ret = oldest;
	*size_ret = size;
	return (const struct ring_record *)rings->record;
}

void rings_consume(struct ring *ring, size_t length)
{
	if (length == 0 || length > ring->head - ring->tail)
		discard(ring);
	else
		ring->tail += length;
	if (ring->tail - ring->told >= TELL_BYTES)
		tell_tail(ring);
}

void rings_clear(struct rings *rings)
{
	rings_begin(rings);
	for (size_t i = 0; i < rings->count; i++)
		rings->rings[i].tail = rings->rings[i].head;
	rings_end(rings);
}

void rings_discard(struct rings *rings)
{
	for (size_t i = 0; i < rings->count; i++)
		discard(&rings->rings[i]);
}

void rings_end(struct rings *rings)
{
	for (size_t i = 0; i < rings->count; i++)
		if (rings->rings[i].tail != rings->rings[i].told)
			tell_tail(&rings->rings[i]);
}

/* ==== Walk ==================================================================================== */

enum { SITE_AT = offsetof(struct ring_record, site), TID_AT = offsetof(struct ring_record, tid) };
_Static_assert(TID_AT == SITE_AT + sizeof(uint32_t), "both are read at once");

/* Records are aligned to RING_ALIGN, their words to bytes. */
static inline uint32_t load32(const uint8_t *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static inline uint64_t load64(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* Like ring_record_length(), for a site whose form is known. */
static inline size_t length_of(const struct ring_form *form, const uint8_t *record, size_t size)
{
	size_t length = form->fixed;

	if (length > size)
		return 0;
	for (size_t i = 0; i < form->count; i++) {
		uint32_t bytes = ring_string_length(load32(record + form->words[i].at));

		if (bytes > form->words[i].most)
			return 0;
		length += bytes;
	}
	return length <= size && length <= RING_RECORD_MAX ? length : 0;
}

size_t ring_record_length(const struct ring_forms *forms, const uint8_t *record, size_t size)
{
	uint32_t site;

	if (size < sizeof(struct ring_record))
		return 0;
	site = load32(record + SITE_AT);
	return site < forms->count ? length_of(&forms->forms[site], record, size) : 0;
}

/* Returns true if `time` is in [last, until). One comparison checks both ends. */
static inline bool is_between(uint64_t time, uint64_t last, uint64_t until)
{
	return time - last < until - last;
}

/* Checks a record, which is in `size` bytes. Returns RING_WALK_ALL if nothing is wrong. */
static inline enum ring_walk_end check(const struct ring_walk *walk, const uint8_t *record,
	size_t size, uint64_t until, size_t *length_ret)
{
	uint64_t time;
	uint32_t site;

	if (size < sizeof(struct ring_record))
		return RING_WALK_DAMAGED;
	site = load32(record + SITE_AT);
	if (site >= walk->forms->count)
		return RING_WALK_DAMAGED;
	*length_ret = length_of(&walk->forms->forms[site], record, size);
	if (!*length_ret || ring_padded(*length_ret, RING_ALIGN) > size)
		return RING_WALK_DAMAGED;
	time = load64(record);
	if (is_between(time, walk->last, until))
		return RING_WALK_ALL;
	return time >= walk->last && time >= walk->until && time < walk->now ? RING_WALK_CUT
									     : RING_WALK_TIME;
}

/*
 * Walks consecutive records of the same site, thread and constant length, which are the usual case.
 * The next record's place is known early, so the processor works on several at once. No record
 * begins at `end` or later. Returns where it stopped.
 */
static size_t walk_same(
	struct ring_walk *walk, const uint8_t *record, size_t step, size_t end, uint64_t until)
{
	const uint64_t who = load64(record + SITE_AT);
	uint64_t last = walk->last;
	size_t at = step, count = 0;

	for (; at < end && load64(record + at + SITE_AT) == who; at += step) {
		uint64_t time = load64(record + at);

		if (!is_between(time, last, until))
			break;
		last = time;
		count++;
	}
	walk->last = last;
	walk->records += count;
	walk->hits[load32(record + SITE_AT)] += count;
	return at;
}

size_t ring_walk(struct ring_walk *walk, const uint8_t *from, size_t size, size_t begins)
{
	uint64_t until = walk->until < walk->now ? walk->until : walk->now;
	size_t at = 0, length, step;
	uint32_t thread = 0;

	until = until > walk->last ? until : walk->last;
	walk->end = RING_WALK_ALL;
	walk->content = walk->records = 0;
	while (at < begins && at < size) {
		const uint8_t *record = from + at;
		uint32_t site, word;

		walk->end = check(walk, record, size - at, until, &length);
		if (walk->end != RING_WALK_ALL)
			break;
		site = load32(record + SITE_AT);
		word = load32(record + TID_AT);
		if ((word != thread || !walk->records) && !walk->thread(walk->data, word)) {
			walk->end = RING_WALK_FULL;
			break;
		}
		thread = word;
		walk->last = load64(record);
		if (!walk->records++)
			walk->first = walk->last;
		walk->hits[site]++;
		step = ring_padded(length, RING_ALIGN);
		at += step;
		if (!walk->forms->forms[site].count && step <= size - at) {
			size_t whole = size - step + 1;

			at += walk_same(walk, record, step,
				      (begins < whole ? begins : whole) - (at - step), until) -
			      step;
		}
		walk->content = at - step + length;
	}
	return at;
}

/* ==== Writers ================================================================================= */

/* Sources: proc_pid_status(5), NSpid; pid_namespaces(7). */

enum {
	SCAN_NS = 10000000,
	SCAN_SHARE = 20 /* the pause is at least 20 times as long as the scan */
};

static void remember(struct writers *cache, pid_t tid, pid_t pid, pid_t outer)
{
	unsigned int slot = (unsigned int)tid % WRITERS;

	cache->tids[slot] = tid;
	cache->pids[slot] = pid;
	cache->outer[slot] = outer;
}

/* Remembers the threads of a process, and of its children, by their ids in its pid namespace. */
static void scan(struct writers *cache, pid_t pid)
{
	pid_t *pids = cache->children ? children_of(pid) : NULL, outer;
	AUTO_DIR DIR *threads = procfs_threads(pid);

	while ((outer = procfs_next_id(threads))) {
		long inner = procfs_status_last_number(outer, "NSpid:");

		if (inner > 0)
			remember(cache, (pid_t)inner, pid, outer);
	}
	for (size_t i = 0; pids && pids[i]; i++)
		scan(cache, pids[i]);
	free(pids);
}

void writers_init(struct writers *cache, pid_t root, bool children)
{
	struct procfs_path path = procfs_path("/proc/%d/ns/pid", root);
	char ours[64] = "", theirs[64] = "";
	ssize_t length = readlink(path.text, theirs, sizeof(theirs) - 1);

	*cache = (struct writers){.root = root, .children = children};
	cache->foreign = length > 0 && readlink("/proc/self/ns/pid", ours, sizeof(ours) - 1) > 0 &&
			 strcmp(ours, theirs) != 0;
}

void writers_learn(struct writers *cache)
{
	uint64_t begin = clock_monotonic_ns(), end;

	if ((!cache->children && !cache->foreign) || begin < cache->next_scan_ns)
		return;
	scan(cache, cache->root);
	end = clock_monotonic_ns();
	cache->next_scan_ns = end + SCAN_NS + SCAN_SHARE * (end - begin);
}

void writers_find(struct writers *cache, uint32_t word, pid_t *pid_ret, pid_t *tid_ret)
{
	bool is_child = word & RING_TID_CHILD;
	pid_t tid = (pid_t)(word & ~RING_TID_CHILD);
	unsigned int slot = (unsigned int)tid % WRITERS;

	*pid_ret = cache->root;
	*tid_ret = tid ? tid : cache->root;
	if (!tid || (!is_child && !cache->foreign))
		return;
	if (cache->tids[slot] != tid && cache->foreign) {
		writers_learn(cache);
	} else if (cache->tids[slot] != tid) {
		long pid = procfs_status_number(tid, "Tgid:");

		remember(cache, tid, pid > 0 ? (pid_t)pid : tid, tid);
	}
	if (cache->tids[slot] == tid) {
		*pid_ret = cache->pids[slot];
		*tid_ret = cache->outer[slot];
	} else if (is_child) {
		*pid_ret = tid;
	}
}
