/* SPDX-License-Identifier: MIT */
/*
 * Names of arguments are replaced in an expression's text before it is parsed, so parsers need to
 * know only argN, and messages show argN.
 */
#include <ctype.h>
#include <string.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/nearest.h"
#include "libprobe/query/query.h"

static bool is_sized(const struct probe_arg_meaning *arg)
{
	return arg->kind == PROBE_ARG_SIZED_STRING || arg->kind == PROBE_ARG_SIZED_BYTES;
}

/* Returns true if the argument is only the length of another argument. */
static bool is_length(const struct probe_meaning *meaning, size_t index)
{
	for (size_t i = 0; i < meaning->arg_count; i++)
		if (is_sized(&meaning->args[i]) && meaning->args[i].length == index)
			return true;
	return false;
}

/* Returns the capture for an argument: a string or bytes if its type says so, else a number. */
static struct capture capture_of(size_t index, const struct probe_arg_meaning *arg)
{
	return (struct capture){.arg = (unsigned char)index,
		.is_string = arg->kind == PROBE_ARG_STRING || arg->kind == PROBE_ARG_SIZED_STRING,
		.steps = {{.offset = arg->offset}},
		.step_count = arg->offset > 0,
		.has_length = is_sized(arg),
		.length = is_sized(arg) ? arg->length : 0};
}

size_t meaning_captures(const struct probe_meaning *meaning, size_t arg_count,
	struct capture captures[CAPTURES_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < arg_count && i < CAPTURES_MAX; i++) {
		if (i >= meaning->arg_count)
			captures[count++] = (struct capture){.arg = (unsigned char)i};
		else if (!is_length(meaning, i) && !meaning->args[i].is_hidden)
			captures[count++] = capture_of(i, &meaning->args[i]);
	}
	return count;
}

size_t meaning_shown(const struct probe_meaning *meaning, const struct capture *capture)
{
	for (size_t i = ARCH_FUNCTION_ARGS; meaning && i < meaning->arg_count; i++) {
		const struct probe_arg_meaning *arg = &meaning->args[i];
		struct capture its = {.is_string = arg->kind == PROBE_ARG_STRING};
		const char *at = arg->place, *expected;

		if (!at)
			continue;
		expected =
			its.is_string ? operand_parse_address(&at, &its) : operand_parse(&at, &its);
		if (!expected && capture_is(&its, capture))
			return i;
	}
	/* The name is that of the argument, not of memory that it points to. */
	if (meaning && capture->arg < meaning->arg_count && capture->step_count) {
		struct capture its = capture_of(capture->arg, &meaning->args[capture->arg]);

		if (!capture_is(&its, capture))
			return UINT8_MAX;
	}
	return capture->arg;
}

size_t meaning_captures_all(const struct probe_meaning *meaning, size_t arg_count,
	struct capture captures[CAPTURES_MAX])
{
	size_t count = 0;

	for (; count < arg_count && count < CAPTURES_MAX; count++) {
		struct capture text = {0};

		if (count < meaning->arg_count)
			text = capture_of(count, &meaning->args[count]);
		text.beside = text.is_string;
		captures[count] = text.is_string || text.has_length
					  ? text
					  : (struct capture){.arg = (unsigned char)count};
	}
	return count;
}

size_t meaning_same(const struct probe_meaning *begin, const struct probe_meaning *meaning,
	struct capture captures[PROBE_SAME_MAX])
{
	size_t count = 0;

	for (size_t i = 0; begin && meaning && i < begin->same_count; i++) {
		bool is_number;
		int arg = catalogue_same_arg(meaning, begin->same[i], &is_number);
		struct capture number = {.arg = (unsigned char)arg};

		if (arg >= 0)
			captures[count++] =
				is_number ? number : capture_of((size_t)arg, &meaning->args[arg]);
	}
	return begin && count == begin->same_count ? count : 0;
}

/* ---- Words of a text -------------------------------------------------------------------- */

struct scanner {
	const char *at;
	bool in_str;   /* between the parentheses of str() or bytes() */
	bool of_begin; /* right after `begin.` */
};

