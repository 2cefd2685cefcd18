/* SPDX-License-Identifier: MIT */
#pragma once

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
#include "libprobe/base/map.h"
#include "libprobe/base/worker.h"
#include "libprobe/query/query.h"
#include "libprobe/record/reader.h"
#include "libprobe/registry/registry.h"
#include "probe/ctf.h"
#include "probe/reader.h"
#include "probe/stream.h"

/* ---- Packets and streams (ctf_stream.c) ------------------------------------------------------ */

/*
 * The streams of a record. A stream is a file of CTF packets (Common Trace Format 1.8). The
 * record's metadata describes the layout of their contents.
 *
 * A stream holds either events that were added one by one, or the bytes of a ring. A packet of the
 * first sort (little-endian, aligned to bytes):
 *
 *	+0	u32 magic, u8 uuid[16], u32 stream_id		packet header
 *	+24	u64 timestamp_begin, timestamp_end,		packet context
 *		   content_size, packet_size (both in bits),
 *		   packet_seq_num, events_discarded, u32 cpu_id
 *	+76	events:
 *		u32 id, u64 timestamp				event header
 *		i32 pid, i32 tid, string comm			event context
 *		[u8 end, u32 count, u64 addresses[count]	  if the record has stacks]
 *		the arguments					fields
 *
 * A packet of a ring's bytes:
 *
 *	+0	as above
 *	+76	i32 pid						packet context
 *	+80	events, each aligned to 4:
 *		u64 timestamp, u32 id				event header
 *		u32 thread, with RING_TID_CHILD			event context
 *		the arguments of the site			fields
 *
 * Its events are the records that stubs write (docs/ring.md). probectl adds events that name a
 * thread before the thread's first hit in the stream.
 */

enum {
	/*
	 * SIGKILL or a full disk cuts write(2) off at a page boundary. Packets are whole pages, so
	 * the file always has whole packets.
	 */
	CTF_PACKET_BYTES = 4096,
	/* size of a stream's buffer, whose packets are written at once */
	CTF_BATCH_BYTES = 1 << 18,
	CTF_HEADER_BYTES = 76,
	/* Offsets in a packet, in bytes: */
	CTF_SIZE_AT = 48,      /* offset of packet_size */
	CTF_SEQUENCE_AT = 56,  /* offset of packet_seq_num */
	CTF_DISCARDED_AT = 64, /* offset of events_discarded */
	CTF_TAKEN_HEADER_BYTES = 80,
	CTF_UUID_BYTES = 16,
	CTF_EVENT_BYTES_MAX = CTF_BATCH_BYTES - CTF_PACKET_BYTES,
	CTF_RECENT = 64 /* size of a cache that finds the stream of a CPU */
};

static inline uint8_t *ctf_put(uint8_t *at, const void *bytes, size_t length)
{
	memcpy(at, bytes, length);
	return at + length;
}

/* ---- Stacks -------------------------------------------------------------------- */

#define CTF_FRAME_ID UINT32_MAX /* id of the event class probectl:frame */
/* An unknown name of a frame or thread. For an empty string babeltrace2 may show another. */
#define CTF_UNKNOWN "[unknown]"
#define CTF_FRAME "frame" /* the field of RECORD_LAYOUT_FRAME */
/* Returns NULL for an unknown name, which in older records is empty. */
static inline const char *ctf_known(const char *text)
{
	return text && *text && strcmp(text, CTF_UNKNOWN) != 0 ? text : NULL;
}

/* Writes a hit's stack (NULL if it has none) into the event context. */
uint8_t *ctf_put_stack(uint8_t *at, const struct probe_stack *stack);

/* ---- Threads ------------------------------------------------------------------- */

/* The event class probectl:thread, whose events name threads. */
#define CTF_THREAD_ID UINT32_MAX
enum {
	CTF_THREAD_BYTES = 48, /* maximum size of an event probectl:thread in bytes */
	CTF_COMM_BYTES = 16    /* size of a thread name: TASK_COMM_LEN of the kernel */
};

