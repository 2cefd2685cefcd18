/* SPDX-License-Identifier: MIT */
/*
 * norm() maps texts that differ only in literals, or in numbers of a path, to one form.
 *
 * A state machine defines it, which norm_text() and stubs that make keys (arch/stub/table.c)
 * execute. A byte has a class; a state and class have a step: the low bits are the next state, the
 * others the action on the byte.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum norm_class {
	NORM_OTHER,
	NORM_BLANK,
	NORM_SPACE, /* white space except blank and newline */
	NORM_NEWLINE,
	NORM_DIGIT,
	NORM_E, /* e and E */
	/* letters but e and E; underscore; bytes above 0x7f, whatever the locale */
	NORM_NAME,
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
	NORM_OPERATOR, /* one of ( , = < > % |; the sign of a number may follow */
	NORM_CLASSES
};

enum norm_state {
	/*
	 * Between pieces of SQL. In NORM_TOP and NORM_TOP_SIGN the reader notes its position and
	 * what it has written: the last note is where the piece begins.
	 */
	NORM_TOP,
	NORM_TOP_SIGN, /* the last piece was an operator: a `-` that follows may be a sign */
	/* Looks for a blank: a text with a slash but without a blank is a path. */
	NORM_SCAN, /* the first state */
	NORM_SCAN_SLASH,
	NORM_PATH,
	NORM_PATH_DIGITS,
	NORM_WORD,   /* in a name */
	NORM_WORD_E, /* behind the E that begins a name: an E'string' may follow */
	NORM_NUMBER,
	NORM_NUMBER_E, /* behind an E in a number: the exponent's sign may follow */
	NORM_STRING,
	NORM_STRING_END, /* behind a quote; if another quote follows, the string continues */
	NORM_ESTRING,
	NORM_ESTRING_ESCAPE,
	NORM_ESTRING_END,
	NORM_NAME_DOUBLE, /* in a name in double quotes */
	NORM_NAME_BACK,
	NORM_DASH, /* behind `-`, which is an operator or begins a comment */
	/* behind `-`: an operator, a comment, or a number's sign */
	NORM_DASH_SIGN,
	NORM_POINT,  /* behind a dot, which may begin a number; a sign may precede the dot */
	NORM_STROKE, /* behind `/` */
	NORM_LINE,   /* in a comment that ends with the line */
	NORM_COMMENT,
	NORM_COMMENT_STAR,
	NORM_TAG_FIRST, /* behind the $ of $tag$ */
	NORM_TAG,
	NORM_BODY,     /* in the text quoted by $tag$ */
	NORM_BODY_TAG, /* in the quoted text, behind a $ that may begin the second $tag$ */
	NORM_STATES
};

/* After all but AGAIN and RESTART, the reader goes on to the next byte. */
enum norm_action {
	NORM_PUT,     /* write the byte */
	NORM_SKIP,    /* drop the byte */
	NORM_AGAIN,   /* read the byte again in the next state */
	NORM_LITERAL, /* replace the output of the current piece by ? */
	NORM_DIGITS,  /* write N */
	NORM_RESTART, /* go back to the first byte of the text */
	/* Drop the byte; the next is compared with the opening $tag$'s second. */
	NORM_OPEN,
	/*
	 * Compare the byte with the next one of the opening $tag$. If they differ: AGAIN,
	 * NORM_BODY.
	 */
	NORM_MATCH
};

enum { NORM_STATE_BITS = 5, NORM_STATE_MASK = (1 << NORM_STATE_BITS) - 1 };

/* The class of each byte, and the step of each state and class. */
struct norm_tables {
	uint8_t classes[256];
	uint8_t steps[NORM_STATES][NORM_CLASSES];
};
extern const struct norm_tables norm_tables;

/* Writes a text's normal form, and returns its length, at most `length`. */
size_t norm_text(const uint8_t *text, size_t length, uint8_t *out);
