/* SPDX-License-Identifier: MIT */
/*
 * Losses that come to light when nothing can be written any more, because the disk is full. Headers
 * of packets count losses, so a larger number in the last packet of a file tells of these, and
 * needs no room. (File systems that never overwrite need some: there, only the user is told.)
 */
#include <unistd.h>

#include "libprobe/record/record.h"

/* The stream with most in its file; NULL: all files are empty. */
static struct ctf_stream *longest_of(const struct ctf_part *part)
{
	struct ctf_stream *longest = NULL;

	for (size_t i = 0; i < part->stream_count; i++)
		if (part->streams[i].written > (longest ? longest->written : 0))
			longest = &part->streams[i];
	return longest;
}

/* Puts the losses of a stream into the last packet of its file. */
static void tell(const struct ctf_part *part, struct ctf_stream *stream)
{
	const off_t at = stream->last_at + CTF_DISCARDED_AT;
	ssize_t written;
	/* For appending, pwrite(2) would not look at the place. */
	int fd = ctf_stream_open(part, stream, 0);

	if (fd < 0)
		return;
	written = pwrite(fd, &stream->discarded, sizeof(stream->discarded), at);
	(void)written;
	close(fd);
}

void ctf_discard_late(struct probe_ctf *ctf, uint64_t count)
{
	const struct ctf_part *part = &ctf->part;
	struct ctf_stream *stream = longest_of(part);

	if (!stream) {
		part = &ctf->before;
		stream = longest_of(part);
	}
	if (!stream || !count)
		return;
	stream->discarded += count;
	tell(part, stream);
}

/* Returns the losses of streams that have no packet in a file. */
static uint64_t tell_part(struct probe_ctf *ctf, struct ctf_part *part)
{
	uint64_t rest = 0;

	for (size_t i = 0; i < part->stream_count; i++) {
		struct ctf_stream *stream = &part->streams[i];

		ctf_stream_empty(stream, 0);
		ctf->unwritten += stream->dropped;
		stream->discarded += stream->dropped;
		if (!stream->written)
			rest += stream->discarded;
		else if (stream->discarded)
			tell(part, stream);
	}
	return rest;
}

void ctf_tell_losses(struct probe_ctf *ctf)
{
	uint64_t rest = tell_part(ctf, &ctf->part);

	rest += tell_part(ctf, &ctf->before);
	ctf_discard_late(ctf, rest);
}
