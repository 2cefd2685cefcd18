/* SPDX-License-Identifier: MIT */
/*
 * Parses the argument string of a note.
 *
 * <sys/sdt.h> lets the compiler print each argument as an operand of inline assembly, preceded by
 * the size of the value:
 *
 *	-4@%eax 8@16(%rsp) 8f@%xmm0 4@$-1	x86-64
 *	-4@w0 8@[sp, 16] 8f@d0 4@-1		aarch64
 *
 *	args    = { blank } [ item { blank { blank } item } ]
 *	item    = [ size "@" ] operand
 *	size    = [ "-" ] digit { digit } [ "f" ]	"-": signed, "f": float
 *
 * The operand follows the compiler's and the assembler's syntax, so the string is ambiguous: blanks
 * separate items but also occur inside brackets. This parser ends an item at the first blank
 * outside brackets.
 *
 * The input is untrusted. No function here recurses deeper than DEPTH_MAX. Each item is read a
 * constant number of times, and once more to the end of the string if its brackets do not close. An
 * argument string has at most ARCH_ARGS_MAX items, so the time is linear in the length of the
 * string.
 *
 * Sources: SystemTap, "User Space Probe Implementation" and <sys/sdt.h>; GNU as manual,
 * "Expressions" and "Symbol Names".
 */
#include <string.h>

#include "arch/spec.h"

enum {
	DEPTH_MAX = 16, /* nested parentheses and signs of an expression */
	SIZE_DEFAULT = 8
};

/* Without the locale: the characters are bytes of a file. */
static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char to_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_word(char c)
{
	char lower = to_lower(c);

	return (lower >= 'a' && lower <= 'z') || is_digit(c) || c == '_' || c == '.' || c == '$' ||
	       c == '@' || (unsigned char)c >= 0x80;
}

/* ---- Lexer ---------------------------------------------------------------- */

char spec_peek(struct spec_text *text)
{
	while (text->at < text->end && is_blank(*text->at))
		text->at++;
	return text->at < text->end ? *text->at : '\0';
}

bool spec_take(struct spec_text *text, char c)
{
	if (spec_peek(text) != c)
		return false;
	text->at++;
	return true;
}

size_t spec_word(struct spec_text *text, const char **ret)
{
	spec_peek(text);
	*ret = text->at;
	while (text->at < text->end && is_word(*text->at))
		text->at++;
	return (size_t)(text->at - *ret);
}

bool spec_word_is(const char *word, size_t length, const char *name)
{
	size_t i;

	for (i = 0; i < length && name[i]; i++) {
		if (to_lower(word[i]) != name[i])
			return false;
	}
	return i == length && !name[i];
}

int spec_word_number(const char *word, size_t length, size_t from, int limit)
{
	int number = 0;
	size_t i;

	if (from >= length || length - from > 2)
		return -1;
	if (word[from] == '0' && length - from > 1)
		return -1;
	for (i = from; i < length; i++) {
		if (!is_digit(word[i]))
			return -1;
		number = number * 10 + (word[i] - '0');
	}
	return number < limit ? number : -1;
}

/* Returns a digit's value up to f; 16 for other characters. */
static unsigned int digit_value(char c)
{
	char lower = to_lower(c);

	if (is_digit(c))
		return (unsigned int)(c - '0');
	if (lower >= 'a' && lower <= 'f')
		return (unsigned int)(lower - 'a' + 10);
	return 16;
}

bool spec_number(struct spec_text *text, uint64_t *ret)
{
	unsigned int base = 10;
	uint64_t value = 0;
	const char *digits;

	if (!is_digit(spec_peek(text)))
		return false;
	if (*text->at == '0') {
		base = 8;
		if (text->end - text->at >= 2 && to_lower(text->at[1]) == 'x') {
			base = 16;
			text->at += 2;
		}
	}
	for (digits = text->at; text->at < text->end; text->at++) {
		unsigned int digit = digit_value(*text->at);

		if (digit >= base)
			break;
		if (value > (UINT64_MAX - digit) / base)
			return false;
		value = value * base + digit;
	}
	if (text->at == digits || (text->at < text->end && is_word(*text->at)))
		return false;
	*ret = value;
	return true;
}

