/* SPDX-License-Identifier: MIT */
/*
 * Standard error that never blocks. Whoever reads it may have stopped to (a pipe of a supervisor, a
 * terminal after Ctrl-S), and a message must not keep probes on.
 */
#ifndef CLI_PRINT_MESSAGES_H
#define CLI_PRINT_MESSAGES_H

/* From here on, `stderr` is such a stream. Without memory, it stays what it was. */
void messages_begin(void);
/* Writes messages that had to wait, as far as there is room now. */
void messages_retry(void);
/*
 * Before the process ends: gives a slow reader some time. Messages that it does not take by then
 * are lost.
 */
void messages_end(void);

#endif
