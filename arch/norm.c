/* SPDX-License-Identifier: MIT */
/*
 * The normal form of a text. In a path (a slash and no blank), each run of digits becomes N. Any
 * other text is taken for SQL, and these literals become ?:
 *
 *	numbers        12, 1.5, 0x1f, 1e-3, unless they are part of a name (t2, $1);
 *	               -12 behind an operator, a comma or a parenthesis
 *	strings        'it''s', and E'it\'s'
 *	dollar quotes  $$it's$$, $tag$it's$tag$
 *
 * Everything else stays, including comments and names in double quotes or backquotes. A literal
 * that is cut off at the end of the text, for example at a string's greatest length, also becomes
 * ?.
 *
 * The second $tag$ is found byte by byte, without going back: $ is only at the ends of a tag, so
 * when a byte differs, none of the bytes that were equal before it can begin another tag.
 *
 * Each step writes at most one byte, and all but AGAIN and RESTART move to the next byte. AGAIN
 * leads to a state whose steps all move on, and RESTART is taken once. A text of N bytes thus takes
 * at most 3 N + 1 steps, whatever its bytes are and even if another thread changes them meanwhile.
 */
#include "arch/norm.h"

/* clang-format off */
/* Each makes a step from an action (its name) and the next state. */
#define PUT(state) (NORM_PUT << NORM_STATE_BITS | NORM_##state)
#define SKIP(state) (NORM_SKIP << NORM_STATE_BITS | NORM_##state)
#define AGAIN(state) (NORM_AGAIN << NORM_STATE_BITS | NORM_##state)
#define LITERAL(state) (NORM_LITERAL << NORM_STATE_BITS | NORM_##state)
#define DIGITS(state) (NORM_DIGITS << NORM_STATE_BITS | NORM_##state)
#define RESTART(state) (NORM_RESTART << NORM_STATE_BITS | NORM_##state)
#define OPEN(state) (NORM_OPEN << NORM_STATE_BITS | NORM_##state)
#define MATCH(state) (NORM_MATCH << NORM_STATE_BITS | NORM_##state)

/*
 * A state's row: its step for each class, in the order of enum norm_class, but with white space and
 * names together.
 */
#define ROW(other, blank, space, newline, digit, e, name, dollar, dot, quote, dbl, back, minus,   \
	slash, star, escape, plus, operator)                                                      \
	{[NORM_OTHER] = other, [NORM_BLANK] = blank, [NORM_SPACE] = space,                        \
	 [NORM_NEWLINE] = newline, [NORM_DIGIT] = digit, [NORM_E] = e, [NORM_NAME] = name,        \
	 [NORM_DOLLAR] = dollar, [NORM_DOT] = dot, [NORM_QUOTE] = quote, [NORM_DOUBLE] = dbl,     \
	 [NORM_BACK] = back, [NORM_MINUS] = minus, [NORM_SLASH] = slash, [NORM_STAR] = star,      \
	 [NORM_ESCAPE] = escape, [NORM_PLUS] = plus, [NORM_OPERATOR] = operator}

/* For the start of a piece of SQL: a blank keeps the state, a minus leads to `dash`. */
#define TOP_ROW(state, dash)                                                                      \
	ROW(PUT(TOP), PUT(state), PUT(TOP), PUT(TOP), LITERAL(NUMBER), PUT(WORD_E), PUT(WORD),    \
	    PUT(TAG_FIRST), PUT(POINT), LITERAL(STRING), PUT(NAME_DOUBLE), PUT(NAME_BACK),        \
	    PUT(dash), PUT(STROKE), PUT(TOP_SIGN), PUT(TOP), PUT(TOP_SIGN), PUT(TOP_SIGN))
/* For states in which few classes differ; `rest` is the step for the others. */
#define WHITE_ROW(white, slash, rest)                                                             \
	ROW(rest, white, white, white, rest, rest, rest, rest, rest, rest, rest, rest, rest,      \
	    slash, rest, rest, rest, rest)
#define NAME_ROW(digit, e, name, dollar, quote, rest)                                             \
	ROW(rest, rest, rest, rest, digit, e, name, dollar, rest, quote, rest, rest, rest, rest,  \
	    rest, rest, rest, rest)
#define NUMBER_ROW(sign)                                                                          \
	ROW(AGAIN(TOP), AGAIN(TOP), AGAIN(TOP), AGAIN(TOP), SKIP(NUMBER), SKIP(NUMBER_E),         \
	    SKIP(NUMBER), SKIP(NUMBER), SKIP(NUMBER), AGAIN(TOP), AGAIN(TOP), AGAIN(TOP), sign,   \
	    AGAIN(TOP), AGAIN(TOP), AGAIN(TOP), sign, AGAIN(TOP))
