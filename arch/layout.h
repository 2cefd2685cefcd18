/* SPDX-License-Identifier: MIT */
/*
 * The memory that the target shares with the controller, and that stubs write: counters and rings.
 * The layout is the same on every ISA (docs/ring.md).
 *
 *   slots + (cpu << slots_shift)         rings + (cpu << rings_shift)
 *   +-----------------------+            +-----------------------------+
 *   | slot of probe 0       |            | struct ring_header, 128 B   |
 *   | slot of probe 1       |            | data, ring_bytes            |
 *   | ...                   |            | slop, RING_RECORD_MAX       |
 *   +-----------------------+            +-----------------------------+
 *
 * Each CPU has its own set of counters and its own ring. A hit on a CPU uses the counters and the
 * ring of that CPU, inside a restartable sequence (rseq(2)), so stubs need no lock: the store to
 * `head` (or to `hits`) that ends the sequence publishes the hit. Threads without rseq use the sets
 * from number `cpus` on: for counters, set `cpus` with locked increments; for rings, the first of
 * the sets [cpus, 2 * cpus) whose lock is free.
 *
 * A record begins at head & (ring_bytes - 1). It may continue into the slop behind the data, so it
 * is always contiguous, but it never starts in the slop. The producer owns `head`, the consumer
 * owns `tail`; both only grow.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Counters of a probe on a CPU. */
struct probe_slot {
	union {
		uint64_t hits;
		/* instead of `hits` in set `cpus` of a recording session: not 0 while it is off */
		uint64_t off;
	};
	/* `lost` and `unmatched` are counted in set `cpus` only. */
	/* Hits without room in the ring, or in a table for their key or start event. */
	uint64_t lost;
	union {
		uint64_t unmatched; /* end events without a start event */
		uint32_t marks;	    /* instead, in set 0: arch_flights.marks */
	};
	/*
	 * Hits since the last sampled hit. If the action is an ARCH_ACTION_CALL: calls that have
	 * returned.
	 */
	uint64_t seen;
};
_Static_assert(sizeof(struct probe_slot) == 32, "stubs rely on the layout");

/*
 * Values gathered on a CPU for a probe, or one of its keys; all zero at first. A hit may change
 * several members, and is complete after its last store.
 */
struct probe_cell {
	/* number of values; unused with buckets, whose sum it is */
	uint64_t count;
	uint64_t sum; /* sum of the values modulo 2^64; a double if the values are doubles */
	/*
	 * Unsigned even if values are signed (CELL_BIAS). Each keeps the greatest number, from 0.
	 */
	uint64_t most;	/* greatest value + bias, or cell_order_of() of a double */
	uint64_t least; /* greatest ~(value + bias) */
	uint64_t last;
	uint64_t last_time; /* time stamp counter */
	uint64_t buckets[]; /* CELL_BUCKETS of them, or none */
};
_Static_assert(sizeof(struct probe_cell) == 48, "stubs rely on the layout");
/* Added to signed values, to compare as unsigned ones. */
#define CELL_BIAS (UINT64_C(1) << 63)

/*
 * Maps a double's bits to an unsigned number of the same order: sets a positive one's sign bit,
 * inverts a negative one. NaNs are at both ends.
 */
static inline uint64_t cell_order_of(uint64_t bits)
{
	return bits >> 63 ? ~bits : bits | CELL_BIAS;
}
static inline uint64_t cell_bits_of(uint64_t order)
{
	return order >> 63 ? order ^ CELL_BIAS : ~order;
}

/*
 * Each power of two has 32 linear buckets, so the middle of a bucket is within 1.6 % of each of its
 * values:
 *
 *	below 32	bucket = value
 *	2^e .. 2^(e+1)	shift = e - 5; bucket = 32 * shift + (value >> shift)
 *
 * All negative values share the last bucket.
 *
 * For doubles, the powers of two are 2^-24 to 2^36. The exponent and the first 5 bits behind it
 * form a number. A value's bucket is this number of the value minus this number of 2^-24. Smaller
 * values are in the first bucket. Larger values and NaNs are in the bucket before the last.
 */
