/* SPDX-License-Identifier: MIT */
/* Keys: values that are taken from events. */
#ifndef LIBPROBE_STREAM_KEY_H
#define LIBPROBE_STREAM_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"
#include "probe/event.h"

/* KEY_SYMBOL: an argument that was recorded as sym(argN). */
enum key_kind { KEY_ARG, KEY_STRING, KEY_NORM, KEY_SYMBOL, KEY_TID, KEY_PID, KEY_CPU, KEY_COMM };

struct key {
	enum key_kind kind;
	uint8_t arg;
};

/*
 * Parses argN, str(argN), norm(str(argN)), sym(argN), tid, pid, cpu or comm. Errors:
 * PROBE_ERROR_USAGE.
 */
PROBE_MUST_CHECK struct probe_error *key_parse(const char *text, size_t length, struct key *ret);
/* False where the event has no such value; bytes are the event's. */
bool key_value(const struct key *key, const struct probe_event *event, struct probe_value *ret);
/*
 * Of norm(str(argN)): brings that value, which is the whole string so far, into its normal form, in
 * `room`. Other keys' values stay. False without memory.
 */
PROBE_MUST_CHECK bool key_normalize(
	const struct key *key, struct probe_value *value, struct buffer *room);
bool key_same(const struct key *a, const struct key *b);
void key_print(struct buffer *out, const struct key *key);
/* That no hit has a value for it: a mistake of whoever named it. */
PROBE_MUST_CHECK struct probe_error *key_not_found(const struct key *key);

#endif
