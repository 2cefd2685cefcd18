/* SPDX-License-Identifier: MIT */
/*
 * What a stub writes into the memory that the target shares with the
 * controller: counters and rings. The same on every ISA (docs/ring.md).
 *
 *   slots + (cpu << slots_shift)         rings + (cpu << rings_shift)
 *   +-----------------------+            +-----------------------------+
 *   | slot of probe 0       |            | struct ring_header, 128 B   |
 *   | slot of probe 1       |            | data, ring_bytes            |
 *   | ...                   |            | slop, RING_RECORD_MAX       |
 *   +-----------------------+            +-----------------------------+
 *
 * A hit on CPU c uses set c of both, inside a restartable sequence (rseq(2)),
 * so that nothing is locked: the one store to `head` (or to `hits`) that ends
 * the sequence is what publishes it. Threads without rseq use the sets from
 * `cpus` on: locked increments in set `cpus`, and in sets [cpus, 2 * cpus) the
 * first ring whose lock is free.
 *
 * A record begins at head & (ring_bytes - 1) and goes on into the slop where
 * the data ends, so it is always in one piece. A record never starts in the
 * slop. The producer owns `head`, the consumer owns `tail`; both only grow.
 */
#ifndef ARCH_LAYOUT_H
#define ARCH_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* Counters of one probe on one CPU. */
struct probe_slot {
	uint64_t hits;
	uint64_t lost; /* hits that found no room; counted in set `cpus` only */
};

struct ring_header {
	uint64_t head; /* bytes ever written */
	uint32_t lock; /* 1 while a thread without rseq writes */
	uint32_t unused;
	uint8_t pad1[48];
	uint64_t tail; /* bytes ever consumed; the only field that the consumer writes */
	uint8_t pad2[56];
};
_Static_assert(sizeof(struct ring_header) == 128, "stubs rely on the layout");
_Static_assert(offsetof(struct ring_header, tail) == 64, "head and tail share no cache line");

/*
 * A record: this, then one u64 per capture, then, if any of them is checked,
 * a u64 with a bit per capture that could be read, then the bytes of strings
 * and aggregates in the order of the captures, each padded to 8 bytes.
 */
struct ring_record {
	uint64_t time; /* time stamp counter */
	uint32_t tid;
	uint32_t site;
};
_Static_assert(sizeof(struct ring_record) == 16, "stubs rely on the layout");

/*
 * A gate holds a thread where the controller has to do something before it
 * goes on: behind the loading of a library. A thread takes the next number
 * (`arrived`), wakes whoever waits for that word, and waits until `released`
 * has reached its number (futex(2), not private). A gate that nobody serves in
 * time disarms itself.
 */
struct probe_gate {
	uint32_t armed;
	uint32_t arrived;
	uint32_t released;
	uint32_t unused;
};
enum { GATE_TIMEOUT_S = 2 };

enum {
	RING_RECORD_MAX = 65536, /* of all captures of one record, in bytes */
	/* The u64 of a string: its length, and these. */
	RING_STRING_TRUNCATED_BIT = 32, /* there was more */
	RING_STRING_NULL_BIT = 33	/* not one byte could be read */
};

#endif
