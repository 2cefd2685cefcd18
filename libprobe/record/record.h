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
#include "libprobe/record/reader.h"

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

/* Writes the stack of a hit into the context; NULL writes that the hit has none. */
uint8_t *ctf_put_stack(uint8_t *at, const struct probe_stack *stack);

/* ---- Threads ------------------------------------------------------------------- */

/* The class of probectl:thread. */
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

/* The clock by which stubs stamp records: the processor's counter, or CLOCK_MONOTONIC
 * (base/clock.h). */
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

/* The time that a reader gives to a stamp. */
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

/* A field at a fixed place of a record: an argument, or how many of its bytes follow. */
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

/*
 * Creates the file of a stream, or opens it again for writing. Returns -1 and sets errno on an
 * error; ESTALE means that somebody has put another file, or a pipe, in its place.
 */
int ctf_stream_open(const struct ctf_part *part, struct ctf_stream *stream, int flags);

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

/* ---- Classes of events ----------------------------------------------------------- */

/* The form of the last hits of a site. */
struct ctf_site {
	uint64_t pc;
	const struct probe_session *session;
	size_t probe;
	uint32_t id; /* of the class */
	struct ctf_class class;
};

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

/* Writes what was added to a stream, which has our memory for packets no longer. */
PROBE_MUST_CHECK struct probe_error *ctf_end_packets(
	struct ctf_part *part, struct ctf_stream *stream, struct probe_error *error);

/* ---- Many (ctf_large.c) ------------------------------------------------------------ */

/* Where the records of a packet begin in a job's memory (ctf_direct.c). */
uint8_t *ctf_direct_records(const struct ctf_job *job);
/*
 * Hands a packet over, to be appended to its stream: the metadata describes what is in it, and
 * packets that name its threads are complete in the stream's buffer.
 */
PROBE_MUST_CHECK struct probe_error *ctf_direct_give(struct taking *t, struct ctf_job *job);

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
