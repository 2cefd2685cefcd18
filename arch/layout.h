/* SPDX-License-Identifier: MIT */
/*
 * What a stub writes into the memory that the target shares with the controller: counters and
 * rings. The layout is the same on every ISA (docs/ring.md).
 *
 *   slots + (cpu << slots_shift)         rings + (cpu << rings_shift)
 *   +-----------------------+            +-----------------------------+
 *   | slot of probe 0       |            | struct ring_header, 128 B   |
 *   | slot of probe 1       |            | data, ring_bytes            |
 *   | ...                   |            | slop, RING_RECORD_MAX       |
 *   +-----------------------+            +-----------------------------+
 *
 * A hit on CPU c uses set c of both, inside a restartable sequence (rseq(2)), so nothing is
 * locked: the store to `head` (or to `hits`) that ends the sequence publishes the hit. Threads
 * without rseq use the sets from `cpus` on: for counters, set `cpus` with locked increments;
 * for rings, the first of the sets [cpus, 2 * cpus) whose lock is free.
 *
 * A record begins at head & (ring_bytes - 1) and continues into the slop at the end of the
 * data, so it is always contiguous. A record never starts in the slop. The producer owns
 * `head`, the consumer owns `tail`; both only grow.
 */
#ifndef ARCH_LAYOUT_H
#define ARCH_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* Counters of one probe on one CPU. */
struct probe_slot {
	union {
		uint64_t hits;
		/* In set `cpus` of a recording session: nonzero while the session is disabled. */
		uint64_t off;
	};
	/* These two are counted in set `cpus` only. */
	uint64_t lost;	    /* hits without room: in the ring, for their key, for their begin */
	uint64_t unmatched; /* ends without a begin */
	/* Hits since the last sampled one; for a stub that calls, the calls that have returned. */
	uint64_t seen;
};
_Static_assert(sizeof(struct probe_slot) == 32, "stubs rely on the layout");

/*
 * What is gathered for a probe, or for one of its keys, on one CPU. All zero means nothing
 * yet. Of two values that change together, the one stored last counts.
 */
struct probe_cell {
	uint64_t count; /* only if there are no buckets; otherwise their sum */
	uint64_t sum;	/* modulo 2^64; or a double */
	/* Unsigned, whatever the sign of the values (CELL_BIAS), so 0 is neutral. */
	uint64_t most;	/* of value + bias; of doubles, of what has their order */
	uint64_t least; /* of ~(value + bias) */
	uint64_t last;
	uint64_t last_time; /* time stamp counter */
	uint64_t buckets[]; /* CELL_BUCKETS of them, or none */
};
_Static_assert(sizeof(struct probe_cell) == 48, "stubs rely on the layout");
#define CELL_BIAS (UINT64_C(1) << 63) /* added to signed values, 0 to unsigned ones */

/*
 * An unsigned number with the order of doubles, from a double's bits: positive ones get the sign
 * bit, negative ones are inverted. NaNs are at the ends.
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
 * Buckets are linear within each power of two, 32 of them, so a bucket's middle is within 1.6 %
 * of each of its values:
 *
 *	below 32	bucket = value
 *	2^e .. 2^(e+1)	shift = e - 5; bucket = 32 * shift + (value >> shift)
 *
 * All negative values share the last bucket.
 *
 * Of doubles, the powers of two are those from 2^-24 to 2^36. A bucket's number is then the
 * exponent and the first 5 bits behind it, less those of 2^-24; what is smaller is in the first
 * one, what is larger (and what is no number) in the one before the negative ones.
 */
enum { CELL_SUB_BITS = 5, CELL_NEGATIVE = 1920, CELL_BUCKETS = 1921, CELL_DOUBLE_LEAST = -24 };
enum {
	CELL_DOUBLE_SHIFT = 52 - CELL_SUB_BITS,
	CELL_DOUBLE_FIRST = (1023 + CELL_DOUBLE_LEAST) << CELL_SUB_BITS
};

