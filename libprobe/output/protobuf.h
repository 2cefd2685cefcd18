/* SPDX-License-Identifier: MIT */
/*
 * Fields of protocol buffers (protobuf.dev/programming-guides/encoding). A library for these needs
 * code that is generated from the schema when we are built; the one schema that is written here
 * (pprof.c) has fields of three kinds, which are these functions. Fields that are 0 are left out,
 * as proto3 does.
 */
#ifndef LIBPROBE_OUTPUT_PROTOBUF_H
#define LIBPROBE_OUTPUT_PROTOBUF_H

#include "libprobe/base/buffer.h"

/* A number without its field, as in a packed list. */
void protobuf_varint(struct buffer *out, uint64_t value);
void protobuf_unsigned(struct buffer *out, unsigned int field, uint64_t value);
/* A string, a packed list or a message; also if it is empty. */
void protobuf_bytes(struct buffer *out, unsigned int field, const void *bytes, size_t length);
/* The same; the buffer is empty afterwards. */
void protobuf_message(struct buffer *out, unsigned int field, struct buffer *message);

#endif
