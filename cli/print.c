/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/out.h"
#include "cli/print.h"

/* ---- Text --------------------------------------------------------------------- */

char *printable(const char *text)
{
	struct out out = {0};

	out_printable(&out, text);
	out_char(&out, '\0');
	if (!out.no_memory)
		return out.data;
	out_deinit(&out);
	return NULL;
}

void print_bad_site(const struct probe_bad_site *site, pid_t pid, const char *consequence)
{
	char fault[PROBE_FAULT_BYTES];

	probe_fault_text(fault, site->fault, site->bytes, site->length);
	fprintf(stderr, "probectl: process %d: ", (int)pid);
	if (site->name) {
		print_printable(stderr, site->provider);
		putc(':', stderr);
		print_printable(stderr, site->name);
	} else {
		fputs("the place where what is opened or started is noticed", stderr);
	}
	fprintf(stderr, " at 0x%" PRIx64 " in ", site->pc);
	print_printable(stderr, site->path);
	fprintf(stderr, ": %s%s\n", fault, consequence);
}

void print_printable(FILE *stream, const char *text)
{
	char *copy = printable(text);

	fputs(copy ? copy : "(out of memory)", stream);
	free(copy);
}