enum { CELL_SUB_BITS = 5, CELL_NEGATIVE = 1920, CELL_BUCKETS = 1921, CELL_DOUBLE_LEAST = -24 };
enum {
	CELL_DOUBLE_SHIFT = 52 - CELL_SUB_BITS,
	CELL_DOUBLE_FIRST = (1023 + CELL_DOUBLE_LEAST) << CELL_SUB_BITS
};

/*
 * A hash table from keys to cells. Each set has one, with open addressing and linear probing. An
 * entry:
 *
 *	u64 tag		0 if the entry is free; else an odd hash of the key.
 *			In the set that threads without rseq share, also 2:
 *			the entry is being filled
 *	u64 owner	the probe that the entry belongs to
 *	u64 word	one for each part of the key: a number, or the length
 *			of a string as in a record
 *	bytes		the strings, each padded to 8
 *	struct probe_cell
 *
 * Behind these entries, the table has one more entry for each probe. Only the cell of that entry is
 * used, for hits of the probe whose key finds no room.
 *
 * If threads without rseq insert the same key at the same time, two entries of one set may have
 * that key. Readers add up the cells of both.
 */
enum { TABLE_TAG_FILLING = 2, TABLE_PROBES_MAX = 32 /* entries examined for a key */ };

/*
 * An entry of a table (open addressing) of open pairs, or flights: the start events of a thread, or
 * of a key of the program (a request's number). All CPUs share it, and so do forked children whose
 * hits count, whose thread pointers are their parent's: `process` tells them apart.
 */
struct probe_flight {
	uint32_t state; /* FLIGHT_*, or FLIGHT_PAIR + number of the pair */
	uint32_t depth; /* number of start events without an end event */
	/* The thread pointer, the thread id, or the program's key: a number, or a text's hash. */
	uint64_t key;
	uint32_t tid;	  /* thread that made the entry; 0 if unknown */
	uint32_t process; /* number of the key's process, if several processes use the table */
	/* By key only: keys in later entries whose hash leads to this one. */
	uint32_t away;
	/* By key only: distance from the entry to which the hash of `key` leads. */
	uint32_t distance;
	/*
	 * Times of start events (time stamp counter). Number N is at N modulo arch_flights.depth, a
	 * power of two. 0 if it has ended, or was replaced by a newer one that has.
	 */
	uint64_t times[];
	/*
	 * By thread with identities (arch_flights.identities): an identity for each time, 0 if
	 * unknown.
	 *
	 * Then what start events keep (struct probe_begun). If keys are texts, the key's text: a
	 * u64 as in a record, and arch_flights.text bytes, padded to 8. It is compared by a thread
	 * that has taken the entry (FLIGHT_TAKEN).
	 */
};
_Static_assert(sizeof(struct probe_flight) == 32, "stubs rely on the layout");
enum { FLIGHT_FREE, FLIGHT_TAKEN, FLIGHT_PAIR };

/*
 * The data that a start event keeps for its end event; one for each time of an entry, of
 * arch_flights.keep bytes. First, captures for expressions of the end event, in a fixed order and
 * size: a u64 word and a value. A string's word is as in a record, its value the bytes, padded to
 * 8; a number's word has only the null bit.
 *
 * For a span, the record of the start event follows. While it is written, its time
 * (ring_record.time) is 0, so that copying code notices a replacement. A span's record is that of
 * the end event, a u64 with the duration in ns, and that of the start event.
 */
struct probe_begun {
	uint32_t bytes; /* length of the start event's record, a multiple of RING_ALIGN */
	uint32_t unused;
	uint64_t kept[];
};
_Static_assert(sizeof(struct probe_begun) == 8, "stubs rely on the layout");
enum { FLIGHT_PROBES_MAX = 16 /* entries examined for a key; a power of two */ };

/* Only the first bytes of a string, at most this number, count for an identity. */
enum { FLIGHT_IDENTITY_BYTES = 256 };

/*
 * The header of a ring. In an overwritten ring (a flight recorder), a u64 before each record leads
 * to the previous one, and `head` to the newest.
 */
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
 * The header of a record. Behind it, packed:
 *
 * - for each capture, a number, or the length of its bytes (arch_capture_fixed()); - if any is
 * checked, ring_mask_bytes() with a bit for each readable one; - the bytes of strings and
 * aggregates.
 *
 * Padded to a multiple of RING_ALIGN (RING_BACK_BYTES in a ring that is overwritten).
 */