/* ---- Constant expressions ------------------------------------------------- */

/* For the sum of two values in range, and the product of two int64_t. */
typedef __int128 wide;

struct term {
	wide value;
	const char *symbol;
	size_t symbol_length;
};

static bool in_range(wide value)
{
	return value >= INT64_MIN && value <= (wide)UINT64_MAX;
}

/*
 * Returns true if the symbol has a relocation (`sym@GOTPCREL`), so that the operand has another
 * address, such as that of its GOT slot. Any other `@` begins a version, a part of the name.
 */
static bool has_relocation(const char *symbol, size_t length)
{
	static const char *const names[] = {"plt", "pltoff", "got", "gotplt", "gotoff", "gotpcrel",
		"gotpcrel_norelax", "gottpoff", "gotntpoff", "indntpoff", "tlsgd", "tlsld",
		"tlsldm", "tlsdesc", "tlscall", "tpoff", "ntpoff", "dtpoff", "size", "secrel32"};
	const char *at = memchr(symbol, '@', length);
	size_t i;

	if (!at)
		return false;
	at++;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (spec_word_is(at, length - (size_t)(at - symbol), names[i]))
			return true;
	}
	return false;
}

static bool take_sum(struct spec_text *text, unsigned int depth, struct term *ret);

static bool take_primary(struct spec_text *text, unsigned int depth, struct term *ret)
{
	char c = spec_peek(text);
	uint64_t number;

	*ret = (struct term){0};
	if (c == '(') {
		text->at++;
		return take_sum(text, depth + 1, ret) && spec_take(text, ')');
	}
	if (is_digit(c)) {
		if (!spec_number(text, &number))
			return false;
		ret->value = number;
		return true;
	}
	/* `$` and `@` may be in a name, but do not begin one. */
	if (c == '$' || c == '@')
		return false;
	ret->symbol_length = spec_word(text, &ret->symbol);
	return ret->symbol_length && !has_relocation(ret->symbol, ret->symbol_length);
}

static bool take_unary(struct spec_text *text, unsigned int depth, struct term *ret)
{
	char c = spec_peek(text);

	if (depth > DEPTH_MAX)
		return false;
	if (c != '-' && c != '+' && c != '~')
		return take_primary(text, depth, ret);
	text->at++;
	if (!take_unary(text, depth + 1, ret))
		return false;
	if (c == '+')
		return true;
	if (ret->symbol)
		return false;
	ret->value = c == '-' ? -ret->value : -ret->value - 1;
	return in_range(ret->value);
}

static bool take_product(struct spec_text *text, unsigned int depth, struct term *ret)
{
	struct term factor;

	if (!take_unary(text, depth, ret))
		return false;
	while (spec_take(text, '*')) {
		if (!take_unary(text, depth, &factor) || ret->symbol || factor.symbol)
			return false;
		if (ret->value > INT64_MAX || factor.value > INT64_MAX)
			return false;
		ret->value *= factor.value;
		if (!in_range(ret->value))
			return false;
	}
	return true;
}

static bool take_sum(struct spec_text *text, unsigned int depth, struct term *ret)
{
	struct term term;
	char c;

	if (!take_product(text, depth, ret))
		return false;
	while ((c = spec_peek(text)) == '+' || c == '-') {
		text->at++;
		if (!take_product(text, depth, &term))
			return false;
		if (term.symbol && (c == '-' || ret->symbol))
			return false;
		if (term.symbol) {
			ret->symbol = term.symbol;
			ret->symbol_length = term.symbol_length;
		}
		ret->value += c == '+' ? term.value : -term.value;
		if (!in_range(ret->value))
			return false;
	}
	return true;
}

bool spec_sum(struct spec_text *text, struct spec_sum *ret)
{
	struct term term;

	if (!take_sum(text, 0, &term))
		return false;
	ret->value = (int64_t)(uint64_t)term.value;
	ret->symbol = term.symbol;
	ret->symbol_length = term.symbol_length;
	return true;
}

