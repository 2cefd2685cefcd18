/* SPDX-License-Identifier: MIT */
/* A session whose ring the test itself fills, and a record of it. */
#ifndef UNIT_RECORD_TAKE_HOST_H
#define UNIT_RECORD_TAKE_HOST_H

#include "libprobe/record/record.h"
#include "libprobe/session/session.h"

enum {
	TAKE_PAGE = CTF_PACKET_BYTES,
	TAKE_RING_BYTES = 1 << 20,
	TAKE_RECORD = sizeof(struct ring_record),
	TAKE_NUMBER = 20, /* bytes of a record of site 0 */
	TAKE_PID = 4321
};

/* A session with one CPU; site 0 has a number of 4 bytes, site 1 a string. */
struct take_host {
	struct probe_session session;
	struct probe_session_probe probes[2];
	struct session_probe known[2];
	struct session_site sites[2];
	struct reg_session layout;
	char path[64];
	struct probe_ctf *ctf;
};

/* The session without a record; *host is zero. */
void take_session_open(struct take_host *host);
/* Both; the record is below a folder. */
void take_open(struct take_host *host, const char *folder, const struct probe_ctf_options *options);
void take_close(struct take_host *host);

/* What a stub does: a record in ring 0. */
void take_hit(struct take_host *host, uint64_t time, uint32_t site, uint32_t tid, const char *text);

/* Writes hits from the ring to the record; returns how many. */
uint64_t take_hits(struct take_host *host, enum probe_ctf_amount amount);

/* The contents of a file of the record; the caller frees them. */
uint8_t *take_contents(const struct take_host *host, const char *name, size_t *size_ret);
/* A number of `size` bytes. */
uint64_t take_number(const uint8_t *at, size_t size);

/* What is in a stream of hits of site 0. */
struct take_found {
	size_t packets, largest, hits, names, lost;
	uint64_t last; /* time */
	uint32_t next; /* number */
	bool in_order;
};

/* Fails the test if a packet is not as it should be. */
struct take_found take_stream(const struct take_host *host, const char *name);

#endif
