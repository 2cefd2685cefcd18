/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "libprobe/query/query.h"

const char *argument_parse(const char *text, uint8_t *ret)
{
	unsigned int number = 0;
	const char *digit;

	if (strncmp(text, "arg", 3) != 0)
		return NULL;
	for (digit = text + 3; isdigit((unsigned char)*digit); digit++) {
		if ((number == 0 && digit > text + 3) || number >= ARCH_ARGS_MAX)
			return NULL;
		number = number * 10 + (unsigned int)(*digit - '0');
	}
	if (digit == text + 3 || number >= ARCH_ARGS_MAX || isalnum((unsigned char)*digit) ||
		*digit == '_')
		return NULL;
	*ret = (uint8_t)number;
	return digit;
}

void argument_list(const struct arch_arg *specs, size_t count, char text[ARGUMENT_TEXT])
{
	static const char more[] = " ...";
	size_t at;

	if (!count) {
		snprintf(text, ARGUMENT_TEXT, "no arguments");
		return;
	}
	at = (size_t)snprintf(text, ARGUMENT_TEXT, "%zu argument%s:", count, count == 1 ? "" : "s");
	for (size_t i = 0; i < count; i++) {
		size_t length = specs[i].spec_length;

		if (at + 1 + length + sizeof(more) > ARGUMENT_TEXT) {
			memcpy(text + at, more, sizeof(more));
			return;
		}
		text[at++] = ' ';
		memcpy(text + at, specs[i].spec, length);
		at += length;
		text[at] = '\0';
	}
}