void spec_set(struct arch_arg *arg, enum arch_arg_kind kind, const struct spec_sum *sum)
{
	arg->kind = kind;
	arg->disp = sum->value;
	arg->symbol = sum->symbol;
	arg->symbol_length = sum->symbol_length;
}

/* ---- Items ---------------------------------------------------------------- */

/* Consumes `N@`, `-N@` or `Nf@`. Returns false, and consumes nothing, for anything else. */
static bool take_size(struct spec_text *text, struct arch_arg *arg)
{
	const char *at = text->at;
	bool is_signed = false, is_float = false;
	uint64_t size = 0;
	const char *digits;

	if (at < text->end && *at == '-') {
		is_signed = true;
		at++;
	}
	for (digits = at; at < text->end && is_digit(*at); at++) {
		size = size * 10 + (uint64_t)(*at - '0');
		if (size > UINT32_MAX)
			return false;
	}
	if (at == digits || !size)
		return false;
	if (at < text->end && *at == 'f') {
		is_float = true;
		at++;
	}
	if (at == text->end || *at != '@')
		return false;
	text->at = at + 1;
	arg->size = (uint32_t)size;
	arg->is_signed = is_signed;
	arg->is_float = is_float;
	arg->has_size = true;
	return true;
}

/*
 * Does the blank before `next` belong to the item? Intel syntax (-masm=intel) is not understood,
 * but has blanks outside brackets (`DWORD PTR [rax]`, `OFFSET FLAT:sym`), which must not split an
 * argument and renumber later ones.
 */
static bool joins(const char *item, const char *blank, const char *next)
{
	const char *end = next + (*next == '-');
	const char *word = blank;
	struct spec_text text;
	struct arch_arg ignored;

	while (is_word(*end))
		end++;
	text = (struct spec_text){next, end};
	/* With a size of its own it is another argument. */
	if (take_size(&text, &ignored))
		return false;
	while (word > item && is_word(word[-1]) && word[-1] != '@')
		word--;
	return spec_word_is(word, (size_t)(blank - word), "offset") ||
	       spec_word_is(word, (size_t)(blank - word), "ptr") ||
	       spec_word_is(next, (size_t)(end - next), "ptr");
}

/* Returns an item's end: at the first blank outside brackets, if they close. */
static const char *item_end(const char *item)
{
	const char *first_blank = NULL;
	const char *at, *next;
	size_t depth = 0;

	for (at = item; *at; at++) {
		if (*at == '(' || *at == '[')
			depth++;
		else if ((*at == ')' || *at == ']') && depth)
			depth--;
		if (!is_blank(*at))
			continue;
		if (!first_blank)
			first_blank = at;
		if (depth)
			continue;
		for (next = at; is_blank(*next); next++)
			;
		if (!joins(item, at, next))
			return at;
		at = next - 1;
	}
	return depth && first_blank ? first_blank : at;
}

static void parse_item(
	const char *item, const char *end, spec_operand_fn *operand, struct arch_arg *ret)
{
	struct spec_text text = {item, end};
	struct arch_arg unknown = {.kind = ARCH_ARG_UNKNOWN,
		.size = SIZE_DEFAULT,
		.base = ARCH_REG_NONE,
		.index = ARCH_REG_NONE,
		.scale = 1,
		.spec = item,
		.spec_length = (size_t)(end - item)};

	take_size(&text, &unknown);
	*ret = unknown;
	if (!operand(&text, ret) || spec_peek(&text)) {
		*ret = unknown;
		return;
	}
	if (!ret->has_size && ret->width)
		ret->size = ret->width;
}

size_t spec_parse_args(
	const char *args, spec_operand_fn *operand, struct arch_arg ret[ARCH_ARGS_MAX])
{
	size_t count = 0;
	const char *end;

	for (; count < ARCH_ARGS_MAX; args = end) {
		while (is_blank(*args))
			args++;
		if (!*args)
			break;
		end = item_end(args);
		parse_item(args, end, operand, &ret[count++]);
	}
	return count;
}
