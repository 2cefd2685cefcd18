/* SPDX-License-Identifier: MIT */
/*
 * What the rings of a session hold, moved into a record as it is (docs/ring.md): a record in a ring
 * is an event. Each ring has a stream of its own, in which time does not go back.
 *
 * Bytes are copied before they are looked at, since the target can write anything into its rings at
 * any time; the copy is what the file gets, so a reader finds what we have checked. Many bytes
 * become one packet (ctf_direct.c), few of them packets of a page each (ctf_stream.c); so do
 * records that are older than the one before, or of the future: they get a time that readers
 * accept.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/record/ctf.h"
#include "libprobe/session/session.h"

enum {
	TAKE_BYTES = 1 << 18,  /* it is worth a write */
	PIECE_BYTES = 1 << 17, /* looked at while they are in the processor's cache */
	/* Of a large packet: while it is written, nothing else is read. */
	LARGE_LEAST = 1 << 16,
	LARGE_MOST = 8 << 20,
	COPY_BYTES = LARGE_MOST + PIECE_BYTES + RING_RECORD_MAX + 2 * CTF_PACKET_BYTES,
	PACKET_THREADS = 1024,
	FILL_SHARE = 4 /* of a ring is to be filled when it is read again */
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
	uint32_t words[PACKET_THREADS]; /* threads of the packet */
	size_t word_count;
	uint64_t hits;
};

/* ---- Sources ----------------------------------------------------------------------- */

static struct ctf_source *find_source(struct probe_ctf *ctf, const struct probe_session *session)
{
	for (size_t i = 0; i < ctf->source_count; i++)
		if (ctf->sources[i].session == session)
			return &ctf->sources[i];
	return NULL;
}

/* NULL without memory. */
static struct ctf_source *source_of(struct probe_ctf *ctf, struct probe_session *session)
{
	struct ctf_source *source = find_source(ctf, session);
	uint64_t *heads;

	if (source)
		return source;
	heads = calloc(session->rings.count + 1, sizeof(*heads));
	if (!heads || !ARRAY_ROOM(ctf->sources, ctf->source_count)) {
		free(heads);
		return NULL;
	}
	source = &ctf->sources[ctf->source_count++];
	*source = (struct ctf_source){
		.session = session, .heads = heads, .looked_ns = session->clock.first_steady_ns};
	return source;
}

static void source_deinit(struct ctf_source *source)
{
	free(source->hits);
	free(source->heads);
}

void ctf_take_forget(struct probe_ctf *ctf, const struct probe_session *session)
{
	struct ctf_source *source = find_source(ctf, session);

	if (!source)
		return;
	source_deinit(source);
	*source = ctf->sources[--ctf->source_count];
}

void ctf_take_deinit(struct probe_ctf *ctf)
{
	for (size_t i = 0; i < ctf->source_count; i++)
		source_deinit(&ctf->sources[i]);
	free(ctf->sources);
	free(ctf->copy);
	free(ctf->packets);
	ctf_kinds_deinit(&ctf->kinds);
}

/* The clock of a session is the record's, too, if it is the first one of its sort. */
static void take_clock(struct probe_ctf *ctf, const struct probe_session *session)
{
	size_t i = ctf_clock_of(&session->clock);

	if (ctf->description.has_clock[i])
		return;
	ctf->description.has_clock[i] = true;
	ctf->description.clocks[i] = session->clock;
	clock_sync(&ctf->description.clocks[i]);
}

static struct probe_error *prepare(struct probe_ctf *ctf)
{
	if (ctf->packets)
		return NULL;
	ctf->copy = aligned_alloc(CTF_PACKET_BYTES, COPY_BYTES);
	ctf->packets = malloc(CTF_BATCH_BYTES);
	return ctf->copy && ctf->packets ? NULL : probe_error_no_memory();
}

/* Counts the hits that have been written. */
static void count_hits(struct taking *t)
{
	struct probe_session *s = t->source->session;

	for (size_t i = 0; i < t->source->agreed; i++) {
		s->known[s->sites[i].probe].consumed += t->source->hits[i];
		t->hits += t->source->hits[i];
		t->source->hits[i] = 0;
	}
	t->source->ring = t->number;
	if (t->stream->last > t->ctf->newest[t->clock])
		t->ctf->newest[t->clock] = t->stream->last;
}

