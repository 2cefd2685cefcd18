/* SPDX-License-Identifier: MIT */
#pragma once

#include "arch/layout.h"
#include "libprobe/registry/format.h"

/* ---- Snapshot -------------------------------------------------------------------------------- */

/*
 * A session's data, copied once while the target writes it. Pages that were never touched are not
 * read, which would allocate them.
 */

struct served;

struct snapshot {
	/* this process's mapping of the data; if NULL, the data is read from pid */
	const uint8_t *base;
	int fd; /* descriptor of the data, or -1 */
	/* process whose memory is read if base is NULL; if 0, the file is read */
	pid_t pid;
	struct served *served; /* knowledge of pid's pages; owned by the creator of the view */
	int file; /* descriptor with the data from file_start on; owned by its session */
	uint64_t file_start;
	struct reg_session layout;
	uint64_t known_start, known_end; /* offsets of a range known to have contents */
	uint64_t hole_start; /* in this round, [hole_start, known_start) is known to be empty */
};

/*
 * Copies data word by word (u64). Offset and size are multiples of 8. Returns false if the bytes
 * are outside the data or gone.
 */
bool snapshot_read(const struct snapshot *view, uint64_t offset, void *to, size_t size);

/* Sums the hits of a probe's slot. The other returns a field that is counted in set `cpus` only. */
uint64_t snapshot_sum_hits(const struct snapshot *view, uint32_t slot);
uint64_t snapshot_shared_count(const struct snapshot *view, uint32_t slot, size_t field);

/* ---- Gathered data --------------------------------------------------------------------- */

struct view_cell {
	uint32_t slot; /* number of the slot of the cell's probe */
	/* The key's words and strings. NULL without keys, or for the cell of all other keys. */
	const uint8_t *key;
	const struct probe_cell *cell;
};

/*
 * Passes each cell with values to `visit`, in all sets, and skips impossible entries. `keys` says
 * which parts of a key are strings, and how long the longest is. Returns false without memory, or
 * if `visit` did.
 */
struct view_keys {
	const bool *is_string;
	size_t count;
	size_t string_bytes;
};
bool snapshot_cells(struct snapshot *view, const struct view_keys *keys,
	bool (*visit)(void *data, const struct view_cell *cell), void *data);

/*
 * Returns each slot's hits, from its cells: layout.slot_capacity numbers, which the caller frees.
 * NULL if memory is short. If `keys` is {0}, keys are not checked.
 */
uint64_t *snapshot_hits(struct snapshot *view, const struct view_keys *keys);

/* Returns the bytes of a key that was passed to `visit`. */
size_t snapshot_key_bytes(const struct view_keys *keys, const uint8_t *key);

/* Visits each entry that has start events, with its offset in the data. */
void snapshot_walk_flights(struct snapshot *view,
	void (*visit)(void *data, uint64_t offset, const struct probe_flight *flight), void *data);
/* Returns how many start events of an entry still wait for end events. */
uint64_t snapshot_open_begins(
	const struct snapshot *view, uint64_t offset, const struct probe_flight *flight);

/*
 * Adds the open start events of `pairs` pairs to ret[]. `lives` (may be NULL) says whether a thread
 * exists; those of ended threads are not counted.
 */
void snapshot_flights(struct snapshot *view, uint64_t *ret, uint32_t pairs,
	bool (*lives)(void *data, uint32_t tid), void *data);

/* ---- Recorder -------------------------------------------------------------------------------- */

/* A record that was copied, and the number of its ring. */
struct recorded {
	uint64_t time;
	size_t offset, size; /* place of the copy in recording.bytes, and its length */
	uint32_t ring;
};

struct recording {
	struct recorded *records; /* sorted by time, the oldest first */
	size_t count;
	uint8_t *bytes;
	/*
	 * Unread records that were overwritten. From whole_from (the counter) on, no record is
	 * missing.
	 */
	uint64_t overwritten;
	uint64_t whole_from;
};

/* Tells how far a ring was read: bytes and records ever written until then. Starts as {0}. */
struct ring_since {
	uint64_t place, count;
};

/*
 * Copies the records in the rings, at most `record_max` bytes long, while the target may write. The
 * caller checks their contents. `since` (may be NULL) has an element for each ring; then each
 * record is copied once. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *recording_read(
	struct snapshot *view, size_t record_max, struct ring_since *since, struct recording *ret);
/* Returns how many records were ever written. */
uint64_t recording_total(struct snapshot *view);
void recording_deinit(struct recording *recording);

/* ---- Ring ------------------------------------------------------------------------------------ */

struct ring {
	struct ring_header *header; /* header of the ring; the target may write anything to it */
	const uint8_t *data;
	uint64_t tail;	  /* bytes consumed, and so the next to be read; see also `told` */
	uint64_t told;	  /* the value stored in header->tail */
	uint64_t head;	  /* the value of header->head in this round */
	uint64_t newest;  /* the greatest time stamp that was read */
	uint64_t damaged; /* how often the ring's contents made no sense and were discarded */
	struct probe_room *room; /* where hits wait for room; NULL: hits do not wait */
};

struct rings {
	uint8_t *base; /* this process's mapping of the session's data */
	size_t size;
	struct reg_session layout; /* layout of the data, from the registry: trusted */
	struct ring *rings;
	size_t count;
	uint64_t damaged; /* the sum of `damaged` of the rings whose memory was freed */
	uint8_t *record;  /* private copy of the current record */
};

