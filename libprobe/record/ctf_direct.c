/* SPDX-License-Identifier: MIT */
/*
 * Large packets go to the disk past the page cache (O_DIRECT): that costs hardly any processor
 * time.
 *
 * Only file systems that say what they need (STATX_DIOALIGN, Linux 6.1) are trusted with it: these
 * write such a packet as a whole, although we may be killed meanwhile. Elsewhere a packet is a page
 * (ctf_stream.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/record/ctf.h"
#include "libprobe/sandbox/seccomp.h"

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
	return NULL;
}

/* Writes everything; false if not all of it could be written. */
static bool write_all(int fd, const uint8_t *bytes, size_t size)
{
	while (size) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		bytes += n;
		size -= (size_t)n;
	}
	return true;
}

/* Appends a packet. What was not written as a whole is taken off the file again. */
static struct probe_error *append(struct ctf_part *part, struct ctf_stream *stream,
	const uint8_t *bytes, size_t size, bool *done_ret)
{
	struct probe_error *error;
	int fd;

	*done_ret = false;
	error = ctf_part_file(part, stream, O_DIRECT, &fd);
	if (error && error->err == EINVAL) {
		probe_error_free(error);
		part->direct = 0;
		return NULL;
	}
	if (error)
		return error;
	*done_ret = write_all(fd, bytes, size);
	if (!*done_ret && ftruncate(fd, stream->written) != 0)
		error = probe_error_system(
			errno, "cannot write the record (and its last packet stays incomplete)");
	close(fd);
	return error;
}

struct probe_error *ctf_direct_write(struct ctf_part *part, struct ctf_stream *stream,
	uint8_t *bytes, const struct ctf_packet *packet, bool *done_ret)
{
	uint64_t sequence = stream->sequence;
	bool owes = stream->owes;
	struct probe_error *error;

	memset(bytes + packet->content, 0, packet->size - packet->content);
	ctf_put_header(stream, part->uuid, packet, bytes);
	error = append(part, stream, bytes, packet->size, done_ret);
	if (*done_ret) {
		stream->written += (off_t)packet->size;
		part->written += packet->size;
		stream->begun = true;
	} else {
		stream->sequence = sequence;
		stream->owes = owes;
	}
	return error;
}
