/* SPDX-License-Identifier: MIT */
#include <float.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/utf8.h"

enum { BUFFER_FIRST_ROOM = 4 << 10 };

static const char hex_digits[] = "0123456789abcdef";

void buffer_deinit(struct buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct buffer){0};
}

char *buffer_take(struct buffer *buffer, size_t *length_ret)
{
	char *text = NULL;

	buffer_char(buffer, '\0');
	if (!buffer->no_memory) {
		/* Give back the room behind the text. */
		text = realloc(buffer->data, buffer->length);
		text = text ? text : buffer->data;
		buffer->data = NULL;
		if (length_ret)
			*length_ret = buffer->length - 1;
	}
	buffer_deinit(buffer);
	return text;
}

void buffer_print(struct buffer *buffer, const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		buffer->no_memory = true;
	else
		buffer_string(buffer, text);
	va_end(args);
	free(text);
}

/* Makes room at the end: moves the contents to the front, or to a larger block. */
static bool buffer_grow(struct buffer *buffer, size_t need)
{
	size_t used = buffer->length - buffer->start;
	size_t room = buffer->room ? buffer->room : BUFFER_FIRST_ROOM;
	char *data;

	if (buffer->start) {
		memmove(buffer->data, buffer->data + buffer->start, used);
		buffer->start = 0;
		buffer->length = used;
	}
	while (room - used < need) {
		if (room > SIZE_MAX / 2)
			return false;
		room *= 2;
	}
	if (room == buffer->room)
		return true;
	data = realloc(buffer->data, room);
	if (!data)
		return false;
	buffer->data = data;
	buffer->room = room;
	return true;
}

char *buffer_reserve_more(struct buffer *buffer, size_t need)
{
	if (!buffer_grow(buffer, need)) {
		buffer->no_memory = true;
		return NULL;
	}
	return buffer->data + buffer->length;
}

void buffer_pad(struct buffer *buffer, size_t used, size_t width)
{
	char *to = used < width ? buffer_reserve(buffer, width - used) : NULL;

	if (!to)
		return;
	memset(to, ' ', width - used);
	buffer->length += width - used;
}

/*
 * Converts two digits at a time, which halves the divisions; each division has to wait for the one
 * before.
 */
void buffer_unsigned(struct buffer *buffer, uint64_t value)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
				    "25262728293031323334353637383940414243444546474849"
				    "50515253545556575859606162636465666768697071727374"
				    "75767778798081828384858687888990919293949596979899";
	char digits[20];
	size_t at = sizeof(digits);

	for (; value >= 10; value /= 100) {
		at -= 2;
		memcpy(digits + at, pairs + 2 * (value % 100), 2);
	}
	if (value || at == sizeof(digits))
		digits[--at] = (char)('0' + value);
	buffer_bytes(buffer, digits + at, sizeof(digits) - at);
}

