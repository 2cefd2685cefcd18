/* SPDX-License-Identifier: MIT */
/*
 *	            begun                  status 0, or 2
 *	waits -----------------> runs -------------------------> ended
 *	  ^                      | |
 *	  |    another status    | | agent_session_leave()
 *	  '----------------------' v
 *	   1 s ... 60 s later   asked to end ---> ended
 *
 * It is asked to end by SIGTERM, on which it completes its tables and records and restores its
 * targets; a program that it has started gets the signal from it. (SIGINT would be for probectl
 * alone, which would wait for the program.) The same signal comes if the agent dies in whatever
 * way (PR_SET_PDEATHSIG): nothing runs that nobody watches.
 *
 * Status 2 means that the command is wrong, which it would be again.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/agent/session.h"
#include "cli/agent/start.h"
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/loop.h"
#include "cli/timer.h"

#define PAUSE_FIRST_NS ((uint64_t)NSEC_PER_SEC)
#define PAUSE_LAST_NS (60 * (uint64_t)NSEC_PER_SEC)
/* After so long, an end has another cause than the one before. */
#define RAN_LONG_NS (60 * (uint64_t)NSEC_PER_SEC)
#define ENDING_NS (20 * (uint64_t)NSEC_PER_SEC)

static void set_state(struct agent_session *session, enum session_state state)
{
	session->state = state;
	session->since = (int64_t)time(NULL);
}

void agent_session_init(struct agent_session *session, struct set_entry *entry)
{
	*session = (struct agent_session){
		.entry = *entry,
		.pause_ns = PAUSE_FIRST_NS,
		.out = {.fd = -1, .to = STDOUT_FILENO},
		.err = {.fd = -1, .to = STDERR_FILENO},
	};
	*entry = (struct set_entry){0};
	set_state(session, SESSION_WAITS);
}

void agent_session_deinit(struct agent_session *session)
{
	relay_close(&session->out);
	relay_close(&session->err);
	set_entry_deinit(&session->entry);
}

static bool has_process(const struct agent_session *session)
{
	return session->state == SESSION_RUNS || session->state == SESSION_REQUEST;
}

bool agent_session_is_over(const struct agent_session *session)
{
	return !has_process(session) && session->out.fd < 0 && session->err.fd < 0;
}

/* ---- Begin and end ---------------------------------------------------------- */

/* Begins it again later; the longer, the more often it has failed. */
static void wait_again(struct agent_session *session, uint64_t now_ns)
{
	set_state(session, SESSION_WAITS);
	session->due_ns = now_ns + session->pause_ns;
	report_warning("[%s] %s; it begins again in %u s", session->entry.name, session->message,
		(unsigned int)(session->pause_ns / NSEC_PER_SEC));
	session->pause_ns *= 2;
	if (session->pause_ns > PAUSE_LAST_NS)
		session->pause_ns = PAUSE_LAST_NS;
	session->restarts++;
}

static void begin(struct agent_session *session, uint64_t now_ns)
{
	struct probe_error *error =
		start_session(&session->entry, &session->out, &session->err, &session->pid);

	session->err.last[0] = session->message[0] = '\0';
	if (!error) {
		session->began_ns = now_ns;
		set_state(session, SESSION_RUNS);
		return;
	}
	snprintf(session->message, sizeof(session->message), "%s", error->message);
	probe_error_free(error);
	wait_again(session, now_ns);
}

/* Words of probectl's own: with a program behind `--`, a status is that one's. */
static bool is_wrong_usage(const struct agent_session *session, int status)
{
	for (size_t i = 0; i < session->entry.word_count; i++)
		if (strcmp(session->entry.words[i], "--") == 0)
			return false;
	return status == STATUS_USAGE;
}

static void note_end(struct agent_session *session, int status, uint64_t now_ns)
{
	if (status > STATUS_SIGNAL)
		snprintf(session->message, sizeof(session->message), "was killed by SIG%s",
			sigabbrev_np(status - STATUS_SIGNAL) ?: "?");
	else
		snprintf(session->message, sizeof(session->message), "has ended with status %d",
			status);
	session->pid = 0;
	if (session->leaving || status == STATUS_DONE) {
		set_state(session, SESSION_ENDED);
		/* Before it had anything to complete, the signal alone ends it. */
		if (status != STATUS_DONE && status != STATUS_SIGNAL + SIGTERM)
			report_warning("[%s] %s when it was asked to end", session->entry.name,
				session->message);
	} else if (is_wrong_usage(session, status)) {
		set_state(session, SESSION_ENDED);
		report_warning("[%s] cannot run as it is written; correct it and reload",
			session->entry.name);
	} else {
		if (now_ns - session->began_ns >= RAN_LONG_NS)
			session->pause_ns = PAUSE_FIRST_NS;
		wait_again(session, now_ns);
	}
}

void agent_session_leave(struct agent_session *session, uint64_t now_ns)
{
	session->leaving = true;
	session->kill_ns = now_ns + ENDING_NS;
	if (session->state == SESSION_RUNS) {
		kill(session->pid, SIGTERM);
		set_state(session, SESSION_REQUEST);
	} else if (session->state == SESSION_WAITS) {
		set_state(session, SESSION_ENDED);
	}
}

static bool is_due(const struct agent_session *session, uint64_t now_ns)
{
	return session->state == SESSION_WAITS && agent_session_is_over(session) &&
	       now_ns >= session->due_ns;
}

/*
 * It has not ended in time, or our own output does not take what it has printed. SIGKILL harms no
 * target: what is left in one goes with the next change of it.
 */
static void give_up(struct agent_session *session)
{
	unsigned int seconds = ENDING_NS / NSEC_PER_SEC;

	session->kill_ns += ENDING_NS;
	if (has_process(session)) {
		report_warning("[%s] process %d has not ended in %u s and is killed; 'probectl "
			       "repair' removes what it leaves",
			session->entry.name, (int)session->pid, seconds);
		kill(session->pid, SIGKILL);
		return;
	}
	report_warning("[%s] the last of its output is lost: it could not be written in %u s",
		session->entry.name, seconds);
	relay_close(&session->out);
	relay_close(&session->err);
}

bool agent_session_step(struct agent_session *session, uint64_t now_ns, bool may)
{
	bool late;
	int status;

	if (has_process(session) && child_ended(session->pid, &status))
		note_end(session, status, now_ns);
	relay_pass(&session->out, session->entry.name, !has_process(session));
	relay_pass(&session->err, session->entry.name, !has_process(session));
	late = session->leaving && now_ns >= session->kill_ns && !agent_session_is_over(session);
	if (late)
		give_up(session);
	if (may && is_due(session, now_ns))
		begin(session, now_ns);
	return late;
}

void agent_session_watch(const struct agent_session *session, bool may, struct loop *loop)
{
	relay_watch(&session->out, loop);
	relay_watch(&session->err, loop);
	if (may && is_due(session, UINT64_MAX))
		loop_until(loop, session->due_ns);
	if (session->leaving)
		loop_until(loop, session->kill_ns);
}

/* ---- What is said of it ----------------------------------------------------- */

const char *agent_session_state_text(const struct agent_session *session)
{
	static const char *const texts[] = {
		[SESSION_WAITS] = "waiting",
		[SESSION_RUNS] = "running",
		[SESSION_REQUEST] = "ending",
		[SESSION_ENDED] = "ended",
	};

	return texts[session->state];
}

const char *agent_session_message(const struct agent_session *session)
{
	return session->err.last[0] ? session->err.last : session->message;
}