#define QUOTED_ROW(quote, dbl, back, escape, rest)                                                \
	ROW(rest, rest, rest, rest, rest, rest, rest, rest, rest, quote, dbl, back, rest, rest,   \
	    rest, escape, rest, rest)
#define OPERATOR_ROW(digit, dot, minus, star, rest)                                               \
	ROW(rest, rest, rest, rest, digit, rest, rest, rest, dot, rest, rest, rest, minus, rest,  \
	    star, rest, rest, rest)
#define COMMENT_ROW(newline, slash, star, rest)                                                   \
	ROW(rest, rest, rest, newline, rest, rest, rest, rest, rest, rest, rest, rest, rest,      \
	    slash, star, rest, rest, rest)

const struct norm_tables norm_tables = {
	.classes = {
		[' '] = NORM_BLANK,
		['\t'] = NORM_SPACE, ['\v'] = NORM_SPACE, ['\f'] = NORM_SPACE, ['\r'] = NORM_SPACE,
		['\n'] = NORM_NEWLINE,
		['0' ... '9'] = NORM_DIGIT,
		['A' ... 'D'] = NORM_NAME, ['E'] = NORM_E, ['F' ... 'Z'] = NORM_NAME,
		['a' ... 'd'] = NORM_NAME, ['e'] = NORM_E, ['f' ... 'z'] = NORM_NAME,
		['_'] = NORM_NAME, [0x80 ... 0xff] = NORM_NAME,
		['$'] = NORM_DOLLAR, ['.'] = NORM_DOT,
		['\''] = NORM_QUOTE, ['"'] = NORM_DOUBLE, ['`'] = NORM_BACK,
		['-'] = NORM_MINUS, ['/'] = NORM_SLASH, ['*'] = NORM_STAR, ['\\'] = NORM_ESCAPE,
		['+'] = NORM_PLUS,
		['('] = NORM_OPERATOR, [','] = NORM_OPERATOR, ['='] = NORM_OPERATOR,
		['<'] = NORM_OPERATOR, ['>'] = NORM_OPERATOR, ['%'] = NORM_OPERATOR,
		['|'] = NORM_OPERATOR,
	},
	.steps = {
		[NORM_TOP] = TOP_ROW(TOP, DASH),
		[NORM_TOP_SIGN] = TOP_ROW(TOP_SIGN, DASH_SIGN),
		[NORM_SCAN] = WHITE_ROW(RESTART(TOP), SKIP(SCAN_SLASH), SKIP(SCAN)),
		[NORM_SCAN_SLASH] = WHITE_ROW(RESTART(TOP), SKIP(SCAN_SLASH), SKIP(SCAN_SLASH)),
		[NORM_PATH] = OPERATOR_ROW(DIGITS(PATH_DIGITS), PUT(PATH), PUT(PATH), PUT(PATH),
			PUT(PATH)),
		[NORM_PATH_DIGITS] = OPERATOR_ROW(SKIP(PATH_DIGITS), PUT(PATH), PUT(PATH),
			PUT(PATH), PUT(PATH)),
		[NORM_WORD] = NAME_ROW(PUT(WORD), PUT(WORD), PUT(WORD), PUT(WORD), AGAIN(TOP),
			AGAIN(TOP)),
		[NORM_WORD_E] = NAME_ROW(PUT(WORD), PUT(WORD), PUT(WORD), PUT(WORD),
			LITERAL(ESTRING), AGAIN(TOP)),
		[NORM_NUMBER] = NUMBER_ROW(AGAIN(TOP)),
		[NORM_NUMBER_E] = NUMBER_ROW(SKIP(NUMBER)),
		[NORM_STRING] = QUOTED_ROW(SKIP(STRING_END), SKIP(STRING), SKIP(STRING),
			SKIP(STRING), SKIP(STRING)),
		[NORM_STRING_END] = QUOTED_ROW(SKIP(STRING), AGAIN(TOP), AGAIN(TOP), AGAIN(TOP),
			AGAIN(TOP)),
		[NORM_ESTRING] = QUOTED_ROW(SKIP(ESTRING_END), SKIP(ESTRING), SKIP(ESTRING),
			SKIP(ESTRING_ESCAPE), SKIP(ESTRING)),
		[NORM_ESTRING_ESCAPE] = QUOTED_ROW(SKIP(ESTRING), SKIP(ESTRING), SKIP(ESTRING),
			SKIP(ESTRING), SKIP(ESTRING)),
		[NORM_ESTRING_END] = QUOTED_ROW(SKIP(ESTRING), AGAIN(TOP), AGAIN(TOP), AGAIN(TOP),
			AGAIN(TOP)),
		/* A doubled quote counts as an end and a start: the same result. */
		[NORM_NAME_DOUBLE] = QUOTED_ROW(PUT(NAME_DOUBLE), PUT(TOP), PUT(NAME_DOUBLE),
			PUT(NAME_DOUBLE), PUT(NAME_DOUBLE)),
		[NORM_NAME_BACK] = QUOTED_ROW(PUT(NAME_BACK), PUT(NAME_BACK), PUT(TOP),
			PUT(NAME_BACK), PUT(NAME_BACK)),
		[NORM_DASH] = OPERATOR_ROW(AGAIN(TOP_SIGN), AGAIN(TOP_SIGN), PUT(LINE),
			AGAIN(TOP_SIGN), AGAIN(TOP_SIGN)),
		[NORM_DASH_SIGN] = OPERATOR_ROW(LITERAL(NUMBER), PUT(POINT), PUT(LINE),
			AGAIN(TOP_SIGN), AGAIN(TOP_SIGN)),
		[NORM_POINT] = OPERATOR_ROW(LITERAL(NUMBER), AGAIN(TOP), AGAIN(TOP), AGAIN(TOP),
			AGAIN(TOP)),
		[NORM_STROKE] = OPERATOR_ROW(AGAIN(TOP_SIGN), AGAIN(TOP_SIGN), AGAIN(TOP_SIGN),
			PUT(COMMENT), AGAIN(TOP_SIGN)),
		[NORM_LINE] = COMMENT_ROW(PUT(TOP), PUT(LINE), PUT(LINE), PUT(LINE)),
		[NORM_COMMENT] = COMMENT_ROW(PUT(COMMENT), PUT(COMMENT), PUT(COMMENT_STAR),
			PUT(COMMENT)),
		[NORM_COMMENT_STAR] = COMMENT_ROW(PUT(COMMENT), PUT(TOP_SIGN), PUT(COMMENT_STAR),
			PUT(COMMENT)),
		[NORM_TAG_FIRST] = NAME_ROW(PUT(WORD), PUT(TAG), PUT(TAG), LITERAL(BODY),
			AGAIN(TOP), AGAIN(TOP)),
		[NORM_TAG] = NAME_ROW(PUT(TAG), PUT(TAG), PUT(TAG), LITERAL(BODY), AGAIN(TOP),
			AGAIN(TOP)),
		[NORM_BODY] = NAME_ROW(SKIP(BODY), SKIP(BODY), SKIP(BODY), OPEN(BODY_TAG),
			SKIP(BODY), SKIP(BODY)),
		[NORM_BODY_TAG] = NAME_ROW(MATCH(BODY_TAG), MATCH(BODY_TAG), MATCH(BODY_TAG),
			MATCH(TOP), MATCH(BODY_TAG), MATCH(BODY_TAG)),
	},
};
/* clang-format on */

