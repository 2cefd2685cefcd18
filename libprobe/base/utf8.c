/* SPDX-License-Identifier: MIT */
#include "libprobe/base/utf8.h"

size_t utf8_character(const char *text, size_t length)
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
	/* The second byte's limits exclude overlong forms, surrogates and too large values. */
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
