/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_RECORD_RECORD_H
#define LIBPROBE_RECORD_RECORD_H

#include <locale.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/error.h"
#include "libprobe/base/worker.h"
#include "libprobe/query/query.h"
#include "libprobe/registry/registry.h"
#include "probe/ctf.h"
#include "probe/reader.h"
#include "probe/stream.h"

/* ---- Ctf stream ------------------------------------------------------------------------------ */

/*
 * The streams of a record: their packets, and the description of what these hold.
 *
 * A packet of hits that come one by one, little-endian, everything aligned to bytes:
 *
 *	+0   u32 magic, u8 uuid[16], u32 stream_id		packet header
 *	+24  u64 timestamp_begin, timestamp_end,		packet context
 *	     u64 content_size, packet_size (both in bits),
 *	     u64 packet_seq_num, events_discarded, u32 cpu_id
 *	+76  events:
 *		u32 id, u64 timestamp				event header
 *		i32 pid, i32 tid, string comm			event context
 *		[u8 end, u32 count, u64 addresses[count]	with stacks]
 *		the arguments					fields
 *
 * A packet of a ring's bytes:
 *
 *	+0   as above
 *	+76  i32 pid						packet context
 *	+80  events, each aligned to 4:
 *		u64 timestamp, u32 id				event header
 *		u32 thread, with RING_TID_CHILD			event context
 *		what the record has of the site			fields
 *
 * Events there are records as stubs write them (docs/ring.md), and one of ours: who a thread is,
 * before its first hit in the stream.
 */

enum {
	/*
	 * SIGKILL or a full disk may cut off write(2), but only at a page boundary. Packets are
	 * whole pages, so the file always contains whole packets.
	 */
	CTF_PACKET_BYTES = 4096,
	CTF_BATCH_BYTES = 1 << 18, /* packets written at once */
	CTF_HEADER_BYTES = 76,
	/* Of a packet: */
	CTF_SIZE_AT = 48,      /* its packet_size */
	CTF_SEQUENCE_AT = 56,  /* its packet_seq_num */
	CTF_DISCARDED_AT = 64, /* its events_discarded */
	CTF_TAKEN_HEADER_BYTES = 80,
	CTF_UUID_BYTES = 16,
	CTF_EVENT_BYTES_MAX = CTF_BATCH_BYTES - CTF_PACKET_BYTES,
	CTF_RECENT = 64 /* CPUs whose last stream is remembered */
};

static inline uint8_t *ctf_put(uint8_t *at, const void *bytes, size_t length)
{
	memcpy(at, bytes, length);
	return at + length;
}

/* ---- Stacks -------------------------------------------------------------------- */

/* The frames of its session that a stream has named; by their addresses in memory. */
struct ctf_frames {
	const struct probe_frame **slots; /* open addressing */
	size_t room, count;
};

#define CTF_FRAME_ID UINT32_MAX /* of the class of probectl:frame */
/* A name of a frame, or of a thread, that is not known: of an empty string, babeltrace2 may show
 * another one. */
#define CTF_UNKNOWN "[unknown]"
/* NULL: it is not known. Older records have empty strings. */
static inline const char *ctf_known(const char *text)
{
	return text && *text && strcmp(text, CTF_UNKNOWN) != 0 ? text : NULL;
}

/* What the context has of a hit's stack; NULL: that it has none. */
uint8_t *ctf_put_stack(uint8_t *at, const struct probe_stack *stack);

/* ---- Threads ------------------------------------------------------------------- */

/* Of the class of probectl:thread. */
#define CTF_THREAD_ID UINT32_MAX
enum {
	CTF_THREAD_BYTES = 48, /* of an event that names a thread, at most */
	CTF_COMM_BYTES = 16    /* of the kernel's TASK_COMM_LEN */
};

/* A thread that a stream has named, or is about to. */
struct ctf_thread {
	uint32_t word; /* as records have it */
	bool is_used;  /* the slot */
	bool is_named;
	uint64_t packet;   /* 1 + number of that which it was seen in last */
	uint64_t asked_ns; /* CLOCK_MONOTONIC: its name is this old */
	int32_t pid, tid;
	char comm[CTF_COMM_BYTES];
};

struct ctf_threads {
	struct ctf_thread *slots; /* open addressing */
	size_t room, count;
};

void ctf_threads_deinit(struct ctf_threads *threads);
/* The place of a thread, which is there until the next call; NULL without memory. */
struct ctf_thread *ctf_threads_find(struct ctf_threads *threads, uint32_t word);

/*
 * Puts an event that names a thread, if its stream has not named it, or not so. Returns where it
 * ends: CTF_THREAD_BYTES further at most.
 */
uint8_t *ctf_name_thread(struct probe_session *session, const struct probe_ctf_names *names,
	struct ctf_thread *thread, uint64_t time, uint8_t *at);

/* ---- Streams ------------------------------------------------------------------- */

struct ctf_stream {
	const struct probe_session *session; /* NULL: it has ended */
	uint32_t kind;			     /* 0: of hits; else of a ring's bytes: stream_id */
	unsigned int ring;		     /* of these */
	int cpu;
	int32_t pid;  /* of a ring's bytes: of their session's process */
	bool created; /* the file exists, with this identity: */
	dev_t dev;
	ino_t ino;
	uint8_t *
		buffer; /* CTF_BATCH_BYTES; of a ring's bytes only borrowed, while they are added */
	size_t packet;	/* start of the open packet, or of the next one */
	size_t length;	/* end of the last event; meaningless unless is_open */
	bool is_open;
	bool begun;	      /* it has had a packet */
	uint64_t begin, last; /* of the open packet; of the last event: in units of its clock */
	uint64_t discarded, sequence;
	bool owes;		/* losses that no packet tells yet */
	uint64_t dropped;	/* hits that were added and could not be written */
	off_t written, last_at; /* bytes in the file; where its last packet begins */
	/* In the buffer: of each packet, at the number of its first page. */
	uint16_t hits[CTF_BATCH_BYTES / CTF_PACKET_BYTES];
	struct ctf_frames frames;
	struct ctf_threads threads;
};