/* A thread that a stream has named, or will name. */
struct ctf_thread {
	uint32_t word; /* the thread's id as stubs write it in records */
	bool is_named;
	/* number + 1 of the last packet with this thread's hits; or 0 */
	uint64_t packet;
	uint64_t asked_ns; /* when `comm` was last looked up, in CLOCK_MONOTONIC */
	int32_t pid, tid;
	char comm[CTF_COMM_BYTES];
};

/* ---- Streams ------------------------------------------------------------------- */

struct ctf_stream {
	/* the session whose hits the stream holds; NULL after its end */
	const struct probe_session *session;
	/* stream_id: 0 for hits added one by one, else the kind's number */
	uint32_t kind;
	unsigned int ring; /* number of the ring that the bytes come from, if `kind` is not 0 */
	int cpu;
	int32_t pid;  /* process id of the session, if `kind` is not 0 */
	bool created; /* the file of the stream exists, with this device and inode: */
	dev_t dev;
	ino_t ino;
	/*
	 * CTF_BATCH_BYTES. A stream of ring bytes borrows it while bytes are added; otherwise NULL.
	 */
	uint8_t *buffer;
	size_t packet; /* offset in the buffer of the open packet, or of the next packet */
	size_t length; /* offset in the buffer of the end of the last event; valid if is_open */
	bool is_open;
	bool begun; /* the stream has or had a packet */
	/* times of the open packet's start and of its last event, in the stream's clock */
	uint64_t begin, last;
	uint64_t discarded, sequence;
	bool owes;		/* `discarded` includes losses that no packet reports yet */
	uint64_t dropped;	/* number of hits that were added but could not be written */
	off_t written, last_at; /* size of the file in bytes; offset of its last packet */
	/* hits in each packet of the buffer, by the packet's first page */
	uint16_t hits[CTF_BATCH_BYTES / CTF_PACKET_BYTES];
	struct map frames;  /* the frames that are named: addresses of struct probe_frame */
	struct map threads; /* struct ctf_thread by word */
};

/* A packet's header: times, and its size in bytes. */
struct ctf_packet {
	/* times of the first and last event, in the stream's clock */
	uint64_t begin, end;
	size_t content, size;
};

/* Adds lost events to a stream. Returns false if the buffer is full and must be written first. */
bool ctf_stream_discard(
	struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES], uint64_t count);

/* Notes that the last event in the open packet is a hit. */
static inline void ctf_stream_note_hit(struct ctf_stream *stream)
{
	stream->hits[stream->packet / CTF_PACKET_BYTES]++;
}

/* Empties the buffer. Hits in the first `kept` bytes count as written, the rest as dropped. */
void ctf_stream_empty(struct ctf_stream *stream, size_t kept);

/* Completes the open packet's header, and pads it to whole pages. */
void ctf_stream_close(struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES]);

/* ---- Descriptions ------------------------------------------------------------------ */

/* How an argument is encoded in an event. */
enum ctf_code {
	/* argument that could not be read, encoded as an enumeration with one value */
	CTF_UNREADABLE,
	CTF_SIGNED,
	CTF_UNSIGNED,
	CTF_FLOAT,
	CTF_STRING,
	CTF_TEXT,  /* u64 pointer, then the string that it points to */
	CTF_BYTES, /* u32 length, then that number of bytes */
	CTF_KNOWN, /* like CTF_TEXT, for an argument that the catalogue declares as a string */
	CTF_TRUNCATED = 8, /* flag: the value is truncated; one byte of value 1 follows the value */
	CTF_SIZE_SHIFT = 4 /* for numbers: their size in bytes is in the bits from here on */
};

/* A class of events: a probe, and its arguments' encodings. */
struct ctf_class {
	const char *provider, *name, *path; /* provider, name and file of the probe */
	uint8_t arg_count;
	uint8_t codes[ARCH_ARGS_MAX];	/* encoding of each argument: enum ctf_code */
	uint8_t numbers[ARCH_ARGS_MAX]; /* number of each argument in the probe */
	const char *labels;		/* as of ctf_labels() */
};

