/* SPDX-License-Identifier: MIT */
/* One session of the agent: a probectl of its own, from one start to the next. */
#ifndef CLI_AGENT_SESSION_H
#define CLI_AGENT_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/agent/relay.h"
#include "cli/agent/set.h"

struct loop;

enum session_state {
	SESSION_WAITS,	 /* begins at due_ns */
	SESSION_RUNS,	 /* pid */
	SESSION_REQUEST, /* runs, and has been asked to end */
	SESSION_ENDED	 /* is not begun again */
};

struct agent_session {
	struct set_entry entry; /* owned */
	enum session_state state;
	bool leaving; /* it is no longer wanted: once it has ended, it is forgotten */
	pid_t pid;
	uint64_t due_ns, began_ns, kill_ns; /* CLOCK_MONOTONIC */
	uint64_t pause_ns;		    /* before it is begun again */
	int64_t since;			    /* of this state: seconds of CLOCK_REALTIME */
	unsigned int restarts;
	struct relay out, err;
	char message[RELAY_LAST_BYTES]; /* why it is not running */
};

/* Takes the entry over, and leaves {0}. It waits, and is due at once. */
void agent_session_init(struct agent_session *session, struct set_entry *entry);
/* It must have no process. */
void agent_session_deinit(struct agent_session *session);

/*
 * Does what is due: notices its end, begins it (if it `may`), gives up what does not end in time
 * when it is asked to. What fails is the session's message, and is reported. True if it gave up.
 */
bool agent_session_step(struct agent_session *session, uint64_t now_ns, bool may);

/* It is no longer wanted: asks its process to end, so that it completes what it has gathered. */
void agent_session_leave(struct agent_session *session, uint64_t now_ns);

/* Has nothing of it remained, neither a process nor output that is to be passed on? */
bool agent_session_is_over(const struct agent_session *session);

/* Ends the next sleep when something is to be done; `may` as for agent_session_step(). */
void agent_session_watch(const struct agent_session *session, bool may, struct loop *loop);

/* What state it is in, in a word or two; and what it has said last. */
const char *agent_session_state_text(const struct agent_session *session);
const char *agent_session_message(const struct agent_session *session);

#endif