/*
 * A hash table from keys to cells, one in each set, with open addressing and linear probing. An
 * entry:
 *
 *	u64 tag		0: free. A hash of the key, odd. In the set that threads
 *			without rseq share, 2: it is being filled
 *	u64 owner	the probe it belongs to
 *	u64 word	one for each part of the key: a number, or the length
 *			of a string as in a record
 *	bytes		of strings, each padded to 8
 *	struct probe_cell
 *
 * Behind the entries follow as many as there are probes, each for hits of its probe whose key finds
 * no room: only the cell is used.
 *
 * Two entries of one set may have the same key if threads without rseq insert it at the same
 * time; readers add them up.
 */
enum { TABLE_TAG_FILLING = 2, TABLE_PROBES_MAX = 32 /* entries examined */ };

/*
 * What has begun and not yet ended, for a thread or for a key of the program's own (a request's
 * number). Open addressing as above, in one table that all CPUs share, and forked children, if
 * they count as well: these have the same thread pointers and addresses as their parent.
 */
struct probe_flight {
	uint32_t state; /* FLIGHT_*, or FLIGHT_PAIR + number of the pair */
	uint32_t depth; /* number of begins that have no end yet */
	/* The thread pointer, the thread's id, or the program's own key: a number, or a text's hash
	 */
	uint64_t key;
	uint32_t tid;	  /* the thread that made the entry; 0: unknown */
	uint32_t process; /* number of the key's process, where several use the table */
	/* By key: entries of keys whose place is here, but which are in later ones. */
	uint32_t away;
	uint32_t distance; /* by key: from the place where its key belongs, in entries */
	/*
	 * Time stamp counter. Begin number N, from 0, is in place N modulo arch_flights.depth, a
	 * power of two. 0: it has ended, or a newer one that has ended took its place.
	 */
	uint64_t times[];
	/*
	 * By thread, as many identities follow (arch_flights.identities); 0: not known.
	 *
	 * Behind all that, and what is kept of begins: if keys are texts, a u64, the word that a
	 * record has of a string, and arch_flights.text bytes, padded to 8. They are compared with
	 * the entry taken.
	 */
};
_Static_assert(sizeof(struct probe_flight) == 32, "stubs rely on the layout");
enum { FLIGHT_FREE, FLIGHT_TAKEN, FLIGHT_PAIR };

/*
 * If an end needs something of its begin, then come as many of these, each in
 * arch_flights.keep bytes. First come the arguments that an expression of the end asks for, in a
 * fixed order and with a fixed size, whatever site the begin was at: a u64, the word that a
 * record has of a string (of a number, only the bit that it is null), and the number or the bytes,
 * padded to 8.
 *
 * If the pair leaves a record (a span), there follows what the begin's record would be, until the
 * end takes it over. While it is written, its time is 0, so code that copies it can detect that it
 * has been replaced. The record of a span is that of its end, a u64, the duration in nanoseconds,
 * and this record.
 */
struct probe_begun {
	uint32_t bytes; /* of the record; a multiple of RING_ALIGN */
	uint32_t unused;
	uint64_t kept[];
};
_Static_assert(sizeof(struct probe_begun) == 8, "stubs rely on the layout");
enum { FLIGHT_PROBES_MAX = 16 /* entries examined; a power of two */ };

/* How much of a string counts for an identity: of a longer one, the first bytes. */
enum { FLIGHT_IDENTITY_BYTES = 256 };

/*
 * In a ring that is overwritten (a flight recorder), a u64 precedes each record and says where
 * the previous record begins; `head` is where the newest one begins.
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
 * A record: this header; for each capture a number of its own size, or the length of its bytes
 * (arch_capture_fixed()); if any capture is checked, ring_mask_bytes() with one bit per readable
 * capture; then the bytes of strings and aggregates in the order of the captures. Everything is
 * packed. The whole is padded to a multiple of RING_ALIGN, so that is how records are aligned; in
 * a ring that is overwritten, of RING_BACK_BYTES.
 */
