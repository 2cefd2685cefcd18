/* SPDX-License-Identifier: MIT */
/*
 * A standard error stream that never blocks. The reader of standard error may have stopped
 * reading, for example a supervisor with a pipe, or a terminal after Ctrl-S. If a message blocked
 * us, probes would stay enabled.
 */
#ifndef CLI_PRINT_MESSAGES_H
#define CLI_PRINT_MESSAGES_H

/* Replaces `stderr` by a stream that never blocks. On lack of memory, does nothing. */
void messages_begin(void);
/* Writes as many waiting messages as standard error accepts without blocking. */
void messages_retry(void);
/*
 * Call it before the process exits. Waits a moment for a slow reader. Messages that are then still
 * waiting are lost.
 */
void messages_end(void);

#endif