/* The header of a packet, and its size. */
struct ctf_packet {
	uint64_t begin, end; /* times */
	size_t content, size;
};
size_t ctf_header_bytes(const struct ctf_stream *stream);
void ctf_put_header(struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES],
	const struct ctf_packet *packet, uint8_t *at);

/*
 * Returns where to put an event of up to `room` bytes with time `last`; NULL if the stream
 * must be written first. The caller then adds the event's size to `length`.
 */
uint8_t *ctf_stream_room(
	struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES], size_t room);

/* Counts lost events. False if the stream must be written first. */
bool ctf_stream_discard(
	struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES], uint64_t count);

/* Notes that what was added last to the open packet is a hit. */
static inline void ctf_stream_note_hit(struct ctf_stream *stream)
{
	stream->hits[stream->packet / CTF_PACKET_BYTES]++;
}

/* Forgets the packets, of which the first `kept` bytes are written: other hits are dropped. */
void ctf_stream_empty(struct ctf_stream *stream, size_t kept);

/* Ends the open packet. */
void ctf_stream_close(struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES]);

/*
 * Writes all closed packets to the stream's file, open for appending. After an error the file
 * ends with the last whole packet. `written` is the file's size.
 */
PROBE_MUST_CHECK struct probe_error *ctf_stream_write(struct ctf_stream *stream, int fd);

/* ---- Descriptions ------------------------------------------------------------------ */

/* How an event encodes an argument. */
enum ctf_code {
	CTF_UNREADABLE, /* an enumeration of one value */
	CTF_SIGNED,
	CTF_UNSIGNED,
	CTF_FLOAT,
	CTF_STRING,
	CTF_TEXT,	   /* the pointer, then the string */
	CTF_BYTES,	   /* u32 length, bytes */
	CTF_KNOWN,	   /* as CTF_TEXT, of what the catalogue knows to be a string */
	CTF_TRUNCATED = 8, /* a flag: one byte of value 1 follows */
	CTF_SIZE_SHIFT = 4 /* of numbers: their size in bytes */
};

/* An event type: a probe, and how its arguments are encoded. */
struct ctf_class {
	const char *provider, *name, *path; /* of the probe */
	uint8_t arg_count;
	uint8_t codes[ARCH_ARGS_MAX];	/* enum ctf_code */
	uint8_t numbers[ARCH_ARGS_MAX]; /* of the probe's arguments */
};

/* Describes one class, whose number is its id. */
void ctf_describe_class(struct buffer *out, const struct ctf_class *class, uint32_t id);

/* ---- Clocks ---------------------------------------------------------------------- */

/* What stubs stamp records with: the processor's counter, or CLOCK_MONOTONIC (base/clock.h). */
enum ctf_clock_id { CTF_CLOCK_COUNTER, CTF_CLOCK_MONOTONIC, CTF_CLOCKS };

/* Which of them a session's stubs read. */
static inline enum ctf_clock_id ctf_clock_of(const struct clock *clock)
{
	return clock->counter ? CTF_CLOCK_COUNTER : CTF_CLOCK_MONOTONIC;
}

/* A stamp, and the CLOCK_REALTIME that it stands for. */
struct ctf_instant {
	uint64_t stamp, ns;
};

/* A line: what metadata says of a clock. */
struct ctf_line {
	uint64_t frequency; /* 0: the clock is not used */
	int64_t offset_s;
	uint64_t offset; /* in stamps */
};

/* The line through an instant that meets the clock where it was read last. */
struct ctf_line ctf_line_of(const struct clock *clock, const struct ctf_instant *from);
/* What a reader makes of a stamp. */
uint64_t ctf_line_ns(const struct ctf_line *line, uint64_t stamp);
/* The stamp of a time. */
uint64_t ctf_clock_stamp_at(const struct clock *clock, uint64_t ns);

/* The contents of the metadata. */
struct ctf_description {
	uint64_t base_s;       /* the clock's 0, in seconds since 1970 */
	bool stacks;	       /* events have stacks */
	struct buffer classes; /* descriptions of all classes so far */
	bool has_clock[CTF_CLOCKS];
	struct clock clocks[CTF_CLOCKS];
};

/* The part before all classes. */
void ctf_describe_trace(struct buffer *out, const uint8_t uuid[CTF_UUID_BYTES],
	const struct ctf_description *description, const struct ctf_line lines[CTF_CLOCKS]);

/* ---- Kinds of sites -------------------------------------------------------------- */

/* What a record has at a fixed place: an argument, or how many of its bytes follow. */
struct ctf_field {
	uint8_t code;	/* enum ctf_code */
	uint8_t number; /* of the probe's argument */
	uint8_t place;	/* of the argument among the others */
	uint8_t unused;
};

/* The fields of a site's records. An argument that can never be read has one, of no bytes. */
struct ctf_form {
	struct ctf_field fields[2 * ARCH_ARGS_MAX];
	uint8_t count;
	uint8_t captures; /* that have a bit in the mask; 0: there is no mask */
};

/* Of the records that a layout describes. False: they are no events as they are. */
bool ctf_form_init(
	const struct record_layout *layout, struct ctf_form *form, struct ring_form *ring);

