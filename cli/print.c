/* SPDX-License-Identifier: MIT */
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

void print_printable(FILE *stream, const char *text)
{
	char *copy = printable(text);

	fputs(copy ? copy : "(out of memory)", stream);
	free(copy);
}
