/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_PTRACE_SIGNALS_H
#define LIBPROBE_PTRACE_SIGNALS_H

#include <stdbool.h>

/*
 * The kernel notifies a tracer with SIGCHLD. Sleeping until it arrives gives the processor to the
 * thread at once; waitpid(2) would do so, too, but has no time limit. Between _take and _give the
 * signal is blocked. At the end, the signals that _wait has taken are raised again, so that the
 * caller misses no child of its own. Initialise with {0}. A second _take does nothing.
 */
struct control_signals {
	bool in_force;
	bool is_blocked; /* by us */
	bool taken;
};
void control_signals_take(struct control_signals *signals);
/* Sleeps until it arrives, for at most a millisecond; false if it did not. */
bool control_signals_wait(struct control_signals *signals);
void control_signals_give(struct control_signals *signals);

#endif
