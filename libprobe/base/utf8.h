/* SPDX-License-Identifier: MIT */
/* UTF-8: names and strings of targets may hold any byte, JSON and terminals may not. */
#ifndef LIBPROBE_BASE_UTF8_H
#define LIBPROBE_BASE_UTF8_H

#include <stddef.h>

/*
 * The length, 1 to 4 bytes, of the well-formed character at the start of a text of `length`
 * bytes; 0 if there is none. (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing
 * above U+10FFFF.)
 */
size_t utf8_character(const char *text, size_t length);

#endif
