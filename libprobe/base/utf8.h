/* SPDX-License-Identifier: MIT */
/* UTF-8. Targets' names and strings may hold any byte; JSON and terminals need UTF-8. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Returns the length of the well-formed character at the start of a text, 1 to 4, or 0 if it is not
 * well-formed (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
 */
size_t utf8_character(const char *text, size_t length);

/* Returns the code point of a well-formed character. */
static inline uint32_t utf8_code(const char *text, size_t bytes)
{
	uint32_t code = (unsigned char)text[0];

	/* The first byte of a character of several bytes begins with one 1 bit for each byte. */
	if (bytes > 1)
		code &= 0x7fU >> bytes;
	for (size_t i = 1; i < bytes; i++)
		code = code << 6 | ((unsigned char)text[i] & 0x3fU);
	return code;
}