struct ctf_kind_site {
	char *provider, *name, *path; /* owned; of the probe */
	struct ctf_form form;
	bool described;
};

/* A class of streams: what each number of a site means in them. Its number is its index + 1. */
struct ctf_kind {
	enum ctf_clock_id clock;
	struct ctf_kind_site *sites;
	struct ring_form *forms; /* of the same */
	size_t site_count;
};

struct ctf_kinds {
	struct ctf_kind *kinds;
	size_t count;
};

/* A session whose rings are taken. */
struct ctf_source {
	struct probe_session *session;
	uint32_t kind;	   /* its stream_id; 0: not known yet */
	bool never;	   /* its hits are added one by one */
	size_t agreed;	   /* so many of its sites are as their kind has them */
	uint64_t *hits;	   /* of each of these, not counted yet */
	unsigned int ring; /* that had something last */
	uint64_t *heads;   /* of each ring, when it was looked at last */
	uint64_t looked_ns;
};

/*
 * Finds the kind whose sites are those of the session, or makes it; sets `never` where there can be
 * none. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *ctf_kinds_find(
	struct ctf_kinds *kinds, struct ctf_description *description, struct ctf_source *source);
/* Describes a site of a session, if that was not done: an event needs it. */
void ctf_kinds_describe(struct ctf_kinds *kinds, struct ctf_description *description,
	const struct ctf_source *source, size_t site);
void ctf_kinds_deinit(struct ctf_kinds *kinds);

/* Descriptions of a kind, and of one of its sites (ctf_kind_text.c). */
void ctf_describe_kind(struct buffer *out, uint32_t kind, enum ctf_clock_id clock);
void ctf_describe_site(
	struct buffer *out, uint32_t kind, uint32_t number, const struct ctf_kind_site *site);

/* ---- Ctf ------------------------------------------------------------------------------------- */

/*
 * The CTF writer: packets (ctf_stream.c), the description of their contents (ctf_metadata.c), a
 * folder of both (ctf_part.c), call stacks (ctf_stacks.c), the classes of events (ctf_classes.c),
 * and the whole record (ctf.c).
 *
 * Hits come one by one, or as the bytes of rings (ctf_take.c): these have classes of streams of
 * their own (ctf_kinds.c), whose clock is the stubs' (ctf_clock.c). Threads are named
 * (ctf_threads.c), and large packets go past the page cache (ctf_direct.c, ctf_writer.c).
 */

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

/* ---- Ctf writer ------------------------------------------------------------------------------ */

/*
 * A thread that writes large packets, so that nobody waits for the disk, and the next packet is
 * made meanwhile. Jobs are done in the order in which they are handed over; once one has failed,
 * the others are left for the caller to see.
 */

enum {
	CTF_JOBS = 3,
	CTF_JOB_BYTES = 8 << 20 /* of memory: whole huge pages */
};

struct ctf_job {
	uint8_t *memory; /* CTF_JOB_BYTES, which begin a page */
	/* What to write: to a file that was opened for appending. */
	uint8_t *bytes;
	size_t size;
	int fd;
	bool done; /* everything was written */
	/* Whose it is (ctf_direct.c). */
	struct ctf_part *part;
	size_t stream; /* of the part */
	struct probe_session *session;
	size_t names;		  /* bytes of packets that name threads, before the large one */
	struct ctf_packet packet; /* the large one */
	off_t last_at;		  /* where that one begins in the file */
	uint64_t sequence;	  /* of the first of them */
	uint64_t *hits;		  /* of each site */
	size_t hit_count;	  /* of sites */
	uint64_t paged;		  /* hits that went into packets of a page instead */
};

struct ctf_writer {
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	struct ctf_job jobs[CTF_JOBS];	 /* job number N is in place N modulo that number */
	size_t given, finished, settled; /* how many jobs, ever */
	bool failed, over;
	bool has_thread;
	struct worker worker;
};

/* NULL without memory. */
struct ctf_writer *ctf_writer_create(void);
/* Waits for all jobs. */
void ctf_writer_free(struct ctf_writer *writer);

/* The next job, for the caller to fill in; NULL: all wait to be settled. */
struct ctf_job *ctf_writer_next(struct ctf_writer *writer);
/* A job that waits, from 0, the oldest; NULL: there are no more. */
struct ctf_job *ctf_writer_waiting(struct ctf_writer *writer, size_t i);
/* Hands it over. */
void ctf_writer_give(struct ctf_writer *writer);

/* How many jobs are finished and not settled; waits for all of them, if it shall. */
size_t ctf_writer_finished(struct ctf_writer *writer, bool wait);
/* The oldest job that is not settled is; after one that has failed, settle all at once. */
void ctf_writer_settle(struct ctf_writer *writer);

/* ---- Ctf taking ------------------------------------------------------------------------------ */

/*
 * Taking what rings hold: what its files share. One for few bytes (ctf_small.c) and one for many
 * (ctf_large.c) move them, ctf_take.c decides, and ctf_sources.c knows the sessions.
 */

enum {
	CTF_PIECE_BYTES = 1 << 17, /* looked at while they are in the processor's cache */
	CTF_PACKET_THREADS = 1024,
	/* For packets that name these, before a large one: 80 fit into each. */
	CTF_NAMES_BYTES = 16 * CTF_PACKET_BYTES,
	/* Of a large packet, so that another piece has room behind it. */
	CTF_LARGE_MOST = CTF_JOB_BYTES - CTF_NAMES_BYTES - CTF_PIECE_BYTES - RING_RECORD_MAX -
			 2 * CTF_PACKET_BYTES
};

