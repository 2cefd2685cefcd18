/* SPDX-License-Identifier: MIT */
/*
 * The program that `run` and `trace -- PROGRAM` start: the signals that it and
 * we are sent, its end, and what that means for our own exit status.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "probe/error.h"

/*
 * Blocks SIGINT, SIGQUIT, SIGTERM, SIGHUP and SIGCHLD, to be taken one by one
 * from signalfd(2) or sigwaitinfo(2); those that are ignored, but SIGINT, stay so
 * (nohup). *ret is what was blocked. To be called once a program has been
 * started, for it would inherit this.
 */
void signals_block(sigset_t *ret);

/*
 * Hands a signal that we got on to the program, where it has not got it itself:
 * what the terminal sends (SIGINT, SIGQUIT) goes to both of us anyway.
 */
void child_signal(pid_t pid, int signal);

/*
 * What a signal that we got means, which goes to the program, too, where there is one (else
 * `child` is 0): false where it is no reason for us to end.
 */
bool signal_ends(pid_t child, int signal);

/* Has the program ended? Its exit status, as a shell would show it, goes to *ret then. */
bool child_ended(pid_t pid, int *ret);

/*
 * Waits until the program has ended, handing signals on; `signals` is what
 * signals_block() gave. Returns its exit status as a shell would show it.
 */
int child_wait(pid_t pid, const sigset_t *signals);

/* Our exit status where the program could not be started. */
int child_spawn_status(const struct probe_error *error);

#endif
