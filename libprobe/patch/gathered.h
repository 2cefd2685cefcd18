/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PATCH_GATHERED_H
#define LIBPROBE_PATCH_GATHERED_H

#include "libprobe/registry/registry.h"

/* Does a session count its hits in cells, and not in its slots? */
bool gathered_has_cells(const struct reg_session *session);

/*
 * Adds up what the cells of a session have counted, for each of its slots: an array of
 * session->slot_capacity, which the caller frees. NULL: there are too many cells to be read for a
 * number, or no memory.
 */
uint64_t *gathered_hits(pid_t pid, const struct reg_session *session);

#endif
