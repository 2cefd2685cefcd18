/* SPDX-License-Identifier: MIT */
/*
 * The agent's loop. What it has is made to be what the file has:
 *
 *	the file, read again	what it has
 *	[a], as before		goes on, untouched
 *	[b], with other words	is asked to end; once it has, [b] begins as the file says
 *	no [c]			is asked to end, and forgotten
 *	[d], new		begins
 *	has a mistake		goes on; the mistake is reported
 *
 * Each session is a process of its own, so one that fails does not take others with it. To end is
 * the same as to read a file without sessions.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/agent/agent.h"
#include "cli/agent/notify.h"
#include "cli/agent/session.h"
#include "cli/agent/set.h"
#include "cli/agent/status.h"
#include "cli/cli.h"
#include "cli/loop.h"
#include "cli/timer.h"
#include "libprobe/base/array.h"

struct agent {
	const char *path;
	struct agent_session **sessions; /* each allocated: none moves */
	size_t count;
	struct status_server server;
	struct loop loop;
	bool reload, ending, gave_up;
};

/* ---- The set ---------------------------------------------------------------- */

static struct agent_session *find_wanted(const struct agent *agent, const char *name)
{
	for (size_t i = 0; i < agent->count; i++)
		if (!agent->sessions[i]->leaving &&
			strcmp(agent->sessions[i]->entry.name, name) == 0)
			return agent->sessions[i];
	return NULL;
}

static const struct set_entry *find_entry(const struct agent_set *set, const char *name)
{
	for (size_t i = 0; i < set->count; i++)
		if (strcmp(set->items[i].name, name) == 0)
			return &set->items[i];
	return NULL;
}

static struct probe_error *add_session(struct agent *agent, struct set_entry *entry)
{
	struct agent_session *session = malloc(sizeof(*session));

	if (!session || !ARRAY_ROOM(agent->sessions, agent->count)) {
		free(session);
		return probe_error_no_memory();
	}
	agent_session_init(session, entry);
	agent->sessions[agent->count++] = session;
	return NULL;
}

/* Makes the sessions be those of the set, whose new entries it takes. */
static struct probe_error *adopt(struct agent *agent, struct agent_set *set)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct probe_error *error = NULL;

	for (size_t i = 0; i < agent->count; i++) {
		struct agent_session *session = agent->sessions[i];
		const struct set_entry *entry = find_entry(set, session->entry.name);

		if (!session->leaving && !(entry && set_entry_same(entry, &session->entry)))
			agent_session_leave(session, now);
	}
	for (size_t i = 0; i < set->count && !error; i++)
		if (!find_wanted(agent, set->items[i].name))
			error = add_session(agent, &set->items[i]);
	return error;
}

/* ---- The loop --------------------------------------------------------------- */

static void notify(const char *state)
{
	int err = notify_service(state);

	if (err)
		report_warning("cannot tell systemd '%s': %s", state, strerror(err));
}

static void reload(struct agent *agent)
{
	struct agent_set set = {0};
	struct probe_error *error;
	char state[80];

	agent->reload = false;
	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
		(unsigned long long)(clock_ns(CLOCK_MONOTONIC) / 1000));
	notify(state);
	error = set_read(agent->path, &set);
	if (error)
		error = probe_error_prefix(error, "the sessions stay as they are");
	else
		error = adopt(agent, &set);
	if (error)
		report_error(error);
	set_deinit(&set);
	notify("READY=1");
}

static void end_all(struct agent *agent)
{
	struct agent_set none = {0};

	notify("STOPPING=1");
	agent->ending = true;
	/* Nothing is added, so nothing can fail. */
	probe_error_free(adopt(agent, &none));
}

/* Has another session of this name not ended yet? */
static bool is_first(const struct agent *agent, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (strcmp(agent->sessions[i]->entry.name, agent->sessions[index]->entry.name) == 0)
			return false;
	return true;
}

static void forget(struct agent *agent, size_t index)
{
	agent_session_deinit(agent->sessions[index]);
	free(agent->sessions[index]);
	memmove(&agent->sessions[index], &agent->sessions[index + 1],
		(--agent->count - index) * sizeof(agent->sessions[0]));
}

static void step(struct agent *agent)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < agent->count;) {
		struct agent_session *session = agent->sessions[i];

		agent->gave_up |= agent_session_step(session, now, is_first(agent, i));
		if (session->leaving && agent_session_is_over(session))
			forget(agent, i);
		else
			i++;
	}
}

static struct probe_error *sleep_until_due(struct agent *agent)
{
	for (size_t i = 0; i < agent->count; i++)
		agent_session_watch(agent->sessions[i], is_first(agent, i), &agent->loop);
	loop_watch(&agent->loop, agent->server.fd, POLLIN, NULL);
	return loop_sleep(&agent->loop);
}

static struct probe_error *keep_up(struct agent *agent)
{
	struct probe_error *error = NULL;

	step(agent);
	notify("READY=1");
	while (!error && !(agent->ending && !agent->count)) {
		error = sleep_until_due(agent);
		if (agent->loop.over && !agent->ending)
			end_all(agent);
		else if (agent->reload && !agent->ending)
			reload(agent);
		step(agent);
		status_answer(&agent->server, agent->sessions, agent->count);
	}
	return error;
}

struct probe_error *agent_run(const char *path, int *status_ret)
{
	struct agent agent = {.path = path, .server = {-1, -1}, .loop = {.signal_fd = -1}};
	struct agent_set set = {0};
	struct probe_error *error = set_read(path, &set);

	agent.loop.reload = &agent.reload;
	if (!error)
		error = adopt(&agent, &set);
	set_deinit(&set);
	if (!error)
		error = status_open(&agent.server);
	if (!error)
		error = loop_open(&agent.loop, NULL);
	if (!error)
		error = keep_up(&agent);
	while (agent.count)
		forget(&agent, 0);
	free(agent.sessions);
	status_close(&agent.server);
	loop_close(&agent.loop);
	if (agent.gave_up)
		*status_ret = STATUS_FAILED;
	return error;
}