static void forget_hits(const struct taking *t)
{
	memset(t->source->hits, 0, t->source->agreed * sizeof(*t->source->hits));
}

/* ---- Parts ------------------------------------------------------------------------- */

/* The time of the first record in a ring. */
static uint64_t first_time(const struct rings *rings, const struct ring *ring)
{
	uint64_t time;

	memcpy(&time, rings_first(rings, ring), sizeof(time));
	return time;
}

/* Once the part before is closed, nothing belongs to it. */
bool ctf_take_is_settled(const struct probe_ctf *ctf)
{
	if (ctf->before.folder < 0)
		return true;
	for (size_t i = 0; i < ctf->source_count; i++) {
		const struct probe_session *s = ctf->sources[i].session;
		size_t clock = ctf_clock_of(&s->clock);

		for (size_t k = 0; k < s->rings.count && !ctf->sources[i].never; k++) {
			const struct ring *ring = &s->rings.rings[k];

			if (rings_head(ring) != ring->tail &&
				first_time(&s->rings, ring) < ctf->cuts[clock])
				return false;
		}
	}
	return true;
}

/* The stream of a ring in the present part, which has no older times than that. */
static struct probe_error *present_stream(struct probe_ctf *ctf, const struct ctf_source *source,
	unsigned int ring, struct ctf_stream **ret)
{
	enum ctf_clock_id clock = ctf->kinds.kinds[source->kind - 1].clock;
	struct probe_error *error = ctf_part_ring_stream(&ctf->part, source, ring, ret);

	if (!error && (*ret)->last < ctf->cuts[clock])
		(*ret)->last = ctf->cuts[clock];
	return error;
}

/* Begins a new part, if it is time to, and finds out which one the next records belong to. */
static struct probe_error *choose_part(struct taking *t)
{
	struct probe_ctf *ctf = t->ctf;
	uint64_t now_ns = clock_now_ns(), next_ns = ctf->last_ns + 1;
	uint64_t time = first_time(&t->source->session->rings, t->ring);
	struct probe_error *error = NULL;

	if (ctf->options.rotate_ns && next_ns < ctf->next_ns)
		next_ns = ctf->next_ns;
	if (ctf_is_part_full(ctf, now_ns))
		error = ctf_rotate(ctf, next_ns < now_ns ? next_ns : now_ns);
	if (error)
		return error;
	t->most = LARGE_MOST;
	if (time < ctf->cuts[t->clock] && ctf->before.folder >= 0) {
		t->part = &ctf->before;
		t->until = ctf->cuts[t->clock];
		return ctf_part_ring_stream(t->part, t->source, t->number, &t->stream);
	}
	t->part = &ctf->part;
	t->until = UINT64_MAX;
	if (ctf->options.rotate_bytes) {
		uint64_t room = ctf->options.rotate_bytes > ctf->part.written
					? ctf->options.rotate_bytes - ctf->part.written
					: 0;

		if (room < t->most)
			t->most = room > LARGE_LEAST ? room : LARGE_LEAST;
	}
	return present_stream(ctf, t->source, t->number, &t->stream);
}

/* ---- Small packets ----------------------------------------------------------------- */

/* The name of the thread of a record, if it has to be told first. */
static struct probe_error *name_thread(struct taking *t, uint32_t word)
{
	struct ctf_stream *stream = t->stream;
	struct ctf_thread *thread = ctf_threads_find(&stream->threads, word);
	uint8_t event[CTF_THREAD_BYTES], *at;
	struct probe_error *error;
	size_t length;

	if (!thread)
		return probe_error_no_memory();
	length = (size_t)(ctf_name_thread(
				  t->source->session, t->names, thread, stream->last, event) -
			  event);
	if (!length)
		return NULL;
	error = ctf_part_room(t->part, stream, length, &at);
	if (!error)
		stream->length = (size_t)(ctf_put(at, event, length) - stream->buffer);
	return error;
}