/* One ring that is being taken. */
struct taking {
	struct probe_ctf *ctf;
	struct ctf_source *source;
	const struct probe_ctf_names *names;
	struct ring *ring;
	unsigned int number;
	enum ctf_clock_id clock;
	struct ring_forms forms;
	uint64_t now;	   /* stamp: later ones make no sense */
	uint64_t until;	   /* stamp: what is not older belongs to another part */
	size_t most;	   /* bytes of a packet */
	size_t record_max; /* bytes of the longest record */
	struct ctf_part *part;
	struct ctf_stream *stream;
	uint32_t words[CTF_PACKET_THREADS]; /* threads of the packet */
	size_t word_count;
	enum probe_ctf_amount amount;
	bool moved; /* something */
	bool waits; /* something, for the disk */
};

/* ---- Sources (ctf_sources.c) ----------------------------------------------------- */

/* NULL without memory. */
struct ctf_source *ctf_source_of(struct probe_ctf *ctf, struct probe_session *session);
/* The stream of a ring in the present part, which has no older times than that. */
PROBE_MUST_CHECK struct probe_error *ctf_present_stream(struct probe_ctf *ctf,
	const struct ctf_source *source, unsigned int ring, struct ctf_stream **ret);
/* The time of the first record in a ring. */
uint64_t ctf_first_time(const struct rings *rings, const struct ring *ring);

/* Counts the hits of each site that have been written, and clears them. */
void ctf_count_hits(
	struct probe_ctf *ctf, struct probe_session *session, uint64_t *hits, size_t count);
/* The hits of all sites. */
uint64_t ctf_sum_hits(const uint64_t *hits, size_t count);
/* Notes that records were moved to the stream. */
void ctf_note_moved(struct taking *t);

/* ---- Few bytes (ctf_small.c) ------------------------------------------------------ */

/* Copies records from a ring. Returns how many bytes; *begins_ret: where the last one may begin. */
size_t ctf_copy_some(const struct taking *t, size_t most, uint8_t *to, size_t *begins_ret);
/*
 * Adds the records of a copy; *length_ret: the bytes that they have there, *ok_ret: all are sane.
 */
PROBE_MUST_CHECK struct probe_error *ctf_add_records(struct taking *t, uint8_t *copy, size_t size,
	size_t begins, size_t *length_ret, bool *ok_ret);
/* Adds the name of the thread of a record, if it has to be told first. */
PROBE_MUST_CHECK struct probe_error *ctf_add_name(struct taking *t, uint32_t word);
/* Writes what was added to a stream, which has our memory for packets no longer. */
PROBE_MUST_CHECK struct probe_error *ctf_end_packets(
	struct ctf_part *part, struct ctf_stream *stream, struct probe_error *error);
PROBE_MUST_CHECK struct probe_error *ctf_take_small(struct taking *t);

/* ---- Many (ctf_large.c) ------------------------------------------------------------ */

/* There must be a job for it. */
PROBE_MUST_CHECK struct probe_error *ctf_take_large(struct taking *t);

/* Where the records of a packet begin in a job's memory (ctf_direct.c). */
uint8_t *ctf_direct_records(const struct ctf_job *job);
/*
 * Hands a packet over, to be appended to its stream: the metadata describes what is in it, and
 * packets that name its threads are complete in the stream's buffer.
 */
PROBE_MUST_CHECK struct probe_error *ctf_direct_give(struct taking *t, struct ctf_job *job);

/* ---- Json parser ----------------------------------------------------------------------------- */

/*
 * Reading JSON (RFC 8259) that anyone may have written. A text becomes a tree of values without any
 * allocation: values are in an array of the parser, and strings are decoded where they stand in the
 * text, which they never outgrow. So memory and time are bounded by the length of the text, which
 * the caller limits, and by the limits below.
 */

enum {
	JSON_DEPTH_MAX = 8,	  /* of arrays and objects in each other */
	JSON_VALUES_MAX = 1 << 16 /* in one text */
};

enum json_kind {
	JSON_NONE,    /* null, true or false */
	JSON_INTEGER, /* without point and exponent; one that is out of range is clamped */
	JSON_FLOAT,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT
};

struct json {
	enum json_kind kind;
	bool is_negative;	 /* of JSON_INTEGER */
	const char *name;	 /* of a member of an object, up to a NUL; else NULL */
	const struct json *next; /* in the same array or object; NULL after the last */
	size_t length;		 /* bytes of a string; values in an array or object */
	union {
		uint64_t number; /* of JSON_INTEGER, without its sign: up to 2^63 if negative */
		double real;
		const char *text; /* UTF-8 if the input is; a NUL follows it, more may be in it */
		const struct json *first; /* in an array or object; NULL if it is empty */
	};
};

struct json_parser {
	struct json *values;
	size_t count;
	locale_t c_locale; /* numbers have a point, whatever the user's locale */
	char *at, *end;
	unsigned int depth;

	/* After an error: */
	const char *why;
	bool is_cut_off; /* the text ended before its value did */
};

/* False without memory. json_parser_deinit() may follow in any case. */
bool json_parser_init(struct json_parser *parser);
void json_parser_deinit(struct json_parser *parser);

/*
 * Parses one value, and goes past blanks after it to parser->at. text[length] must be a NUL; the
 * text is changed. The tree lives as long as the text, until the next call. NULL after an error.
 */
const struct json *json_parse(struct json_parser *parser, char *text, size_t length);

/* The first member of an object with this name; NULL: there is none. */
const struct json *json_find(const struct json *object, const char *name);
/* The same, if it is of this kind; else NULL. */
const struct json *json_member(const struct json *object, const char *name, enum json_kind kind);

