/* SPDX-License-Identifier: MIT */
/* UTF-8: names and strings of targets may hold any byte, JSON and terminals may not. */
#ifndef PROBE_UTF8_H
#define PROBE_UTF8_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The length, 1 to 4 bytes, of the well-formed character at the start of text,
 * which has `length` bytes; 0 where there is none. (Unicode 15, table 3-7: no
 * overlong forms, no surrogates, nothing above U+10FFFF.)
 */
size_t probe_utf8_character(const char *text, size_t length);

/*
 * A copy in which every byte that is not part of a well-formed character has
 * become U+FFFD; to be freed with free(). NULL only without memory.
 * `length_ret` may be NULL; the copy is NUL-terminated beside.
 */
char *probe_utf8_clean(const char *text, size_t length, size_t *length_ret);

#ifdef __cplusplus
}
#endif
#endif
