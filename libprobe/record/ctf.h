/* SPDX-License-Identifier: MIT */
/*
 * The CTF writer: packets (ctf_stream.c), the description of what is in them
 * (ctf_metadata.c), a folder of both (ctf_part.c), and the record as a whole (ctf.c).
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
 *		the arguments					fields
 */
#ifndef LIBPROBE_RECORD_CTF_H
#define LIBPROBE_RECORD_CTF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "probe/ctf.h"
#include "libprobe/base/buffer.h"

enum {
	/*
	 * write(2) may be cut off by SIGKILL or a full disk, but only where a page
	 * ends. So every packet is whole pages: what is in the file is whole packets.
	 */
	CTF_PACKET_BYTES = 4096,
	CTF_BATCH_BYTES = 1 << 18, /* packets that are written at once */
	CTF_HEADER_BYTES = 76,
	CTF_UUID_BYTES = 16,
	CTF_EVENT_BYTES_MAX = CTF_BATCH_BYTES - CTF_PACKET_BYTES,
	CTF_RECENT = 64 /* CPUs whose last stream is remembered */
};

/* ---- Streams ------------------------------------------------------------------- */

struct ctf_stream {
	const struct probe_session *session;
	int cpu;
	bool created;	 /* its file is there */
	uint8_t *buffer; /* CTF_BATCH_BYTES */
	size_t packet;	 /* where the packet begins that is being filled, or the next will */
	size_t length;	 /* end of what was added; of no meaning unless is_open */
	bool is_open;
	bool begun; /* has had a packet */
	uint64_t begin_ns, last_ns;
	uint64_t discarded, sequence;
	off_t written;
};

/*
 * Where an event of up to `room` bytes may be put, at last_ns; NULL where the stream has
 * to be written first. What is put there is then added to `length`.
 */
uint8_t *ctf_stream_room(
	struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES], size_t room);

/* Counts lost events. False where the stream has to be written first. */
bool ctf_stream_discard(
	struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES], uint64_t count);

/* Ends the packet that is open. */
void ctf_stream_close(struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES]);

/*
 * Writes all closed packets to the stream's file, open for appending. On an error
 * it ends with the last whole one. `written` tells the file's size.
 */
PROBE_MUST_CHECK struct probe_error *ctf_stream_write(struct ctf_stream *stream, int fd);

/* ---- Descriptions ------------------------------------------------------------------ */

/* How an argument stands in an event. */
enum ctf_code {
	CTF_UNREADABLE, /* an enumeration of one value */
	CTF_SIGNED,
	CTF_UNSIGNED,
	CTF_FLOAT,
	CTF_STRING,
	CTF_TEXT,	   /* the pointer, and the string */
	CTF_BYTES,	   /* u32 length, bytes */
	CTF_TRUNCATED = 8, /* a flag: one byte, 1, follows */
	CTF_SIZE_SHIFT = 4 /* of numbers: their size in bytes */
};

/* One type of events: a probe, and how its arguments stand. */
struct ctf_class {
	const struct probe_session *session;
	size_t probe;
	uint8_t arg_count;
	uint8_t codes[ARCH_ARGS_MAX]; /* enum ctf_code */
};

/* What stands before all classes. `offset_s` is the clock's 0, in seconds since 1970. */
void ctf_describe_trace(struct buffer *out, const uint8_t uuid[CTF_UUID_BYTES], uint64_t offset_s);

/* One class; its id is its number. */
void ctf_describe_class(struct buffer *out, const struct ctf_class *class, uint32_t id,
	const struct probe_session_probe *probe);

/* What metadata is made of. */
struct ctf_description {
	uint64_t base_s;       /* the clock's 0 */
	struct buffer classes; /* all that were met so far, described */
};

/* ---- Parts ------------------------------------------------------------------------- */

/* Folders of parts are called 000001 and so on. */
enum { CTF_PART_NAME_BYTES = 12 };
void ctf_part_name(char ret[CTF_PART_NAME_BYTES], unsigned int number);
/* The number of the part that is called so; false: none is. */
bool ctf_part_number(const char *name, unsigned int *ret);

struct ctf_part {
	int folder; /* -1: not open */
	const struct ctf_description *description;
	uint8_t uuid[CTF_UUID_BYTES];
	size_t described; /* bytes of the classes' description that are in the metadata */
	struct ctf_stream *streams;
	size_t stream_count;
	size_t recent[CTF_RECENT]; /* the stream of the last hit on a CPU */
	uint64_t written;	   /* bytes, of all streams */
};

/*
 * Makes a folder in another, or (".") takes that one, with metadata. The description,
 * which grows, is borrowed. To be closed also after an error.
 */
PROBE_MUST_CHECK struct probe_error *ctf_part_open(struct ctf_part *part, int root,
	const char *name, const struct ctf_description *description);
/* What was not written is discarded. One that is not open may be closed, and flushed. */
void ctf_part_close(struct ctf_part *part);

/* The stream of a session and a CPU, valid until the next one is asked for. */
PROBE_MUST_CHECK struct probe_error *ctf_part_stream(struct ctf_part *part,
	const struct probe_session *session, int cpu, struct ctf_stream **ret);

/* Writes the closed packets of a stream, behind the description of what is in them. */
PROBE_MUST_CHECK struct probe_error *ctf_part_write(
	struct ctf_part *part, struct ctf_stream *stream);

/* Closes and writes the packets of all streams. */
PROBE_MUST_CHECK struct probe_error *ctf_part_flush(struct ctf_part *part);

#endif
