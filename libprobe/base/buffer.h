/* SPDX-License-Identifier: MIT */
/*
 * A growing buffer of output, and the writers of the pieces that a line is made
 * of. A million lines a second may pass through here, so nothing below uses
 * printf(3) but floating point.
 */
#ifndef LIBPROBE_BASE_BUFFER_H
#define LIBPROBE_BASE_BUFFER_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
	char *data;
	size_t start;	   /* bytes before it have been written */
	size_t length;	   /* end of what was added, from data */
	size_t room;	   /* allocated */
	bool no_memory;	   /* something was dropped for want of memory */
	locale_t c_locale; /* numbers have a point, whatever the user's locale */
};

/* False without memory. */
bool buffer_init(struct buffer *buffer);
void buffer_deinit(struct buffer *buffer);

/* Makes room for `need` more bytes and returns where they go, or NULL. */
char *buffer_reserve(struct buffer *buffer, size_t need);

void buffer_bytes(struct buffer *buffer, const void *bytes, size_t length);
void buffer_string(struct buffer *buffer, const char *string);
void buffer_char(struct buffer *buffer, char c);
/* The blanks that fill a column of `width` bytes of which `used` are taken. */
void buffer_pad(struct buffer *buffer, size_t used, size_t width);

void buffer_unsigned(struct buffer *buffer, uint64_t value);
void buffer_signed(struct buffer *buffer, int64_t value);
/* "0x" and lower-case digits, without leading zeros. */
void buffer_hex(struct buffer *buffer, uint64_t value);
/* Two digits a byte. */
void buffer_hex_bytes(struct buffer *buffer, const void *bytes, size_t length);
/* The shortest of %.15g, %.16g and %.17g that reads back as the same number. */
void buffer_float(struct buffer *buffer, double value);
/* The same where it is whole and 64 bits hold it; else nothing, and false. */
bool buffer_whole(struct buffer *buffer, long double value);

/* Is a character of UTF-8 one that terminals obey? `step` is its length. */
static inline bool buffer_is_control(const char *text, size_t step)
{
	unsigned char c = (unsigned char)text[0];

	/* C2 80 to C2 9F are the C1 controls. */
	return (step == 1 && (c < ' ' || c == 0x7f)) ||
	       (step == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0);
}

/*
 * Text that may hold any byte, made safe for a terminal: C escapes for what is
 * not printable; UTF-8 stays. `quote` is a character to be escaped too, or 0.
 */
void buffer_c_escaped(struct buffer *buffer, const char *text, size_t length, char quote);

/* The inside of a JSON string (RFC 8259): bytes that are no UTF-8 become U+FFFD. */
void buffer_json_escaped(struct buffer *buffer, const char *text, size_t length);

#endif
