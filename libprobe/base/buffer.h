/* SPDX-License-Identifier: MIT */
/*
 * A growing output buffer, and writers for the parts of a line. A million lines a second may pass
 * through the buffer, so only floating-point numbers use printf(3).
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
	size_t start;	   /* the bytes before this offset have been written out */
	size_t length;	   /* end of the contents: bytes from the start of data */
	size_t room;	   /* allocated bytes */
	bool no_memory;	   /* some bytes were dropped because memory ran out */
	locale_t c_locale; /* gives numbers a decimal point, whatever the user's locale */
};

/*
 * Returns false if there is no memory. {0} is enough for a buffer without floating-point numbers.
 */
bool buffer_init(struct buffer *buffer);
void buffer_deinit(struct buffer *buffer);

/* The part of buffer_reserve() that grows a full buffer. */
char *buffer_reserve_more(struct buffer *buffer, size_t need);

/* Makes room for `need` more bytes. Returns their address, or NULL if there is no memory. */
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

/* Appends a string. Inline, because compilers know the length of a constant string. */
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

/*
 * Fills a column of `width` bytes with blanks. The first `used` bytes of the column are already
 * written.
 */
void buffer_pad(struct buffer *buffer, size_t used, size_t width);

void buffer_unsigned(struct buffer *buffer, uint64_t value);
void buffer_signed(struct buffer *buffer, int64_t value);
/* Writes "0x" and lower-case digits, without leading zeros. */
void buffer_hex(struct buffer *buffer, uint64_t value);
/* Writes two hexadecimal digits for each byte. */
void buffer_hex_bytes(struct buffer *buffer, const void *bytes, size_t length);
/*
 * Ends a JSON object and its line. Adds the version of the format, which says what the fields mean.
 * A new field does not change the version.
 */
enum { PROBE_JSON_SCHEMA = 1 };
void buffer_json_end(struct buffer *buffer);
/* Writes the shortest of %.15g, %.16g and %.17g that reads back as the same number. */
void buffer_float(struct buffer *buffer, double value);
/*
 * If the number is whole and fits 64 bits, writes it and returns true. Otherwise writes nothing and
 * returns false.
 */
bool buffer_whole(struct buffer *buffer, long double value);

/*
 * Returns true if a UTF-8 character of `step` bytes controls a terminal, or changes the direction
 * of the text around it. Unicode's Bidi_Control characters can make one line look like another.
 */
bool buffer_is_control(const char *text, size_t step);

/*
 * Writes text that may hold any byte in a form that is safe for a terminal: unprintable characters
 * become C escapes; UTF-8 stays. `quote` is one more character to escape, or 0.
 */
void buffer_c_escaped(struct buffer *buffer, const char *text, size_t length, char quote);

/* Writes the inside of a JSON string (RFC 8259). Bytes that are not UTF-8 become U+FFFD. */
void buffer_json_escaped(struct buffer *buffer, const char *text, size_t length);

/*
 * Writes the inside of an element or attribute of XML or HTML. The text must be printable, as
 * buffer_c_escaped() makes it. The two characters that XML lacks (U+FFFE, U+FFFF) become U+FFFD.
 */
void buffer_xml_escaped(struct buffer *buffer, const char *text, size_t length);

#endif
