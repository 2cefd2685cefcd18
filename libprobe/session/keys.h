/* SPDX-License-Identifier: MIT */
/* The keys of rows, from what stubs have of them (struct asked_parts). */
#ifndef LIBPROBE_SESSION_KEYS_H
#define LIBPROBE_SESSION_KEYS_H

#include "libprobe/base/buffer.h"
#include "libprobe/registry/snapshot.h"
#include "libprobe/session/session.h"

/* What the session's entries have; borrowed from it. */
struct view_keys keys_of_view(const struct probe_session *session);

/* Before rows are read: names that are read for the first time stay as they are. */
void keys_refresh(struct probe_session *session);

/*
 * The key that a row has, from the parts of an entry of this probe (NULL: there is no table): a
 * word for each key, as in an entry, and behind them the bytes of those that are no numbers. *ret
 * is `parts`, or in `room`, which is used again. False without memory.
 */
PROBE_MUST_CHECK bool keys_show(struct probe_session *session, size_t probe, const uint8_t *parts,
	struct buffer *room, const uint8_t **ret, size_t *bytes_ret);

/* Frees what was kept of the session's keys. */
void keys_deinit(struct probe_session *session);

/* The values of such a key; their bytes are the key's. */
void keys_values(const struct probe_session *session, size_t probe, const uint8_t *key,
	struct probe_value *ret);

#endif
