/* SPDX-License-Identifier: MIT */
/*
 * norm(): texts that differ only in their literals, or in the numbers of a path, become one.
 *
 * The normal form is defined by a table, which has two readers: norm_text(), and the code that a
 * stub has for its keys (stub/norm.c). Each byte has a class; a state and a class have a step: the
 * next state, and above its bits what to do with the byte.
 */
#ifndef ARCH_NORM_H
#define ARCH_NORM_H

#include <stddef.h>
#include <stdint.h>

enum norm_class {
	NORM_OTHER,
	NORM_BLANK,
	NORM_SPACE, /* other white space */
	NORM_NEWLINE,
	NORM_DIGIT,
	NORM_E,	   /* e and E */
	NORM_NAME, /* other letters, _, and all above ASCII, whatever the locale */
	NORM_DOLLAR,
	NORM_DOT,
	NORM_QUOTE,
	NORM_DOUBLE, /* double quote */
	NORM_BACK,   /* backquote */
	NORM_MINUS,
	NORM_SLASH,
	NORM_STAR,
	NORM_ESCAPE, /* backslash */
	NORM_PLUS,
	NORM_OPERATOR, /* others that a number's sign may follow */
	NORM_CLASSES
};

enum norm_state {
	/*
	 * Between two pieces of SQL. While it is in one of these two, the reader notes how much it
	 * has written, and where it is: the last note says where a piece begins.
	 */
	NORM_TOP,
	NORM_TOP_SIGN, /* the last piece was an operator: the next `-` may be a sign */
	/* Looks for a blank: a text with a slash and without a blank is a path. */
	NORM_SCAN, /* the first state */
	NORM_SCAN_SLASH,
	NORM_PATH,
	NORM_PATH_DIGITS,
	NORM_WORD,   /* in a name */
	NORM_WORD_E, /* behind its first letter, which is an E: a string may follow */
	NORM_NUMBER,
	NORM_NUMBER_E, /* behind an E: the exponent's sign may follow */
	NORM_STRING,
	NORM_STRING_END, /* behind a quote; another one continues the string */
	NORM_ESTRING,
	NORM_ESTRING_ESCAPE,
	NORM_ESTRING_END,
	NORM_NAME_DOUBLE, /* in double quotes, and in backquotes */
	NORM_NAME_BACK,
	NORM_DASH,	/* behind `-`, which is an operator or begins a comment */
	NORM_DASH_SIGN, /* or is the sign of a number */
	NORM_POINT,	/* behind a dot, with the sign before it */
	NORM_STROKE,	/* behind `/` */
	NORM_LINE,	/* in a comment up to the end of the line */
	NORM_COMMENT,
	NORM_COMMENT_STAR,
	NORM_TAG_FIRST, /* behind the $ of $tag$ */
	NORM_TAG,
	NORM_BODY,     /* what is quoted by $tag$ */
	NORM_BODY_TAG, /* what may be the second $tag$, in it */
	NORM_STATES
};

/* An action on one byte. After each action except AGAIN and RESTART, the reader takes the next one.
 */
enum norm_action {
	NORM_PUT,     /* it is written */
	NORM_SKIP,    /* it is not */
	NORM_AGAIN,   /* it is looked at again, in the next state */
	NORM_LITERAL, /* what was written of the piece is replaced by ? */
	NORM_DIGITS,  /* N is written */
	NORM_RESTART, /* the first byte is next */
	NORM_OPEN,    /* the next byte is compared with the piece's second one */
	/* the byte is compared. Another one: AGAIN in NORM_BODY; else the next with the next */
	NORM_MATCH
};

enum { NORM_STATE_BITS = 5, NORM_STATE_MASK = (1 << NORM_STATE_BITS) - 1 };

/* Tables: of classes by byte, of steps by state and class. */
struct norm_tables {
	uint8_t classes[256];
	uint8_t steps[NORM_STATES][NORM_CLASSES];
};
extern const struct norm_tables norm_tables;

/* Writes the normal form of a text, which is not longer; returns its length. */
size_t norm_text(const uint8_t *text, size_t length, uint8_t *out);

#endif
