/* SPDX-License-Identifier: MIT */
/* Reads the data that stubs write: rings, cells and counters. */
#ifndef LIBPROBE_REGISTRY_RING_H
#define LIBPROBE_REGISTRY_RING_H

#include "arch/layout.h"
#include "libprobe/registry/format.h"

/* ---- Snapshot -------------------------------------------------------------------------------- */

/*
 * Reads a session's data while the target writes it. All data is copied once, and only the copy is
 * examined. Pages that the target never touched are not read, because reading would allocate them.
 */

struct served;

struct snapshot {
	const uint8_t *base;   /* this process's mapping of the data; NULL: read from pid */
	int fd;		       /* descriptor of the data, or -1 */
	pid_t pid;	       /* process whose memory is read if base is NULL; 0: read from file */
	struct served *served; /* knowledge of pid's pages; owned by the creator of the view */
	int file; /* descriptor with the data from file_start on; owned by its session */
	uint64_t file_start;
	struct reg_session layout;
	uint64_t known_start, known_end; /* offsets of a range known to have contents */
	uint64_t hole_start; /* in this round, [hole_start, known_start) has no contents */
};

/*
 * Copies `size` bytes of the data at an offset. Each word of 64 bits is read at once. The offset
 * and the size are multiples of 8. Returns false if the bytes are outside the data or do not exist
 * any more.
 */
bool snapshot_read(const struct snapshot *view, uint64_t offset, void *to, size_t size);

/* The sum of one field of a probe's slot over all sets. */
uint64_t snapshot_sum_slots(const struct snapshot *view, uint32_t slot, size_t field);

/* ---- Gathered data --------------------------------------------------------------------- */

/* A copy of one cell. */
struct view_cell {
	uint32_t slot; /* number of the slot of the cell's probe */
	/*
	 * The key's words and the bytes of its strings. NULL if there is no table, or if the cell
	 * holds the values of all keys that did not fit into the table.
	 */
	const uint8_t *key;
	const struct probe_cell *cell;
};

/*
 * Passes each cell that has values to `visit`, in all sets. In `keys`, is_string says for each part
 * of a key whether it is a string, and string_bytes is the length of the longest string. Entries
 * that make no sense are skipped. Returns false if memory is short, or if `visit` returned false.
 */
struct view_keys {
	const bool *is_string;
	size_t count;
	size_t string_bytes;
};
bool snapshot_cells(struct snapshot *view, const struct view_keys *keys,
	bool (*visit)(void *data, const struct view_cell *cell), void *data);

/*
 * Returns the hits that the cells of each slot have counted: an array of layout.slot_capacity
 * numbers, which the caller frees. If `keys` is {0}, keys are not checked. Returns NULL if memory
 * is short.
 */
uint64_t *snapshot_hits(struct snapshot *view, const struct view_keys *keys);

/* Bytes of a key that snapshot_cells() has passed to `visit`. */
size_t snapshot_key_bytes(const struct view_keys *keys, const uint8_t *key);

/* Passes each entry that has start events to `visit`, with the entry's offset in the data. */
void snapshot_walk_flights(struct snapshot *view,
	void (*visit)(void *data, uint64_t offset, const struct probe_flight *flight), void *data);
/* How many start events of an entry still wait for their end events. */
uint64_t snapshot_open_begins(
	const struct snapshot *view, uint64_t offset, const struct probe_flight *flight);

/*
 * Counts the start events without an end event of each of `pairs` pairs: adds to ret[0] to
 * ret[pairs - 1]. `lives` (may be NULL) says whether a thread still exists; start events of other
 * threads are not counted, because they will not end.
 */
void snapshot_flights(struct snapshot *view, uint64_t *ret, uint32_t pairs,
	bool (*lives)(void *data, uint32_t tid), void *data);

/* ---- Recorder -------------------------------------------------------------------------------- */

/* Reads rings that are overwritten: flight recorders (arch/layout.h). */

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
	 * How many unread records were overwritten. Other records may be missing, too, but none
	 * from the time whole_from on (processor's counter).
	 */
	uint64_t overwritten;
	uint64_t whole_from;
};

/* How far a ring has been read: bytes and records ever written. Starts as {0}. */
struct ring_since {
	uint64_t place, count;
};

/*
 * Copies the records that are in the rings now; the target may be writing. `record_max` is the
 * length of the longest record that it writes. The caller must check the contents of the records.
 *
 * `since` may be NULL. Otherwise it has an element for each ring, and each record is copied only
 * once.
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

/* The state of reading one ring. */
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

/* Maps the data of a descriptor. The caller may close the descriptor then. */
PROBE_MUST_CHECK struct probe_error *rings_open(
	int fd, const struct reg_session *session, struct rings *ret);
void rings_close(struct rings *rings);

/*
 * From now on, wakes threads that wait in `room` whenever a ring gets room. `room` is in the mapped
 * data.
 */
void rings_tell(struct rings *rings, struct probe_room *room);

