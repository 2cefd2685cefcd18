/* SPDX-License-Identifier: MIT */
/* Errors and warnings of the command line, on standard error. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/print/print.h"

int report_error(struct probe_error *error)
{
	int status = error->code == PROBE_ERROR_USAGE ? STATUS_USAGE : STATUS_FAILED;

	fflush(stdout);
	/* Names in it may come from a file or a target, and hold any byte. */
	fputs("probectl: ", stderr);
	print_printable(stderr, error->message);
	fputc('\n', stderr);
	probe_error_free(error);
	return status;
}

void report_warning(const char *format, ...)
{
	va_list ap;
	char *text;
	int length;

	va_start(ap, format);
	length = vasprintf(&text, format, ap);
	va_end(ap);
	fputs("probectl: warning: ", stderr);
	print_printable(stderr, length < 0 ? format : text);
	fputc('\n', stderr);
	if (length >= 0)
		free(text);
}
