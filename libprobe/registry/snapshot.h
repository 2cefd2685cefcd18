/* SPDX-License-Identifier: MIT */
/*
 * Reading a session's data while the target writes it: everything is copied
 * once, and only the copy is examined. Pages that were never touched are not
 * touched for reading either: that would give them memory.
 */
#ifndef LIBPROBE_REGISTRY_SNAPSHOT_H
#define LIBPROBE_REGISTRY_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/layout.h"
#include "libprobe/registry/registry.h"

struct served;

struct snapshot {
	const uint8_t *base;   /* this process's mapping of the data; NULL: see pid */
	int fd;		       /* of the data, or -1 */
	pid_t pid;	       /* whose memory is read where there is no mapping; 0: see file */
	struct served *served; /* where pid's memory is read; owned by whoever made the view */
	int file; /* a descriptor with the data from file_start on; owned by its session */
	uint64_t file_start;
	struct reg_session layout;
	uint64_t known_start, known_end; /* offsets between which there are contents */
	uint64_t hole_start; /* from there to known_start there were none, in this round */
};

/*
 * Copies `size` bytes of the data at an offset, in words of 64 bits, none of
 * which is torn; both are multiples of 8. False where they are outside or gone.
 */
bool snapshot_read(const struct snapshot *view, uint64_t offset, void *to, size_t size);

/* The sum of one field of a probe's slot over all sets. */
uint64_t snapshot_sum_slots(const struct snapshot *view, uint32_t slot, size_t field);

/*
 * Is everything in [offset, offset + size) still as it was made, zero? Where that
 * was found in this round, it is not searched again.
 */
/* What is known of the process's pages is learned again, too. */
void snapshot_begin_round(struct snapshot *view);
bool snapshot_is_empty(struct snapshot *view, uint64_t offset, size_t size);

/* ---- What is gathered ------------------------------------------------------------------ */

/* One cell, as it was copied. */
struct view_cell {
	uint32_t slot; /* of its probe */
	/*
	 * Words of the key and bytes of its strings; NULL: there is no table, or this is what all
	 * keys have gathered that found no room in it.
	 */
	const uint8_t *key;
	const struct probe_cell *cell;
};

/*
 * Hands over every cell of every set in which something was gathered. `parts` has whether each part
 * of the keys is a string, of at most string_bytes. Entries that make no sense are left out. False
 * without memory, or when `visit` returned false.
 */
struct view_keys {
	const bool *is_string;
	size_t count;
	size_t string_bytes;
};
bool snapshot_cells(struct snapshot *view, const struct view_keys *keys,
	bool (*visit)(void *data, const struct view_cell *cell), void *data);

/*
 * What the cells of each slot have counted: an array of layout.slot_capacity, which the caller
 * frees. With no keys ({0}), nothing of the keys is checked. NULL without memory.
 */
uint64_t *snapshot_hits(struct snapshot *view, const struct view_keys *keys);

/* Bytes of a key that snapshot_cells() handed over. */
size_t snapshot_key_bytes(const struct view_keys *keys, const uint8_t *key);

/* Hands over each entry with begins, and its offset in the data. */
void snapshot_walk_flights(struct snapshot *view,
	void (*visit)(void *data, uint64_t offset, const struct probe_flight *flight), void *data);
/* How many begins of it wait for their ends. */
uint64_t snapshot_open_begins(
	const struct snapshot *view, uint64_t offset, const struct probe_flight *flight);

/*
 * How many begins of each of `pairs` pairs have no end yet: adds to ret[pairs].
 * `lives` (may be NULL) says whether a thread is still there: what others have
 * begun will not end.
 */
void snapshot_flights(struct snapshot *view, uint64_t *ret, uint32_t pairs,
	bool (*lives)(void *data, uint32_t tid), void *data);

#endif
