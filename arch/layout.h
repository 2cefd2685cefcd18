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
	union {
		uint64_t hits;
		/* In set `cpus` of a session that records: not zero while it is switched off. */
		uint64_t off;
	};
	/* These two are counted in set `cpus` only. */
	uint64_t lost; /* hits that found no room: in the ring, for their key, for their begin */
	uint64_t unmatched; /* ends without a begin */
	/* Since the last one that sampling took; of a stub that calls: that have returned. */
	uint64_t seen;
};
_Static_assert(sizeof(struct probe_slot) == 32, "stubs rely on the layout");

/*
 * What is gathered of a probe, or of one key of it, on one CPU. All zero: nothing.
 * Of two values that change together, the one that is stored last counts.
 */
struct probe_cell {
	uint64_t count; /* only where there are no buckets: else their sum */
	uint64_t sum;	/* modulo 2^64 */
	/* Unsigned, whatever the sign of the values (CELL_BIAS), so that 0 is neutral. */
	uint64_t most;	/* of value + bias */
	uint64_t least; /* of ~(value + bias) */
	uint64_t last;
	uint64_t last_time; /* time stamp counter */
	uint64_t buckets[]; /* CELL_BUCKETS of them, or none */
};
_Static_assert(sizeof(struct probe_cell) == 48, "stubs rely on the layout");
#define CELL_BIAS (UINT64_C(1) << 63) /* added to signed values, 0 to unsigned ones */

/*
 * Buckets are linear within each power of two, 32 of them, so a bucket's middle
 * is at most 1.6 % off any of its values:
 *
 *	below 32	bucket = value
 *	2^e .. 2^(e+1)	shift = e - 5; bucket = 32 * shift + (value >> shift)
 *
 * Negative values are in one bucket, the last.
 */
enum { CELL_SUB_BITS = 5, CELL_NEGATIVE = 1920, CELL_BUCKETS = 1921 };

/*
 * A table from keys to cells, one in each set: open addressing, linear probing.
 * An entry:
 *
 *	u64 tag		0: free. A hash of the key, odd. In the set that threads
 *			without rseq share, 2: it is being filled
 *	u64 owner	which probe's
 *	u64 word	one for each part of the key: a number, or as in a record
 *			the length of a string
 *	bytes		of strings, each padded to 8
 *	struct probe_cell
 *
 * Two entries of one set may have the same key, where threads without rseq came
 * at the same time: they are added up.
 */
enum { TABLE_TAG_FILLING = 2, TABLE_PROBES_MAX = 32 /* entries looked at */ };

/*
 * What has begun and not yet ended: of a thread, or of a key that the program
 * itself has for it (a request's number). Open addressing as above, in one table
 * that all CPUs share.
 */
struct probe_flight {
	uint32_t state; /* FLIGHT_*, or FLIGHT_PAIR + number of the pair */
	uint32_t depth; /* how many of them are in `times` */
	uint64_t key;	/* the thread pointer, the thread's id, or the program's own key */
	uint32_t tid;	/* of the thread that made the entry; 0: unknown */
	uint32_t unused;
	uint64_t unused2;
	uint64_t times[]; /* time stamp counter; the innermost is the last */
};
_Static_assert(sizeof(struct probe_flight) == 32, "stubs rely on the layout");
enum { FLIGHT_FREE, FLIGHT_TAKEN, FLIGHT_PAIR };
enum { FLIGHT_PROBES_MAX = 16 };

/*
 * In a ring that is overwritten (a flight recorder), the u64 at each record's
 * place holds where the record before it begins, and the record stands behind
 * it; at `head` is where the newest begins.
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
 * A record: this, then one u64 per capture, then, if any of them is checked,
 * a u64 with a bit per capture that could be read, then the bytes of strings
 * and aggregates in the order of the captures, each padded to 8 bytes.
 */
struct ring_record {
	uint64_t time; /* time stamp counter */
	uint32_t tid;  /* with RING_TID_CHILD */
	uint32_t site;
};
_Static_assert(sizeof(struct ring_record) == 16, "stubs rely on the layout");

/* Added to the thread id of a process that was forked, where stubs can tell (arch_stub.own). */
#define RING_TID_CHILD UINT32_C(0x80000000)

/*
 * A gate holds a thread where the controller has to do something before it
 * goes on: behind the loading of a library. A thread takes the next number
 * (`arrived`), wakes whoever waits for that word, and waits until `released`
 * has reached its number (futex(2), not private). A gate that nobody serves in
 * time disarms itself. The next thread that comes passes if `pass` is not 0,
 * and makes it 0.
 */
struct probe_gate {
	uint32_t armed;
	uint32_t arrived;
	uint32_t released;
	uint32_t pass;
};
enum { GATE_TIMEOUT_S = 2 };

enum {
	RING_RECORD_MAX = 65536, /* of all captures of one record, in bytes */
	/* The u64 of a string: its length, and these. */
	RING_STRING_TRUNCATED_BIT = 32, /* there was more */
	RING_STRING_NULL_BIT = 33	/* not one byte could be read */
};

#endif
