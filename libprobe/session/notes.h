/* SPDX-License-Identifier: MIT */
/*
 * What a flight recorder says about itself, in its own memory, so that it can be read when
 * neither the process nor its files are there any more: from a file that outlives it, or from a
 * core file.
 *
 *	first page of the data, at DATA_NOTES_OFFSET: struct data_notes
 *	at its offset, 8-byte aligned:
 *		struct notes_header
 *		each probe:  struct notes_probe, provider, name, path; padded to 8
 *		each site:   struct notes_site, struct notes_arg[], struct notes_capture[]
 */
#ifndef LIBPROBE_SESSION_NOTES_H
#define LIBPROBE_SESSION_NOTES_H

#include "libprobe/base/buffer.h"
#include "libprobe/session/session.h"

enum {
	NOTES_VERSION = 4,
	NOTES_BYTES_MAX = 64 << 20,
	NOTES_BOOT_BYTES = 40, /* /proc/sys/kernel/random/boot_id */
	NOTES_COMMAND_BYTES = SESSION_COMMAND_BYTES
};
/* Thirty years: no session lasts longer, and sums of two such times fit 63 bits. */
#define NOTES_YEARS_NS 1e18
#define NOTES_MAGIC UINT64_C(0x7365746f6e6f7270) /* "pronotes" */

struct notes_header {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes; /* of everything, with this header */
	uint64_t data_size;
	uint64_t rings; /* offset in the data */
	uint32_t cpus, ring_bytes;
	uint32_t rings_shift;
	uint32_t flags; /* REG_SESSION_KERNEL_TIME */
	uint32_t session;
	int32_t pid; /* as the process sees itself; as the threads of its records are */
	uint64_t record_max;
	struct data_clock clock;
	double tick_ns;			   /* as it was measured when the session was left */
	char boot[NOTES_BOOT_BYTES];	   /* in which boot time stamps count */
	char command[NOTES_COMMAND_BYTES]; /* of the process (/proc/PID/comm); or "" */
	uint32_t probes, sites;
};

struct notes_probe {
	uint32_t provider, name, path; /* bytes, each with its NUL */
	uint32_t unused;
};

struct notes_site {
	uint64_t pc;
	uint32_t number, probe;
	uint8_t arg_count, recorded, checked;
	uint8_t unused[5];
};

enum notes_text { NOTES_GUESS = 1, NOTES_KNOWN };

struct notes_arg {
	int8_t value, string;
	uint8_t is_signed, is_float;
	uint8_t text; /* 0: there is none beside the number; else enum notes_text */
	uint8_t is_bytes;
	uint8_t size;
	uint8_t is_symbol;
};

struct notes_capture {
	uint32_t size, bytes_max;
	uint8_t is_string, has_length;
	uint8_t unused[6];
};

/* Appends the notes of a session whose sites are prepared. A buffer of {0} will do. */
void notes_put(const struct probe_session *session, struct buffer *out);

/* How many bytes they take; 0: the session has none, or no memory. */
size_t notes_bytes(const struct probe_session *session);

/* Writes them into the session's memory, which is mapped. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *notes_write(struct probe_session *session);

/*
 * Makes a session from notes, to read the data beside them. Sets everything except where the data
 * is (session->view). `file_bytes` of the data exist. The bytes are not trusted. Errors:
 * PROBE_ERROR_FORMAT, PROBE_ERROR_MEMORY; the session is then to be freed all the same.
 */
PROBE_MUST_CHECK struct probe_error *notes_read(
	struct probe_session *session, const uint8_t *bytes, size_t size, uint64_t file_bytes);

/*
 * Takes from the notes of a session that was opened what the records of its sites hold. The
 * controller that began it decided that, perhaps with another catalogue. Errors: those of
 * notes_read(); PROBE_ERROR_STATE (it has other probes than the notes).
 */
PROBE_MUST_CHECK struct probe_error *notes_take_layouts(struct probe_session *session);

#endif
