/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/error.h"

static struct probe_error no_memory = {
	.code = PROBE_ERROR_MEMORY,
	.message = (char *)"out of memory",
};

struct probe_error *probe_error_no_memory(void)
{
	return &no_memory;
}

/* Makes an error that owns `message`. NULL means that there was no memory for the message. */
static struct probe_error *error_make(enum probe_error_code code, int err, char *message)
{
	struct probe_error *error = message ? malloc(sizeof(*error)) : NULL;

	if (!error) {
		free(message);
		return &no_memory;
	}
	*error = (struct probe_error){.code = code, .err = err, .message = message};
	return error;
}

__attribute__((format(printf, 3, 0))) static struct probe_error *error_format(
	enum probe_error_code code, int err, const char *format, va_list ap)
{
	char *message;

	return error_make(code, err, vasprintf(&message, format, ap) < 0 ? NULL : message);
}

struct probe_error *probe_error_new(enum probe_error_code code, const char *format, ...)
{
	struct probe_error *error;
	va_list ap;

	va_start(ap, format);
	error = error_format(code, 0, format, ap);
	va_end(ap);
	return error;
}

struct probe_error *error_numbered(enum probe_error_code code, int err, const char *format, ...)
{
	struct probe_error *error;
	va_list ap;

	va_start(ap, format);
	error = error_format(code, err, format, ap);
	va_end(ap);
	return error;
}

/* Returns "WHAT: why", or NULL if memory is short. */
__attribute__((format(printf, 1, 0))) static char *explained(
	const char *format, va_list ap, const char *why)
{
	char *what, *message;

	if (vasprintf(&what, format, ap) < 0)
		return NULL;
	if (asprintf(&message, "%s: %s", what, why) < 0)
		message = NULL;
	free(what);
	return message;
}

struct probe_error *probe_error_system(int err, const char *format, ...)
{
	char *message;
	va_list ap;

	va_start(ap, format);
	message = explained(format, ap, strerror(err));
	va_end(ap);
	return error_make(PROBE_ERROR_SYSTEM, err, message);
}

struct probe_error *probe_error_prefix(struct probe_error *error, const char *format, ...)
{
	char *message;
	va_list ap;

	if (!error || error == &no_memory)
		return error;
	va_start(ap, format);
	message = explained(format, ap, error->message);
	va_end(ap);
	if (!message)
		return error;
	free(error->message);
	error->message = message;
	return error;
}

void probe_error_free(struct probe_error *error)
{
	if (!error || error == &no_memory)
		return;
	free(error->message);
	free(error);
}

struct probe_error *probe_error_first(struct probe_error *first, struct probe_error *second)
{
	if (!first)
		return second;
	probe_error_free(second);
	return first;
}
