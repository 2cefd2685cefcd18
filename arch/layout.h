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
#ifndef ARCH_LAYOUT_H
#define ARCH_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* Counters of one probe on one CPU. */
struct probe_slot {
	union {
		uint64_t hits;
		/*
		 * in place of `hits` in set `cpus` of a recording session: not 0 while the session
		 * is disabled
		 */
		uint64_t off;
	};
	/* `lost` and `unmatched` are counted in set `cpus` only. */
	/*
	 * Hits that found no room in the ring, or no room in a table for their key or start event.
	 */
	uint64_t lost;
	uint64_t unmatched; /* end events without a start event */
	/*
	 * Hits since the last sampled hit. If the action is an ARCH_ACTION_CALL: calls that have
	 * returned.
	 */
	uint64_t seen;
};
_Static_assert(sizeof(struct probe_slot) == 32, "stubs rely on the layout");

/*
 * The values gathered on one CPU for a probe, or for one of its keys. A cell that is all zero holds
 * no values yet. A hit may change several members; it is complete after its last store.
 */
struct probe_cell {
	/* number of values; unused if the cell has buckets, whose sum is that number */
	uint64_t count;
	uint64_t sum; /* sum of the values modulo 2^64; a double if the values are doubles */
	/*
	 * `most` and `least` are unsigned even if the values are signed (CELL_BIAS). Each keeps the
	 * greatest number, so it can start at 0.
	 */
	uint64_t most;	/* greatest value + bias, or cell_order_of() of a double */
	uint64_t least; /* greatest ~(value + bias) */
	uint64_t last;
	uint64_t last_time; /* time stamp counter */
	uint64_t buckets[]; /* CELL_BUCKETS of them, or none */
};
_Static_assert(sizeof(struct probe_cell) == 48, "stubs rely on the layout");
/*
 * The bias of signed values, which makes them compare as unsigned numbers. Unsigned values have the
 * bias 0.
 */
#define CELL_BIAS (UINT64_C(1) << 63)

/*
 * Maps the bits of a double to an unsigned number, so that the numbers have the order of the
 * doubles. Sets the sign bit of a positive double; inverts all bits of a negative one. NaNs are at
 * both ends of the order.
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
 * An entry of a table of open pairs (flights): the start events, not yet ended, of one thread or of
 * one key that the program chooses (for example a request's number). The table uses open
 * addressing. All CPUs share it, and so do forked children whose hits count. A child has the same
 * thread pointers and addresses as its parent, so `process` tells their entries apart.
 */
struct probe_flight {
	uint32_t state; /* FLIGHT_*, or FLIGHT_PAIR + number of the pair */
	uint32_t depth; /* number of start events without an end event */
	/*
	 * The thread pointer, the thread id, or a key that the program chooses: a number, or the
	 * hash of a text.
	 */
	uint64_t key;
	uint32_t tid;	  /* thread that made the entry; 0 if unknown */
	uint32_t process; /* number of the key's process, if several processes use the table */
	/* Pairs by key only: how many keys whose hash leads to this entry are in later entries. */
	uint32_t away;
	/* Pairs by key only: distance to the entry that the hash of `key` leads to, in entries. */
	uint32_t distance;
	/*
	 * Times of start events, by the time stamp counter. Start event N, counted from 0, is at
	 * index N modulo arch_flights.depth, a power of two. A time is 0 if its start event has
	 * ended, or if a newer start event replaced that one and has ended.
	 */
	uint64_t times[];
	/*
	 * In pairs by thread that have identities (arch_flights.identities), one identity for each
	 * time follows. An identity is 0 if unknown.
	 *
	 * Then comes what the start events keep (struct probe_begun). If keys are texts, the entry
	 * ends with the text of its key: a u64, the same word that a record has for a string, and
	 * arch_flights.text bytes, padded to 8. A thread takes the entry (FLIGHT_TAKEN) before it
	 * compares the text.
	 */
};
_Static_assert(sizeof(struct probe_flight) == 32, "stubs rely on the layout");
enum { FLIGHT_FREE, FLIGHT_TAKEN, FLIGHT_PAIR };

/*
 * The data that a start event keeps for its end event. An entry of the table has one struct
 * probe_begun for each time; each takes arch_flights.keep bytes. First come the captures that an
 * expression of the end event uses, in a fixed order and with fixed sizes, whichever site started
 * the pair. Each capture is a u64 word and a value. For a string, the word is the one that a record
 * has for a string, and the value is the bytes, padded to 8. For a number, the word has only the
 * null bit, and the value is the number.
 *
 * If the pair leaves a record (a span), the record of the start event follows until the end event
 * takes it over. While the record is being written, its time (ring_record.time) is 0, so code that
 * copies the record can detect that it was replaced. A span's record consists of the record of the
 * end event, a u64 with the duration in nanoseconds, and the record of the start event.
 */
