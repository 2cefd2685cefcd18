/* SPDX-License-Identifier: MIT */
/*
 * The messages in the pipe to a loaded tracer's process, each a header and its parts. Both ends
 * are the same program, so nothing is packed or byte-swapped; but the reader checks lengths all
 * the same, because a tracer that misbehaves may read from its own pipe.
 */
#ifndef LIBPROBE_SESSION_WIRE_H
#define LIBPROBE_SESSION_WIRE_H

#include "libprobe/base/buffer.h"
#include "probe/tracer.h"

enum wire_type {
	/* To the tracer: */
	WIRE_HIT,  /* struct wire_hit, and the packed event */
	WIRE_LOOK, /* struct wire_tracee: does the tracer stay there? */
	WIRE_PING, /* asks for a sign of life */
	WIRE_END,  /* the last message */
	/* From the tracer: */
	WIRE_READY,
	WIRE_ERROR,  /* a text: why the tracer cannot run */
	WIRE_PONG,   /* answers each look and ping */
	WIRE_REMOVE, /* struct wire_tracee, then provider, NUL, name, NUL; or nothing: all probes */
	WIRE_DONE
};

enum { WIRE_MESSAGE_MAX = 1 << 20 };

struct wire_header {
	uint32_t type;
	uint32_t length; /* of the whole message */
};

/* The hit follows as a packed event (probe/event.h). */
struct wire_hit {
	struct wire_header header;
	uint32_t tag;
	uint32_t pair; /* of begins and ends */
	struct probe_value filter;
};

/* A process, or 0: all. */
struct wire_tracee {
	struct wire_header header;
	int32_t pid;
	uint32_t unused;
};

/* Appends a message without parts. */
void wire_put(struct buffer *out, enum wire_type type);

/* Appends a WIRE_LOOK. */
void wire_put_look(struct buffer *out, pid_t pid);

/* Appends a hit; false if it is too long for a message, or without memory. */
bool wire_put_hit(struct buffer *out, enum probe_tracer_tag tag, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm);

/* A hit as the tracer receives it; points into the message. */
struct wire_got {
	enum probe_tracer_tag tag;
	uint32_t pair;
	struct probe_value filter, extra; /* `options` points to them; do not copy it */
	struct probe_tracee tracee;
	struct probe_tracer_term term;
	struct probe_tracer_options options;
};

/* Reads a hit in place and sets the pointers of its values. False if it is malformed. */
bool wire_get_hit(char *message, size_t length, struct wire_got *ret);

#endif
