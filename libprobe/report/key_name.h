/* SPDX-License-Identifier: MIT */
/* Keys that are names of the catalogue, which are other arguments of each probe. */
#ifndef LIBPROBE_REPORT_KEY_NAME_H
#define LIBPROBE_REPORT_KEY_NAME_H

#include "libprobe/report/key.h"
#include "probe/catalogue.h"

struct key_name;

/*
 * Whether a text is NAME, str(NAME), norm(NAME) or norm(str(NAME)), as far as its form goes: which
 * probes have such an argument is known only when they come.
 */
bool key_name_is(const char *text, size_t length);

/* For such a text. The catalogue is borrowed. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *key_name_create(const char *text, size_t length,
	const struct probe_catalogue *catalogue, struct key_name **ret);
void key_name_free(struct key_name *name);

const char *key_name_text(const struct key_name *name);
bool key_name_is_norm(const struct key_name *name);

/* The key by number that it is for the probe of a hit; false if that has no such argument. */
bool key_name_find(struct key_name *name, const struct probe_event *event, struct key *ret);

/* What is known of the argument of a probe, if the name is alone; or NULL. */
const struct probe_arg_meaning *key_name_meaning(
	const struct key_name *name, const char *provider, const char *probe);

/* Why key_name_find() has found nothing so far; NULL: it has, or was not asked. */
struct probe_error *key_name_missing(const struct key_name *name);

#endif
