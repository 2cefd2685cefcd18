/* SPDX-License-Identifier: MIT */
/*
 * Moves the bytes of a session's rings unchanged into a record (docs/ring.md): each ring record
 * becomes an event, each ring a stream, in which time does not go back.
 *
 * The target can write anything into its rings at any time, so bytes are copied, the copy is
 * checked, and then written. If there are many bytes, they become one large packet; if few, packets
 * of one page.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/clock.h"
#include "libprobe/record/record.h"
#include "libprobe/session/session.h"

/* ==== Names of threads ======================================================================== */

/*
 * Ring records have thread ids as the target knows them. An event names a thread (pid, tid, name)
 * before its first hit in a stream, and after a change, so that each stream can be read without the
 * others.
 */

enum {
	/* a target may make up any number of thread ids */
	THREADS_MAX = 1 << 13,
	COMM_MAX_AGE_NS = 100000000
};

/* Finds or adds a thread; valid until the next call. NULL if out of memory. */
static struct ctf_thread *find_thread(struct map *threads, uint32_t word)
{
	struct ctf_thread *thread = map_find(threads, MAP_KEY(MAP_OBJECT(word)));

	if (thread)
		return thread;
	/* Forget all threads; their next hits name them again. */
	if (threads->count == THREADS_MAX)
		map_clear(threads);
	thread = map_add(threads, sizeof(*thread), MAP_KEY(MAP_OBJECT(word)));
	if (thread)
		thread->word = word;
	return thread;
}

/*
 * Writes an event that names a thread to `at`, at most CTF_THREAD_BYTES, unless the stream already
 * has this name. Returns the event's end.
 */
static uint8_t *ctf_name_thread(struct probe_session *session, const struct probe_ctf_names *names,
	struct ctf_thread *thread, uint64_t time, uint8_t *at)
{
	uint64_t now = clock_monotonic_ns();
	const uint32_t id = CTF_THREAD_ID;
	struct ctf_thread is = *thread;
	const char *comm = NULL, *name;
	pid_t pid, tid;

	if (thread->is_named && now - thread->asked_ns < COMM_MAX_AGE_NS)
		return at;
	writers_find(&session->processes, thread->word, &pid, &tid);
	if (names && names->comm)
		comm = names->comm(names->data, pid, tid, clock_now_ns());
	is.asked_ns = now;
	is.pid = pid;
	is.tid = tid;
	/* An ended thread keeps its last name. */
	if (comm) {
		memset(is.comm, 0, sizeof(is.comm));
		memcpy(is.comm, comm, strnlen(comm, sizeof(is.comm) - 1));
	}
	is.is_named = true;
	if (thread->is_named && is.pid == thread->pid && is.tid == thread->tid &&
		memcmp(is.comm, thread->comm, sizeof(is.comm)) == 0) {
		thread->asked_ns = now;
		return at;
	}
	*thread = is;
	at = ctf_put(at, &time, sizeof(time));
	at = ctf_put(at, &id, sizeof(id));
	at = ctf_put(at, &thread->word, sizeof(thread->word));
	at = ctf_put(at, &is.pid, sizeof(is.pid));
	at = ctf_put(at, &is.tid, sizeof(is.tid));
	name = is.comm[0] ? is.comm : CTF_UNKNOWN;
	return ctf_put(at, name, strlen(name) + 1);
}

/* ==== Small packets =========================================================================== */

/*
 * If a ring has few bytes, they become packets of one page; so do records whose stamps must be
 * corrected, because they are in the future or go back.
 */

/* Names a thread unless the stream has done so. */
static struct probe_error *ctf_add_name(struct taking *t, uint32_t word)
{
	struct ctf_stream *stream = t->stream;
	struct ctf_thread *thread = find_thread(&stream->threads, word);
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

/*
 * Adds a record, with its stamp corrected if necessary. `same` means that it has the previous
 * record's thread.
 */
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
		error = ctf_add_name(t, record.tid);
	error = error ?: ctf_part_room(t->part, stream, length, &at);
	if (error)
		return error;
	memcpy(bytes, &record, sizeof(record));
	stream->length = (size_t)(ctf_put(at, bytes, length) - stream->buffer);
	ctf_stream_note_hit(stream);
	return NULL;
}