/* Adds one record, of so many bytes; its time becomes one that readers accept. */
static struct probe_error *add_record(struct taking *t, uint8_t *bytes, size_t length, bool same)
{
	struct ctf_stream *stream = t->stream;
	struct probe_error *error = NULL;
	struct ring_record record;
	uint8_t *at;

	memcpy(&record, bytes, sizeof(record));
	if (record.time >= t->now)
		record.time = t->now - 1;
	if (record.time > stream->last)
		stream->last = record.time;
	record.time = stream->last;
	t->source->hits[record.site]++;
	ctf_kinds_describe(&t->ctf->kinds, &t->ctf->description, t->source, record.site);
	if (!same)
		error = name_thread(t, record.tid);
	if (!error)
		error = ctf_part_room(t->part, stream, length, &at);
	if (error)
		return error;
	memcpy(bytes, &record, sizeof(record));
	stream->length = (size_t)(ctf_put(at, bytes, length) - stream->buffer);
	return NULL;
}

/* Adds the records of a copy; *length_ret: the bytes that they have there, *ok_ret: all are sane.
 */
static struct probe_error *add_records(struct taking *t, uint8_t *copy, size_t size, size_t begins,
	size_t *length_ret, bool *ok_ret)
{
	struct probe_error *error = NULL;
	uint32_t thread = 0;
	size_t at = 0;

	*ok_ret = true;
	while (!error && at < size && at < begins) {
		uint8_t *bytes = copy + at;
		size_t length = ring_record_length(&t->forms, bytes, size - at);
		struct ring_record record;

		*ok_ret = length && ring_padded(length, RING_ALIGN) <= size - at;
		if (!*ok_ret)
			break;
		memcpy(&record, bytes, sizeof(record));
		if (at && record.time >= t->until && record.time < t->now)
			break;
		error = add_record(t, bytes, length, at && record.tid == thread);
		thread = record.tid;
		at += ring_padded(length, RING_ALIGN);
	}
	*length_ret = at;
	return error;
}

/* Writes what was added to a stream, which has our memory for packets no longer. */
static struct probe_error *end_packets(
	struct ctf_part *part, struct ctf_stream *stream, struct probe_error *error)
{
	if (!error) {
		ctf_stream_close(stream, part->uuid);
		error = ctf_part_write(part, stream);
	}
	stream->is_open = false;
	stream->packet = 0;
	stream->buffer = NULL;
	return error;
}

/* Copies records from a ring. Returns how many bytes; *begins_ret: where the last one may begin. */
static size_t copy_some(const struct taking *t, size_t most, uint8_t *to, size_t *begins_ret)
{
	const struct rings *rings = &t->source->session->rings;
	size_t to_end = rings->layout.ring_bytes - (t->ring->tail & (rings->layout.ring_bytes - 1));
	size_t size = t->ring->head - t->ring->tail;

	*begins_ret = most < to_end ? most : to_end;
	/* Into the slop at most: see arch/layout.h. */
	if (size > *begins_ret + t->record_max)
		size = *begins_ret + t->record_max;
	memcpy(to, rings_first(rings, t->ring), size);
	return size;
}

static struct probe_error *take_small(struct taking *t)
{
	struct probe_ctf *ctf = t->ctf;
	struct probe_error *error;
	size_t size, begins, length;
	bool ok;

	size = copy_some(t, t->most < PIECE_BYTES ? t->most : PIECE_BYTES, ctf->copy, &begins);
	t->stream->buffer = ctf->packets;
	error = add_records(t, ctf->copy, size, begins, &length, &ok);
	error = end_packets(t->part, t->stream, error);
	if (error)
		return error;
	count_hits(t);
	if (length)
		rings_consume(t->ring, length);
	if (!ok)
		rings_consume(t->ring, 0);
	return NULL;
}

/* ---- Large ones -------------------------------------------------------------------- */

static bool see_thread(void *data, uint32_t word)
{
	struct taking *t = data;
	struct ctf_thread *thread = ctf_threads_find(&t->stream->threads, word);

	if (!thread)
		return false;
	if (thread->packet == t->stream->sequence + 1)
		return true;
	if (t->word_count == PACKET_THREADS)
		return false;
	thread->packet = t->stream->sequence + 1;
	t->words[t->word_count++] = word;
	return true;
}