void buffer_signed(struct buffer *buffer, int64_t value)
{
	if (value < 0)
		buffer_char(buffer, '-');
	buffer_unsigned(buffer, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void buffer_hex(struct buffer *buffer, uint64_t value)
{
	char digits[18];
	size_t at = sizeof(digits);

	do {
		digits[--at] = hex_digits[value & 15];
		value >>= 4;
	} while (value);
	digits[--at] = 'x';
	digits[--at] = '0';
	buffer_bytes(buffer, digits + at, sizeof(digits) - at);
}

void buffer_hex_bytes(struct buffer *buffer, const void *bytes, size_t length)
{
	const unsigned char *from = bytes;

	for (size_t i = 0; i < length; i++) {
		buffer_char(buffer, hex_digits[from[i] >> 4]);
		buffer_char(buffer, hex_digits[from[i] & 15]);
	}
}

static pthread_once_t point_once = PTHREAD_ONCE_INIT;
static locale_t point;

static void make_point(void)
{
	point = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
}

locale_t buffer_use_point(void)
{
	pthread_once(&point_once, make_point);
	return uselocale(point);
}

void buffer_float(struct buffer *buffer, double value)
{
	locale_t users = buffer_use_point();
	char text[40];

	for (int digits = DBL_DIG; digits <= DBL_DECIMAL_DIG; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	uselocale(users);
	buffer_string(buffer, text);
}

bool buffer_whole(struct buffer *buffer, long double value)
{
	const long double limit = 9223372036854775808.0L; /* 2^63 */

	if (value >= 0 && value < 2 * limit && value == (long double)(uint64_t)value)
		buffer_unsigned(buffer, (uint64_t)value);
	else if (value >= -limit && value < 0 && value == (long double)(int64_t)value)
		buffer_signed(buffer, (int64_t)value);
	else
		return false;
	return true;
}

bool buffer_is_control(const char *text, size_t step)
{
	uint32_t code = step ? utf8_code(text, step) : ' ';

	return code < ' ' || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e ||
	       code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069);
}

/* Returns the letter after the backslash that escapes a control character, or 0. */
static char escape_letter(unsigned char c)
{
	return c >= '\a' && c <= '\r' ? "abtnvfr"[c - '\a'] : 0;
}

/*
 * Octal escapes end after three digits. A \x escape would continue with any hexadecimal digit that
 * follows.
 */
static void c_escape(struct buffer *buffer, unsigned char c)
{
	char letter = escape_letter(c);
	char octal[4] = {
		'\\', (char)('0' + (c >> 6)), (char)('0' + (c >> 3 & 7)), (char)('0' + (c & 7))};

	if (letter) {
		buffer_char(buffer, '\\');
		buffer_char(buffer, letter);
	} else {
		buffer_bytes(buffer, octal, sizeof(octal));
	}
}

/* Returns the length of the part at the start that every format copies unchanged. */
static size_t plain_length(const char *text, size_t length, char quote)
{
	size_t i = 0;

	while (i < length && text[i] >= ' ' && text[i] < 0x7f && text[i] != '\\' &&
		(text[i] != quote || !quote))
		i++;
	return i;
}

void buffer_c_escaped(struct buffer *buffer, const char *text, size_t length, char quote)
{
	while (length) {
		size_t step = plain_length(text, length, quote);
		unsigned char c;

		if (step) {
			buffer_bytes(buffer, text, step);
			text += step;
			length -= step;
			continue;
		}
		c = (unsigned char)*text;
		step = utf8_character(text, length);
		if (step >= 2 && !buffer_is_control(text, step)) {
			buffer_bytes(buffer, text, step);
		} else {
			step = 1;
			if (c == '\\' || (quote && *text == quote)) {
				buffer_char(buffer, '\\');
				buffer_char(buffer, *text);
			} else {
				c_escape(buffer, c);
			}
		}
		text += step;
		length -= step;
	}
}

void buffer_escaped(struct buffer *buffer, const char *text)
{
	buffer_c_escaped(buffer, text, strlen(text), 0);
}

void buffer_printable(struct buffer *buffer, const char *text)
{
	for (;;) {
		size_t length = strcspn(text, "\\");

		buffer_c_escaped(buffer, text, length, 0);
		text += length;
		if (!*text)
			return;
		buffer_char(buffer, *text++);
	}
}

/* Escapes a character. Returns the number of its bytes in `text`. */
static size_t json_escape(struct buffer *buffer, const char *text, size_t length)
{
	unsigned char c = (unsigned char)*text;
	char letter = escape_letter(c);
	size_t step = utf8_character(text, length);

	if (c == '"' || c == '\\') {
		buffer_char(buffer, '\\');
		buffer_char(buffer, *text);
	} else if (letter && letter != 'a' && letter != 'v') {
		buffer_char(buffer, '\\');
		buffer_char(buffer, letter);
	} else if (step && buffer_is_control(text, step)) {
		uint32_t code = utf8_code(text, step);
		char hex[4] = {hex_digits[code >> 12], hex_digits[code >> 8 & 15],
			hex_digits[code >> 4 & 15], hex_digits[code & 15]};

		buffer_string(buffer, "\\u");
		buffer_bytes(buffer, hex, sizeof(hex));
	} else if (step) {
		buffer_bytes(buffer, text, step);
	} else {
		buffer_string(buffer, "\xef\xbf\xbd");
		step = 1;
	}
	return step;
}

void buffer_json_escaped(struct buffer *buffer, const char *text, size_t length)
{
	while (length) {
		size_t step = plain_length(text, length, '"');

		if (step)
			buffer_bytes(buffer, text, step);
		else
			step = json_escape(buffer, text, length);
		text += step;
		length -= step;
	}
}

void buffer_xml_escaped(struct buffer *buffer, const char *text, size_t length)
{
	static const char *const entities[] = {['&'] = "&amp;",
		['<'] = "&lt;",
		['>'] = "&gt;",
		['"'] = "&quot;",
		['\''] = "&#39;"};

	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < sizeof(entities) / sizeof(*entities) && entities[c]) {
			buffer_string(buffer, entities[c]);
		} else if (length - i >= 3 && memcmp(text + i, "\xef\xbf", 2) == 0 &&
			   (unsigned char)text[i + 2] >= 0xbe) {
			buffer_string(buffer, "\xef\xbf\xbd");
			i += 2;
		} else {
			buffer_char(buffer, text[i]);
		}
	}
}