/*
 * Returns the names of members of structures among a probe's values, as identifiers, with a comma
 * between values: ",order_id" if only the second value is a member, order->id; "" if none is. The
 * caller frees it. NULL if out of memory.
 */
char *ctf_labels(const struct probe_session_probe *probe, size_t arg_count);

/* Appends class number `id` to the metadata. */
void ctf_describe_class(struct buffer *out, const struct ctf_class *class, uint32_t id);

/* ---- Clocks ---------------------------------------------------------------------- */

/* The clock of stubs: the processor's counter or CLOCK_MONOTONIC (base/clock.h). */
enum ctf_clock_id { CTF_CLOCK_COUNTER, CTF_CLOCK_MONOTONIC, CTF_CLOCKS };

static inline enum ctf_clock_id ctf_clock_of(const struct clock *clock)
{
	return clock->counter ? CTF_CLOCK_COUNTER : CTF_CLOCK_MONOTONIC;
}

/* A stamp, and its CLOCK_REALTIME in ns. */
struct ctf_instant {
	uint64_t stamp, ns;
};

/* A clock in the metadata: a line from stamps to time. */
struct ctf_line {
	uint64_t frequency; /* stamps per second; 0 if the clock is not used */
	int64_t offset_s;
	uint64_t offset; /* added to offset_s, in stamps */
};

/* Returns the time in ns that readers compute for a stamp. */
uint64_t ctf_line_ns(const struct ctf_line *line, uint64_t stamp);
/* Returns the stamp of a time in ns of CLOCK_REALTIME. */
uint64_t ctf_clock_stamp_at(const struct clock *clock, uint64_t ns);

/* The metadata's contents, the same for all parts. */
struct ctf_description {
	uint64_t base_s;       /* zero of the record's clock, in seconds since 1970 */
	bool stacks;	       /* events have call stacks */
	struct buffer classes; /* descriptions of all event classes so far */
	bool has_clock[CTF_CLOCKS];
	struct clock clocks[CTF_CLOCKS];
};

/* Appends the metadata's head, before all classes. */
void ctf_describe_trace(struct buffer *out, const uint8_t uuid[CTF_UUID_BYTES],
	const struct ctf_description *description, const struct ctf_line lines[CTF_CLOCKS]);

/* ---- Kinds: descriptions of ring bytes (ctf_kinds.c) ----------------------------- */

/* A field at a fixed offset of a ring's record: an argument, or the length of later bytes. */
struct ctf_field {
	uint8_t code;	/* encoding of the field: enum ctf_code */
	uint8_t number; /* number of the argument in the probe */
	uint8_t place;	/* index of the argument among the recorded arguments */
	uint8_t unused;
};

/* The fields of a site's records. An argument that can never be read has a field of no bytes. */
struct ctf_form {
	struct ctf_field fields[2 * ARCH_ARGS_MAX];
	uint8_t count;
	/* number of captures with a bit in the mask; 0 if records have no mask */
	uint8_t captures;
};

struct ctf_kind_site {
	/* owned: provider, name and file of the probe; as of ctf_labels() */
	char *provider, *name, *path, *labels;
	struct ctf_form form;
	bool described;
};

/*
 * A class of streams, numbered by index + 1. Maps ring records' site numbers to probes and fields.
 */
struct ctf_kind {
	enum ctf_clock_id clock;
	struct ctf_kind_site *sites;
	struct ring_form *forms; /* layouts of the records of site_count sites */
	size_t site_count;
};

/* Append the description of a kind, or of one of its sites, to the metadata. */
void ctf_describe_kind(struct buffer *out, uint32_t kind, enum ctf_clock_id clock);
void ctf_describe_site(
	struct buffer *out, uint32_t kind, uint32_t number, const struct ctf_kind_site *site);

struct ctf_kinds {
	struct ctf_kind *kinds;
	size_t count;
};