/*
 * Adds the records in a copy of a ring's bytes. *length_ret is their size; *ok_ret is true if no
 * record is invalid.
 */
static struct probe_error *ctf_add_records(struct taking *t, uint8_t *copy, size_t size,
	size_t begins, size_t *length_ret, bool *ok_ret)
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
		if (!error)
			at += ring_padded(length, RING_ALIGN);
	}
	*length_ret = at;
	return error;
}

/* Copies records from a ring. Returns the bytes; only records before *begins_ret are complete. */
static size_t ctf_copy_some(const struct taking *t, size_t most, uint8_t *to, size_t *begins_ret)
{
	const struct rings *rings = &t->source->session->data.rings;
	size_t to_end = rings->layout.ring_bytes - (t->ring->tail & (rings->layout.ring_bytes - 1));
	size_t size = t->ring->head - t->ring->tail;

	*begins_ret = most < to_end ? most : to_end;
	/* A record may extend into the slop behind the ring: see arch/layout.h. */
	if (size > *begins_ret + t->record_max)
		size = *begins_ret + t->record_max;
	memcpy(to, rings_first(rings, t->ring), size);
	return size;
}

static struct probe_error *ctf_take_small(struct taking *t)
{
	struct probe_ctf *ctf = t->ctf;
	struct probe_error *error;
	size_t size, begins, length;
	bool ok;

	size = ctf_copy_some(
		t, t->most < CTF_PIECE_BYTES ? t->most : CTF_PIECE_BYTES, ctf->copy, &begins);
	t->stream->buffer = ctf->packets;
	error = ctf_add_records(t, ctf->copy, size, begins, &length, &ok);
	error = ctf_end_packets(t->part, t->stream, error);
	if (error) {
		/* Consume these records: they are already in the file or counted as dropped. */
		if (length)
			rings_consume(t->ring, length);
		return error;
	}
	ctf_count_hits(ctf, t->source->session, t->source->hits, t->source->agreed);
	ctf_note_moved(t);
	if (length)
		rings_consume(t->ring, length);
	if (!ok)
		rings_consume(t->ring, 0);
	return NULL;
}

/* ==== Large packets =========================================================================== */

/* A ring with many bytes becomes one large packet, whose write bypasses the page cache. */

static bool see_thread(void *data, uint32_t word)
{
	struct taking *t = data;
	struct ctf_thread *thread = find_thread(&t->stream->threads, word);

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

/* Copies valid records. Returns their size, without the last one's padding. */
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

static struct probe_error *give(struct taking *t, struct ctf_job *job)
{
	struct probe_ctf *ctf = t->ctf;
	struct probe_error *error = NULL;

	/* Name its threads, in small packets that stay in the buffer for now. */
	t->stream->buffer = ctf->packets;
	t->stream->last = job->packet.begin;
	for (size_t i = 0; i < t->word_count && !error; i++)
		error = ctf_add_name(t, t->words[i]);
	ctf_stream_close(t->stream, t->part->uuid);
	for (size_t i = 0; i < t->source->agreed; i++)
		if (t->source->hits[i])
			ctf_kinds_describe(&ctf->kinds, &ctf->description, t->source, i);
	error = error ?: ctf_part_describe(t->part) ?: ctf_direct_give(t, job);
	if (error) {
		t->stream->dropped += ctf_sum_hits(t->source->hits, t->source->agreed);
		return ctf_end_packets(t->part, t->stream, error);
	}
	ctf_note_moved(t);
	return NULL;
}

/* Moves many bytes of a ring as one large packet, with a free job. */
static struct probe_error *ctf_take_large(struct taking *t)
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
	/* The first record is invalid, needs a new stamp, or was changed by the target. */
	return ctf_direct_settle(t->ctf, true) ?: ctf_take_small(t);
}

