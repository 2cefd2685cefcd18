/* SPDX-License-Identifier: MIT */
/*
 * Sessions that share stubs. Each site has one stub for all of them, with an action for each, so a
 * hit saves registers, reads arguments and samples once (arch/stub.h).
 *
 * The first of the sessions, the leader, is what the registry and other controllers see: it has the
 * stubs, the gates and the memory. The others are its members. A member is a session like any other
 * for those who read it: it has probes, expressions and a part of the leader's memory with slots,
 * cells, a table of start events, or rings. They all end at once, because their stubs do.
 *
 * Only one session records, because a stub has one layout of records. The expressions of the others
 * use its captures, and add those that they need besides.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "libprobe/session/session.h"

/* ==== Which sessions go together ============================================================== */

/* Returns true if a session with these options can share its stubs at all. */
static bool may_share(const struct probe_session_options *o)
{
	return !o->overwrite && !o->file && !o->switched && !o->until_full && !o->filter_value &&
	       !o->begin_stacks && o->stack == PROBE_STACK_NONE &&
	       /* probes without a partner are dropped for one session and not for the other */
	       o->gather.pairing != PROBE_PAIRING_NAMES &&
	       /* the filter of a pair is for its start event, or for both events */
	       (!o->filter || o->gather.pairing == PROBE_PAIRING_NONE);
}

bool session_go_together(
	const struct probe_session_options *a, const struct probe_session_options *b)
{
	return may_share(a) && may_share(b) && !a->filter == !b->filter &&
	       (!a->filter || !strcmp(a->filter, b->filter)) &&
	       a->sample_every == b->sample_every && a->sample_rate == b->sample_rate &&
	       a->string_bytes == b->string_bytes && a->catalogue == b->catalogue &&
	       a->follow_libraries == b->follow_libraries &&
	       a->follow_children == b->follow_children &&
	       (a->kind != PROBE_SESSION_RECORD || b->kind != PROBE_SESSION_RECORD);
}

struct probe_error *session_join(
	struct probe_session *const *sessions, size_t count, struct probe_session **leader_ret)
{
	struct probe_session *leader = sessions[0];
	size_t keeping = 0;

	*leader_ret = leader;
	if (count == 1)
		return NULL;
	for (size_t i = 0; i < count; i++)
		keeping += sessions[i]->asked.kept_count > 0;
	/* Memory that is allocated in advance has no room to waste between parts. */
	if (keeping > 1 || overcommit_is_strict())
		return probe_error_new(
			PROBE_ERROR_UNSUPPORTED, "the sessions cannot share their stubs");
	leader->group.recorder = leader;
	for (size_t i = 0; i < count; i++) {
		if (sessions[i]->options.kind == PROBE_SESSION_RECORD)
			leader->group.recorder = sessions[i];
		if (i == 0)
			continue;
		sessions[i]->group.leader = leader;
		leader->group.members[leader->group.member_count++] = sessions[i];
		/* One watch serves all, and the leader has the gates. */
		if (sessions[i]->options.watch)
			leader->options.watch = sessions[i]->options.watch;
		sessions[i]->options.watch = NULL;
	}
	return NULL;
}

/* ==== Members ================================================================================= */

struct probe_error *session_take_part(struct probe_session *s)
{
	struct probe_error *error;

	s->id = s->group.leader->id;
	s->data.fd = fcntl(s->group.leader->data.fd, F_DUPFD_CLOEXEC, 0);
	if (s->data.fd < 0)
		return probe_error_system(errno, "cannot copy a descriptor");
	error = rings_open(s->data.fd, &s->group.part.layout, &s->data.rings);
	s->data.view = (struct snapshot){
		.base = s->data.rings.base, .fd = s->data.fd, .layout = s->data.rings.layout};
	return error ? error : session_open_wait(s);
}

void session_note_end(struct probe_session *s, const struct probe_error *why)
{
	for (size_t m = 0; m < s->group.member_count; m++)
		if (!s->group.members[m]->group.ended)
			s->group.members[m]->group.ended =
				probe_error_new(why->code, "%s", why->message);
}

void session_leave_group(struct probe_session *s)
{
	struct probe_session *leader = s->group.leader;

	for (size_t m = 0; m < s->group.member_count; m++)
		s->group.members[m]->group.leader = NULL;
	s->group.member_count = 0;
	probe_error_free(s->group.ended);
	for (size_t m = 0; leader && m < leader->group.member_count; m++) {
		if (leader->group.members[m] != s)
			continue;
		leader->group.members[m] = leader->group.members[--leader->group.member_count];
		if (leader->group.recorder == s)
			leader->group.recorder = leader;
		break;
	}
	s->group.leader = NULL;
}
