/* SPDX-License-Identifier: MIT */
/*
 * The CTF writer: packets (ctf_stream.c), the description of their contents (ctf_metadata.c), a
 * folder of both (ctf_part.c), call stacks (ctf_stacks.c), the classes of events (ctf_classes.c),
 * and the whole record (ctf.c).
 *
 * Hits come one by one, or as the bytes of rings (ctf_take.c): these have classes of streams of
 * their own (ctf_kinds.c), whose clock is the stubs' (ctf_clock.c). Threads are named
 * (ctf_threads.c), and large packets go past the page cache (ctf_direct.c, ctf_writer.c).
 */
#ifndef LIBPROBE_RECORD_CTF_H
#define LIBPROBE_RECORD_CTF_H

#include "libprobe/record/ctf_stream.h"

/* ---- Parts ------------------------------------------------------------------------- */

/* Folders of parts are named 000001 and so on. */
enum { CTF_PART_NAME_BYTES = 12 };
void ctf_part_name(char ret[CTF_PART_NAME_BYTES], unsigned int number);
/* The number of the part with this name; false if it is no part's name. */
bool ctf_part_number(const char *name, unsigned int *ret);

struct ctf_part {
	int folder; /* -1: not open */
	const struct ctf_description *description;
	uint8_t uuid[CTF_UUID_BYTES];
	size_t described; /* bytes of class descriptions already in the metadata */
	struct ctf_stream *streams;
	size_t stream_count;
	size_t recent[CTF_RECENT];	     /* by CPU: the stream of its last hit */
	uint64_t written;		     /* bytes in all streams */
	struct ctf_instant from[CTF_CLOCKS]; /* lines go through these */
	struct ctf_line lines[CTF_CLOCKS];   /* as the metadata has them */
	bool over;			     /* the lines stay as they are: another part follows */
	size_t direct; /* blocks of so many bytes may be written past the page cache; 0: not */
	bool direct_known;
};

/*
 * Creates a folder with metadata in `root`, or uses `root` itself ("."). The description, which
 * grows, is borrowed. The lines of its clocks go through `from`; zeros: a line begins with its
 * clock. Close the part even after an error.
 */
PROBE_MUST_CHECK struct probe_error *ctf_part_open(struct ctf_part *part, int root,
	const char *name, const struct ctf_description *description,
	const struct ctf_instant from[CTF_CLOCKS]);
/* Discards what was not written. A part that is not open may be closed and flushed. */
void ctf_part_close(struct ctf_part *part);

/* The stream of a session and a CPU, valid until the next call. */
PROBE_MUST_CHECK struct probe_error *ctf_part_stream(struct ctf_part *part,
	const struct probe_session *session, int cpu, struct ctf_stream **ret);
/* The same of the bytes of one of its rings. */
PROBE_MUST_CHECK struct probe_error *ctf_part_ring_stream(struct ctf_part *part,
	const struct ctf_source *source, unsigned int ring, struct ctf_stream **ret);

/* The name of a stream's file. */
enum { CTF_STREAM_NAME_BYTES = 64 };
void ctf_stream_name(char ret[CTF_STREAM_NAME_BYTES], const struct ctf_part *part,
	const struct ctf_stream *stream);

/*
 * Creates the file of a stream, or opens it again for writing. Returns -1 and sets errno on an
 * error; ESTALE means that somebody has put another file, or a pipe, in its place.
 */
int ctf_stream_open(const struct ctf_part *part, struct ctf_stream *stream, int flags);

/*
 * Like ctf_stream_open(), for appending. Close the file soon: a record of many processes would
 * exceed the limit of open files.
 */
PROBE_MUST_CHECK struct probe_error *ctf_part_file(
	const struct ctf_part *part, struct ctf_stream *stream, int more_flags, int *ret);

/* Writes the metadata again if it lacks something, or its clocks are off. */
PROBE_MUST_CHECK struct probe_error *ctf_part_describe(struct ctf_part *part);

/* Writes the closed packets of a stream, after describing what is in them. */
PROBE_MUST_CHECK struct probe_error *ctf_part_write(
	struct ctf_part *part, struct ctf_stream *stream);

/*
 * Sets *ret to where to put an event of up to `room` bytes with time last_ns; may write the stream
 * first. As ctf_stream_room().
 */
PROBE_MUST_CHECK struct probe_error *ctf_part_room(
	struct ctf_part *part, struct ctf_stream *stream, size_t room, uint8_t **ret);

/* Names the frames of a hit's stack that the stream has not named yet, in events before it. */
PROBE_MUST_CHECK struct probe_error *ctf_name_frames(struct ctf_part *part,
	struct ctf_stream *stream, const struct probe_hit *hit, const char *comm);

/* Writes what a session has, and gives its memory back. */
PROBE_MUST_CHECK struct probe_error *ctf_part_forget(
	struct ctf_part *part, const struct probe_session *session);

/* Closes and writes the packets of all streams. */
PROBE_MUST_CHECK struct probe_error *ctf_part_flush(struct ctf_part *part);

/* ---- Large packets --------------------------------------------------------------- */