/* ==== Moving rings into the record ============================================================ */

enum {
	TAKE_BYTES = 1 << 18,  /* a ring with this many bytes is read at once, as a large packet */
	LARGE_LEAST = 1 << 16, /* minimum size of a large packet */
	FILL_SHARE = 4,	       /* a ring is read again when 1/FILL_SHARE of it is full */
	WAIT_NS = 4000000      /* nanoseconds to wait for a busy disk */
};

/* ---- Parts ------------------------------------------------------------------------- */

/*
 * Must hits wait for older ones of other rings? The part before can be closed, and the end of a
 * part is known, when all its first hits are read. No hit waits until its ring is full.
 */
static bool is_early(const struct taking *t, uint64_t time, uint64_t time_ns)
{
	bool is_urgent = t->amount == PROBE_CTF_ALL ||
			 t->ring->head - t->ring->tail >=
				 t->source->session->data.rings.layout.ring_bytes / FILL_SHARE;

	return t->ctf->options.rotate_ns && time >= t->ctf->cuts[t->clock] && time < t->now &&
	       !(t->presses && is_urgent) && ctf_is_too_early(t->ctf, time_ns);
}

/* Chooses the part for a ring's first hits. *ready_ret is false if they must wait. */
static struct probe_error *choose_part(struct taking *t, bool *ready_ret)
{
	struct probe_ctf *ctf = t->ctf;
	uint64_t time = ctf_first_time(&t->source->session->data.rings, t->ring);
	uint64_t time_ns = clock_realtime_ns(&ctf->description.clocks[t->clock], time);
	uint64_t now_ns = clock_now_ns(), cut_ns = ctf->last_ns + 1, end_ns = ctf_part_end(ctf);
	struct probe_error *error = NULL;

	/* Start a new part if this one is full and a ring record of this time can be its first. */
	if (ctf_is_part_full(ctf, time_ns < now_ns ? time_ns : now_ns)) {
		if (end_ns != UINT64_MAX && cut_ns < end_ns)
			cut_ns = end_ns;
		error = ctf_rotate(ctf, cut_ns < now_ns ? cut_ns : now_ns);
	}
	*ready_ret = !error && !is_early(t, time, time_ns);
	if (!*ready_ret) {
		t->early |= !error;
		return error;
	}
	t->most = CTF_LARGE_MOST;
	if (time < ctf->cuts[t->clock] && ctf->before.folder >= 0) {
		t->part = &ctf->before;
		t->until = ctf->cuts[t->clock];
		return ctf_part_ring_stream(t->part, t->source, t->number, &t->stream);
	}
	ctf_part_begins(ctf, time_ns);
	t->part = &ctf->part;
	/* The stamp where the part ends, unless hits of the previous part are missing. */
	t->until = UINT64_MAX;
	if (ctf_part_end(ctf) != UINT64_MAX) {
		uint64_t end =
			ctf_clock_stamp_at(&ctf->description.clocks[t->clock], ctf_part_end(ctf));

		t->until = time < end ? end : UINT64_MAX;
	}
	if (ctf->options.rotate_bytes) {
		uint64_t room = ctf->options.rotate_bytes > ctf->part.written
					? ctf->options.rotate_bytes - ctf->part.written
					: 0;

		if (room < t->most)
			t->most = room > LARGE_LEAST ? room : LARGE_LEAST;
	}
	return ctf_present_stream(ctf, t->source, t->number, &t->stream);
}

/* ---- Taking ------------------------------------------------------------------------ */

/*
 * Sets *ret if records can be moved without waiting for the disk. With PROBE_CTF_ALL, waits for it.
 */
