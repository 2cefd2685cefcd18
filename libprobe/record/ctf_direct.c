/* SPDX-License-Identifier: MIT */
/*
 * Large packets go to the disk past the page cache (O_DIRECT): that costs hardly any processor
 * time. A thread writes them (ctf_writer.c). Until that is settled, streams and parts are as if
 * they had been written, but hits are not counted.
 *
 * Only file systems that say what they need (STATX_DIOALIGN, Linux 6.1) are trusted with it: these
 * write such a packet as a whole, although we may be killed meanwhile. Elsewhere a packet is a page
 * (ctf_stream.c), as are the large ones that could not be written as a whole: there may be room for
 * some.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/record/record.h"
#include "libprobe/process/process.h"
#include "libprobe/session/session.h"

/* The blocks of which a file may be written directly; 0: none. */
static size_t blocks_of(int fd)
{
#ifdef STATX_DIOALIGN
	struct statx status;
	size_t block;

	if (!seccomp_may_call(SECCOMP_OWN_DIRECT) ||
		statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) != 0 ||
		!(status.stx_mask & STATX_DIOALIGN))
		return 0;
	block = status.stx_dio_offset_align > status.stx_dio_mem_align ? status.stx_dio_offset_align
								       : status.stx_dio_mem_align;
	/* Packets are whole pages. */
	if (block && CTF_PACKET_BYTES % block == 0)
		return block;
#else
	(void)fd;
#endif
	return 0;
}

struct probe_error *ctf_direct_ask(struct ctf_part *part, struct ctf_stream *stream)
{
	struct probe_error *error;
	int fd;

	if (part->direct_known)
		return NULL;
	error = ctf_part_describe(part);
	if (!error)
		error = ctf_part_file(part, stream, 0, &fd);
	if (error)
		return error;
	part->direct = blocks_of(fd);
	part->direct_known = true;
	close(fd);
	if (!part->direct)
		return NULL;
	error = ctf_part_file(part, stream, O_DIRECT, &fd);
	if (!error) {
		close(fd);
	} else if (error->err == EINVAL) {
		part->direct = 0;
		probe_error_free(error);
		error = NULL;
	}
	return error;
}

/* ---- Handing over ------------------------------------------------------------------ */

/* The packet of a job, behind those that name its threads. */
static uint8_t *packet_of(const struct ctf_job *job)
{
	return job->memory + CTF_NAMES_BYTES;
}

uint8_t *ctf_direct_records(const struct ctf_job *job)
{
	return packet_of(job) + CTF_TAKEN_HEADER_BYTES;
}

/* Moves the packets that name threads, which are complete in the stream's buffer. */
static void put_names(struct ctf_job *job, struct ctf_stream *stream)
{
	job->names = stream->packet;
	job->bytes = packet_of(job) - job->names;
	memcpy(job->bytes, stream->buffer, job->names);
	stream->packet = 0;
	stream->buffer = NULL;
}

struct probe_error *ctf_direct_give(struct taking *t, struct ctf_job *job)
{
	uint64_t *hits = calloc(t->source->agreed + 1, sizeof(*hits));
	struct ctf_packet *packet = &job->packet;
	struct ctf_stream *stream = t->stream;
	struct probe_error *error;

	if (!hits)
		return probe_error_no_memory();
	error = ctf_part_file(t->part, stream, O_DIRECT, &job->fd);
	if (error) {
		free(hits);
		return error;
	}
	job->part = t->part;
	job->stream = (size_t)(stream - t->part->streams);
	job->session = t->source->session;
	job->hits = t->source->hits;
	job->hit_count = t->source->agreed;
	job->paged = 0;
	t->source->hits = hits;
	put_names(job, stream);
	job->sequence = stream->sequence - job->names / CTF_PACKET_BYTES;
	memset(packet_of(job) + packet->content, 0, packet->size - packet->content);
	ctf_put_header(stream, t->part->uuid, packet, packet_of(job));
	job->size = job->names + packet->size;
	job->last_at = stream->written + (off_t)job->names;
	stream->written += (off_t)job->size;
	t->part->written += job->size;
	stream->last = packet->end;
	stream->begun = true;
	ctf_writer_give(t->ctf->writer);
	return NULL;
}

/* ---- Settling ---------------------------------------------------------------------- */

static void free_job(struct probe_ctf *ctf, struct ctf_job *job)
{
	close(job->fd);
	free(job->hits);
	ctf_writer_settle(ctf->writer);
}

static void end_job(struct probe_ctf *ctf, struct ctf_job *job, bool is_written)
{
	struct ctf_stream *stream = &job->part->streams[job->stream];

	if (job->done)
		stream->last_at = job->last_at;
	if (is_written)
		ctf_count_hits(ctf, job->session, job->hits, job->hit_count);
	else
		stream->dropped += ctf_sum_hits(job->hits, job->hit_count) - job->paged;
	free_job(ctf, job);
}