/* A piece of the text: a word that can only be an argument's name, or anything else. */
struct piece {
	const char *text;
	size_t length;
	bool is_name;
	bool of_begin; /* the name belongs to the start event of a pair */
};

/* Returns the bytes of a quoted C constant, whose end quote may be missing. */
static size_t quoted_length(const char *at)
{
	size_t length = 1;

	while (at[length] && at[length] != *at)
		length += at[length] == '\\' && at[length + 1] ? 2 : 1;
	return length + (at[length] == *at);
}

static const char *skip_blanks(const char *at)
{
	while (*at == ' ' || *at == '\t')
		at++;
	return at;
}

static bool is_word(const struct piece *piece, const char *word)
{
	return strlen(word) == piece->length && strncmp(word, piece->text, piece->length) == 0;
}

/* Returns true if `*` and `)` follow, so that the word before them is a type, as in `(u64 *)`. */
static bool ends_type(const char *at)
{
	at = skip_blanks(at);
	return *at == '*' && *skip_blanks(at + 1) == ')';
}

/* Finds the next piece. Returns false at the end of the text. */
static bool next_piece(struct scanner *s, struct piece *ret)
{
	const char *at = s->at;
	size_t length = expr_word_length(at);

	if (!*at)
		return false;
	*ret = (struct piece){.text = at, .length = length ? length : 1};
	if (length && !isdigit((unsigned char)*at)) {
		bool is_call = *skip_blanks(at + length) == '(';

		ret->is_name =
			!is_call && !ends_type(at + length) && !catalogue_is_reserved(at, length);
		ret->of_begin = s->of_begin;
		if (ret->is_name)
			ret->length += expr_members_length(at + length);
		s->in_str |= is_call && (is_word(ret, "str") || is_word(ret, "bytes"));
		s->of_begin = is_word(ret, "begin") || (s->of_begin && (is_call || s->in_str));
	} else if (*at == '"' || *at == '\'') {
		ret->length = quoted_length(at);
	} else if (*at == ')') {
		s->in_str = s->of_begin = false;
	}
	s->at += ret->length;
	return true;
}

bool meaning_names_used(const char *text)
{
	struct scanner scanner = {.at = text};
	struct piece piece;

	while (next_piece(&scanner, &piece))
		if (piece.is_name)
			return true;
	return false;
}

struct probe_error *meaning_want(const struct probe_catalogue *catalogue, const char *text)
{
	struct scanner scanner = {.at = text};
	struct probe_error *error = NULL;
	struct piece piece;

	while (!error && next_piece(&scanner, &piece))
		if (piece.is_name && expr_word_length(piece.text) < piece.length)
			error = catalogue_want(catalogue, piece.text, piece.length);
	return error;
}

bool meaning_begin_used(const char *text)
{
	struct scanner scanner = {.at = text};
	struct piece piece;

	while (next_piece(&scanner, &piece))
		if (piece.is_name && piece.of_begin)
			return true;
	return false;
}

/* ---- Replacing -------------------------------------------------------------------------- */

static void put_arg(struct buffer *out, size_t index)
{
	buffer_string(out, "arg");
	buffer_unsigned(out, index);
}

/* Writes the address of an argument's text: argN, or argN + OFFSET. */
static void put_place(struct buffer *out, size_t index, const struct probe_arg_meaning *arg)
{
	if (arg->place) {
		buffer_string(out, arg->place);
		return;
	}
	put_arg(out, index);
	if (arg->offset)
		buffer_print(out, " + %ju", (uintmax_t)arg->offset);
}

static void put_lengthy(struct buffer *out, size_t index, const struct probe_arg_meaning *arg)
{
	put_place(out, index, arg);
	if (is_sized(arg)) {
		buffer_char(out, ',');
		put_arg(out, arg->length);
	}
}

/*
 * Writes the replacement of a name, with its length in str() and bytes() unless the user gives one.
 */
