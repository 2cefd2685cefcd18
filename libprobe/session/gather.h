/* SPDX-License-Identifier: MIT */
/* Reading what a session has gathered; see also probe_session_rows(). */
#ifndef LIBPROBE_SESSION_GATHER_H
#define LIBPROBE_SESSION_GATHER_H

#include "probe/target.h"

/* Sets the hits of all probes of a PROBE_SESSION_GATHER. */
void gather_count(struct probe_session *session);

/* What has begun and not ended, for each pair. The caller frees it; NULL without memory. */
uint64_t *gather_flights(struct probe_session *session);

#endif