/* ---- Reader ---------------------------------------------------------------------------------- */

/*
 * The parts of the reader: records (own.h), and hits as JSON (json.c, which json_parser.h parses).
 */

/* Operations of one kind of source. */
struct reader_ops {
	struct probe_error *(*next)(void *source, struct probe_event *ret, bool *there_ret);
	uint64_t (*read)(void *source); /* how many bytes; NULL: not known */
	/* No hit has more arguments. NULL, and SIZE_MAX: not known. */
	size_t (*args_max)(const void *source);
	void (*close)(void *source);
};

/* ---- Folders of records (folder.c) ------------------------------------------------ */

struct reader_folder {
	const char *path; /* as the user gave it, borrowed */
	char **records;	  /* folders, in order */
	size_t count;
	bool parts; /* they are parts of one record, and are read one after the other */
};

/* Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_FORMAT, PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *reader_folder_find(
	const char *path, struct reader_folder *ret);
void reader_folder_deinit(struct reader_folder *folder);
/* How many bytes the files of a folder's records have, without their metadata. */
uint64_t reader_folder_bytes(const struct reader_folder *folder);

/* The metadata of a record, which the caller frees. */
PROBE_MUST_CHECK struct probe_error *reader_metadata(
	const char *record, char **text_ret, size_t *length_ret);

/* ---- Records (own.c) ---------------------------------------------------------------- */

extern const struct reader_ops reader_own;
/* The folder is borrowed. */
PROBE_MUST_CHECK struct probe_error *reader_own_open(
	const struct reader_folder *folder, void **ret);

/* ---- JSON -------------------------------------------------------------------------- */

extern const struct reader_ops reader_json;
/* JSON from a borrowed descriptor, called `name` in messages. Error: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *reader_json_open(int fd, const char *name, void **ret);

/* ---- Call stacks of records (stacks.c) ----------------------------------------------- */

/* What addresses mean, by stream, and the stack of the last event read. */
struct reader_stacks {
	void *tree; /* tsearch(3): struct known_frame */
	struct probe_stack stack;
	const struct probe_frame *frames[PROBE_FRAMES_MAX];
	struct probe_frame unnamed[PROBE_FRAMES_MAX];
};

/* From here on, the address of this frame means this. `stream` is only compared. False without
 * memory. */
bool reader_stacks_name(
	struct reader_stacks *stacks, const void *stream, const struct probe_frame *frame);
/*
 * The stack of an event: `count` addresses of 8 bytes, of which PROBE_FRAMES_MAX are read, and how
 * it ends (enum probe_stack_end, if it is one). *result is valid until the next call.
 */
const struct probe_stack *reader_stacks_take(struct reader_stacks *stacks, const void *stream,
	const uint8_t *addresses, uint64_t count, uint64_t how);
void reader_stacks_deinit(struct reader_stacks *stacks);

/* ---- Tsdl ------------------------------------------------------------------------------------ */

/*
 * The metadata of records: what it says (struct tsdl), and TSDL, the language in which CTF 1.8 says
 * it (https://diamon.org/ctf/v1.8.3, section 7): the part of it that probectl writes
 * (libprobe/record/ctf_metadata.c), and that babeltrace2 writes when it copies one of our records.
 *
 * What else the language has (variants, other byte orders, named structures) is not understood,
 * and neither is an attribute that is not listed here: it might change what the bytes mean. The
 * metadata of a record of 10,000 sites is some megabytes; whatever it says, parsing takes memory
 * and time in proportion to its length.
 */

enum { TSDL_UUID_BYTES = 16 };

enum tsdl_kind {
	TSDL_INTEGER, /* an enumeration, too */
	TSDL_FLOAT,
	TSDL_STRING,
	TSDL_STRUCT,
	TSDL_ARRAY,   /* of a fixed length */
	TSDL_SEQUENCE /* of a length that an earlier field has */
};

/* A clock counts from offset_s seconds and `offset` cycles after 1970. */
struct tsdl_clock {
	const char *name;
	uint64_t freq; /* cycles a second; not 0 */
	int64_t offset_s;
	uint64_t offset;
	struct tsdl_clock *next;
};

struct tsdl_type;

struct tsdl_field {
	const char *name; /* without the underscore that it may begin with */
	const struct tsdl_type *type;
};

/* Sizes and alignments are in bits. */
struct tsdl_type {
	enum tsdl_kind kind;
	uint32_t align; /* a power of two, up to 64 */
	uint32_t size;	/* of integers 1 to 64, of floating-point numbers 32 or 64 */
	bool is_signed;
	bool is_text;		/* an integer with an encoding: a character */
	bool is_unreadable;	/* an enumeration whose only label is "unreadable" */
	const char *clock_name; /* what an integer counts; NULL: nothing */

	/* Of arrays and sequences: */
	const struct tsdl_type *element;
	uint64_t length;
	const char *length_name;

	/* Of structures: */
	struct tsdl_field *fields;
	size_t field_count;
};

/* Types are always structures, or NULL. Lists are in the order of the metadata. */
struct tsdl_stream {
	uint64_t id;
	const struct tsdl_type *packet_context, *event_header, *event_context;
	struct tsdl_stream *next;
};

struct tsdl_event {
	uint64_t id, stream_id;
	const char *name; /* or NULL */
	const struct tsdl_type *context, *fields;
	struct tsdl_event *next;
};