_Static_assert(NORM_STATES <= 1 << NORM_STATE_BITS, "a step has a state");
_Static_assert((NORM_MATCH + 1) << NORM_STATE_BITS <= 256, "a step is a byte");

/* In NORM_TOP and NORM_TOP_SIGN, the reader copies `used` to `mark` and `at` to `piece`. */
struct reader {
	const uint8_t *text;
	uint8_t *out;
	size_t at, used, mark, piece, tag;
	unsigned int state;
};

static void take(struct reader *r, uint8_t byte, enum norm_action action)
{
	switch (action) {
	case NORM_AGAIN:
		return;
	case NORM_RESTART:
		r->at = 0;
		return;
	case NORM_PUT:
		r->out[r->used++] = byte;
		break;
	case NORM_SKIP:
		break;
	case NORM_LITERAL:
		r->used = r->mark;
		r->out[r->used++] = '?';
		break;
	case NORM_DIGITS:
		r->out[r->used++] = 'N';
		break;
	case NORM_OPEN:
		r->tag = r->piece + 1;
		break;
	case NORM_MATCH:
		if (byte != r->text[r->tag++]) {
			r->state = NORM_BODY;
			return;
		}
		break;
	}
	r->at++;
}

size_t norm_text(const uint8_t *text, size_t length, uint8_t *out)
{
	struct reader r = {.text = text, .out = out, .state = NORM_SCAN};

	for (;;) {
		uint8_t step;

		if (r.state <= NORM_TOP_SIGN) {
			r.mark = r.used;
			r.piece = r.at;
		}
		if (r.at == length) {
			if (r.state != NORM_SCAN && r.state != NORM_SCAN_SLASH)
				return r.used;
			/* The text has no blank. */
			r.state = r.state == NORM_SCAN ? NORM_TOP : NORM_PATH;
			r.at = 0;
			continue;
		}
		step = norm_tables.steps[r.state][norm_tables.classes[text[r.at]]];
		r.state = step & NORM_STATE_MASK;
		take(&r, text[r.at], step >> NORM_STATE_BITS);
	}
}
