/* SPDX-License-Identifier: MIT */
/*
 * What the rings of a session hold, moved into a record as it is (docs/ring.md): a record in a ring
 * is an event. Each ring has a stream of its own, in which time does not go back.
 *
 * Bytes are copied before they are looked at, since the target can write anything into its rings at
 * any time; the copy is what the file gets, so a reader finds what we have checked. Many bytes
 * become one packet (ctf_large.c), few of them packets of a page each (ctf_small.c).
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/record/record.h"
#include "libprobe/session/session.h"

enum {
	TAKE_BYTES = 1 << 18,  /* it is worth a write */
	LARGE_LEAST = 1 << 16, /* of a large packet */
	FILL_SHARE = 4,	       /* of a ring is to be filled when it is read again */
	WAIT_NS = 4000000      /* for the disk, which has twice as much to do */
};

static struct probe_error *prepare(struct probe_ctf *ctf)
{
	if (ctf->packets)
		return NULL;
	ctf->copy = malloc(CTF_PIECE_BYTES + RING_RECORD_MAX);
	ctf->packets = malloc(CTF_BATCH_BYTES);
	return ctf->copy && ctf->packets ? NULL : probe_error_no_memory();
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

/* ---- Parts ------------------------------------------------------------------------- */

/* Begins a new part, if the first record of the ring is the first one after the present part. */
static struct probe_error *rotate(struct probe_ctf *ctf, uint64_t time_ns)
{
	uint64_t now_ns = clock_now_ns(), cut_ns = ctf->last_ns + 1, end_ns = ctf_part_end(ctf);

	if (time_ns > now_ns)
		time_ns = now_ns;
	if (!ctf_is_part_full(ctf, time_ns))
		return NULL;
	if (end_ns != UINT64_MAX && cut_ns < end_ns)
		cut_ns = end_ns;
	return ctf_rotate(ctf, cut_ns < now_ns ? cut_ns : now_ns);
}

/*
 * The stamp where the present part ends. If it has to go on, since something is missing in the one
 * before, it has no end yet.
 */
static uint64_t end_of_part(const struct taking *t, uint64_t time)
{
	uint64_t end_ns = ctf_part_end(t->ctf), end;

	if (end_ns == UINT64_MAX)
		return UINT64_MAX;
	end = ctf_clock_stamp_at(&t->ctf->description.clocks[t->clock], end_ns);
	return time < end ? end : UINT64_MAX;
}

/* Finds out which part the next records belong to. */
static struct probe_error *choose_part(struct taking *t)
{
	struct probe_ctf *ctf = t->ctf;
	uint64_t time = ctf_first_time(&t->source->session->rings, t->ring);
	uint64_t time_ns = clock_realtime_ns(&ctf->description.clocks[t->clock], time);
	struct probe_error *error = rotate(ctf, time_ns);

	if (error)
		return error;
	t->most = CTF_LARGE_MOST;
	if (time < ctf->cuts[t->clock] && ctf->before.folder >= 0) {
		t->part = &ctf->before;
		t->until = ctf->cuts[t->clock];
		return ctf_part_ring_stream(t->part, t->source, t->number, &t->stream);
	}
	ctf_part_begins(ctf, time_ns);
	t->part = &ctf->part;
	t->until = end_of_part(t, time);
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
 * Can it be done without waiting for the disk? Waits, if everything is to be taken: then it can.
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

/* Takes some of the records in a ring, if the disk need not be waited for. */
static struct probe_error *take_some(struct taking *t, bool *ready_ret)
{
	bool is_large = t->ring->head - t->ring->tail >= TAKE_BYTES;
	struct probe_error *error = choose_part(t);

	if (!error && is_large)
		error = ctf_direct_ask(t->part, t->stream);
	is_large &= t->part && t->part->direct;
	if (!error)
		error = make_ready(t, is_large, ready_ret);
	if (error || !*ready_ret)
		return error;
	return is_large ? ctf_take_large(t) : ctf_take_small(t);
}

/* Takes the records in a ring, if they are at least so many bytes. */
static struct probe_error *take_ring(struct taking *t, size_t least)
{
	struct probe_error *error = NULL;
	bool ready = true;

	while (!error && ready && t->ring->head - t->ring->tail >= least)
		error = take_some(t, &ready);
	t->waits |= !ready;
	return error;
}

/*
 * Asks for the names of threads whose hits have come since the ring was looked at last, and stay
 * there for now: when they are taken, the threads may have ended. The caller remembers the names.
 */
static void ask_names(const struct taking *t)
{
	struct rings *rings = &t->source->session->rings;
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

/* Does everything have to be read, so that a part ends in time? */
static bool is_cut_near(const struct probe_ctf *ctf)
{
	/* The part before waits for what is older. */
	return ctf->before.folder >= 0 ||
	       (ctf->options.rotate_ns && clock_monotonic_ns() >= ctf->end_ns);
}

/* When that will be. */
static void note_end(const struct probe_ctf *ctf, struct probe_ctf_taken *ret)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (ctf->end_ns > now_ns && ctf->end_ns - now_ns < ret->due_ns)
		ret->due_ns = ctf->end_ns - now_ns;
}

static struct probe_error *take_rings(struct taking *t, struct probe_ctf_taken *ret)
{
	struct probe_session *s = t->source->session;
	uint64_t now_ns = clock_monotonic_ns(), since_ns = now_ns - t->source->looked_ns;
	size_t least = s->rings.layout.ring_bytes / FILL_SHARE;
	struct probe_error *error = NULL;

	least = least < TAKE_BYTES ? least : TAKE_BYTES;
	if (t->amount != PROBE_CTF_MUCH || is_cut_near(t->ctf))
		least = 1;
	t->source->looked_ns = now_ns;
	rings_begin(&s->rings);
	t->now = clock_stamp(&s->clock) + 1;
	t->record_max = session_record_max(s);
	for (size_t i = 0; i < s->rings.count && !error; i++) {
		t->ring = &s->rings.rings[i];
		t->number = (unsigned int)i;
		error = take_ring(t, least);
		if (!error && t->names && t->names->comm)
			ask_names(t);
		note_rate(t->source, t->number, since_ns, ret);
	}
	rings_end(&s->rings);
	note_end(t->ctf, ret);
	/* A full ring does not get any fuller: its rate says nothing. */
	if (t->waits) {
		ret->active = true;
		ret->due_ns = WAIT_NS;
	}
	return error;
}

/* Takes what there is of a session whose kind is known. */
static struct probe_error *take(struct taking *t, struct probe_ctf_taken *ret)
{
	struct probe_session *s = t->source->session;
	struct probe_ctf *ctf = t->ctf;
	struct probe_error *error;

	take_clock(ctf, s);
	ctf_sync_clocks(ctf);
	t->clock = ctf->kinds.kinds[t->source->kind - 1].clock;
	t->forms =
		(struct ring_forms){ctf->kinds.kinds[t->source->kind - 1].forms, t->source->agreed};
	error = ctf_direct_settle(ctf, false);
	if (!error)
		error = take_rings(t, ret);
	if (!error && t->amount == PROBE_CTF_ALL)
		error = ctf_direct_settle(ctf, true);
	if (t->moved)
		ctf->last_ns = clock_realtime_ns(&s->clock, ctf->newest[t->clock]);
	if (s->stopped && t->amount == PROBE_CTF_ALL && !t->moved && !error)
		rings_discharge(&s->rings);
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
	return source->never ? NULL : ctf_checked(ctf, take(&taking, ret));
}
