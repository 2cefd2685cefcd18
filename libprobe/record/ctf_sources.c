/* SPDX-License-Identifier: MIT */
/* Sessions whose rings are taken: their hits, their streams, and what they have lost. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/record/record.h"
#include "libprobe/session/session.h"

/* ---- Sources ----------------------------------------------------------------------- */

static struct ctf_source *find_source(struct probe_ctf *ctf, const struct probe_session *session)
{
	for (size_t i = 0; i < ctf->source_count; i++)
		if (ctf->sources[i].session == session)
			return &ctf->sources[i];
	return NULL;
}

/* NULL without memory. */
struct ctf_source *ctf_source_of(struct probe_ctf *ctf, struct probe_session *session)
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
	ctf_direct_deinit(ctf);
	free(ctf->copy);
	free(ctf->packets);
	ctf_kinds_deinit(&ctf->kinds);
}

const struct ctf_source *ctf_take_source(struct probe_ctf *ctf, const struct probe_session *session)
{
	const struct ctf_source *source = find_source(ctf, session);

	return source && source->kind && !source->never ? source : NULL;
}

void ctf_count_hits(
	struct probe_ctf *ctf, struct probe_session *session, uint64_t *hits, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		session->known[session->sites[i].probe].consumed += hits[i];
		ctf->counted += hits[i];
		hits[i] = 0;
	}
}

uint64_t ctf_sum_hits(const uint64_t *hits, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += hits[i];
	return sum;
}

void ctf_note_moved(struct taking *t)
{
	t->moved = true;
	t->source->ring = t->number;
	if (t->stream->last > t->ctf->newest[t->clock])
		t->ctf->newest[t->clock] = t->stream->last;
}

/* ---- Parts ------------------------------------------------------------------------- */

/* The time of the first record in a ring. */
uint64_t ctf_first_time(const struct rings *rings, const struct ring *ring)
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
				ctf_first_time(&s->rings, ring) < ctf->cuts[clock])
				return false;
		}
	}
	return true;
}

/* The stream of a ring in the present part, which has no older times than that. */
struct probe_error *ctf_present_stream(struct probe_ctf *ctf, const struct ctf_source *source,
	unsigned int ring, struct ctf_stream **ret)
{
	enum ctf_clock_id clock = ctf->kinds.kinds[source->kind - 1].clock;
	struct probe_error *error = ctf_part_ring_stream(&ctf->part, source, ring, ret);

	if (!error && (*ret)->last < ctf->cuts[clock])
		(*ret)->last = ctf->cuts[clock];
	return error;
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
	return ctf_end_packets(part, stream, error);
}

struct probe_error *ctf_take_discarded(
	struct probe_ctf *ctf, const struct ctf_source *source, uint64_t count)
{
	struct ctf_stream *stream;
	struct probe_error *error = ctf_present_stream(ctf, source, source->ring, &stream);

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

	for (size_t i = 0; i < ctf->part.stream_count && !error; i++) {
		struct ctf_stream *stream = &ctf->part.streams[i];

		/* Else its next packet tells, or the next flush. */
		if (stream->owes && !ctf_direct_waits(ctf, &ctf->part, stream))
			error = put_losses(ctf, &ctf->part, stream, 0);
	}
	return error;
}