struct probe_begun {
	uint32_t bytes; /* length of the start event's record, a multiple of RING_ALIGN */
	uint32_t unused;
	uint64_t kept[];
};
_Static_assert(sizeof(struct probe_begun) == 8, "stubs rely on the layout");
enum { FLIGHT_PROBES_MAX = 16 /* entries examined for a key; a power of two */ };

/* Only this many bytes of a string, the first ones, count for an identity. */
enum { FLIGHT_IDENTITY_BYTES = 256 };

/*
 * The header of a ring. In a ring that is overwritten (a flight recorder), a u64 precedes each
 * record and says where the previous record begins; `head` says where the newest record begins.
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
 * The header of a record. Behind the header come, all packed:
 *
 * - for each capture, a number of its own size or the length of its bytes (arch_capture_fixed());
 * - if any capture is checked, ring_mask_bytes() with one bit for each readable capture;
 * - the bytes of strings and aggregates in the order of the captures.
 *
 * The whole is padded to a multiple of RING_ALIGN (RING_BACK_BYTES in a ring that is overwritten),
 * so records have that alignment.
 */
struct ring_record {
	uint64_t time; /* time stamp counter */
	uint32_t site;
	uint32_t tid; /* thread id; has the bit RING_TID_CHILD in a forked child */
};
_Static_assert(sizeof(struct ring_record) == 16, "stubs rely on the layout");
enum { RING_ALIGN = 4, RING_BACK_BYTES = 8 };

/*
 * In a ring that is overwritten, each record is between two words. The word behind the record holds
 * the distance in bytes from the word before the record, and how many records the ring has ever
 * had. A reader can thus count the records that were overwritten.
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

/* Returns the length of a record padded to a multiple of `align`, a power of two. */
static inline size_t ring_padded(size_t bytes, size_t align)
{
	return (bytes + align - 1) & ~(align - 1);
}

/* Returns the size in bytes of a mask with one bit for each of up to 32 captures. */
static inline uint32_t ring_mask_bytes(uint32_t captures)
{
	return captures <= 8 ? 1 : captures <= 16 ? 2 : 4;
}

/*
 * Set in the thread id of a forked child, if stubs can tell a child from its parent
 * (arch_stub.own).
 */
#define RING_TID_CHILD UINT32_C(0x80000000)

/*
 * A gate holds a thread while the controller works, for example after a library was loaded. The
 * thread takes the next number (`arrived`), wakes the waiters on that word, and waits until
 * `released` reaches its number. If `pass` is not 0, the next thread sets it to 0 and passes
 * without waiting.
 *
 * A waiting thread sleeps (futex(2), not private) on `owner` of the turn whose index is the
 * thread's number modulo GATE_TURNS. That word is a robust futex of a thread of the controller. It
 * holds the controller's thread id, GATE_WAITED, and GATE_FLIP, which changes whenever a number of
 * this turn is released. When the controller dies, the kernel clears the id and wakes one sleeping
 * thread, which disarms the gate and wakes the others. A gate that is not served in time also
 * disarms itself.
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
/* FUTEX_OWNER_DIED: the kernel also sets it at the controller's death */
#define GATE_FLIP UINT32_C(0x40000000)
/* FUTEX_WAITERS: the kernel wakes a waiter at the controller's death */
#define GATE_WAITED UINT32_C(0x80000000)

/*
 * The place where hits wait for room in their rings. They do not check whether `gate` is armed, and
 * sleep only on its first turn. The owner of that turn is 0 once the controller has left the
 * session, and has no GATE_OWNER bits once the controller has died. A waiting hit sets ROOM_WAITED
 * in that owner; if the bit was clear, the hit also increments `arrived` and wakes the controller.
 * The controller clears the bit when it has made room, and wakes all waiters.
 *
 * The time limit of a wait starts again when `moved` changes. At the limit, `gave_up` is set to
 * `moved`; while the two are equal, no hit waits.
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
	/*
	 * Parts of the word of a string or an aggregate. The word has 32 bits in a record, 64
	 * elsewhere.
	 */
	RING_STRING_LENGTH = 0x3fffffff,
	RING_STRING_TRUNCATED_BIT = 30, /* the string or aggregate was longer than its copy */
	RING_STRING_NULL_BIT = 31	/* no byte was readable */
};

static inline uint32_t ring_string_length(uint64_t word)
{
	return (uint32_t)word & RING_STRING_LENGTH;
}

#endif
