/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio_ext.h>
#include <string.h>

#include "cli/print/out.h"
#include "libprobe/base/utf8.h"

/*
 * Returns the number of characters at the start of a text that need no escaping: printable ASCII.
 */
static size_t plain_length(const char *text)
{
	const char *at = text;

	while (*at >= ' ' && *at < 0x7f)
		at++;
	return (size_t)(at - text);
}

size_t out_printable(struct buffer *out, const char *text)
{
	size_t width = 0;

	for (;;) {
		size_t step = plain_length(text), before;

		buffer_bytes(out, text, step);
		width += step;
		text += step;
		if (!*text)
			return width;
		/*
		 * Check at most four bytes, the maximum length of a character. strnlen() stops at
		 * the end of the text.
		 */
		step = utf8_character(text, strnlen(text, 4));
		before = out->length;
		buffer_c_escaped(out, text, step ? step : 1, 0);
		width += step > 1 && !buffer_is_control(text, step) ? 1 : out->length - before;
		text += step ? step : 1;
	}
}

struct probe_error *out_failed(FILE *stream)
{
	int err = errno;

	__fpurge(stream);
	clearerr(stream);
	return err == EPIPE ? NULL : probe_error_system(err, "cannot write the output");
}

struct probe_error *out_flush(struct buffer *out, FILE *stream)
{
	struct probe_error *error = out->no_memory ? probe_error_no_memory() : NULL;

	if (out->length > 0 && fwrite(out->data, 1, out->length, stream) != out->length)
		error = probe_error_first(error, out_failed(stream));
	out->length = 0;
	out->no_memory = false;
	return error;
}
