/* SPDX-License-Identifier: MIT */
/* What a session's data holds, and where: see docs/ring.md. */
#ifndef LIBPROBE_REGISTRY_DATA_H
#define LIBPROBE_REGISTRY_DATA_H

#include "arch/arch.h"
#include "libprobe/registry/registry.h"
#include "probe/target.h"

/* What a session needs memory for in addition to its counters. All zero: nothing. */
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
	bool by_key;	   /* they are distinguished by a key of the program, not by the thread */
	size_t keep_bytes; /* kept of each begin (struct probe_begun); a multiple of 8; or 0 */
	size_t text_bytes; /* of the key, if it is a text; else 0 */
	size_t threads;	   /* that the target has now */
	/*
	 * If forked children use the table as well, at least its entries, all of which they may
	 * touch in time; 0: only the threads of the target do.
	 */
	size_t flights_min;
	size_t notes_bytes; /* room that the session needs for its own notes */
};

enum {
	DATA_RING_DEFAULT = 4 << 20,
	DATA_RING_MIN = 1 << 17,
	DATA_RING_MAX = 1 << 30,
	DATA_KEY_STRING_DEFAULT = 256,
	DATA_DEPTH_THREAD = 1024, /* a deeper recursion loses its outermost begins */
	DATA_DEPTH_KEY = 8,
	DATA_DEPTH_SPANS = 128,	   /* of a thread, where begins are kept */
	DATA_KEEP_DEFAULT = 1024,  /* for begins in libraries that are opened later */
	DATA_FLIGHTS_MIN = 1024,   /* entries of the table of begins */
	DATA_FLIGHTS_FORKS = 4096, /* fewer if memory is scarce, but at least: */
	DATA_FLIGHTS_FEW = 64
};

/* Bytes of a cell, with its buckets; and of an entry of the table of begins. */
size_t data_cell_bytes(bool buckets);
size_t data_flight_bytes(const struct reg_session *session);

/*
 * Lays out the data of a session with counters for `probes`: sets all places in *session, as
 * offsets in the data. `cpus` is set already. Errors: PROBE_ERROR_USAGE (it would take absurdly
 * much).
 */
PROBE_MUST_CHECK struct probe_error *data_lay_out(
	struct reg_session *session, size_t probes, const struct data_needs *needs);

struct data_extent {
	uint64_t start, end;
};

/*
 * A part that stubs and controllers write, numbered from 0; false after the last one. Usable before
 * data_place().
 */
bool data_extent(const struct reg_session *session, uint32_t index, struct data_extent *ret);

/* The sum of the sizes of these parts. */
uint64_t data_bytes(const struct reg_session *session);

/* Turns the offsets into addresses in the target, for data that is mapped at session->data. */
void data_place(struct reg_session *session);

/*
 * Does the layout of a session's memory serve these needs? Sizes may differ, except those of cells.
 */
bool data_fits(const struct reg_session *session, const struct data_needs *needs);

/* Where the notes of a session that records are; 0: it has no room for any. */
uint64_t data_notes_offset(const struct reg_session *session);

/* Are the places of the rings, and of their data, possible? */
bool data_rings_make_sense(const struct reg_session *session);

/* Are all places possible? (Registries are read from memory of the target.) */
bool data_makes_sense(const struct reg_session *session);

/* How many cells, or entries of a table, each set has. */
uint32_t data_cell_count(const struct reg_session *session);

/* Does a session have an entry of the table of cells for each key? Else a cell per slot. */
static inline bool data_has_table(const struct reg_session *session)
{
	return session->entries != 0;
}

#endif
