/* SPDX-License-Identifier: MIT */
/* Output functions for all commands: messages and safe text. */
#ifndef CLI_PRINT_PRINT_H
#define CLI_PRINT_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "libprobe/base/error.h"
#include "probe/target.h"

/*
 * A start of a message that says that a process or a file could not be read completely. The name
 * of the process or file follows.
 */
#define READ_OF "what can be read of "

/* Arguments for the format "%zu site%s": a number, and the ending of the noun for this number. */
#define COUNTED(count) (count), (count) == 1 ? "" : "s"

/* ---- Text --------------------------------------------------------------------- */

/* Writes a text to a stream, escaped as by buffer_printable(). */
void print_printable(FILE *stream, const char *text);

/*
 * Reports on standard error that another program has changed a site: "probectl: slow:tick at 0x...
 * in PATH: it holds cc ...".
 */
void print_bad_site(const struct probe_bad_site *site, pid_t pid, const char *consequence);

/*
 * Reports on standard error that a session has found a change of a site: another program has
 * changed it, or it is intact again. The message tells when this was found.
 */
void print_site_news(const struct probe_site_news *news, pid_t pid);

#endif