/* Owns everything that it points to. */
struct tsdl {
	const char *tracer_version; /* of its env, or NULL */
	uint8_t uuid[TSDL_UUID_BYTES];
	bool has_uuid;
	const struct tsdl_type *packet_header; /* or NULL */
	struct tsdl_clock *clocks;
	struct tsdl_stream *streams;
	struct tsdl_event *events;
	void *memory; /* what tsdl_free() frees */
};

/*
 * Parses metadata. Error: PROBE_ERROR_FORMAT ("line N: ..."), PROBE_ERROR_MEMORY. *ret is what was
 * understood before an error, too; the caller always frees it.
 */
PROBE_MUST_CHECK struct probe_error *tsdl_parse(const char *text, size_t length, struct tsdl *ret);
void tsdl_free(struct tsdl *tsdl);

/* ---- For the files of the parser ------------------------------------------------------ */

enum tsdl_token {
	TSDL_END,
	TSDL_NAME, /* with its dots: clock.realtime.value */
	TSDL_NUMBER,
	TSDL_TEXT,   /* in quotes */
	TSDL_ASSIGN, /* = */
	TSDL_DEFINE, /* := */
	TSDL_MARK    /* one of { } [ ] ( ) ; : , - . */
};

struct tsdl_alias {
	const char *name;
	const struct tsdl_type *type;
};
enum { TSDL_ALIASES_MAX = 256, TSDL_CLOCKS_MAX = 256, TSDL_DEPTH_MAX = 8 };

struct tsdl_parser {
	struct tsdl *tsdl;
	const char *at, *end;
	unsigned int line;
	enum tsdl_token token; /* the next one, of which nothing is used yet */
	char mark;	       /* of TSDL_MARK */
	uint64_t number;       /* of TSDL_NUMBER */
	const char *text;      /* of TSDL_NAME and TSDL_TEXT */
	struct tsdl_alias aliases[TSDL_ALIASES_MAX];
	size_t alias_count, clock_count;
	struct { /* of the result's lists */
		struct tsdl_clock **clocks;
		struct tsdl_stream **streams;
		struct tsdl_event **events;
	} ends;
	unsigned int depth; /* of types in types */
	struct probe_error *error;
};

