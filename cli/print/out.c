/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio_ext.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/print/out.h"

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

struct probe_error *out_grid(const struct grid *grid)
{
	struct winsize size = {0};
	struct probe_error *error;
	struct buffer out = {0};

	if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
		size.ws_col = 0;
	if (grid->has_rows || grid->text.no_memory)
		grid_print(grid, &out, size.ws_col);
	error = out_flush(&out, stdout);
	buffer_deinit(&out);
	return error;
}
