/* SPDX-License-Identifier: MIT */
/* Packets of the Common Trace Format, and the files that they are written to. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/record/record.h"

enum { BITS = 8, MAGIC_BYTES = 4 };
static const uint32_t magic = 0xc1fc1fc1;

static size_t whole_pages(size_t bytes)
{
	return (bytes + CTF_PACKET_BYTES - 1) / CTF_PACKET_BYTES * CTF_PACKET_BYTES;
}

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
	return ctf_put(at, &value, sizeof(value));
}

size_t ctf_header_bytes(const struct ctf_stream *stream)
{
	return stream->kind ? CTF_TAKEN_HEADER_BYTES : CTF_HEADER_BYTES;
}

void ctf_put_header(struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES],
	const struct ctf_packet *packet, uint8_t *at)
{
	uint32_t cpu = (uint32_t)stream->cpu;

	at = ctf_put(at, &magic, MAGIC_BYTES);
	at = ctf_put(at, uuid, CTF_UUID_BYTES);
	at = ctf_put(at, &stream->kind, sizeof(stream->kind));
	at = put_u64(at, packet->begin);
	at = put_u64(at, packet->end);
	at = put_u64(at, BITS * packet->content);
	at = put_u64(at, BITS * packet->size);
	at = put_u64(at, stream->sequence++);
	at = put_u64(at, stream->discarded);
	at = ctf_put(at, &cpu, sizeof(cpu));
	if (stream->kind)
		ctf_put(at, &stream->pid, sizeof(stream->pid));
	stream->owes = false;
}

void ctf_stream_close(struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES])
{
	uint8_t *at = stream->buffer + stream->packet;
	size_t content = stream->length - stream->packet;
	size_t size = whole_pages(content);
	const struct ctf_packet packet = {stream->begin, stream->last, content, size};

	if (!stream->is_open)
		return;
	memset(at + content, 0, size - content);
	ctf_put_header(stream, uuid, &packet, at);
	stream->packet += size;
	stream->is_open = false;
}

/* Begins a packet with room for `length` bytes of events; false if there is none. */
static bool packet_open(struct ctf_stream *stream, size_t length)
{
	if (stream->packet + whole_pages(ctf_header_bytes(stream) + length) > CTF_BATCH_BYTES)
		return false;
	stream->length = stream->packet + ctf_header_bytes(stream);
	stream->begin = stream->last;
	stream->is_open = stream->begun = true;
	return true;
}

uint8_t *ctf_stream_room(struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES], size_t room)
{
	size_t at = stream->length;

	/* Records of rings are aligned, and so are the events among them. */
	if (stream->kind && stream->is_open)
		at = ring_padded(at, RING_ALIGN);
	if (stream->is_open && at + room > stream->packet + CTF_PACKET_BYTES)
		ctf_stream_close(stream, uuid);
	if (!stream->is_open) {
		if (!packet_open(stream, room))
			return NULL;
		at = stream->length;
	}
	memset(stream->buffer + stream->length, 0, at - stream->length);
	return stream->buffer + at;
}

bool ctf_stream_discard(
	struct ctf_stream *stream, const uint8_t uuid[CTF_UUID_BYTES], uint64_t count)
{
	/* Readers compare with the previous packet, so there must be one. */
	if (!stream->begun) {
		if (!packet_open(stream, 0))
			return false;
		ctf_stream_close(stream, uuid);
	}
	if (stream->is_open && stream->sequence == 0)
		ctf_stream_close(stream, uuid);
	if (!stream->is_open && !packet_open(stream, 0))
		return false;
	stream->discarded += count;
	return true;
}

void ctf_stream_empty(struct ctf_stream *stream, size_t kept)
{
	for (size_t i = kept / CTF_PACKET_BYTES; i < CTF_BATCH_BYTES / CTF_PACKET_BYTES; i++)
		stream->dropped += stream->hits[i];
	memset(stream->hits, 0, sizeof(stream->hits));
	stream->packet = 0;
	stream->is_open = false;
}

/* The end of the last complete packet in the first `written` bytes; notes where it begins. */
static size_t whole_packets(struct ctf_stream *stream, size_t written)
{
	size_t at = 0;

	while (at < written) {
		uint64_t bits;

		memcpy(&bits, stream->buffer + at + CTF_SIZE_AT, sizeof(bits));
		if (at + bits / BITS > written)
			break;
		stream->last_at = stream->written + (off_t)at;
		at += bits / BITS;
	}
	return at;
}

struct probe_error *ctf_stream_write(struct ctf_stream *stream, int fd)
{
	size_t done = 0, whole;
	int err = 0;

	while (done < stream->packet && !err) {
		ssize_t n = write(fd, stream->buffer + done, stream->packet - done);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0)
			err = ENOSPC;
		else if (errno != EINTR)
			err = errno;
	}
	whole = whole_packets(stream, done);
	stream->written += (off_t)whole;
	/* No packet is open, so nothing follows the closed ones. */
	ctf_stream_empty(stream, whole);
	if (!err)
		return NULL;
	if (whole < done && ftruncate(fd, stream->written) != 0)
		return probe_error_system(err, "cannot write the record (and its last packet stays "
					       "incomplete)");
	return probe_error_system(err, "cannot write more of the record, which is whole so far");
}
