/* SPDX-License-Identifier: MIT */
/*
 * A standard error that never blocks. Its reader may have stopped reading (the pipe of a
 * supervisor, a terminal after Ctrl-S), and a blocked message would keep probes on.
 */
#ifndef CLI_PRINT_MESSAGES_H
#define CLI_PRINT_MESSAGES_H

/* Replaces `stderr` by such a stream. If there is no memory, `stderr` stays as it was. */
void messages_begin(void);
/* Writes as many of the waiting messages as standard error has room for. */
void messages_retry(void);
/*
 * Called before the process ends: waits a moment for a slow reader. The remaining messages are
 * lost.
 */
void messages_end(void);

#endif