/* A session whose rings are moved as whole blocks of bytes. */
struct ctf_source {
	struct probe_session *session;
	uint32_t kind; /* stream_id of the session's kind; 0 if the kind is not known yet */
	bool never;    /* the rings cannot be moved: hits are added one by one */
	/* how many sites of the session, from the first on, match those of the kind */
	size_t agreed;
	/* uncounted hits of each matching site */
	uint64_t *hits;
	unsigned int ring; /* the last ring that had records */
	uint64_t *heads;   /* head of each ring when the rings were last read */
	uint64_t looked_ns;
};

/*
 * Finds or makes the kind with a session's sites. Sets source->never if its rings cannot be moved.
 * Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *ctf_kinds_find(
	struct ctf_kinds *kinds, struct ctf_description *description, struct ctf_source *source);
/* Describes a site in the metadata, once, before an event of it is written. */
void ctf_kinds_describe(struct ctf_kinds *kinds, struct ctf_description *description,
	const struct ctf_source *source, size_t site);
void ctf_kinds_deinit(struct ctf_kinds *kinds);

/* ---- Records --------------------------------------------------------------------------------- */

/*
 * The CTF writer. ctf_stream.c has packets, clocks, parts and the thread for large packets;
 * ctf_metadata.c the metadata; ctf_kinds.c ring bytes' descriptions, and stacks; ctf_take.c moves
 * rings and names threads; ctf.c has the record, classes and losses.
 *
 * Hits are added one by one, or as bytes of whole rings, in streams of their own kinds with the
 * stubs' clock.
 */

/* ---- Parts ------------------------------------------------------------------------- */

/* Parts are folders named 000001, 000002 … */
enum { CTF_PART_NAME_BYTES = 12 };
void ctf_part_name(char ret[CTF_PART_NAME_BYTES], unsigned int number);
/* Gets the number from a part's name. Returns false if the name is not a part's. */
bool ctf_part_number(const char *name, unsigned int *ret);

struct ctf_part {
	int folder; /* descriptor of the part's folder; -1 if the part is not open */
	const struct ctf_description *description;
	uint8_t uuid[CTF_UUID_BYTES];
	size_t described; /* bytes of description->classes that are already in the metadata */
	struct ctf_stream *streams;
	size_t stream_count;
	/* index of the stream of a CPU's last hit, by CPU % CTF_RECENT */
	size_t recent[CTF_RECENT];
	uint64_t written; /* number of bytes written to all streams */
	/* the points that the clocks' lines go through */
	struct ctf_instant from[CTF_CLOCKS];
	struct ctf_line lines[CTF_CLOCKS]; /* the lines of the clocks, as the metadata has them */
	bool over; /* a later part exists, so the lines must not change any more */
	/* block size of writes past the page cache (O_DIRECT); 0 if impossible */
	size_t direct;
	bool direct_known;
};

/*
 * Makes a folder with metadata in `root`, or uses `root` itself for ".". `description` is borrowed,
 * and grows. Each clock's line goes through the instant in `from` or, if that is zero, through the
 * clock's first reading. Close the part even after an error.
 */
PROBE_MUST_CHECK struct probe_error *ctf_part_open(struct ctf_part *part, int root,
	const char *name, const struct ctf_description *description,
	const struct ctf_instant from[CTF_CLOCKS]);
/* Discards unwritten events. A part that is not open may be closed and flushed. */
void ctf_part_close(struct ctf_part *part);

/* Finds or makes the stream of a session and CPU; valid until the next call. */
PROBE_MUST_CHECK struct probe_error *ctf_part_stream(struct ctf_part *part,
	const struct probe_session *session, int cpu, struct ctf_stream **ret);
/* Finds or makes the stream of a ring; valid until the next call. */
PROBE_MUST_CHECK struct probe_error *ctf_part_ring_stream(struct ctf_part *part,
	const struct ctf_source *source, unsigned int ring, struct ctf_stream **ret);

enum { CTF_STREAM_NAME_BYTES = 64 };

/*
 * Creates a stream's file, or opens it again. Returns -1 with errno on failure; ESTALE means that
 * the file was replaced.
 */