struct ring_record {
	uint64_t time; /* time stamp counter */
	uint32_t site;
	uint32_t tid; /* with RING_TID_CHILD */
};
_Static_assert(sizeof(struct ring_record) == 16, "stubs rely on the layout");
enum { RING_ALIGN = 4, RING_BACK_BYTES = 8 };

/*
 * The word behind a record in a ring that is overwritten: the bytes from the word before the record
 * to this one, and how many records the ring has ever had. So what was overwritten can be counted.
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

/* The length of a record, padded to a multiple of `align`. */
static inline size_t ring_padded(size_t bytes, size_t align)
{
	return (bytes + align - 1) & ~(align - 1);
}

/* The bytes that hold a bit for each of up to 32 captures. */
static inline uint32_t ring_mask_bytes(uint32_t captures)
{
	return captures <= 8 ? 1 : captures <= 16 ? 2 : 4;
}

/* Set in the thread id of a forked child, if stubs can tell (arch_stub.own). */
#define RING_TID_CHILD UINT32_C(0x80000000)

/*
 * A gate holds a thread while the controller does something, for example after a library was
 * loaded. The thread takes the next number (`arrived`), wakes the waiters on that word, and
 * waits until `released` reaches its number. If `pass` is not 0, the next thread passes and sets
 * it to 0.
 *
 * It sleeps (futex(2), not private) on the word `owner` of the turn of its number, modulo
 * GATE_TURNS. That is a robust futex of a thread of the controller: its thread id, GATE_WAITED,
 * and GATE_FLIP, which changes whenever a number of this turn is released. When the controller
 * dies, the kernel clears the id and wakes one of those who sleep; this one disarms the gate and
 * wakes the others. A gate that is not served in time disarms itself as well.
 */
enum { GATE_TIMEOUT_S = 2, GATE_TURNS = 16 };
struct probe_gate {
	uint32_t armed;
	uint32_t arrived;
	uint32_t released;
	uint32_t pass;
	struct {
		uint32_t owner;
		uint32_t unused; /* an entry of the kernel's list takes 8 bytes */
	} turns[GATE_TURNS];
};
#define GATE_OWNER UINT32_C(0x3fffffff)	 /* FUTEX_TID_MASK */
#define GATE_FLIP UINT32_C(0x40000000)	 /* FUTEX_OWNER_DIED: set at the death, too */
#define GATE_WAITED UINT32_C(0x80000000) /* FUTEX_WAITERS: the kernel wakes somebody */

/*
 * Where hits wait for room in their rings. They do not ask whether the gate is armed, and sleep on
 * the first of its turns only: its owner is 0 once the controller has let go of the session, and
 * has no GATE_OWNER when it has died. Who waits sets ROOM_WAITED there, and, if it was not set,
 * counts `arrived` up and wakes the controller. The controller clears it when it has made room, and
 * wakes all.
 *
 * A wait's time begins anew when `moved` changes. When it has run out, `gave_up` becomes what
 * `moved` is: while they are equal, nobody waits.
 */
struct probe_room {
	struct probe_gate gate;
	uint64_t moved; /* from 1 on: how often the controller has made room */
	uint64_t gave_up;
	uint64_t waited; /* hits, also those that waited in vain */
	uint64_t ticks;	 /* how long, in total, by the clock of records */
};
#define ROOM_WAITED GATE_FLIP /* the kernel sets it, too, at the controller's death */

enum {
	RING_RECORD_MAX = 65536, /* of all captures of one record, in bytes */
	/*
	 * The word of a string or an aggregate, of 32 bits in a record and 64 elsewhere, holds its
	 * length and these bits.
	 */
	RING_STRING_LENGTH = 0x3fffffff,
	RING_STRING_TRUNCATED_BIT = 30, /* there was more */
	RING_STRING_NULL_BIT = 31	/* not one byte could be read */
};

static inline uint32_t ring_string_length(uint64_t word)
{
	return (uint32_t)word & RING_STRING_LENGTH;
}

#endif
