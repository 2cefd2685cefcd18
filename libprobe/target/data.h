/* SPDX-License-Identifier: MIT */
/* What a session's data holds, and where: see docs/ring.md. */
#ifndef LIBPROBE_TARGET_DATA_H
#define LIBPROBE_TARGET_DATA_H

#include "arch/arch.h"
#include "libprobe/target/registry.h"
#include "probe/target.h"

/* What a session needs memory for, beside its counters. All zero: nothing. */
struct data_needs {
	size_t ring_bytes; /* 0: no rings; rounded up to a power of two */
	bool overwrite;	   /* the rings are flight recorders */
	bool cells;
	bool buckets;	      /* in the cells */
	uint8_t key_count;    /* above 0: a table of cells */
	uint8_t string_count; /* of the keys */
	size_t string_bytes;  /* of each of them, without its end */
	size_t keys_max;      /* on one CPU */
	size_t pairs;	      /* whose begins are noted */
	bool by_key;	      /* they are told apart by a key of the program, not by the thread */
	size_t threads;	      /* that the target has now */
	/*
	 * Where forked children use the table as well, its entries at least, all of which they may
	 * touch in time; 0: only the threads of the target do.
	 */
	size_t flights_min;
};

enum {
	DATA_RING_DEFAULT = 4 << 20,
	DATA_RING_MIN = 1 << 17,
	DATA_RING_MAX = 1 << 30,
	DATA_KEYS_DEFAULT = 4096,
	DATA_KEY_STRING_DEFAULT = 64,
	DATA_DEPTH_THREAD = 1000, /* a recursion that goes deeper loses its outermost ends */
	DATA_DEPTH_KEY = 8,
	DATA_FLIGHTS_FORKS = 4096, /* fewer where memory is scarce, but not less than: */
	DATA_FLIGHTS_FEW = 64
};

/* Bytes of a cell, with its buckets; and of an entry of the table of what has begun. */
size_t data_cell_bytes(bool buckets);
size_t data_flight_bytes(uint32_t depth);

/*
 * Lays out the data of a session with counters for `probes`: sets everything in
 * *session that says where something is, as offsets in the data. `cpus` is set
 * already. Errors: PROBE_ERROR_USAGE (it would take absurdly much).
 */
PROBE_MUST_CHECK struct probe_error *data_lay_out(
	struct reg_session *session, size_t probes, const struct data_needs *needs);

/* The offsets become addresses in the target, of data that is mapped at session->data. */
void data_place(struct reg_session *session);

/* Is a session's memory laid out for what is needed? Sizes may be others, but not of cells. */
bool data_fits(const struct reg_session *session, const struct data_needs *needs);

/* Is all of it where it can be? Registries are read from memory of the target. */
bool data_makes_sense(const struct reg_session *session);

/* Does a session have an entry of the table of cells for each key? Else a cell per slot. */
static inline bool data_has_table(const struct reg_session *session)
{
	return session->entries != 0;
}

#endif
