/* SPDX-License-Identifier: MIT */
/*
 * A standard error stream that never blocks. Its reader may have stopped reading (the pipe of a
 * supervisor, a terminal after Ctrl-S), and a blocked message would keep probes enabled.
 */
#ifndef CLI_PRINT_MESSAGES_H
#define CLI_PRINT_MESSAGES_H

/* Replaces `stderr` by a stream that never blocks. On lack of memory, `stderr` stays unchanged. */
void messages_begin(void);
/* Writes as many waiting messages as standard error accepts without blocking. */
void messages_retry(void);
/*
 * Call it before the process exits. Waits a moment for a slow reader; remaining messages are
 * lost.
 */
void messages_end(void);

#endif
