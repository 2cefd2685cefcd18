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

#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"

/* ==== Room ==================================================================================== */

/* If the target writes nonsense here, only its own threads wait longer, up to their limit. */
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

static uint8_t *in_process(const struct rings *rings, uint64_t address)
{
	return rings->base + (address - rings->layout.data);
}

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
		uint8_t *at =
			in_process(ret, session->rings + ((uint64_t)i << session->rings_shift));

		ret->rings[i].header = (struct ring_header *)at;
		ret->rings[i].data = at + sizeof(struct ring_header);
	}
	return NULL;
}

void rings_tell(struct rings *rings, struct probe_room *room)
{
	for (size_t i = 0; i < rings->count; i++)
		rings->rings[i].room = room;
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
