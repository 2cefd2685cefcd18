/* SPDX-License-Identifier: MIT */
/*
 * The functions of pmtrace(3) for Fortran, as gfortran and f77 call them: names have an
 * underscore, arguments are addresses, and lengths of texts come last. A length is an int for
 * some compilers and 64 bits for others; an int's half of the register is the same for both.
 *
 * libpcp_trace 6.0 has the length of pmtraceobs's tag before the value, so that a Fortran
 * program's calls of it fail there (-ENOMEM); here they succeed.
 */
#include <string.h>

#include "probe/pmtrace.h"

/* One byte more than a tag may have, so that pmtrace.c finds those that are too long. */
struct tag {
	char text[PMTRACE_TAG_MAX + 2];
};

static const char *tag_of(struct tag *tag, const char *text, int length)
{
	size_t bytes =
		length < 0 || length > PMTRACE_TAG_MAX ? PMTRACE_TAG_MAX + 1 : (size_t)length;

	memcpy(tag->text, text, bytes);
	tag->text[bytes] = '\0';
	return tag->text;
}

int pmtracebegin_(const char *tag, int tag_length)
{
	struct tag copy;

	return pmtracebegin(tag_of(&copy, tag, tag_length));
}

int pmtraceend_(const char *tag, int tag_length)
{
	struct tag copy;

	return pmtraceend(tag_of(&copy, tag, tag_length));
}

int pmtraceabort_(const char *tag, int tag_length)
{
	struct tag copy;

	return pmtraceabort(tag_of(&copy, tag, tag_length));
}

int pmtracepoint_(const char *tag, int tag_length)
{
	struct tag copy;

	return pmtracepoint(tag_of(&copy, tag, tag_length));
}

int pmtraceobs_(const char *tag, const double *value, int tag_length)
{
	struct tag copy;

	return pmtraceobs(tag_of(&copy, tag, tag_length), *value);
}

int pmtracecounter_(const char *tag, const double *value, int tag_length)
{
	struct tag copy;

	return pmtracecounter(tag_of(&copy, tag, tag_length), *value);
}

int pmtracestate_(const int *code)
{
	return pmtracestate(*code);
}

void pmtraceerrstr_(const int *code, char *message, int message_length)
{
	const char *text = pmtraceerrstr(*code);
	size_t room = message_length > 0 ? (size_t)message_length : 0, length = strlen(text);

	if (length > room)
		length = room;
	memcpy(message, text, length);
	memset(message + length, ' ', room - length);
}
