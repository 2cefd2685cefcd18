/* SPDX-License-Identifier: MIT */
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
#ifndef LIBPROBE_RECORD_CTF_STREAM_H
#define LIBPROBE_RECORD_CTF_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "libprobe/base/error.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/clock.h"
#include "libprobe/query/record_layout.h"
#include "libprobe/registry/walk.h"
#include "probe/ctf.h"

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

#endif