int ctf_stream_open(const struct ctf_part *part, struct ctf_stream *stream, int flags);

/* Writes the metadata again if a class is missing from it, or its clocks are too inaccurate. */
PROBE_MUST_CHECK struct probe_error *ctf_part_describe(struct ctf_part *part);

/* Writes a stream's closed packets, after the metadata that describes them. */
PROBE_MUST_CHECK struct probe_error *ctf_part_write(
	struct ctf_part *part, struct ctf_stream *stream);

/*
 * Gets the place for an event, like ctf_stream_room(), but writes the stream first if it is full.
 */
PROBE_MUST_CHECK struct probe_error *ctf_part_room(
	struct ctf_part *part, struct ctf_stream *stream, size_t room, uint8_t **ret);

/* Names the frames of a hit's stack that the stream has not named yet. */
PROBE_MUST_CHECK struct probe_error *ctf_name_frames(struct ctf_part *part,
	struct ctf_stream *stream, const struct probe_hit *hit, const char *comm);

/* Writes a session's events and frees its streams' memory. */
PROBE_MUST_CHECK struct probe_error *ctf_part_forget(
	struct ctf_part *part, const struct probe_session *session);

PROBE_MUST_CHECK struct probe_error *ctf_part_flush(struct ctf_part *part);

/* ---- Writes past the page cache (ctf_stream.c) ----------------------------------- */

/* Finds out part->direct, once. */
PROBE_MUST_CHECK struct probe_error *ctf_direct_ask(
	struct ctf_part *part, struct ctf_stream *stream);
/*
 * Settles finished jobs: counts their hits or, if a job has failed, writes its records in small
 * packets.
 */
PROBE_MUST_CHECK struct probe_error *ctf_direct_settle(struct probe_ctf *ctf, bool wait);
/* After an error: waits for running writes, and removes incomplete packets. */
PROBE_MUST_CHECK struct probe_error *ctf_direct_give_up(struct probe_ctf *ctf);
/* Returns true if a stream has unsettled packets. Then nothing else may be written to it. */
bool ctf_direct_waits(
	struct probe_ctf *ctf, const struct ctf_part *part, const struct ctf_stream *stream);
void ctf_direct_deinit(struct probe_ctf *ctf);

/* ---- The record -------------------------------------------------------------------- */

struct ctf_site;
struct ctf_writer;

struct probe_ctf {
	struct probe_ctf_options options;
	char *path; /* path of the record, for messages */
	int root;
	/* current and previous part; the previous part stays open for late hits */
	struct ctf_part part, before;
	unsigned int part_count;
	uint64_t closed_bytes; /* size of all closed parts in bytes */
	unsigned int flushes;  /* number of flushes since the current part began */
	/* CLOCK_REALTIME: the previous part's end, or the record's start */
	uint64_t begin_ns;
	/* CLOCK_MONOTONIC: the part's end; 0 without a hit or limit */
	uint64_t end_ns;
	int last_cpu;	  /* CPU of the last hit */
	uint64_t last_ns; /* time of the last hit; before the first hit, the start of the record */
	struct ctf_description description;
	struct ctf_class *classes; /* classes of events in the record; their strings are owned */
	size_t class_count;
	struct ctf_site *sites; /* cache of the classes of recently hit sites, see ctf.c */
	bool failed;
	uint64_t unwritten; /* number of hits that were added or moved but could not be written */

	struct ctf_kinds kinds;
	struct ctf_source *sources;
	size_t source_count;
	uint8_t *copy, *packets;   /* buffers of ctf_take.c; NULL before the first use */
	struct ctf_writer *writer; /* writer thread; NULL before the first use */
	uint64_t counted; /* number of written hits that probe_ctf_take() has not reported yet */
	/* first stamp of the part; older hits belong to earlier ones */
	uint64_t cuts[CTF_CLOCKS];
	uint64_t newest[CTF_CLOCKS]; /* latest stamp written to any part */
};