/* The stream is again as before the job, and so is its file. */
static struct probe_error *take_back(struct ctf_job *job)
{
	struct ctf_stream *stream = &job->part->streams[job->stream];
	struct stat status;

	stream->written -= (off_t)job->size;
	stream->sequence = job->sequence;
	job->part->written -= job->size;
	job->part->direct = 0;
	/* That of a job that was not tried is shorter: it may not be allowed to grow. */
	if (fstat(job->fd, &status) == 0 && status.st_size <= stream->written)
		return NULL;
	return ftruncate(job->fd, stream->written) == 0
		       ? NULL
		       : probe_error_system(errno, "cannot write the record (and its last packet "
						   "stays incomplete)");
}

/* Puts the packets that name threads into the stream's buffer again. */
static void put_names_again(const struct ctf_job *job, struct ctf_stream *stream)
{
	memcpy(stream->buffer, job->bytes, job->names);
	for (; stream->packet < job->names; stream->packet += CTF_PACKET_BYTES) {
		ctf_put(stream->buffer + stream->packet + CTF_SEQUENCE_AT, &stream->sequence,
			sizeof(stream->sequence));
		stream->sequence++;
	}
}

/* Writes what a job has as packets of a page each. */
static struct probe_error *write_pages(struct probe_ctf *ctf, struct ctf_job *job)
{
	struct ctf_stream *stream = &job->part->streams[job->stream];
	const struct ring_forms forms = {ctf->kinds.kinds[stream->kind - 1].forms, job->hit_count};
	size_t size = job->packet.content - CTF_TAKEN_HEADER_BYTES, length;
	const uint8_t *records = ctf_direct_records(job);
	struct probe_error *error = NULL;
	uint8_t *at;

	stream->buffer = ctf->packets;
	put_names_again(job, stream);
	for (size_t i = 0; i < size; i += ring_padded(length, RING_ALIGN)) {
		length = ring_record_length(&forms, records + i, size - i);
		memcpy(&stream->last, records + i, sizeof(stream->last));
		error = ctf_part_room(job->part, stream, length, &at);
		if (error)
			break;
		stream->length = (size_t)(ctf_put(at, records + i, length) - stream->buffer);
		ctf_stream_note_hit(stream);
		job->paged++;
	}
	return ctf_end_packets(job->part, stream, error);
}

/* One has failed, and those after it were not tried. */
static struct probe_error *settle_failed(struct probe_ctf *ctf)
{
	size_t count = ctf_writer_finished(ctf->writer, true);
	struct probe_error *error = NULL;
	struct ctf_job *job;

	for (size_t i = count; i--;)
		error = probe_error_first(error, take_back(ctf_writer_waiting(ctf->writer, i)));
	while ((job = ctf_writer_waiting(ctf->writer, 0))) {
		if (!error)
			error = write_pages(ctf, job);
		end_job(ctf, job, !error);
	}
	return error;
}

struct probe_error *ctf_direct_settle(struct probe_ctf *ctf, bool wait)
{
	size_t count = ctf->writer ? ctf_writer_finished(ctf->writer, wait) : 0;

	for (; count; count--) {
		struct ctf_job *job = ctf_writer_waiting(ctf->writer, 0);

		if (!job->done)
			return settle_failed(ctf);
		end_job(ctf, job, true);
	}
	return NULL;
}

struct probe_error *ctf_direct_give_up(struct probe_ctf *ctf)
{
	size_t count = ctf->writer ? ctf_writer_finished(ctf->writer, true) : 0;
	struct probe_error *error = NULL;
	struct ctf_job *job;

	for (size_t i = count; i--;) {
		job = ctf_writer_waiting(ctf->writer, i);
		if (!job->done)
			error = probe_error_first(error, take_back(job));
	}
	while (count && (job = ctf_writer_waiting(ctf->writer, 0)))
		end_job(ctf, job, job->done);
	return error;
}

bool ctf_direct_waits(
	struct probe_ctf *ctf, const struct ctf_part *part, const struct ctf_stream *stream)
{
	const struct ctf_job *job;

	for (size_t i = 0; ctf->writer && (job = ctf_writer_waiting(ctf->writer, i)); i++)
		if (job->part == part && &part->streams[job->stream] == stream)
			return true;
	return false;
}

void ctf_direct_deinit(struct probe_ctf *ctf)
{
	struct ctf_job *job;

	if (!ctf->writer)
		return;
	ctf_writer_finished(ctf->writer, true);
	while ((job = ctf_writer_waiting(ctf->writer, 0)))
		free_job(ctf, job);
	ctf_writer_free(ctf->writer);
}
