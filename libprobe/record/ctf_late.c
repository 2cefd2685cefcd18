/* SPDX-License-Identifier: MIT */
/*
 * Losses that come to light when nothing can be written any more, because the disk is full. Headers
 * of packets count losses, so a larger number in the last packet of a file tells of these, and
 * needs no room. (File systems that never overwrite need some: there, only the user is told.)
 */
#include <fcntl.h>
#include <unistd.h>

#include "libprobe/record/ctf.h"

enum { BITS = 8 };

/* The stream with most in its file; NULL: all files are empty. */
static struct ctf_stream *longest_of(const struct ctf_part *part)
{
	struct ctf_stream *longest = NULL;

	for (size_t i = 0; i < part->stream_count; i++)
		if (part->streams[i].written > (longest ? longest->written : 0))
			longest = &part->streams[i];
	return longest;
}

/* Where the last packet of a file begins, of which `size` bytes are whole packets. */
static off_t last_packet(int fd, off_t size)
{
	off_t at = 0, last = 0;
	uint64_t bits;

	while (at < size && pread(fd, &bits, sizeof(bits), at + CTF_SIZE_AT) == sizeof(bits) &&
		bits >= BITS && bits / BITS <= (uint64_t)(size - at)) {
		last = at;
		at += (off_t)(bits / BITS);
	}
	return last;
}

void ctf_discard_late(struct probe_ctf *ctf, uint64_t count)
{
	const struct ctf_part *part = &ctf->part;
	struct ctf_stream *stream = longest_of(part);
	char name[CTF_STREAM_NAME_BYTES];
	off_t at;
	int fd;

	if (!stream) {
		part = &ctf->before;
		stream = longest_of(part);
	}
	if (!stream)
		return;
	ctf_stream_name(name, part, stream);
	/* For appending, pwrite(2) would not look at the place. */
	fd = openat(part->folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	at = last_packet(fd, stream->written) + CTF_DISCARDED_AT;
	stream->discarded += count;
	if (pwrite(fd, &stream->discarded, sizeof(stream->discarded), at) < 0)
		stream->discarded -= count;
	close(fd);
}
