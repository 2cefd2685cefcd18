/* SPDX-License-Identifier: MIT */
/*
 * What flight recorders leave when their process has died: in the file that they had
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
 * Opens a file and finds the flight recorders in it: those that probe_session_leave() has left
 * in the process. What the file holds is not trusted. A recorder whose contents make no sense is
 * left out; probe_remains_damage() tells. Errors: PROBE_ERROR_SYSTEM (it cannot be opened),
 * PROBE_ERROR_FORMAT (it is neither a recorder's file nor an ELF core file), PROBE_ERROR_NOT_FOUND
 * (there is no recorder in it), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_remains_open(
	const char *path, struct probe_remains **ret);
/* Closes the file, and frees its sessions. NULL is allowed. */
void probe_remains_close(struct probe_remains *remains);

/*
 * Returns a recorder as a session, to be read with probe_session_snapshot() and
 * probe_session_probes(), and recorded with probe_ctf_hit(); NULL beyond the last one. Owned by
 * the remains, and not to be freed. Addresses are the process's own, ids of processes and threads
 * those of its own namespace.
 */
struct probe_session *probe_remains_session(const struct probe_remains *remains, size_t index);

/*
 * What the process of a recorder was called when the recorder was left in it; NULL: not known. The
 * bytes are not trusted.
 */
const char *probe_remains_command(const struct probe_remains *remains, size_t index);

/* Says what is wrong with a recorder that was left out, by an index; NULL beyond the last one. */
const char *probe_remains_damage(const struct probe_remains *remains, size_t index);

#ifdef __cplusplus
}
#endif
#endif