/* Finds out part->direct, if that is not known. */
PROBE_MUST_CHECK struct probe_error *ctf_direct_ask(
	struct ctf_part *part, struct ctf_stream *stream);
/* Deals with what was written; waits until nothing is left, if it shall. */
PROBE_MUST_CHECK struct probe_error *ctf_direct_settle(struct probe_ctf *ctf, bool wait);
/* After an error: waits for what is being written, and takes back what was not written whole. */
PROBE_MUST_CHECK struct probe_error *ctf_direct_give_up(struct probe_ctf *ctf);
/* Does a stream have packets that are not settled? Nothing else may be written to it then. */
bool ctf_direct_waits(
	struct probe_ctf *ctf, const struct ctf_part *part, const struct ctf_stream *stream);
/* Waits for what is being written. */
void ctf_direct_deinit(struct probe_ctf *ctf);

/* ---- The record -------------------------------------------------------------------- */

struct ctf_site;
struct ctf_writer;

struct probe_ctf {
	struct probe_ctf_options options;
	char *path; /* for messages */
	int root;
	struct ctf_part part, before; /* `before` is the previous part, while open for late hits */
	unsigned int part_count;
	uint64_t closed_bytes; /* of the parts that are closed */
	unsigned int flushes;  /* since the part's beginning */
	uint64_t begin_ns;     /* where the part before ends; or the record's beginning */
	uint64_t end_ns;       /* CLOCK_MONOTONIC: of the part; 0: it has no hit yet, or no end */
	int last_cpu;	       /* of the last hit */
	uint64_t last_ns;      /* of the last hit; or the record's beginning */
	struct ctf_description description;
	struct ctf_class *classes; /* their names are owned */
	size_t class_count;
	struct ctf_site *sites; /* see ctf_classes.c */
	bool failed;
	uint64_t unwritten; /* hits that were taken or added, and could not be written */

	struct ctf_kinds kinds;
	struct ctf_source *sources;
	size_t source_count;
	uint8_t *copy, *packets;     /* memory of ctf_take.c; NULL before it is needed */
	struct ctf_writer *writer;   /* NULL before it is needed */
	uint64_t counted;	     /* hits that were written, and that nobody was told of */
	uint64_t cuts[CTF_CLOCKS];   /* stamps: the present part has what is not older */
	uint64_t newest[CTF_CLOCKS]; /* stamps that were written, of all parts */
};

/* Ends the present part at a time: later hits go into the next. */
PROBE_MUST_CHECK struct probe_error *ctf_rotate(struct probe_ctf *ctf, uint64_t time_ns);
/* Notes the time of a hit of the present part: the first one says when the part ends. */
void ctf_part_begins(struct probe_ctf *ctf, uint64_t time_ns);
/* When the present part ends, as hits have it; UINT64_MAX: at no time that is known. */
uint64_t ctf_part_end(const struct probe_ctf *ctf);
/* Is it time to, if a hit of that time is next, and has everything been taken that belongs to the
 * part before? */
bool ctf_is_part_full(const struct probe_ctf *ctf, uint64_t time_ns);
/* Reads the clocks of stubs again. */
void ctf_sync_clocks(struct probe_ctf *ctf);
/* Once something could not be written, nothing more is added. */
PROBE_MUST_CHECK struct probe_error *ctf_checked(struct probe_ctf *ctf, struct probe_error *error);

/* Has everything been taken that belongs to the part before? (ctf_take.c) */
bool ctf_take_is_settled(const struct probe_ctf *ctf);
/* Forgets a session whose rings were taken. */
void ctf_take_forget(struct probe_ctf *ctf, const struct probe_session *session);
/* What is taken of a session; NULL: its hits are added one by one. */
const struct ctf_source *ctf_take_source(
	struct probe_ctf *ctf, const struct probe_session *session);
/* Notes losses of such a session. */
PROBE_MUST_CHECK struct probe_error *ctf_take_discarded(
	struct probe_ctf *ctf, const struct ctf_source *source, uint64_t count);
/*
 * Once a record cannot be written any more: what was dropped becomes losses, and those that no
 * packet tells are told where they can be (ctf_late.c).
 */
void ctf_tell_losses(struct probe_ctf *ctf);
/* Adds more losses to such a record. */
void ctf_discard_late(struct probe_ctf *ctf, uint64_t count);
/* Writes the losses that no packet tells yet. */
PROBE_MUST_CHECK struct probe_error *ctf_take_flush(struct probe_ctf *ctf);
void ctf_take_deinit(struct probe_ctf *ctf);

/* ---- Classes of events ----------------------------------------------------------- */

/* What the last hits of a site looked like. */
struct ctf_site {
	uint64_t pc;
	const struct probe_session *session;
	size_t probe;
	uint32_t id; /* of the class */
	struct ctf_class class;
};

bool ctf_classes_init(struct probe_ctf *ctf);
void ctf_classes_deinit(struct probe_ctf *ctf);
/* The session ends. */
void ctf_classes_forget(struct probe_ctf *ctf, const struct probe_session *session);
/* The class of a hit; what is returned is valid until the next call. Error: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *ctf_class_of(struct probe_ctf *ctf,
	const struct probe_session *session, const struct probe_hit *hit,
	const struct ctf_site **ret);

#endif
