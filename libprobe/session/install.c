/* SPDX-License-Identifier: MIT */
/* Selects and installs a session's probes: those of its start, and those that come later. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/session/session.h"

enum { SPARE_PROBES = 4096 /* counters for probes of later libraries */ };

struct probe_error *session_select_asked(
	const struct probe_session *s, struct change *c, struct selection *ret)
{
	struct probe_error *error;

	if (!s->request.pattern_count)
		return NULL;
	c->modules.catalogue = s->options.catalogue;
	error = recall_probes(&c->modules, c->pid, &c->maps, &c->registry)
			?: select_probes(&c->modules, s->patterns, s->request.pattern_count, ret);
	if (!error)
		later_drop(s->target, &s->request, ret);
	return error ?: many_check(c->pid, &s->request, ret);
}

/* Gives a member its part of the leader's memory, which exists now. */
static struct probe_error *take_part(struct probe_session *s)
{
	struct probe_error *error;

	s->id = s->group.leader->id;
	s->data.fd = fcntl(s->group.leader->data.fd, F_DUPFD_CLOEXEC, 0);
	if (s->data.fd < 0)
		return probe_error_system(errno, "cannot copy a descriptor");
	error = rings_open(s->data.fd, &s->group.part.layout, &s->data.rings);
	s->data.view = (struct snapshot){
		.base = s->data.rings.base, .fd = s->data.fd, .layout = s->data.rings.layout};
	return error ?: session_open_wait(s);
}

struct probe_error *session_take_probes(
	struct probe_session *s, const struct registry *registry, const struct selection *selection)
{
	size_t first = s->probe_count - selection->probe_count;

	for (size_t i = 0; i < selection->probe_count; i++) {
		const struct select_probe *p = &selection->probes[i];
		const struct reg_probe *counted = registry_probe(registry, p->key, s->id);
		struct probe_coverage *coverage = &s->probes[first + i].coverage;

		if (!counted)
			return probe_error_no_memory();
		s->known[first + i].slot = counted->slot;
		*coverage = (struct probe_coverage){0};
		for (size_t k = 0; k < p->site_count; k++) {
			uint64_t pc = selection->sites[p->first_site + k].pc;
			size_t count = 0;
			const struct reg_stub *stubs =
				pc ? registry_stubs(registry, pc, &count) : NULL;
			bool has_stub = false;

			for (size_t m = 0; m < count; m++)
				has_stub |= stubs[m].session == s->id && stubs[m].key == p->key;
			coverage->sites += pc != 0;
			/* Sites without a stub were refused. */
			coverage->refused += pc && !has_stub;
		}
		for (size_t m = 0; m < s->group.member_count; m++) {
			struct probe_session *member = s->group.members[m];

			member->known[first + i].slot = counted->slot;
			member->probes[first + i].coverage = *coverage;
		}
	}
	return NULL;
}

/*
 * Maps the session's memory and takes over its probes before any site leads to its stubs: if this
 * fails, nothing is on. For struct install.
 */
static struct probe_error *take_session(void *data, struct install *install)
{
	const struct registry *registry = &install->change->registry;
	struct probe_session *s = data;
	struct probe_error *error = NULL;

	s->id = install->session;
	if (install->data.fd >= 0) {
		error = rings_open(
			install->data.fd, registry_session(registry, s->id), &s->data.rings);
		if (error)
			return error;
		s->data.fd = install->data.fd;
		install->data.fd = -1;
		s->data.view = (struct snapshot){.base = s->data.rings.base,
			.fd = s->data.fd,
			.layout = s->data.rings.layout};
		error = session_open_wait(s);
		for (size_t m = 0; m < s->group.member_count && !error; m++)
			error = take_part(s->group.members[m]);
		if (error)
			return error;
	}
	error = session_take_probes(s, registry, install->selection);
	return error || install->is_copy ? error : session_watch(s, registry);
}

struct probe_error *session_install(struct probe_session *s, struct change *c,
	struct selection *selection, struct probe_report *report)
{
	AUTO(transaction_end) struct transaction t = transaction_of(c, TRANSACTION_ADDS);
	AUTO(install_deinit) struct install install = session_attach(s, &t, selection);
	size_t probes = s->probe_count, sites = s->site_count;
	struct data_part *parts[ARCH_ACTIONS_MAX];
	struct probe_error *error = session_prepare(s, c, selection, report);

	install.stubs.first_site = sites;
	install.data.spare_probes = s->options.follow_libraries ? SPARE_PROBES : 1;
	install.data.needs = session_needs(s);
	install.data.needs.notes_bytes = error ? 0 : notes_bytes(s);
	if (!error && !s->id)
		error = session_fit(s, &install.data.needs,
			selection->probe_count + install.data.spare_probes, report);
	for (size_t m = 0; m < s->group.member_count && !error && !s->id; m++) {
		struct data_part *part = &s->group.members[m]->group.part;

		part->needs = session_needs(s->group.members[m]);
		parts[install.data.part_count++] = part;
		error = session_fit(s->group.members[m], &part->needs,
			selection->probe_count + install.data.spare_probes, report);
	}
	install.data.parts = parts;
	/* All sites may be refused, because later libraries may bring others. */
	install.served = s->options.follow_libraries;
	install.take = take_session;
	install.take_data = s;
	error = error ?: install_all(&install, report);
	if (error) {
		session_unprepare(s, probes, sites);
		if (!install.is_copy)
			probe_error_free(session_watch(s, &c->registry));
	} else if (install.is_copy) {
		/* The child has inherited the target's filters; nobody looks at later ones. */
		while (sites < s->site_count)
			s->sites[sites++].is_apart = true;
	} else {
		s->filters.stub_calls |= install.stubs.asks ? SECCOMP_ASK & c->seccomp.allowed : 0;
		s->filters.stub_calls |= install.stubs.asks_name ? SECCOMP_NAME : 0;
		s->filters.stub_calls |= install.stubs.asks_cpu ? SECCOMP_CPU : 0;
		s->filters.stub_calls |=
			install.stubs.asks_stack ? SECCOMP_STACK & c->seccomp.allowed : 0;
		s->filters.stub_calls |= install.stubs.waits ? SECCOMP_WAIT : 0;
	}
	for (size_t i = 0; i < s->request.pattern_count && !error; i++)
		s->matched[i] = s->matched[i] || selection->matched[i];
	for (size_t m = 0; m < s->group.member_count; m++)
		memcpy(s->group.members[m]->matched, s->matched, s->request.pattern_count);
	return error;
}

void session_keep_filters(struct probe_session *session, struct change *change)
{
	seccomp_deinit(&session->filters.known);
	session->filters.known = change->seccomp;
	change->seccomp = (struct seccomp){.pid = change->pid};
}