static struct probe_error *make_ready(struct taking *t, bool is_large, bool *ret)
{
	struct probe_ctf *ctf = t->ctf;

	if (is_large && !ctf->writer)
		ctf->writer = ctf_writer_create();
	if (is_large && !ctf->writer)
		return probe_error_no_memory();
	*ret = is_large ? ctf_writer_next(ctf->writer) != NULL
			: !ctf_direct_waits(ctf, t->part, t->stream);
	if (*ret || t->amount != PROBE_CTF_ALL)
		return NULL;
	*ret = true;
	return ctf_direct_settle(ctf, true);
}

/* Moves some records of a ring. *ready_ret is false if they wait. */
static struct probe_error *take_some(struct taking *t, bool *ready_ret)
{
	bool is_large = t->ring->head - t->ring->tail >= TAKE_BYTES;
	struct probe_error *error = choose_part(t, ready_ret);

	if (error || !*ready_ret)
		return error;
	if (is_large)
		error = ctf_direct_ask(t->part, t->stream);
	is_large &= t->part && t->part->direct;
	error = error ?: make_ready(t, is_large, ready_ret);
	if (error || !*ready_ret)
		return error;
	return is_large ? ctf_take_large(t) : ctf_take_small(t);
}

/*
 * Asks the caller for the names of threads whose new hits stay in the ring for now, because the
 * threads may have ended when the hits are moved.
 */
static void ask_names(const struct taking *t)
{
	struct rings *rings = &t->source->session->data.rings;
	struct writers *processes = &t->source->session->processes;
	uint64_t at = t->source->heads[t->number], head = t->ring->head;
	uint32_t last = 0, word;
	struct ring ring = *t->ring;
	pid_t pid, tid;
	size_t length;

	for (at = at > ring.tail ? at : ring.tail; at < head; at += length) {
		const uint8_t *record;

		ring.tail = at;
		record = rings_first(rings, &ring);
		length = ring_record_length(&t->forms, record, head - at);
		length = ring_padded(length, RING_ALIGN);
		if (!length || length > head - at)
			return;
		memcpy(&word, record + offsetof(struct ring_record, tid), sizeof(word));
		if (word == last)
			continue;
		last = word;
		writers_find(processes, word, &pid, &tid);
		t->names->comm(t->names->data, pid, tid, clock_now_ns());
	}
}

/* Sets ret->due_ns to the time until a quarter of the ring is full, at this rate. */
static void note_rate(struct ctf_source *source, unsigned int number, uint64_t since_ns,
	struct probe_ctf_taken *ret)
{
	const struct ring *ring = &source->session->data.rings.rings[number];
	uint64_t more = ring->head - source->heads[number];
	uint64_t wanted = source->session->data.rings.layout.ring_bytes / FILL_SHARE;
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

/* Moves records of each ring while it has enough of them, and nothing makes them wait. */
static struct probe_error *take_each(struct taking *t, size_t least)
{
	struct rings *rings = &t->source->session->data.rings;
	struct probe_error *error = NULL;

	t->early = t->waits = false;
	for (size_t i = 0; i < rings->count && !error; i++) {
		bool ready = true;

		t->ring = &rings->rings[i];
		t->number = (unsigned int)i;
		while (!error && ready && t->ring->head - t->ring->tail >= least)
			error = take_some(t, &ready);
		t->waits |= !ready;
	}
	return error;
}

static struct probe_error *take_rings(struct taking *t, struct probe_ctf_taken *ret)
{
	struct probe_session *s = t->source->session;
	uint64_t now_ns = clock_monotonic_ns(), since_ns = now_ns - t->source->looked_ns;
	size_t least = s->data.rings.layout.ring_bytes / FILL_SHARE;
	const struct probe_ctf *ctf = t->ctf;
	struct probe_error *error = NULL;
	bool any = false;

