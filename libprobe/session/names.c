/* SPDX-License-Identifier: MIT */
/* sym(argN): addresses by their names, in what hits show and as keys. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "libprobe/session/session.h"
#include "libprobe/registry/registry.h"

static bool wants_names(const struct probe_session *s)
{
	bool ret = s->options.stack != PROBE_STACK_NONE || s->asked.ustack;

	for (size_t i = 0; i < s->asked.key_count; i++)
		ret |= s->asked.key_symbol[i];
	for (size_t i = 0; i < s->request.pattern_count; i++)
		ret |= pattern_has_symbols(s->patterns[i]);
	return ret;
}

struct probe_error *session_names_start(struct probe_session *session)
{
	const struct naming_options options = {.lines = session->options.lines};

	if (session->naming || !wants_names(session))
		return NULL;
	return naming_create(session->target->pid, options, &session->naming);
}

const char *session_name(
	const struct probe_session *session, uint64_t address, char room[SESSION_NAME_ROOM])
{
	const char *name = session->naming ? naming_name(session->naming, address) : NULL;

	if (!name)
		snprintf(room, SESSION_NAME_ROOM, "%#" PRIx64, address);
	return name ? name : room;
}

void session_name_values(const struct probe_session *session, const struct record_layout *layout,
	struct probe_value *values, char (*rooms)[SESSION_NAME_ROOM])
{
	for (size_t i = 0; i < layout->arg_count; i++) {
		struct probe_value *value = &values[i];

		if (!layout->args[i].is_symbol ||
			(value->kind != PROBE_VALUE_SIGNED && value->kind != PROBE_VALUE_UNSIGNED))
			continue;
		value->kind = PROBE_VALUE_TEXT;
		value->bytes = session_name(session, value->u, rooms[i]);
		value->length = strlen(value->bytes);
	}
}
