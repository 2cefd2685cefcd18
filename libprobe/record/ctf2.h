/* SPDX-License-Identifier: MIT */
/*
 * The metadata of CTF 2 (https://diamon.org/ctf/, CTF2-SPEC-2.0): what TSDL says (tsdl.h), as a
 * sequence of JSON texts (RFC 7464), one for each thing that is described:
 *
 *	preamble		the version, and the record's identifier
 *	trace-class		the environment, and the header of packets
 *	clock-class
 *	data-stream-class	the context of packets, header and context of events
 *	event-record-class	a kind of events
 *
 * The bytes of packets are the same. What a field is for, which TSDL says by its name, CTF 2 says
 * by a role, whatever the name is.
 */
#ifndef LIBPROBE_RECORD_CTF2_H
#define LIBPROBE_RECORD_CTF2_H

#include "libprobe/base/buffer.h"
#include "libprobe/record/tsdl.h"

/* What each text begins with, and so the metadata: RFC 7464, 2.2. No TSDL does. */
enum { CTF2_SEPARATOR = 0x1e };

/* Writes all that it says. Names and texts that are not UTF-8 become it. */
void ctf2_write(struct buffer *out, const struct tsdl *tsdl);

/* Parses metadata. Errors, and what the caller owns: as tsdl_parse(). */
PROBE_MUST_CHECK struct probe_error *ctf2_parse(const char *text, size_t length, struct tsdl *ret);

/* ---- Structures (ctf2_roles.c) ----------------------------------------------------------- */

enum ctf2_place {
	CTF2_PACKET_HEADER,
	CTF2_PACKET_CONTEXT,
	CTF2_EVENT_HEADER,
	CTF2_EVENT_CONTEXT,
	CTF2_EVENT_PAYLOAD
};

/* What a field location calls the structure at a place. */
const char *ctf2_origin(enum ctf2_place place);
/* The role of a field with this name, and the name of one with this role; NULL: there is none. */
const char *ctf2_role(enum ctf2_place place, const char *name);
const char *ctf2_name(enum ctf2_place place, const char *role);

#endif
