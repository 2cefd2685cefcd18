/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "elf/bytes.h"

static bool bytes_take(struct bytes *bytes, size_t count)
{
	if (bytes->failed || count > bytes_left(bytes)) {
		bytes->failed = true;
		return false;
	}
	bytes->at += count;
	return true;
}

uint64_t bytes_unsigned(struct bytes *bytes, size_t width)
{
	const uint8_t *from = bytes->data + bytes->at;
	uint64_t value = 0;

	if (!bytes_take(bytes, width))
		return 0;
	for (size_t i = 0; i < width; i++)
		value = value << 8 | from[bytes->big_endian ? i : width - 1 - i];
	return value;
}

uint8_t bytes_u8(struct bytes *bytes)
{
	return (uint8_t)bytes_unsigned(bytes, 1);
}

int64_t bytes_signed(struct bytes *bytes, size_t width)
{
	uint64_t value = bytes_unsigned(bytes, width);
	uint64_t sign = 1ull << (width * 8 - 1);

	return (int64_t)((value ^ sign) - sign);
}

uint64_t bytes_address(struct bytes *bytes)
{
	return bytes_unsigned(bytes, bytes->wide ? 8 : 4);
}

/* Sets *bits_ret to the number of bits read, and *last_ret to the last byte. */
static uint64_t bytes_leb(struct bytes *bytes, unsigned int *bits_ret, uint8_t *last_ret)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = bytes_u8(bytes);
		if (shift > 63)
			bytes->failed = true;
		else
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80 && !bytes->failed);
	*bits_ret = shift;
	*last_ret = byte;
	return bytes->failed ? 0 : value;
}

uint64_t bytes_uleb(struct bytes *bytes)
{
	unsigned int bits;
	uint8_t last;

	return bytes_leb(bytes, &bits, &last);
}

int64_t bytes_sleb(struct bytes *bytes)
{
	unsigned int bits;
	uint8_t last;
	uint64_t value = bytes_leb(bytes, &bits, &last);

	if (!bytes->failed && last & 0x40 && bits < 64)
		value |= ~0ull << bits;
	return (int64_t)value;
}

const char *bytes_string(struct bytes *bytes)
{
	const uint8_t *start = bytes->data + bytes->at;
	const uint8_t *end = NULL;

	if (!bytes->failed && bytes_left(bytes))
		end = memchr(start, 0, bytes_left(bytes));
	if (!end) {
		bytes->failed = true;
		return NULL;
	}
	bytes->at += (size_t)(end - start) + 1;
	return (const char *)start;
}

void bytes_skip(struct bytes *bytes, uint64_t count)
{
	if (count > bytes_left(bytes))
		bytes->failed = true;
	else
		bytes_take(bytes, (size_t)count);
}
