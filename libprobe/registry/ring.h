/* SPDX-License-Identifier: MIT */
/* Reading the data that stubs write: rings, cells and counters. */
#ifndef LIBPROBE_REGISTRY_RING_H
#define LIBPROBE_REGISTRY_RING_H

#include "arch/layout.h"
#include "libprobe/registry/format.h"

/* ---- Snapshot -------------------------------------------------------------------------------- */

/*
 * Reading a session's data while the target writes it: everything is copied
 * once, and only the copy is examined. Pages that were never touched are not
 * touched for reading either: that would give them memory.
 */

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

/* ---- Recorder -------------------------------------------------------------------------------- */

/* Reading rings that are overwritten: flight recorders (arch/layout.h). */

/* One record: where its copy is, and which ring it was in. */
struct recorded {
	uint64_t time;
	size_t offset, size; /* in recording.bytes */
	uint32_t ring;
};

struct recording {
	struct recorded *records; /* the oldest first */
	size_t count;
	uint8_t *bytes;
	/*
	 * How many records that had not been read were written over; before this time (of the
	 * processor's counter) others may be missing.
	 */
	uint64_t overwritten;
	uint64_t whole_from;
};

/* Up to where a ring has been read: bytes ever written, and records. All zero at first. */
struct ring_since {
	uint64_t place, count;
};

/*
 * Copies the records that are in the rings now, while the target may be writing.
 * `record_max` is the length of the longest that it writes. What they hold is
 * for the caller to check.
 *
 * `since` may be NULL; else it has one for each ring, and each record is copied once.
 *
 * Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *recording_read(
	struct snapshot *view, size_t record_max, struct ring_since *since, struct recording *ret);
/* How many records have ever been written to the rings. */
uint64_t recording_total(struct snapshot *view);
void recording_deinit(struct recording *recording);

/* ---- Ring ------------------------------------------------------------------------------------ */

/* The consumer's side of a session's data: counters and rings (arch/layout.h). */

/* One ring as it is being read. */
struct ring {
	struct ring_header *header; /* shared with the target, which may write anything */
	const uint8_t *data;
	uint64_t tail;		 /* next to be read; written to the target now and then */
	uint64_t told;		 /* what header->tail is */
	uint64_t head;		 /* as of this round */
	uint64_t newest;	 /* the greatest time stamp that was read */
	uint64_t damaged;	 /* how often its contents made no sense and were discarded */
	struct probe_room *room; /* where hits wait for room; NULL: they do not */
};

struct rings {
	uint8_t *base; /* of the session's data in this process */
	size_t size;
	struct reg_session layout; /* as the registry has it: trusted */
	struct ring *rings;
	size_t count;
	uint64_t damaged; /* of rings whose memory was given back */
	uint8_t *record;  /* a private copy of the record at hand */
};

/* Maps the data of a descriptor (which may be closed then). */
PROBE_MUST_CHECK struct probe_error *rings_open(
	int fd, const struct reg_session *session, struct rings *ret);
void rings_close(struct rings *rings);

/* From now on, wakes who waits for room there, in the memory that was mapped. */
void rings_tell(struct rings *rings, struct probe_room *room);

/*
 * Gives back the memory of the rings, not that of the counters: nothing writes records
 * there any more, and all have been read.
 */
void rings_discharge(struct rings *rings);

/*
 * How often a ring's contents made no sense and were dropped: it is unknown how
 * many hits that were. The target wrote there, or two threads at once (docs/ring.md).
 */
uint64_t rings_damaged(const struct rings *rings);

/* Where the target is in a ring now. */
uint64_t rings_head(const struct ring *ring);
/* Where the first record is that has not been consumed: in the ring, so the target may change it.
 */
const uint8_t *rings_first(const struct rings *rings, const struct ring *ring);

/* Begins a round: what is published now will be read in it. */
void rings_begin(struct rings *rings);

/*
 * The oldest record that is stamped before `until`: a private copy of its
 * first bytes, `most` of them at most (up to RING_RECORD_MAX). *size_ret is how
 * many there are. NULL: there is none. rings_consume() continues after it.
 */