/* Ends the part at a time. Later hits go into a new part. */
PROBE_MUST_CHECK struct probe_error *ctf_rotate(struct probe_ctf *ctf, uint64_t time_ns);
/* Notes a hit's time: a part's oldest hit determines its end. */
void ctf_part_begins(struct probe_ctf *ctf, uint64_t time_ns);
/* Returns the end of the part in the hits' clock; UINT64_MAX if unknown. */
uint64_t ctf_part_end(const struct probe_ctf *ctf);
/*
 * Returns true if a hit of this time should begin a part, because this part is full and the
 * previous one complete.
 */
bool ctf_is_part_full(const struct probe_ctf *ctf, uint64_t time_ns);
/* Returns true if a hit of this time would begin a part, and the previous one is incomplete. */
bool ctf_is_too_early(const struct probe_ctf *ctf, uint64_t time_ns);
/* Reads the stubs' clocks again, for better frequencies. */
void ctf_sync_clocks(struct probe_ctf *ctf);
/* Marks the record as failed if there is an error, and puts its path before the error. */
PROBE_MUST_CHECK struct probe_error *ctf_checked(struct probe_ctf *ctf, struct probe_error *error);

/* ---- Classes of events ----------------------------------------------------------- */

/* A cache entry: the class of a site's last hits. */
struct ctf_site {
	uint64_t pc;
	const struct probe_session *session;
	size_t probe;
	uint32_t id; /* id of the event class */
	struct ctf_class class;
};

/* ---- Writer thread (ctf_stream.c) ------------------------------------------------------------ */

/*
 * A thread that writes large packets in the order given, so that the caller does not wait for the
 * disk. After a job has failed, later jobs are not tried; the caller settles them.
 */

enum {
	CTF_JOBS = 3,
	CTF_JOB_BYTES = 8 << 20 /* size of a job's memory in bytes, a multiple of a huge page */
};

struct ctf_job {
	uint8_t *memory; /* CTF_JOB_BYTES of memory, aligned to a page */
	/* Bytes to append to `fd` (O_APPEND). */
	uint8_t *bytes;
	size_t size;
	int fd;
	bool done; /* all bytes of the job were written */
	/* The stream of the bytes, for settling the job: */
	struct ctf_part *part;
	size_t stream; /* index of the stream in part->streams */
	struct probe_session *session;
	size_t names; /* size of the packets before the large one, which name its threads */
	struct ctf_packet packet; /* header of the large packet */
	off_t last_at;		  /* offset of the large packet in the file */
	uint64_t sequence;	  /* packet_seq_num of the first packet of the job */
	uint64_t *hits;		  /* number of hits of each site */
	size_t hit_count;	  /* number of elements of `hits` */
	uint64_t paged; /* number of hits that were written again in packets of one page */
};

struct ctf_writer {
	pthread_mutex_t lock; /* protects all members below */
	pthread_cond_t changed;
	struct ctf_job jobs[CTF_JOBS]; /* jobs; job number N is at index N % CTF_JOBS */
	/* jobs given to the thread, finished and settled so far */
	size_t given, finished, settled;
	bool failed, over;
	bool has_thread;
	struct worker worker;
};

/* Returns NULL if out of memory. */
struct ctf_writer *ctf_writer_create(void);
/* Waits for all jobs and ends the thread. */
void ctf_writer_free(struct ctf_writer *writer);

/* Returns the next job to fill in, or NULL if all are unsettled. */
struct ctf_job *ctf_writer_next(struct ctf_writer *writer);
/* Returns the unsettled job `i` (0 is the oldest), or NULL. */
struct ctf_job *ctf_writer_waiting(struct ctf_writer *writer, size_t i);
void ctf_writer_give(struct ctf_writer *writer);

/* Returns the number of jobs finished but not settled. With `wait`, first waits for all jobs. */
size_t ctf_writer_finished(struct ctf_writer *writer, bool wait);
/*
 * Marks the oldest job as settled. After a failed job, settle all jobs before giving another one.
 */
void ctf_writer_settle(struct ctf_writer *writer);

/* ---- Moving rings into the record (ctf_take.c) ----------------------------------------------- */

