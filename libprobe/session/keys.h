/* SPDX-License-Identifier: MIT */
/* What the keys of gathered rows are shown as, where that is not what the target has. */
#ifndef LIBPROBE_SESSION_KEYS_H
#define LIBPROBE_SESSION_KEYS_H

#include "libprobe/ring/snapshot.h"
#include "libprobe/session/session.h"

/* Initialise with {.session = session}. */
struct shown_keys {
	const struct probe_session *session;
	uint8_t *bytes; /* room for one key */
	size_t size;
};

void shown_keys_deinit(struct shown_keys *shown);

/* Whether a part of the key is a string, once it is shown. */
bool keys_shown_as_string(const struct probe_session *session, size_t part);

/*
 * Makes *key, as snapshot_cells() hands it over, what it is shown as: norm() is brought into its
 * normal form, and sym() becomes the name, a string. What has no such parts stays. Valid until the
 * next call. False without memory.
 */
bool keys_show(struct shown_keys *shown, const uint8_t **key, size_t *bytes);

#endif
