/* SPDX-License-Identifier: MIT */
/* Keys: values that are taken from events. */
#ifndef LIBPROBE_REPORT_KEY_H
#define LIBPROBE_REPORT_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"
#include "probe/catalogue.h"
#include "probe/event.h"

/* KEY_SYMBOL: an argument that was recorded as sym(argN). */
enum key_kind {
	KEY_ARG,
	KEY_STRING,
	KEY_NORM,
	KEY_SYMBOL,
	KEY_TID,
	KEY_PID,
	KEY_CPU,
	KEY_COMM,
	KEY_PROBE,
	KEY_NAME
};

struct key_name;
struct key {
	enum key_kind kind;
	uint8_t arg;	       /* of KEY_NAME: which of its owner's keys it is */
	struct key_name *name; /* of KEY_NAME (key_name.h); copies of the key borrow it */
};

/*
 * Parses argN, str(argN), norm(str(argN)), sym(argN), tid, pid, cpu, comm or probe; with a
 * catalogue, which is borrowed, also names of arguments in the place of argN and str(argN). `index`
 * is the number of the key among the owner's. To be freed with key_deinit(). Errors:
 * PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *key_parse(const char *text, size_t length,
	const struct probe_catalogue *catalogue, uint8_t index, struct key *ret);
void key_deinit(struct key *key);
/* The key by number that a name is for an event's probe; false if that has no such argument. */
bool key_resolve(const struct key *key, const struct probe_event *event, struct key *ret);
/* False where the event has no such value; bytes are the event's. */
bool key_value(const struct key *key, const struct probe_event *event, struct probe_value *ret);
/*
 * What is known of the argument that a key names, of this probe: a number may have a word; or NULL.
 */
const struct probe_arg_meaning *key_meaning(
	const struct key *key, const char *provider, const char *name);
/*
 * Completes a value that is made from the event's, in `room`: brings that of norm(str(argN)), which
 * is the whole string so far, into its normal form, and puts the provider before the name of the
 * probe. Other keys' values stay. False without memory.
 */
PROBE_MUST_CHECK bool key_complete(const struct key *key, const struct probe_event *event,
	struct probe_value *value, struct buffer *room);
bool key_is_norm(const struct key *key);
bool key_same(const struct key *a, const struct key *b);
void key_print(struct buffer *out, const struct key *key);
/* That a name is no argument of any probe that was looked at; NULL: it is one, or no name. */
PROBE_MUST_CHECK struct probe_error *key_unknown(const struct key *key);
/* That no hit has a value for it: a mistake of whoever named it. */
PROBE_MUST_CHECK struct probe_error *key_not_found(const struct key *key);

#endif
