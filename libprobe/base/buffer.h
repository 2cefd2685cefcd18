/* SPDX-License-Identifier: MIT */
/*
 * A growing output buffer for a million lines a second: only floating-point numbers, and
 * buffer_print() for what is written once, use printf(3).
 */
#pragma once

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Initialise with {0}. */
struct buffer {
	char *data;
	size_t start;	/* the bytes before this offset have been written out */
	size_t length;	/* end of the contents: bytes from the start of data */
	size_t room;	/* allocated bytes */
	bool no_memory; /* some bytes were dropped because memory ran out */
};

void buffer_deinit(struct buffer *buffer);
/*
 * Returns the contents, to which a NUL is added, and deinitialises the buffer; NULL if memory was
 * short. *length_ret is without the NUL; `length_ret` may be NULL.
 */
char *buffer_take(struct buffer *buffer, size_t *length_ret);

/* Implements buffer_reserve() for a full buffer. */
char *buffer_reserve_more(struct buffer *buffer, size_t need);

/* Makes room for `need` more bytes. Returns their address, or NULL if memory is short. */
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

/* Inline, because compilers know the length of a constant string. */
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

/* Writes as printf(3) does. */
__attribute__((format(printf, 2, 3))) void buffer_print(
	struct buffer *buffer, const char *format, ...);

/* Fills a column of `width` bytes, of which `used` are written, with blanks. */
void buffer_pad(struct buffer *buffer, size_t used, size_t width);

void buffer_unsigned(struct buffer *buffer, uint64_t value);
void buffer_signed(struct buffer *buffer, int64_t value);
/* Writes "0x" and lower-case digits, without leading zeros. */
void buffer_hex(struct buffer *buffer, uint64_t value);
void buffer_hex_bytes(struct buffer *buffer, const void *bytes, size_t length);
/*
 * Makes printf(3) and strtod(3) use a decimal point in this thread, whatever the user's locale is.
 * Returns the locale for uselocale(3) afterwards.
 */
locale_t buffer_use_point(void);
/* Writes the shortest of %.15g, %.16g, %.17g that reads back as the same number. */
void buffer_float(struct buffer *buffer, double value);
/* Writes a whole number that fits into 64 bits. Returns false for any other number. */
bool buffer_whole(struct buffer *buffer, long double value);

/*
 * Returns true if a UTF-8 character controls a terminal, or changes the direction of text
 * (Bidi_Control).
 */
bool buffer_is_control(const char *text, size_t step);

/*
 * Writes any bytes in a form that is safe for a terminal: unprintable bytes become C escapes, UTF-8
 * stays. `quote` is one more character to escape, or 0.
 */
void buffer_c_escaped(struct buffer *buffer, const char *text, size_t length, char quote);
void buffer_escaped(struct buffer *buffer, const char *text);
/*
 * Like buffer_c_escaped(), but backslashes stay, because the text may be a message that has escapes
 * already.
 */
void buffer_printable(struct buffer *buffer, const char *text);

/* Writes the inside of a JSON string (RFC 8259). Bytes that are not UTF-8 become U+FFFD. */
void buffer_json_escaped(struct buffer *buffer, const char *text, size_t length);

/*
 * Writes the inside of an XML or HTML element or attribute, from printable text
 * (buffer_c_escaped()). U+FFFE and U+FFFF, which XML lacks, become U+FFFD.
 */
void buffer_xml_escaped(struct buffer *buffer, const char *text, size_t length);