/* Maps the data of a descriptor, which may be closed afterwards. */
PROBE_MUST_CHECK struct probe_error *rings_open(
	int fd, const struct reg_session *session, struct rings *ret);
void rings_close(struct rings *rings);

/* From now on, wakes threads that wait in `room` (in the data) when a ring gets room. */
void rings_tell(struct rings *rings, struct probe_room *room);

/* Frees the rings' memory. Call it when all records are read and nothing writes more. */
void rings_discharge(struct rings *rings);

/*
 * Returns how often a ring was discarded because its contents were impossible: the program, or two
 * threads at once, had written to it (docs/ring.md). The number of lost hits is unknown.
 */
uint64_t rings_damaged(const struct rings *rings);

uint64_t rings_head(const struct ring *ring);
/* Returns the first unconsumed record. It is in the ring, so the target may change it. */
const uint8_t *rings_first(const struct rings *rings, const struct ring *ring);

/* Begins a round, which reads what is published now. */
void rings_begin(struct rings *rings);

/*
 * Copies the oldest record before `until`: its first `most` bytes (up to RING_RECORD_MAX),
 * *size_ret of them. NULL if no record is left. rings_consume() moves on.
 */
const struct ring_record *rings_next(
	struct rings *rings, size_t most, uint64_t until, struct ring **ring_ret, size_t *size_ret);

/* Consumes `length` bytes of a ring. If it is 0, discards the ring's impossible contents. */
void rings_consume(struct ring *ring, size_t length);

/*
 * Discards what is left in all rings, an incomplete or unstamped record, after rings_next() has
 * found nothing. No stub may run.
 */
void rings_discard(struct rings *rings);

/* Discards all contents of all rings; not in a round. */
void rings_clear(struct rings *rings);

/* Ends a round: tells the target how much room is free. */
void rings_end(struct rings *rings);

/* ---- Room ------------------------------------------------------------------------------------ */

/* Wakes all threads that wait for room. Call it after storing `tail`. Cheap if no thread waits. */
void room_tell(struct probe_room *room);

/* ---- Walk ------------------------------------------------------------------------------------ */

/* Walks consecutive records in a copy of a ring's bytes, which may have any values. */

/* The form of a site's records. Forms are compared byte by byte, so they have no padding. */
struct ring_form {
	/* length of the part that does not vary, in bytes; 0 for an unknown site */
	uint16_t fixed;
	uint16_t count; /* number of `words`, which hold the lengths of the rest */
	struct ring_word {
		uint16_t at;   /* offset of the word in the record */
		uint16_t most; /* maximum length that the word may give, in bytes */
	} words[ARCH_ARGS_MAX];
};

struct ring_forms {
	const struct ring_form *forms;
	size_t count;
};

/* Returns the length of a record without padding; 0 if it is impossible or above `size`. */
size_t ring_record_length(const struct ring_forms *forms, const uint8_t *record, size_t size);

enum ring_walk_end {
	RING_WALK_ALL,	  /* all bytes were walked, or as many as were allowed */
	RING_WALK_CUT,	  /* the next record is not before `until` */
	RING_WALK_TIME,	  /* the next record is older than the one before it, or in the future */
	RING_WALK_FULL,	  /* walk->thread() refused the thread of the next record */
	RING_WALK_DAMAGED /* the next record has impossible values */
};

struct ring_walk {
	const struct ring_forms *forms;
	uint64_t *hits; /* number of hits of each site; the walk adds to it */
	/* before the walk: time of the previous record; afterwards: of the last one */
	uint64_t last;
	/* the walk ends with RING_WALK_CUT at `until`, with RING_WALK_TIME at `now` */
	uint64_t until, now;
	/* Called when records of another thread begin; returns false to refuse the thread. */
	bool (*thread)(void *data, uint32_t word);
	void *data;
	/* The results of a walk: */
	uint64_t first; /* time of the first record */
	size_t records;
	size_t content; /* bytes up to the end of the last record, without its padding */
	enum ring_walk_end end;
};

/*
 * Walks the records that begin in the first `begins` of `size` bytes. Returns the length of the
 * valid ones, with padding.
 */
size_t ring_walk(struct ring_walk *walk, const uint8_t *from, size_t size, size_t begins);

/* ---- Writers --------------------------------------------------------------------------------- */

/*
 * Finds the process and thread of a record, with a small cache: records hold the id in the target's
 * pid namespace. If a thread of an ended child is known only by its id, it counts as a process.
 */
enum { WRITERS = 1024 };
struct writers {
	pid_t root;    /* pid of the target */
	bool children; /* hits may be those of forked children, too */
	bool foreign;  /* the target's pid namespace is not ours */
	uint64_t next_scan_ns;
	pid_t tids[WRITERS], pids[WRITERS];
	pid_t outer[WRITERS]; /* thread ids in our pid namespace */
};
void writers_init(struct writers *cache, pid_t root, bool children);
/* Remembers the present threads, for records read after their end. Limits how often it scans. */
void writers_learn(struct writers *cache);
/* `word` is from a record: a thread id (0 if unknown), and a bit that marks threads of a child. */
void writers_find(struct writers *cache, uint32_t word, pid_t *pid_ret, pid_t *tid_ret);