static void put_name(struct buffer *out, const struct scanner *s,
	const struct probe_meaning *meaning, size_t index)
{
	const struct probe_arg_meaning *arg = &meaning->args[index];

	if (s->in_str && *skip_blanks(s->at) == ')') {
		put_lengthy(out, index, arg);
	} else if (s->in_str || (arg->kind != PROBE_ARG_STRING && !is_sized(arg))) {
		put_place(out, index, arg);
	} else {
		buffer_string(out, arg->kind == PROBE_ARG_SIZED_BYTES ? "bytes(" : "str(");
		put_lengthy(out, index, arg);
		buffer_char(out, ')');
	}
}

static bool put_number(
	struct buffer *out, const struct probe_meaning *meaning, const struct piece *piece)
{
	for (size_t i = 0; i < meaning->arg_count; i++) {
		const struct probe_arg_meaning *arg = &meaning->args[i];

		for (size_t k = 0; k < arg->word_count; k++) {
			if (!is_word(piece, arg->words[k].word))
				continue;
			buffer_signed(out, arg->words[k].number);
			return true;
		}
	}
	return false;
}

static bool put_piece(struct buffer *out, const struct scanner *s,
	const struct probe_meaning *meaning, const struct piece *piece)
{
	if (!piece->is_name) {
		buffer_bytes(out, piece->text, piece->length);
		return true;
	}
	for (size_t i = 0; meaning && i < meaning->arg_count; i++) {
		if (!is_word(piece, meaning->args[i].name))
			continue;
		put_name(out, s, meaning, i);
		return true;
	}
	return meaning && put_number(out, meaning, piece);
}

/*
 * Returns an error such as "the filter 'lxd > 1': there is no argument 'lxd', the probe has lxid;
 * the nearest is 'lxid'".
 */
static struct probe_error *no_name(const char *what, const char *text,
	const struct probe_meaning *meaning, const struct piece *piece)
{
	struct nearest nearest = {0};
	AUTO(buffer_deinit) struct buffer list = {0};
	bool is_member = expr_word_length(piece->text) < piece->length;
	char typed[41] = "";

	memcpy(typed, piece->text, piece->length < 40 ? piece->length : 40);
	for (size_t i = 0; meaning && i < meaning->arg_count; i++) {
		const struct probe_arg_meaning *arg = &meaning->args[i];

		if (arg->is_hidden)
			continue;
		buffer_string(&list, list.length ? ", " : "");
		buffer_string(&list, arg->name);
		nearest_consider(&nearest, typed, arg->name);
		for (size_t k = 0; k < arg->word_count; k++)
			nearest_consider(&nearest, typed, arg->words[k].word);
	}
	buffer_char(&list, '\0');
	return list.no_memory
		       ? probe_error_no_memory()
		       : probe_error_new(PROBE_ERROR_USAGE,
				 "%s '%s': there is no argument '%s', the probe has %s%s%s%s", what,
				 text, typed,
				 list.length > 1 ? list.data : "none whose name is known",
				 is_member	? "; members are read of arguments, not of "
						  "results, and no arrays, bit fields or "
						  "floating ones"
				 : nearest.name ? "; the nearest is '"
						: "",
				 nearest.name && !is_member ? nearest.name : "",
				 nearest.name && !is_member ? "'" : "");
}

struct probe_error *meaning_replace(const char *what, const char *text,
	const struct probe_meaning *meaning, const struct probe_meaning *begin, const char *absent,
	char **ret)
{
	struct scanner scanner = {.at = text};
	AUTO(buffer_deinit) struct buffer out = {0};
	struct piece piece;

	*ret = NULL;
	while (next_piece(&scanner, &piece)) {
		const struct probe_meaning *its = piece.of_begin ? begin : meaning;

		/* A word of the begin's arguments alone may be compared with one of them. */
		if (put_piece(&out, &scanner, its, &piece) ||
			(begin && put_number(&out, begin, &piece)))
			continue;
		if (absent && !piece.of_begin) {
			buffer_string(&out, absent);
			continue;
		}
		return no_name(what, text, its, &piece);
	}
	buffer_char(&out, '\0');
	if (!out.no_memory)
		*ret = strdup(out.data);
	return *ret ? NULL : probe_error_no_memory();
}