const struct ring_record *rings_next(
	struct rings *rings, size_t most, uint64_t until, struct ring **ring_ret, size_t *size_ret);

/* Removes `length` bytes from a ring; 0: they make no sense, and all that is there is discarded. */
void rings_consume(struct ring *ring, size_t length);

/*
 * Discards what is left, once no stub runs any more and there is nothing to read: it is no whole
 * record, or was never stamped.
 */
void rings_discard(struct rings *rings);

/* Discards what is there; by itself, not in a round. */
void rings_clear(struct rings *rings);

/* Ends a round: tells the target what is free. */
void rings_end(struct rings *rings);

/* ---- Room ------------------------------------------------------------------------------------ */

/* The controller's side of hits that wait for room (struct probe_room). */

/* Wakes all who wait, after `tail` was stored. Without a waiter, this costs two locked
 * instructions.
 */
void room_tell(struct probe_room *room);

/* ---- Walk ------------------------------------------------------------------------------------ */

/*
 * Records one after the other, in a copy of a ring's bytes: the target may have written anything
 * there, but no longer changes it. Nothing outside the bytes given is touched.
 */

/* The form of one site's records. It is compared byte by byte, so it has no padding. */
struct ring_form {
	uint16_t fixed; /* bytes before those that vary; 0: there is no such site */
	uint16_t count; /* of the words that say how many vary */
	struct ring_word {
		uint16_t at;   /* in the record */
		uint16_t most; /* bytes, at most */
	} words[ARCH_ARGS_MAX];
};

/* Those of a session's sites, by their numbers. */
struct ring_forms {
	const struct ring_form *forms;
	size_t count;
};

/*
 * The length of a record without its padding; 0 if the bytes make no sense. There are `size` bytes
 * at the record.
 */
size_t ring_record_length(const struct ring_forms *forms, const uint8_t *record, size_t size);

enum ring_walk_end {
	RING_WALK_ALL,	  /* all bytes, or as many as may be looked at */
	RING_WALK_CUT,	  /* the next record is of a later time */
	RING_WALK_TIME,	  /* it is older than the one before, or of the future */
	RING_WALK_FULL,	  /* its thread is one too many */
	RING_WALK_DAMAGED /* it makes no sense */
};

struct ring_walk {
	const struct ring_forms *forms;
	uint64_t *hits;	     /* of each site: added to */
	uint64_t last;	     /* time of the record before the first; then of the last one */
	uint64_t until, now; /* RING_WALK_CUT from there on; RING_WALK_TIME after that */
	/* Called where another thread begins; false: it is one too many. */
	bool (*thread)(void *data, uint32_t word);
	void *data;
	/* Results: */
	uint64_t first; /* time of the first record */
	size_t records;
	size_t content; /* bytes up to the end of the last one, without its padding */
	enum ring_walk_end end;
};

/*
 * Walks the records in `size` bytes, of which none begins at `begins` or later. Returns how many
 * bytes those have that make sense, with the padding.
 */
size_t ring_walk(struct ring_walk *walk, const uint8_t *from, size_t size, size_t begins);

/* ---- Writers --------------------------------------------------------------------------------- */

/* Which thread has written a record: the ids in records, as we know them. */

/*
 * Finds the process and thread of a record, with a small cache. Records hold the thread's id in the
 * target's own pid namespace; this finds its id in ours. If a child's thread is gone, only the id
 * is known, and it counts as a process of its own.
 */
enum { WRITERS = 1024 };
struct writers {
	pid_t root;    /* the target */
	bool children; /* hits may be those of its children, too */
	bool foreign;  /* the target is in another namespace than we are */
	uint64_t next_scan_ns;
	pid_t tids[WRITERS], pids[WRITERS];
	pid_t outer[WRITERS]; /* ids as we know them */
};
void writers_init(struct writers *cache, pid_t root, bool children);
/*
 * Remembers the present threads, for records that are read after they have ended. Limits how often
 * it really looks.
 */
void writers_learn(struct writers *cache);
/* `word` is a record's: an id (0: unknown), and whether it is a child's. */
void writers_find(struct writers *cache, uint32_t word, pid_t *pid_ret, pid_t *tid_ret);

#endif