/* Names the threads of the packet, in small ones before it. */
static struct probe_error *name_threads(struct taking *t, uint64_t time)
{
	struct probe_error *error = NULL;

	t->stream->buffer = t->ctf->packets;
	t->stream->last = time;
	for (size_t i = 0; i < t->word_count && !error; i++)
		error = name_thread(t, t->words[i]);
	return end_packets(t->part, t->stream, error);
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
		size_t begins, size = copy_some(t, PIECE_BYTES, to + at, &begins);
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

/* Writes the packet that begins the copy; in small ones, if it cannot be a large one. */
static struct probe_error *write_large(struct taking *t, const struct ctf_packet *packet)
{
	struct probe_ctf *ctf = t->ctf;
	struct probe_error *error = name_threads(t, packet->begin);
	size_t size = packet->content - CTF_TAKEN_HEADER_BYTES, length;
	bool done = false, ok;

	for (size_t i = 0; i < t->source->agreed; i++)
		if (t->source->hits[i])
			ctf_kinds_describe(&ctf->kinds, &ctf->description, t->source, i);
	if (!error)
		error = ctf_part_describe(t->part);
	if (!error)
		error = ctf_direct_write(t->part, t->stream, ctf->copy, packet, &done);
	t->stream->last = done ? packet->end : packet->begin;
	if (error || done)
		return error;
	forget_hits(t);
	t->stream->buffer = ctf->packets;
	size = ring_padded(size, RING_ALIGN);
	error = add_records(t, ctf->copy + CTF_TAKEN_HEADER_BYTES, size, size, &length, &ok);
	return end_packets(t->part, t->stream, error);
}

static struct probe_error *take_large(struct taking *t)
{
	struct ring_walk walk = {.forms = &t->forms,
		.hits = t->source->hits,
		.last = t->stream->last,
		.until = t->until,
		.now = t->now,
		.thread = see_thread,
		.data = t};
	struct ctf_packet packet = {0};
	struct probe_error *error = NULL;
	size_t size;

	t->word_count = 0;
	size = copy_walked(t, &walk, t->ctf->copy + CTF_TAKEN_HEADER_BYTES, &packet.begin);
	if (size) {
		packet.end = walk.last;
		packet.content = CTF_TAKEN_HEADER_BYTES + size;
		packet.size = (packet.content + CTF_PACKET_BYTES - 1) / CTF_PACKET_BYTES *
			      CTF_PACKET_BYTES;
		error = write_large(t, &packet);
		if (!error)
			count_hits(t);
	}
	if (error || walk.end == RING_WALK_ALL)
		return error;
	/* What follows has to be changed, or makes no sense; or the target has changed its time. */
	return walk.end == RING_WALK_CUT && size ? NULL : take_small(t);
}

/* ---- Taking ------------------------------------------------------------------------ */

/* Takes some of the records in a ring. */
static struct probe_error *take_some(struct taking *t)
{
	bool is_large = t->ring->head - t->ring->tail >= TAKE_BYTES;
	struct probe_error *error = choose_part(t);

	if (!error && is_large)
		error = ctf_direct_ask(t->part, t->stream);
	if (error)
		return error;
	return is_large && t->part->direct ? take_large(t) : take_small(t);
}

/* How long it takes until a ring is filled as far as it should be, at the present rate. */
static void note_rate(struct ctf_source *source, unsigned int number, uint64_t since_ns,
	struct probe_ctf_taken *ret)
{
	const struct ring *ring = &source->session->rings.rings[number];
	uint64_t more = ring->head - source->heads[number];
	uint64_t wanted = source->session->rings.layout.ring_bytes / FILL_SHARE;
	uint64_t left = ring->head - ring->tail, due_ns;

