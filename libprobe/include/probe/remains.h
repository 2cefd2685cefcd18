/* SPDX-License-Identifier: MIT */
/*
 * Flight recorders of processes that have died. A recorder's hits remain in its file
 * (probe_session_options.file), or in the process's core file.
 */
#ifndef PROBE_REMAINS_H
#define PROBE_REMAINS_H

#include <stddef.h>

#include "error.h"
#include "target.h"

#ifdef __cplusplus
extern "C" {
#endif

struct probe_remains;

/*
 * Opens a file and finds the flight recorders in it: those that probe_session_leave() has left in
 * the process. The contents of the file are not trusted. A recorder with invalid contents is
 * skipped; probe_remains_damage() says why. Errors: PROBE_ERROR_SYSTEM (the file cannot be opened),
 * PROBE_ERROR_FORMAT (the file is neither a recorder's file nor an ELF core file),
 * PROBE_ERROR_NOT_FOUND (the file contains no recorder), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_remains_open(
	const char *path, struct probe_remains **ret);
/* Closes the file, and frees its sessions. NULL is allowed. */
void probe_remains_close(struct probe_remains *remains);

/*
 * Returns a recorder as a session, by its index; NULL after the last one. The session can be read
 * with probe_session_snapshot() and probe_session_probes(), and recorded with probe_ctf_hit().
 * Owned by the remains; the caller must not free it. Addresses are those of the process; ids of
 * processes and threads are those of its pid namespace.
 */
struct probe_session *probe_remains_session(const struct probe_remains *remains, size_t index);

/*
 * Returns the name that the process had when the recorder was left in it; NULL if unknown. The
 * bytes are not trusted.
 */
const char *probe_remains_command(const struct probe_remains *remains, size_t index);

/* Says why a recorder was skipped, by its index among the skipped ones; NULL after the last one. */
const char *probe_remains_damage(const struct probe_remains *remains, size_t index);

#ifdef __cplusplus
}
#endif
#endif