/* All of these return false (NULL) after the first error, which the parser keeps. */
bool tsdl_fail(struct tsdl_parser *p, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Zeros that live as long as the result. */
void *tsdl_alloc(struct tsdl_parser *p, size_t size);
/* Goes to the next token. */
bool tsdl_next(struct tsdl_parser *p);
bool tsdl_is_mark(const struct tsdl_parser *p, char mark);
bool tsdl_is_name(const struct tsdl_parser *p, const char *name);
/* Takes a token that must be there. */
bool tsdl_take_mark(struct tsdl_parser *p, char mark);
bool tsdl_take(struct tsdl_parser *p, enum tsdl_token token, const char *what);
bool tsdl_take_name(struct tsdl_parser *p, const char **ret);

/* What is to the right of "=". */
struct tsdl_value {
	enum tsdl_token token; /* TSDL_NUMBER, TSDL_NAME or TSDL_TEXT */
	bool negative;
	uint64_t number;
	const char *text;
};
bool tsdl_take_value(struct tsdl_parser *p, struct tsdl_value *ret);
/* The value as a number that is not negative, or as true or false. */
bool tsdl_number_of(struct tsdl_parser *p, const struct tsdl_value *value, uint64_t *ret);
bool tsdl_bool_of(struct tsdl_parser *p, const struct tsdl_value *value, bool *ret);
/* Takes "{ name = value; ... }": `each` is called after each value. */
bool tsdl_take_attributes(struct tsdl_parser *p,
	bool (*each)(struct tsdl_parser *p, const char *name, const struct tsdl_value *value,
		void *data),
	void *data);

/* Takes a type, and "typealias TYPE := NAME". */
bool tsdl_take_type(struct tsdl_parser *p, const struct tsdl_type **ret);
bool tsdl_take_alias(struct tsdl_parser *p);

/* ---- Own ------------------------------------------------------------------------------------- */

/*
 * Records, decoded by ourselves: the metadata (libprobe/ctf) is compiled into lists of
 * steps, one list for each class of events (own_steps.c, own_class.c); streams are read in blocks,
 * packet by packet (own_packets.c), their events decoded (own_decode.c), and merged by time
 * (own.c).
 *
 *	metadata --libprobe/ctf--> types --own_class.c--> classes: steps
 *	                                               |
 *	stream file --pread(2)--> block --own_packets.c+--> event --own.c--> the oldest of all
 *
 * libbabeltrace2 does the same for any metadata, at 100 times the cost, and aborts on some that is
 * damaged. Here nothing in a file can do more than make an error: lengths are checked against the
 * packet before bytes are touched, packets against the file's size, and memory is in proportion to
 * the file. Files are not mapped, because whoever may write one could cut it off
 * under us, which is SIGBUS.
 *
 * What makes no sense ends its packet (or its stream, where the next packet cannot be found), and
 * is a loss there; after the last event, an error tells how much could not be read.
 */

/* ---- Steps -------------------------------------------------------------------------- */

/*
 * A run is a stretch of fields whose places are known from its beginning: its length is checked
 * once, and its fields are read without further checks. A field of unknown length ends it.
 */
enum step_op {
	STEP_END,
	STEP_RUN, /* begins `offset` bytes, at a multiple of kind + 1 */

	/* Of the run, at `offset`: the value `to` ... */
	STEP_WORD, /* 64 bits of an integer, of either kind: most arguments */
	STEP_UNSIGNED,
	STEP_SIGNED,
	STEP_SINGLE,
	STEP_DOUBLE,
	STEP_KIND,	 /* becomes `kind`, not truncated */
	STEP_READABLE,	 /* becomes null if a bit is not set */
	STEP_UNREADABLE, /* becomes null if a bit is set */
	STEP_TRUNCATED,	 /* is truncated if a bit is set */
	/* ... or the number `to` */
	STEP_NUMBER,
	STEP_NUMBER_SIGNED,

	/* After the run; the length is the number `from`, or without one `offset`: */
	STEP_STRING, /* up to a NUL, to the value `to` */
	STEP_CHARS,  /* to the value `to`, up to a NUL, if there is one */
	STEP_BYTES,  /* to the value `to` */
	STEP_GUESS,  /* text that the number in the value `to` points to, if the number `also` is 0
		      */
	STEP_SKIP,   /* elements of `kind` bytes */
	STEP_UUID,
	STEP_COMM, /* up to a NUL */
	STEP_STACK /* addresses */
};

enum { STEP_NO_NUMBER = UINT16_MAX };

struct step {
	uint8_t op, kind;
	uint8_t left, right; /* how to shift 8 bytes for the bits of a number */
	uint32_t offset;
	uint16_t to, from, also;
};

/* The numbers that steps leave. */
enum own_number {
	OWN_MAGIC = 1,
	OWN_STREAM_ID,
	OWN_BEGIN,
	OWN_END,
	OWN_CONTENT,
	OWN_PACKET,
	OWN_SEQUENCE,
	OWN_DISCARDED,
	OWN_CPU,
	OWN_PACKET_PID,
	OWN_ID,
	OWN_TIME,
	OWN_PID,
	OWN_TID,
	OWN_CHILD,
	OWN_STACK_END,
	OWN_IGNORED, /* what is read by nobody */
	OWN_NEVER,   /* always 0 */
	OWN_FREE     /* the first of those for lengths */
};
enum { OWN_FIELDS_MAX = 256, OWN_NUMBERS_MAX = OWN_FREE + OWN_FIELDS_MAX };

/* What steps read and write. Bytes are in the block until it is filled again. */
struct step_result {
	struct probe_value *values;
	uintptr_t skew; /* what alignment counts from: multiples of 8, and this */
	uint64_t numbers[OWN_NUMBERS_MAX];
	const char *comm;
	const uint8_t *uuid;
	const uint8_t *stack; /* `frames` addresses */
	uint64_t frames;
};

/*
 * Follows steps from `at`, which is in a block whose memory goes on for 8 bytes after `end`.
 * Returns where they end, or NULL: they lead past `end`.
 */
const uint8_t *own_decode(const struct step *steps, const uint8_t *at, const uint8_t *end,
	struct step_result *result);

/* ---- Making steps ---------------------------------------------------------------------- */

struct step_builder {
	struct step *steps; /* of the caller in the end */
	size_t count;
	bool in_run;
	size_t run;	    /* the step that begins the run */
	uint32_t run_align; /* in bits */
	uint32_t bits;	    /* in the run so far */
	struct probe_error *error;
};

/*
 * After an error, these do nothing and return false (NULL). What cannot be decoded is
 * PROBE_ERROR_FORMAT.
 */
bool steps_fail(struct step_builder *b, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool steps_align(struct step_builder *b, uint32_t align);
/* An integer or a floating-point number at the next place of its alignment. */
struct step *steps_fixed(struct step_builder *b, enum step_op op, const struct tsdl_type *type);
/* Something in bytes that ends the run. */
struct step *steps_variable(struct step_builder *b, enum step_op op, const struct tsdl_type *type);
bool steps_kind(struct step_builder *b, uint16_t value, enum probe_value_kind kind);
bool steps_end(struct step_builder *b);

/* ---- Classes --------------------------------------------------------------------------- */

/* Events that are no hits. */
enum own_meaning {
	OWN_HIT,
	OWN_FRAME,  /* names an address for the stacks of its stream */
	OWN_THREAD, /* names a thread of its stream */
	OWN_NOTHING /* what later versions may add */
};

struct own_class {
	uint64_t id;
	enum own_meaning meaning;
	struct probe_event event; /* what all events have; its `provider` is owned */
	struct probe_value *values;
	struct step *steps; /* of the context and the fields */
};

/* Numbers that a stream's packets or events have: bits of enum own_number. */
#define OWN_HAS(mask, number) (((mask) & (UINT32_C(1) << (number))) != 0)

/* A time in nanoseconds since 1970 is base_ns + cycles * 10^9 / freq. */
struct own_clock {
	int64_t base_ns;
	uint64_t freq;
	uint64_t whole, part; /* 10^9 / freq is a little more than whole + part / 2^64 */
};

struct own_stream_class {
	uint64_t id;
	const struct tsdl_stream *described; /* only while it is compiled */
	struct step *packet;		     /* the steps of a packet's context */
	uint32_t has;			     /* of these numbers */
	uint32_t header_bytes;		     /* of an event */
	uint32_t header_align;		     /* in bytes */
	struct step id_at, time_at;
	struct own_clock clock;
	struct own_class *classes; /* sorted by id */
	size_t class_count;
};

/* What the metadata of a record says. */
struct own_trace {
	uint8_t uuid[TSDL_UUID_BYTES];
	bool has_uuid;
	struct step *packet_header;
	struct own_stream_class *streams; /* sorted by id */
	size_t stream_count;
};

/* Error: PROBE_ERROR_FORMAT, PROBE_ERROR_MEMORY. The caller frees *ret in any case. */
PROBE_MUST_CHECK struct probe_error *own_trace_compile(
	const struct tsdl *tsdl, struct own_trace *ret);
void own_trace_free(struct own_trace *trace);

/* The fixed structures: what fields they may have is known (own_context.c). */
enum own_context { OWN_PACKET_HEADER, OWN_PACKET_CONTEXT, OWN_EVENT_HEADER, OWN_EVENT_CONTEXT };
/* Adds the steps of one of them, NULL if there is none, and to *has the numbers it has. */
bool own_context_steps(struct step_builder *b, enum own_context context,
	const struct tsdl_type *structure, uint32_t *has);
/* The field that has the length of sequence `index`, which is before it; SIZE_MAX: there is none.
 */
size_t own_length_of(const struct tsdl_type *structure, size_t index);
/* The context's and the fields' steps of a class, and what its events mean. (own_class.c) */
PROBE_MUST_CHECK struct probe_error *own_class_compile(const struct tsdl_event *event,
	const struct tsdl_stream *stream, uint32_t *has, struct own_class *ret);
void own_class_free(struct own_class *class);

/* 0: before 1970, or after 2262. */
static inline uint64_t own_time_ns(const struct own_clock *clock, uint64_t cycles)
{
	uint64_t since =
		cycles * clock->whole + (uint64_t)(((unsigned __int128)cycles * clock->part) >> 64);

	/* What is missing of it is less than one, and shows in the rest of the division. */
	since += cycles * UINT64_C(1000000000) - since * clock->freq >= clock->freq;
	since += (uint64_t)clock->base_ns;
	return (int64_t)since < 0 ? 0 : since;
}

/* ---- Streams ---------------------------------------------------------------------------- */

/* Who has hit, by the word that events of a stream have for it. */
struct own_thread {
	uint32_t word;
	bool known;
	pid_t pid, tid;
	char *comm; /* owned; or NULL */
};

struct own_threads {
	struct own_thread *slots; /* open addressing */
	size_t room, count;
};

/* Takes what an event says. False without memory. */
bool own_threads_name(
	struct own_threads *threads, uint32_t word, pid_t pid, pid_t tid, const char *comm);
/* NULL: it has not been named. */
const struct own_thread *own_threads_find(const struct own_threads *threads, uint32_t word);
void own_threads_deinit(struct own_threads *threads);

enum own_item {
	OWN_ITEM_NONE, /* the stream is over */
	OWN_ITEM_EVENT,
	OWN_ITEM_LOST
};

/* One file of packets. */
struct own_stream {
	const struct own_trace *trace;
	char *path;
	uint64_t size; /* of the file, when it was found */
	uint64_t read; /* bytes so far */

	/* The block, a stretch of the file: */
	uint8_t *block;
	size_t room;
	uint64_t block_at;    /* where it begins in the file */
	const uint8_t *at;    /* what is taken next */
	const uint8_t *limit; /* the end of the packet's content, as far as it is in the block */
	const uint8_t *end;   /* of the bytes in the block */
	size_t ahead;	      /* an event of the packet begins with as many bytes in memory */

	/* The packet: */
	const struct own_stream_class *class; /* NULL: none is open */
	uint64_t content_end, packet_end;     /* in the file */
	bool begun;			      /* there was one before */
	uint64_t sequence, discarded, end_ns;
	uintptr_t skew;
	int cpu;
	pid_t pid;

	/* What comes next, and when: */
	enum own_item item;
	uint64_t time_ns;
	const struct own_class *event; /* of OWN_ITEM_EVENT; its context is at `at` */
	uint64_t lost;		       /* of OWN_ITEM_LOST */
	/* Losses that are told before anything else, and when they began. */
	uint64_t owed_events, owed_packets, owed_ns;

	struct own_threads threads;
	uint32_t last_word; /* the thread that was looked for last; NULL: it is not known */
	const struct own_thread *last_thread;

	/* What could not be read: bytes, and why the first of them could not. */
	uint64_t unread;
	const char *why;
};

/* The caller sets `size` and `room`. False without memory. */
bool own_stream_init(struct own_stream *stream, const struct own_trace *trace, const char *folder,
	const char *name);
void own_stream_deinit(struct own_stream *stream);

/*
 * Finds the next item of a stream, after the last one has been taken. What makes no sense is
 * skipped, as a loss. Error: PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *own_stream_advance(
	struct own_stream *stream, struct step_result *result);
/* The same, where the next item is an event in memory, as it is most often. False: it is not. */
bool own_stream_next(struct own_stream *stream);

/*
 * Decodes the event that is next, into its class's values and *result. *taken_ret: false if it
 * makes no sense. Errors as above.
 */
PROBE_MUST_CHECK struct probe_error *own_stream_take(
	struct own_stream *stream, struct step_result *result, bool *taken_ret);

/* The same, as far as it is in memory. False: it is not taken, and *result is of no use. */
static inline bool own_stream_decode(struct own_stream *stream, struct step_result *result)
{
	const uint8_t *after;

	result->values = stream->event->values;
	result->skew = stream->skew;
	result->comm = NULL;
	result->frames = 0;
	after = own_decode(stream->event->steps, stream->at, stream->limit, result);
	if (after)
		stream->at = after;
	return after != NULL;
}

/* ---- System events --------------------------------------------------------------------------- */

/* The system trace events of POSIX (XSH 2.11.2), as logs of streams have them. */

extern const char system_event_provider[];
/* By type; also that of the user event without a name. */
extern const char *const system_event_names[PROBE_STREAM_UNNAMED + 1];

/* The type of a system event by its names; PROBE_STREAM_SYSTEM_TYPES if it is no system event. */
uint32_t system_event_type(const char *provider, const char *name);
/* Is an event of a log a system event? No thread has hit it. */
bool system_event_is(const struct probe_event *event);

#endif