	source->heads[number] = ring->head;
	if (!more)
		return;
	ret->active = true;
	left = left < wanted ? wanted - left : 0;
	due_ns = (uint64_t)((double)left / (double)more * (double)since_ns);
	if (due_ns < ret->due_ns)
		ret->due_ns = due_ns;
}

static struct probe_error *take_rings(struct taking *t, bool all, struct probe_ctf_taken *ret)
{
	struct probe_session *s = t->source->session;
	uint64_t now_ns = clock_monotonic_ns(), since_ns = now_ns - t->source->looked_ns;
	size_t least = s->rings.layout.ring_bytes / FILL_SHARE;
	struct probe_error *error = NULL;

	least = least < TAKE_BYTES ? least : TAKE_BYTES;
	/* The part before waits for what is older. */
	if (all || t->ctf->before.folder >= 0)
		least = 1;
	t->source->looked_ns = now_ns;
	rings_begin(&s->rings);
	t->now = clock_stamp(&s->clock) + 1;
	t->record_max = session_record_max(s);
	for (size_t i = 0; i < s->rings.count && !error; i++) {
		t->ring = &s->rings.rings[i];
		t->number = (unsigned int)i;
		while (!error && t->ring->head - t->ring->tail >= least)
			error = take_some(t);
		note_rate(t->source, t->number, since_ns, ret);
	}
	rings_end(&s->rings);
	return error;
}

struct probe_error *probe_ctf_take(struct probe_ctf *ctf, struct probe_session *session, bool all,
	const struct probe_ctf_names *names, struct probe_ctf_taken *ret)
{
	struct ctf_source *source = source_of(ctf, session);
	struct taking taking = {.ctf = ctf, .source = source, .names = names};
	struct probe_error *error = source ? prepare(ctf) : probe_error_no_memory();

	*ret = (struct probe_ctf_taken){.can = true, .due_ns = UINT64_MAX};
	if (ctf->failed) {
		probe_error_free(error);
		return NULL;
	}
	if (!error)
		error = ctf_kinds_find(&ctf->kinds, &ctf->description, source);
	if (error)
		return ctf_checked(ctf, error);
	ret->can = !source->never;
	if (source->never)
		return NULL;
	take_clock(ctf, session);
	ctf_sync_clocks(ctf);
	taking.clock = ctf->kinds.kinds[source->kind - 1].clock;
	taking.forms =
		(struct ring_forms){ctf->kinds.kinds[source->kind - 1].forms, source->agreed};
	error = take_rings(&taking, all, ret);
	ret->hits = taking.hits;
	if (taking.hits)
		ctf->last_ns = clock_realtime_ns(&session->clock, ctf->newest[taking.clock]);
	if (session->stopped && all && !taking.hits && !error)
		rings_discharge(&session->rings);
	return ctf_checked(ctf, error);
}

/* ---- Losses ------------------------------------------------------------------------ */

/* Adds packets without events: readers compare the losses of two. */
static struct probe_error *put_losses(
	struct probe_ctf *ctf, struct ctf_part *part, struct ctf_stream *stream, uint64_t count)
{
	struct probe_error *error = NULL;

	stream->buffer = ctf->packets;
	if (!ctf_stream_discard(stream, part->uuid, count))
		error = probe_error_new(PROBE_ERROR_FORMAT, "a loss fits into no packet");
	return end_packets(part, stream, error);
}

struct probe_error *ctf_take_discarded(
	struct probe_ctf *ctf, const struct ctf_source *source, uint64_t count)
{
	struct ctf_stream *stream;
	struct probe_error *error = present_stream(ctf, source, source->ring, &stream);

	if (error)
		return error;
	if (!stream->begun)
		return put_losses(ctf, &ctf->part, stream, count);
	stream->discarded += count;
	stream->owes = true;
	return NULL;
}

struct probe_error *ctf_take_flush(struct probe_ctf *ctf)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < ctf->part.stream_count && !error; i++)
		if (ctf->part.streams[i].owes)
			error = put_losses(ctf, &ctf->part, &ctf->part.streams[i], 0);
	return error;
}

const struct ctf_source *ctf_take_source(struct probe_ctf *ctf, const struct probe_session *session)
{
	const struct ctf_source *source = find_source(ctf, session);

	return source && source->kind && !source->never ? source : NULL;
}
