/* SPDX-License-Identifier: MIT */
/*
 * The CTF writer: packets (ctf_stream.c), the description of their contents (ctf_metadata.c), a
 * folder of both (ctf_part.c), call stacks (ctf_stacks.c), and the whole record (ctf.c).
 *
 * A packet, little-endian, everything aligned to bytes:
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
 */
#ifndef LIBPROBE_RECORD_CTF_H
#define LIBPROBE_RECORD_CTF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "libprobe/base/error.h"
#include "probe/ctf.h"
#include "libprobe/base/buffer.h"

enum {
	/*
	 * SIGKILL or a full disk may cut off write(2), but only at a page boundary. Packets are
	 * whole pages, so the file always contains whole packets.
	 */
	CTF_PACKET_BYTES = 4096,
	CTF_BATCH_BYTES = 1 << 18, /* packets written at once */
	CTF_HEADER_BYTES = 76,
	CTF_UUID_BYTES = 16,
	CTF_EVENT_BYTES_MAX = CTF_BATCH_BYTES - CTF_PACKET_BYTES,
	CTF_RECENT = 64 /* CPUs whose last stream is remembered */
};

/* ---- Stacks -------------------------------------------------------------------- */

/* The frames of its session that a stream has named; by their addresses in memory. */
struct ctf_frames {
	const struct probe_frame **slots; /* open addressing */
	size_t room, count;
};

#define CTF_FRAME_ID UINT32_MAX /* of the class of probectl:frame */
/* A name of a frame that is not known: of an empty string, babeltrace2 may show another one. */
#define CTF_UNKNOWN "[unknown]"

/* What the context has of a hit's stack; NULL: that it has none. */
uint8_t *ctf_put_stack(uint8_t *at, const struct probe_stack *stack);

/* ---- Streams ------------------------------------------------------------------- */

struct ctf_stream {
	const struct probe_session *session; /* NULL: it has ended */
	int cpu;
	bool created;	 /* its file exists */
	uint8_t *buffer; /* CTF_BATCH_BYTES; of a session that has ended, NULL */
	size_t packet;	 /* start of the open packet, or of the next one */
	size_t length;	 /* end of the last event; meaningless unless is_open */
	bool is_open;
	bool begun; /* it has had a packet */
	uint64_t begin_ns, last_ns;
	uint64_t discarded, sequence;
	off_t written;
	struct ctf_frames frames;
};

/*
 * Returns where to put an event of up to `room` bytes with time last_ns; NULL if the stream
 * must be written first. The caller then adds the event's size to `length`.
 */
uint8_t *ctf_stream_room(
	struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES], size_t room);

/* Counts lost events. False if the stream must be written first. */
bool ctf_stream_discard(
	struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES], uint64_t count);

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

/* The contents of the metadata. */
struct ctf_description {
	uint64_t base_s;       /* the clock's 0, in seconds since 1970 */
	bool stacks;	       /* events have stacks */
	struct buffer classes; /* descriptions of all classes so far */
};

/* The part before all classes. */
void ctf_describe_trace(struct buffer *out, const uint8_t uuid[CTF_UUID_BYTES],
	const struct ctf_description *description);

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
	size_t recent[CTF_RECENT]; /* by CPU: the stream of its last hit */
	uint64_t written;	   /* bytes in all streams */
};

/*
 * Creates a folder with metadata in `root`, or uses `root` itself ("."). The description, which
 * grows, is borrowed. Close the part even after an error.
 */
PROBE_MUST_CHECK struct probe_error *ctf_part_open(struct ctf_part *part, int root,
	const char *name, const struct ctf_description *description);
/* Discards what was not written. A part that is not open may be closed and flushed. */
void ctf_part_close(struct ctf_part *part);

/* The stream of a session and a CPU, valid until the next call. */
PROBE_MUST_CHECK struct probe_error *ctf_part_stream(struct ctf_part *part,
	const struct probe_session *session, int cpu, struct ctf_stream **ret);

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

#endif
