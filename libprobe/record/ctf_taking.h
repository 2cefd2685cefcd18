/* SPDX-License-Identifier: MIT */
/*
 * Taking what rings hold: what its files share. One for few bytes (ctf_small.c) and one for many
 * (ctf_large.c) move them, ctf_take.c decides, and ctf_sources.c knows the sessions.
 */
#ifndef LIBPROBE_RECORD_CTF_TAKING_H
#define LIBPROBE_RECORD_CTF_TAKING_H

#include "libprobe/record/ctf.h"
#include "libprobe/record/ctf_writer.h"
#include "libprobe/registry/ring.h"

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

#endif
