/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "cli/out.h"
#include "libprobe/base/utf8.h"

enum { ROOM_START = 4096 };

static const char digits[] = "0123456789abcdef";

void out_deinit(struct out *out)
{
	free(out->data);
	*out = (struct out){0};
}

/* Makes room for `need` more bytes; returns where they go, or NULL. */
static char *reserve(struct out *out, size_t need)
{
	size_t room = out->room ? out->room : ROOM_START, wanted;
	char *data;

	if (need <= out->room - out->length)
		return out->data + out->length;
	if (__builtin_add_overflow(out->length, need, &wanted)) {
		out->no_memory = true;
		return NULL;
	}
	while (room < wanted && room <= SIZE_MAX / 2)
		room *= 2;
	data = room < wanted ? NULL : realloc(out->data, room);
	if (!data) {
		out->no_memory = true;
		return NULL;
	}
	out->data = data;
	out->room = room;
	return data + out->length;
}

void out_bytes(struct out *out, const char *bytes, size_t length)
{
	char *to = reserve(out, length);

	if (!to || length == 0)
		return;
	memcpy(to, bytes, length);
	out->length += length;
}

void out_text(struct out *out, const char *text)
{
	out_bytes(out, text, strlen(text));
}

void out_char(struct out *out, char c)
{
	out_bytes(out, &c, 1);
}

void out_blanks(struct out *out, size_t count)
{
	char *to = reserve(out, count);

	if (!to || count == 0)
		return;
	memset(to, ' ', count);
	out->length += count;
}

void out_unsigned(struct out *out, uint64_t value)
{
	char text[20], *at = text + sizeof(text);

	do {
		*--at = digits[value % 10];
		value /= 10;
	} while (value > 0);
	out_bytes(out, at, (size_t)(text + sizeof(text) - at));
}

void out_hex(struct out *out, uint64_t value)
{
	char text[18], *at = text + sizeof(text);

	do {
		*--at = digits[value & 15];
		value >>= 4;
	} while (value > 0);
	*--at = 'x';
	*--at = '0';
	out_bytes(out, at, (size_t)(text + sizeof(text) - at));
}

void out_hex_byte(struct out *out, uint8_t byte)
{
	char text[2] = {digits[byte >> 4], digits[byte & 15]};

	out_bytes(out, text, sizeof(text));
}

/* Is a character one that terminals obey? `step` is its length. */
static bool is_control(const char *text, size_t step)
{
	unsigned char c = (unsigned char)text[0];

	/* C2 80 to C2 9F are the C1 controls. */
	return (step == 1 && (c < ' ' || c == 0x7f)) ||
	       (step == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0);
}

/* Returns how many characters it wrote. */
static size_t escape(struct out *out, unsigned char c)
{
	static const char letters[] = "abtnvfr";
	/* Octal digits end by themselves, whatever follows. */
	char text[4] = {
		'\\', (char)('0' + (c >> 6)), (char)('0' + (c >> 3 & 7)), (char)('0' + (c & 7))};
	size_t length = 4;

	if (c >= '\a' && c <= '\r') {
		text[1] = letters[c - '\a'];
		length = 2;
	}
	out_bytes(out, text, length);
	return length;
}

/* How many characters at the start of text need no thought: printable ASCII but `"` and `\`. */
static size_t plain_length(const char *text)
{
	const char *at = text;

	while (*at >= ' ' && *at < 0x7f && *at != '"' && *at != '\\')
		at++;
	return (size_t)(at - text);
}

size_t out_printable(struct out *out, const char *text)
{
	size_t width = 0;

	for (;;) {
		size_t step = plain_length(text);

		out_bytes(out, text, step);
		width += step;
		text += step;
		if (!*text)
			return width;
		/* At most four bytes: strnlen() keeps the look ahead within the text. */
		step = utf8_character(text, strnlen(text, 4));
		if (step > 0 && !is_control(text, step)) {
			out_bytes(out, text, step);
			width++;
		} else {
			width += escape(out, (unsigned char)*text);
			step = 1;
		}
		text += step;
	}
}

/* One character that JSON wants escaped, or that is none; returns its length. */
static size_t json_character(struct out *out, const char *text)
{
	size_t step = utf8_character(text, strnlen(text, 4));
	unsigned char c = (unsigned char)*text;

	if (step == 0) {
		out_text(out, "\xef\xbf\xbd");
		return 1;
	}
	if (c == '"' || c == '\\') {
		out_char(out, '\\');
		out_char(out, *text);
	} else if (is_control(text, step)) {
		/* Of two bytes, the second one is what the character is. */
		out_text(out, "\\u00");
		out_hex_byte(out, (uint8_t)text[step - 1]);
	} else {
		out_bytes(out, text, step);
	}
	return step;
}

void out_json(struct out *out, const char *text)
{
	if (!text) {
		out_text(out, "null");
		return;
	}
	out_char(out, '"');
	for (;;) {
		size_t step = plain_length(text);

		out_bytes(out, text, step);
		text += step;
		if (!*text)
			break;
		text += json_character(out, text);
	}
	out_char(out, '"');
}

void out_text_field(struct out *out, const char *key, const char *value)
{
	out_text(out, key);
	out_json(out, value);
}

void out_hex_field(struct out *out, const char *key, uint64_t value)
{
	out_text(out, key);
	out_char(out, '"');
	out_hex(out, value);
	out_char(out, '"');
}

void out_number_field(struct out *out, const char *key, uint64_t value)
{
	out_text(out, key);
	out_unsigned(out, value);
}

void out_boolean_field(struct out *out, const char *key, bool value)
{
	out_text(out, key);
	out_text(out, value ? "true" : "false");
}

struct probe_error *out_flush(struct out *out, FILE *stream)
{
	bool no_memory = out->no_memory;

	if (out->length > 0)
		fwrite(out->data, 1, out->length, stream);
	out->length = 0;
	out->no_memory = false;
	return no_memory ? probe_error_no_memory() : NULL;
}
