/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/out.h"
#include "cli/print.h"
#include "probe/utf8.h"

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

/* ---- JSON ------------------------------------------------------------------------ */

json_t *json_text(const char *text)
{
	char *clean;
	json_t *json;

	if (!text)
		return json_null();
	/* NULL where the text is no UTF-8, or there is no memory. */
	json = json_string(text);
	if (json)
		return json;
	clean = probe_utf8_clean(text, strlen(text), NULL);
	json = clean ? json_string(clean) : NULL;
	free(clean);
	return json;
}

json_t *json_hex(uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	return json_string_nocheck(text);
}

struct probe_error *print_json(json_t *object)
{
	int status;

	if (!object)
		return probe_error_no_memory();
	/* A failure to write is reported once, when the program ends. */
	status = json_dumpf(object, stdout, JSON_COMPACT);
	json_decref(object);
	if (status != 0 && !ferror(stdout))
		return probe_error_no_memory();
	putchar('\n');
	return NULL;
}
