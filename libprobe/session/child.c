/* SPDX-License-Identifier: MIT */
/*
 * Forked children inherit the code of the session, and count and record with it. Libraries that
 * they open later themselves are not probed, because only one process, the target, assigns numbers
 * to sites and counters. So such libraries are reported.
 */
#include <string.h>

#include "libprobe/patch/patch.h"
#include "libprobe/session/session.h"
#include "libprobe/registry/registry.h"

static const char reason[] =
	"a forked child has opened it: what children open by themselves is not traced";

/* Another child, or the target before, may have opened the same library. */
static bool is_told(
	const struct probe_report *report, const struct select_probe *probe, const char *why)
{
	for (size_t i = 0; i < report->refusal_count; i++) {
		const struct probe_refusal *r = &report->refusals[i];

		if (strcmp(r->reason, why) == 0 && strcmp(r->provider, probe->provider) == 0 &&
			strcmp(r->name, probe->name) == 0 &&
			strcmp(r->path, probe->module->path) == 0)
			return true;
	}
	return false;
}

struct probe_error *session_refuse(
	struct probe_session *s, const struct selection *selection, const char *why)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < selection->probe_count && !error; i++) {
		struct select_probe probe = selection->probes[i];

		if (is_told(&s->report, &probe, why))
			continue;
		/* Each is reported as a failure, as if it were named: rows do not show it. */
		probe.exact = true;
		for (size_t k = 0; k < probe.site_count && !error; k++) {
			struct select_site site = selection->sites[probe.first_site + k];

			select_refuse(&site, why);
			error = report_refusal(&s->report, &probe, &site);
		}
	}
	return error;
}

/* With the child's state read and locked. */
static struct probe_error *look(struct probe_session *s, struct change *c)
{
	struct selection selection = {0};
	struct probe_error *error;

	/* Another program's wait for the same address. */
	if (!registry_session(&c->registry, s->id))
		return NULL;
	error = session_select_asked(s, c, &selection);
	if (!error) {
		session_keep_new(s, c, &selection);
		error = session_refuse(s, &selection, reason);
	}
	selection_deinit(&selection);
	return error;
}

struct probe_error *session_note_child(struct probe_session *session, pid_t pid)
{
	struct probe_target *child = NULL;
	struct probe_error *error = probe_target_open(pid, NULL, &child);
	struct change c;

	if (!error) {
		child->files = files_hold(session->target->files);
		error = change_begin(child, &c);
	}
	if (!error) {
		error = look(session, &c);
		change_end(&c);
	}
	probe_target_close(child);
	if (!error || error->code == PROBE_ERROR_MEMORY)
		return error;
	/* It has ended. */
	probe_error_free(error);
	return NULL;
}
