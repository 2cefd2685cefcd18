/* SPDX-License-Identifier: MIT */
/* A session's expressions with the names of arguments, which mean something else for each probe. */
#ifndef LIBPROBE_SESSION_NAMED_H
#define LIBPROBE_SESSION_NAMED_H

#include "libprobe/session/asked.h"

/*
 * As asked_init(); names of options->catalogue are replaced as for some probe that the patterns
 * match, which is enough to know what kinds of expressions there are.
 */
PROBE_MUST_CHECK struct probe_error *asked_init_named(struct asked *asked,
	const struct probe_session_options *options, const struct probe_pattern *const *patterns,
	size_t pattern_count);

/*
 * Finds the expressions for a probe with this part, which has `arg_count` arguments; the catalogue
 * gives them their names. Without names, *ret is `asked` itself; it is always owned by `asked`.
 * Errors: PROBE_ERROR_USAGE (the probe has no such name; it is a string for one probe and a number
 * for another), which name the probe; PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *asked_for(const struct asked *asked, struct pair_part part,
	const struct select_probe *probe, size_t arg_count, const struct asked **ret);

/*
 * Replaces the expressions of the options by what their names stand for, if that is the same for
 * all probes that were asked for. The texts are those of `asked`. Errors: PROBE_ERROR_USAGE (it is
 * not).
 */
PROBE_MUST_CHECK struct probe_error *asked_plain(
	const struct asked *asked, struct probe_session_options *options);

void asked_names_free(struct asked_names *names);

#endif