	least = least < TAKE_BYTES ? least : TAKE_BYTES;
	/* Read all now if a part should end: the previous part stays open until its last hits. */
	if (t->amount != PROBE_CTF_MUCH || ctf->before.folder >= 0 ||
		(ctf->options.rotate_ns && now_ns >= ctf->end_ns))
		least = 1;
	t->source->looked_ns = now_ns;
	rings_begin(&s->data.rings);
	t->now = clock_stamp(&s->clock) + 1;
	t->record_max = session_record_max(s);
	/* Hits that wait for others can be moved after them. */
	t->moved = true;
	do {
		t->presses = !t->moved;
		t->moved = false;
		error = take_each(t, least);
		any |= t->moved;
	} while (!error && t->early && (t->moved || !t->presses));
	t->moved = any;
	for (size_t i = 0; i < s->data.rings.count && !error; i++) {
		t->ring = &s->data.rings.rings[i];
		t->number = (unsigned int)i;
		if (t->names && t->names->comm)
			ask_names(t);
		note_rate(t->source, t->number, since_ns, ret);
	}
	rings_end(&s->data.rings);
	now_ns = clock_monotonic_ns();
	if (ctf->end_ns > now_ns && ctf->end_ns - now_ns < ret->due_ns)
		ret->due_ns = ctf->end_ns - now_ns;
	/* While the disk is busy, rings may be full, so their rates are not meaningful. */
	if (t->waits) {
		ret->active = true;
		ret->due_ns = WAIT_NS;
	}
	return error;
}

/* Moves the records of a session whose kind is known. */
static struct probe_error *take(struct taking *t, struct probe_ctf_taken *ret)
{
	struct probe_session *s = t->source->session;
	struct probe_ctf *ctf = t->ctf;
	size_t clock = ctf_clock_of(&s->clock);
	struct probe_error *error;

	/* A record has one clock of each type. */
	if (!ctf->description.has_clock[clock]) {
		ctf->description.has_clock[clock] = true;
		ctf->description.clocks[clock] = s->clock;
		clock_sync(&ctf->description.clocks[clock]);
	}
	ctf_sync_clocks(ctf);
	t->clock = ctf->kinds.kinds[t->source->kind - 1].clock;
	t->forms =
		(struct ring_forms){ctf->kinds.kinds[t->source->kind - 1].forms, t->source->agreed};
	error = ctf_direct_settle(ctf, false) ?: take_rings(t, ret);
	if (!error && t->amount == PROBE_CTF_ALL)
		error = ctf_direct_settle(ctf, true);
	if (t->moved)
		ctf->last_ns = clock_realtime_ns(&s->clock, ctf->newest[t->clock]);
	if (s->stopped && t->amount == PROBE_CTF_ALL && !t->moved && !error)
		rings_discharge(&s->data.rings);
	ret->hits = ctf->counted;
	ctf->counted = 0;
	return error;
}

struct probe_error *probe_ctf_take(struct probe_ctf *ctf, struct probe_session *session,
	enum probe_ctf_amount amount, const struct probe_ctf_names *names,
	struct probe_ctf_taken *ret)
{
	struct ctf_source *source = ctf_source_of(ctf, session);
	struct taking taking = {.ctf = ctf, .source = source, .names = names, .amount = amount};
	struct probe_error *error = NULL;

	*ret = (struct probe_ctf_taken){.can = true, .due_ns = UINT64_MAX};
	if (ctf->failed)
		return NULL;
	if (!ctf->packets) {
		ctf->copy = malloc(CTF_PIECE_BYTES + RING_RECORD_MAX);
		ctf->packets = malloc(CTF_BATCH_BYTES);
	}
	if (!source || !ctf->copy || !ctf->packets)
		error = probe_error_no_memory();
	error = error ?: ctf_kinds_find(&ctf->kinds, &ctf->description, source);
	if (error)
		return ctf_checked(ctf, error);
	ret->can = !source->never;
	return source->never ? NULL : ctf_checked(ctf, take(&taking, ret));
}