struct ring_record {
	uint64_t time; /* time stamp counter */
	uint32_t site;
	uint32_t tid; /* thread id; has the bit RING_TID_CHILD in a forked child */
};
_Static_assert(sizeof(struct ring_record) == 16, "stubs rely on the layout");
enum { RING_ALIGN = 4, RING_BACK_BYTES = 8 };

/*
 * In an overwritten ring, the word behind a record holds the distance from the word before it, and
 * how many records the ring has ever had: so readers count overwritten ones.
 */
enum { RING_BACK_BITS = 17 };
static inline uint64_t ring_back_length(uint64_t word)
{
	return word & ((UINT64_C(1) << RING_BACK_BITS) - 1);
}
static inline uint64_t ring_back_count(uint64_t word)
{
	return word >> RING_BACK_BITS;
}

/* `align` is a power of two. */
static inline size_t ring_padded(size_t bytes, size_t align)
{
	return (bytes + align - 1) & ~(align - 1);
}

/* Returns the bytes of a mask with a bit for each of up to 32 captures. */
static inline uint32_t ring_mask_bytes(uint32_t captures)
{
	return captures <= 8 ? 1 : captures <= 16 ? 2 : 4;
}

/* Set in a forked child's thread id, if stubs can tell (arch_stub.own). */
#define RING_TID_CHILD UINT32_C(0x80000000)

/*
 * A gate holds a thread while the controller works, for example after a library was loaded. The
 * thread takes the next number (`arrived`), wakes the waiters on that word, and waits until
 * `released` reaches its number. If `pass` is not 0, the next thread clears it and passes.
 *
 * It sleeps (futex(2), not private) on `owner` of the turn at its number modulo GATE_TURNS: a
 * robust futex of a controller's thread, with its id, GATE_WAITED, and GATE_FLIP, which changes
 * when a number of this turn is released. At the controller's death, the kernel clears the id and
 * wakes a thread, which disarms the gate and wakes the others. A gate that is not served in time
 * also disarms itself.
 */
enum { GATE_TIMEOUT_S = 2, GATE_TURNS = 16 };
struct probe_gate {
	uint32_t armed;
	uint32_t arrived;
	uint32_t released;
	uint32_t pass;
	struct {
		uint32_t owner;
		uint32_t unused; /* an entry of the kernel's robust list takes 8 bytes */
	} turns[GATE_TURNS];
};
#define GATE_OWNER UINT32_C(0x3fffffff) /* FUTEX_TID_MASK */
/* FUTEX_OWNER_DIED, which the kernel sets at the controller's death */
#define GATE_FLIP UINT32_C(0x40000000)
/* FUTEX_WAITERS: the kernel then wakes a waiter */
#define GATE_WAITED UINT32_C(0x80000000)

/*
 * Where hits wait for room in their rings: they ignore whether `gate` is armed, and sleep on its
 * first turn. Its owner is 0 once the controller has left, and has no GATE_OWNER bits once it has
 * died. A waiting hit sets ROOM_WAITED there and, if it was clear, increments `arrived` and wakes
 * the controller, which clears it when it has made room, and wakes all.
 *
 * A wait's limit starts again when `moved` changes. At the limit, `gave_up` becomes `moved`; while
 * they are equal, no hit waits.
 */
struct probe_room {
	struct probe_gate gate;
	uint64_t moved; /* how often the controller has made room, counted from 1 */
	uint64_t gave_up;
	uint64_t waited; /* number of hits that waited, including those that waited in vain */
	uint64_t ticks;	 /* total time waited, by the clock of records */
};
#define ROOM_WAITED GATE_FLIP /* the kernel also sets this bit at the controller's death */

enum {
	RING_RECORD_MAX = 65536, /* greatest size of all captures of one record, in bytes */
	/* Parts of the word of a string or aggregate: 32 bits in a record, 64 elsewhere. */
	RING_STRING_LENGTH = 0x3fffffff,
	RING_STRING_TRUNCATED_BIT = 30, /* the string or aggregate was longer than its copy */
	RING_STRING_NULL_BIT = 31	/* no byte was readable */
};

static inline uint32_t ring_string_length(uint64_t word)
{
	return (uint32_t)word & RING_STRING_LENGTH;
}
