/* SPDX-License-Identifier: MIT */
/*
 * The parts of the CTF writer: stream files (ctf_stream.c), the description of
 * what is in them (ctf_metadata.c), and the record as a whole (ctf.c).
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
#ifndef SINK_CTF_H
#define SINK_CTF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "probe/ctf.h"
#include "libprobe/sink/buffer.h"

enum {
	/*
	 * write(2) may be cut off by SIGKILL or a full disk, but only where a page
	 * ends. So every packet is whole pages: what is in the file is whole packets.
	 */
	CTF_PACKET_BYTES = 4096,
	CTF_BATCH_BYTES = 1 << 18, /* packets that are written at once */
	CTF_HEADER_BYTES = 76,
	CTF_UUID_BYTES = 16,
	CTF_EVENT_BYTES_MAX = CTF_BATCH_BYTES - CTF_PACKET_BYTES
};

/* ---- Streams ------------------------------------------------------------------- */

struct ctf_stream {
	const struct probe_session *session;
	int cpu;
	int fd;		 /* -1: nothing has been written */
	uint8_t *buffer; /* CTF_BATCH_BYTES */
	size_t packet;	 /* where the packet begins that is being filled, or the next will */
	size_t length;	 /* end of what was added; of no meaning unless is_open */
	bool is_open;
	bool begun; /* has had a packet */
	uint64_t begin_ns, last_ns;
	uint64_t discarded, sequence;
	off_t written;
};

/* Takes an event; false where it has to be written first. last_ns is its time. */
bool ctf_stream_add(struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES],
	const uint8_t *event, size_t length);

/* Counts lost events. False as above. */
bool ctf_stream_discard(
	struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES], uint64_t count);

/* Ends the packet that is open. */
void ctf_stream_close(struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES]);

/*
 * Writes all closed packets. On an error the file ends with the last whole one.
 * `written` tells the file's size.
 */
PROBE_MUST_CHECK struct probe_error *ctf_stream_write(struct ctf_stream *stream);

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

#endif