/*
 * Frees the memory of the rings, but not that of the counters. Call this when nothing writes
 * records any more and all records have been read.
 */
void rings_discharge(struct rings *rings);

/*
 * How often a ring's contents made no sense and were discarded; the number of lost hits is unknown.
 * The cause is that the program itself or two threads at once have written to the ring
 * (docs/ring.md).
 */
uint64_t rings_damaged(const struct rings *rings);

/* The target's current `head` of a ring. */
uint64_t rings_head(const struct ring *ring);
/* The first record that has not been consumed. It is in the ring, so the target may change it. */
const uint8_t *rings_first(const struct rings *rings, const struct ring *ring);

/* Begins a round, which reads what is published now. */
void rings_begin(struct rings *rings);

/*
 * Returns a private copy of the oldest record that is stamped before `until`, or NULL if there is
 * no such record. The copy has the record's first bytes, at most `most` (up to RING_RECORD_MAX);
 * *size_ret is their number. rings_consume() moves on to the next record.
 */
const struct ring_record *rings_next(
	struct rings *rings, size_t most, uint64_t until, struct ring **ring_ret, size_t *size_ret);

/* Consumes `length` bytes of a ring. If `length` is 0, the contents make no sense: discards all. */
void rings_consume(struct ring *ring, size_t length);

/*
 * Discards the rest of all rings, after the last stub has run and rings_next() finds nothing. The
 * rest is an incomplete record, or one that was never stamped.
 */
void rings_discard(struct rings *rings);

/* Discards all contents of the rings. Not for use inside a round. */
void rings_clear(struct rings *rings);

/* Ends a round: tells the target how much room is free. */
void rings_end(struct rings *rings);

/* ---- Room ------------------------------------------------------------------------------------ */

/* The controller's side of hits that wait for room (struct probe_room). */

/*
 * Wakes all threads that wait for room. Call this after storing `tail`. If no thread waits, this
 * costs two locked instructions.
 */
void room_tell(struct probe_room *room);

/* ---- Walk ------------------------------------------------------------------------------------ */

/*
 * Walks consecutive records in a copy of a ring's bytes. The target may have written anything
 * there, but no longer changes it. Nothing outside the given bytes is accessed.
 */

/* The form of one site's records. It is compared byte by byte, so it has no padding. */
struct ring_form {
	/* length of the part that does not vary, bytes; 0 if there is no such site */
	uint16_t fixed;
	uint16_t count; /* number of `words`, which hold the lengths of the rest */
	struct ring_word {
		uint16_t at;   /* offset of the word in the record */
		uint16_t most; /* greatest length that the word may give, in bytes */
	} words[ARCH_ARGS_MAX];
};

/* The forms of a session's sites, by the numbers of the sites. */
struct ring_forms {
	const struct ring_form *forms;
	size_t count;
};

/*
 * The length of a record without its padding; 0 if the bytes make no sense. `size` is the number of
 * bytes from the record on.
 */
size_t ring_record_length(const struct ring_forms *forms, const uint8_t *record, size_t size);

enum ring_walk_end {
	RING_WALK_ALL,	  /* all bytes were walked, or as many as allowed */
	RING_WALK_CUT,	  /* the next record is not before `until` */
	RING_WALK_TIME,	  /* the next record is older than the one before it, or in the future */
	RING_WALK_FULL,	  /* walk->thread() refused the thread of the next record */
	RING_WALK_DAMAGED /* the next record makes no sense */
};

struct ring_walk {
	const struct ring_forms *forms;
	uint64_t *hits; /* number of hits of each site; the walk adds to it */
	/* before the walk: time of the previous record; afterwards: of the last one */
	uint64_t last;
	uint64_t until, now; /* RING_WALK_CUT from `until` on, RING_WALK_TIME from `now` on */
	/* Called when records of another thread begin; returns false to refuse the thread. */
	bool (*thread)(void *data, uint32_t word);
	void *data;
	/* Results: */
	uint64_t first; /* time of the first record */
	size_t records;
	size_t content; /* bytes up to the end of the last record, without its padding */
	enum ring_walk_end end;
};

/*
 * Walks the records in `size` bytes, as far as they begin in the first `begins` bytes. Returns the
 * length of the records that make sense, with their padding.
 */
size_t ring_walk(struct ring_walk *walk, const uint8_t *from, size_t size, size_t begins);

/* ---- Writers --------------------------------------------------------------------------------- */

/* Tells which thread has written a record, with its ids in our pid namespace. */

/*
 * Finds the process and thread of a record, with a small cache. Records hold the thread's id in the
 * target's own pid namespace; this finds its id in ours. If the thread of a child has ended, only
 * the id is known, and the thread counts as a process of its own.
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
/*
 * Remembers the present threads, for records that are read after their threads have ended. Limits
 * how often it scans.
 */
void writers_learn(struct writers *cache);
/* `word` is from a record: a thread id (0 if unknown), and a bit for threads of a child. */
void writers_find(struct writers *cache, uint32_t word, pid_t *pid_ret, pid_t *tid_ret);

#endif
