/* SPDX-License-Identifier: MIT */
/* Which arguments the records of a site hold, and what they are called. */
#include <string.h>

#include "libprobe/query/query.h"
#include "libprobe/session/session.h"

/*
 * Notes which arguments the hits of a probe show. Without names, if what its sites have as
 * arguments has not the same meaning.
 */
static void note_meaning(struct probe_session *s, const struct session_site *site,
	const struct probe_meaning *meaning, const struct capture *shown, size_t count)
{
	struct probe_session_probe *probe = &s->probes[site->probe];
	bool is_first = site == s->sites || site[-1].probe != site->probe;

	probe->meaning = is_first || probe->meaning == meaning ? meaning : NULL;
	for (size_t i = 0; i < PROBE_ARGS_MAX; i++)
		probe->args[i] = shown && i < count ? shown[i].arg : (unsigned char)i;
}

/*
 * Whether there is room for what nobody has asked for: strings of known probes. What is kept of
 * begins has its size from the start.
 */
static bool has_room(const struct probe_session *s, enum pair_role role, size_t bytes)
{
	size_t room = s->options.spans ? RING_RECORD_MAX / 2 : RING_RECORD_MAX;

	if (s->id && s->options.spans && role == PAIR_BEGIN && s->keep_bytes < room)
		room = s->keep_bytes;
	return bytes + sizeof(struct probe_begun) <= room;
}

/* Its record has the arguments of another probe, so there is no list of its own. */
static struct probe_error *check_taking(
	const struct probe_pattern *pattern, const struct select_probe *probe)
{
	if (!pattern_is_exact(pattern) || !pattern_has_captures(pattern))
		return NULL;
	return probe_error_new(PROBE_ERROR_USAGE,
		"%s:%s takes the arguments of another probe here: give that one the list, not '%s'",
		probe->provider, probe->name, probe_pattern_text(pattern));
}

void session_name_taken(struct probe_session *s)
{
	for (size_t i = 0; i < s->probe_count; i++)
		for (size_t k = 0; s->known[i].part.takes && k < s->probe_count; k++) {
			if (!s->known[k].part.gives ||
				s->known[k].part.pair != s->known[i].part.pair)
				continue;
			s->probes[i].meaning = s->probes[k].meaning;
			memcpy(s->probes[i].args, s->probes[k].args, sizeof(s->probes[i].args));
		}
}

struct probe_error *session_choose_captures(struct probe_session *s,
	const struct select_probe *probe, const struct record_layout_site *args,
	struct session_site *site)
{
	const struct probe_pattern *pattern = s->patterns[probe->pattern];
	const struct probe_meaning *meaning = probe_catalogue_find(
		s->options.catalogue, probe->provider, probe->name, args->count);
	struct capture captures[CAPTURES_MAX], *wanted = captures;
	struct probe_error *error = NULL;
	size_t count = 0;

	if (s->known[site->probe].part.takes)
		error = check_taking(pattern, probe);
	else if (pattern_has_captures(pattern))
		error = pattern_captures(
			pattern, probe->provider, probe->name, args->count, true, captures, &count);
	else if (meaning && s->options.described)
		count = meaning_captures(meaning, args->count, captures);
	else if (meaning && s->options.texts && !s->options.guess_strings)
		count = meaning_captures_all(meaning, args->count, captures);
	else
		wanted = NULL;
	if (error)
		return error;
	record_layout_init(&site->layout, args, wanted, count, &s->options);
	if (wanted && !pattern_has_captures(pattern) &&
		!has_room(s, s->known[site->probe].part.role, record_layout_bytes(&site->layout))) {
		wanted = NULL;
		record_layout_init(&site->layout, args, NULL, 0, &s->options);
	}
	note_meaning(s, site, meaning, wanted, count);
	return NULL;
}