/*
 * Moves rings' bytes into a record: few bytes as packets of one page, many bytes as a large packet.
 */

enum {
	/* bytes copied from a ring at once, few enough for the processor's cache */
	CTF_PIECE_BYTES = 1 << 17,
	CTF_PACKET_THREADS = 1024,
	/* Room before a large packet for packets that name its threads, 80 threads each. */
	CTF_NAMES_BYTES = 16 * CTF_PACKET_BYTES,
	/* The size at which a large packet is complete. It may exceed this by one piece. */
	CTF_LARGE_MOST = CTF_JOB_BYTES - CTF_NAMES_BYTES - CTF_PIECE_BYTES - RING_RECORD_MAX -
			 2 * CTF_PACKET_BYTES
};

struct taking {
	struct probe_ctf *ctf;
	struct ctf_source *source;
	const struct probe_ctf_names *names;
	struct ring *ring;
	unsigned int number;
	enum ctf_clock_id clock;
	struct ring_forms forms;
	uint64_t now;	   /* stamp of the present time; later stamps are invalid */
	uint64_t until;	   /* first stamp that belongs to another part */
	size_t most;	   /* maximum size of a packet in bytes */
	size_t record_max; /* size of the longest record in bytes */
	struct ctf_part *part;
	struct ctf_stream *stream;
	uint32_t words[CTF_PACKET_THREADS]; /* ids of the threads in the packet, each once */
	size_t word_count;
	enum probe_ctf_amount amount;
	bool moved;
	bool waits; /* some records stay in the ring because the disk is busy, or they are early */
	bool early; /* some wait for older hits of other rings */
	bool presses; /* early records wait no longer if the ring fills, or all are wanted */
};

/* ---- Sources (ctf.c) ------------------------------------------------------------- */

/* Returns NULL if out of memory. */
struct ctf_source *ctf_source_of(struct probe_ctf *ctf, struct probe_session *session);
/* Finds or makes a ring's stream in this part, with a time not before the part's start. */
PROBE_MUST_CHECK struct probe_error *ctf_present_stream(struct probe_ctf *ctf,
	const struct ctf_source *source, unsigned int ring, struct ctf_stream **ret);
/* Returns the first record's stamp. */
uint64_t ctf_first_time(const struct rings *rings, const struct ring *ring);

/* Adds the written hits of each site to its probe, and zeroes hits[]. */
void ctf_count_hits(
	struct probe_ctf *ctf, struct probe_session *session, uint64_t *hits, size_t count);
uint64_t ctf_sum_hits(const uint64_t *hits, size_t count);
void ctf_note_moved(struct taking *t);

/* ---- Small packets ---------------------------------------------------------------- */

/*
 * Closes and writes a stream's packets, and takes back its borrowed buffer. After an error, writes
 * nothing and returns the error.
 */
PROBE_MUST_CHECK struct probe_error *ctf_end_packets(
	struct ctf_part *part, struct ctf_stream *stream, struct probe_error *error);

/* ---- Large packets ----------------------------------------------------------------- */

/* Where a packet's records begin in a job's memory. */
uint8_t *ctf_direct_records(const struct ctf_job *job);
/*
 * Gives a packet to the thread. The metadata must describe its sites, and the packets that name its
 * threads must be complete in the stream's buffer.
 */
PROBE_MUST_CHECK struct probe_error *ctf_direct_give(struct taking *t, struct ctf_job *job);

/* ---- System events --------------------------------------------------------------------------- */

/* The system trace events of POSIX (XSH 2.11.2), in streams' logs. */

extern const char system_event_provider[];
/* Indexed by type. The last element, PROBE_STREAM_UNNAMED, is the user event without a name. */
extern const char *const system_event_names[PROBE_STREAM_UNNAMED + 1];

/* Returns the type of a system event; PROBE_STREAM_SYSTEM_TYPES for other events. */
uint32_t system_event_type(const char *provider, const char *name);
/* Returns true if an event of a log is a system event, which has no thread. */
bool system_event_is(const struct probe_event *event);
