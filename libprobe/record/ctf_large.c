/* SPDX-License-Identifier: MIT */
/* Many bytes of a ring become one packet, which is written past the page cache (ctf_direct.c). */
#include <string.h>

#include "libprobe/record/record.h"
#include "libprobe/session/session.h"

static bool see_thread(void *data, uint32_t word)
{
	struct taking *t = data;
	struct ctf_thread *thread = ctf_threads_find(&t->stream->threads, word);

	if (!thread)
		return false;
	if (thread->packet == t->stream->sequence + 1)
		return true;
	if (t->word_count == CTF_PACKET_THREADS)
		return false;
	thread->packet = t->stream->sequence + 1;
	t->words[t->word_count++] = word;
	return true;
}

/* Names the threads of the packet, in small ones before it, which stay in the stream's buffer. */
static struct probe_error *name_threads(struct taking *t, uint64_t time)
{
	struct probe_error *error = NULL;

	t->stream->buffer = t->ctf->packets;
	t->stream->last = time;
	for (size_t i = 0; i < t->word_count && !error; i++)
		error = ctf_add_name(t, t->words[i]);
	ctf_stream_close(t->stream, t->part->uuid);
	return error;
}

/*
 * Copies records that are as they should be. Returns how many bytes they have, without the padding
 * of the last one.
 */
static size_t copy_walked(struct taking *t, struct ring_walk *walk, uint8_t *to, uint64_t *first)
{
	size_t at = 0, content = 0;

	walk->end = RING_WALK_ALL;
	while (walk->end == RING_WALK_ALL && at < t->most && t->ring->tail != t->ring->head) {
		size_t begins, size = ctf_copy_some(t, CTF_PIECE_BYTES, to + at, &begins);
		size_t length = ring_walk(walk, to + at, size, begins);

		if (!length)
			break;
		if (!at)
			*first = walk->first;
		content = at + walk->content;
		rings_consume(t->ring, length);
		at += length;
	}
	return content;
}

/* Hands over the packet that a job has. */
static struct probe_error *give(struct taking *t, struct ctf_job *job)
{
	struct probe_ctf *ctf = t->ctf;
	struct probe_error *error = name_threads(t, job->packet.begin);

	for (size_t i = 0; i < t->source->agreed; i++)
		if (t->source->hits[i])
			ctf_kinds_describe(&ctf->kinds, &ctf->description, t->source, i);
	if (!error)
		error = ctf_part_describe(t->part);
	if (!error)
		error = ctf_direct_give(t, job);
	if (error) {
		t->stream->dropped += ctf_sum_hits(t->source->hits, t->source->agreed);
		return ctf_end_packets(t->part, t->stream, error);
	}
	ctf_note_moved(t);
	return NULL;
}

struct probe_error *ctf_take_large(struct taking *t)
{
	struct ctf_job *job = ctf_writer_next(t->ctf->writer);
	struct ctf_packet *packet = &job->packet;
	struct ring_walk walk = {.forms = &t->forms,
		.hits = t->source->hits,
		.last = t->stream->last,
		.until = t->until,
		.now = t->now,
		.thread = see_thread,
		.data = t};
	struct probe_error *error;
	size_t size;

	t->word_count = 0;
	size = copy_walked(t, &walk, ctf_direct_records(job), &packet->begin);
	if (size) {
		packet->end = walk.last;
		packet->content = CTF_TAKEN_HEADER_BYTES + size;
		packet->size = (packet->content + CTF_PACKET_BYTES - 1) / CTF_PACKET_BYTES *
			       CTF_PACKET_BYTES;
		return give(t, job);
	}
	/* What is there has to be changed, or makes no sense; or the target has changed its time.
	 */
	error = ctf_direct_settle(t->ctf, true);
	return error ? error : ctf_take_small(t);
}
