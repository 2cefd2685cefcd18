/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "probe/utf8.h"

static const char replacement[] = "\xef\xbf\xbd";

size_t probe_utf8_character(const char *text, size_t length)
{
	const unsigned char *bytes = (const unsigned char *)text;
	unsigned char low = 0x80, high = 0xbf;
	size_t need;

	if (length == 0)
		return 0;
	if (bytes[0] < 0x80)
		return 1;
	if (bytes[0] < 0xc2 || bytes[0] > 0xf4)
		return 0;
	need = bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;
	if (length < need)
		return 0;
	/* The second byte shows overlong forms, surrogates and values that are too large. */
	if (bytes[0] == 0xe0)
		low = 0xa0;
	else if (bytes[0] == 0xed)
		high = 0x9f;
	else if (bytes[0] == 0xf0)
		low = 0x90;
	else if (bytes[0] == 0xf4)
		high = 0x8f;
	if (bytes[1] < low || bytes[1] > high)
		return 0;
	for (size_t i = 2; i < need; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
	}
	return need;
}

char *probe_utf8_clean(const char *text, size_t length, size_t *length_ret)
{
	const size_t replacement_length = sizeof(replacement) - 1;
	char *copy, *to;
	size_t room;

	/* Every byte may become three. */
	if (__builtin_mul_overflow(length, replacement_length, &room) ||
		__builtin_add_overflow(room, 1, &room))
		return NULL;
	copy = malloc(room);
	if (!copy)
		return NULL;
	to = copy;
	while (length > 0) {
		size_t step = probe_utf8_character(text, length);

		if (step > 0) {
			memcpy(to, text, step);
			to += step;
		} else {
			memcpy(to, replacement, replacement_length);
			to += replacement_length;
			step = 1;
		}
		text += step;
		length -= step;
	}
	*to = '\0';
	if (length_ret)
		*length_ret = (size_t)(to - copy);
	return copy;
}
