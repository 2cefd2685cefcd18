/* SPDX-License-Identifier: MIT */
/*
 * A growing output buffer, and writers for the parts of a line. A million lines a second may
 * pass through here, so only floating-point numbers use printf(3).
 */
#ifndef LIBPROBE_BASE_BUFFER_H
#define LIBPROBE_BASE_BUFFER_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buffer {
	char *data;
	size_t start;	   /* bytes before it have been written */
	size_t length;	   /* end of what was added, from data */
	size_t room;	   /* allocated */
	bool no_memory;	   /* something was dropped because memory ran out */
	locale_t c_locale; /* numbers have a decimal point, whatever the user's locale */
};

/* False without memory. For a buffer without floating-point numbers, {0} will do. */
bool buffer_init(struct buffer *buffer);
void buffer_deinit(struct buffer *buffer);

/* The same as buffer_reserve(), where there is no room. */
char *buffer_reserve_more(struct buffer *buffer, size_t need);

/* Makes room for `need` more bytes and returns where they go, or NULL. */
static inline char *buffer_reserve(struct buffer *buffer, size_t need)
{
	return buffer->room - buffer->length < need ? buffer_reserve_more(buffer, need)
						    : buffer->data + buffer->length;
}

static inline void buffer_bytes(struct buffer *buffer, const void *bytes, size_t length)
{
	char *to = length ? buffer_reserve(buffer, length) : NULL;

	if (!to)
		return;
	memcpy(to, bytes, length);
	buffer->length += length;
}

/* Of a constant, compilers know the length. */
static inline void buffer_string(struct buffer *buffer, const char *string)
{
	buffer_bytes(buffer, string, strlen(string));
}

static inline void buffer_char(struct buffer *buffer, char c)
{
	char *to = buffer_reserve(buffer, 1);

	if (!to)
		return;
	*to = c;
	buffer->length++;
}

/* Fills the rest of a column of `width` bytes with blanks; `used` are taken. */
void buffer_pad(struct buffer *buffer, size_t used, size_t width);

void buffer_unsigned(struct buffer *buffer, uint64_t value);
void buffer_signed(struct buffer *buffer, int64_t value);
/* "0x" and lower-case digits, without leading zeros. */
void buffer_hex(struct buffer *buffer, uint64_t value);
/* Two digits a byte. */
void buffer_hex_bytes(struct buffer *buffer, const void *bytes, size_t length);
/*
 * Ends a line of JSON, an object, with the version of what its fields mean. New fields do not
 * change the version.
 */
enum { PROBE_JSON_SCHEMA = 1 };
void buffer_json_end(struct buffer *buffer);
/* The shortest of %.15g, %.16g and %.17g that reads back as the same number. */
void buffer_float(struct buffer *buffer, double value);
/* The same if it is whole and fits 64 bits; otherwise writes nothing and returns false. */
bool buffer_whole(struct buffer *buffer, long double value);

/*
 * Whether a UTF-8 character controls a terminal, or the direction of the text around it (Unicode's
 * Bidi_Control), which can make a line read as another. `step` is its length.
 */
bool buffer_is_control(const char *text, size_t step);

/*
 * Makes text that may hold any byte safe for a terminal: unprintable characters become C
 * escapes; UTF-8 stays. `quote` is a further character to escape, or 0.
 */
void buffer_c_escaped(struct buffer *buffer, const char *text, size_t length, char quote);

/* The inside of a JSON string (RFC 8259): bytes that are not UTF-8 become U+FFFD. */
void buffer_json_escaped(struct buffer *buffer, const char *text, size_t length);

/*
 * The inside of an element or attribute of XML or HTML, of text that buffer_c_escaped() has made
 * printable. The two characters that XML lacks (U+FFFE, U+FFFF) become U+FFFD.
 */
void buffer_xml_escaped(struct buffer *buffer, const char *text, size_t length);

#endif
