/* SPDX-License-Identifier: MIT */
/*
 * What goes over the pipe to the process in which a loaded tracer runs: one
 * message after the other, each a header and its parts. Both ends are the same
 * program, so nothing is packed or swapped; but the reader checks lengths all the
 * same, since a tracer that runs wild may read from its own pipe.
 */
#ifndef LIBPROBE_TRACER_WIRE_H
#define LIBPROBE_TRACER_WIRE_H

#include "libprobe/base/buffer.h"
#include "probe/tracer.h"

enum wire_type {
	/* To the tracer: */
	WIRE_HIT,  /* struct wire_hit, and what belongs to it */
	WIRE_LOOK, /* somebody looks at the tracer */
	WIRE_PING, /* are you alive? */
	WIRE_END,  /* the last message: say good-bye */
	/* From the tracer: */
	WIRE_READY,
	WIRE_ERROR,  /* a text: why there is no tracer */
	WIRE_PONG,   /* to each look and ping */
	WIRE_REMOVE, /* provider, NUL, name: no more of its hits; empty: of none */
	WIRE_DONE
};

enum { WIRE_MESSAGE_MAX = 1 << 20 };

struct wire_header {
	uint32_t type;
	uint32_t length; /* of the whole message */
};

/* Behind it: the hit as a packed event (probe/event.h). */
struct wire_hit {
	struct wire_header header;
	uint32_t tag, filtered;
};

/* Appends a message without parts. */
void wire_put(struct buffer *out, enum wire_type type);

/* Appends a hit; false where it is too long for a message, or there is no memory. */
bool wire_put_hit(struct buffer *out, enum probe_tracer_tag tag, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm, bool filtered);

/* A hit as the tracer gets it; points into the message. */
struct wire_got {
	enum probe_tracer_tag tag;
	struct probe_tracee tracee;
	struct probe_tracer_term term;
	struct probe_tracer_options options;
};

/* Reads a hit in place: its values get their pointers. False where it makes no sense. */
bool wire_get_hit(char *message, size_t length, struct wire_got *ret);

#endif
