/* SPDX-License-Identifier: MIT */
/* Declarations that all commands of probectl share. */
#pragma once

#include "libprobe/base/error.h"

enum { NSEC_PER_SEC = 1000000000, NSEC_PER_MSEC = 1000000 };

enum exit_status {
	STATUS_DONE = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_CANNOT_RUN = 126, /* the program exists but cannot be started */
	STATUS_NO_PROGRAM = 127,
	STATUS_SIGNAL = 128 /* added to the number of the signal that ended the program */
};

/*
 * Runs a command, whose name is argv[0]. Sets the exit status, or returns an error, which main()
 * reports; its exit status is STATUS_USAGE for PROBE_ERROR_USAGE, otherwise STATUS_FAILED.
 */
typedef struct probe_error *command_fn(int argc, char **argv, int *status_ret);

struct command {
	const char *name;
	const char *help; /* the command's help text, one line */
	command_fn *run;
};

command_fn cmd_list;
command_fn cmd_status;
command_fn cmd_enable;
command_fn cmd_disable;
command_fn cmd_repair;
command_fn cmd_read;
command_fn cmd_run;
command_fn cmd_trace;
command_fn cmd_record;
command_fn cmd_export;
command_fn cmd_report;
command_fn cmd_top;

/* Makes an error about what the user typed; the arguments are those of printf(3). */
#define usage_error(...) probe_error_new(PROBE_ERROR_USAGE, __VA_ARGS__)

/* Prints "probectl: MESSAGE" on standard error, frees the error, and returns its exit status. */
int report_error(struct probe_error *error);

/* Prints "probectl: warning: ..." on standard error. */
void report_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
