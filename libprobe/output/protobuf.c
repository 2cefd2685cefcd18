/* SPDX-License-Identifier: MIT */
#include "libprobe/output/output.h"

enum { VARINT = 0, LENGTH_DELIMITED = 2 };

void protobuf_varint(struct buffer *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		buffer_char(out, (char)(value | 0x80));
	buffer_char(out, (char)value);
}

void protobuf_unsigned(struct buffer *out, unsigned int field, uint64_t value)
{
	if (!value)
		return;
	protobuf_varint(out, field << 3 | VARINT);
	protobuf_varint(out, value);
}

void protobuf_bytes(struct buffer *out, unsigned int field, const void *bytes, size_t length)
{
	protobuf_varint(out, field << 3 | LENGTH_DELIMITED);
	protobuf_varint(out, length);
	buffer_bytes(out, bytes, length);
}

void protobuf_message(struct buffer *out, unsigned int field, struct buffer *message)
{
	protobuf_bytes(out, field, message->data, message->length);
	out->no_memory |= message->no_memory;
	message->length = 0;
}
